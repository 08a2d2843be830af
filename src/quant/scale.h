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

/* Rule CURRENT: from the amax of the block. */
plumb_block_scale plumb_block_scale_current(const plumb_spec *spec, float amax);

/* Any other rule: s is known. */
plumb_block_scale plumb_block_scale_fixed(float s);

#endif
