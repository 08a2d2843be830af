/* scratch.h - a directory of its own for a test, and files in it by plain stdio.
 *
 *   scratch_make();                      once at the start
 *   scratch_put("a/b", text, size);      a file with these bytes; the folder must exist
 *   scratch_at("a/b")                    its path (a few are kept at a time)
 *   scratch_remove();                    once at the end
 */
#ifndef PLUMB_SCRATCH_H
#define PLUMB_SCRATCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char scratch_directory[256];

static inline const char *scratch_at(const char *name)
{
    static char paths[8][512];
    static int turn;
    char *path = paths[turn++ & 7];

    snprintf(path, sizeof paths[0], "%s/%s", scratch_directory, name);
    return path;
}

static inline void scratch_make(void)
{
    const char *base = getenv("TMPDIR");

    snprintf(scratch_directory, sizeof scratch_directory, "%s/plumb-test-XXXXXX",
             base != NULL ? base : "/tmp");
    if (mkdtemp(scratch_directory) == NULL) {
        perror(scratch_directory);
        exit(1);
    }
}

/* Removed first: rewriting in place makes some file systems sync, which costs milliseconds. */
static inline void scratch_put(const char *name, const void *data, size_t size)
{
    remove(scratch_at(name));
    FILE *file = fopen(scratch_at(name), "wb");

    if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        perror(scratch_at(name));
        exit(1);
    }
}

static inline void scratch_text(const char *name, const char *text)
{
    scratch_put(name, text, strlen(text));
}

static inline void scratch_append(const char *name, const char *text)
{
    FILE *file = fopen(scratch_at(name), "ab");

    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
        perror(scratch_at(name));
        exit(1);
    }
}

/* The whole file with a 0 behind it, and its size; free(). */
static inline char *scratch_get(const char *name, size_t *size)
{
    FILE *file = fopen(scratch_at(name), "rb");
    char *data = malloc(1 << 20);

    if (file == NULL || data == NULL) {
        free(data);
        return NULL;
    }
    *size = fread(data, 1, (1 << 20) - 1, file);
    data[*size] = 0;
    fclose(file);
    return data;
}

static inline void scratch_folder(const char *name)
{
    mkdir(scratch_at(name), 0777);
}

static inline void scratch_remove(void)
{
    char command[600];

    snprintf(command, sizeof command, "rm -rf '%s'", scratch_directory);
    if (system(command) != 0)
        perror(command);
}

#endif
