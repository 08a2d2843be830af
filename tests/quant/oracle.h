/* oracle.h - what a quantised matrix must be, from the definitions: codes by searching the number
 * line, scales by their formulas, counts by looking.  Shares
 * nothing with the library but its types and the random bits.
 */
#ifndef PLUMB_TEST_QUANT_ORACLE_H
#define PLUMB_TEST_QUANT_ORACLE_H

#include "plumb/quant.h"
#include "plumb/random.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- formats ------------------------------------------------------------------------------- */

typedef struct oracle_format {
    plumb_format format;
    const char *name;
    int bits, fraction, bias;
    unsigned top, nan, beyond; /* codes: the largest; NaN; overflow without saturation */
    int emax;
    float largest;
    bool no_negative_zero;
} oracle_format;

static const oracle_format oracle_formats[] = {
    {PLUMB_E4M3, "e4m3", 8, 3, 7, 0x7e, 0x7f, 0x7f, 8, 448, false},
    {PLUMB_E5M2, "e5m2", 8, 2, 15, 0x7b, 0x7f, 0x7c, 15, 57344, false},
    {PLUMB_E4M3FNUZ, "e4m3fnuz", 8, 3, 8, 0x7f, 0x80, 0x80, 7, 240, true},
    {PLUMB_E5M2FNUZ, "e5m2fnuz", 8, 2, 16, 0x7f, 0x80, 0x80, 15, 57344, true},
    {PLUMB_E3M2, "e3m2", 6, 2, 3, 0x1f, 0x1f, 0x1f, 4, 28, false},
    {PLUMB_E2M3, "e2m3", 6, 3, 1, 0x1f, 0x1f, 0x1f, 2, 7.5f, false},
    {PLUMB_E2M1, "e2m1", 4, 1, 1, 0x07, 0x07, 0x07, 2, 6, false},
};
enum { ORACLE_FORMATS = sizeof oracle_formats / sizeof *oracle_formats };

static inline const oracle_format *oracle_format_of(plumb_format format)
{
    for (size_t i = 0; i < ORACLE_FORMATS; i++) {
        if (oracle_formats[i].format == format)
            return &oracle_formats[i];
    }
    abort();
}

/* Value of a magnitude; the first code past the largest has the value it would have. */
static inline double oracle_line(const oracle_format *f, unsigned code)
{
    const int exponent = (int)(code >> f->fraction);
    const int fraction = (int)(code & ((1u << f->fraction) - 1u));

    return exponent == 0
               ? ldexp(fraction, 1 - f->bias - f->fraction)
               : ldexp(fraction + (1 << f->fraction), exponent - f->bias - f->fraction);
}

static inline unsigned oracle_magnitude(const oracle_format *f, unsigned code)
{
    return code & ((1u << (f->bits - 1)) - 1u);
}

static inline bool oracle_finite(const oracle_format *f, unsigned code)
{
    return !(f->no_negative_zero && code == 0x80) && oracle_magnitude(f, code) <= f->top;
}

/* Value of a code that is finite. */
static inline double oracle_value(const oracle_format *f, unsigned code)
{
    const double x = oracle_line(f, oracle_magnitude(f, code));

    return code != oracle_magnitude(f, code) ? -x : x;
}

/* --- the cast ------------------------------------------------------------------------------ */

typedef struct oracle_cast {
    const oracle_format *format;
    bool saturate;
    plumb_rounding rounding;
    plumb_dither dither;
} oracle_cast;

/* Whether x, between two neighbours and `part` of the way up, goes to the upper one. */
static inline bool oracle_up(const oracle_cast *how, double part, unsigned code,
                             uint32_t bits)
{
    if (part == 0 || how->rounding == PLUMB_ROUND_TOWARD_ZERO)
        return false;
    if (how->rounding == PLUMB_ROUND_NEAREST_EVEN)
        return part > 0.5 || (part == 0.5 && code % 2 == 1);
    if (how->dither == PLUMB_DITHER_32)
        return (double)bits < floor(part * 0x1p32);
    return part + ((double)(bits >> 24) +
                   (how->dither == PLUMB_DITHER_8_CENTRED ? 0.5 : 0.0)) /
                      256 >=
           1;
}

/* Code of v; *over: finite, and past the largest after rounding. */
static inline unsigned oracle_encode(const oracle_cast *how, float v, uint32_t bits,
                                     bool *over)
{
    const oracle_format *f = how->format;
    const double x = fabs((double)v);
    unsigned low = 0, high = f->top + 1;

    *over = false;
    if (isnan(v))
        return f->nan;
    while (low < high) {
        const unsigned middle = (low + high + 1) / 2;

        if (oracle_line(f, middle) <= x)
            low = middle;
        else
            high = middle - 1;
    }
    if (low <= f->top) {
        const double here = oracle_line(f, low), next = oracle_line(f, low + 1);

        low += oracle_up(how, (x - here) / (next - here), low, bits);
    }
    if (low > f->top) {
        *over = true;
        low = how->saturate || (how->rounding == PLUMB_ROUND_TOWARD_ZERO && !isinf(v))
                  ? f->top
                  : f->beyond;
    }
    if (f->no_negative_zero && (low == 0 || low == f->nan))
        return low;
    if (low > f->top && f->beyond == f->nan)
        return f->nan;
    return low | (signbit(v) ? 1u << (f->bits - 1) : 0);
}

/* --- scales -------------------------------------------------------------------------------- */

/* Largest e with 2^e <= x; frexp is exact. */
static inline int oracle_floor_log2(double x)
{
    int e;

    frexp(x, &e);
    return e - 1;
}

static inline int oracle_ceil_log2(double x)
{
    const int e = oracle_floor_log2(x);

    return ldexp(1, e) == x ? e : e + 1;
}

static inline int oracle_mx_code(plumb_mx_rounding rounding, const oracle_format *f,
                                 float amax)
{
    const double a = (double)amax;
    int e = 0;

    if (isnan(amax))
        return 255;
    if (isinf(amax))
        return 254;
    if (amax == 0)
        return 0;
    if (rounding == PLUMB_MX_FLOOR)
        e = oracle_floor_log2(a) - f->emax;
    if (rounding == PLUMB_MX_CEIL)
        e = oracle_ceil_log2(a) - f->emax;
    if (rounding == PLUMB_MX_EVEN) {
        const double step = ldexp(1, oracle_floor_log2(a) - f->fraction);

        e = oracle_floor_log2(floor(a / step + 0.5) * step) - f->emax;
    }
    if (rounding == PLUMB_MX_RCEIL) {
        const float inverse = 1 / f->largest, v = amax * inverse;

        e = v == 0 ? -127 : oracle_ceil_log2((double)v);
    }
    return e < -127 ? 0 : e > 127 ? 254 : e + 127;
}

typedef struct oracle_scale {
    float factor, d;
    bool divide;
} oracle_scale;

static inline float oracle_power_down(float s)
{
    return (float)ldexp(1, oracle_floor_log2((double)s));
}

static inline float oracle_power_up(float d)
{
    return (float)ldexp(1, oracle_ceil_log2((double)d));
}

static inline float oracle_tensor_scale(float amax)
{
    const float s = fminf(2688.0f / amax, FLT_MAX);

    return amax == 0 || s == 0 ? 1 : s;
}

static inline oracle_scale oracle_current(const plumb_spec *spec, const oracle_format *f,
                                          float amax)
{
    const float largest = (float)ldexp((double)f->largest, -spec->margin);

    if (amax < spec->amax_floor)
        amax = spec->amax_floor;
    if (spec->divide) {
        float d = amax == 0 ? 1 : amax / largest;

        if (spec->power_of_two && amax != 0)
            d = d < FLT_MIN ? FLT_MIN : d > 0x1p127f ? 0x1p127f : oracle_power_up(d);
        return (oracle_scale){d, d, true};
    }
    float s = amax == 0 || isinf(amax) ? 1 : fminf(largest / amax, FLT_MAX);

    if (spec->power_of_two)
        s = oracle_power_down(s);
    return (oracle_scale){s, 1 / s, false};
}

/* of_tensor: NVFP4's S. */
static inline oracle_scale oracle_scale_of(const plumb_spec *spec, float amax,
                                           float delayed, float of_tensor)
{
    const oracle_format *f = oracle_format_of(spec->format);

    if (spec->rule == PLUMB_SCALE_NONE)
        return (oracle_scale){1, 1, false};
    if (spec->rule != PLUMB_SCALE_CURRENT) {
        const float s = spec->rule == PLUMB_SCALE_STATIC ? spec->static_scale : delayed;

        return (oracle_scale){s, 1 / s, false};
    }
    if (spec->grain == PLUMB_GRAIN_MX32) {
        const int e = oracle_mx_code(spec->mx, f, amax) - 127;

        return (oracle_scale){(float)ldexp(1, -e), (float)ldexp(1, e), false};
    }
    if (spec->grain == PLUMB_GRAIN_NVFP4) {
        const oracle_cast how = {oracle_format_of(PLUMB_E4M3), true,
                                 PLUMB_ROUND_NEAREST_EVEN, PLUMB_DITHER_32};
        const float sixth = 1.0f / 6.0f, per_block = of_tensor * sixth;
        const float wanted = fminf(amax * per_block, FLT_MAX), s_dec = 1 / of_tensor;
        bool over;
        const float b =
            (float)oracle_value(how.format, oracle_encode(&how, wanted, 0, &over));
        const float decode = b * s_dec;

        return (oracle_scale){fminf(1 / decode, FLT_MAX), b, false};
    }
    return oracle_current(spec, f, amax);
}

/* --- blocks -------------------------------------------------------------------------------- */

typedef struct oracle_block {
    size_t row, row_end, col, col_end, d;
} oracle_block;

static inline size_t oracle_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The block of element (row, col), straight from the table in the header. */
static inline oracle_block oracle_block_of(const plumb_spec *spec, size_t rows, size_t cols,
                                           bool along_rows, size_t row, size_t col)
{
    size_t length = 128;

    switch (spec->grain) {
    case PLUMB_GRAIN_TENSOR:
        return (oracle_block){0, rows, 0, cols, 0};
    case PLUMB_GRAIN_ROW:
        return along_rows ? (oracle_block){0, rows, col, col + 1, col}
                          : (oracle_block){row, row + 1, 0, cols, row};
    case PLUMB_GRAIN_128X128: {
        const size_t r = row / 128, c = col / 128;

        return (oracle_block){128 * r, oracle_least(128 * r + 128, rows), 128 * c,
                              oracle_least(128 * c + 128, cols),
                              r * ((cols + 127) / 128) + c};
    }
    case PLUMB_GRAIN_MX32:
        length = 32;
        break;
    case PLUMB_GRAIN_NVFP4:
        length = 16;
        break;
    case PLUMB_GRAIN_1X128:
        break;
    }
    const size_t start = (along_rows ? row : col) / length * length;

    return along_rows
               ? (oracle_block){start, oracle_least(start + length, rows), col, col + 1,
                                row / length * cols + col}
               : (oracle_block){row, row + 1, start, oracle_least(start + length, cols),
                                row * ((cols + length - 1) / length) + col / length};
}

static inline float oracle_amax(const float *x, size_t ld, size_t row, size_t row_end,
                                size_t col, size_t col_end)
{
    float amax = 0;

    for (size_t r = row; r < row_end; r++) {
        for (size_t c = col; c < col_end; c++) {
            const float a = fabsf(x[r * ld + c]);

            if (!isnan(a) && a > amax)
                amax = a;
        }
    }
    return amax;
}

/* --- counts -------------------------------------------------------------------------------- */

typedef struct oracle_tally {
    plumb_counts counts;
    uint64_t exponent[256];
    long double signal, error;
} oracle_tally;

static inline void oracle_count(oracle_tally *t, const oracle_format *f, float x,
                                float product, unsigned code, bool over, double decode)
{
    const float magnitude = fabsf(x);
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    t->exponent[bits >> 23 & 255]++;
    t->counts.total++;
    t->counts.saturated += over && isfinite(x) && !isnan(product);
    t->counts.clipped += isfinite(x) && fabsf(product) > f->largest;
    t->counts.flushed += isfinite(x) && x != 0 && !isnan(product) &&
                         oracle_finite(f, code) && oracle_value(f, code) == 0;
    t->counts.zero += x == 0;
    t->counts.nonfinite += isfinite(x) ? 0 : 1;
    if (!isnan(x) && magnitude > t->counts.amax)
        t->counts.amax = magnitude;
    if (oracle_finite(f, code) && fabs(oracle_value(f, code)) > (double)t->counts.code_amax)
        t->counts.code_amax = (float)fabs(oracle_value(f, code));
    if (isfinite(x))
        t->signal += (long double)x * (long double)x;
    if (isfinite(x) && oracle_finite(f, code) && isfinite(decode)) {
        const long double miss =
            (long double)x - (long double)oracle_value(f, code) * (long double)decode;

        t->error += miss * miss;
    }
}

#endif
