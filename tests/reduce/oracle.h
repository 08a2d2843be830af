/* What sums should be, in the plainest way: a bracket string is read and evaluated, numbers are
 * rounded with frexp and rint, exact sums are 128-bit integers.  Nothing here is plumb's.
 */
#ifndef TEST_REDUCE_ORACLE_H
#define TEST_REDUCE_ORACLE_H

#include "check.h"

#include <math.h>
#include <stdint.h>

/* A format by its significand bits, least exponent and largest value. */
typedef struct oracle_format {
    const char
        *spec; /* as plumb_spec_parse reads it: no scale, saturating where it is 8 bits */
    int bits, emin;
    double largest;
} oracle_format;

static const oracle_format oracle_fp32 = {"fp32", 24, -126, 0x1.fffffep127};
static const oracle_format oracle_bf16 = {"bf16", 8, -126, 0x1.fep127};
static const oracle_format oracle_fp16 = {"fp16", 11, -14, 65504};
static const oracle_format oracle_e4m3 = {"e4m3:none", 4, -6, 448};
static const oracle_format oracle_e5m2 = {"e5m2:none", 3, -14, 57344};

/* x to the nearest value of the format, ties to even, not past the largest. */
static inline double oracle_round(const oracle_format *f, double x)
{
    int exponent;

    if (x == 0)
        return x;
    frexp(x, &exponent); /* 2^(exponent - 1) <= |x| */
    exponent = exponent - 1 < f->emin ? f->emin : exponent - 1;
    const int step = exponent - (f->bits - 1);
    const double y = ldexp(rint(ldexp(x, -step)), step);

    return fabs(y) > f->largest ? copysign(f->largest, y) : y;
}

/* fp32, then the format: what an addition of plumb does by contract. */
static inline double oracle_add(const oracle_format *f, double a, double b)
{
    return oracle_round(f, oracle_round(&oracle_fp32, a + b));
}

/* term = digit | '(' sum ')';  sum = term { '+' term }, from the left. */
static inline double oracle_sum(const char **text, const oracle_format *f, const double *x);

static inline double oracle_term(const char **text, const oracle_format *f, const double *x)
{
    if (**text != '(')
        return x[*(*text)++ - '0'];
    (*text)++;
    const double value = oracle_sum(text, f, x);

    (*text)++;
    return value;
}

static inline double oracle_sum(const char **text, const oracle_format *f, const double *x)
{
    double value = oracle_term(text, f, x);

    while (**text == '+') {
        (*text)++;
        value = oracle_add(f, value, oracle_term(text, f, x));
    }
    return value;
}

/* The sum that the brackets say, of values that are cast first. */
static inline double oracle_brackets(const char *text, const oracle_format *f,
                                     const float *x, size_t n)
{
    double value[10];

    for (size_t i = 0; i < n; i++)
        value[i] = oracle_round(f, (double)x[i]);
    return oracle_sum(&text, f, value);
}

/* Random bits, and floats with signs and exponents all over [2^low, 2^high). */
static inline uint32_t oracle_bits(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static inline float oracle_float(uint64_t *state, int low, int high)
{
    const int exponent = low + (int)(oracle_bits(state) % (uint32_t)(high - low));
    const float m = 1 + (float)(oracle_bits(state) >> 8) * 0x1p-23f;

    return ldexpf(oracle_bits(state) & 1 ? -m : m, exponent);
}

#endif
