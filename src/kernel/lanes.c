/* The table of lane sums and the choice among them. */
#include "kernel/lanes.h"
#include "base/cpu.h"

#define ROW(isa, ISA)                                                                      \
    {                                                                                      \
        PLUMB_CPU_##ISA, "lanes/" #isa, plumb_lanes_sum_##isa, plumb_lanes_dot_##isa,      \
            plumb_lanes_sum_squares_##isa, plumb_lanes_dot_f64_##isa                       \
    }

const plumb_lanes_kernel plumb_lanes_kernels[] = {
    ROW(ref, BASELINE),
#if defined(__x86_64__)
    ROW(avx2, AVX2),
    ROW(avx512, AVX512),
#endif
};
const size_t plumb_lanes_kernel_count =
    sizeof plumb_lanes_kernels / sizeof plumb_lanes_kernels[0];

static const plumb_lanes_kernel *best(void)
{
    return PLUMB_CPU_BEST(&plumb_lanes_kernels[plumb_lanes_kernel_count - 1]);
}

float plumb_lanes_sum(const float *x, size_t n)
{
    return best()->sum(x, n);
}

float plumb_lanes_dot(const float *x, const float *y, size_t n)
{
    return best()->dot(x, y, n);
}

double plumb_lanes_sum_squares(const float *x, size_t n)
{
    return best()->sum_squares(x, n);
}

double plumb_lanes_dot_f64(const float *x, const float *y, size_t n)
{
    return best()->dot_f64(x, y, n);
}
