/* reduce/tally.h - the account of one addition and of one cast, in fp64.
 *
 * Two operands of fp32 have an exact sum that fp64 holds in two pieces (Knuth's TwoSum); times a
 * decay of fp32 the product is exact, too.  Nothing branches on data, so that a loop over these
 * becomes vector code.
 */
#ifndef PLUMB_REDUCE_TALLY_H
#define PLUMB_REDUCE_TALLY_H

#include "plumb/reduce.h"

#include <float.h>
#include <math.h>

typedef struct plumb_outcome {
    double update, error; /* exact - old, exact - result; 0 where something is not finite */
    uint64_t swamped, replaced, nonfinite; /* 0 or 1 */
} plumb_outcome;

static inline bool plumb_is_finite(double x)
{
    return fabs(x) <= DBL_MAX;
}

/* scaled is decay * old. */
static inline plumb_outcome plumb_outcome_of(double scaled, double old, double x,
                                             double result)
{
    const double sum = scaled + x, part = sum - scaled;
    const double rest = (scaled - (sum - part)) + (x - part); /* scaled + x = sum + rest */
    const bool finite = plumb_is_finite(scaled) & plumb_is_finite(old) &
                        plumb_is_finite(x) & plumb_is_finite(result);
    const double update = finite ? (sum - old) + rest : 0;

    return (plumb_outcome){
        .update = update,
        .error = finite ? (sum - result) + rest : 0,
        .swamped = (uint64_t)((update != 0) & (result == old)),
        .replaced = (uint64_t)(finite & (scaled != 0) & (result == x)),
        .nonfinite = !finite,
    };
}

/* Adds n additions, n at most 512, to *sums.  updates: their energy, too. */
void plumb_tally_additions(float decay, const float *old, const float *x,
                           const float *result, size_t n, bool updates,
                           plumb_sum_counts *sums);

/* The same for values that go into a sum: x became value. */
void plumb_tally_leaves(const float *x, const float *value, size_t n,
                        plumb_sum_counts *sums);

#endif
