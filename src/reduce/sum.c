/* Sums in the lane order: the names of plumb/reduce.h for the kernels. */
#include "plumb/reduce.h"

#include "kernel/lanes.h"

float plumb_sum(const float *x, size_t n)
{
    return plumb_lanes_sum(x, n);
}

float plumb_dot(const float *x, const float *y, size_t n)
{
    return plumb_lanes_dot(x, y, n);
}

double plumb_sum_squares(const float *x, size_t n)
{
    return plumb_lanes_sum_squares(x, n);
}

double plumb_dot_f64(const float *x, const float *y, size_t n)
{
    return plumb_lanes_dot_f64(x, y, n);
}
