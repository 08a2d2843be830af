/* kernel/exponents.h - the histogram of fp32 exponent fields in AVX-512, exact.
 *
 * A table look-up in registers turns 64 fields into 64 bytes with one bit set, the bit of a bin,
 * once for the lower and once for the upper half of a window of sixteen.  Carry-save adders add
 * the bytes bit by bit into planes of weight 1, 2, 4, ..., and at the end the ones of each plane
 * are counted.  Fields outside the window, rare if it is well placed, are counted one by one;
 * zeros are not rare and have a count of their own.
 */
#ifndef PLUMB_KERNEL_EXPONENTS_H
#define PLUMB_KERNEL_EXPONENTS_H

#include "kernel/fused.h"

enum { BINS = 16, GROUP = 16, SEGMENT = 256 /* steps: of a group, of a window */ };
enum { LEVELS = 9 /* 2^LEVELS > SEGMENT */ };
enum { XOR3 = 0x96, MAJORITY = 0xe8 /* ternary logic */ };

/* Bytes with at most one bit set: bins 0 to 7 in the low half, 8 to 15 in the high one. */
typedef struct halves {
    __m512i low, high;
} halves;

/* For each half of the window the same: one plane at each level, and at most one more of that
 * weight that waits for its fellow.
 */
typedef struct exponents {
    __m512i plane[LEVELS][2];
    halves waiting[LEVELS];
    unsigned is_waiting; /* bit by level */
    unsigned steps;
    uint8_t base; /* the field of bin 0 */
    uint64_t *counts;
} exponents;

/* sum and a, b: sum keeps the weight, the carry is returned. */
INLINE __m512i carry_save(__m512i *sum, __m512i a, __m512i b)
{
    const __m512i carry = _mm512_ternarylogic_epi32(*sum, a, b, MAJORITY);

    *sum = _mm512_ternarylogic_epi32(*sum, a, b, XOR3);
    return carry;
}

/* The exponent fields of n of 64 elements at x, in some order; zero for the others. */
INLINE __m512i fields_at(bool half, const void *x, size_t n)
{
    const __m512i even = _mm512_set1_epi32((int)0xff00ff00);
    const __m512i high = _mm512_set1_epi32((int)0xffff0000);

    if (half) {
        const uint64_t present = first_of(n);
        const __m512i a = _mm512_maskz_loadu_epi16((__mmask32)present, x);
        const __m512i b = _mm512_maskz_loadu_epi16((__mmask32)(present >> 32),
                                                   (const uint16_t *)x + STEP / 2);

        return _mm512_ternarylogic_epi32(_mm512_slli_epi16(a, 1), _mm512_srli_epi16(b, 7),
                                         even, PICK);
    }
    const four from = load(false, x, n);
    const __m512i a = _mm512_slli_epi32(_mm512_castps_si512(from.v[0]), 1);
    const __m512i b = _mm512_srli_epi32(_mm512_castps_si512(from.v[1]), 7);
    const __m512i c = _mm512_srli_epi32(_mm512_castps_si512(from.v[2]), 15);
    const __m512i d = _mm512_srli_epi32(_mm512_castps_si512(from.v[3]), 23);

    return _mm512_ternarylogic_epi32(_mm512_ternarylogic_epi32(a, b, even, PICK),
                                     _mm512_ternarylogic_epi32(c, d, even, PICK), high,
                                     PICK);
}

static __attribute__((noinline)) void count_singly(uint64_t *counts, __m512i fields,
                                                   uint64_t which)
{
    uint8_t field[STEP];

    _mm512_storeu_si512(field, fields);
    for (; which != 0; which &= which - 1)
        counts[field[__builtin_ctzll(which)]]++;
}

INLINE halves bits_at(exponents *h, bool half, const void *x, size_t n)
{
    const __m512i fields = fields_at(half, x, n);
    const __m512i low = _mm512_broadcast_i32x4(
        _mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m512i high = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, -128));
    const __m512i bin = _mm512_sub_epi8(fields, _mm512_set1_epi8((char)h->base));
    const uint64_t outside = _mm512_cmpge_epu8_mask(bin, _mm512_set1_epi8(BINS));

    if (outside == 0)
        return (halves){_mm512_shuffle_epi8(low, bin), _mm512_shuffle_epi8(high, bin)};
    const uint64_t zero = _mm512_testn_epi8_mask(fields, fields) & outside;
    const uint64_t inside = ~outside;

    h->counts[0] += (uint64_t)__builtin_popcountll(zero);
    if (zero != outside)
        count_singly(h->counts, fields, outside & ~zero);
    return (halves){_mm512_maskz_shuffle_epi8(inside, low, bin),
                    _mm512_maskz_shuffle_epi8(inside, high, bin)};
}

/* Of the two halves of what is counted here, the carry of each level. */
typedef struct planes {
    __m512i v[4][2];
} planes;

INLINE halves carry_both(__m512i plane[2], halves a, halves b)
{
    return (halves){carry_save(&plane[0], a.low, b.low),
                    carry_save(&plane[1], a.high, b.high)};
}

INLINE halves two_steps(exponents *h, planes *p, bool half, const char *x, size_t bytes)
{
    const halves a = bits_at(h, half, x, STEP), b = bits_at(h, half, x + bytes, STEP);

    return carry_both(p->v[0], a, b);
}

INLINE halves four_steps(exponents *h, planes *p, bool half, const char *x, size_t bytes)
{
    const halves a = two_steps(h, p, half, x, bytes);
    const halves b = two_steps(h, p, half, x + 2 * bytes, bytes);

    return carry_both(p->v[1], a, b);
}

INLINE halves eight_steps(exponents *h, planes *p, bool half, const char *x, size_t bytes)
{
    const halves a = four_steps(h, p, half, x, bytes);
    const halves b = four_steps(h, p, half, x + 4 * bytes, bytes);

    return carry_both(p->v[2], a, b);
}

/* Adds to a level, and what it carries to those above. */
INLINE void carry_up(exponents *h, unsigned level, halves more)
{
    for (; (h->is_waiting >> level & 1) != 0; level++) {
        more = carry_both(h->plane[level], h->waiting[level], more);
        h->is_waiting &= ~(1u << level);
    }
    h->waiting[level] = more;
    h->is_waiting |= 1u << level;
}

/* The ones of each of the eight bits, times the weight. */
INLINE void count_plane(uint64_t *counts, __m512i plane, unsigned level)
{
#pragma GCC unroll 8
    for (int bit = 0; bit < 8; bit++) {
        const __mmask64 ones =
            _mm512_test_epi8_mask(plane, _mm512_set1_epi8((char)(1 << bit)));

        counts[bit] += (uint64_t)__builtin_popcountll(ones) << level;
    }
}

/* Counts what the planes hold. */
static void flush_exponents(exponents *h)
{
    uint64_t bins[BINS] = {0};

    for (unsigned level = 0; level < LEVELS && h->steps >> level != 0; level++) {
        count_plane(bins, h->plane[level][0], level);
        count_plane(bins + 8, h->plane[level][1], level);
        h->plane[level][0] = h->plane[level][1] = _mm512_setzero_si512();
        if ((h->is_waiting >> level & 1) != 0) {
            count_plane(bins, h->waiting[level].low, level);
            count_plane(bins + 8, h->waiting[level].high, level);
        }
    }
    for (unsigned bin = 0; bin < BINS; bin++)
        h->counts[h->base + bin] += bins[bin];
    h->steps = h->is_waiting = 0;
}

/* A window up to twice what is largest, but infinite, in the step at x, and a little more. */
static void place_window(exponents *h, bool half, const void *x, size_t n)
{
    const __m512i fields = fields_at(half, x, n);
    const __mmask64 finite = _mm512_cmpneq_epi8_mask(fields, _mm512_set1_epi8(-1));
    const __m512i all = _mm512_maskz_mov_epi8(finite, fields);
    const __m256i by_256 =
        _mm256_max_epu8(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    __m128i most =
        _mm_max_epu8(_mm256_castsi256_si128(by_256), _mm256_extracti128_si256(by_256, 1));

    most = _mm_max_epu8(most, _mm_srli_si128(most, 8));
    most = _mm_max_epu8(most, _mm_srli_si128(most, 4));
    most = _mm_max_epu8(most, _mm_srli_si128(most, 2));
    most = _mm_max_epu8(most, _mm_srli_si128(most, 1));

    const int above = (_mm_cvtsi128_si32(most) & 0xff) + 2, top = above < 255 ? above : 255;

    h->base = (uint8_t)(top < BINS ? 0 : top - (BINS - 1));
}

static void start_exponents(exponents *h, const plumb_encode_job *job, uint64_t *counts)
{
    const size_t all = (job->n / STEP + 1) * (job->rows > 1 ? job->rows : 1);
    const size_t steps = all < SEGMENT ? all : SEGMENT;

    for (unsigned level = 0; steps >> level != 0; level++)
        h->plane[level][0] = h->plane[level][1] = _mm512_setzero_si512();
    h->steps = h->is_waiting = 0;
    h->counts = counts;
}

/* Counts a block of at most GROUP steps. */
INLINE void count_exponents(exponents *h, bool half, const char *x, size_t n)
{
    const size_t bytes = STEP * (half ? sizeof(uint16_t) : sizeof(float));

    if (h->steps == 0)
        place_window(h, half, x, n);
    if (n == GROUP * STEP) {
        planes p;

        memcpy(&p, h->plane, sizeof p);
        const halves a = eight_steps(h, &p, half, x, bytes);
        const halves b = eight_steps(h, &p, half, x + 8 * bytes, bytes);
        const halves carry = carry_both(p.v[3], a, b);

        memcpy(h->plane, &p, sizeof p);
        carry_up(h, 4, carry);
        h->steps += GROUP;
    } else {
        for (size_t at = 0; at < n; at += STEP, x += bytes, h->steps++)
            carry_up(h, 0, bits_at(h, half, x, n - at));
        h->counts[0] -= (0 - n) % STEP; /* what was read as zero behind the end */
    }
    if (h->steps >= SEGMENT)
        flush_exponents(h);
}

#endif
