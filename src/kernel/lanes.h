/* Sums in the lane order of plumb/reduce.h: element i goes to lane i mod 16, each lane
 * starts at +0 and adds in order of i, and the lanes are joined as a tree: 16 to 8 (l and
 * l + 8), 8 to 4, 4 to 2, 2 to 1.  A NaN result is the one pattern.
 */
#ifndef PLUMB_KERNEL_LANES_H
#define PLUMB_KERNEL_LANES_H

#include "plumb/base.h"

/* On the fastest variant that this CPU may run; plumb/reduce.h says what each gives. */
float plumb_lanes_sum(const float *x, size_t n);
float plumb_lanes_dot(const float *x, const float *y, size_t n);
double plumb_lanes_sum_squares(const float *x, size_t n);
double plumb_lanes_dot_f64(const float *x, const float *y, size_t n);

/* All variants; the reference comes first, the fastest last. */
typedef struct plumb_lanes_kernel {
    unsigned cpu; /* PLUMB_CPU_* bits that it needs */
    const char *name;
    float (*sum)(const float *x, size_t n);
    float (*dot)(const float *x, const float *y, size_t n);
    double (*sum_squares)(const float *x, size_t n);
    double (*dot_f64)(const float *x, const float *y, size_t n);
} plumb_lanes_kernel;

extern const plumb_lanes_kernel plumb_lanes_kernels[];
extern const size_t plumb_lanes_kernel_count;

#define PLUMB_LANES_VARIANT(isa)                                                           \
    float plumb_lanes_sum_##isa(const float *x, size_t n);                                 \
    float plumb_lanes_dot_##isa(const float *x, const float *y, size_t n);                 \
    double plumb_lanes_sum_squares_##isa(const float *x, size_t n);                        \
    double plumb_lanes_dot_f64_##isa(const float *x, const float *y, size_t n)

PLUMB_LANES_VARIANT(ref);
PLUMB_LANES_VARIANT(avx2);
PLUMB_LANES_VARIANT(avx512);

#endif
