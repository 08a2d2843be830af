/* matmul/lanes_avx512.h - the ending of a fused addition in 16 lanes: the exponent to which its
 * terms are aligned, and from the sum of the terms the next C.
 */
#ifndef PLUMB_MATMUL_LANES_AVX512_H
#define PLUMB_MATMUL_LANES_AVX512_H

#include "matmul/lanes.h"

#include <immintrin.h>

enum { WIDTH = 16 };

/* 2^e, e from -126 to 127. */
static inline __m512 power(__m512i e)
{
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_add_epi32(e, _mm512_set1_epi32(127)), 23));
}

/* What 16 results are aligned to, and which of them this arithmetic does not cover. */
typedef struct aligned {
    __m512i most;    /* the largest exponent of all */
    __m512 products; /* factor of the products */
    __mmask16 leave; /* not covered */
    __mmask16 nan;   /* c is NaN */
} aligned;

static inline aligned align(const plumb_lane_unit *unit, __m512i e, __m512i top, __m512 c)
{
    const __m512i range = _mm512_set1_epi32(PLUMB_LANES_RANGE);
    const __m512i lowest = _mm512_set1_epi32(-PLUMB_LANES_RANGE);
    const __mmask16 none = _mm512_cmpeq_epi32_mask(e, _mm512_set1_epi32(PLUMB_LANES_ZERO));
    const __m512i field = _mm512_and_si512(_mm512_srli_epi32(_mm512_castps_si512(c), 23),
                                           _mm512_set1_epi32(255));
    const __mmask16 some = _mm512_cmp_ps_mask(c, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    const __m512i of_c = _mm512_mask_max_epi32(
        _mm512_set1_epi32(PLUMB_E_ZERO), some, _mm512_set1_epi32(unit->emin),
        _mm512_sub_epi32(field, _mm512_set1_epi32(127)));
    const __m512i of_products = _mm512_mask_mov_epi32(_mm512_add_epi32(e, top), none,
                                                      _mm512_set1_epi32(PLUMB_E_ZERO));
    const __m512i most = _mm512_max_epi32(_mm512_max_epi32(of_products, of_c),
                                          _mm512_set1_epi32(unit->floor));
    const __mmask16 far =
        _mm512_cmple_epi32_mask(e, _mm512_set1_epi32(PLUMB_LANES_FAR)) & (__mmask16)~none;
    const __mmask16 low = _mm512_cmplt_epi32_mask(most, lowest) & (__mmask16)(some | ~none);
    aligned to;

    to.most = _mm512_max_epi32(most, lowest);
    to.nan = _mm512_cmp_ps_mask(c, c, _CMP_UNORD_Q);
    to.leave = far | low | _mm512_cmpgt_epi32_mask(most, range);
    /* Of a sum without products any factor will do. */
    const __m512i by = _mm512_sub_epi32(
        _mm512_add_epi32(top, _mm512_set1_epi32(unit->fraction_bits)), to.most);
    to.products = power(_mm512_min_epi32(_mm512_max_epi32(by, _mm512_set1_epi32(-126)),
                                         _mm512_set1_epi32(100)));
    return to;
}

/* Sums of a half: exact, then rounded to the bits of the results. */
static inline __m256 round_half(const plumb_lane_unit *unit, __m256i even, __m256i odd,
                                __m256 steps)
{
    const __m512d sum = _mm512_add_pd(_mm512_cvtepi32_pd(even), _mm512_cvtepi32_pd(odd));
    const __m512i bits = _mm512_castpd_si512(sum);
    const long long kept = -(1LL << (52 - unit->result_bits));

    if (!unit->half)
        return _mm512_cvtpd_ps(
            _mm512_castsi512_pd(_mm512_and_si512(bits, _mm512_set1_epi64(kept))));
    /* Added to 1.5 * 2^42 times its power of two, at least that of 2^-14, a sum keeps 10 bits. */
    const __m512d own =
        _mm512_castsi512_pd(_mm512_and_si512(bits, _mm512_set1_epi64(0x7ffLL << 52)));
    const __m512d least = _mm512_mul_pd(_mm512_cvtps_pd(steps), _mm512_set1_pd(0x1p-14));
    const __m512d big = _mm512_mul_pd(_mm512_max_pd(own, least), _mm512_set1_pd(0x1.8p42));
    return _mm512_cvtpd_ps(_mm512_sub_pd(_mm512_add_pd(sum, big), big));
}

static inline __m512 join_halves(__m256 low, __m256 high)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

/* The rounded sum, in units of 2^(most - fraction_bits). */
static inline __m512 round_sum(const plumb_lane_unit *unit, bool wide, __m512i even,
                               __m512i odd, __m512 steps)
{
    if (!wide) {
        const __m512i bits =
            _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_add_epi32(even, odd)));
        const __m512i kept = _mm512_set1_epi32(-(1 << (23 - unit->result_bits)));

        return _mm512_castsi512_ps(_mm512_and_si512(bits, kept));
    }
    return join_halves(
        round_half(unit, _mm512_castsi512_si256(even), _mm512_castsi512_si256(odd),
                   _mm512_castps512_ps256(steps)),
        round_half(unit, _mm512_extracti32x8_epi32(even, 1),
                   _mm512_extracti32x8_epi32(odd, 1), _mm512_extractf32x8_ps(steps, 1)));
}

/* c after the sum, where `to` covers it. */
static inline __m512 end(const plumb_lane_unit *unit, bool wide, const aligned *to,
                         __m512i even, __m512i odd, __m512 c, __mmask16 keep)
{
    const __m512i fraction = _mm512_set1_epi32(unit->fraction_bits);
    const __m512 up = power(_mm512_sub_epi32(fraction, to->most));
    const __m512 down = power(_mm512_sub_epi32(to->most, fraction));
    const __m512i addend = _mm512_cvttps_epi32(_mm512_mul_ps(c, up));
    const __m512 sum = round_sum(unit, wide, _mm512_add_epi32(even, addend), odd, up);
    __m512 x = _mm512_mul_ps(sum, down);

    if (unit->half) {
        const __mmask16 over =
            _mm512_cmp_ps_mask(_mm512_abs_ps(x), _mm512_set1_ps(65536), _CMP_GE_OQ);
        x = _mm512_mask_mul_ps(x, over, x, _mm512_set1_ps(0x1p127f));
    }
    return _mm512_mask_mov_ps(x, keep, c);
}

#endif
