/* matmul/sliced.h - exact sums of products in fp64, from operands cut by exponent.
 *
 * The values of a row of an operand in a piece of K are divided by the largest power of two among
 * them and dealt to slices: slice s holds those with exponents from -s * width down, `width` of
 * them, times 2^(s * width).  Products of two slices are whole multiples of one power of two,
 * and so few bits wide that fp64 adds up a piece without error.
 */
#ifndef PLUMB_MATMUL_SLICED_H
#define PLUMB_MATMUL_SLICED_H

#include "matmul/micro.h"
#include "matmul/round.h"

enum {
    PLUMB_SLICED_TILE = 32,   /* results along each side */
    PLUMB_SLICED_DEPTH = 256, /* K of a piece, at most */
    PLUMB_SLICES = 3          /* of an operand, at most; pairs of three have one sum */
};

/* Of a piece of K, [K][32] values of an operand. */
typedef struct plumb_sliced {
    double x[PLUMB_SLICES][PLUMB_SLICED_DEPTH * PLUMB_SLICED_TILE];
    int32_t top[PLUMB_SLICED_TILE];   /* value = x[s] * 2^(top - s * width) */
    int32_t least[PLUMB_SLICED_TILE]; /* exponent; infinities and NaN have the largest */
} plumb_sliced;

/* Exponents of the values, and slices 0 to count - 1. */
typedef void plumb_sliced_cut(size_t k, const float *values, int width, size_t count,
                              plumb_sliced *to);

/* sum[i][j] += the sum over k of a[k][i] * b[k][j]. */
typedef void plumb_sliced_add(size_t k, const double *a, const double *b, double *sum);

plumb_sliced_cut plumb_sliced_cut_ref, plumb_sliced_cut_avx2, plumb_sliced_cut_avx512;
plumb_sliced_add plumb_sliced_add_ref, plumb_sliced_add_avx2, plumb_sliced_add_avx512;
plumb_micro_unpack plumb_sliced_copy_ref, plumb_sliced_turn_ref; /* nothing is flushed */

enum { PLUMB_SLICED_NONE = 1 << 20 /* least exponent where all are zero */ };

static inline int32_t plumb_sliced_exponent(float x)
{
    const int32_t field = (int32_t)(bits_of(x) >> 23 & 0xff);

    return (field > 1 ? field : 1) - 127;
}

/* The body of every cut, for the compiler to vectorise. */
static inline void plumb_sliced_cut_any(size_t k, const float *values, int width,
                                        size_t count, plumb_sliced *to)
{
    int32_t top[PLUMB_SLICED_TILE], least[PLUMB_SLICED_TILE];

    for (size_t i = 0; i < PLUMB_SLICED_TILE; i++) {
        top[i] = -126;
        least[i] = PLUMB_SLICED_NONE;
    }
    for (size_t t = 0; t < k; t++) {
        for (size_t i = 0; i < PLUMB_SLICED_TILE; i++) {
            const float x = values[t * PLUMB_SLICED_TILE + i];
            const int32_t own = plumb_sliced_exponent(x);
            const int32_t e = (bits_of(x) & 0x7fffffffu) == 0 ? PLUMB_SLICED_NONE : own;

            top[i] = own > top[i] ? own : top[i];
            least[i] = e < least[i] ? e : least[i];
        }
    }
    for (size_t s = 0; s < count; s++) {
        double up[PLUMB_SLICED_TILE];
        int32_t high[PLUMB_SLICED_TILE];

        for (size_t i = 0; i < PLUMB_SLICED_TILE; i++) {
            high[i] = top[i] - (int32_t)s * width;
            const uint64_t bits = (uint64_t)(1023 - high[i]) << 52;
            memcpy(&up[i], &bits, sizeof up[i]);
        }
        for (size_t t = 0; t < k; t++) {
            for (size_t i = 0; i < PLUMB_SLICED_TILE; i++) {
                const float x = values[t * PLUMB_SLICED_TILE + i];
                const int32_t e = plumb_sliced_exponent(x);
                const bool here = e <= high[i] && e > high[i] - width;
                const float kept = here ? x : 0;

                to->x[s][t * PLUMB_SLICED_TILE + i] = (double)kept * up[i];
            }
        }
    }
    memcpy(to->top, top, sizeof top);
    memcpy(to->least, least, sizeof least);
}

#endif
