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

/* True when the operand has its own scale for every 128 of K. */
bool plumb_operand_blocked(const plumb_operand *operand);

/* Rows of PLUMB_MICRO_LD floats, K contiguous. */
void plumb_pack_rows(const plumb_micro *micro, const plumb_operand *operand,
                     const plumb_panel *panel, float *rows);

/* Slivers of nr outer indices, each [padded K][nr]. */
void plumb_pack_slivers(const plumb_micro *micro, const plumb_operand *operand,
                        const plumb_panel *panel, float *slivers);

/* d of each outer index of the panel, for the K block that holds panel->k; 1 without. */
void plumb_pack_scales(const plumb_operand *operand, const plumb_panel *panel, float *d);

/* x rounded up to a multiple of step. */
static inline size_t plumb_round_up(size_t x, size_t step)
{
    return (x + step - 1) / step * step;
}

#endif
