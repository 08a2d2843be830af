/* The canonical product in tiles of 6 x 32: both chains of all results live in 24
 * registers, and MXCSR (flush-to-zero, denormals-are-zero) does the flushing.
 */
#include "matmul/micro.h"

#if defined(__x86_64__)
#include "matmul/tile_avx512.h"

static inline void step(__m512 sum[MR][2], const float *a, const float *b)
{
    const __m512 left = _mm512_loadu_ps(b), right = _mm512_loadu_ps(b + WIDTH);

#pragma GCC unroll 6
    for (size_t i = 0; i < MR; i++) {
        const __m512 x = _mm512_set1_ps(a[i * PLUMB_MICRO_LD]);

        sum[i][0] = _mm512_fmadd_ps(x, left, sum[i][0]);
        sum[i][1] = _mm512_fmadd_ps(x, right, sum[i][1]);
    }
}

void plumb_micro_run_avx512(size_t chains, const float *a, const float *b, float *tile,
                            bool first)
{
    for (size_t n = 0; n < chains; n++) {
        __m512 even[MR][2], odd[MR][2];

#pragma GCC unroll 6
        for (size_t i = 0; i < MR; i++)
            even[i][0] = even[i][1] = odd[i][0] = odd[i][1] = _mm512_setzero_ps();
        for (size_t k = 0; k < PLUMB_MICRO_CHAIN; k += 2) {
            step(even, a, b);
            step(odd, a + 1, b + NR);
            a += 2;
            b += 2 * NR;
        }
        add_chains(even, odd, tile, first && n == 0);
    }
}

void plumb_micro_join_avx512(const float *tile, const float *da, const float *db,
                             float *sum, bool first)
{
    join_rows(MR, tile, da, db, sum, first);
}

void plumb_micro_store_avx512(const float *tile, float *c, size_t ldc, size_t rows,
                              size_t cols, bool accumulate)
{
    const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000));

    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < cols; j += WIDTH) {
            const __mmask16 mask = lanes(cols - j);
            float *to = c + i * ldc + j;
            __m512 x = _mm512_loadu_ps(tile + i * NR + j);

            if (accumulate)
                x = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), x);
            const __mmask16 unordered = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
            _mm512_mask_storeu_ps(to, mask, _mm512_mask_mov_ps(x, unordered, nan));
        }
    }
}

/* Sixteen codes to fp32.  The common 8-bit formats go through fp16, whose conversion is exact and
 * ignores denormals-are-zero: E5M2 is the upper half of an fp16, E4M3 is one of 2^-8 times
 * the value (its NaN gets the exponent of a NaN first).  The others are looked up.
 */
static inline __m512 decode(plumb_format format, const float *table, const void *codes,
                            size_t i, __mmask16 mask)
{
    if (format == PLUMB_FP32)
        return _mm512_maskz_loadu_ps(mask, (const float *)codes + i);
    if (format == PLUMB_BF16) {
        const __m256i x = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)codes + i);
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
    }
    if (format == PLUMB_TF32) {
        const __m512i x = _mm512_maskz_loadu_epi32(mask, (const uint32_t *)codes + i);
        return _mm512_castsi512_ps(
            _mm512_and_si512(x, _mm512_set1_epi32((int32_t)0xffffe000u)));
    }
    if (format == PLUMB_FP16)
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, (const uint16_t *)codes + i));
    const __m128i bytes = _mm_maskz_loadu_epi8(mask, (const uint8_t *)codes + i);
    if (format != PLUMB_E5M2 && format != PLUMB_E4M3)
        return _mm512_i32gather_ps(_mm512_cvtepu8_epi32(bytes), table, sizeof *table);
    const __m256i x = _mm256_cvtepu8_epi16(bytes);
    if (format == PLUMB_E5M2)
        return _mm512_cvtph_ps(_mm256_slli_epi16(x, 8));

    const __m256i magnitude = _mm256_and_si256(x, _mm256_set1_epi16(0x7f));
    const __m256i sign = _mm256_slli_epi16(_mm256_andnot_si256(magnitude, x), 8);
    const __m256i nan = _mm256_and_si256(
        _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7f)), _mm256_set1_epi16(0x7c00));
    const __m256i half =
        _mm256_or_si256(_mm256_or_si256(sign, nan), _mm256_slli_epi16(magnitude, 7));
    return _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256));
}

static inline void copy(plumb_format format, const float *table, const void *codes,
                        size_t ld, size_t rows, size_t cols, float *x, size_t stride)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c += WIDTH) {
            const __mmask16 mask = lanes(cols - c);

            _mm512_mask_storeu_ps(x + r * stride + c, mask,
                                  decode(format, table, codes, r * ld + c, mask));
        }
    }
}

static inline void turn(plumb_format format, const float *table, const void *codes,
                        size_t ld, size_t rows, size_t cols, float *x, size_t stride)
{
    const __mmask16 row_mask = lanes(rows);

    for (size_t c = 0; c < cols; c += WIDTH) {
        const __mmask16 mask = lanes(cols - c);
        __m512 v[WIDTH];

#pragma GCC unroll 16
        for (size_t r = 0; r < WIDTH; r++)
            v[r] = r < rows ? decode(format, table, codes, r * ld + c, mask)
                            : _mm512_setzero_ps();
        transpose(v);
        for (size_t i = 0; i < WIDTH && c + i < cols; i++)
            _mm512_mask_storeu_ps(x + (c + i) * stride, row_mask, v[i]);
    }
}

void plumb_micro_copy_avx512(plumb_format format, const void *codes, size_t ld, size_t rows,
                             size_t cols, float *x, size_t stride)
{
    const float *table = plumb_format_decode_table(format);

    switch (format) {
    case PLUMB_FP32:
        copy(PLUMB_FP32, table, codes, ld, rows, cols, x, stride);
        break;
    case PLUMB_BF16:
        copy(PLUMB_BF16, table, codes, ld, rows, cols, x, stride);
        break;
    case PLUMB_FP16:
        copy(PLUMB_FP16, table, codes, ld, rows, cols, x, stride);
        break;
    case PLUMB_TF32:
        copy(PLUMB_TF32, table, codes, ld, rows, cols, x, stride);
        break;
    case PLUMB_E4M3:
        copy(PLUMB_E4M3, table, codes, ld, rows, cols, x, stride);
        break;
    case PLUMB_E5M2:
        copy(PLUMB_E5M2, table, codes, ld, rows, cols, x, stride);
        break;
    default:
        copy(PLUMB_E2M1, table, codes, ld, rows, cols, x, stride);
    }
}

void plumb_micro_turn_avx512(plumb_format format, const void *codes, size_t ld, size_t rows,
                             size_t cols, float *x, size_t stride)
{
    const float *table = plumb_format_decode_table(format);

    switch (format) {
    case PLUMB_FP32:
        turn(PLUMB_FP32, table, codes, ld, rows, cols, x, stride);
        break;
    case PLUMB_BF16:
        turn(PLUMB_BF16, table, codes, ld, rows, cols, x, stride);
        break;
    case PLUMB_FP16:
        turn(PLUMB_FP16, table, codes, ld, rows, cols, x, stride);
        break;
    case PLUMB_TF32:
        turn(PLUMB_TF32, table, codes, ld, rows, cols, x, stride);
        break;
    case PLUMB_E4M3:
        turn(PLUMB_E4M3, table, codes, ld, rows, cols, x, stride);
        break;
    case PLUMB_E5M2:
        turn(PLUMB_E5M2, table, codes, ld, rows, cols, x, stride);
        break;
    default:
        turn(PLUMB_E2M1, table, codes, ld, rows, cols, x, stride);
    }
}
#endif
