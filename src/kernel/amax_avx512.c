/* The largest magnitude in AVX-512: as integers, so that NaN is larger than infinity and shows;
 * only then is it looked for and left out.  Blocks are done sixteen at a time and turned, so that
 * their sixteen results come out of one vector; blocks of several rows, column by column first.
 */
#include "kernel/fused.h"

#include "base/size.h"

enum { AT_ONCE = 16 /* blocks */ };
enum { AHEAD = 2048, FAR_AHEAD = 16384 /* bytes of prefetch */ };

INLINE __m512i magnitudes(bool half, const void *x, size_t at, __mmask16 present)
{
    const __m512i magnitude = _mm512_set1_epi32(MAGNITUDE);

    if (half)
        return _mm512_and_si512(
            magnitude, _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(
                                             present, (const uint16_t *)x + at)),
                                         16));
    return _mm512_maskz_and_epi32(present, magnitude,
                                  _mm512_maskz_loadu_epi32(present, (const float *)x + at));
}

INLINE __mmask16 mask_of(size_t n)
{
    return n >= WIDTH ? 0xffff : (__mmask16)((1u << n) - 1);
}

/* By lane.  NaN counts as zero, or as what its bits are. */
INLINE __m512i lanes(bool half, bool without_nan, const void *x, size_t n)
{
    const __m512i infinity = _mm512_set1_epi32(INF);
    __m512i most[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(),
                       _mm512_setzero_si512(), _mm512_setzero_si512()};
    size_t at = 0;

    for (; n - at >= STEP && !without_nan; at += STEP) {
        _mm_prefetch((const char *)x + at * (half ? 2 : 4) + AHEAD, _MM_HINT_T0);
        if (!half) {
            _mm_prefetch((const char *)x + at * 4 + AHEAD + 64, _MM_HINT_T0);
            _mm_prefetch((const char *)x + at * 4 + AHEAD + 128, _MM_HINT_T0);
            _mm_prefetch((const char *)x + at * 4 + AHEAD + 192, _MM_HINT_T0);
        }
#pragma GCC unroll 4
        for (size_t v = 0; v < 4; v++)
            most[v] =
                _mm512_max_epu32(most[v], magnitudes(half, x, at + WIDTH * v, 0xffff));
    }
    for (; at < n; at += WIDTH) {
        const __m512i more = magnitudes(half, x, at, mask_of(n - at));
        const __mmask16 number =
            without_nan ? _mm512_cmple_epu32_mask(more, infinity) : (__mmask16)0xffff;

        most[0] = _mm512_mask_max_epu32(most[0], number, most[0], more);
    }
    return _mm512_max_epu32(_mm512_max_epu32(most[0], most[1]),
                            _mm512_max_epu32(most[2], most[3]));
}

/* *numbers becomes false if there is a NaN. */
INLINE float amax_of(bool half, const void *x, size_t n, bool *numbers)
{
    uint32_t most = _mm512_reduce_max_epu32(lanes(half, false, x, n));

    if (most > INF) {
        *numbers = false;
        most = _mm512_reduce_max_epu32(lanes(half, true, x, n));
    }
    return float_of(most);
}

float plumb_amax_direct_avx512(const float *x, size_t n)
{
    bool numbers;

    return amax_of(false, x, n, &numbers);
}

/* The words of bf16 as they are, 32 to a vector. */
float plumb_amax_bf16_direct_avx512(const uint16_t *x, size_t n)
{
    const __m512i magnitude = _mm512_set1_epi16(0x7fff);
    __m512i most[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};

    for (size_t at = 0; at < n; at += STEP) {
        const uint64_t present = first_of(n - at);

        _mm_prefetch((const char *)(x + at) + AHEAD, _MM_HINT_T0);
        _mm_prefetch((const char *)(x + at) + AHEAD + 64, _MM_HINT_T0);
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            const __m512i more = _mm512_maskz_loadu_epi16((__mmask32)(present >> 32 * v),
                                                          x + at + 32 * (size_t)v);

            most[v] = _mm512_max_epu16(most[v], _mm512_and_si512(more, magnitude));
        }
    }
    const __m512i both = _mm512_max_epu16(most[0], most[1]);
    const uint32_t largest = _mm512_reduce_max_epu32(_mm512_max_epu32(
        _mm512_slli_epi32(both, 16), _mm512_slli_epi32(_mm512_srli_epi32(both, 16), 16)));

    bool numbers;

    return largest > INF ? amax_of(true, x, n, &numbers) : float_of(largest);
}

/* --- blocks ---------------------------------------------------------------------------- */

INLINE __m512i fold_halves(__m512i a, __m512i b)
{
    return _mm512_max_epu32(_mm512_shuffle_i32x4(a, b, 0x44),
                            _mm512_shuffle_i32x4(a, b, 0xee));
}

INLINE __m512i fold_quarters(__m512i a, __m512i b)
{
    return _mm512_max_epu32(_mm512_shuffle_i32x4(a, b, 0x88),
                            _mm512_shuffle_i32x4(a, b, 0xdd));
}

INLINE __m512i fold_pairs(__m512i a, __m512i b)
{
    return _mm512_max_epu32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

INLINE __m512i fold_neighbours(__m512i a, __m512i b)
{
    const __m512 x = _mm512_castsi512_ps(a), y = _mm512_castsi512_ps(b);

    return _mm512_max_epu32(_mm512_castps_si512(_mm512_shuffle_ps(x, y, 0x88)),
                            _mm512_castps_si512(_mm512_shuffle_ps(x, y, 0xdd)));
}

/* The largest element of each of sixteen vectors, in order. */
INLINE __m512i largest_of_each(const __m512i v[AT_ONCE])
{
    __m512i four_each[4]; /* in each 128 bits what these bits of four vectors have */

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        four_each[i] = fold_neighbours(fold_pairs(v[4 * i], v[4 * i + 1]),
                                       fold_pairs(v[4 * i + 2], v[4 * i + 3]));
    return fold_quarters(fold_halves(four_each[0], four_each[1]),
                         fold_halves(four_each[2], four_each[3]));
}

INLINE __m512i whole_block(bool half, const void *x, size_t at, size_t block)
{
    __m512i most = _mm512_setzero_si512();

#pragma GCC unroll 8
    for (size_t i = 0; i < block; i += WIDTH)
        most = _mm512_max_epu32(most, magnitudes(half, x, at + i, 0xffff));
    return most;
}

/* As many whole blocks as go in sixteens; the others one by one.  True if there is no NaN.  The
 * cast of the line before has brought this one; here the memory is kept busy with one far ahead.
 */
INLINE bool blocks_of(bool half, const void *x, size_t n, size_t block, float *amax)
{
    const size_t each = half ? 2 : 4, whole = n / block / AT_ONCE * AT_ONCE;
    size_t b = 0;
    bool numbers = true;

    for (; b < whole; b += AT_ONCE) {
        __m512i v[AT_ONCE];

#pragma GCC unroll 16
        for (size_t i = 0; i < AT_ONCE; i++) {
            const size_t at = (b + i) * block;

            for (size_t ahead = 0; ahead < block * each; ahead += 256)
                _mm_prefetch((const char *)x + at * each + FAR_AHEAD + ahead, _MM_HINT_T1);
            v[i] = whole_block(half, x, at, block);
        }
        const __m512i largest = largest_of_each(v);
        __mmask16 nan = _mm512_cmpgt_epu32_mask(largest, _mm512_set1_epi32(INF));

        _mm512_storeu_si512(amax + b, largest);
        numbers &= nan == 0;
        for (; nan != 0; nan &= (__mmask16)(nan - 1)) {
            const size_t of = b + (size_t)__builtin_ctz(nan);

            amax[of] = amax_of(half, (const char *)x + of * block * each, block, &numbers);
        }
    }
    for (size_t at = b * block; at < n; at += block, b++)
        amax[b] =
            amax_of(half, (const char *)x + at * each, smaller(block, n - at), &numbers);
    return numbers;
}

INLINE bool blocks_from(bool half, const void *x, size_t n, size_t block, float *amax)
{
    if (block == 128)
        return blocks_of(half, x, n, 128, amax);
    if (block == 32)
        return blocks_of(half, x, n, 32, amax);
    if (block == 16)
        return blocks_of(half, x, n, 16, amax);

    bool numbers = true;

    for (size_t at = 0, b = 0; at < n; at += block, b++)
        amax[b] = amax_of(half, (const char *)x + at * (half ? 2 : 4),
                          smaller(block, n - at), &numbers);
    return numbers;
}

/* --- blocks of several rows ------------------------------------------------------------ */

enum { STRIP = 512 /* columns */, TOGETHER = 8 /* rows */ };

/* Some rows into the largest magnitude of each column, as bits; the next rows are fetched. */
INLINE void fold_rows(bool half, const char *x, size_t rows, size_t pitch, size_t n,
                      uint32_t *most)
{
    for (size_t c = 0; c < n; c += WIDTH) {
        const __mmask16 mask = mask_of(n - c);
        __m512i m = _mm512_maskz_loadu_epi32(mask, most + c);

#pragma GCC unroll 8
        for (size_t r = 0; r < rows; r++) {
            _mm_prefetch(x + (r + TOGETHER) * pitch + c * (half ? 2 : 4), _MM_HINT_T0);
            m = _mm512_max_epu32(m, magnitudes(half, x + r * pitch, c, mask));
        }
        _mm512_mask_storeu_epi32(most + c, mask, m);
    }
}

/* False, and nothing done, if there is a NaN. */
INLINE bool strip(bool half, const char *x, size_t rows, size_t pitch, size_t n,
                  size_t block, float *amax)
{
    uint32_t most[STRIP] = {0};
    size_t row = 0;

    for (; rows - row >= TOGETHER; row += TOGETHER)
        fold_rows(half, x + row * pitch, TOGETHER, pitch, n, most);
    for (; row < rows; row++)
        fold_rows(half, x + row * pitch, 1, pitch, n, most);
    if (_mm512_reduce_max_epu32(lanes(false, false, most, n)) > INF)
        return false;
    if (block == 1)
        memcpy(amax, most, n * sizeof *amax);
    else
        plumb_amax_blocks_avx512(PLUMB_FP32, most, 1, 0, n, block, amax);
    return true;
}

/* A strip with NaN, or of odd blocks, goes to the plain kernel. */
bool plumb_amax_blocks_direct_avx512(plumb_format source, const void *x, size_t rows,
                                     size_t ld, size_t n, size_t block, float *amax)
{
    const bool half = source != PLUMB_FP32;
    const size_t each = half ? 2 : 4;
    bool numbers = true;

    if (rows == 1 && block != 1)
        return half ? blocks_from(true, x, n, block, amax)
                    : blocks_from(false, x, n, block, amax);
    if (STRIP % block != 0)
        return plumb_amax_blocks_avx512(source, x, rows, ld, n, block, amax);
    for (size_t at = 0; at < n; at += STRIP) {
        const char *from = (const char *)x + at * each;
        const size_t m = smaller(STRIP, n - at);
        const bool done =
            half ? strip(true, from, rows, ld * each, m, block, amax + at / block)
                 : strip(false, from, rows, ld * each, m, block, amax + at / block);

        if (!done)
            numbers &= plumb_amax_blocks_avx512(source, from, rows, ld, m, block,
                                                amax + at / block);
    }
    return numbers;
}
