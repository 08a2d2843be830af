/* matmul/packed.h - where the slivers of a packed B lie, and how a panel is packed.
 *
 * Panels along K, as deep as those of the micro-kernel, follow each other; each has the slivers
 * of all columns, as the product would have packed them itself.
 */
#ifndef PLUMB_MATMUL_PACKED_H
#define PLUMB_MATMUL_PACKED_H

#include "matmul/fold.h"

/* Floats before the sliver that begins at column `outer` of the panel at k, a sliver of which
 * has so many chains.
 */
static inline size_t plumb_packed_at(const plumb_micro *micro, size_t n, size_t outer,
                                     size_t k, size_t chains)
{
    const size_t cols = plumb_round_up(n, micro->nr);

    return cols * (k / PLUMB_MICRO_CHAIN * micro->chain) + outer * (chains * micro->chain);
}

/* Packs a panel of A as rows, or of B as slivers; fold: multiplied by its scales, unless NULL,
 * while each part of it is in the first cache.
 */
void plumb_pack_panel(const plumb_micro *micro, const plumb_operand *operand, bool of_b,
                      const plumb_panel *panel, const plumb_scales *fold, float *to);

#endif
