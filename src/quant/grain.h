/* quant/grain.h - the blocks that share a scale: how high and wide they are, how many there
 * are, and whether they depend on the axis that a product contracts.  One table for all grains.
 */
#ifndef PLUMB_QUANT_GRAIN_H
#define PLUMB_QUANT_GRAIN_H

#include "plumb/quant.h"

/* Element (row, col) has the scale (row / height) * across + col / width. */
typedef struct plumb_blocks {
    size_t height, width; /* of one block, at least 1 */
    size_t down, across;  /* how many lie below and beside each other */
} plumb_blocks;

bool plumb_grain_exists(plumb_grain grain);

/* True when the blocks of the two contraction axes differ. */
bool plumb_grain_turns(plumb_grain grain);

/* The blocks of a matrix; of a grain that does not exist, those of TENSOR. */
plumb_blocks plumb_blocks_of(plumb_grain grain, bool along_rows, size_t rows, size_t cols);
plumb_blocks plumb_blocks_in(const plumb_quantized *q);

#endif
