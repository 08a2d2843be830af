/* Exact sums of slices in tiles of 4 x 32 fp64 results. */
#include "matmul/sliced.h"

#if defined(__x86_64__)
#include <immintrin.h>

void plumb_sliced_cut_avx512(size_t k, const float *values, int width, size_t count,
                             plumb_sliced *to)
{
    plumb_sliced_cut_any(k, values, width, count, to);
}

enum { SLICED_ROWS = 4, SLICED_VECTORS = 4, SLICED_WIDTH = 8 };

/* SLICED_ROWS rows of sums by SLICED_VECTORS vectors, in registers. */
static inline void sum_part(size_t k, const double *a, const double *b, double *sum)
{
    __m512d s[SLICED_ROWS][SLICED_VECTORS];

#pragma GCC unroll 4
    for (size_t i = 0; i < SLICED_ROWS; i++) {
#pragma GCC unroll 4
        for (size_t n = 0; n < SLICED_VECTORS; n++)
            s[i][n] = _mm512_loadu_pd(sum + i * PLUMB_SLICED_TILE + n * SLICED_WIDTH);
    }
    for (size_t t = 0; t < k * PLUMB_SLICED_TILE; t += PLUMB_SLICED_TILE) {
#pragma GCC unroll 4
        for (size_t i = 0; i < SLICED_ROWS; i++) {
            const __m512d x = _mm512_set1_pd(a[t + i]);

#pragma GCC unroll 4
            for (size_t n = 0; n < SLICED_VECTORS; n++)
                s[i][n] =
                    _mm512_fmadd_pd(x, _mm512_loadu_pd(b + t + n * SLICED_WIDTH), s[i][n]);
        }
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < SLICED_ROWS; i++) {
#pragma GCC unroll 4
        for (size_t n = 0; n < SLICED_VECTORS; n++)
            _mm512_storeu_pd(sum + i * PLUMB_SLICED_TILE + n * SLICED_WIDTH, s[i][n]);
    }
}

void plumb_sliced_add_avx512(size_t k, const double *a, const double *b, double *sum)
{
    for (size_t i = 0; i < PLUMB_SLICED_TILE; i += SLICED_ROWS) {
        for (size_t n = 0; n < PLUMB_SLICED_TILE; n += SLICED_VECTORS * SLICED_WIDTH)
            sum_part(k, a + i, b + n, sum + i * PLUMB_SLICED_TILE + n);
    }
}
#endif
