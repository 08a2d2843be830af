/* The files that ranks above 0 write.  The directory says which there are: a run declares no more
 * than a number, and asking for each name would cost a network file system a question a rank.
 */
#include "log/ranks.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "plumb/file.h"

enum { DIGITS = 5, NAMES = 100000 };

/* The rank that a name stands for; 0 if it is no such name. */
static uint32_t rank_of(const char *name, const char *prefix, const char *suffix)
{
    const size_t before = strlen(prefix);
    uint32_t rank = 0;

    if (strlen(name) != before + DIGITS + strlen(suffix) ||
        strncmp(name, prefix, before) != 0 || strcmp(name + before + DIGITS, suffix) != 0)
        return 0;
    for (size_t i = before; i < before + DIGITS; i++) {
        if (name[i] < '0' || name[i] > '9')
            return 0;
        rank = 10 * rank + (uint32_t)(name[i] - '0');
    }
    return rank;
}

plumb_status plumb_ranks_find(const char *run_dir, const char *prefix, const char *suffix,
                              plumb_ranks *ranks, plumb_error *why)
{
    bool *there = calloc(NAMES, sizeof *there);
    DIR *const directory = there == NULL ? NULL : opendir(run_dir);
    const struct dirent *entry;

    ranks->count = 0;
    if (there == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
    while (directory != NULL && (entry = readdir(directory)) != NULL)
        there[rank_of(entry->d_name, prefix, suffix)] = true;
    if (directory != NULL)
        closedir(directory);
    for (uint32_t rank = 1; rank < NAMES && ranks->count < PLUMB_MOST_RANKS - 1; rank++)
        if (there[rank])
            ranks->at[ranks->count++] = rank;
    free(there);
    return PLUMB_OK;
}

char *plumb_rank_path(const char *run_dir, const char *prefix, uint32_t rank,
                      const char *suffix)
{
    char name[64];

    plumb_print(name, sizeof name, "%s%05u%s", prefix, (unsigned)rank, suffix);
    return plumb_path_join(run_dir, name);
}
