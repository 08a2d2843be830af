/* Units that keep 13 fraction bits in 32 lanes of 16 bits: VPMADDUBSW multiplies significands
 * (matmul/narrow.h has the form), VPSRAVW cuts at the last bit that is kept, VPDPWSSD applies
 * the sign of a and adds.  Exponents are bytes, 64 to a vector, and are read once: their sums
 * stay in registers from the search for the largest to the shifts.
 *
 * Eleven operations for 64 products where lanes of fp32 take eighteen: on a Zen 4, 40 GFLOP/s
 * where those give 21.  An ending of its own for results in the middle of fp32 is a third of it.
 */
#include "matmul/lanes.h"

#if defined(__x86_64__)
#include "matmul/lanes_avx512.h"

enum { QUADS = PLUMB_NARROW_QUADS, TOGETHER = 2, MOST_QUADS = 8 };

/* --- panels ---------------------------------------------------------------- */

static inline __m512i look_up(const uint8_t *table, __m512i codes)
{
    return _mm512_permutex2var_epi8(_mm512_loadu_si512(table), codes,
                                    _mm512_loadu_si512(table + 64));
}

typedef struct looked_up {
    __m512i e, m;
    __mmask64 negative, special;
} looked_up;

static inline looked_up decode(const plumb_narrow_table *table, const uint8_t *codes)
{
    const __m512i c = _mm512_loadu_si512(codes);
    const __m512i magnitude = _mm512_and_si512(c, _mm512_set1_epi8(127));

    return (looked_up){
        look_up((const uint8_t *)table->e, c),
        look_up(table->m, c),
        _mm512_movepi8_mask(c),
        _mm512_cmpgt_epu8_mask(magnitude, _mm512_set1_epi8((char)table->finite)),
    };
}

static inline __m512i even_bytes(__m512i x)
{
    return _mm512_and_si512(x, _mm512_set1_epi16(255));
}

static inline __m512i odd_bytes(__m512i x)
{
    return _mm512_srli_epi16(x, 8);
}

/* Bit `row` of special[] for each fused addition in 64 elements. */
static void mark(uint64_t elements, size_t terms, size_t row, uint64_t *special)
{
    for (size_t i = 0; elements != 0 && i < 64 / terms; i++) {
        const uint64_t own = elements >> i * terms & ((UINT64_C(1) << terms) - 1);

        special[i] |= (uint64_t)(own != 0) << row;
    }
}

void plumb_narrow_row_avx512bf16(const plumb_narrow_table *table, size_t terms,
                                 const uint8_t *codes, size_t row, plumb_narrow_rows *to,
                                 uint64_t *special)
{
    const __m512i one = _mm512_set1_epi16(1), high = _mm512_set1_epi16(256);

    for (size_t i = 0; i < PLUMB_NARROW_SLOTS; i += 64) {
        const looked_up x = decode(table, codes + i);
        const __m512i minus = _mm512_movm_epi8(x.negative);
        const __m512i odd = _mm512_srai_epi16(minus, 8);
        const __m512i even = _mm512_srai_epi16(_mm512_slli_epi16(minus, 8), 8);
        const size_t at = i / 4;

        _mm512_storeu_si512(&to->e[row][at], x.e);
        _mm512_storeu_si512(&to->m[0][row][at], _mm512_or_si512(even_bytes(x.m), high));
        _mm512_storeu_si512(&to->m[1][row][at], _mm512_or_si512(odd_bytes(x.m), high));
        _mm512_storeu_si512(&to->sign[0][row][at], _mm512_or_si512(even, one));
        _mm512_storeu_si512(&to->sign[1][row][at], _mm512_or_si512(odd, one));
        to->negative[row][i / 64] = x.negative;
        mark(x.special, terms, row, special + i / terms);
    }
}

void plumb_narrow_column_avx512bf16(const plumb_narrow_table *table, size_t terms,
                                    const uint8_t *codes, size_t column,
                                    plumb_narrow_columns *to, uint64_t *special)
{
    for (size_t i = 0; i < PLUMB_NARROW_SLOTS; i += 64) {
        const looked_up x = decode(table, codes + i);
        const __m512i minus = _mm512_movm_epi8(x.negative);
        const __m512i m =
            _mm512_mask_sub_epi8(x.m, x.negative, _mm512_setzero_si512(), x.m);
        _Alignas(64) uint32_t e[16], even[16], odd[16];

        _mm512_store_si512(e, x.e);
        _mm512_store_si512(even,
                           _mm512_or_si512(even_bytes(m), _mm512_slli_epi16(minus, 8)));
        _mm512_store_si512(odd,
                           _mm512_mask_mov_epi8(odd_bytes(m), 0xaaaaaaaaaaaaaaaa, minus));
        for (size_t q = 0; q < 16; q++) {
            to->e[i / 4 + q][column] = e[q];
            to->m[0][i / 4 + q][column] = even[q];
            to->m[1][i / 4 + q][column] = odd[q];
        }
        for (size_t t = 0; t < 64; t += terms)
            to->negative[(i + t) / terms][column] =
                (uint32_t)(x.negative >> t & ((UINT64_C(1) << terms) - 1));
        mark(x.special, terms, column, special + i / terms);
    }
}

/* --- sums ------------------------------------------------------------------ */

/* The largest of four bytes, in all four. */
static inline __m512i largest_of_four(__m512i e)
{
    e = _mm512_max_epi8(e, _mm512_ror_epi32(e, 16));
    return _mm512_max_epi8(e, _mm512_ror_epi32(e, 8));
}

static inline __m512i four_times(__m512i x)
{
    return _mm512_shuffle_epi8(
        x, _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0x00000000));
}

/* The exponent of the largest product of each result; that of zeros is below all others. */
static inline __m512i largest_product(__m512i e)
{
    return _mm512_srai_epi32(largest_of_four(e), 24);
}

static inline aligned align_any(const plumb_lane_unit *unit, __m512i e, __m512 c)
{
    const __mmask16 none = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(PLUMB_LANES_LEAST));

    return align(unit, _mm512_mask_mov_epi32(e, none, _mm512_set1_epi32(PLUMB_LANES_ZERO)),
                 _mm512_setzero_si512(), c);
}

/* Exponent to which products with the largest exponent e, and c, are aligned if is_plain. */
static inline __m512i common_exponent(__m512i e, __m512 c)
{
    const __m512i shifted = _mm512_slli_epi32(_mm512_castps_si512(c), 1);
    const __m512i field = _mm512_srli_epi32(shifted, 24);

    return _mm512_max_epi32(e, _mm512_sub_epi32(field, _mm512_set1_epi32(127)));
}

/* Far from both ends of fp32, where no floor, zero, infinity or NaN decides. */
static inline bool is_plain(__m512i most)
{
    const __m512i above = _mm512_add_epi32(most, _mm512_set1_epi32(PLUMB_LANES_RANGE));

    return _mm512_cmpgt_epu32_mask(above, _mm512_set1_epi32(2 * PLUMB_LANES_RANGE)) == 0;
}

/* What the sum lacks: s for each b below zero. */
static inline __m512i lacking(uint32_t a, const uint32_t *b)
{
    const __m512i y = _mm512_loadu_si512(b);
    const __m512i both = _mm512_and_si512(_mm512_set1_epi32((int)a), y);

    return _mm512_sub_epi32(_mm512_popcnt_epi32(y),
                            _mm512_slli_epi32(_mm512_popcnt_epi32(both), 1));
}

static inline __m512i add_products(__m512i sum, uint32_t a, __m512i b, __m512i by,
                                   uint32_t sign)
{
    const __m512i product = _mm512_maddubs_epi16(_mm512_set1_epi32((int)a), b);

    return _mm512_dpwssd_epi32(sum, _mm512_srav_epi16(product, by),
                               _mm512_set1_epi32((int)sign));
}

/* The next c of 16 results, all of them plain, and neither wide nor to be left. */
static inline __m512 end_plain(const plumb_lane_unit *unit, __m512i most, __m512i sum,
                               __m512 c)
{
    const __m512i field = _mm512_slli_epi32(most, 23);
    const __m512i one = _mm512_set1_epi32(127 << 23);
    const __m512i bits = _mm512_set1_epi32(PLUMB_NARROW_FRACTION << 23);
    const __m512 up =
        _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_add_epi32(one, bits), field));
    const __m512 down =
        _mm512_castsi512_ps(_mm512_add_epi32(_mm512_sub_epi32(one, bits), field));
    const __m512i addend = _mm512_cvttps_epi32(_mm512_mul_ps(c, up));

    return _mm512_mul_ps(
        round_sum(unit, false, _mm512_add_epi32(sum, addend), _mm512_setzero_si512(), up),
        down);
}

/* Any 16 results; returns which of them are left. */
static __mmask16 end_any(const plumb_lane_unit *unit, __m512i e, __m512i sum,
                         __mmask16 leave, float *c)
{
    const __m512 old = _mm512_loadu_ps(c);
    const aligned to = align_any(unit, e, old);
    const __mmask16 undone = to.leave | leave;

    _mm512_storeu_ps(
        c, end(unit, unit->wide, &to, sum, _mm512_setzero_si512(), old, undone | to.nan));
    return undone & (__mmask16)~to.nan;
}

/* Two rows, 16 results of each, from quad `at` of both panels on. */
static inline void add_block(const plumb_lane_unit *unit, size_t quads,
                             const plumb_narrow_rows *a, size_t row,
                             const plumb_narrow_columns *b, size_t at, size_t n,
                             const uint64_t *leave, float (*c)[PLUMB_LANES], uint64_t *left)
{
    __m512i e[TOGETHER][MOST_QUADS], largest[TOGETHER], most[TOGETHER], sum[TOGETHER];
    const size_t step = at / quads, bit = at * 4;

    for (size_t r = 0; r < TOGETHER; r++)
        largest[r] = _mm512_set1_epi8(PLUMB_NARROW_ZERO);
#pragma GCC unroll 8
    for (size_t q = 0; q < quads; q++) {
        const __m512i of_b = _mm512_loadu_si512(&b->e[at + q][n]);

#pragma GCC unroll 2
        for (size_t r = 0; r < TOGETHER; r++) {
            e[r][q] = _mm512_adds_epi8(_mm512_set1_epi32((int)a->e[row + r][at + q]), of_b);
            largest[r] = _mm512_max_epi8(largest[r], e[r][q]);
        }
    }
#pragma GCC unroll 2
    for (size_t r = 0; r < TOGETHER; r++) {
        largest[r] = largest_product(largest[r]);
        most[r] = unit->wide ? align_any(unit, largest[r], _mm512_loadu_ps(&c[r][n])).most
                             : common_exponent(largest[r], _mm512_loadu_ps(&c[r][n]));
        sum[r] = lacking((uint32_t)(a->negative[row + r][bit / 64] >> bit % 64),
                         &b->negative[step][n]);
    }
#pragma GCC unroll 8
    for (size_t q = 0; q < quads; q++) {
        const __m512i even = _mm512_loadu_si512(&b->m[0][at + q][n]);
        const __m512i odd = _mm512_loadu_si512(&b->m[1][at + q][n]);

#pragma GCC unroll 2
        for (size_t r = 0; r < TOGETHER; r++) {
            const __m512i by = _mm512_sub_epi8(four_times(most[r]), e[r][q]);

            sum[r] = add_products(sum[r], a->m[0][row + r][at + q], even, even_bytes(by),
                                  a->sign[0][row + r][at + q]);
            sum[r] = add_products(sum[r], a->m[1][row + r][at + q], odd, odd_bytes(by),
                                  a->sign[1][row + r][at + q]);
        }
    }
#pragma GCC unroll 2
    for (size_t r = 0; r < TOGETHER; r++) {
        const __mmask16 special = (__mmask16)(leave[r] >> n);

        if (!unit->wide && special == 0 && is_plain(most[r]))
            _mm512_storeu_ps(&c[r][n],
                             end_plain(unit, most[r], sum[r], _mm512_loadu_ps(&c[r][n])));
        else
            left[r] |= (uint64_t)end_any(unit, largest[r], sum[r], special, &c[r][n]) << n;
    }
}

static inline void add(const plumb_lane_unit *unit, size_t quads,
                       const plumb_narrow_rows *a, size_t row,
                       const plumb_narrow_columns *b, size_t step, size_t width,
                       const uint64_t *leave, float (*c)[PLUMB_LANES], uint64_t *left)
{
    left[0] = left[1] = 0;
    for (size_t n = 0; n < width; n += WIDTH)
        add_block(unit, quads, a, row, b, step * quads, n, leave, c, left);
}

void plumb_narrow_add_avx512bf16(const plumb_lane_unit *unit, const plumb_narrow_rows *a,
                                 size_t row, const plumb_narrow_columns *b, size_t step,
                                 size_t width, const uint64_t *leave,
                                 float (*c)[PLUMB_LANES], uint64_t *left)
{
    if (unit->terms == 32)
        add(unit, 8, a, row, b, step, width, leave, c, left);
    else
        add(unit, 4, a, row, b, step, width, leave, c, left);
}
#endif
