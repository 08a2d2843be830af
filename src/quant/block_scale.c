/* Block scales in few bits: E8M0 of the MX formats with its four roundings, UE4M3 under an fp32
 * scale of NVFP4 (sources in plumb/quant.h).  Powers of two come from the bits of a number, never
 * from a logarithm, which is wrong just below 2^k.
 */
#include "quant/scale.h"
#include "quant/spec.h"

#include "base/bits.h"

#include <float.h>
#include <math.h>

enum {
    FRACTION_BITS = 23,
    FRACTION = 0x007fffff,
    HALF = 0x00400000,
    INFINITE = 0x7f800000,
    QUIET_NAN = 0x7fc00000
};
enum { E8M0_LARGEST = 254, E8M0_NAN = 255 };

/* a where the condition holds, else b, without a branch. */
static inline uint32_t choose(bool condition, uint32_t a, uint32_t b)
{
    const uint32_t mask = 0u - (uint32_t)condition;

    return (a & mask) | (b & ~mask);
}

/* The code of the least power of two that is not below v, of 0 to FLT_MAX / 6; what is at most
 * 2^-127, half of the fp32 subnormals, has code 0.
 */
static inline uint32_t round_up(float v)
{
    const uint32_t exponent = bits_of(v) >> FRACTION_BITS, fraction = bits_of(v) & FRACTION;
    const uint32_t most = choose(exponent == 0, HALF, 0); /* that is not rounded up */

    return exponent + (fraction > most);
}

/* The code of an amax without sign: no branches, so that a loop with one rounding becomes vector
 * code.
 */
static inline uint32_t scale_code(plumb_mx_rounding rounding, const plumb_format_info *info,
                                  float inverse_largest, float amax)
{
    const uint32_t bits = bits_of(amax);
    const uint32_t half = 1u << (FRACTION_BITS - info->fraction_bits - 1);
    const uint32_t near = rounding == PLUMB_MX_EVEN ? bits + half : bits;
    const uint32_t up = rounding == PLUMB_MX_CEIL && (bits & FRACTION) != 0;
    /* A subnormal amax has exponent field 0; every emax is above 1, so it is held at 0. */
    const int32_t code = (int32_t)((near >> FRACTION_BITS) + up) - info->emax;
    const uint32_t held = choose(code < 0, 0, (uint32_t)code);
    const uint32_t finite =
        rounding == PLUMB_MX_RCEIL ? round_up(amax * inverse_largest) : held;

    return choose(bits > INFINITE, E8M0_NAN,
                  choose(bits == INFINITE, E8M0_LARGEST, finite));
}

uint8_t plumb_mx_scale(plumb_mx_rounding rounding, plumb_format element, float amax)
{
    const plumb_format_info *info = plumb_format_get(element);

    if (!plumb_format_is_scaled(element))
        return E8M0_NAN;
    return (uint8_t)scale_code(rounding, info, 1.0f / info->largest, fabsf(amax));
}

/* The value of an E8M0 code, by its bits. */
static inline float value_of(uint32_t code)
{
    const uint32_t number = choose(code == 0, HALF, code << FRACTION_BITS);

    return float_of(choose(code == E8M0_NAN, QUIET_NAN, number));
}

static inline void scales_of(plumb_mx_rounding rounding, const plumb_format_info *info,
                             const float *restrict amax, size_t n, float *restrict factor,
                             float *restrict d)
{
    const float inverse_largest = 1.0f / info->largest;

    for (size_t i = 0; i < n; i++) {
        const uint32_t code = scale_code(rounding, info, inverse_largest, fabsf(amax[i]));

        factor[i] = value_of(choose(code == E8M0_NAN, E8M0_NAN, E8M0_LARGEST - code));
        d[i] = value_of(code);
    }
}

void plumb_block_scales_mx(const plumb_spec *spec, const float *amax, size_t n,
                           float *factor, float *d)
{
    const plumb_format_info *info = plumb_format_get(spec->format);

    if (spec->mx == PLUMB_MX_FLOOR)
        scales_of(PLUMB_MX_FLOOR, info, amax, n, factor, d);
    else if (spec->mx == PLUMB_MX_CEIL)
        scales_of(PLUMB_MX_CEIL, info, amax, n, factor, d);
    else if (spec->mx == PLUMB_MX_EVEN)
        scales_of(PLUMB_MX_EVEN, info, amax, n, factor, d);
    else
        scales_of(PLUMB_MX_RCEIL, info, amax, n, factor, d);
}

/* NVFP4's scales: 448 is the largest UE4M3, 6 the largest E2M1. */
float plumb_nvfp4_scale(float amax_of_tensor)
{
    const float s = 6.0f * 448.0f / amax_of_tensor;

    if (amax_of_tensor == 0 || s == 0)
        return 1;
    return s <= FLT_MAX ? s : FLT_MAX;
}

/* Nearest UE4M3, saturating, so that an infinite product needs no clamp: the codes of E4M3
 * without sign.
 */
static void round_to_ue4m3(float *x, size_t n)
{
    enum { AT_ONCE = 128 };
    const plumb_cast how = {.format = PLUMB_E4M3, .saturate = true, .scale = 1};
    const float *values = plumb_format_decode_table(PLUMB_E4M3);
    uint8_t codes[AT_ONCE];

    for (size_t at = 0, m; at < n; at += m) {
        m = n - at < AT_ONCE ? n - at : AT_ONCE;
        plumb_cast_encode(&how, x + at, m, codes, NULL);
        for (size_t i = 0; i < m; i++)
            x[at + i] = values[codes[i]];
    }
}

void plumb_block_scales_nvfp4(float scale_of_tensor, const float *amax, size_t n,
                              float *factor, float *d)
{
    const float to_block = scale_of_tensor * (1.0f / 6.0f), back = 1 / scale_of_tensor;

    for (size_t i = 0; i < n; i++)
        d[i] = amax[i] * to_block;
    round_to_ue4m3(d, n);
    for (size_t i = 0; i < n; i++) {
        const float exact = 1 / (d[i] * back);

        factor[i] = exact <= FLT_MAX ? exact : FLT_MAX;
    }
}
