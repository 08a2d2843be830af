/* plumb/math.h - exp, log, sin, cos with the same bits on every machine.
 *
 * One polynomial each, evaluated with fused multiply-adds in a fixed order, so every
 * variant (baseline, AVX2, AVX-512) and every C library gives the same result; libm's
 * do not promise that.  Errors below are maxima over all fp32 arguments, found by
 * running them all (tests/kernel, label exhaustive), in units of the last place (ulp) of
 * the result; the worst argument is in src/kernel/math_body.h.  Every NaN result is
 * 0x7FC00000.  Pure functions; call from anywhere.  y may be x.
 */
#ifndef PLUMB_MATH_H
#define PLUMB_MATH_H

#include "plumb/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* e^x.  Below -87.33654 (where the result would be subnormal) 0; above 88.72283
 * infinity; NaN for NaN.  Error at most 0.988 ulp.
 */
void plumb_exp(const float *x, size_t n, float *y);

/* Natural logarithm.  -infinity for both zeros and for subnormals, NaN for negative
 * values and NaN, infinity for infinity.  Error at most 0.841 ulp.
 */
void plumb_log(const float *x, size_t n, float *y);

/* Sine and cosine of x radians, |x| <= 32768 (position times frequency); NaN beyond
 * that, for infinities and for NaN.  Cody-Waite reduction in three parts.  Error at most
 * 0.783 ulp.
 */
void plumb_sin(const float *x, size_t n, float *y);
void plumb_cos(const float *x, size_t n, float *y);

#ifdef __cplusplus
}
#endif
#endif
