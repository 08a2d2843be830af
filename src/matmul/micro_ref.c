/* The canonical product, one result at a time: the definition that every other
 * micro-kernel must match bit for bit.
 *
 * Flushing is done here in code, by the rule of x86's flush-to-zero: a result is tiny
 * when, rounded to 24 bits with unbounded exponent, it lies below 2^-126.  fmaf rounds to
 * the subnormal grid instead, whose last step to 2^-126 is twice as wide, so a result of
 * exactly 2^-126 needs a second look.
 */
#include "matmul/micro.h"

#include <math.h>
#include <string.h>

enum { MR = 4, NR = 4 };

static const float least_normal = 0x1p-126f;

static float flush(float x)
{
    return fabsf(x) < least_normal ? copysignf(0, x) : x;
}

/* Below this a result rounds (24 bits, unbounded exponent) to less than 2^-126; at the
 * tie itself it rounds to even, which is 2^-126.
 */
static const double tiny_below = 0x1p-126 - 0x1p-151;

/* |a * b + c| < tiny_below, decided exactly: the product of two fp32 is exact in fp64, and
 * the error of the sum is found by TwoSum.
 */
static bool is_tiny(float a, float b, float c)
{
    const double product = (double)a * (double)b, addend = (double)c;
    const double sum = product + addend;
    const double rest = sum - product;
    const double error = (product - (sum - rest)) + (addend - rest);
    const double away = sum < 0 ? -error : error;

    return fabs(sum) < tiny_below || (fabs(sum) == tiny_below && away < 0);
}

static float fma_flush(float a, float b, float c)
{
    const float r = fmaf(a, b, c);

    if (!(fabsf(r) <= least_normal))
        return r;
    if (fabsf(r) < least_normal || is_tiny(a, b, c))
        return copysignf(0, r);
    return r;
}

/* A sum of two fp32 below 2^-126 is exact, so that tininess needs no second look. */
static float add_flush(float a, float b)
{
    return flush(a + b);
}

static float chain(const float *a, const float *b)
{
    float sum = 0;

    for (size_t k = 0; k < PLUMB_MICRO_CHAIN; k += 2)
        sum = fma_flush(a[k], b[k * NR], sum);
    return sum;
}

void plumb_micro_run_ref(size_t chains, const float *a, const float *b, float *tile,
                         bool first)
{
    for (size_t i = 0; i < MR; i++) {
        for (size_t j = 0; j < NR; j++) {
            float c = first ? 0 : tile[i * NR + j];

            for (size_t k = 0; k < chains * PLUMB_MICRO_CHAIN; k += PLUMB_MICRO_CHAIN) {
                const float *row = a + i * PLUMB_MICRO_LD + k, *col = b + k * NR + j;
                const float even = chain(row, col), odd = chain(row + 1, col + NR);

                c = add_flush(c, add_flush(even, odd));
            }
            tile[i * NR + j] = c;
        }
    }
}

void plumb_micro_join_ref(const float *tile, const float *da, const float *db, float *sum,
                          bool first)
{
    for (size_t i = 0; i < MR; i++) {
        for (size_t j = 0; j < NR; j++) {
            const float scale = fma_flush(flush(da[i]), flush(db[j]), 0);

            sum[i * NR + j] =
                fma_flush(tile[i * NR + j], scale, first ? 0 : sum[i * NR + j]);
        }
    }
}

void plumb_micro_store_ref(const float *tile, float *c, size_t ldc, size_t rows,
                           size_t cols, bool accumulate)
{
    static const uint32_t nan_bits = 0x7fc00000;

    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < cols; j++) {
            float *to = &c[i * ldc + j];
            const float x = tile[i * NR + j];

            *to = accumulate ? add_flush(flush(*to), x) : x;
            if (isnan(*to))
                memcpy(to, &nan_bits, sizeof *to);
        }
    }
}

static float decode(plumb_format format, const float *table, const void *codes, size_t i)
{
    float x;

    if (table != NULL)
        return table[((const uint8_t *)codes)[i]];
    if (format == PLUMB_FP32) {
        x = ((const float *)codes)[i];
    } else if (plumb_format_get(format)->bytes == 2) {
        x = plumb_format_value(format, ((const uint16_t *)codes)[i]);
    } else {
        x = plumb_format_value(format, ((const uint32_t *)codes)[i]);
    }
    return flush(x);
}

void plumb_micro_copy_ref(plumb_format format, const void *codes, size_t ld, size_t rows,
                          size_t cols, float *x, size_t stride)
{
    const float *table = plumb_format_decode_table(format);

    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c++)
            x[r * stride + c] = decode(format, table, codes, r * ld + c);
    }
}

void plumb_micro_turn_ref(plumb_format format, const void *codes, size_t ld, size_t rows,
                          size_t cols, float *x, size_t stride)
{
    const float *table = plumb_format_decode_table(format);

    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c++)
            x[c * stride + r] = decode(format, table, codes, r * ld + c);
    }
}
