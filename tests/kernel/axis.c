/* axis.h, the derivations.  Values are at most 24 bits wide with exponents from -150 to 128, so
 * doubles hold them, their midpoints and their differences exactly.
 */
#include "kernel/axis.h"

#include "plumb/random.h"

static uint32_t ones(int bits)
{
    return bits >= 32 ? 0xffffffffu : (1u << bits) - 1u;
}

/* What the special codes leave: the largest finite code, and infinity and NaN. */
static void set_specials(axis *a, const plumb_format_info *info)
{
    const uint32_t top = ones(info->bits - info->is_signed);

    switch (info->special) {
    case PLUMB_SPECIAL_IEEE: /* exponent all ones */
        a->infinite = top & ~ones(a->fraction_bits);
        a->largest = a->infinite - 1;
        a->nan = info->nan_code; /* one of many: its value is checked by the tests */
        return;
    case PLUMB_SPECIAL_NAN: /* all ones below the sign */
        a->largest = top - 1;
        a->infinite = a->nan = top;
        return;
    case PLUMB_SPECIAL_FNUZ: /* the code of -0 */
        a->largest = top;
        a->infinite = a->nan = top + 1;
        return;
    case PLUMB_SPECIAL_NONE:
        a->largest = a->infinite = a->nan = top;
        return;
    }
}

bool axis_of(plumb_format format, axis *a)
{
    const plumb_format_info *info = plumb_format_get(format);

    if (info == NULL)
        return false;
    *a = (axis){.format = format,
                .fraction_bits = info->fraction_bits,
                .bias = info->bias,
                .bytes = info->bits > 16  ? 4
                         : info->bits > 8 ? 2
                                          : 1,
                .shift = format == PLUMB_TF32 ? 13 : 0,
                .is_signed = info->is_signed,
                .zero = info->fraction_bits > 0,
                .negative_zero = info->is_signed && info->special != PLUMB_SPECIAL_FNUZ};
    set_specials(a, info);
    a->sign = info->is_signed ? 1u << (info->bits - 1 + a->shift) : 0;
    a->largest_value = axis_value(a, a->largest);
    return true;
}

double axis_value(const axis *a, uint32_t code)
{
    const int exponent = (int)(code >> a->fraction_bits);
    const double significand =
        1.0 + ldexp(code & ones(a->fraction_bits), -a->fraction_bits);

    if (a->zero && exponent == 0)
        return ldexp(significand - 1.0, 1 - a->bias);
    return ldexp(significand, exponent - a->bias);
}

/* The least fp32 magnitude x, as bits, with x >= bound, or x > bound.  The conversion only says
 * where to look.
 */
static uint32_t least_float(double bound, bool above)
{
    if (bound > (double)FLT_MAX)
        return AXIS_INFINITY;
    uint32_t bits = bits_from((float)bound);

    while (bits > 0 && (double)float_from(bits - 1) >= bound)
        bits--;
    while ((double)float_from(bits) < bound)
        bits++;
    while (above && (double)float_from(bits) == bound)
        bits++;
    return bits;
}

uint32_t axis_step(const axis *a, plumb_rounding rounding, uint32_t code)
{
    if (code > a->largest)
        return AXIS_INFINITY; /* one past the largest stands for all that is out of range */
    const double here = axis_value(a, code), there = axis_value(a, code + 1);

    if (rounding == PLUMB_ROUND_NEAREST_EVEN)
        return least_float((here + there) / 2, code % 2 == 0);
    return least_float(there, false);
}

/* --- one element ---------------------------------------------------------------- */

uint32_t axis_code_at(const axis *a, const void *codes, size_t i)
{
    if (a->bytes == 1)
        return ((const uint8_t *)codes)[i];
    return a->bytes == 2 ? ((const uint16_t *)codes)[i] : ((const uint32_t *)codes)[i];
}

void axis_store(const axis *a, void *codes, size_t i, uint32_t code)
{
    if (a->bytes == 1)
        ((uint8_t *)codes)[i] = (uint8_t)code;
    else if (a->bytes == 2)
        ((uint16_t *)codes)[i] = (uint16_t)code;
    else
        ((uint32_t *)codes)[i] = code;
}

/* Below the least value of a format without sign: what is negative and does not round to zero,
 * and zero itself where there is none (e8m0).
 */
static bool is_under(const axis *a, bool negative, double v, uint32_t code)
{
    if (a->is_signed)
        return false;
    return negative ? !(a->zero && code == 0) : v == 0 && !a->zero;
}

/* The stored code of a number of this sign with magnitude v, not NaN, that rounds to code. */
static uint32_t finish(const axis *a, const plumb_cast *how, bool negative, double v,
                       uint32_t code)
{
    const bool finite = v < (double)INFINITY;
    const bool clamp =
        how->saturate || (finite && how->rounding == PLUMB_ROUND_TOWARD_ZERO);
    const bool past = !finite || code > a->largest;

    if (is_under(a, negative, v, code))
        return clamp ? 0 : a->nan;
    if (past && !clamp && a->infinite == a->nan && a->nan != a->largest)
        return a->nan; /* without sign */
    if (past)
        code = clamp ? a->largest : a->infinite;
    if (!negative || !a->is_signed || (code == 0 && !a->negative_zero))
        return code << a->shift;
    return code << a->shift | a->sign;
}

/* Whether a stochastic rounding goes up from code for magnitude v, as element `index`. */
static bool goes_up(const axis *a, const plumb_cast *how, uint32_t code, double v,
                    uint64_t index)
{
    const double here = axis_value(a, code), step = axis_value(a, code + 1) - here;
    const double f = (v - here) / step; /* exact: step is a power of two */
    const uint64_t at = how->first + index;
    static uint64_t block[3] = {0, 0,
                                UINT64_MAX}; /* seed, stream and number of what follows */
    static uint32_t word[4];

    if (block[0] != how->seed || block[1] != how->stream || block[2] != at / 4) {
        block[0] = how->seed;
        block[1] = how->stream;
        block[2] = at / 4;
        plumb_random_bits(how->seed, how->stream, at / 4, word);
    }
    if (how->dither == PLUMB_DITHER_32)
        return word[at % 4] < floor(ldexp(f, 32));
    const double r = word[at % 4] >> 24;

    return ldexp(f, 8) >= (how->dither == PLUMB_DITHER_8 ? 256 : 255.5) - r;
}

/* The code on the unbounded line that magnitude v > 0 gets, code being that toward zero. */
static uint32_t settle(const axis *a, const plumb_cast *how, uint32_t code, double v,
                       uint64_t index)
{
    if (how->rounding != PLUMB_ROUND_STOCHASTIC || code > a->largest ||
        v < axis_value(a, code))
        return code;
    return code + (goes_up(a, how, code, v, index) ? 1 : 0);
}

/* What one element adds to the counts: source magnitude x, product v of this sign, its code on the
 * unbounded line and as stored.
 */
static void tally(const axis *a, double x, bool negative, double v, uint32_t code,
                  uint32_t stored, plumb_counts *counts)
{
    const uint32_t magnitude = (stored & ~a->sign) >> a->shift;
    const bool finite = x < (double)INFINITY && v == v;
    const bool under = x > 0 && is_under(a, negative, v, code);

    counts->total++;
    counts->saturated += finite && (under || code > a->largest);
    counts->clipped += finite && (under || v > a->largest_value);
    counts->flushed += x > 0 && v < (double)INFINITY && a->zero && code == 0;
    counts->zero += x == 0;
    counts->nonfinite += x >= (double)INFINITY || x != x;
    if (x > (double)counts->amax)
        counts->amax = (float)x;
    if (magnitude <= a->largest && (stored != a->nan || a->nan == a->largest) &&
        axis_value(a, magnitude) > (double)counts->code_amax)
        counts->code_amax = (float)axis_value(a, magnitude);
}

uint32_t axis_code(const axis *a, const plumb_cast *how, float x, float v, size_t index,
                   plumb_counts *counts)
{
    const uint32_t bits = bits_from(v) & 0x7fffffffu;
    uint32_t low = 0, high = a->largest + 1; /* low <= code <= high */
    uint32_t stored;

    while (bits < AXIS_INFINITY && low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (bits >= axis_step(a, how->rounding, middle))
            low = middle + 1;
        else
            high = middle;
    }
    if (bits > AXIS_INFINITY) {
        stored = a->nan;
    } else {
        low = bits == AXIS_INFINITY ? a->largest + 1
                                    : settle(a, how, low, fabs((double)v), index);
        stored = finish(a, how, signbit(v) != 0, fabs((double)v), low);
    }
    tally(a, fabs((double)x), signbit(v) != 0, fabs((double)v), low, stored, counts);
    return stored;
}

/* --- a walk --------------------------------------------------------------------- */

void axis_walk_start(axis_walk *w, const axis *a, const plumb_cast *how, uint32_t sign)
{
    *w = (axis_walk){.a = a, .how = how, .sign = sign};
    w->next = axis_step(a, how->rounding, 0);
}

/* Up to the code of bits: in steps that double, then halve. */
static void advance(axis_walk *w, uint32_t bits)
{
    uint32_t jump = 1;

    if (bits >= AXIS_INFINITY || bits < w->next)
        return;
    w->code++;
    while (bits >= axis_step(w->a, w->how->rounding, w->code + jump - 1)) {
        w->code += jump;
        jump *= 2;
    }
    for (; jump > 0; jump /= 2)
        if (bits >= axis_step(w->a, w->how->rounding, w->code + jump - 1))
            w->code += jump;
    w->next = axis_step(w->a, w->how->rounding, w->code);
}

/* How many of first, first + stride, ... lie below bound, at most n. */
static size_t below(uint32_t first, uint32_t stride, size_t n, uint32_t bound)
{
    const uint64_t count = first >= bound ? 0 : (bound - first + stride - 1u) / stride;

    return count < n ? (size_t)count : n;
}

static void fill(const axis *a, void *codes, size_t from, size_t to, uint32_t code)
{
    if (a->bytes == 1)
        memset((uint8_t *)codes + from, (int)code, to - from);
    else
        for (size_t i = from; i < to; i++)
            axis_store(a, codes, i, code);
}

static void add(plumb_counts *into, const plumb_counts *c)
{
    into->total += c->total;
    into->saturated += c->saturated;
    into->clipped += c->clipped;
    into->flushed += c->flushed;
    into->zero += c->zero;
    into->nonfinite += c->nonfinite;
    into->amax = fmaxf(into->amax, c->amax);
    into->code_amax = fmaxf(into->code_amax, c->code_amax);
}

/* n inputs that all get one code on the line, from `first` on, at codes[at]; zero is alone. */
static void same_code(axis_walk *w, uint32_t first, uint32_t stride, size_t n,
                      uint32_t code, void *codes, size_t at, plumb_counts *counts)
{
    const axis *a = w->a;
    const bool negative = w->sign != 0;
    const double x = (double)float_from(first);
    const uint32_t stored =
        first > AXIS_INFINITY ? a->nan : finish(a, w->how, negative, x, code);
    const uint32_t last = first + stride * (uint32_t)(n - 1);
    plumb_counts ends = {0};

    fill(a, codes, at, at + n, stored);
    tally(a, x, negative, x, code, stored, &ends);
    if (n > 1) {
        const uint32_t over = bits_from((float)a->largest_value) + 1;
        plumb_counts end = {0};

        tally(a, (double)float_from(last), negative, (double)float_from(last), code, stored,
              &end);
        ends.clipped = ends.saturated > 0      ? n
                       : first < AXIS_INFINITY ? n - below(first, stride, n, over)
                                               : 0;
        ends.saturated *= n;
        ends.flushed *= n;
        ends.nonfinite *= n;
        ends.total = n;
        ends.amax = end.amax;
    }
    add(counts, &ends);
}

void axis_walk_expect(axis_walk *w, uint32_t first, uint32_t stride, size_t n, void *codes,
                      plumb_counts *counts)
{
    const bool random = w->how->rounding == PLUMB_ROUND_STOCHASTIC;

    for (size_t i = 0; i < n;) {
        const uint32_t bits = first + stride * (uint32_t)i;
        size_t run = 1;
        uint32_t code;

        advance(w, bits);
        code = w->code;
        if (bits >= AXIS_INFINITY)
            code = w->a->largest + 1;
        else if (bits > 0 && !random)
            run = below(bits, stride, n - i, w->next);
        else if (bits > 0)
            code = settle(w->a, w->how, code, (double)float_from(bits), w->drawn + i);
        if (bits > AXIS_INFINITY)
            run = n - i;
        same_code(w, bits, stride, run, code, codes, i, counts);
        i += run;
    }
    w->drawn += n;
}

bool axis_same_counts(const plumb_counts *a, const plumb_counts *b)
{
    return a->total == b->total && a->saturated == b->saturated &&
           a->clipped == b->clipped && a->flushed == b->flushed && a->zero == b->zero &&
           a->nonfinite == b->nonfinite && bits_from(a->amax) == bits_from(b->amax) &&
           bits_from(a->code_amax) == bits_from(b->code_amax);
}
