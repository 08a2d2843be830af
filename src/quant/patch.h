/* quant/patch.h - one copy of a matrix being made, a patch of its source at a time. */
#ifndef PLUMB_QUANT_PATCH_H
#define PLUMB_QUANT_PATCH_H

#include "quant/grain.h"
#include "quant/scale.h"

/* Rows of a patch, and columns where two copies are made of more than twice as many: multiples of
 * every block's length.
 */
enum { PLUMB_PATCH = PLUMB_BLOCK, PLUMB_PATCH_WIDTH = 512 };

typedef struct plumb_patch {
    size_t row, row_end, col, col_end; /* row and col are multiples of every length */
} plumb_patch;

/* Where a copy comes from, what it becomes and by which rule. */
typedef struct plumb_copy {
    const plumb_spec *spec; /* in normal form */
    const plumb_source *source;
    plumb_blocks blocks;
    bool turned;    /* blocks run down columns */
    bool early;     /* d holds amax, found before the casts, until plumb_copy_end */
    plumb_cast how; /* without scale, decode and first */
    plumb_block_scale fixed; /* of every rule but CURRENT */
    float tensor_scale;      /* NVFP4: S */
    unsigned char *codes;
    float *d; /* NULL: none */
    plumb_counts counts;
    plumb_spectrum *spectrum;
} plumb_copy;

/* Says how wide patches will be.  Blocks longer than a patch get their amax beforehand. */
void plumb_copy_begin(plumb_copy *copy, size_t patch_width);

/* Reads the amax of these rows, where `early` asks for it. */
void plumb_copy_measure(const plumb_copy *copy, size_t row, size_t row_end);

void plumb_copy_patch(plumb_copy *copy, const plumb_patch *patch);

/* What is left when all patches are done. */
void plumb_copy_end(const plumb_copy *copy);

/* Largest |x| of n elements of a row. */
float plumb_source_amax(const plumb_source *source, size_t row, size_t col, size_t n);

#endif
