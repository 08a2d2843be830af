/* The definition of every GPU unit: align to the largest exponent, truncate, add exactly, round
 * once.  Integers only, but for the addition of C in units that add it afterwards.
 */
#include "matmul/chain.h"

/* Bits below the binary point while a term is shifted: fraction bits are cut off further up. */
enum { GUARD = 32 };

plumb_chain plumb_chain_make(const plumb_unit *unit, plumb_format output, plumb_format a,
                             plumb_format b)
{
    const plumb_format_info *fa = plumb_format_get(a), *fb = plumb_format_get(b);
    const int terms = fa->bits <= 8    ? unit->terms_8
                      : fa->bits == 16 ? unit->terms_16
                                       : unit->terms_tf32;
    const int every = unit->addend_every;
    const bool half = output == PLUMB_FP16;

    return (plumb_chain){
        .terms = (size_t)terms,
        .group = (size_t)(every > 0 ? every : terms),
        .fused = every == 0,
        .interleaved = unit->interleaved,
        .as_fp16 = unit->as_fp16,
        .lift = unit->fraction_bits - fa->fraction_bits - fb->fraction_bits,
        .fraction_bits = unit->fraction_bits,
        .nvfp4_bits = unit->nvfp4_bits,
        .floor = half ? unit->floor_fp16 : unit->floor_fp32,
        .result = half ? plumb_to_fp16
                       : (plumb_result){PLUMB_FP32, unit->result_bits,
                                        unit->rounding == PLUMB_ROUND_NEAREST_EVEN},
        .nan = half ? unit->nan_fp16 : unit->nan_fp32,
    };
}

size_t plumb_chain_slot(const plumb_chain *chain, size_t k)
{
    const size_t at = k % chain->group, quad = at / 4;

    if (!chain->interleaved)
        return k;
    return k - at + (at % 4 < 2 ? 0 : chain->group / 2) + 2 * quad + at % 2;
}

/* m * 2^(by - GUARD), toward zero. */
static inline int64_t aligned(int64_t m, int by)
{
    const uint64_t magnitude = (uint64_t)(m < 0 ? -m : m) << GUARD;
    const int drop = GUARD - by;
    const int64_t kept = (int64_t)(magnitude >> (drop < 63 ? drop : 63));

    return m < 0 ? -kept : kept;
}

static inline bool is_finite(float x)
{
    return (bits_of(x) & 0x7f800000u) != 0x7f800000u;
}

/* Exponent of a finite c, subnormals at that of the least normal fp32, and its significand.  A
 * zero has none: it may lie far above the terms, and is shifted by the difference.
 */
static inline plumb_parts split(float c)
{
    const uint32_t bits = bits_of(c), fraction = bits & 0x7fffffu;
    const int32_t sign = bits >> 31 ? -1 : 1;
    const int field = (int)(bits >> 23 & 0xff);

    if (field == 0)
        return (plumb_parts){sign * (int32_t)fraction, fraction == 0 ? PLUMB_E_ZERO : -126};
    return (plumb_parts){sign * (int32_t)(fraction | 0x800000u), field - 127};
}

static int largest_exponent(plumb_terms a, plumb_terms b, size_t n)
{
    int16_t most = INT16_MIN;

    for (size_t i = 0; i < n; i++) {
        const int16_t e = (int16_t)(a.e[i] + b.e[i]);

        most = e > most ? e : most;
    }
    return most;
}

/* The exponent to which c and terms with the largest exponent `most` are aligned;
 * PLUMB_E_ZERO when all are zero.
 */
static int common_exponent(const plumb_chain *chain, int most, plumb_parts c)
{
    const int emin = plumb_emin(chain->result.format);

    if (c.m != 0) {
        const int votes = c.e > emin ? c.e : emin;
        most = votes > most ? votes : most;
    }
    if (most < PLUMB_E_NONE)
        return PLUMB_E_ZERO;
    return chain->floor > most ? chain->floor : most;
}

/* What rounds to zero is +0 too. */
static float round_sum(const plumb_chain *chain, int64_t sum, int e)
{
    const float x =
        plumb_round(sum < 0, (uint64_t)(sum < 0 ? -sum : sum), e, false, &chain->result);

    return x == 0 ? 0 : x;
}

/* c + the sum of n products: one fused addition of what is finite. */
static float fused_add(const plumb_chain *chain, plumb_terms a, plumb_terms b, size_t n,
                       float c)
{
    const plumb_parts addend = split(c);
    const int most = common_exponent(chain, largest_exponent(a, b, n), addend);

    if (most == PLUMB_E_ZERO)
        return 0;
    int64_t sum = aligned(addend.m, addend.e - most + chain->fraction_bits - 23);
    for (size_t i = 0; i < n; i++)
        sum += aligned((int32_t)a.m[i] * b.m[i], a.e[i] + b.e[i] - most + chain->lift);
    return round_sum(chain, sum, most - chain->fraction_bits);
}

float plumb_chain_chunks(const plumb_chain *chain, const plumb_parts *chunks, size_t n,
                         float c)
{
    const plumb_parts addend = split(c);
    const int bits = chain->nvfp4_bits;
    int most = PLUMB_E_ZERO;

    if (!is_finite(c))
        return c;
    for (size_t i = 0; i < n; i++)
        most = chunks[i].e > most ? chunks[i].e : most;
    most = common_exponent(chain, most, addend);
    int64_t sum = aligned(addend.m, addend.e - most + bits - 23);
    for (size_t i = 0; i < n; i++)
        sum += aligned(chunks[i].m, chunks[i].e - most + bits - 8);
    return round_sum(chain, sum, most - bits);
}

typedef struct seen {
    bool nan, up, down; /* NaN; an infinity of either sign */
} seen;

static void see_product(plumb_terms a, plumb_terms b, size_t i, seen *s)
{
    const bool zero = a.e[i] == PLUMB_E_ZERO || b.e[i] == PLUMB_E_ZERO;

    if (a.e[i] < PLUMB_E_INFINITY && b.e[i] < PLUMB_E_INFINITY)
        return;
    if (zero || a.e[i] == PLUMB_E_NAN || b.e[i] == PLUMB_E_NAN)
        s->nan = true;
    else if ((a.m[i] < 0) == (b.m[i] < 0))
        s->up = true;
    else
        s->down = true;
}

/* True, with the result, when an infinity or NaN decides it. */
static bool decided(const plumb_chain *chain, plumb_terms a, plumb_terms b, size_t n,
                    float c, float *result)
{
    seen s = {.nan = c != c, .up = c == INFINITY, .down = c == -INFINITY};

    for (size_t i = 0; i < n; i++)
        see_product(a, b, i, &s);
    if (s.nan || (s.up && s.down))
        *result = float_of(chain->nan);
    else
        *result = s.up ? INFINITY : -INFINITY;
    return s.nan || s.up || s.down;
}

float plumb_chain_step(const plumb_chain *chain, plumb_terms a, plumb_terms b, float c)
{
    const size_t n = chain->terms;
    float result;

    if ((a.special || b.special || !is_finite(c)) && decided(chain, a, b, n, c, &result))
        return result;
    return fused_add(chain, a, b, n, c);
}

float plumb_chain_add(const plumb_chain *chain, float c, float sum)
{
    if (c != c || sum != sum || (c == INFINITY && sum == -INFINITY) ||
        (c == -INFINITY && sum == INFINITY))
        return float_of(chain->nan);
    if (chain->result.format == PLUMB_FP32 || !is_finite(c) || !is_finite(sum))
        return c + sum;

    const int64_t exact = (int64_t)(((double)c + (double)sum) * 0x1p24);
    return plumb_round(exact < 0, (uint64_t)(exact < 0 ? -exact : exact), -24, false,
                       &chain->result);
}

static plumb_terms from(plumb_terms terms, size_t k)
{
    return (plumb_terms){terms.m + k, terms.e + k, terms.special};
}

float plumb_chain_run(const plumb_chain *chain, plumb_terms a, plumb_terms b, size_t count,
                      float c)
{
    if (chain->fused) {
        for (size_t k = 0; k < count; k += chain->terms)
            c = plumb_chain_step(chain, from(a, k), from(b, k), c);
        return c;
    }
    for (size_t k = 0; k < count; k += chain->group) {
        float sum = 0;

        for (size_t i = k; i < k + chain->group; i += chain->terms)
            sum = plumb_chain_step(chain, from(a, i), from(b, i), sum);
        c = plumb_chain_add(chain, c, sum);
    }
    return c;
}
