/* matmul/pairs_avx512bf16.h - codes packed as pairs of bf16 along K, for kernels that multiply pairs.
 *
 * The file that includes this defines PAIR_STEP first.  Four elements along K are two pairs of 32
 * bits: with 1 (k, k + 1), then (k + 2, k + 3), the first in the lower half; with 2 (k + 2, k), then
 * (k + 3, k + 1).
 *
 * Rows of A hold the pairs of one row one after the other, slivers of B those of NR columns.
 */
#ifndef PLUMB_MATMUL_PAIRS_AVX512BF16_H
#define PLUMB_MATMUL_PAIRS_AVX512BF16_H

#include "matmul/fold.h"
#include "matmul/tile_avx512.h"

/* --- decoding ----------------------------------------------------------------- */

/* The 256 values of a format of at most 8 bits, which bf16 holds exactly: their lower and their
 * upper bytes.
 */
typedef struct values {
    __m512i low[4], high[4];
} values;

static inline values values_of(plumb_format format)
{
    const float *table = plumb_format_decode_table(format);
    int8_t order[64];
    values v;

    for (int i = 0; i < 64; i++)
        order[i] = (int8_t)(2 * i);
    const __m512i even = _mm512_loadu_si512(order),
                  odd = _mm512_add_epi8(even, _mm512_set1_epi8(1));

    for (size_t i = 0; i < 4; i++) {
        __m512i x[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};

        for (size_t j = 0; table != NULL && j < 2; j++) {
            const float *from = table + 64 * i + 32 * j;

            x[j] = (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + WIDTH),
                                                _mm512_loadu_ps(from));
        }
        v.low[i] = _mm512_permutex2var_epi8(x[0], even, x[1]);
        v.high[i] = _mm512_permutex2var_epi8(x[0], odd, x[1]);
    }
    return v;
}

/* 64 codes to bf16: in each 128 bits the first eight to x[0], the others to x[1]. */
static inline void look_up(const values *v, __m512i codes, __m512i x[2])
{
    const __mmask64 upper = _mm512_movepi8_mask(codes);
    const __m512i low =
        _mm512_mask_blend_epi8(upper, _mm512_permutex2var_epi8(v->low[0], codes, v->low[1]),
                               _mm512_permutex2var_epi8(v->low[2], codes, v->low[3]));
    const __m512i high = _mm512_mask_blend_epi8(
        upper, _mm512_permutex2var_epi8(v->high[0], codes, v->high[1]),
        _mm512_permutex2var_epi8(v->high[2], codes, v->high[3]));

    x[0] = _mm512_unpacklo_epi8(low, high);
    x[1] = _mm512_unpackhi_epi8(low, high);
}

/* --- pairs: `wide` codes are bf16, the others bytes -------------------------------- */

/* Codes of one vector, and vectors of sixteen pairs that come of two of them. */
static inline size_t codes_in(bool wide)
{
    return wide ? 32 : 64;
}

static inline size_t vectors_in(bool wide)
{
    return wide ? 2 : 4;
}

/* Codes from element i on; past `count` code 0, which is +0. */
static inline __m512i load(bool wide, const void *codes, size_t i, size_t count)
{
    const size_t all = codes_in(wide);
    const uint64_t mask = count < all ? (1ull << count) - 1 : ~0ull;

    if (wide)
        return _mm512_maskz_loadu_epi16((__mmask32)mask, (const uint16_t *)codes + i);
    return _mm512_maskz_loadu_epi8(mask, (const uint8_t *)codes + i);
}

/* Codes that follow each other along K, to vectors_in / 2. */
static inline void pairs_along(bool wide, const values *v, __m512i x, __m512i pairs[2])
{
    const __m128i words =
        _mm_setr_epi8(4, 5, 0, 1, 6, 7, 2, 3, 12, 13, 8, 9, 14, 15, 10, 11);
    const __m128i bytes =
        _mm_setr_epi8(2, 0, 3, 1, 6, 4, 7, 5, 10, 8, 11, 9, 14, 12, 15, 13);

    if (PAIR_STEP == 2)
        x = _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(wide ? words : bytes));
    if (wide)
        pairs[0] = x;
    else
        look_up(v, _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), x),
                pairs);
}

/* Codes of outer indices for the upper and for the lower halves, to vectors_in. */
static inline void pairs_across(bool wide, const values *v, __m512i upper, __m512i lower,
                                __m512i pairs[4])
{
    if (wide) {
        const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
        const __m512i a = _mm512_permutexvar_epi64(order, upper);
        const __m512i b = _mm512_permutexvar_epi64(order, lower);

        pairs[0] = _mm512_unpacklo_epi16(b, a);
        pairs[1] = _mm512_unpackhi_epi16(b, a);
        return;
    }
    const __m512i order =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i a = _mm512_permutexvar_epi32(order, upper);
    const __m512i b = _mm512_permutexvar_epi32(order, lower);

    look_up(v, _mm512_unpacklo_epi8(b, a), pairs);
    look_up(v, _mm512_unpackhi_epi8(b, a), pairs + 2);
}

static inline void turn(__m512i x[WIDTH])
{
    __m512 t[WIDTH];

#pragma GCC unroll 16
    for (size_t i = 0; i < WIDTH; i++)
        t[i] = _mm512_castsi512_ps(x[i]);
    transpose(t);
#pragma GCC unroll 16
    for (size_t i = 0; i < WIDTH; i++)
        x[i] = _mm512_castps_si512(t[i]);
}

/* --- packing ------------------------------------------------------------------ */

/* The codes of a panel, in lines of K (along) or of outer indices (across). */
typedef struct source {
    const void *codes;
    size_t ld, outer, depth;
} source;

static inline source source_of(const plumb_operand *operand, const plumb_panel *panel)
{
    return (source){plumb_operand_element(operand, panel->outer, panel->k),
                    operand->matrix->ld, panel->outer_count, panel->k_count};
}

/* The two pairs of k to k + 3, of outer indices from `at` on. */
static inline void four_across(bool wide, const values *v, source s, size_t at, size_t k,
                               __m512i one[4], __m512i two[4])
{
    __m512i x[4];

#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++)
        x[i] = k + i < s.depth ? load(wide, s.codes, (k + i) * s.ld + at, s.outer - at)
                               : _mm512_setzero_si512();
    pairs_across(wide, v, x[PAIR_STEP == 2 ? 0 : 1], x[PAIR_STEP == 2 ? 2 : 0], one);
    pairs_across(wide, v, x[PAIR_STEP == 2 ? 1 : 3], x[PAIR_STEP == 2 ? 3 : 2], two);
}

static inline void rows_along(bool wide, const values *v, source s, float *rows)
{
    for (size_t i = 0; i < s.outer; i++) {
        float *to = rows + i * PLUMB_MICRO_LD;

        for (size_t k = 0; k < s.depth; k += codes_in(wide)) {
            __m512i x[2];

            pairs_along(wide, v, load(wide, s.codes, i * s.ld + k, s.depth - k), x);
            for (size_t h = 0; h < vectors_in(wide) / 2; h++)
                _mm512_storeu_si512(to + k / 2 + h * WIDTH, x[h]);
        }
    }
}

static inline void rows_across(bool wide, const values *v, source s, float *rows)
{
    for (size_t j = 0; j < s.outer; j += codes_in(wide)) {
        for (size_t k = 0; k < s.depth; k += 2 * WIDTH) {
            __m512i x[4][WIDTH];

            for (size_t q = 0; q < WIDTH; q += 2) {
                __m512i one[4], two[4];

                four_across(wide, v, s, j, k + 2 * q, one, two);
                for (size_t h = 0; h < vectors_in(wide); h++)
                    x[h][q] = one[h], x[h][q + 1] = two[h];
            }
            for (size_t h = 0; h < vectors_in(wide); h++) {
                const size_t at = j + h * WIDTH;

                turn(x[h]);
                for (size_t i = 0; i < WIDTH && at + i < s.outer; i++)
                    _mm512_storeu_si512(rows + (at + i) * PLUMB_MICRO_LD + k / 2, x[h][i]);
            }
        }
    }
}

/* Where the pairs k / 2 of the outer indices from j on lie. */
static inline float *in_sliver(float *slivers, size_t depth, size_t j, size_t k)
{
    return slivers + (j / NR * NR * depth + k * NR) / 2 + j % NR;
}

/* Bytes are turned four by four, before they are decoded. */
static inline void four_along(const values *v, __m512i codes, float *to)
{
    const __m512i order = _mm512_broadcast_i32x4(
        PAIR_STEP == 2
            ? _mm_setr_epi8(2, 0, 6, 4, 10, 8, 14, 12, 3, 1, 7, 5, 11, 9, 15, 13)
            : _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    __m512i x[2];

    look_up(v, _mm512_shuffle_epi8(codes, order), x);
    _mm512_storeu_si512(to, x[0]);
    _mm512_storeu_si512(to + NR, x[1]);
}

static inline void slivers_along(bool wide, const values *v, source s, float *slivers)
{
    const size_t depth = plumb_round_up(s.depth, PLUMB_MICRO_CHAIN);
    const size_t codes = codes_in(wide);

    for (size_t j = 0; j < s.outer; j += WIDTH) {
        for (size_t k = 0; k < depth; k += codes) {
            float *to = in_sliver(slivers, depth, j, k);
            __m512i x[WIDTH];

#pragma GCC unroll 16
            for (size_t i = 0; i < WIDTH; i++) {
                x[i] = j + i < s.outer
                           ? load(wide, s.codes, (j + i) * s.ld + k, s.depth - k)
                           : _mm512_setzero_si512();
                if (wide)
                    pairs_along(true, v, x[i], &x[i]);
            }
            turn(x);
            for (size_t i = 0; wide && i < WIDTH; i++)
                _mm512_storeu_si512(to + i * NR, x[i]);
            for (size_t i = 0; !wide && i < WIDTH && k + 4 * i < depth; i++)
                four_along(v, x[i], to + 2 * i * NR);
        }
    }
}

static inline void slivers_across(bool wide, const values *v, source s, float *slivers)
{
    const size_t depth = plumb_round_up(s.depth, PLUMB_MICRO_CHAIN);

    for (size_t j = 0; j < s.outer; j += codes_in(wide)) {
        for (size_t k = 0; k < depth; k += 4) {
            __m512i one[4], two[4];

            four_across(wide, v, s, j, k, one, two);
            for (size_t h = 0; h < vectors_in(wide) && j + h * WIDTH < s.outer; h++) {
                float *to = in_sliver(slivers, depth, j + h * WIDTH, k);

                _mm512_storeu_si512(to, one[h]);
                _mm512_storeu_si512(to + NR, two[h]);
            }
        }
    }
}

static inline void pack_rows(const plumb_operand *operand, const plumb_panel *panel,
                             float *rows)
{
    const values v = values_of(operand->matrix->format);
    const source s = source_of(operand, panel);
    const bool wide = operand->matrix->format == PLUMB_BF16;

    if (operand->transposed)
        wide ? rows_across(true, &v, s, rows) : rows_across(false, &v, s, rows);
    else
        wide ? rows_along(true, &v, s, rows) : rows_along(false, &v, s, rows);
}

static inline void pack_slivers(const plumb_operand *operand, const plumb_panel *panel,
                                float *slivers)
{
    const values v = values_of(operand->matrix->format);
    const source s = source_of(operand, panel);
    const bool wide = operand->matrix->format == PLUMB_BF16;

    if (operand->transposed)
        wide ? slivers_across(true, &v, s, slivers) : slivers_across(false, &v, s, slivers);
    else
        wide ? slivers_along(true, &v, s, slivers) : slivers_along(false, &v, s, slivers);
}

/* --- folding -------------------------------------------------------------------- */

/* What multiplying by a power of two adds to a bf16, twice. */
static inline __m512i exponents_of(__m512 d)
{
    const __m512i high = _mm512_srli_epi32(_mm512_castps_si512(d), 16);
    const __m512i added = _mm512_sub_epi32(high, _mm512_set1_epi32(0x3f80));

    return _mm512_mask_blend_epi16(0xaaaaaaaau, added, _mm512_slli_epi32(added, 16));
}

/* Zeros, infinities and NaN stay as they are: 2|x| - 1 of the others is below that of infinity. */
static inline void fold(float *x, __m512i exponents)
{
    const __m512i pairs = _mm512_loadu_si512(x);
    const __m512i less =
        _mm512_sub_epi16(_mm512_add_epi16(pairs, pairs), _mm512_set1_epi16(1));
    const __mmask32 finite =
        _mm512_cmplt_epu16_mask(less, _mm512_set1_epi16((int16_t)0xfeff));

    _mm512_storeu_si512(x, _mm512_mask_add_epi16(pairs, finite, pairs, exponents));
}

static inline void fold_rows(const plumb_scales *scales, size_t chains, float *x)
{
    for (size_t i = 0; i < scales->count; i++) {
        for (size_t n = 0; n < chains; n++)
            fold(x + i * PLUMB_MICRO_LD + n * WIDTH,
                 exponents_of(_mm512_set1_ps(scales->d[n * scales->stride + i])));
    }
}

static inline void fold_slivers(const plumb_micro *micro, const plumb_scales *scales,
                                size_t chains, float *x)
{
    const size_t nr = micro->nr, sliver = plumb_sliver_floats(micro, chains);

    for (size_t j = 0; j < scales->count; j += WIDTH) {
        float *to = x + j / nr * sliver + j % nr;

        for (size_t n = 0; n < chains; n++) {
            const float *d = scales->d + n * scales->stride + j;
            const __m512i exponents = exponents_of(_mm512_loadu_ps(d));

            for (size_t k = 0; k < WIDTH; k++, to += nr)
                fold(to, exponents);
        }
    }
}

#endif
