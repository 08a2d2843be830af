/* What the library makes of a tile: see modelled.h. */
#include "modelled.h"

#include <stdio.h>

static const plumb_format formats[] = {PLUMB_E4M3, PLUMB_E5M2, PLUMB_BF16, PLUMB_FP16,
                                       PLUMB_TF32};

plumb_sum_kind operation_kind(const operation *op)
{
    if (tile_formats[op->a].bytes > 1)
        return PLUMB_SUM_HOPPER_16;
    return op->mma ? PLUMB_SUM_HOPPER_MMA : PLUMB_SUM_HOPPER_WGMMA;
}

uint32_t modelled(const plumb_unit *unit, const operation *op, const tile *t, int i)
{
    const size_t k = (size_t)(STEP / tile_formats[op->a].bytes * t->steps);
    const size_t size = (size_t)(STEP * t->steps);
    const uint8_t *a = t->a + (size_t)(i / COLS) * size;
    const uint8_t *b = t->b + (size_t)(i % COLS) * size;
    const uint32_t c = op->half ? half_to_float(t->c[i]) : t->c[i];
    plumb_error why;
    float d = 12345;

    if (plumb_unit_dot(unit, op->half ? PLUMB_FP16 : PLUMB_FP32, formats[op->a], a,
                       formats[op->b], b, k, float_from(c), &d, &why) != PLUMB_OK)
        printf("# %s\n", why.message);
    return float_bits(d);
}
