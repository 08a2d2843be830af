/* plumb format: the formats, one format, or how numbers round to it. */
#include "cli/format.h"

#include <math.h>
#include <string.h>

#include "plumb/file.h"

typedef struct values {
    bool codes, json;
} values;

static const cli_option options[] = {
    {"codes", 0, NULL, CLI_FLAG, offsetof(values, codes), 0, 0, NULL,
     "every code with its value (formats of at most 8 bits)"},
    {"json", 0, NULL, CLI_FLAG, offsetof(values, json), 0, 0, NULL, "print it as JSON"},
};

/* --- one line each ------------------------------------------------------------------ */

static const char *special_words(const plumb_format_info *info)
{
    static const char *const words[] = {[PLUMB_SPECIAL_IEEE] = "inf, NaN",
                                        [PLUMB_SPECIAL_NAN] = "NaN",
                                        [PLUMB_SPECIAL_FNUZ] = "NaN, no -0",
                                        [PLUMB_SPECIAL_NONE] = "none"};

    return words[info->special];
}

static void print_row(const format_facts *facts)
{
    const plumb_format_info *info = facts->info;
    char layout[16], largest[FORMAT_NUMBER], normal[FORMAT_NUMBER], least[FORMAT_NUMBER];

    plumb_print(layout, sizeof layout, "%d+%d+%d", info->is_signed, info->exponent_bits,
                info->fraction_bits);
    format_decimal(info->largest, largest);
    format_binary(info->least_normal, normal);
    format_binary(info->least, least);
    printf("%-9s %4d  %-7s %5d  %-13s  %-7s %-7s  2^%-4d %6.1f  %s\n", info->name,
           info->bits, layout, info->bias, largest, normal, least, -info->fraction_bits - 1,
           facts->binades, special_words(info));
}

static void print_all(void)
{
    printf(
        "%d formats; roundoff is that of normal values, binades log2(largest / least)\n\n"
        "%-9s %4s  %-7s %5s  %-13s  %-7s %-7s  %-6s %6s  special\n",
        PLUMB_FORMAT_COUNT, "name", "bits", "s+e+f", "bias", "largest", "normal", "least",
        "round", "binad.");
    for (int i = 0; i < PLUMB_FORMAT_COUNT; i++) {
        const format_facts facts = format_facts_of((plumb_format)i);

        print_row(&facts);
    }
    printf("\nnext: plumb format e4m3, or plumb format e4m3 0.1 465 1e-4\n");
}

/* --- one format ---------------------------------------------------------------------- */

static void print_value(const format_facts *facts, const char *name, float value,
                        uint32_t code)
{
    char decimal[FORMAT_NUMBER], binary[FORMAT_NUMBER], hex[FORMAT_NUMBER];

    format_decimal(value, decimal);
    format_binary(value, binary);
    format_code(facts, code, hex);
    printf("%-15s %-22s %-22s code %s\n", name, decimal, binary, hex);
}

static void print_special(const format_facts *facts)
{
    const plumb_format_info *info = facts->info;
    char next[FORMAT_NUMBER], stored[FORMAT_NUMBER];

    format_code(facts, info->largest_code + (1u << facts->shift), next);
    format_code(facts, info->nan_code, stored);
    printf("special codes   ");
    switch (info->special) {
    case PLUMB_SPECIAL_IEEE:
        printf("infinity %s, NaN past it, with either sign; NaN is stored as %s\n", next,
               stored);
        break;
    case PLUMB_SPECIAL_NAN:
        printf("NaN %s%s; no infinity\n", next,
               info->is_signed ? ", with either sign, stored without" : "");
        break;
    case PLUMB_SPECIAL_FNUZ:
        printf("NaN %s, where others have -0; no infinity\n", stored);
        break;
    case PLUMB_SPECIAL_NONE:
        printf("none; NaN and what is too large become the largest value\n");
        break;
    }
}

static void print_borders(const format_facts *facts)
{
    char past[FORMAT_NUMBER], under[FORMAT_NUMBER], half[FORMAT_NUMBER];

    if (!facts->has_borders)
        return;
    format_decimal(facts->past, past);
    format_decimal(facts->under, under);
    format_binary(facts->info->least / 2, half);
    printf("upper border    %.6g, a tie, rounds %s the largest if saturating, else %s\n",
           facts->border, facts->border_in ? "down; past it" : "up; from it on", past);
    printf("lower border    %s, a tie, rounds to %s\n", half, under);
}

/* Codes of each binade side by side, or in words where that is too long. */
static void print_binades(const format_facts *facts)
{
    const plumb_format_info *info = facts->info;
    char all[400] = "", cell[24] = "";

    for (int e = facts->lowest; e <= info->emax; e++) {
        plumb_print(cell, sizeof cell, " %llu",
                    (unsigned long long)format_binade(facts, e));
        plumb_append(all, sizeof all, "%s", cell);
    }
    if (strlen(all) <= 65) {
        printf("codes/binade   %s\n                2^%-*d2^%d\n", all,
               (int)strlen(all) - (int)strlen(cell) - 2, facts->lowest, info->emax);
        return;
    }
    printf("codes/binade    ");
    if (facts->lowest < info->emin)
        printf("1 2 4 ... %llu below 2^%d, ",
               (unsigned long long)format_binade(facts, info->emin - 1), info->emin);
    printf("%llu in each of 2^%d to 2^%d\n",
           (unsigned long long)format_binade(facts, info->emin), info->emin, info->emax);
}

static void print_format(const format_facts *facts)
{
    const plumb_format_info *info = facts->info;
    const uint32_t step = 1u << facts->shift;
    const bool has_zero = facts->zero > 0;
    char largest[FORMAT_NUMBER], least[FORMAT_NUMBER], ratio[FORMAT_NUMBER];

    format_decimal(info->largest, largest);
    format_binary(info->least, least);
    format_binary(ldexpf(1, -info->fraction_bits - 1), ratio);
    printf("%s: %d significant bit%s, values from %s to %s, %.1f binades\n\n", info->name,
           info->fraction_bits + 1, info->fraction_bits == 0 ? "" : "s", least, largest,
           facts->binades);
    printf("layout          %d bits: %s%d exponent, %d fraction; bias %d, exponents %d to "
           "%d\n",
           info->bits, info->is_signed ? "sign, " : "", info->exponent_bits,
           info->fraction_bits, info->bias, info->emin, info->emax);
    print_value(facts, "largest", info->largest, info->largest_code);
    print_value(facts, "least normal", info->least_normal,
                has_zero ? step << info->fraction_bits : 0);
    print_value(facts, "least", info->least, has_zero ? step : 0);
    printf("unit roundoff   %s (half a step over a normal value)\n", ratio);
    printf(
        "codes           %llu: %llu normal, %llu subnormal, %llu zero, %llu infinite, %llu "
        "NaN\n",
        (unsigned long long)facts->all, (unsigned long long)facts->normal,
        (unsigned long long)facts->subnormal, (unsigned long long)facts->zero,
        (unsigned long long)facts->infinite, (unsigned long long)facts->nan);
    print_special(facts);
    print_borders(facts);
    print_binades(facts);
    printf("\nnext: plumb format %s 0.1 465 1e-4", info->name);
    if (info->bits <= 8)
        printf(", or plumb format %s --codes", info->name);
    putchar('\n');
}

/* --- every code ---------------------------------------------------------------------- */

static const char *class_of(const format_facts *facts, float value)
{
    if (isnan(value))
        return "NaN";
    if (isinf(value))
        return "infinite";
    if (value == 0)
        return "zero";
    return fabsf(value) < facts->info->least_normal ? "subnormal" : "normal";
}

static void print_codes(const format_facts *facts)
{
    for (uint32_t code = 0; code < facts->all; code++) {
        const float value = plumb_format_value(facts->format, code);
        char hex[FORMAT_NUMBER], decimal[FORMAT_NUMBER], binary[FORMAT_NUMBER];

        format_code(facts, code, hex);
        format_decimal(value, decimal);
        format_binary(value, binary);
        printf("%s  %-16s  %-16s  %s\n", hex, decimal, binary, class_of(facts, value));
    }
}

/* --- JSON ---------------------------------------------------------------------------- */

static json_t *format_json(const format_facts *facts)
{
    const plumb_format_info *info = facts->info;

    return json_pack(
        "{s:s, s:i, s:b, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:o, s:b,"
        " s:{s:I, s:I, s:I, s:I, s:I, s:I}}",
        "name", info->name, "bits", info->bits, "signed", info->is_signed, "exponent_bits",
        info->exponent_bits, "fraction_bits", info->fraction_bits, "bias", info->bias,
        "emin", info->emin, "emax", info->emax, "largest", (double)info->largest,
        "least_normal", (double)info->least_normal, "least", (double)info->least,
        "unit_roundoff", ldexp(1, -info->fraction_bits - 1), "binades", facts->binades,
        "border", facts->has_borders ? json_real(facts->border) : json_null(),
        "border_rounds_down", facts->border_in, "codes", "all", (json_int_t)facts->all,
        "normal", (json_int_t)facts->normal, "subnormal", (json_int_t)facts->subnormal,
        "zero", (json_int_t)facts->zero, "infinite", (json_int_t)facts->infinite, "nan",
        (json_int_t)facts->nan);
}

static json_t *codes_json(const format_facts *facts)
{
    json_t *list = json_array();

    for (uint32_t code = 0; code < facts->all; code++)
        json_array_append_new(
            list, plumb_json_real((double)plumb_format_value(facts->format, code)));
    return list;
}

static int show_json(const format_facts *facts, const values *asked, const cli_words *words)
{
    json_t *json = format_json(facts);

    if (asked->codes)
        json_object_set_new(json, "values_of_codes", codes_json(facts));
    if (words->count > 1 && format_show_values(facts, words, json) != CLI_HEALTHY) {
        json_decref(json);
        return CLI_USAGE;
    }
    return cli_print_json(json);
}

static int show_all(const values *asked)
{
    if (asked->codes)
        return cli_complain("--codes needs a format; 'plumb format' lists them");
    if (!asked->json) {
        print_all();
        return CLI_HEALTHY;
    }
    json_t *list = json_array();

    for (int i = 0; i < PLUMB_FORMAT_COUNT; i++) {
        const format_facts facts = format_facts_of((plumb_format)i);

        json_array_append_new(list, format_json(&facts));
    }
    return cli_print_json(list);
}

/* --- the verb ------------------------------------------------------------------------ */

static int run(const void *given, const cli_line *line)
{
    const values *asked = given;
    plumb_format format;

    if (line->words.count == 0)
        return show_all(asked);
    if (!plumb_format_parse(line->words.at[0], &format))
        return cli_unknown("FORMAT", line->words.at[0]);
    const format_facts facts = format_facts_of(format);

    if (asked->codes && facts.info->bits > 8)
        return cli_complain("%s has %d bits; --codes is for formats of at most 8",
                            facts.info->name, facts.info->bits);
    if (asked->codes && line->words.count > 1)
        return cli_complain("--codes shows all codes; leave out '%.60s' and what follows",
                            line->words.at[1]);
    if (asked->json)
        return show_json(&facts, asked, &line->words);
    if (line->words.count > 1)
        return format_show_values(&facts, &line->words, NULL);
    if (asked->codes)
        print_codes(&facts);
    else
        print_format(&facts);
    return CLI_HEALTHY;
}

const cli_verb cli_format = {
    .name = "format",
    .usage = "format [FORMAT [NUMBER...]] [options]",
    .summary = "Show the number formats, one of them, or how numbers round to it.",
    .notes =
        "NUMBER: decimal, hexadecimal (0x1.8p-3), inf or nan.  It becomes fp32 first,\n"
        "with one rounding.  docs/formats.md says what each line means.",
    .words = "FORMAT NUMBER...",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .size = sizeof(values),
    .most_words = 1 + FORMAT_MOST_NUMBERS,
    .negative_words = true,
    .run = run,
};
