/* What is true of a format, from its row of the table and from what the casts do. */
#include "cli/format.h"

#include <math.h>
#include <string.h>

#include "file/text.h"

uint32_t format_cast(plumb_format format, float x, plumb_rounding rounding, bool saturate,
                     plumb_counts *counts)
{
    const plumb_cast how = {
        .format = format, .saturate = saturate, .scale = 1, .rounding = rounding};
    uint32_t code = 0; /* of 1, 2 or 4 bytes: little-endian */

    plumb_cast_encode(&how, &x, 1, &code, counts);
    return code;
}

/* What x becomes without saturation, to nearest even. */
static float rounded(plumb_format format, float x, plumb_counts *counts)
{
    return plumb_format_value(
        format, format_cast(format, x, PLUMB_ROUND_NEAREST_EVEN, false, counts));
}

/* Non-negative finite codes are 0 to the largest; what is left over is NaN or infinite. */
static void count_codes(format_facts *facts)
{
    const plumb_format_info *info = facts->info;
    const uint64_t signs = info->is_signed ? 2 : 1;
    const uint64_t finite = (uint64_t)(info->largest_code >> facts->shift) + 1;
    const bool has_zero = plumb_format_value(facts->format, 0) == 0;
    const uint64_t subnormal = has_zero ? ((uint64_t)1 << info->fraction_bits) - 1 : 0;

    facts->all = (uint64_t)1 << info->bits;
    facts->subnormal = signs * subnormal;
    facts->normal = signs * (finite - subnormal - has_zero);
    facts->zero = !has_zero ? 0 : info->special == PLUMB_SPECIAL_FNUZ ? 1 : signs;
    facts->infinite = info->has_infinity ? 2 : 0;
    facts->nan =
        facts->all - facts->normal - facts->subnormal - facts->zero - facts->infinite;
}

format_facts format_facts_of(plumb_format format)
{
    const plumb_format_info *info = plumb_format_get(format);
    format_facts facts = {.format = format, .info = info};
    plumb_counts at_border = {0};

    facts.shift = info->bits > 16 ? 32 - info->bits : 0;
    facts.lowest = ilogb((double)info->least);
    facts.binades = log2((double)info->largest) - log2((double)info->least);
    facts.border = (double)info->largest + ldexp(0.5, info->emax - info->fraction_bits);
    facts.has_borders = format != PLUMB_FP32;
    count_codes(&facts);
    if (!facts.has_borders)
        return facts;
    rounded(format, (float)facts.border, &at_border);
    facts.border_in = at_border.saturated == 0;
    facts.past = rounded(format, nextafterf((float)facts.border, INFINITY), NULL);
    facts.under = rounded(format, info->least / 2, NULL);
    return facts;
}

uint64_t format_binade(const format_facts *facts, int exponent)
{
    const plumb_format_info *info = facts->info;
    const uint64_t full = (uint64_t)1 << info->fraction_bits;

    if (exponent < info->emin)
        return (uint64_t)1 << (exponent - facts->lowest);
    if (exponent < info->emax)
        return full;
    return (uint64_t)((info->largest_code >> facts->shift) & (full - 1)) + 1;
}

void format_decimal(float value, char text[FORMAT_NUMBER])
{
    char decimal[PLUMB_REAL_TEXT];

    plumb_text_from_float(value, decimal);
    plumb_print(text, FORMAT_NUMBER, "%s", isnan(value) ? "NaN" : decimal);
}

void format_binary(float value, char text[FORMAT_NUMBER])
{
    const int exponent = value != 0 && isfinite(value) ? ilogbf(value) : 0;
    const double significand = ldexp((double)value, -exponent);

    if (value == 0 || !isfinite(value))
        format_decimal(value, text);
    else if (fabs(significand) == 1)
        plumb_print(text, FORMAT_NUMBER, "%s2^%d", significand < 0 ? "-" : "", exponent);
    else
        plumb_print(text, FORMAT_NUMBER, "%.10g x 2^%d", significand, exponent);
}

void format_code(const format_facts *facts, uint32_t code, char text[FORMAT_NUMBER])
{
    plumb_print(text, FORMAT_NUMBER, "0x%0*x", (facts->info->bits + facts->shift + 3) / 4,
                code);
}
