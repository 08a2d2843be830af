/* plumb/math.h - exp, log, sin, cos with the same bits on every machine.
 *
 * One polynomial each, evaluated with fused multiply-adds in a fixed order, so every
 * variant (baseline, AVX2, AVX-512) and every C library gives the same result; libm's
 * do not promise that.  Errors below are maxima over all fp32 arguments, found by
 * running them all (tests/kernel, label exhaustive), with the worst argument in the
 * source.  Pure functions; call from anywhere.  y may be x.
 */
#ifndef PLUMB_MATH_H
#define PLUMB_MATH_H

#include "plumb/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* e^x.  Below -87.33654 (where the result would be subnormal) 0; above 88.72283
 * infinity; NaN for NaN.
 */
void plumb_exp(const float *x, size_t n, float *y);

/* Natural logarithm.  -infinity for both zeros and for subnormals, NaN for negative
 * values and NaN, infinity for infinity.
 */
void plumb_log(const float *x, size_t n, float *y);

/* Sine and cosine of x radians, |x| <= 32768 (position times frequency); NaN beyond
 * that, for infinities and for NaN.  Cody-Waite reduction in three parts.
 */
void plumb_sin(const float *x, size_t n, float *y);
void plumb_cos(const float *x, size_t n, float *y);

#ifdef __cplusplus
}
#endif
#endif
