/* matmul/tile_avx512.h - what the kernels for tiles of 6 x 32 results have in common. */
#ifndef PLUMB_MATMUL_TILE_AVX512_H
#define PLUMB_MATMUL_TILE_AVX512_H

#include "matmul/micro.h"

#include <immintrin.h>

enum { MR = 6, NR = 32, WIDTH = 16 };

static inline __m512 load_or_zero(const float *x, bool zero)
{
    return zero ? _mm512_setzero_ps() : _mm512_loadu_ps(x);
}

/* tile += even + odd: the end of one chain of 32. */
static inline void add_chains(__m512 even[MR][2], __m512 odd[MR][2], float *tile,
                              bool first)
{
#pragma GCC unroll 6
    for (size_t i = 0; i < MR; i++) {
#pragma GCC unroll 2
        for (size_t j = 0; j < 2; j++) {
            float *at = tile + i * NR + j * WIDTH;
            const __m512 both = _mm512_add_ps(even[i][j], odd[i][j]);

            _mm512_storeu_ps(at, _mm512_add_ps(load_or_zero(at, first), both));
        }
    }
}

/* plumb_micro_join of a tile of `rows` rows. */
static inline void join_rows(size_t rows, const float *tile, const float *da,
                             const float *db, float *sum, bool first)
{
    const __m512 zero = _mm512_setzero_ps();

    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < NR; j += WIDTH) {
            const size_t at = i * NR + j;
            const __m512 scale =
                _mm512_fmadd_ps(_mm512_set1_ps(da[i]), _mm512_loadu_ps(db + j), zero);

            _mm512_storeu_ps(sum + at, _mm512_fmadd_ps(_mm512_loadu_ps(tile + at), scale,
                                                       load_or_zero(sum + at, first)));
        }
    }
}

static inline __mmask16 lanes(size_t n)
{
    return (__mmask16)(n >= WIDTH ? 0xffffu : (1u << n) - 1u);
}

/* Transposes 16 x 16: pairs, quads, then 128-bit quarters twice. */
static inline void transpose(__m512 v[WIDTH])
{
    __m512 t[WIDTH];

#pragma GCC unroll 4
    for (size_t i = 0; i < WIDTH; i += 4) {
        const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(v[i], v[i + 1]));
        const __m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(v[i], v[i + 1]));
        const __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(v[i + 2], v[i + 3]));
        const __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(v[i + 2], v[i + 3]));

        t[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        t[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        t[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        t[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        const __m512 a = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88);
        const __m512 b = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd);
        const __m512 c = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88);
        const __m512 d = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);

        v[i] = _mm512_shuffle_f32x4(a, c, 0x88);
        v[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
        v[i + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
        v[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
}

#endif
