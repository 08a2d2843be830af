/* The canonical product in tiles of 3 x 16: both chains of all results live in 12
 * registers, and MXCSR (flush-to-zero, denormals-are-zero) does the flushing.
 */
#include "matmul/micro.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

enum { MR = 3, NR = 16, WIDTH = 8 };

static inline __m256 load_or_zero(const float *x, bool zero)
{
    return zero ? _mm256_setzero_ps() : _mm256_loadu_ps(x);
}

/* tile += even + odd: the end of one chain of 32. */
static inline void add_chains(__m256 even[MR][2], __m256 odd[MR][2], float *tile,
                              bool first)
{
#pragma GCC unroll 3
    for (size_t i = 0; i < MR; i++) {
#pragma GCC unroll 2
        for (size_t j = 0; j < 2; j++) {
            float *at = tile + i * NR + j * WIDTH;
            const __m256 both = _mm256_add_ps(even[i][j], odd[i][j]);

            _mm256_storeu_ps(at, _mm256_add_ps(load_or_zero(at, first), both));
        }
    }
}

static inline void step(__m256 sum[MR][2], const float *a, const float *b)
{
    const __m256 left = _mm256_loadu_ps(b), right = _mm256_loadu_ps(b + WIDTH);

#pragma GCC unroll 3
    for (size_t i = 0; i < MR; i++) {
        const __m256 x = _mm256_set1_ps(a[i * PLUMB_MICRO_LD]);

        sum[i][0] = _mm256_fmadd_ps(x, left, sum[i][0]);
        sum[i][1] = _mm256_fmadd_ps(x, right, sum[i][1]);
    }
}

void plumb_micro_run_avx2(size_t chains, const float *a, const float *b, float *tile,
                          bool first)
{
    for (size_t n = 0; n < chains; n++) {
        __m256 even[MR][2], odd[MR][2];

#pragma GCC unroll 3
        for (size_t i = 0; i < MR; i++)
            even[i][0] = even[i][1] = odd[i][0] = odd[i][1] = _mm256_setzero_ps();
        for (size_t k = 0; k < PLUMB_MICRO_CHAIN; k += 2) {
            step(even, a, b);
            step(odd, a + 1, b + NR);
            a += 2;
            b += 2 * NR;
        }
        add_chains(even, odd, tile, first && n == 0);
    }
}

void plumb_micro_join_avx2(const float *tile, const float *da, const float *db, float *sum,
                           bool first)
{
    const __m256 zero = _mm256_setzero_ps();

    for (size_t i = 0; i < MR; i++) {
        for (size_t j = 0; j < NR; j += WIDTH) {
            const size_t at = i * NR + j;
            const __m256 scale =
                _mm256_fmadd_ps(_mm256_set1_ps(da[i]), _mm256_loadu_ps(db + j), zero);

            _mm256_storeu_ps(sum + at, _mm256_fmadd_ps(_mm256_loadu_ps(tile + at), scale,
                                                       load_or_zero(sum + at, first)));
        }
    }
}

/* The first n of eight lanes. */
static inline __m256i lanes(size_t n)
{
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n > WIDTH ? WIDTH : (int)n), index);
}

void plumb_micro_store_avx2(const float *tile, float *c, size_t ldc, size_t rows,
                            size_t cols, bool accumulate)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));

    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < cols; j += WIDTH) {
            const __m256i mask = lanes(cols - j);
            float *to = c + i * ldc + j;
            __m256 x = _mm256_loadu_ps(tile + i * NR + j);

            if (accumulate)
                x = _mm256_add_ps(_mm256_maskload_ps(to, mask), x);
            const __m256 unordered = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
            _mm256_maskstore_ps(to, mask, _mm256_blendv_ps(x, nan, unordered));
        }
    }
}

/* A gather would be no faster. */
static inline __m256 look_up(const float *table, const uint8_t *codes)
{
    return _mm256_setr_ps(table[codes[0]], table[codes[1]], table[codes[2]],
                          table[codes[3]], table[codes[4]], table[codes[5]],
                          table[codes[6]], table[codes[7]]);
}

/* Eight codes to fp32, through fp16 or a table as in the AVX-512 variant. */
static inline __m256 decode8(plumb_format format, const float *table, const void *codes)
{
    if (format == PLUMB_FP32)
        return _mm256_loadu_ps(codes);
    if (format == PLUMB_BF16) {
        const __m128i x = _mm_loadu_si128(codes);
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
    }
    if (format == PLUMB_TF32)
        return _mm256_castsi256_ps(_mm256_and_si256(
            _mm256_loadu_si256(codes), _mm256_set1_epi32((int32_t)0xffffe000u)));
    if (format == PLUMB_FP16)
        return _mm256_cvtph_ps(_mm_loadu_si128(codes));
    if (format != PLUMB_E5M2 && format != PLUMB_E4M3)
        return look_up(table, codes);
    const __m128i x = _mm_cvtepu8_epi16(_mm_loadl_epi64(codes));
    if (format == PLUMB_E5M2)
        return _mm256_cvtph_ps(_mm_slli_epi16(x, 8));

    const __m128i magnitude = _mm_and_si128(x, _mm_set1_epi16(0x7f));
    const __m128i sign = _mm_slli_epi16(_mm_andnot_si128(magnitude, x), 8);
    const __m128i nan = _mm_and_si128(_mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f)),
                                      _mm_set1_epi16(0x7c00));
    const __m128i half =
        _mm_or_si128(_mm_or_si128(sign, nan), _mm_slli_epi16(magnitude, 7));
    return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256));
}

static inline size_t code_bytes(plumb_format format)
{
    if (format == PLUMB_FP32 || format == PLUMB_TF32)
        return 4;
    return format == PLUMB_BF16 || format == PLUMB_FP16 ? 2 : 1;
}

/* The same for the first n of eight codes, touching no byte past them. */
static inline __m256 decode(plumb_format format, const float *table, const void *codes,
                            size_t i, size_t n)
{
    const unsigned char *at = (const unsigned char *)codes + i * code_bytes(format);
    unsigned char part[WIDTH * sizeof(float)] = {0};

    if (n >= WIDTH)
        return decode8(format, table, at);
    memcpy(part, at, n * code_bytes(format));
    return decode8(format, table, part);
}

static inline void copy(plumb_format format, const float *table, const void *codes,
                        size_t ld, size_t rows, size_t cols, float *x, size_t stride)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c += WIDTH)
            _mm256_maskstore_ps(x + r * stride + c, lanes(cols - c),
                                decode(format, table, codes, r * ld + c, cols - c));
    }
}

/* Transposes 8 x 8: pairs, quads, then halves. */
static inline void transpose(__m256 v[WIDTH])
{
    __m256 t[WIDTH];

#pragma GCC unroll 2
    for (size_t i = 0; i < WIDTH; i += 4) {
        const __m256 a = _mm256_unpacklo_ps(v[i], v[i + 1]);
        const __m256 b = _mm256_unpackhi_ps(v[i], v[i + 1]);
        const __m256 c = _mm256_unpacklo_ps(v[i + 2], v[i + 3]);
        const __m256 d = _mm256_unpackhi_ps(v[i + 2], v[i + 3]);

        t[i] = _mm256_shuffle_ps(a, c, 0x44);
        t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
        t[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        v[i] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
    }
}

static inline void turn(plumb_format format, const float *table, const void *codes,
                        size_t ld, size_t rows, size_t cols, float *x, size_t stride)
{
    for (size_t r = 0; r < rows; r += WIDTH) {
        for (size_t c = 0; c < cols; c += WIDTH) {
            __m256 v[WIDTH];

#pragma GCC unroll 8
            for (size_t i = 0; i < WIDTH; i++)
                v[i] = r + i < rows
                           ? decode(format, table, codes, (r + i) * ld + c, cols - c)
                           : _mm256_setzero_ps();
            transpose(v);
            for (size_t i = 0; i < WIDTH && c + i < cols; i++)
                _mm256_maskstore_ps(x + (c + i) * stride + r, lanes(rows - r), v[i]);
        }
    }
}

void plumb_micro_copy_avx2(plumb_format format, const void *codes, size_t ld, size_t rows,
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

void plumb_micro_turn_avx2(plumb_format format, const void *codes, size_t ld, size_t rows,
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
