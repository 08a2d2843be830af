/* codes.h - random numbers and codes of operands, in integers: the same everywhere.
 *
 * C99 and C++.  It shares nothing with the library: what the tiles hold must not depend on it.
 */
#ifndef TESTS_MATMUL_HARDWARE_CODES_H
#define TESTS_MATMUL_HARDWARE_CODES_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef enum tile_format { T_E4M3, T_E5M2, T_BF16, T_FP16, T_TF32 } tile_format;

/* lost: low bits of an element in memory that no operand has. */
typedef struct format_info {
    const char *name;
    int bytes, exponent_bits, fraction_bits, bias, lost;
} format_info;

static const format_info tile_formats[] = {
    {"e4m3", 1, 4, 3, 7, 0},   {"e5m2", 1, 5, 2, 15, 0},    {"bf16", 2, 8, 7, 127, 0},
    {"fp16", 2, 5, 10, 15, 0}, {"tf32", 4, 8, 10, 127, 13},
};

/* --- random numbers: SplitMix64 ---------------------------------------------- */

static inline uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* 0 to n - 1. */
static inline uint32_t below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((next_random(state) >> 32) * n >> 32);
}

static inline int between(uint64_t *state, int least, int most)
{
    return least + (int)below(state, (uint32_t)(most - least + 1));
}

/* --- codes -------------------------------------------------------------------- */

static inline uint32_t code_of(const format_info *f, uint32_t sign, int field,
                               uint32_t fraction)
{
    return sign << (f->exponent_bits + f->fraction_bits) |
           (uint32_t)field << f->fraction_bits | fraction;
}

static inline uint32_t all_fraction(const format_info *f)
{
    return (1u << f->fraction_bits) - 1;
}

static inline uint32_t top_field(const format_info *f)
{
    return (1u << f->exponent_bits) - 1;
}

/* E4M3 has one NaN and no infinity, the others are as IEEE. */
static inline bool code_is_finite(const format_info *f, uint32_t code)
{
    const uint32_t magnitude = code & (code_of(f, 1, 0, 0) - 1);

    if (f->exponent_bits == 4)
        return magnitude != 0x7f;
    return magnitude >> f->fraction_bits != top_field(f);
}

/* Within the fields of which every code is finite. */
static inline int clamp_field(const format_info *f, int field)
{
    const int most = (int)top_field(f) - 1;

    return field < 0 ? 0 : field > most ? most : field;
}

/* (-1)^sign 1.fraction 2^e; where that is subnormal a power of two, at least the least. */
static inline uint32_t code_of_power(const format_info *f, uint32_t sign, int e,
                                     uint32_t fraction)
{
    const int field = e + f->bias, down = 1 - field;

    if (field > 0)
        return code_of(f, sign, clamp_field(f, field), fraction);
    return code_of(f, sign, 0,
                   1u << (down < f->fraction_bits ? f->fraction_bits - down : 0));
}

static inline void put_code(const format_info *f, uint8_t *row, int k, uint32_t code)
{
    code <<= f->lost;
    for (int i = 0; i < f->bytes; i++)
        row[k * f->bytes + i] = (uint8_t)(code >> 8 * i);
}

static inline uint32_t get_code(const format_info *f, const uint8_t *row, int k)
{
    uint32_t code = 0;

    for (int i = 0; i < f->bytes; i++)
        code |= (uint32_t)row[k * f->bytes + i] << 8 * i;
    return code >> f->lost;
}

/* Of a finite code. */
static inline double code_value(const format_info *f, uint32_t code)
{
    const int field = (int)(code >> f->fraction_bits & top_field(f));
    const uint32_t fraction = code & all_fraction(f), one = 1u << f->fraction_bits;
    const double sign = code & code_of(f, 1, 0, 0) ? -1 : 1;

    if (field == 0)
        return sign * ldexp(fraction, 1 - f->bias - f->fraction_bits);
    return sign * ldexp(fraction | one, field - f->bias - f->fraction_bits);
}

/* --- C: bits of fp32 or fp16 ---------------------------------------------------- */

static inline uint32_t float_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_from(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* (-1)^sign 1.fraction 2^e, cut off where subnormal; at most the largest. */
static inline uint32_t float_of(uint32_t sign, int e, uint32_t fraction)
{
    if (e > 127)
        return sign << 31 | 0x7f7fffffu;
    if (e < -126)
        return sign << 31 | (e < -149 ? 0 : (fraction | 0x800000u) >> (-126 - e));
    return sign << 31 | (uint32_t)(e + 127) << 23 | fraction;
}

/* fp32 to fp16, to nearest even; payloads of NaN are cut, not to zero. */
static inline uint32_t half_of(uint32_t x)
{
    const uint32_t sign = x >> 16 & 0x8000, magnitude = x & 0x7fffffff;
    const int e = (int)(magnitude >> 23) - 127, drop = e >= -14 ? 13 : -1 - e;
    const uint32_t m = (magnitude & 0x7fffff) | 0x800000, payload = magnitude >> 13 & 0x3ff;

    if (magnitude > 0x7f800000)
        return sign | 0x7c00 | (payload != 0 ? payload : 1);
    if (e > 15)
        return sign | 0x7c00;
    if (drop > 24)
        return sign;
    const uint32_t kept = m >> drop, rest = m & ((1u << drop) - 1), tie = 1u << (drop - 1);
    const uint32_t rounded = kept + (rest > tie || (rest == tie && (kept & 1) != 0));
    return sign | (e >= -14 ? ((uint32_t)(e + 14) << 10) + rounded : rounded);
}

static inline uint32_t half_to_float(uint32_t h)
{
    const uint32_t sign = (h & 0x8000) << 16, field = h >> 10 & 31, fraction = h & 0x3ff;

    if (field == 31)
        return sign | 0x7f800000 | fraction << 13;
    if (field == 0)
        return sign | float_bits((float)ldexp(fraction, -24));
    return sign | (field + 112) << 23 | fraction << 13;
}

#endif
