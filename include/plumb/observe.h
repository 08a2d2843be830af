/* plumb/observe.h - what was seen at a site, and how far two tensors are apart.
 *
 * Knows no model.  Pure functions; call from anywhere.
 */
#ifndef PLUMB_OBSERVE_H
#define PLUMB_OBSERVE_H

#include "plumb/policy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One row of site statistics: a site at a step (micro-batches joined). */
typedef struct plumb_sample {
    uint64_t step;
    uint32_t site;     /* index in the run's site list */
    float scale;       /* encode multiplier s; the largest over blocks */
    float least_scale; /* the least over blocks */
    float amax;        /* of the source, before the scale */

    /* Largest finite |decoded value|: about amax where the scales agree. */
    float decoded_amax;

    /* Of the least favourable block; with block scales read from the codes: largest finite value
     * over code_amax, so never below 1 unless the source has an infinity (then 0).
     */
    float headroom;

    uint64_t total, saturated, flushed, zero, nonfinite;
} plumb_sample;

/* Largest finite value over (amax * scale): 1 = the format is just full, below 1 values
 * saturate.  Infinity for amax 0; 0 for an infinite amax.  For fp32 and bf16 with scale 1.
 */
float plumb_headroom(plumb_format format, float amax, float scale);

/* Fills all but step and site from what a quantisation left behind. */
void plumb_sample_fill(plumb_sample *sample, const plumb_quantized *q,
                       const plumb_counts *counts);

/* Joins a second sample of the same site and step (another micro-batch). */
void plumb_sample_join(plumb_sample *into, const plumb_sample *sample);

enum { PLUMB_BINS = 48 };

/* A sample and how its values lay, before the scale: elements by exponent. */
typedef struct plumb_histogram {
    plumb_sample sample;

    /* bin[k] has 2^(first + k) <= |x| < 2^(first + k + 1): counts, or any multiple of them.  The
     * first bin has what is smaller, too, but for zeros; the last what is larger, but finite.
     */
    int32_t first;
    float bin[PLUMB_BINS];
} plumb_histogram;

/* Elements by exponent: at[e] has 2^(e-127) <= |x| < 2^(e-126), at[0] zeros and subnormals, at[255]
 * infinities and NaN.
 */
typedef struct plumb_exponents {
    uint64_t at[256];
} plumb_exponents;

/* into += those of x[rows, cols], row r at x + r * ld.  Counts, so no order matters. */
void plumb_exponents_add(plumb_exponents *into, const float *x, size_t rows, size_t cols,
                         size_t ld);
void plumb_exponents_join(plumb_exponents *into, const plumb_exponents *exponents);

/* first and bin from exponents; the last bin has the largest value.  What is below 2^-126 is left out with the zeros.  False, and all bins 0, where nothing is left.
 */
bool plumb_histogram_fill(plumb_histogram *histogram, const plumb_exponents *exponents);

/* How far a[0..n) is from a reference b[0..n).  Where a or b has a non-finite element, both
 * ratios are infinity, the cosine 0, and index names the first such element.  A deviation
 * from an all-zero reference is infinite too; equal tensors have 0, 0 and cosine 1.
 */
typedef struct plumb_deviation {
    double max_over_rms; /* max |a-b| / rms(b) */
    size_t index;        /* where; the first of several */
    double relative;     /* |a-b|_2 / |b|_2 */
    double cosine;       /* 1 for two zero vectors, 0 if one is zero */
} plumb_deviation;

plumb_deviation plumb_observe_deviation(const float *a, const float *b, size_t n);

/* How the result c[m, n] of a product differs from a reference: what a person asks of a kernel.
 * Elements that are not finite in one of the two are counted and left out of the sums; where only
 * one of a pair is finite, and where all of the reference is zero and c is not, frobenius is
 * infinity.
 */
typedef struct plumb_difference {
    double frobenius; /* norm of the difference over norm of the reference */
    double bias;      /* sum of (c - r) sign(r) over sum of |r|: negative is too small */
    size_t equal;     /* the same bits, or NaN in both */
    size_t nonfinite, nonfinite_reference; /* elements */
    bool any;                              /* there is an element that differs */
    size_t row, col;                       /* the worst; the first of several */
    float worst, worst_reference;
} plumb_difference;

plumb_difference plumb_observe_difference(const float *c, const float *reference, size_t m,
                                          size_t n);

#ifdef __cplusplus
}
#endif
#endif
