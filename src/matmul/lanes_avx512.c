/* Matrix units in 16 fp32 lanes: a product is exact, a power of two moves it to the binary
 * point at which the unit cuts, and the conversion to integers truncates toward zero.
 */
#include "matmul/lanes.h"

#if defined(__x86_64__)
#include "matmul/lanes_avx512.h"

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

static inline __m512i product(__m512 a, const float *b, __m512 factor)
{
    return _mm512_cvttps_epi32(_mm512_mul_ps(_mm512_mul_ps(a, _mm512_loadu_ps(b)), factor));
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
