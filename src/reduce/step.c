/* Addition to fp32, cast, account: the order of the three is what every sum of this room shares. */
#include "reduce/step.h"

#include "reduce/tally.h"

#include <math.h>
#include <string.h>

plumb_status plumb_step_prepare(plumb_cast *cast, bool *fp32, plumb_error *why)
{
    uint32_t none;
    const plumb_status status = plumb_cast_encode(cast, NULL, 0, &none, NULL);

    if (status != PLUMB_OK)
        return plumb_fail(why, status,
                          "a sum in format %d with scale %g: there is no such cast",
                          (int)cast->format, (double)cast->scale);
    *fp32 = cast->format == PLUMB_FP32;
    if (cast->decode == 0)
        cast->decode = cast->divide ? cast->scale : 1 / cast->scale;
    return PLUMB_OK;
}

void plumb_step_round(const plumb_step *step, uint64_t number, uint64_t first,
                      const float *x, size_t n, float *y)
{
    uint32_t codes[PLUMB_STEP_PIECE]; /* wide enough for every format */
    plumb_cast how = *step->cast;

    how.stream += number;
    how.first += first;
    plumb_cast_encode(&how, x, n, codes, step->casts);
    plumb_cast_decode(how.format, how.decode, codes, n, y);
}

void plumb_step_leaf(const plumb_step *step, uint64_t number, uint64_t first,
                     const float *x, size_t n, float *y)
{
    plumb_step_round(step, number, first, x, n, y);
    if (step->sums != NULL)
        plumb_tally_leaves(x, y, n, step->sums);
}

/* Which of two NaNs an addition hands on is the compiler's choice, so it is neither. */
static void add(float decay, const float *old, const float *x, size_t n, float *sum)
{
    for (size_t i = 0; i < n; i++) {
        const float total = decay * old[i] + x[i];

        sum[i] = isnan(total) ? (float)NAN : total;
    }
}

void plumb_step_add(const plumb_step *step, uint64_t number, uint64_t first, float decay,
                    const float *old, const float *x, size_t n, bool updates, float *sum)
{
    float fresh[PLUMB_STEP_PIECE];
    float *into = step->sums != NULL ? fresh : sum;

    add(decay, old, x, n, into);
    if (step->cast != NULL)
        plumb_step_round(step, number, first, into, n, into);
    if (step->sums == NULL)
        return;
    plumb_tally_additions(decay, old, x, fresh, n, updates, step->sums);
    memcpy(sum, fresh, n * sizeof *sum);
}

plumb_status plumb_step_size(size_t n, plumb_error *why)
{
    size_t bytes;

    if (plumb_mul_size(n, sizeof(float), &bytes) && bytes <= PTRDIFF_MAX)
        return PLUMB_OK;
    return plumb_fail(why, PLUMB_BAD_SHAPE, "%zu floats do not fit into memory", n);
}
