/* The oracle of oracle.h: sums and products in 128-bit integers, rounded once at the end. */
#include "oracle.h"

#include <math.h>

__extension__ typedef unsigned __int128 u128;

/* (-1)^negative * m * 2^e, m = 0 or its top bit at TOP. */
typedef struct exact {
    bool negative;
    u128 m;
    int e;
} exact;

enum { TOP = 120 };

static float flush(float x)
{
    return x != 0 && fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

static exact normalise(bool negative, u128 m, int e)
{
    while (m != 0 && m >> TOP == 0) {
        m <<= 1;
        e--;
    }
    return (exact){negative, m, e};
}

static void split(float x, uint64_t *m, int *e)
{
    *m = (uint64_t)ldexp(frexp(fabs((double)x), e), 24);
    *e -= 24;
}

/* Rounds to 24 bits, ties to even, as if exponents had no bounds; then applies them. */
static float round24(exact x)
{
    const float sign = x.negative ? -1.0f : 1.0f;
    int drop = 0;

    while (x.m >> drop >> 24 != 0)
        drop++;
    u128 kept = x.m >> drop;
    const u128 rest = x.m - (kept << drop), half = (u128)1 << (drop - 1);

    if (rest > half || (rest == half && (kept & 1) != 0))
        kept++;
    const double value = ldexp((double)(uint64_t)kept, x.e + drop);
    if (value < 0x1p-126)
        return sign * 0.0f;
    return value >= 0x1p128 ? sign * INFINITY : sign * (float)value;
}

static exact shifted(exact x, int by)
{
    const u128 kept = by < 128 ? x.m >> by : 0;
    const bool lost = by >= 128 || kept << by != x.m;

    x.m = kept | (lost ? 1u : 0u); /* a sticky bit, far below the 24 that count */
    return x;
}

static float add_exact(exact x, exact y)
{
    if (x.e < y.e || (x.e == y.e && x.m < y.m)) {
        const exact swap = x;
        x = y;
        y = swap;
    }
    y = shifted(y, x.e - y.e);
    if (x.negative == y.negative) {
        x.m += y.m;
        return round24(x);
    }
    x.m -= y.m;
    return x.m == 0 ? 0.0f : round24(x);
}

float oracle_fma(float a, float b, float c)
{
    uint64_t ma, mb, mc;
    int ea, eb, ec;

    a = flush(a);
    b = flush(b);
    c = flush(c);
    if (!isfinite(a) || !isfinite(b) || !isfinite(c))
        return (float)((double)a * (double)b + (double)c);
    split(a, &ma, &ea);
    split(b, &mb, &eb);
    split(c, &mc, &ec);
    const bool negative = !signbit(a) != !signbit(b);
    const exact product = normalise(negative, (u128)ma * mb, ea + eb);

    if (product.m == 0)
        return c != 0 || negative == !!signbit(c) ? c : 0.0f;
    if (mc == 0)
        return round24(product);
    return add_exact(product, normalise(signbit(c), mc, ec));
}

static float add(float a, float b)
{
    return oracle_fma(a, 1.0f, b);
}

/* Formats from their definitions: exponent and fraction bits, bias, and which codes are special:
 * 'i' as IEEE, 'n' NaN is all ones, 'z' NaN is the code of -0, '-' none.
 */
static const struct {
    int exponent, fraction, bias;
    char special;
} formats[PLUMB_FORMAT_COUNT] = {
    [PLUMB_FP32] = {8, 23, 127, 'i'},  [PLUMB_BF16] = {8, 7, 127, 'i'},
    [PLUMB_E4M3] = {4, 3, 7, 'n'},     [PLUMB_E5M2] = {5, 2, 15, 'i'},
    [PLUMB_FP16] = {5, 10, 15, 'i'},   [PLUMB_TF32] = {8, 10, 127, 'i'},
    [PLUMB_E4M3FNUZ] = {4, 3, 8, 'z'}, [PLUMB_E5M2FNUZ] = {5, 2, 16, 'z'},
    [PLUMB_E3M2] = {3, 2, 3, '-'},     [PLUMB_E2M3] = {2, 3, 1, '-'},
    [PLUMB_E2M1] = {2, 1, 1, '-'},
};

float oracle_value(plumb_format format, const void *codes, size_t at)
{
    const int e = formats[format].exponent, f = formats[format].fraction;
    const int bytes = 1 + e + f > 16 ? 4 : 1 + e + f > 8 ? 2 : 1;
    const char special = formats[format].special;
    uint32_t code = bytes == 4   ? ((const uint32_t *)codes)[at]
                    : bytes == 2 ? ((const uint16_t *)codes)[at]
                                 : ((const uint8_t *)codes)[at];

    if (format == PLUMB_TF32)
        code >>= 13;
    if (1 + e + f < 8 && code >> (1 + e + f) != 0)
        return NAN;
    const double sign = code >> (e + f) & 1 ? -1 : 1;
    const uint32_t magnitude = code & ((1u << (e + f)) - 1u);
    const int exponent = (int)(magnitude >> f);
    const double fraction = ldexp((double)(magnitude & ((1u << f) - 1u)), -f);

    if (special == 'i' && exponent == (1 << e) - 1)
        return fraction == 0 ? (float)sign * INFINITY : NAN;
    if ((special == 'n' && magnitude == (1u << (e + f)) - 1u) ||
        (special == 'z' && magnitude == 0 && sign < 0))
        return NAN;
    return (float)(sign * ldexp((exponent > 0 ? 1 : 0) + fraction,
                                (exponent > 0 ? exponent : 1) - formats[format].bias));
}

int oracle_emin(plumb_format format)
{
    return 1 - formats[format].bias;
}

float oracle_at(const plumb_operand *o, size_t outer, size_t k)
{
    const plumb_quantized *q = o->matrix;

    if (k >= (o->transposed ? q->rows : q->cols))
        return 0;
    return oracle_value(q->format, q->codes,
                        o->transposed ? k * q->ld + outer : outer * q->ld + k);
}

static size_t blocks(size_t n, size_t length)
{
    return (n + length - 1) / length;
}

size_t oracle_block(const plumb_operand *o)
{
    const plumb_grain grain = o->matrix->grain;

    if (o->matrix->d == NULL || grain == PLUMB_GRAIN_TENSOR || grain == PLUMB_GRAIN_ROW)
        return 0;
    return grain == PLUMB_GRAIN_MX32 ? 32 : grain == PLUMB_GRAIN_NVFP4 ? 16 : 128;
}

float oracle_scale(const plumb_operand *o, size_t outer, size_t k)
{
    const plumb_quantized *q = o->matrix;
    const size_t row = o->transposed ? k : outer, col = o->transposed ? outer : k;
    const size_t length = oracle_block(o);

    if (q->d == NULL)
        return 1;
    if (q->grain == PLUMB_GRAIN_TENSOR)
        return q->d[0];
    if (q->grain == PLUMB_GRAIN_ROW)
        return q->d[outer];
    if (q->grain == PLUMB_GRAIN_128X128)
        return q->d[(row / 128) * blocks(q->cols, 128) + col / 128];
    return q->along_rows ? q->d[(row / length) * q->cols + col]
                         : q->d[row * blocks(q->cols, length) + col / length];
}

float oracle_tensor_scale(const plumb_operand *o)
{
    return o->matrix->d != NULL && o->matrix->grain == PLUMB_GRAIN_NVFP4
               ? o->matrix->d_tensor
               : 1;
}

static float chains(const plumb_operand *a, const plumb_operand *b, size_t i, size_t j,
                    size_t k, size_t end)
{
    float c = 0;

    for (; k < end; k += 32) {
        float sum[2] = {0, 0};

        for (size_t p = 0; p < 32; p++)
            sum[p % 2] = oracle_fma(k + p < end ? oracle_at(a, i, k + p) : 0,
                                    k + p < end ? oracle_at(b, j, k + p) : 0, sum[p % 2]);
        c = add(c, add(sum[0], sum[1]));
    }
    return c;
}

size_t oracle_joint(const plumb_operand *a, const plumb_operand *b)
{
    const size_t of_a = oracle_block(a), of_b = oracle_block(b);

    return of_a == 0 ? of_b : of_b == 0 || of_a < of_b ? of_a : of_b;
}

float oracle_element(const plumb_operand *a, const plumb_operand *b, size_t i, size_t j,
                     bool promote128)
{
    const size_t depth = a->transposed ? a->matrix->rows : a->matrix->cols;
    const size_t joint = oracle_joint(a, b);
    const size_t block = joint > 0 ? joint : promote128 ? 128 : depth;
    float c = 0;

    if (depth == 0)
        return 0;
    for (size_t k = 0; k < depth; k += block) {
        const size_t end = k + block < depth ? k + block : depth;
        const float d =
            joint > 0 ? oracle_fma(oracle_scale(a, i, k), oracle_scale(b, j, k), 0) : 1;
        const float sum = chains(a, b, i, j, k, end);

        c = joint == 0 && !promote128 ? sum : oracle_fma(sum, d, c);
    }
    if (joint == 0 && (a->matrix->d != NULL || b->matrix->d != NULL))
        c = oracle_fma(c, oracle_fma(oracle_scale(a, i, 0), oracle_scale(b, j, 0), 0), 0);
    if ((a->matrix->d != NULL && a->matrix->grain == PLUMB_GRAIN_NVFP4) ||
        (b->matrix->d != NULL && b->matrix->grain == PLUMB_GRAIN_NVFP4))
        c = oracle_fma(c, oracle_fma(oracle_tensor_scale(a), oracle_tensor_scale(b), 0), 0);
    return c;
}
