/* When powers of two may be multiplied into packed operands (matmul/fold.h), and how into fp32.
 *
 * Let every value of a format be a multiple of 2^unit and below 2^top, and 2^least to 2^most be
 * the scales of a panel.  Then nothing is rounded, flushed or lost by folding if
 *   - operands stay normal:       unit + least >= -126,  top + most <= 127,
 *   - so do products and sums:    the same of unit_a + unit_b, least_a + least_b, and of
 *                                 top_a + top_b + 5, most_a + most_b, as 32 products are added:
 *     all partial sums are multiples of the unit, so what is not zero is not tiny, and rounding
 *     to 24 bits is the same at every exponent,
 *   - all that holds without the scales too (they may be taken as 2^0), and da * db is normal.
 * Infinities, NaN and zeros are the same with any such scale.
 */
#include "matmul/fold.h"

#include "base/bits.h"

#include <string.h>

enum { TERMS = 5 /* log2 of the products in one pair of chains */ };
enum { WIDTH = 16 /* every nr but that of the reference is a multiple */ };

/* Exponents that the numbers of one side may have. */
typedef struct range {
    int least, most;
} range;

static bool is_normal(range r)
{
    return r.least >= -126 && r.most <= 127;
}

static range product_of(range a, range b)
{
    return (range){a.least + b.least, a.most + b.most};
}

/* False unless all scales are powers of two; infinity gives an exponent past the normal ones, a
 * zero, a subnormal or a sign one below.
 */
static bool exponents(const plumb_scales *scales, range *of)
{
    int32_t least = INT32_MAX, most = INT32_MIN, fraction = 0;

    for (size_t n = 0; n < scales->blocks; n++) {
        const float *d = scales->d + n * scales->stride;

        for (size_t i = 0; i < scales->count; i++) {
            const int32_t bits = (int32_t)bits_of(d[i]);

            least = bits < least ? bits : least;
            most = bits > most ? bits : most;
            fraction |= bits & 0x7fffff;
        }
    }
    *of = (range){(least >> 23) - 127, (most >> 23) - 127};
    return fraction == 0;
}

static range values_of(plumb_format format)
{
    const plumb_format_info *info = plumb_format_get(format);

    return (range){info->emin - info->fraction_bits, info->emax + 1};
}

static bool stays_normal(range values, range scales)
{
    return is_normal(scales) && is_normal(product_of(values, scales));
}

bool plumb_can_fold_one(plumb_format format, const plumb_scales *scales)
{
    range by;

    return exponents(scales, &by) && stays_normal(values_of(format), by);
}

bool plumb_can_fold(plumb_format a_format, const plumb_scales *a, plumb_format b_format,
                    const plumb_scales *b)
{
    const range of_a = values_of(a_format), of_b = values_of(b_format);
    range by_a, by_b, sums = product_of(of_a, of_b);

    if (!exponents(a, &by_a) || !exponents(b, &by_b))
        return false;
    sums.most += TERMS;
    return is_normal(sums) && stays_normal(sums, product_of(by_a, by_b)) &&
           stays_normal(of_a, by_a) && stays_normal(of_b, by_b);
}

void plumb_fold_rows(const plumb_micro *micro, const plumb_scales *scales, size_t chains,
                     float *x)
{
    for (size_t i = 0; i < scales->count; i++) {
        for (size_t n = 0; n < chains; n++) {
            float *chain = x + i * PLUMB_MICRO_LD + n * micro->chain;

            for (size_t k = 0; k < PLUMB_MICRO_CHAIN; k++)
                chain[k] *= scales->d[n * scales->stride + i];
        }
    }
}

/* Part of one chain of a sliver. */
static void fold_lines(float *x, size_t nr, const float *d)
{
    float by[WIDTH];

    memcpy(by, d, sizeof by);
    for (size_t k = 0; k < PLUMB_MICRO_CHAIN; k++) {
        for (size_t j = 0; j < WIDTH; j++)
            x[k * nr + j] *= by[j];
    }
}

void plumb_fold_slivers(const plumb_micro *micro, const plumb_scales *scales, size_t chains,
                        float *x)
{
    const size_t sliver = plumb_sliver_floats(micro, chains);

    for (size_t j = 0; j < scales->count; j += WIDTH) {
        float *to = x + j / micro->nr * sliver + j % micro->nr;

        for (size_t n = 0; n < chains; n++)
            fold_lines(to + n * micro->chain * micro->nr, micro->nr,
                       scales->d + n * scales->stride + j);
    }
}
