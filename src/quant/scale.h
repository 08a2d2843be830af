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

/* Any other rule: s is known. */
plumb_block_scale plumb_block_scale_fixed(float s);

/* Grain MX32: the E8M0 scale of a block. */
plumb_block_scale plumb_block_scale_mx(const plumb_spec *spec, float amax);

/* Grain NVFP4: S of the tensor, and the scale of a block under it; d is b alone. */
float plumb_nvfp4_scale(float amax_of_tensor);
plumb_block_scale plumb_block_scale_nvfp4(float scale_of_tensor, float amax);

#endif
