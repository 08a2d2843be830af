/* log/pls.h - the layout of .pls files (docs/run-contract.md has it in full).
 *
 *   header   "PLUMBPLS"  version u32  length u32  crc u32   text (JSON: sites, columns)
 *   chunk    length u32  crc u32  rows u32  0 u32  first step u64  last step u64   columns
 *
 * Little-endian.  length counts the bytes behind the fixed part; the crc of a chunk covers
 * everything behind itself, that of the header the text.
 */
#ifndef PLUMB_LOG_PLS_H
#define PLUMB_LOG_PLS_H

#include "plumb/log.h"

enum {
    PLS_VERSION = 1,
    PLS_HEADER = 20,
    PLS_CHUNK = 32,
    PLS_MOST_SITES = 100000,
};
#define PLS_MAGIC       "PLUMBPLS"
#define PLS_SUFFIX      ".pls"
#define PLS_MOST_HEADER ((size_t)64 << 20)
#define PLS_MOST_CHUNK  ((size_t)64 << 20)
#define PLS_MOST_FILE   ((size_t)4 << 30)
#define PLS_MOST_ROWS   ((size_t)50000000) /* of all ranks */

/* A column is a field of a row in memory. */
typedef struct plumb_column {
    const char *name;
    const char *type; /* "u64", "u32", "i32", "f32" */
    size_t offset, width;
} plumb_column;

/* Files of this layout, one a rank.  Their rows in memory begin with a plumb_sample. */
typedef struct plumb_pls {
    const char *prefix; /* of their names: digits of the rank and PLS_SUFFIX follow */
    const plumb_column *columns;
    size_t column_count;
    size_t row_size; /* in memory */
} plumb_pls;

extern const plumb_pls plumb_pls_samples, plumb_pls_histograms;

/* A plumb_samples or plumb_histograms, by the size of its rows. */
typedef struct plumb_pls_table {
    char **site_names;
    size_t site_count;
    void *rows;
    size_t count;
    bool torn;
} plumb_pls_table;

/* samples_read.c: the rows of one file as they stand there. */
plumb_status plumb_pls_read(const char *run_dir, const plumb_pls *pls, uint32_t rank,
                            plumb_pls_table *table, plumb_error *why);

static inline void plumb_put_u32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static inline void plumb_put_u64(unsigned char *at, uint64_t value)
{
    plumb_put_u32(at, (uint32_t)value);
    plumb_put_u32(at + 4, (uint32_t)(value >> 32));
}

static inline uint32_t plumb_get_u32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
           (uint32_t)at[3] << 24;
}

static inline uint64_t plumb_get_u64(const unsigned char *at)
{
    return plumb_get_u32(at) | (uint64_t)plumb_get_u32(at + 4) << 32;
}

#endif
