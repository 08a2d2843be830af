/* The table of elementary functions and the choice among its variants. */
#include "kernel/math.h"
#include "base/cpu.h"

#define ROW(isa, ISA)                                                                      \
    {                                                                                      \
        PLUMB_CPU_##ISA, "math/" #isa, plumb_exp_##isa, plumb_log_##isa, plumb_sin_##isa,  \
            plumb_cos_##isa                                                                \
    }

const plumb_math_kernel plumb_math_kernels[] = {
    ROW(ref, BASELINE),
#if defined(__x86_64__)
    ROW(avx2, AVX2),
    ROW(avx512, AVX512),
#endif
};
const size_t plumb_math_kernel_count =
    sizeof plumb_math_kernels / sizeof plumb_math_kernels[0];

static const plumb_math_kernel *best(void)
{
    return PLUMB_CPU_BEST(&plumb_math_kernels[plumb_math_kernel_count - 1]);
}

void plumb_exp(const float *x, size_t n, float *y)
{
    best()->exp(x, n, y);
}

void plumb_log(const float *x, size_t n, float *y)
{
    best()->log(x, n, y);
}

void plumb_sin(const float *x, size_t n, float *y)
{
    best()->sin(x, n, y);
}

void plumb_cos(const float *x, size_t n, float *y)
{
    best()->cos(x, n, y);
}
