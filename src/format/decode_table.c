/* The value of every code, written as the formats define them: a fraction field, an exponent
 * field, a step.  The tables are constant expressions of one macro, so they need no set-up and
 * no lock; wider codes are put together from their bits, with integers alone.
 */
#include "plumb/format.h"

#include <math.h>

#include "base/bits.h"

/* clang-format off */
/* 2^k for the eight low bits of k. */
#define POWER(k) \
    (((k) & 1 ? 0x1p1 : 1.0) * ((k) & 2 ? 0x1p2 : 1.0) * ((k) & 4 ? 0x1p4 : 1.0) * \
     ((k) & 8 ? 0x1p8 : 1.0) * ((k) & 16 ? 0x1p16 : 1.0) * ((k) & 32 ? 0x1p32 : 1.0) * \
     ((k) & 64 ? 0x1p64 : 1.0) * ((k) & 128 ? 0x1p128 : 1.0))

/* A magnitude m with f fraction bits, in steps: below the first exponent it counts them, above
 * it has a leading one.
 */
#define STEPS(f, m) \
    ((m) >> (f) == 0 ? (double)(m) \
                     : (double)((1 << (f)) + ((m) & ((1 << (f)) - 1))) * POWER(((m) >> (f)) - 1))
#define VALUE(f, step, sign, c) \
    (float)(((c) & (sign) ? -(step) : (step)) * STEPS(f, (c) & ((sign) - 1)))

#define E4M3(c)     (((c) & 0x7f) == 0x7f ? NAN : VALUE(3, 0x1p-9, 0x80, c))
#define E5M2(c)     (((c) & 0x7f) > 0x7c ? NAN : (c) == 0x7c ? INFINITY : \
                     (c) == 0xfc ? -INFINITY : VALUE(2, 0x1p-16, 0x80, c))
#define E4M3FNUZ(c) ((c) == 0x80 ? NAN : VALUE(3, 0x1p-10, 0x80, c))
#define E5M2FNUZ(c) ((c) == 0x80 ? NAN : VALUE(2, 0x1p-17, 0x80, c))
#define E3M2(c)     ((c) >= 0x40 ? NAN : VALUE(2, 0x1p-4, 0x20, c))
#define E2M3(c)     ((c) >= 0x40 ? NAN : VALUE(3, 0x1p-3, 0x20, c))
#define E2M1(c)     ((c) >= 0x10 ? NAN : VALUE(1, 0x1p-1, 0x08, c))
#define E8M0(c)     ((c) == 0xff ? NAN : (float)(0x1p-127 * POWER(c)))
#define UE4M3(c)    ((c) >= 0x7f ? NAN : VALUE(3, 0x1p-9, 0x80, c))

#define FOUR(v, c)    v(c), v((c) + 1), v((c) + 2), v((c) + 3)
#define SIXTEEN(v, c) FOUR(v, c), FOUR(v, (c) + 4), FOUR(v, (c) + 8), FOUR(v, (c) + 12)
#define SIXTY_FOUR(v, c) \
    SIXTEEN(v, c), SIXTEEN(v, (c) + 16), SIXTEEN(v, (c) + 32), SIXTEEN(v, (c) + 48)
#define TABLE(v) \
    {SIXTY_FOUR(v, 0), SIXTY_FOUR(v, 64), SIXTY_FOUR(v, 128), SIXTY_FOUR(v, 192)}
/* clang-format on */

static const float e4m3[256] = TABLE(E4M3);
static const float e5m2[256] = TABLE(E5M2);
static const float e4m3fnuz[256] = TABLE(E4M3FNUZ);
static const float e5m2fnuz[256] = TABLE(E5M2FNUZ);
static const float e3m2[256] = TABLE(E3M2);
static const float e2m3[256] = TABLE(E2M3);
static const float e2m1[256] = TABLE(E2M1);
static const float e8m0[256] = TABLE(E8M0);
static const float ue4m3[256] = TABLE(UE4M3);

static const float *const tables[PLUMB_FORMAT_COUNT] = {
    [PLUMB_E4M3] = e4m3,         [PLUMB_E5M2] = e5m2, [PLUMB_E4M3FNUZ] = e4m3fnuz,
    [PLUMB_E5M2FNUZ] = e5m2fnuz, [PLUMB_E3M2] = e3m2, [PLUMB_E2M3] = e2m3,
    [PLUMB_E2M1] = e2m1,         [PLUMB_E8M0] = e8m0, [PLUMB_UE4M3] = ue4m3,
};

const float *plumb_format_decode_table(plumb_format format)
{
    return (unsigned)format < PLUMB_FORMAT_COUNT ? tables[format] : NULL;
}

/* The fp32 of these bits, every NaN as the one pattern. */
static float value_of_bits(uint32_t bits)
{
    return float_of((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : bits);
}

static float fp16_value(uint32_t code)
{
    const uint32_t magnitude = code & 0x7fffu;
    const uint32_t sign = (code & 0x8000u) << 16;

    if (magnitude < 0x400) /* steps of 2^-24: exact */
        return sign != 0 ? -0x1p-24f * (float)magnitude : 0x1p-24f * (float)magnitude;
    if (magnitude >= 0x7c00)
        return value_of_bits(sign | 0x7f800000u | magnitude << 13);
    return value_of_bits(sign | (magnitude + ((127 - 15) << 10)) << 13);
}

float plumb_format_value(plumb_format format, uint32_t code)
{
    const float *table = plumb_format_decode_table(format);

    if (table != NULL)
        return code < 256 ? table[code] : NAN;
    if (format == PLUMB_FP32)
        return value_of_bits(code);
    if (format == PLUMB_TF32)
        return value_of_bits(code & 0xffffe000u);
    if (code > 0xffff)
        return NAN;
    if (format == PLUMB_BF16)
        return value_of_bits(code << 16);
    return format == PLUMB_FP16 ? fp16_value(code) : NAN;
}
