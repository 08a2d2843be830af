/* The table of tallies and the choice among them. */
#include "reduce/tally.h"
#include "base/cpu.h"

#define ROW(isa, ISA)                                                                      \
    {                                                                                      \
        PLUMB_CPU_##ISA, "tally/" #isa, plumb_tally_additions_##isa,                       \
            plumb_tally_leaves_##isa                                                       \
    }

const plumb_tally_kernel plumb_tally_kernels[] = {
    ROW(ref, BASELINE),
#if defined(__x86_64__)
    ROW(avx2, AVX2),
    ROW(avx512, AVX512),
#endif
};
const size_t plumb_tally_kernel_count =
    sizeof plumb_tally_kernels / sizeof plumb_tally_kernels[0];

static const plumb_tally_kernel *best(void)
{
    return PLUMB_CPU_BEST(&plumb_tally_kernels[plumb_tally_kernel_count - 1]);
}

void plumb_tally_additions(float decay, const float *old, const float *x,
                           const float *result, size_t n, bool updates,
                           plumb_sum_counts *sums)
{
    best()->additions(decay, old, x, result, n, updates, sums);
}

void plumb_tally_leaves(const float *x, const float *value, size_t n,
                        plumb_sum_counts *sums)
{
    best()->leaves(x, value, n, sums);
}

void plumb_sum_counts_add(plumb_sum_counts *into, const plumb_sum_counts *counts)
{
    into->additions += counts->additions;
    into->swamped += counts->swamped;
    into->replaced += counts->replaced;
    into->nonfinite += counts->nonfinite;
    into->energy += counts->energy;
    into->lost += counts->lost;
    into->missing += counts->missing;
}
