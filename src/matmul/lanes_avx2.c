/* Matrix units in 8 fp32 lanes: as in lanes_avx512.c, with vectors for masks. */
#include "matmul/lanes.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { WIDTH = 8 };

/* 2^e, e from -126 to 127. */
static inline __m256 power(__m256i e)
{
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
}

/* The largest e of the products of each of 64 results. */
static inline void largest(size_t terms, const int8_t *a, const int8_t *b, int8_t *most)
{
    __m256i low = _mm256_set1_epi8(PLUMB_LANES_ZERO), high = low;

    for (size_t t = 0; t < terms; t++) {
        const __m256i x = _mm256_set1_epi8(a[t * PLUMB_LANES]);
        const __m256i *at = (const __m256i *)(const void *)(b + t * PLUMB_LANES);

        low = _mm256_max_epi8(low, _mm256_adds_epi8(x, _mm256_loadu_si256(at)));
        high = _mm256_max_epi8(high, _mm256_adds_epi8(x, _mm256_loadu_si256(at + 1)));
    }
    _mm256_store_si256((__m256i *)(void *)most, low);
    _mm256_store_si256((__m256i *)(void *)most + 1, high);
}

/* What 8 results are aligned to, and which of them this arithmetic does not cover. */
typedef struct aligned {
    __m256i most;    /* the largest exponent of all */
    __m256 products; /* factor of the products */
    __m256i leave;   /* not covered */
    __m256i nan;     /* c is NaN */
} aligned;

static inline aligned align(const plumb_lane_unit *unit, __m256i e, __m256i top, __m256 c)
{
    const __m256i lowest = _mm256_set1_epi32(-PLUMB_LANES_RANGE);
    const __m256i zero = _mm256_set1_epi32(PLUMB_E_ZERO);
    const __m256i none = _mm256_cmpeq_epi32(e, _mm256_set1_epi32(PLUMB_LANES_ZERO));
    const __m256i some =
        _mm256_castps_si256(_mm256_cmp_ps(c, _mm256_setzero_ps(), _CMP_NEQ_UQ));
    const __m256i field = _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(c), 23),
                                           _mm256_set1_epi32(255));
    const __m256i of_c = _mm256_blendv_epi8(
        zero,
        _mm256_max_epi32(_mm256_set1_epi32(unit->emin),
                         _mm256_sub_epi32(field, _mm256_set1_epi32(127))),
        some);
    const __m256i of_products = _mm256_blendv_epi8(_mm256_add_epi32(e, top), zero, none);
    const __m256i most = _mm256_max_epi32(_mm256_max_epi32(of_products, of_c),
                                          _mm256_set1_epi32(unit->floor));
    const __m256i far = _mm256_andnot_si256(
        none, _mm256_cmpgt_epi32(_mm256_set1_epi32(PLUMB_LANES_FAR + 1), e));
    const __m256i nothing = _mm256_andnot_si256(some, none);
    const __m256i low = _mm256_andnot_si256(nothing, _mm256_cmpgt_epi32(lowest, most));
    const __m256i high = _mm256_cmpgt_epi32(most, _mm256_set1_epi32(PLUMB_LANES_RANGE));
    aligned to;

    to.most = _mm256_max_epi32(most, lowest);
    to.nan = _mm256_castps_si256(_mm256_cmp_ps(c, c, _CMP_UNORD_Q));
    to.leave = _mm256_or_si256(far, _mm256_or_si256(low, high));
    /* Of a sum without products any factor will do. */
    const __m256i by = _mm256_sub_epi32(
        _mm256_add_epi32(top, _mm256_set1_epi32(unit->fraction_bits)), to.most);
    to.products = power(_mm256_min_epi32(_mm256_max_epi32(by, _mm256_set1_epi32(-126)),
                                         _mm256_set1_epi32(100)));
    return to;
}

/* Sums of a half: exact, then rounded to the bits of the results. */
static inline __m128 round_half(const plumb_lane_unit *unit, __m128i even, __m128i odd,
                                __m128 steps)
{
    const __m256d sum = _mm256_add_pd(_mm256_cvtepi32_pd(even), _mm256_cvtepi32_pd(odd));
    const long long kept = -(1LL << (52 - unit->result_bits));

    if (!unit->half)
        return _mm256_cvtpd_ps(
            _mm256_and_pd(sum, _mm256_castsi256_pd(_mm256_set1_epi64x(kept))));
    /* Added to 1.5 * 2^42 times its power of two, at least that of 2^-14, a sum keeps 10 bits. */
    const __m256d own =
        _mm256_and_pd(sum, _mm256_castsi256_pd(_mm256_set1_epi64x(0x7ffLL << 52)));
    const __m256d least = _mm256_mul_pd(_mm256_cvtps_pd(steps), _mm256_set1_pd(0x1p-14));
    const __m256d big = _mm256_mul_pd(_mm256_max_pd(own, least), _mm256_set1_pd(0x1.8p42));
    return _mm256_cvtpd_ps(_mm256_sub_pd(_mm256_add_pd(sum, big), big));
}

/* The rounded sum, in units of 2^(most - fraction_bits). */
static inline __m256 round_sum(const plumb_lane_unit *unit, bool wide, __m256i even,
                               __m256i odd, __m256 steps)
{
    if (!wide) {
        const __m256 sum = _mm256_cvtepi32_ps(_mm256_add_epi32(even, odd));
        const __m256i kept = _mm256_set1_epi32(-(1 << (23 - unit->result_bits)));

        return _mm256_and_ps(sum, _mm256_castsi256_ps(kept));
    }
    return _mm256_set_m128(
        round_half(unit, _mm256_extracti128_si256(even, 1),
                   _mm256_extracti128_si256(odd, 1), _mm256_extractf128_ps(steps, 1)),
        round_half(unit, _mm256_castsi256_si128(even), _mm256_castsi256_si128(odd),
                   _mm256_castps256_ps128(steps)));
}

static inline __m256i product(__m256 a, const float *b, __m256 factor)
{
    return _mm256_cvttps_epi32(_mm256_mul_ps(_mm256_mul_ps(a, _mm256_loadu_ps(b)), factor));
}

/* c after the sum, but where it is to be kept. */
static inline __m256 end(const plumb_lane_unit *unit, bool wide, const aligned *to,
                         __m256i even, __m256i odd, __m256 c, __m256i keep)
{
    const __m256i fraction = _mm256_set1_epi32(unit->fraction_bits);
    const __m256 up = power(_mm256_sub_epi32(fraction, to->most));
    const __m256 down = power(_mm256_sub_epi32(to->most, fraction));
    const __m256i addend = _mm256_cvttps_epi32(_mm256_mul_ps(c, up));
    const __m256 sum = round_sum(unit, wide, _mm256_add_epi32(even, addend), odd, up);
    __m256 x = _mm256_mul_ps(sum, down);

    if (unit->half) {
        const __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
        const __m256 over = _mm256_cmp_ps(magnitude, _mm256_set1_ps(65536), _CMP_GE_OQ);
        x = _mm256_blendv_ps(x, _mm256_mul_ps(x, _mm256_set1_ps(0x1p127f)), over);
    }
    return _mm256_blendv_ps(x, c, _mm256_castsi256_ps(keep));
}

/* All bits of lane i for bit i. */
static inline __m256i lanes_of(uint32_t bits)
{
    const __m256i each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);

    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)bits), each), each);
}

/* 16 results: the sum of even terms and of odd ones stay below 2^31. */
static inline uint32_t add_pair(const plumb_lane_unit *unit, bool wide, const float *a,
                                int top, plumb_lane_terms b, const int8_t *most,
                                uint32_t leave, float *c)
{
    __m256i even[2], odd[2];
    aligned to[2];
    uint32_t left = 0;

    for (size_t j = 0; j < 2; j++) {
        const __m256i e = _mm256_cvtepi8_epi32(
            _mm_loadl_epi64((const __m128i *)(const void *)(most + j * WIDTH)));
        const __m256i tops = _mm256_add_epi32(
            _mm256_loadu_si256((const __m256i *)(const void *)(b.top + j * WIDTH)),
            _mm256_set1_epi32(top));

        to[j] = align(unit, e, tops, _mm256_loadu_ps(c + j * WIDTH));
        even[j] = odd[j] = _mm256_setzero_si256();
    }
    for (size_t t = 0; t < unit->terms; t += 2) {
        const float *at = b.x + t * PLUMB_LANES, *next = at + PLUMB_LANES;
        const __m256 x = _mm256_set1_ps(a[t * PLUMB_LANES]);
        const __m256 y = _mm256_set1_ps(a[(t + 1) * PLUMB_LANES]);

#pragma GCC unroll 2
        for (size_t j = 0; j < 2; j++) {
            even[j] = _mm256_add_epi32(even[j], product(x, at + j * WIDTH, to[j].products));
            odd[j] = _mm256_add_epi32(odd[j], product(y, next + j * WIDTH, to[j].products));
        }
    }
    for (size_t j = 0; j < 2; j++) {
        const __m256i undone = _mm256_or_si256(to[j].leave, lanes_of(leave >> j * WIDTH));
        const __m256 old = _mm256_loadu_ps(c + j * WIDTH);
        const __m256 not_nan = _mm256_castsi256_ps(_mm256_andnot_si256(to[j].nan, undone));

        left |= (uint32_t)_mm256_movemask_ps(not_nan) << j * WIDTH;
        _mm256_storeu_ps(c + j * WIDTH, end(unit, wide, &to[j], even[j], odd[j], old,
                                            _mm256_or_si256(undone, to[j].nan)));
    }
    return left;
}

static inline uint64_t add(const plumb_lane_unit *unit, bool wide, plumb_lane_terms a,
                           size_t row, plumb_lane_terms b, size_t width, uint64_t leave,
                           float *c)
{
    _Alignas(32) int8_t most[PLUMB_LANES];
    uint64_t left = 0;

    largest(unit->terms, a.e + row, b.e, most);
    for (size_t i = 0; i < width; i += 2 * WIDTH) {
        const plumb_lane_terms at = {b.x + i, NULL, b.top + i};

        left |= (uint64_t)add_pair(unit, wide, a.x + row, a.top[row], at, most + i,
                                   (uint32_t)(leave >> i), c + i)
                << i;
    }
    return left;
}

uint64_t plumb_lane_add_avx2(const plumb_lane_unit *unit, plumb_lane_terms a, size_t row,
                             plumb_lane_terms b, size_t width, uint64_t leave, float *c)
{
    return unit->wide ? add(unit, true, a, row, b, width, leave, c)
                      : add(unit, false, a, row, b, width, leave, c);
}

uint64_t plumb_lane_prepare_avx2(size_t terms, size_t rows, int emin, const float *from,
                                 const uint8_t *order, float *x, int8_t *e, int32_t *top)
{
    return plumb_lane_prepare_any(terms, rows, emin, from, order, x, e, top);
}

void plumb_lane_join_avx2(float da, const float *db, const float *c, float *main)
{
    plumb_lane_join_any(da, db, c, main);
}
#endif
