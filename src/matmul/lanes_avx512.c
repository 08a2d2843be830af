/* Matrix units in 16 fp32 lanes: a product is exact, a power of two moves it to the binary
 * point at which the unit cuts, and the conversion to integers truncates toward zero.
 */
#include "matmul/lanes.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { WIDTH = 16, HALF = 8 };

/* 2^e, e from -126 to 127. */
static inline __m512 power(__m512i e)
{
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_add_epi32(e, _mm512_set1_epi32(127)), 23));
}

/* The largest e of the products of each of 64 results. */
static inline __m512i largest(size_t terms, const int8_t *a, const int8_t *b)
{
    __m512i even = _mm512_set1_epi8(PLUMB_LANES_ZERO), odd = even;

    for (size_t t = 0; t < terms; t += 2) {
        const int8_t *at = b + t * PLUMB_LANES;
        const __m512i x = _mm512_set1_epi8(a[t * PLUMB_LANES]);
        const __m512i y = _mm512_set1_epi8(a[(t + 1) * PLUMB_LANES]);

        even = _mm512_max_epi8(even, _mm512_adds_epi8(x, _mm512_loadu_si512(at)));
        odd =
            _mm512_max_epi8(odd, _mm512_adds_epi8(y, _mm512_loadu_si512(at + PLUMB_LANES)));
    }
    return _mm512_max_epi8(even, odd);
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

static inline __m512i product(__m512 a, const float *b, __m512 factor)
{
    return _mm512_cvttps_epi32(_mm512_mul_ps(_mm512_mul_ps(a, _mm512_loadu_ps(b)), factor));
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

/* 32 results: the sum of even terms and of odd ones stay below 2^31. */
static inline uint32_t add_pair(const plumb_lane_unit *unit, bool wide, const float *a,
                                int top, plumb_lane_terms b, const int8_t *most,
                                uint32_t leave, float *c)
{
    __m512i even[2], odd[2];
    aligned to[2];
    uint32_t left = 0;

    for (size_t j = 0; j < 2; j++) {
        const __m512i e = _mm512_cvtepi8_epi32(
            _mm_loadu_si128((const __m128i *)(const void *)(most + j * WIDTH)));
        const __m512i tops =
            _mm512_add_epi32(_mm512_loadu_si512(b.top + j * WIDTH), _mm512_set1_epi32(top));

        to[j] = align(unit, e, tops, _mm512_loadu_ps(c + j * WIDTH));
        even[j] = odd[j] = _mm512_setzero_si512();
    }
    for (size_t t = 0; t < unit->terms; t += 2) {
        const float *at = b.x + t * PLUMB_LANES, *next = at + PLUMB_LANES;
        const __m512 x = _mm512_set1_ps(a[t * PLUMB_LANES]);
        const __m512 y = _mm512_set1_ps(a[(t + 1) * PLUMB_LANES]);

#pragma GCC unroll 2
        for (size_t j = 0; j < 2; j++) {
            even[j] = _mm512_add_epi32(even[j], product(x, at + j * WIDTH, to[j].products));
            odd[j] = _mm512_add_epi32(odd[j], product(y, next + j * WIDTH, to[j].products));
        }
    }
    for (size_t j = 0; j < 2; j++) {
        const __mmask16 undone = to[j].leave | (__mmask16)(leave >> j * WIDTH);
        const __m512 old = _mm512_loadu_ps(c + j * WIDTH);

        left |= (uint32_t)(undone & (__mmask16)~to[j].nan) << j * WIDTH;
        _mm512_storeu_ps(c + j * WIDTH,
                         end(unit, wide, &to[j], even[j], odd[j], old, undone | to[j].nan));
    }
    return left;
}

static inline uint64_t add(const plumb_lane_unit *unit, bool wide, plumb_lane_terms a,
                           size_t row, plumb_lane_terms b, size_t width, uint64_t leave,
                           float *c)
{
    _Alignas(64) int8_t most[PLUMB_LANES];
    uint64_t left = 0;

    _mm512_store_si512(most, largest(unit->terms, a.e + row, b.e));
    for (size_t i = 0; i < width; i += 2 * WIDTH) {
        const plumb_lane_terms at = {b.x + i, NULL, b.top + i};

        left |= (uint64_t)add_pair(unit, wide, a.x + row, a.top[row], at, most + i,
                                   (uint32_t)(leave >> i), c + i)
                << i;
    }
    return left;
}

uint64_t plumb_lane_add_avx512(const plumb_lane_unit *unit, plumb_lane_terms a, size_t row,
                               plumb_lane_terms b, size_t width, uint64_t leave, float *c)
{
    return unit->wide ? add(unit, true, a, row, b, width, leave, c)
                      : add(unit, false, a, row, b, width, leave, c);
}

uint64_t plumb_lane_prepare_avx512(size_t terms, size_t rows, int emin, const float *from,
                                   const uint8_t *order, float *x, int8_t *e, int32_t *top)
{
    return plumb_lane_prepare_any(terms, rows, emin, from, order, x, e, top);
}

void plumb_lane_join_avx512(float da, const float *db, const float *c, float *main)
{
    plumb_lane_join_any(da, db, c, main);
}
#endif
