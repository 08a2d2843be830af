/* The casts as plain loops: the definition, compiled once for each instruction set.
 *
 * Integer arithmetic decides every rounding and every count, there are no branches on data
 * and all sums are local, so that the compiler turns each loop into vector code; integer
 * sums and maxima do not depend on the order in which it takes them.
 */
#include "kernel/body.h"
#include "kernel/cast.h"

enum {
    FRACTION = 0x007fffff,
    HIDDEN_ONE = 0x00800000,
    PIECE = 1 << 20 /* elements counted in 32 bits before they are added to the 64 */
};

/* An 8-bit format as the fp32 bit patterns at which its rule changes. */
typedef struct rule8 {
    uint32_t shift;        /* fp32 fraction bits that a normal code drops */
    uint32_t rebias;       /* difference of the biases, in code units */
    uint32_t least_normal; /* fp32 bits of 2^emin */
    uint32_t
        step_shift;    /* less the fp32 exponent field: shift that counts subnormal steps */
    uint32_t largest;  /* code of the largest finite value */
    uint32_t infinity; /* code that an overflow becomes: infinity, or NaN */
} rule8;

static const rule8 rule_e4m3 = {20, (127 - 7) << 3, 0x3c800000, 150 - 9, 0x7e, 0x7f};
static const rule8 rule_e5m2 = {21, (127 - 15) << 2, 0x38800000, 150 - 16, 0x7b, 0x7c};

/* What one piece did; see plumb_counts. */
typedef struct tally {
    uint32_t saturated, flushed, zero, nonfinite;
    uint32_t amax, code_amax; /* fp32 bits of a magnitude; magnitude of a code */
} tally;

INLINE uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* value where it is at most limit, else 0. */
INLINE uint32_t below(uint32_t value, uint32_t limit)
{
    return choose(value <= limit, value, 0);
}

/* x >> shift, rounded to nearest, ties to even.  Needs 1 <= shift <= 31, x < 2^31. */
INLINE uint32_t shift_round(uint32_t x, uint32_t shift)
{
    const uint32_t even = x >> shift & 1u;

    return (x + (1u << (shift - 1)) - 1u + even) >> shift;
}

/* The code of a magnitude, as if exponents had no upper end. */
INLINE uint32_t round8(const rule8 r, uint32_t magnitude)
{
    const uint32_t normal = shift_round(magnitude, r.shift) - r.rebias;

    /* A subnormal code counts steps.  A shift of 25 or more gives zero, so the clamp
     * covers every tiny input (and keeps the shift legal where `normal` is taken).
     */
    const uint32_t significand = (magnitude & FRACTION) | HIDDEN_ONE;
    const uint32_t away = r.step_shift - (magnitude >> 23);
    const uint32_t steps = shift_round(significand, away - 1u < 31u ? away : 31u);

    return choose(magnitude >= r.least_normal, normal, steps);
}

INLINE uint8_t encode8(const rule8 r, uint32_t past, float x, float product, tally *t)
{
    const uint32_t source = bits_of(x) & MAGNITUDE;
    const uint32_t bits = bits_of(product);
    const uint32_t magnitude = bits & MAGNITUDE;
    const uint32_t rounded = round8(r, magnitude);
    const bool over = rounded > r.largest;
    const uint32_t number = choose(over, past, rounded);
    const uint32_t code = choose(magnitude > INF, 0x7f, number);
    const uint32_t sign = choose(code == 0x7f, 0, bits >> 24 & 0x80u);

    t->saturated += (uint32_t)(over & (magnitude <= INF) & (source < INF));
    t->flushed += (uint32_t)((code == 0) & (source != 0));
    t->zero += source == 0;
    t->nonfinite += source >= INF;
    t->amax = larger(t->amax, below(source, INF));
    t->code_amax = larger(t->code_amax, below(code, r.largest));
    return (uint8_t)(code | sign);
}

INLINE tally piece8(const rule8 r, const plumb_cast *how, bool divide,
                    const float *restrict x, size_t n, uint8_t *restrict codes)
{
    const uint32_t past = how->saturate ? r.largest : r.infinity;
    const float scale = how->scale;
    tally t = {0};

    for (size_t i = 0; i < n; i++)
        codes[i] = encode8(r, past, x[i], divide ? x[i] / scale : x[i] * scale, &t);
    return t;
}

INLINE uint16_t encode16(uint32_t past, float x, tally *t)
{
    const uint32_t bits = bits_of(x);
    const uint32_t magnitude = bits & MAGNITUDE;
    const uint32_t rounded = shift_round(magnitude, 16);
    const bool over = rounded >= 0x7f80;
    const uint32_t number = choose(over, past, rounded);
    const uint32_t code = choose(magnitude > INF, 0x7fc0, number);
    const uint32_t sign = choose(magnitude > INF, 0, bits >> 16 & 0x8000u);

    t->saturated += (uint32_t)(over & (magnitude < INF));
    t->flushed += (uint32_t)((code == 0) & (magnitude != 0));
    t->zero += magnitude == 0;
    t->nonfinite += magnitude >= INF;
    t->amax = larger(t->amax, below(magnitude, INF));
    t->code_amax = larger(t->code_amax, below(code, 0x7f7f));
    return (uint16_t)(code | sign);
}

INLINE tally piece16(const plumb_cast *how, const float *restrict x, size_t n,
                     uint16_t *restrict codes)
{
    const uint32_t past = how->saturate ? 0x7f7f : 0x7f80;
    tally t = {0};

    for (size_t i = 0; i < n; i++)
        codes[i] = encode16(past, x[i], &t);
    return t;
}

/* fp32 to fp32: infinities may saturate and NaNs become the one pattern. */
INLINE tally piece32(const plumb_cast *how, const float *restrict x, size_t n,
                     float *restrict codes)
{
    const uint32_t past = how->saturate ? INF - 1 : INF;
    tally t = {0};

    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = bits_of(x[i]);
        const uint32_t magnitude = bits & MAGNITUDE;
        const uint32_t number = choose(magnitude == INF, past, magnitude);
        const uint32_t code = choose(magnitude > INF, NAN_BITS, number);

        t.zero += magnitude == 0;
        t.nonfinite += magnitude >= INF;
        t.amax = larger(t.amax, below(magnitude, INF));
        t.code_amax = larger(t.code_amax, below(code, INF - 1));
        codes[i] = float_of(code | choose(magnitude > INF, 0, bits & 0x80000000u));
    }
    return t;
}

static void add_tally(plumb_counts *counts, size_t n, tally t, float code_amax)
{
    const float amax = float_of(t.amax);

    counts->total += n;
    counts->saturated += t.saturated;
    counts->flushed += t.flushed;
    counts->zero += t.zero;
    counts->nonfinite += t.nonfinite;
    if (amax > counts->amax)
        counts->amax = amax;
    if (code_amax > counts->code_amax)
        counts->code_amax = code_amax;
}

INLINE size_t piece_of(size_t n)
{
    return n < PIECE ? n : PIECE;
}

INLINE void run8(const rule8 r, const plumb_cast *how, const float *x, size_t n,
                 uint8_t *codes, plumb_counts *counts)
{
    const float *values = plumb_format_decode_table(how->format);

    for (size_t m; n > 0; x += m, codes += m, n -= m) {
        m = piece_of(n);
        const tally t = how->divide ? piece8(r, how, true, x, m, codes)
                                    : piece8(r, how, false, x, m, codes);
        add_tally(counts, m, t, values[t.code_amax]);
    }
}

void ENTRY(plumb_encode_e4m3_)(const plumb_cast *how, const float *x, size_t n, void *codes,
                               plumb_counts *counts)
{
    run8(rule_e4m3, how, x, n, codes, counts);
}

void ENTRY(plumb_encode_e5m2_)(const plumb_cast *how, const float *x, size_t n, void *codes,
                               plumb_counts *counts)
{
    run8(rule_e5m2, how, x, n, codes, counts);
}

void ENTRY(plumb_encode_bf16_)(const plumb_cast *how, const float *x, size_t n, void *codes,
                               plumb_counts *counts)
{
    uint16_t *to = codes;

    for (size_t m; n > 0; x += m, to += m, n -= m) {
        m = piece_of(n);
        const tally t = piece16(how, x, m, to);
        add_tally(counts, m, t, float_of(t.code_amax << 16));
    }
}

void ENTRY(plumb_encode_fp32_)(const plumb_cast *how, const float *x, size_t n, void *codes,
                               plumb_counts *counts)
{
    float *to = codes;

    for (size_t m; n > 0; x += m, to += m, n -= m) {
        m = piece_of(n);
        const tally t = piece32(how, x, m, to);
        add_tally(counts, m, t, float_of(t.code_amax));
    }
}

/* A product that is NaN gets the one pattern, whatever the hardware made of it. */
INLINE float times(float value, float scale)
{
    const uint32_t bits = bits_of(value * scale);

    return float_of((bits & MAGNITUDE) > INF ? (uint32_t)NAN_BITS : bits);
}

/* The value of a code without a table: subnormal codes are small integers times the
 * step, both exact.
 */
INLINE float decode8(const rule8 r, float step, uint32_t code)
{
    const uint32_t magnitude = code & 0x7fu;
    const uint32_t normal = (magnitude + r.rebias) << r.shift;
    const uint32_t small = bits_of((float)(int32_t)magnitude * step);
    const uint32_t finite = magnitude >> (23 - r.shift) == 0 ? small : normal;
    const uint32_t special =
        magnitude == r.infinity && r.infinity == 0x7c ? (uint32_t)INF : (uint32_t)NAN_BITS;
    const uint32_t value = magnitude > r.largest ? special : finite;

    return float_of(value == NAN_BITS ? value : value | (code & 0x80u) << 24);
}

void ENTRY(plumb_decode_e4m3_)(float scale, const void *codes, size_t n, float *restrict x)
{
    const uint8_t *restrict from = codes;

    for (size_t i = 0; i < n; i++)
        x[i] = times(decode8(rule_e4m3, 0x1p-9f, from[i]), scale);
}

void ENTRY(plumb_decode_e5m2_)(float scale, const void *codes, size_t n, float *restrict x)
{
    const uint8_t *restrict from = codes;

    for (size_t i = 0; i < n; i++)
        x[i] = times(decode8(rule_e5m2, 0x1p-16f, from[i]), scale);
}

void ENTRY(plumb_decode_bf16_)(float scale, const void *codes, size_t n, float *restrict x)
{
    const uint16_t *restrict from = codes;

    for (size_t i = 0; i < n; i++)
        x[i] = times(float_of((uint32_t)from[i] << 16), scale);
}

void ENTRY(plumb_decode_fp32_)(float scale, const void *codes, size_t n, float *restrict x)
{
    const float *restrict from = codes;

    for (size_t i = 0; i < n; i++)
        x[i] = times(from[i], scale);
}

float ENTRY(plumb_amax_)(const float *x, size_t n)
{
    uint32_t amax = 0;

    for (size_t i = 0; i < n; i++) {
        const uint32_t magnitude = bits_of(x[i]) & MAGNITUDE;

        amax = larger(amax, below(magnitude, INF));
    }
    return float_of(amax);
}
