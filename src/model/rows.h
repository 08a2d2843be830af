/* The loops over rows of activations that are neither products nor casts, for every instruction
 * set: plain loops of exact operations in the order written, so each variant has the same bits.
 *
 * Arrays of one call do not overlap, except where one is updated in place.  NaN: results that
 * go to a product or a cast may have any; those of norm_set, norm_add and add_products, which go to
 * gradients, have the pattern 0x7FC00000.
 */
#ifndef PLUMB_MODEL_ROWS_H
#define PLUMB_MODEL_ROWS_H

#include "plumb/base.h"

typedef struct rows_kernel {
    unsigned cpu; /* PLUMB_CPU_* bits that it needs */
    const char *name;

    /* True when nothing in x[rows, cols] is infinite or NaN. */
    bool (*finite)(const float *x, size_t rows, size_t cols, size_t ld);
    /* x = (x - largest) scale.  The largest is that of numbers, +0 or -0 alike; what a NaN does
     * to a softmax, it does whichever is taken.
     */
    void (*shift)(float *x, size_t n, float scale);
    /* x = x / by */
    void (*divide)(float *x, size_t n, float by);
    /* dp = p (dp - sum) scale */
    void (*softmax_backward)(const float *p, size_t n, float sum, float scale, float *dp);

    /* Rotates (x[j], x[j + half]) by the angle, or back. */
    void (*rotate)(float *x, const float *cosine, const float *sine, size_t half);
    void (*rotate_back)(float *x, const float *cosine, const float *sine, size_t half);

    void (*negate)(const float *x, size_t n, float *y);
    /* h = gate s up with s = 1 / (1 + e), e = exp(-gate) */
    void (*swiglu)(const float *gate, const float *up, const float *e, size_t n, float *h);
    /* d_gate = d up s (1 + gate (1 - s)), d_up = d gate s */
    void (*swiglu_backward)(const float *gate, const float *up, const float *d,
                            const float *e, size_t n, float *d_gate, float *d_up);

    /* y = x r g */
    void (*normalise)(const float *x, float r, const float *g, size_t n, float *y);
    /* y = a b */
    void (*multiply)(const float *a, const float *b, size_t n, float *y);
    /* dx = weighted r - x along, or dx += that */
    void (*norm_set)(const float *weighted, const float *x, float r, float along, size_t n,
                     float *dx);
    void (*norm_add)(const float *weighted, const float *x, float r, float along, size_t n,
                     float *dx);
    /* sum += a b r */
    void (*add_products)(const float *a, const float *b, float r, size_t n, float *sum);
} rows_kernel;

/* All variants; the reference comes first, the fastest last. */
extern const rows_kernel *const rows_kernels[];
extern const size_t rows_kernel_count;

/* The fastest that this CPU may run. */
const rows_kernel *rows_best(void);

extern const rows_kernel rows_ref, rows_avx2, rows_avx512;

#endif
