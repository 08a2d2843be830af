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
    INFINITE = 0x7f800000
};
enum { E8M0_LARGEST = 254, E8M0_NAN = 255 };

/* The code of the least power of two that is not below v, of 0 to FLT_MAX / 6; what is at most
 * 2^-127, half of the fp32 subnormals, has code 0.
 */
static uint8_t round_up(float v)
{
    const uint32_t exponent = bits_of(v) >> FRACTION_BITS, fraction = bits_of(v) & FRACTION;

    if (exponent == 0)
        return fraction > HALF;
    return (uint8_t)(exponent + (fraction != 0));
}

/* Of an amax that has no sign. */
static inline uint8_t scale_code(plumb_mx_rounding rounding, const plumb_format_info *info,
                                 float inverse_largest, float amax)
{
    uint32_t bits = bits_of(amax);

    if (bits >= INFINITE)
        return bits == INFINITE ? E8M0_LARGEST : E8M0_NAN;
    if (rounding == PLUMB_MX_RCEIL)
        return round_up(amax * inverse_largest);
    if (rounding == PLUMB_MX_EVEN)
        bits += 1u << (FRACTION_BITS - info->fraction_bits - 1);
    /* A subnormal amax has exponent field 0; every emax is above 1, so it is held at 0. */
    int code = (int)(bits >> FRACTION_BITS) - info->emax;
    if (rounding == PLUMB_MX_CEIL)
        code += (bits & FRACTION) != 0;
    return (uint8_t)(code < 0 ? 0 : code);
}

uint8_t plumb_mx_scale(plumb_mx_rounding rounding, plumb_format element, float amax)
{
    const plumb_format_info *info = plumb_format_get(element);

    if (!plumb_format_is_scaled(element))
        return E8M0_NAN;
    return scale_code(rounding, info, 1.0f / info->largest, fabsf(amax));
}

void plumb_block_scales_mx(const plumb_spec *spec, const float *amax, size_t n,
                           float *factor, float *d)
{
    const plumb_format_info *info = plumb_format_get(spec->format);
    const float *values = plumb_format_decode_table(PLUMB_E8M0);
    const float inverse_largest = 1.0f / info->largest;

    for (size_t i = 0; i < n; i++) {
        const uint8_t code = scale_code(spec->mx, info, inverse_largest, fabsf(amax[i]));

        factor[i] = values[code == E8M0_NAN ? E8M0_NAN : E8M0_LARGEST - code];
        d[i] = values[code];
    }
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
