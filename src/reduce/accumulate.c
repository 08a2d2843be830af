/* State that is added to, element by element: moments of an optimizer, gradients that pile up. */
#include "plumb/reduce.h"

#include "base/size.h"
#include "reduce/step.h"
#include "reduce/tally.h"

#include <math.h>

plumb_status plumb_accumulate(const plumb_cast *cast, float decay, float *state,
                              const float *x, size_t n, plumb_counts *casts,
                              plumb_sum_counts *sums, plumb_error *why)
{
    plumb_cast how = cast != NULL ? *cast : (plumb_cast){.format = PLUMB_FP32, .scale = 1};
    bool fp32;
    plumb_status status = plumb_step_size(n, why);

    if (status == PLUMB_OK && !isfinite(decay))
        status = plumb_fail(why, PLUMB_BAD_ARGUMENT, "a decay of %g: it must be finite",
                            (double)decay);
    if (status == PLUMB_OK)
        status = plumb_step_prepare(&how, &fp32, why);
    if (status != PLUMB_OK)
        return status;
    const plumb_step step = {.cast = fp32 ? NULL : &how, .casts = casts, .sums = sums};

    for (size_t i = 0; i < n; i += PLUMB_STEP_PIECE)
        plumb_step_add(&step, 0, i, decay, state + i, x + i,
                       smaller(PLUMB_STEP_PIECE, n - i), true, state + i);
    return PLUMB_OK;
}

void plumb_accumulate_count(float decay, const float *old, const float *x,
                            const float *result, size_t n, plumb_sum_counts *sums)
{
    for (size_t i = 0; i < n; i += PLUMB_STEP_PIECE)
        plumb_tally_additions(decay, old + i, x + i, result + i,
                              smaller(PLUMB_STEP_PIECE, n - i), true, sums);
}
