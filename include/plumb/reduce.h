/* plumb/reduce.h - sums with a stated order, and the gradient all-reduce.
 *
 * Pure functions, single-threaded; call from anywhere.  Same bits for every variant.
 *
 * The lane order: element i goes to lane i mod 16, each lane adds in order of i, and
 * the lanes are joined as a tree: 16 to 8 (l and l+8), 8 to 4, 4 to 2, 2 to 1.
 */
#ifndef PLUMB_REDUCE_H
#define PLUMB_REDUCE_H

#include "plumb/quant.h"

#ifdef __cplusplus
extern "C" {
#endif

float plumb_sum(const float *x, size_t n);                 /* fp32, lane order */
float plumb_dot(const float *x, const float *y, size_t n); /* fma in each lane */
double plumb_sum_squares(const float *x, size_t n);        /* fp64 lanes; squares exact */
double plumb_dot_f64(const float *x, const float *y, size_t n); /* products exact in fp64 */

/* Sum over ranks as a ring in `wire` would make it: starting with rank 0's share,
 * each next rank adds its own share and what travels is cast to the wire format:
 *
 *   t = cast(g_0);  t = cast(t + cast(g_r)) for r = 1 .. ranks-1;  out = t
 *
 * The sum itself is fp32.  With wire fp32 there are no casts.  The scale is shared by
 * all ranks: rule current takes it from ranks * max over ranks of amax, which no exact
 * partial sum exceeds (rounded ones may: 8 shares of 1 in E4M3 end past 448, and are then
 * saturated or, without saturation, NaN); none and static as given; delayed and block grains are
 * refused (PLUMB_UNSUPPORTED).  A NaN sum is 0x7FC00000.  out may be shares[0].  counts
 * may be NULL and get every cast, of shares and of partial sums.  scale_used may be NULL.
 */
plumb_status plumb_allreduce(const plumb_spec *wire, const float *const *shares,
                             size_t ranks, size_t n, float *out, plumb_counts *counts,
                             float *scale_used, plumb_error *why);

#ifdef __cplusplus
}
#endif
#endif
