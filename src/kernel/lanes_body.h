/* The lane sums as plain loops: the definition, compiled once for each instruction set.
 *
 * Sixteen independent lanes are sixteen vector elements, so the vector code does the very
 * additions that the order states.  fmaf is the exact one of IEEE 754 in every build: an
 * instruction, or the C library's.
 */
#include "kernel/body.h"
#include "kernel/lanes.h"

#include <math.h>

/* The tree, and the one NaN. */
INLINE float join(float lane[LANES])
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return isnan(lane[0]) ? NAN : lane[0];
}

INLINE double join_f64(double lane[LANES])
{
    const double sum = join_lanes(lane);

    return isnan(sum) ? (double)NAN : sum;
}

float ENTRY(plumb_lanes_sum_)(const float *x, size_t n)
{
    float lane[LANES] = {0};
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += x[i + (size_t)l];
    for (size_t l = 0; l < n - i; l++)
        lane[l] += x[i + l];
    return join(lane);
}

float ENTRY(plumb_lanes_dot_)(const float *x, const float *y, size_t n)
{
    float lane[LANES] = {0};
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] = fmaf(x[i + (size_t)l], y[i + (size_t)l], lane[l]);
    for (size_t l = 0; l < n - i; l++)
        lane[l] = fmaf(x[i + l], y[i + l], lane[l]);
    return join(lane);
}

/* The product of two fp32 values has 48 bits and is exact in fp64. */
double ENTRY(plumb_lanes_dot_f64_)(const float *x, const float *y, size_t n)
{
    double lane[LANES] = {0};
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += (double)x[i + (size_t)l] * (double)y[i + (size_t)l];
    for (size_t l = 0; l < n - i; l++)
        lane[l] += (double)x[i + l] * (double)y[i + l];
    return join_f64(lane);
}

double ENTRY(plumb_lanes_sum_squares_)(const float *x, size_t n)
{
    double lane[LANES] = {0};
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += (double)x[i + (size_t)l] * (double)x[i + (size_t)l];
    for (size_t l = 0; l < n - i; l++)
        lane[l] += (double)x[i + l] * (double)x[i + l];
    return join_f64(lane);
}
