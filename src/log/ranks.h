/* log/ranks.h - which ranks have written a file of a kind beside that of rank 0. */
#ifndef PLUMB_LOG_RANKS_H
#define PLUMB_LOG_RANKS_H

#include "plumb/log.h"

typedef struct plumb_ranks {
    uint32_t at[PLUMB_MOST_RANKS - 1]; /* ascending, from 1 on */
    size_t count;
} plumb_ranks;

/* Files PREFIX%05dSUFFIX of rank 1 and above; of more than there is room for, the lowest ranks.
 * Where there is no directory there are none.
 */
plumb_status plumb_ranks_find(const char *run_dir, const char *prefix, const char *suffix,
                              plumb_ranks *ranks, plumb_error *why);

/* Fresh path of that file; NULL when out of memory. */
char *plumb_rank_path(const char *run_dir, const char *prefix, uint32_t rank,
                      const char *suffix);

#endif
