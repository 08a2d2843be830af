/* reduce/tally.h - the account of one addition and of one cast, in fp64.
 *
 * Two operands of fp32 have an exact sum that fp64 holds in two pieces (Knuth's TwoSum); times a
 * decay of fp32 the product is exact, too.  Nothing branches on data, so that a loop over these
 * becomes vector code.
 */
#ifndef PLUMB_REDUCE_TALLY_H
#define PLUMB_REDUCE_TALLY_H

#include "plumb/reduce.h"

typedef struct plumb_outcome {
    double update, error; /* exact - old, exact - result; 0 where something is not finite */
    uint64_t swamped, replaced, nonfinite; /* 0 or 1 */
} plumb_outcome;

/* scaled is decay * old. */
static inline __attribute__((always_inline)) plumb_outcome
plumb_outcome_of(double scaled, double old, double x, double result)
{
    const double sum = scaled + x, part = sum - scaled;
    const double rest = (scaled - (sum - part)) + (x - part); /* scaled + x = sum + rest */
    const bool finite = (scaled - scaled) + (old - old) + (x - x) + (result - result) ==
                        0; /* inf - inf: NaN */
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
typedef void plumb_additions_fn(float decay, const float *old, const float *x,
                                const float *result, size_t n, bool updates,
                                plumb_sum_counts *sums);
/* The same for values that go into a sum: x became value. */
typedef void plumb_leaves_fn(const float *x, const float *value, size_t n,
                             plumb_sum_counts *sums);

/* On the fastest variant that this CPU may run. */
plumb_additions_fn plumb_tally_additions;
plumb_leaves_fn plumb_tally_leaves;

/* All variants; the reference comes first, the fastest last. */
typedef struct plumb_tally_kernel {
    unsigned cpu; /* PLUMB_CPU_* bits that it needs */
    const char *name;
    plumb_additions_fn *additions;
    plumb_leaves_fn *leaves;
} plumb_tally_kernel;

extern const plumb_tally_kernel plumb_tally_kernels[];
extern const size_t plumb_tally_kernel_count;

#define PLUMB_TALLY_VARIANT(isa)                                                           \
    plumb_additions_fn plumb_tally_additions_##isa;                                        \
    plumb_leaves_fn plumb_tally_leaves_##isa

PLUMB_TALLY_VARIANT(ref);
PLUMB_TALLY_VARIANT(avx2);
PLUMB_TALLY_VARIANT(avx512);

#endif
