/* plumb/reduce.h - sums with a stated order and format, and what was lost on the way.
 *
 * Pure functions, single-threaded, no allocation; call from anywhere.  Sums, counts and energies
 * have the same bits on every instruction set.  A NaN that is stored is 0x7FC00000.
 *
 * One step is behind everything here: the gradient all-reduce, the loss over a long sequence,
 * the moments of an optimizer.  With v() the value of a code,
 *
 *   result = v(cast(fl32(fl32(decay * old) + x)))
 *
 * where cast is that of plumb/cast.h with its scale, format and rounding, decay is 1 in a sum,
 * and there is no cast for fp32.  So a sum in bf16 is rounded to fp32 and then to bf16; for two
 * operands that are bf16, fp16 or 8-bit values without a scale that is the same as rounding once
 * (24 bits are at least 2 * 11 + 2: Figueroa, When is double rounding innocuous?, 1995).
 */
#ifndef PLUMB_REDUCE_H
#define PLUMB_REDUCE_H

#include "plumb/quant.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- order ---------------------------------------------------------------- */

/* Which partial sums are added.  s(0), ..., s(N-1) are the values; what stands left of a plus is
 * the sum that was there, what stands right of it is added to it.  For N = 6:
 *
 *   SEQUENTIAL  ((((0+1)+2)+3)+4)+5     by rank, or by index
 *   RING        as SEQUENTIAL, but for piece c of the tensor the ranks begin with c+1 and end
 *               with c (modulo N): the reduce-scatter of NCCL's ring (src/device/all_reduce.h,
 *               runRing), one channel, ring position = rank.  Pieces have ceil(n / N) elements;
 *               the last ones are shorter, or empty.  Piece 1: ((((2+3)+4)+5)+0)+1
 *   TREE        ((0+1)+(2+3))+(4+5)     binomial: for d = 1, 2, 4, ...: s(r) += s(r+d) where 2d
 *               divides r and r + d < N (MPICH, MPI_Reduce with root 0)
 *   PAIRWISE    (0+(1+2))+(3+(4+5))     S(N) = S(first N/2, rounded down) + S(the others): the
 *               recursion of Higham, Accuracy and Stability of Numerical Algorithms, section 4.1
 *   LANES       value i goes to lane i mod 16; each lane starts at +0 and adds in order of i; the
 *               lanes are joined as a tree: 16 to 8 (l and l+8), 8 to 4, 4 to 2, 2 to 1
 *
 * TREE and PAIRWISE agree where N is a power of two, and differ at 3, 5, 6, 7, 9, ...  Append
 * only.
 */
typedef enum plumb_order {
    PLUMB_ORDER_SEQUENTIAL = 0,
    PLUMB_ORDER_RING, /* all-reduce only */
    PLUMB_ORDER_TREE,
    PLUMB_ORDER_PAIRWISE,
    PLUMB_ORDER_LANES, /* vectors only */
    PLUMB_ORDER_COUNT
} plumb_order;

/* --- what was lost --------------------------------------------------------- */

/* What rounding did to additions.  Fields are added to, never reset; zero before first use.
 *
 * The exact result of an addition is decay * old + x without any rounding, of the operands as
 * they were; the update is that less old (x itself when decay is 1).  Both are formed with
 * Knuth's TwoSum in fp64, so that each term of `lost` and `missing` is right to 2^-52 of itself,
 * however far the operands lie apart.
 *
 * lost / energy is the noise that rounding added to what went in.  It is 1 when nothing arrives,
 * and more where large partial sums are rounded, which may cost more than any one value is worth.
 *
 * missing telescopes: in a sum, result + missing is the exact sum of what went in, up to the
 * rounding of `missing` itself.  A positive one says that the sum came out too small.
 *
 * The three sums run in a fixed order: up to 512 elements of one addition at a time, element i
 * of them in lane i mod 16, lanes joined as above, then added to the field; additions in the
 * order of the brackets.
 */
typedef struct plumb_sum_counts {
    /* N - 1 for each element of a reduction, N + 15 with LANES, one for each element of an
     * accumulation.
     */
    uint64_t additions;

    uint64_t swamped; /* update not zero, result equal to old: absorbed without trace */

    /* decay * old not zero, result equal to x: what was there left no trace.  In a tree either
     * side may be the small one; a sum that saturates at twice the same value is counted as both.
     */
    uint64_t replaced;

    /* An operand or the result infinite or NaN: counted in `additions` and here, nowhere else. */
    uint64_t nonfinite;

    /* Sum of x^2 of the finite values that went in: shares, elements, updates. */
    double energy;

    double lost;    /* sum of (exact - rounded)^2: additions, and casts of what went in */
    double missing; /* sum of (exact - rounded), signed */
} plumb_sum_counts;

/* into += counts, field by field. */
void plumb_sum_counts_add(plumb_sum_counts *into, const plumb_sum_counts *counts);

/* --- sums of a vector ------------------------------------------------------- */

/* Lane order, in vector code.  n = 0 gives +0.  y may be x. */
float plumb_sum(const float *x, size_t n);                 /* fp32 */
float plumb_dot(const float *x, const float *y, size_t n); /* fma in each lane */
double plumb_sum_squares(const float *x, size_t n);        /* fp64 lanes; squares exact */
double plumb_dot_f64(const float *x, const float *y, size_t n); /* products exact in fp64 */

/* How to sum a vector.  Zero-initialised but for cast.scale = 1: fp32, by index. */
typedef struct plumb_summation {
    plumb_order order; /* not RING */
    bool wide;         /* partial sums in fp64; `cast` is ignored */

    /* Of the elements before they are added, and of every partial sum; none when the format is
     * fp32.  STOCHASTIC: cast number h of the sum, in the order of the brackets, draws word
     * `first` of stream + h.
     */
    plumb_cast cast;
} plumb_summation;

/* *sum = the sum of x[0..n) as stated; n = 0 gives +0 and n = 1 the element, cast.  The values are
 * those of codes times the decode scale (cast.decode, or what it stands for).  fp32 in LANES gives
 * the bits of plumb_sum; fp64 by index those of a plain loop.
 *
 * casts (every cast of an element and of a partial sum) and sums may be NULL.  This is made to be
 * looked at: some 10 ns for each addition in fp32 and fp64, 60 ns in other formats.
 *
 * PLUMB_BAD_ARGUMENT for RING and for orders out of range, PLUMB_BAD_SHAPE where x could not fit
 * into memory, and whatever plumb_cast_encode returns; *sum is untouched then.
 */
plumb_status plumb_sum_ordered(const plumb_summation *how, const float *x, size_t n,
                               double *sum, plumb_counts *casts, plumb_sum_counts *sums,
                               plumb_error *why);

/* --- the all-reduce ---------------------------------------------------------- */

/* Of what amax rule current makes the shared scale; A is the largest amax of a share. */
typedef enum plumb_reduce_headroom {
    /* N * A, which no exact partial sum exceeds (rounded ones may: 8 shares of 1 in E4M3 end
     * past 448).
     */
    PLUMB_REDUCE_HEADROOM_RANKS = 0,

    /* sqrt(N) * A: MS-AMP (github.com/Azure/MS-AMP at 9746ea8, msamp/common/tensor); shares that
     * point the same way still saturate.
     */
    PLUMB_REDUCE_HEADROOM_SQRT,

    /* A: the least of the ranks' own scales, as FP8-LM (arXiv 2310.18313) writes it; sums saturate
     * unless shares cancel.
     */
    PLUMB_REDUCE_HEADROOM_NONE,
} plumb_reduce_headroom;

enum { PLUMB_MAX_REDUCE_RANKS = 1 << 20 };

/* How shares travel.  Zero-initialised but for wire: by rank, scale for N * A. */
typedef struct plumb_reduction {
    plumb_order order; /* not LANES */
    plumb_reduce_headroom headroom;
    plumb_spec wire; /* any format that plumb_cast_encode takes; one scale for all ranks */

    /* wire.rounding STOCHASTIC: cast number h of an element, in the order of the brackets, draws
     * word i of stream + h, i the element.
     */
    uint64_t seed, stream;
} plumb_reduction;

/* out[i] = sum over ranks of shares[r][i], in `order`, where what travels is a code: every share
 * and every partial sum is cast to the wire format as soon as it exists.
 *
 *   SEQUENTIAL:  t = cast(g_0);  t = cast(t + cast(g_r)) for r = 1 .. ranks-1;  out = t
 *
 * With ranks = 1 the share is still cast; with wire fp32 there are no casts.  The sum is not
 * divided by the number of ranks.  The scale is shared by all ranks: rule current as `headroom`
 * says, none and static as given; delayed and block grains are refused (PLUMB_UNSUPPORTED).
 * Where an amax is infinite or all are zero the scale is that of plumb_scale_from_amax (1).  What
 * is past the largest value is saturated, or infinity or NaN, as the wire says.
 *
 * n = 0 does nothing.  out may be shares[0], and must not overlap other shares in another way.
 * casts may be NULL and gets every cast, of shares and of partial sums; sums may be NULL;
 * scale_used may be NULL.
 *
 * PLUMB_BAD_ARGUMENT for 0 ranks, more than PLUMB_MAX_REDUCE_RANKS, an order or headroom that
 * this does not take; PLUMB_BAD_SHAPE where n floats could not fit into memory; PLUMB_BAD_FORMAT
 * or what plumb_cast_encode returns.  out is untouched then.
 */
plumb_status plumb_allreduce(const plumb_reduction *how, const float *const *shares,
                             size_t ranks, size_t n, float *out, plumb_counts *casts,
                             plumb_sum_counts *sums, float *scale_used, plumb_error *why);

/* --- state that is added to --------------------------------------------------- */

/* state[i] = v(cast(fl32(fl32(decay * state[i]) + x[i]))): an exponential moving average whose
 * weight is already in x (Adam: decay = beta1, x = (1 - beta1) g; or beta2, (1 - beta2) g^2), or
 * with decay 1 a sum that grows, as gradients over micro-batches do.
 *
 * cast NULL or of format fp32: nothing is cast.  STOCHASTIC: element i draws word first + i.
 *
 * `swamped` is the dead zone of a state in few bits: where |update| is less than half a step,
 * nearest-even rounding leaves the state as it is, for ever (bf16 with beta2 = 0.999: v can never
 * decrease).  state and x must not overlap.  casts and sums may be NULL.  PLUMB_BAD_SHAPE where n
 * floats could not fit into memory, or what plumb_cast_encode returns; state is untouched then.
 */
plumb_status plumb_accumulate(const plumb_cast *cast, float decay, float *state,
                              const float *x, size_t n, plumb_counts *casts,
                              plumb_sum_counts *sums, plumb_error *why);

/* The counts of a step that was rounded elsewhere (scales of a tensor or its blocks, that are
 * known only after the addition): result[i] is what became of decay * old[i] + x[i].
 */
void plumb_accumulate_count(float decay, const float *old, const float *x,
                            const float *result, size_t n, plumb_sum_counts *sums);

#ifdef __cplusplus
}
#endif
#endif
