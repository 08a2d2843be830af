/* A format as its decode rule gives it, for the oracles of this folder: no constant and no
 * line is shared with the kernels, and nothing here rounds.
 */
#ifndef NUMBER_LINE_H
#define NUMBER_LINE_H

#include "plumb/format.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct line_format {
    plumb_format format;
    int bytes; /* of a code */
    int fraction_bits;
    int bias;
    uint32_t largest; /* code of the largest finite value */
    uint32_t past;    /* code beyond it when the cast does not saturate */
    uint32_t nan;
    uint32_t sign;
} line_format;

static const line_format line_formats[] = {
    {PLUMB_BF16, 2, 7, 127, 0x7f7f, 0x7f80, 0x7fc0, 0x8000},
    {PLUMB_E4M3, 1, 3, 7, 0x7e, 0x7f, 0x7f, 0x80},
    {PLUMB_E5M2, 1, 2, 15, 0x7b, 0x7c, 0x7f, 0x80},
};
enum { LINE_FORMATS = sizeof line_formats / sizeof line_formats[0] };

/* The magnitude of a code; one past the largest goes on as if exponents had no end. */
static inline double line_value(const line_format *f, uint32_t code)
{
    const int exponent = (int)(code >> f->fraction_bits);
    const int fraction = (int)(code & ((1u << f->fraction_bits) - 1u));
    const int unit = 1 - f->bias - f->fraction_bits;

    if (exponent == 0)
        return ldexp(fraction, unit);
    return ldexp((1 << f->fraction_bits) + fraction, exponent - 1 + unit);
}

/* The smallest magnitude whose code is above code: the midpoint itself when code is odd, since
 * ties go to even, and the next double otherwise.  Nothing is above largest + 1, which
 * stands for everything that is out of range.
 */
static inline double line_boundary(const line_format *f, uint32_t code)
{
    if (code > f->largest)
        return (double)NAN; /* no comparison with it is true */
    const double midpoint = (line_value(f, code) + line_value(f, code + 1)) / 2;

    return code & 1u ? midpoint : nextafter(midpoint, DBL_MAX);
}

static inline uint32_t line_code_at(const line_format *f, const void *codes, size_t i)
{
    if (f->bytes == 1)
        return ((const uint8_t *)codes)[i];
    return ((const uint16_t *)codes)[i];
}

static inline float float_from(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t bits_from(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

#endif
