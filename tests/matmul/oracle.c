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

/* OFP8: sign, exponent, fraction; the top codes are special. */
static float decode8(unsigned code, int fraction_bits, int bias, bool infinity)
{
    const unsigned magnitude = code & 0x7fu, fraction_mask = (1u << fraction_bits) - 1u;
    const int exponent = (int)(magnitude >> fraction_bits);
    const int fraction = (int)(magnitude & fraction_mask);
    const float sign = code & 0x80u ? -1.0f : 1.0f;

    if (infinity && magnitude >= 0x7c)
        return magnitude == 0x7c ? sign * INFINITY : NAN;
    if (!infinity && magnitude == 0x7f)
        return NAN;
    if (exponent == 0)
        return sign * ldexpf((float)fraction, 1 - bias - fraction_bits);
    return sign * ldexpf((float)(fraction + (1 << fraction_bits)),
                         exponent - bias - fraction_bits);
}

static float value(const plumb_quantized *q, size_t row, size_t col)
{
    const size_t at = row * q->ld + col;

    if (q->format == PLUMB_E4M3)
        return decode8(((const uint8_t *)q->codes)[at], 3, 7, false);
    if (q->format == PLUMB_E5M2)
        return decode8(((const uint8_t *)q->codes)[at], 2, 15, true);
    if (q->format == PLUMB_FP32)
        return ((const float *)q->codes)[at];
    const union {
        uint32_t bits;
        float x;
    } wide = {(uint32_t)((const uint16_t *)q->codes)[at] << 16};
    return wide.x;
}

static float at(const plumb_operand *o, size_t outer, size_t k)
{
    if (k >= (o->transposed ? o->matrix->rows : o->matrix->cols))
        return 0;
    return o->transposed ? value(o->matrix, k, outer) : value(o->matrix, outer, k);
}

static float scale(const plumb_operand *o, size_t outer, size_t k)
{
    const plumb_quantized *q = o->matrix;
    const size_t row = o->transposed ? k : outer, col = o->transposed ? outer : k;

    if (q->d == NULL)
        return 1;
    switch (q->grain) {
    case PLUMB_GRAIN_TENSOR:
        return q->d[0];
    case PLUMB_GRAIN_1X128:
        return q->along_rows ? q->d[(row / 128) * q->cols + col]
                             : q->d[row * ((q->cols + 127) / 128) + col / 128];
    case PLUMB_GRAIN_128X128:
        return q->d[(row / 128) * ((q->cols + 127) / 128) + col / 128];
    }
    return NAN;
}

static float chains(const plumb_operand *a, const plumb_operand *b, size_t i, size_t j,
                    size_t k, size_t end)
{
    float c = 0;

    for (; k < end; k += 32) {
        float sum[2] = {0, 0};

        for (size_t p = 0; p < 32; p++)
            sum[p % 2] = oracle_fma(at(a, i, k + p), at(b, j, k + p), sum[p % 2]);
        c = add(c, add(sum[0], sum[1]));
    }
    return c;
}

float oracle_element(const plumb_operand *a, const plumb_operand *b, size_t i, size_t j)
{
    const size_t depth = a->transposed ? a->matrix->rows : a->matrix->cols;
    const bool scaled = a->matrix->d != NULL || b->matrix->d != NULL;
    const bool blocked = (a->matrix->d != NULL && a->matrix->grain != PLUMB_GRAIN_TENSOR) ||
                         (b->matrix->d != NULL && b->matrix->grain != PLUMB_GRAIN_TENSOR);
    const size_t block = blocked ? 128 : depth;
    float c = 0;

    if (depth == 0 || !scaled)
        return chains(a, b, i, j, 0, depth);
    for (size_t k = 0; k < depth; k += block) {
        const size_t end = k + block < depth ? k + block : depth;
        const float d = oracle_fma(scale(a, i, k), scale(b, j, k), 0);

        c = oracle_fma(chains(a, b, i, j, k, end), d, c);
    }
    return c;
}
