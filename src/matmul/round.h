/* matmul/round.h - one rounding of a whole number times a power of two to fp32 or fp16.
 *
 * Integers only: the caller's rounding mode plays no part.  Results are floats that hold a
 * value of the format.
 */
#ifndef PLUMB_MATMUL_ROUND_H
#define PLUMB_MATMUL_ROUND_H

#include "plumb/format.h"

#include <math.h>

#include "base/bits.h"

typedef struct plumb_result {
    plumb_format format; /* PLUMB_FP32 or PLUMB_FP16 */
    int fraction_bits;   /* of the result: 10 for fp16, 23 or less for fp32 */
    bool nearest;        /* to nearest even, else toward zero */
} plumb_result;

static const plumb_result plumb_to_fp32 = {PLUMB_FP32, 23, true};
static const plumb_result plumb_to_fp16 = {PLUMB_FP16, 10, true};

static inline int plumb_emin(plumb_format output)
{
    return output == PLUMB_FP16 ? -14 : -126;
}

/* m / 2^drop, drop > 0; tail says that something below the last bit of m is not zero. */
static inline uint64_t plumb_drop_bits(uint64_t m, int drop, bool tail, bool nearest)
{
    if (drop > 64)
        return 0;
    const uint64_t kept = drop == 64 ? 0 : m >> drop;
    const uint64_t rest = drop == 64 ? m : m & ((UINT64_C(1) << drop) - 1);
    const uint64_t half = UINT64_C(1) << (drop - 1);
    const bool up = rest > half || (rest == half && (tail || (kept & 1) != 0));

    return kept + (nearest && up ? 1 : 0);
}

/* (-1)^negative * (m + tail) * 2^e.  A tail needs a bit of m above 2^32.  m = 0 gives +0. */
static inline float plumb_round(bool negative, uint64_t m, int e, bool tail,
                                const plumb_result *to)
{
    if (m == 0)
        return 0;
    const int emin = plumb_emin(to->format), top = e + 63 - __builtin_clzll(m);
    const int exponent = top > emin ? top : emin, last = exponent - to->fraction_bits;
    const uint64_t kept =
        last > e ? plumb_drop_bits(m, last - e, tail, to->nearest) : m << (e - last);
    /* The leading bit of a normal result adds the 1 that its exponent field lacks. */
    const uint64_t code = ((uint64_t)(exponent - emin) << to->fraction_bits) + kept;
    const uint64_t infinity = (to->format == PLUMB_FP16 ? UINT64_C(31) : UINT64_C(255))
                              << to->fraction_bits;
    float x;

    if (code >= infinity)
        x = INFINITY;
    else if (to->format == PLUMB_FP16)
        x = ldexpf((float)kept, last);
    else
        x = float_of((uint32_t)(code << (23 - to->fraction_bits)));
    return negative ? -x : x;
}

/* x to the nearest fp16, ties to even; zeros, infinities and NaN stay. */
static inline float plumb_round_fp16(float x)
{
    const uint32_t bits = bits_of(x), fraction = bits & 0x7fffffu;
    const int field = (int)(bits >> 23 & 0xff);

    if ((bits & 0x7fffffffu) == 0 || field == 255)
        return x;
    const float magnitude =
        plumb_round(false, field == 0 ? fraction : fraction | 0x800000u,
                    (field == 0 ? 1 : field) - 150, false, &plumb_to_fp16);
    return copysignf(magnitude, x);
}

#endif
