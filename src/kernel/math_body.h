/* exp, log, sin, cos: the definition, compiled once for each instruction set.
 *
 * Only additions, multiplications and fmaf in the order written, without branches on data,
 * so every build gives the same bits.  Polynomials are minimax fits in relative error
 * (Remez, 40 digits), coefficients then rounded to fp32; what the rounding costs is in the
 * errors stated above each function, which tests/kernel finds by running all of fp32.
 */
#include "kernel/body.h"
#include "kernel/math.h"

#include <math.h>

/* 1.5 * 2^23: a number below 2^22 added to it is rounded to an integer, which then lies in
 * the low bits.
 */
#define MAGIC 0x1.8p23f

/* e^x = 2^k e^r, k the integer nearest to x / ln 2, |r| <= ln 2 / 2 and a little.
 * At most 0.9876 ulp, at 0x1.da3336p+5.
 */
INLINE float exp_one(float x)
{
    const float shifted = fmaf(x, 0x1.715476p0f, MAGIC);
    const float k = shifted - MAGIC;
    const float r = fmaf(k, 0x1.05c610p-29f, fmaf(k, -0x1.62e430p-1f, x));
    float q = 0x1.9f0d14p-13f;

    q = fmaf(q, r, 0x1.6d8ddcp-10f);
    q = fmaf(q, r, 0x1.111270p-7f);
    q = fmaf(q, r, 0x1.55548cp-5f);
    q = fmaf(q, r, 0x1.555554p-3f);
    q = fmaf(q, r, 0.5f);
    const float p = 1.0f + fmaf(r * r, q, r);

    /* Where the result is normal, adding k to the exponent field multiplies by 2^k. */
    const uint32_t scaled = bits_of(p) + (bits_of(shifted) << 23);
    const uint32_t bits = bits_of(x), magnitude = bits & MAGNITUDE;
    const bool negative = bits >> 31 != 0;
    const uint32_t high = choose(magnitude > 0x42b17217, INF, scaled); /* 0x1.62e42ep6 */
    const uint32_t low = choose(magnitude > 0x42aeac4f, 0, scaled);    /* 0x1.5d589ep6 */

    return float_of(choose(magnitude > INF, NAN_BITS, choose(negative, low, high)));
}

/* log x = k ln 2 + log(1 + f), 1 + f in [2/3, 4/3).  At most 0.8406 ulp, at 0x1.56613cp+0. */
INLINE float log_one(float x)
{
    const uint32_t bits = bits_of(x);
    const uint32_t shifted =
        bits - 0x3f2aaaab + (128u << 23); /* exponent of x / (2/3) + 128 */
    const uint32_t biased = shifted >> 23;
    const float k = (float)((int32_t)biased - 128);
    const float f = float_of(bits - (biased << 23) + (128u << 23)) - 1.0f;
    float q = 0x1.ebde92p-4f;

    q = fmaf(q, f, -0x1.07182ep-3f);
    q = fmaf(q, f, 0x1.b87b00p-4f);
    q = fmaf(q, f, -0x1.f38722p-4f);
    q = fmaf(q, f, 0x1.24f4aep-3f);
    q = fmaf(q, f, -0x1.55991ep-3f);
    q = fmaf(q, f, 0x1.99977cp-3f);
    q = fmaf(q, f, -0x1.ffff0ep-3f);
    q = fmaf(q, f, 0x1.555556p-2f);
    const float rest = fmaf(f * f, fmaf(f, q, -0.5f), k * 0x1.7f7d1cp-20f);
    const float result = fmaf(k, 0x1.62e400p-1f, f + rest);

    const uint32_t magnitude = bits & MAGNITUDE;
    const uint32_t positive = choose(bits >= INF, INF, bits_of(result));
    const uint32_t valid = choose(magnitude < 0x00800000, 0xff800000u, positive);
    const bool nan = (magnitude > INF) | ((bits >> 31 != 0) & (magnitude >= 0x00800000));

    return float_of(choose(nan, NAN_BITS, valid));
}

/* An angle reduced: |x| = quadrant pi/2 + r + rest, |r| <= pi/4 and a little, and rest is what
 * r lost by rounding.
 */
typedef struct reduced {
    float r, rest;
    uint32_t quadrant;
} reduced;

/* Cody and Waite in three parts.  x - q P1 is exact; what the second product and
 * the difference lose is kept (fmaf, two-sum), since r may be as small as 2^-25.
 */
INLINE reduced reduce_angle(float x)
{
    const float shifted = fmaf(x, 0x1.45f306p-1f, MAGIC);
    const float q = shifted - MAGIC;
    const float first = fmaf(q, -0x1.921fb6p0f, x);
    const float product = q * 0x1.777a5cp-25f;
    const float product_rest = fmaf(q, 0x1.777a5cp-25f, -product);
    const float r = first + product;
    const float part = r - first;
    const float sum_rest = (first - (r - part)) + (product - part);
    const float rest = sum_rest + fmaf(q, 0x1.ee59dap-50f, product_rest);

    return (reduced){r, rest, bits_of(shifted)};
}

INLINE float sine_of(float r, float rest)
{
    const float z = r * r;
    float s = 0x1.6ccf5ep-19f;

    s = fmaf(s, z, -0x1.a00f74p-13f);
    s = fmaf(s, z, 0x1.111108p-7f);
    s = fmaf(s, z, -0x1.555556p-3f);
    return r + fmaf(r * z, s, fmaf(rest * -0.5f, z, rest));
}

INLINE float cosine_of(float r, float rest)
{
    const float z = r * r;
    const float half = 0.5f * z;
    const float w = 1.0f - half;
    float c = 0x1.99e86ap-16f;

    c = fmaf(c, z, -0x1.6c0c28p-10f);
    c = fmaf(c, z, 0x1.55554ap-5f);
    return w + (((1.0f - w) - half) + fmaf(z * z, c, -(r * rest)));
}

/* sin(|x| + turn pi/2), NaN beyond 32768. */
INLINE uint32_t sine_bits(uint32_t magnitude, uint32_t turn)
{
    const reduced a = reduce_angle(float_of(magnitude));
    const uint32_t quadrant = a.quadrant + turn;
    const uint32_t sine = bits_of(sine_of(a.r, a.rest));
    const uint32_t cosine = bits_of(cosine_of(a.r, a.rest));
    const uint32_t value = choose((quadrant & 1u) != 0, cosine, sine);

    return choose(magnitude > 0x47000000, NAN_BITS, value ^ (quadrant & 2u) << 30);
}

/* At most 0.7821 ulp, at 0x1.0d5e9ap+8. */
INLINE float sin_one(float x)
{
    const uint32_t magnitude = bits_of(x) & MAGNITUDE;
    const uint32_t sign = bits_of(x) & 0x80000000u;

    return float_of(sine_bits(magnitude, 0) ^ choose(magnitude > 0x47000000, 0, sign));
}

/* At most 0.7820 ulp, at 0x1.f58978p+1. */
INLINE float cos_one(float x)
{
    return float_of(sine_bits(bits_of(x) & MAGNITUDE, 1));
}

/* Through buffers of a fixed length: the loops in between know that nothing overlaps (y may
 * be x) and have no tails.
 */
enum { BLOCK = 64 };

#define DEFINE(name)                                                                       \
    void ENTRY(plumb_##name##_)(const float *x, size_t n, float *y)                        \
    {                                                                                      \
        float from[BLOCK] = {0}, to[BLOCK];                                                \
                                                                                           \
        for (size_t m; n > 0; x += m, y += m, n -= m) {                                    \
            m = n < BLOCK ? n : BLOCK;                                                     \
            memcpy(from, x, m * sizeof *x);                                                \
            for (int i = 0; i < BLOCK; i++)                                                \
                to[i] = name##_one(from[i]);                                               \
            memcpy(y, to, m * sizeof *y);                                                  \
        }                                                                                  \
    }

DEFINE(exp)
DEFINE(log)
DEFINE(sin)
DEFINE(cos)
