/* The canonical product of operands that bf16 holds exactly, two steps of a chain at once.
 *
 * VDPBF16PS adds two products to each float, one fused multiply-add after the other: that of the
 * upper halves first, rounded to nearest even, with operands and results below 2^-126 flushed as
 * MXCSR would make FMA do it (which it ignores).  So k in the upper half and k + 2 in the lower
 * one are two steps of the even or of the odd chain, with the same bits.
 *
 * Packed, four elements along K are two pairs of 32 bits: (k, k + 2), then (k + 1, k + 3).
 */
#include "matmul/pack.h"

#if defined(__x86_64__)
#include "matmul/tile_avx512.h"

/* --- run ------------------------------------------------------------------- */

/* sum += the pairs of MR rows, PAIR floats apart from those of the other chain, by 32 columns. */
static inline void step(__m512 sum[MR][2], const float *a, const float *b)
{
    const __m512bh left = (__m512bh)_mm512_loadu_ps(b);
    const __m512bh right = (__m512bh)_mm512_loadu_ps(b + WIDTH);

#pragma GCC unroll 6
    for (size_t i = 0; i < MR; i++) {
        const __m512bh x = (__m512bh)_mm512_set1_ps(a[i * PLUMB_MICRO_LD]);

        sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, left);
        sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, right);
    }
}

void plumb_micro_run_avx512bf16(size_t chains, const float *a, const float *b, float *tile,
                                bool first)
{
    for (size_t n = 0; n < chains; n++) {
        __m512 even[MR][2], odd[MR][2];

#pragma GCC unroll 6
        for (size_t i = 0; i < MR; i++)
            even[i][0] = even[i][1] = odd[i][0] = odd[i][1] = _mm512_setzero_ps();
        for (size_t k = 0; k < PLUMB_MICRO_CHAIN; k += 4) {
            step(even, a, b);
            step(odd, a + 1, b + NR);
            a += 2;
            b += 2 * NR;
        }
        add_chains(even, odd, tile, first && n == 0);
    }
}

/* --- decoding: 32 codes to bf16 ---------------------------------------------- */

enum { WORDS = 32 };

/* The 256 values of a format of at most 8 bits: bf16 holds them all. */
typedef struct values {
    __m512i of[8];
} values;

static inline values values_of(plumb_format format)
{
    const float *table = plumb_format_decode_table(format);
    values v;

    for (size_t i = 0; i < 8; i++)
        v.of[i] =
            table == NULL
                ? _mm512_setzero_si512()
                : (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(table + i * WORDS + WIDTH),
                                               _mm512_loadu_ps(table + i * WORDS));
    return v;
}

/* Looked up in quarters of 64; the two bits above say which quarter it is. */
static inline __m512i look_up(const values *v, __m512i codes)
{
    const __mmask32 upper = _mm512_movepi16_mask(_mm512_slli_epi16(codes, 8));
    const __mmask32 odd = _mm512_movepi16_mask(_mm512_slli_epi16(codes, 9));
    const __m512i a = _mm512_permutex2var_epi16(v->of[0], codes, v->of[1]);
    const __m512i b = _mm512_permutex2var_epi16(v->of[2], codes, v->of[3]);
    const __m512i c = _mm512_permutex2var_epi16(v->of[4], codes, v->of[5]);
    const __m512i d = _mm512_permutex2var_epi16(v->of[6], codes, v->of[7]);

    return _mm512_mask_blend_epi16(upper, _mm512_mask_blend_epi16(odd, a, b),
                                   _mm512_mask_blend_epi16(odd, c, d));
}

static inline __mmask32 words(size_t n)
{
    return n >= WORDS ? 0xffffffffu : (1u << n) - 1u;
}

/* Up to 32 elements from `codes` on, those past `count` +0, which is code 0. */
static inline __m512i decode(bool wide, const values *v, const void *codes, size_t i,
                             size_t count)
{
    const __mmask32 mask = words(count);

    if (wide)
        return _mm512_maskz_loadu_epi16(mask, (const uint16_t *)codes + i);
    return look_up(
        v, _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(mask, (const uint8_t *)codes + i)));
}

/* --- packing ------------------------------------------------------------------ */

/* Elements that follow each other along K, in the order of the pairs. */
static inline __m512i pairs_along(__m512i x)
{
    const __m512i order = _mm512_broadcast_i32x4(
        _mm_setr_epi8(4, 5, 0, 1, 6, 7, 2, 3, 12, 13, 8, 9, 14, 15, 10, 11));

    return _mm512_shuffle_epi8(x, order);
}

/* Pairs of 32 outer indices from two rows along K. */
static inline void pairs_across(__m512i first, __m512i second, __m512 pair[2])
{
    const __m512i low =
        _mm512_set_epi16(15, 47, 14, 46, 13, 45, 12, 44, 11, 43, 10, 42, 9, 41, 8, 40, 7,
                         39, 6, 38, 5, 37, 4, 36, 3, 35, 2, 34, 1, 33, 0, 32);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(WIDTH));

    pair[0] = _mm512_castsi512_ps(_mm512_permutex2var_epi16(first, low, second));
    pair[1] = _mm512_castsi512_ps(_mm512_permutex2var_epi16(first, high, second));
}

/* One operand, and the part of it that becomes a panel: codes[lines, along]. */
typedef struct source {
    const void *codes;
    size_t ld, outer, depth;
} source;

static inline source source_of(const plumb_operand *operand, const plumb_panel *panel)
{
    return (source){plumb_operand_element(operand, panel->outer, panel->k),
                    operand->matrix->ld, panel->outer_count, panel->k_count};
}

static inline size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Sixteen outer indices from `at` on by 32 of K from k on, K along the lines, to v[pair]. */
static inline void turn_along(bool wide, const values *v, source s, size_t at, size_t k,
                              __m512 to[WIDTH])
{
#pragma GCC unroll 16
    for (size_t i = 0; i < WIDTH; i++)
        to[i] = at + i < s.outer ? _mm512_castsi512_ps(pairs_along(decode(
                                       wide, v, s.codes, (at + i) * s.ld + k, s.depth - k)))
                                 : _mm512_setzero_ps();
    transpose(to);
}

/* Four of K from k on by 32 outer indices from `at` on, K across the lines. */
static inline void pairs_of_four(bool wide, const values *v, source s, size_t at, size_t k,
                                 __m512 even[2], __m512 odd[2])
{
    __m512i x[4];

#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++)
        x[i] = k + i < s.depth ? decode(wide, v, s.codes, (k + i) * s.ld + at, s.outer - at)
                               : _mm512_setzero_si512();
    pairs_across(x[0], x[2], even);
    pairs_across(x[1], x[3], odd);
}

static inline void rows_along(bool wide, const values *v, source s, float *rows)
{
    for (size_t i = 0; i < s.outer; i++) {
        for (size_t k = 0; k < s.depth; k += WORDS)
            _mm512_storeu_ps(rows + i * PLUMB_MICRO_LD + k / 2,
                             _mm512_castsi512_ps(pairs_along(
                                 decode(wide, v, s.codes, i * s.ld + k, s.depth - k))));
    }
}

static inline void rows_across(bool wide, const values *v, source s, float *rows)
{
    for (size_t i = 0; i < s.outer; i += WORDS) {
        for (size_t k = 0; k < s.depth; k += WORDS) {
            __m512 x[2][WIDTH];

            for (size_t q = 0; q < WIDTH; q += 2) {
                __m512 even[2], odd[2];

                pairs_of_four(wide, v, s, i, k + 2 * q, even, odd);
                x[0][q] = even[0], x[1][q] = even[1];
                x[0][q + 1] = odd[0], x[1][q + 1] = odd[1];
            }
            transpose(x[0]);
            transpose(x[1]);
            for (size_t r = 0; r < smaller(WORDS, s.outer - i); r++)
                _mm512_storeu_ps(rows + (i + r) * PLUMB_MICRO_LD + k / 2,
                                 x[r / WIDTH][r % WIDTH]);
        }
    }
}

static inline void slivers_along(bool wide, const values *v, source s, float *slivers)
{
    const size_t depth = plumb_round_up(s.depth, PLUMB_MICRO_CHAIN);

    for (size_t j = 0; j < s.outer; j += WIDTH) {
        float *to = slivers + j / NR * NR * depth + j % NR;

        for (size_t k = 0; k < s.depth; k += WORDS) {
            __m512 x[WIDTH];

            turn_along(wide, v, s, j, k, x);
#pragma GCC unroll 16
            for (size_t i = 0; i < WIDTH; i++)
                _mm512_storeu_ps(to + (k / 2 + i) * NR, x[i]);
        }
    }
}

static inline void slivers_across(bool wide, const values *v, source s, float *slivers)
{
    const size_t depth = plumb_round_up(s.depth, PLUMB_MICRO_CHAIN);

    for (size_t j = 0; j < s.outer; j += NR) {
        float *to = slivers + j * depth;

        for (size_t k = 0; k < depth; k += 4) {
            __m512 even[2], odd[2];

            pairs_of_four(wide, v, s, j, k, even, odd);
            _mm512_storeu_ps(to + k / 2 * NR, even[0]);
            _mm512_storeu_ps(to + k / 2 * NR + WIDTH, even[1]);
            _mm512_storeu_ps(to + (k / 2 + 1) * NR, odd[0]);
            _mm512_storeu_ps(to + (k / 2 + 1) * NR + WIDTH, odd[1]);
        }
    }
}

void plumb_micro_rows_avx512bf16(const plumb_micro *micro, const plumb_operand *operand,
                                 const plumb_panel *panel, float *rows)
{
    const values v = values_of(operand->matrix->format);
    const source s = source_of(operand, panel);
    const bool wide = operand->matrix->format == PLUMB_BF16;

    (void)micro;
    if (operand->transposed)
        wide ? rows_across(true, &v, s, rows) : rows_across(false, &v, s, rows);
    else
        wide ? rows_along(true, &v, s, rows) : rows_along(false, &v, s, rows);
}

void plumb_micro_slivers_avx512bf16(const plumb_micro *micro, const plumb_operand *operand,
                                    const plumb_panel *panel, float *slivers)
{
    const values v = values_of(operand->matrix->format);
    const source s = source_of(operand, panel);
    const bool wide = operand->matrix->format == PLUMB_BF16;

    (void)micro;
    if (operand->transposed)
        wide ? slivers_across(true, &v, s, slivers) : slivers_across(false, &v, s, slivers);
    else
        wide ? slivers_along(true, &v, s, slivers) : slivers_along(false, &v, s, slivers);
}
#endif
