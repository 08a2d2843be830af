/* One value to one code: the rounding, the edges, the counts.
 *
 * Integer arithmetic decides everything and there are no branches on data.  `rounding` and,
 * for the formats that have their own kernels, the rule are constants where these functions
 * are used, so what a format does not need disappears.
 */
#ifndef PLUMB_KERNEL_ENCODE_ONE_H
#define PLUMB_KERNEL_ENCODE_ONE_H

#include "kernel/body.h"
#include "kernel/rule.h"
#include "plumb/cast.h"

enum { FRACTION = 0x007fffff, HIDDEN_ONE = 0x00800000 };

/* What one piece did; see plumb_counts. */
typedef struct tally {
    uint32_t saturated, clipped, flushed, zero, nonfinite;
    uint32_t amax;      /* fp32 bits of a magnitude */
    uint32_t code_amax; /* magnitude of a code; one more where the format has no zero */
} tally;

/* What becomes of values above the largest and, without a sign, below the least. */
typedef struct ends {
    uint32_t above, below;
} ends;

/* Magnitudes and codes lie below 2^31, and vector units compare signed integers. */
INLINE bool above(uint32_t a, uint32_t b)
{
    return (int32_t)a > (int32_t)b;
}

INLINE uint32_t larger(uint32_t a, uint32_t b)
{
    const int32_t x = (int32_t)a, y = (int32_t)b;

    return (uint32_t)(x > y ? x : y);
}

/* value where it is at most limit, else 0. */
INLINE uint32_t below(uint32_t value, uint32_t limit)
{
    return choose(above(value, limit), 0, value);
}

/* x >> shift, rounded to nearest, ties to even.  Needs 1 <= shift <= 31, x < 2^31. */
INLINE uint32_t shift_nearest(uint32_t x, uint32_t shift)
{
    const uint32_t even = x >> shift & 1u;

    return (x + (1u << (shift - 1)) - 1u + even) >> shift;
}

/* x >> shift, one more where the 32 bits behind the point carry when addend is added. */
INLINE uint32_t shift_dithered(uint32_t x, uint32_t shift, uint32_t addend)
{
    const uint64_t fixed = (uint64_t)x << 32 >> (shift < 63u ? shift : 63u);
    const uint32_t fraction = (uint32_t)fixed;

    return (uint32_t)(fixed >> 32) + (uint32_t)(fraction + addend < fraction);
}

INLINE uint32_t shift_by(plumb_rounding rounding, uint32_t x, uint32_t shift,
                         uint32_t addend)
{
    if (rounding == PLUMB_ROUND_STOCHASTIC)
        return shift_dithered(x, shift, addend);
    if (rounding == PLUMB_ROUND_TOWARD_ZERO)
        return x >> (shift < 31u ? shift : 31u);
    return shift_nearest(x, shift < 31u ? shift : 31u);
}

/* e8m0: 2^-127 is the last power of two below the normal fp32, and what is less counts as it.
 * The numbers between it and 2^-126 are stretched to look normal, with a field of 0.
 */
INLINE uint32_t stretch(uint32_t magnitude)
{
    const uint32_t small = larger(magnitude, 0x00400000) * 2u - HIDDEN_ONE;

    return choose(above(HIDDEN_ONE, magnitude), small, magnitude);
}

/* The code of a magnitude, as if exponents had no upper end. */
INLINE uint32_t round_magnitude(const rule r, plumb_rounding rounding, uint32_t magnitude,
                                uint32_t addend)
{
    if (!r.has_zero)
        return shift_by(rounding, stretch(magnitude), r.shift, addend);
    if (r.least_normal == 0)
        return shift_by(rounding, magnitude, r.shift, addend);

    /* A normal code is the magnitude with another bias and fewer bits, a subnormal one counts
     * steps.  Every shift of 25 or more gives the same code, so it may be capped.
     */
    const bool tiny = above(r.least_normal, magnitude);
    const uint32_t significand = (magnitude & FRACTION) | HIDDEN_ONE;
    const uint32_t value = choose(tiny, significand, magnitude - r.rebias);
    const uint32_t away = choose(tiny, r.step_shift - (magnitude >> 23), r.shift);

    return shift_by(rounding, value, away, addend);
}

/* Nothing that toward zero makes of a finite value is out of range. */
INLINE ends ends_of(const rule r, plumb_rounding rounding, ends given, uint32_t magnitude)
{
    if (rounding != PLUMB_ROUND_TOWARD_ZERO || r.is_fp32)
        return given;
    return (ends){choose(magnitude == INF, given.above, r.largest),
                  choose(magnitude == INF, given.below, 0)};
}

INLINE void count_one(const rule r, uint32_t source, uint32_t magnitude, uint32_t code,
                      bool over, bool under, tally *t)
{
    const uint32_t most = (r.largest << r.shift) + r.rebias;
    const bool nan = above(magnitude, INF), big = above(magnitude, most);
    const bool nonfinite = !above(INF, source);
    const bool finite = !(nan | nonfinite);

    if (!r.is_fp32) {
        t->saturated += (uint32_t)((over | under) & finite);
        t->clipped += (uint32_t)((big | under) & finite);
        t->flushed += (uint32_t)((code == 0) & (source != 0) & !under & r.has_zero);
    }
    t->zero += source == 0;
    t->nonfinite += nonfinite;
    t->amax = larger(t->amax, below(source, INF));
    t->code_amax = larger(t->code_amax, r.has_zero ? below(code, r.largest)
                                                   : below(code + 1, r.largest + 1));
}

/* The code of product = x times scale, where its sign belongs. */
INLINE uint32_t encode_one(const rule r, plumb_rounding rounding, ends given, float x,
                           float product, uint32_t addend, tally *t)
{
    const uint32_t source = bits_of(x) & MAGNITUDE;
    const uint32_t bits = bits_of(product);
    const uint32_t magnitude = bits & MAGNITUDE;
    const uint32_t rounded = round_magnitude(r, rounding, magnitude, addend);
    const ends end = ends_of(r, rounding, given, magnitude);
    const bool over = above(rounded, r.largest);
    const bool nan = above(magnitude, INF);
    uint32_t number = choose(over, end.above, rounded);
    bool under = false;

    if (!r.has_sign) {
        const bool negative = (bits >> 31 != 0) & (r.has_zero ? rounded != 0 : true);
        const bool low = negative | (!r.has_zero & (magnitude == 0));

        number = choose(low, end.below, number);
        under = low & (source != 0);
    }
    const uint32_t code = choose(nan, r.nan, number);
    const bool bare = (code == r.signless) | ((r.signless == NEVER) & nan);

    count_one(r, source, magnitude, code, over & !under, under, t);
    return code | (r.has_sign ? choose(bare, 0, bits >> r.sign_shift & r.sign) : 0);
}

#endif
