/* tiles.h - operands for matrix instructions, the same on a machine with the GPU and beside the
 * model: every byte follows from the number of the operation and that of the tile.
 *
 * A tile is 64 rows of A, 8 rows of B and 64 x 8 values of C: 512 results.  Rows have `steps`
 * times 32 bytes, one step being one instruction.
 */
#ifndef TESTS_MATMUL_HARDWARE_TILES_H
#define TESTS_MATMUL_HARDWARE_TILES_H

#include "codes.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ROWS = 64, COLS = 8, RESULTS = ROWS * COLS, STEP = 32, MAX_STEPS = 128 };

typedef struct operation {
    bool mma; /* mma.sync, else wgmma */
    tile_format a, b;
    bool half; /* fp16 results */
} operation;

enum { OPERATIONS = 24 }; /* the first half wgmma */
extern const operation tile_operations[OPERATIONS];

typedef enum tile_kind {
    HAND,     /* cases of tests/matmul/hand.csv, on the diagonal; they come first */
    INTEGERS, /* small, exact in every order: tells whether operands lie where they should */
    FULL,     /* any finite code */
    NEAR,     /* around 1 */
    ZEROS,    /* one third are zeros of either sign */
    SUBNORMAL,
    SAME_SIGN,
    SPREAD,  /* exponents from 2^-7 to 2^7 */
    CANCEL,  /* most products in pairs that cancel, or one against C */
    SPARSE,  /* one to six notable codes */
    SPECIAL, /* infinities and NaNs strewn in */
    LARGE,
    TINY,      /* products around the least results */
    FLOOR,     /* some equal products around the least results */
    LOW_BITS,  /* tf32: the 13 bits that it has not */
    TIES,      /* one product about the least result, and some far below it */
    FP16_TIES, /* odd multiples of 2^-25, and some products of 2^-48 and more */
    KINDS
} tile_kind;

extern const char *const tile_kind_names[KINDS];

/* c holds bits: of fp32, or of fp16 in the low half. */
typedef struct tile {
    tile_kind kind;
    int steps;
    uint8_t a[ROWS * STEP * MAX_STEPS], b[COLS * STEP * MAX_STEPS];
    uint32_t c[RESULTS];
} tile;

int tile_count(void);
void tile_fill(int operation_index, int index, tile *t);

/* FNV-1a over bytes. */
static inline uint64_t hash_start(void)
{
    return 0xcbf29ce484222325u;
}
void hash_bytes(uint64_t *hash, const void *bytes, size_t n);

/* Goes over all operands of a tile. */
void hash_operands(uint64_t *hash, const tile *t);

#ifdef __cplusplus
}
#endif
#endif
