/* Faults on the moments that a step leaves behind, stored in few bits: from the step after on they move
 * the weights.
 */
#include "train/faults.h"

#include <math.h>

#include "plumb/cast.h"

/* What is past a part of the largest magnitude is held there. */
static void clipped(fault *f, trainer *t, const plumb_parameter *p, float *x)
{
    const size_t n = p->rows * p->cols;
    const float most = plumb_cast_amax(x, n) * (float)f->value[0];

    (void)t;
    for (size_t i = 0; i < n; i++) {
        if (fabsf(x[i]) > most)
            x[i] = copysignf(most, x[i]);
    }
}

static void flushed(fault *f, trainer *t, const plumb_parameter *p, float *x)
{
    const size_t n = p->rows * p->cols;
    const float least = plumb_cast_amax(x, n) * (float)f->value[0];

    (void)t;
    for (size_t i = 0; i < n; i++) {
        if (fabsf(x[i]) < least)
            x[i] = 0;
    }
}

/* To nearest, ties to even, at the fraction bits that are left. */
static void rounded(fault *f, trainer *t, const plumb_parameter *p, float *x)
{
    (void)t;
    for (size_t i = 0; i < p->rows * p->cols; i++) {
        int exponent;
        const float fraction = frexpf(x[i], &exponent);

        if (isfinite(x[i]))
            x[i] = ldexpf(rintf(ldexpf(fraction, (int)f->value[0] + 1)),
                          exponent - (int)f->value[0] - 1);
    }
}

static const fault_kind kinds[] = {
    {.name = "clipped-moment",
     .acts = "magnitudes past `part` of the largest are held there",
     .models = "dynamic range compression where expansion is meant",
     .source = "https://github.com/pytorch/ao/pull/4522",
     .reach = FAULT_MOMENTS,
     .parameters = {{"part", 0, 1, NAN, false, FAULT_FREE, "of the largest magnitude"}},
     .moment = clipped},
    {.name = "flushed-moment",
     .acts = "magnitudes below `part` of the largest become zero",
     .models = "the second moment underflows where the first does not",
     .source = "https://github.com/unslothai/unsloth-zoo/pull/962",
     .reach = FAULT_MOMENTS,
     .parameters = {{"part", 0, 1, NAN, false, FAULT_FREE, "of the largest magnitude"}},
     .moment = flushed},
    {.name = "rounded-moment",
     .acts = "the moment is rounded once more, to `bits` bits behind the leading one",
     .models = "optimizer states in fewer bits than configured",
     .source = "https://github.com/pytorch/ao/pull/4692",
     .reach = FAULT_MOMENTS,
     .parameters = {{"bits", 0, 22, NAN, true, FAULT_FREE, "fraction bits"}},
     .moment = rounded},
};

const fault_family faults_of_moments = {kinds, sizeof kinds / sizeof *kinds};
