/* matmul/parts.h - a code as whole significand and exponent, by the definition of its format.
 *
 * Subnormals keep the exponent emin: nothing is normalised, because matrix units do not.
 */
#ifndef PLUMB_MATMUL_PARTS_H
#define PLUMB_MATMUL_PARTS_H

#include "matmul/round.h"

#include <stdlib.h>

/* e of what has no exponent.  Two of them add up within an int16_t, and two exponents of which
 * one is ZERO lie below every exponent of a product.
 */
enum {
    PLUMB_E_ZERO = -8192,
    PLUMB_E_NONE = -4096,
    PLUMB_E_INFINITY = 8192,
    PLUMB_E_NAN = 9216
};

/* value = m * 2^(e - fraction_bits); infinity has m = +-1, zero and NaN m = 0. */
typedef struct plumb_parts {
    int32_t m;
    int32_t e;
} plumb_parts;

static inline uint32_t plumb_load_code(const plumb_format_info *format, const void *codes,
                                       size_t i)
{
    if (format->bytes == 1)
        return ((const uint8_t *)codes)[i];
    if (format->bytes == 2)
        return ((const uint16_t *)codes)[i];
    /* tf32 lies in the upper bits of an fp32. */
    return ((const uint32_t *)codes)[i] >> (32 - format->bits);
}

static inline bool plumb_code_is_nan(const plumb_format_info *format, uint32_t code)
{
    const uint32_t magnitude_mask = (1u << (format->bits - 1)) - 1u;

    if (format->bits < 8 && code >> format->bits != 0)
        return true;
    if (format->special == PLUMB_SPECIAL_NAN)
        return (code & magnitude_mask) == magnitude_mask;
    return format->special == PLUMB_SPECIAL_FNUZ && code == magnitude_mask + 1;
}

static inline plumb_parts plumb_code_parts(const plumb_format_info *format, uint32_t code)
{
    const uint32_t fraction = code & ((1u << format->fraction_bits) - 1u);
    const uint32_t top = (1u << format->exponent_bits) - 1u;
    const uint32_t field = code >> format->fraction_bits & top;
    const int32_t sign = code >> (format->bits - 1) & 1 ? -1 : 1;

    if (plumb_code_is_nan(format, code))
        return (plumb_parts){0, PLUMB_E_NAN};
    if (format->special == PLUMB_SPECIAL_IEEE && field == top)
        return fraction == 0 ? (plumb_parts){sign, PLUMB_E_INFINITY}
                             : (plumb_parts){0, PLUMB_E_NAN};
    if (field == 0)
        return (plumb_parts){sign * (int32_t)fraction,
                             fraction == 0 ? PLUMB_E_ZERO : format->emin};
    return (plumb_parts){sign * (int32_t)(fraction | 1u << format->fraction_bits),
                         (int)field - format->bias};
}

static inline bool plumb_parts_special(plumb_parts parts)
{
    return parts.e >= PLUMB_E_INFINITY;
}

/* The same value with the exponent that it has in fp16, where that has as many fraction bits. */
static inline plumb_parts plumb_parts_as_fp16(plumb_parts parts, int fraction_bits)
{
    while (parts.m != 0 && abs(parts.m) < 1 << fraction_bits && parts.e > -14 &&
           !plumb_parts_special(parts)) {
        parts.m *= 2;
        parts.e--;
    }
    return parts;
}

/* Exponent of a power of two. */
static inline int plumb_exponent_of(float power)
{
    const uint32_t bits = bits_of(power);

    return bits < 0x800000u ? __builtin_ctz(bits) - 149 : (int)(bits >> 23) - 127;
}

/* The MX scale as part of the exponents; a NaN scale makes NaN of zeros too. */
static inline plumb_parts plumb_with_scale(plumb_parts parts, float d)
{
    if (d != d)
        return (plumb_parts){0, PLUMB_E_NAN};
    if (parts.m != 0 && !plumb_parts_special(parts))
        parts.e += plumb_exponent_of(d);
    return parts;
}

#endif
