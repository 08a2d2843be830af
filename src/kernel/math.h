/* Every variant of the elementary functions, one row each; the reference comes first, the
 * fastest last.
 */
#ifndef PLUMB_KERNEL_MATH_H
#define PLUMB_KERNEL_MATH_H

#include "plumb/math.h"

typedef void plumb_math_fn(const float *x, size_t n, float *y);

typedef struct plumb_math_kernel {
    unsigned cpu; /* PLUMB_CPU_* bits that it needs */
    const char *name;
    plumb_math_fn *exp, *log, *sin, *cos;
} plumb_math_kernel;

extern const plumb_math_kernel plumb_math_kernels[];
extern const size_t plumb_math_kernel_count;

#define PLUMB_MATH_VARIANT(isa)                                                            \
    plumb_math_fn plumb_exp_##isa, plumb_log_##isa, plumb_sin_##isa, plumb_cos_##isa

PLUMB_MATH_VARIANT(ref);
PLUMB_MATH_VARIANT(avx2);
PLUMB_MATH_VARIANT(avx512);

#endif
