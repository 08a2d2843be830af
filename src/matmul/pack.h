/* matmul/pack.h - operands as the micro-kernels want them, and their scales by K block.
 *
 * A panel is a range of outer indices times a range of K.  Packing decodes codes to fp32
 * and pads: K with +0 to a multiple of 32, the outer index with anything (what it computes
 * is never stored).
 */
#ifndef PLUMB_MATMUL_PACK_H
#define PLUMB_MATMUL_PACK_H

#include "matmul/micro.h"

typedef struct plumb_panel {
    size_t outer, outer_count; /* first outer index, and how many */
    size_t k, k_count;         /* first K, and how many */
} plumb_panel;

/* Outer size and K of an operand. */
size_t plumb_operand_outer(const plumb_operand *operand);
size_t plumb_operand_depth(const plumb_operand *operand);

/* Length along K of the blocks that have a scale of their own; 0 without. */
size_t plumb_operand_block(const plumb_operand *operand);

/* The code of element (outer, k). */
const void *plumb_operand_element(const plumb_operand *operand, size_t outer, size_t k);

/* d of element (outer, k); 1 without.  d_tensor of an nvfp4 operand; 1 for others. */
float plumb_operand_scale(const plumb_operand *operand, size_t outer, size_t k);
float plumb_operand_tensor_scale(const plumb_operand *operand);

/* Where the scales of a product enter: the rules of plumb/matmul.h. */
typedef struct plumb_scaling {
    size_t block; /* K of one partial sum; 0: all of it */
    bool at_join; /* da * db when a block is joined (else 1) */
    bool at_end;  /* da * db once, after all of K */
    bool tensor;  /* then the tensor scales of nvfp4 */
    bool inside;  /* block scales are part of the unit: MX ones as exponents ... */
    bool chunks;  /* ... nvfp4 ones with the exact sums of 16 */
} plumb_scaling;

plumb_scaling plumb_scaling_of(const plumb_accumulator *how, const plumb_operand *a,
                               const plumb_operand *b);

/* The micro-kernel, or the nearest row above it that takes the format: the first takes all. */
const plumb_micro *plumb_micro_for(const plumb_micro *micro, const plumb_operand *operand);

/* Rows of PLUMB_MICRO_LD floats, K contiguous; slivers of nr outer indices, each [padded K][nr]:
 * by the copy and turn of the micro-kernel.
 */
plumb_micro_pack plumb_pack_rows, plumb_pack_slivers;

/* d of each outer index of the panel, for the K block that holds panel->k; 1 without. */
void plumb_pack_scales(const plumb_operand *operand, const plumb_panel *panel, float *d);

/* Scales of a panel: that of outer index i and block n of K is d[n * stride + i]. */
typedef struct plumb_scales {
    float *d;
    size_t stride, blocks, count; /* blocks along K, outer indices */
} plumb_scales;

/* The same for each block of so many K, from panel->k on; d has the room. */
void plumb_pack_block_scales(const plumb_operand *operand, const plumb_panel *panel,
                             size_t block, plumb_scales *scales);

/* x rounded up to a multiple of step. */
static inline size_t plumb_round_up(size_t x, size_t step)
{
    return (x + step - 1) / step * step;
}

/* Chains of a panel of k_count, and what one sliver of so many takes. */
static inline size_t plumb_chains_in(size_t k_count)
{
    return (k_count + PLUMB_MICRO_CHAIN - 1) / PLUMB_MICRO_CHAIN;
}

static inline size_t plumb_sliver_floats(const plumb_micro *micro, size_t chains)
{
    return chains * micro->chain * micro->nr;
}

#endif
