/* Codes to fp32, as plain loops: by their bits on the hot path and for wide formats, by the
 * table of their format otherwise.
 */
#ifndef PLUMB_KERNEL_DECODE_BODY_H
#define PLUMB_KERNEL_DECODE_BODY_H

#include "kernel/body.h"
#include "kernel/cast.h"
#include "kernel/rule.h"

/* A product that is NaN gets the one pattern, whatever the hardware made of it. */
INLINE float times(float value, float scale)
{
    const uint32_t bits = bits_of(value * scale);

    return float_of((bits & MAGNITUDE) > INF ? (uint32_t)NAN_BITS : bits);
}

/* The value of a code without a table: subnormal codes are small integers times the
 * step, both exact.
 */
INLINE float decode_one(const rule r, uint32_t code)
{
    const float step = float_of((r.step_shift - 23u) << 23);
    const uint32_t magnitude = code & (r.sign - 1u);
    const uint32_t normal = (magnitude << r.shift) + r.rebias;
    const uint32_t small = bits_of((float)(int32_t)magnitude * step);
    const bool tiny = magnitude >> (23 - r.shift) == 0;
    const bool infinite = (magnitude == r.past) & (r.past != r.nan);
    const uint32_t number = choose(tiny, small, normal) | (code & r.sign) << r.sign_shift;
    const uint32_t infinity = (uint32_t)INF | (code & r.sign) << r.sign_shift;
    const uint32_t special = choose(infinite, infinity, NAN_BITS);

    return float_of(choose(magnitude > r.largest, special, number));
}

#define DECODE(name, type, value)                                                          \
    void ENTRY(plumb_decode_##name##_)(plumb_format format, float scale,                   \
                                       const void *codes, size_t n, float *restrict x)     \
    {                                                                                      \
        const type *restrict from = codes;                                                 \
                                                                                           \
        (void)format;                                                                      \
        for (size_t i = 0; i < n; i++)                                                     \
            x[i] = times(value, scale);                                                    \
    }

DECODE(e4m3, uint8_t, decode_one(rules[PLUMB_E4M3], from[i]))
DECODE(e5m2, uint8_t, decode_one(rules[PLUMB_E5M2], from[i]))
DECODE(fp16, uint16_t, decode_one(rules[PLUMB_FP16], from[i]))
DECODE(bf16, uint16_t, float_of((uint32_t)from[i] << 16))
DECODE(tf32, uint32_t, float_of(from[i] & 0xffffe000u))
DECODE(fp32, float, from[i])

void ENTRY(plumb_decode_table_)(plumb_format format, float scale, const void *codes,
                                size_t n, float *restrict x)
{
    const float *restrict values = plumb_format_decode_table(format);
    const uint8_t *restrict from = codes;

    for (size_t i = 0; i < n; i++)
        x[i] = times(values[from[i]], scale);
}

#endif
