/* quant/scale.h - the scale of one block, whichever rule gives it. */
#ifndef PLUMB_QUANT_SCALE_H
#define PLUMB_QUANT_SCALE_H

#include "plumb/quant.h"

/* What the cast does (multiply by factor, or divide by it) and what decoding multiplies. */
typedef struct plumb_block_scale {
    float factor;
    bool divide;
    float d;
} plumb_block_scale;

/* Rule CURRENT of the grains without a rule of their own: from the amax of the block. */
plumb_block_scale plumb_block_scale_current(const plumb_spec *spec, float amax);

/* Rule CURRENT of the grains whose blocks lie within a row (or column): of n blocks, what the
 * cast multiplies with (or, with spec->divide, divides by) and d.  `of_tensor` is NVFP4's S.
 */
void plumb_block_scales(const plumb_spec *spec, float of_tensor, const float *amax,
                        size_t n, float *factor, float *d);

/* Any other rule: s is known. */
plumb_block_scale plumb_block_scale_fixed(float s);

/* Grain MX32: the E8M0 scales of blocks. */
void plumb_block_scales_mx(const plumb_spec *spec, const float *amax, size_t n,
                           float *factor, float *d);

/* Grain NVFP4: S of the tensor, and the scales of blocks under it; d is b alone. */
float plumb_nvfp4_scale(float amax_of_tensor);
void plumb_block_scales_nvfp4(float scale_of_tensor, const float *amax, size_t n,
                              float *factor, float *d);

#endif
