/* How single numbers round to a format, in each mode.
 *
 * Codes, values and counts come from plumb_cast_encode; only the probabilities of stochastic
 * rounding are computed here, from the two neighbours.
 */
#include "cli/format.h"

#include <math.h>

#include "file/text.h"
#include "plumb/file.h"

/* One thing that may become of a number. */
typedef struct outcome {
    const char *mode;
    double probability;
    uint32_t code;
    float value;
    plumb_counts counts;
} outcome;

enum { MOST_OUTCOMES = 5 };

/* A number of the command line and what becomes of it. */
typedef struct rounded {
    const char *text;
    float x;
    bool exact;
    size_t count;
    outcome outcomes[MOST_OUTCOMES];
} rounded;

static const struct {
    const char *name;
    plumb_rounding rounding;
    bool saturate;
} modes[] = {
    {"nearest even, saturating", PLUMB_ROUND_NEAREST_EVEN, true},
    {"nearest even, overflow", PLUMB_ROUND_NEAREST_EVEN, false},
    {"toward zero", PLUMB_ROUND_TOWARD_ZERO, true},
};

static const char stochastic[] = "stochastic, saturating";

static outcome cast_one(plumb_format format, float x, plumb_rounding rounding,
                        bool saturate, const char *mode)
{
    outcome got = {.mode = mode, .probability = 1};

    got.code = format_cast(format, x, rounding, saturate, &got.counts);
    got.value = plumb_format_value(format, got.code);
    return got;
}

/* x as if it had been rounded to `neighbour`, which may lie past the largest value. */
static outcome land_on(const format_facts *facts, float x, double neighbour,
                       double probability)
{
    const bool past = neighbour > (double)facts->info->largest;
    const double target = past ? (double)INFINITY : neighbour;
    outcome got = cast_one(facts->format, copysignf((float)target, x),
                           PLUMB_ROUND_NEAREST_EVEN, true, stochastic);
    const outcome plain =
        cast_one(facts->format, x, PLUMB_ROUND_TOWARD_ZERO, true, stochastic);

    got.probability = probability;
    got.counts = plain.counts;
    got.counts.saturated = past;
    got.counts.flushed = x != 0 && got.value == 0;
    return got;
}

/* A negative x between the two least values of a format without sign: it is flushed, or else
 * lies below the format.  Both are code 0.
 */
static void round_below_zero(const format_facts *facts, rounded *number)
{
    const double f = -(double)number->x / (double)facts->info->least;
    const double up = floor(f * 0x1p32) * 0x1p-32;
    outcome under = cast_one(facts->format, -facts->info->least, PLUMB_ROUND_NEAREST_EVEN,
                             true, stochastic);
    outcome flushed =
        cast_one(facts->format, number->x, PLUMB_ROUND_TOWARD_ZERO, true, stochastic);

    under.probability = up;
    flushed.probability = 1 - up;
    if (up > 0)
        number->outcomes[number->count++] = under;
    number->outcomes[number->count++] = flushed;
}

/* The two neighbours of x and how likely each is. */
static void round_stochastic(const format_facts *facts, rounded *number)
{
    const plumb_format_info *info = facts->info;
    const outcome down =
        cast_one(facts->format, number->x, PLUMB_ROUND_TOWARD_ZERO, true, stochastic);
    const double low = fabs((double)down.value), size = fabs((double)number->x);
    double high;

    if (!info->is_signed && facts->zero > 0 && number->x < 0 &&
        size < (double)info->least) {
        round_below_zero(facts, number);
        return;
    }
    if (!isfinite(number->x) || low >= size || (!info->is_signed && number->x < 0)) {
        number->outcomes[number->count++] =
            cast_one(facts->format, number->x, PLUMB_ROUND_NEAREST_EVEN, true, stochastic);
        return;
    }
    if (low == (double)info->largest) {
        high = low + ldexp(1, info->emax - info->fraction_bits);
    } else {
        const uint32_t code =
            format_cast(facts->format, (float)low, PLUMB_ROUND_TOWARD_ZERO, true, NULL);

        high = (double)plumb_format_value(facts->format, code + (1u << facts->shift));
    }
    /* 32 random bits decide (PLUMB_DITHER_32). */
    const double up =
        size >= high ? 1 : floor((size - low) / (high - low) * 0x1p32) * 0x1p-32;

    if (up > 0)
        number->outcomes[number->count++] = land_on(facts, number->x, high, up);
    if (up < 1)
        number->outcomes[number->count++] = land_on(facts, number->x, low, 1 - up);
}

static void round_number(const format_facts *facts, rounded *number)
{
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        number->outcomes[number->count++] = cast_one(
            facts->format, number->x, modes[i].rounding, modes[i].saturate, modes[i].name);
    round_stochastic(facts, number);
}

/* --- text --------------------------------------------------------------------------- */

static void counted_as(const plumb_counts *counts, char *text, size_t size)
{
    const struct {
        uint64_t count;
        const char *word;
    } words[] = {{counts->zero, "zero"},
                 {counts->nonfinite, "non-finite"},
                 {counts->flushed, "flushed"},
                 {counts->clipped, "clipped"},
                 {counts->saturated, "saturated"}};

    text[0] = 0;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i].count > 0)
            plumb_append(text, size, "%s%s", text[0] != 0 ? ", " : "", words[i].word);
}

/* (value - x) / x, and whether it means anything. */
static bool relative_error(const rounded *number, const outcome *got, double *error)
{
    if (number->x == 0 || !isfinite(number->x) || !isfinite(got->value))
        return false;
    *error = ((double)got->value - (double)number->x) / (double)number->x;
    return true;
}

static void print_headline(const format_facts *facts, const rounded *numbers, size_t count)
{
    const size_t shown = count > 4 ? 3 : count;

    printf("%s: ", facts->info->name);
    for (size_t i = 0; i < shown; i++) {
        const outcome *first = &numbers[i].outcomes[0];
        char value[FORMAT_NUMBER], counted[64];

        format_decimal(first->value, value);
        counted_as(&first->counts, counted, sizeof counted);
        printf("%s%s becomes %s%s%s%s", i > 0 ? ", " : "", numbers[i].text, value,
               counted[0] != 0 ? " (" : "", counted, counted[0] != 0 ? ")" : "");
    }
    if (shown < count)
        printf(", and %zu more", count - shown);
    printf("\n\n%-26s%8s  %-*s  %-13s  %-9s  counted as\n", "number and mode", "chance",
           facts->info->bits > 16 ? 10 : 6, "code", "value", "error");
}

static void print_outcome(const format_facts *facts, const rounded *number, size_t i)
{
    const outcome *got = &number->outcomes[i];
    const bool again = i > 0 && got->mode == number->outcomes[i - 1].mode;
    char chance[16] = "", code[FORMAT_NUMBER], value[FORMAT_NUMBER], error[16] = "";
    char counted[64];
    double relative;

    if (got->mode == stochastic)
        plumb_print(chance, sizeof chance, "%.4g %%", 100 * got->probability);
    format_code(facts, got->code, code);
    format_decimal(got->value, value);
    if (relative_error(number, got, &relative))
        plumb_print(error, sizeof error, relative == 0 ? "0" : "%+.2e", relative);
    counted_as(&got->counts, counted, sizeof counted);
    printf(counted[0] != 0 ? "  %-24s%8s  %-*s  %-13s  %-9s  %s\n"
                           : "  %-24s%8s  %-*s  %-13s  %s%s\n",
           again ? "" : got->mode, chance, facts->info->bits > 16 ? 10 : 6, code, value,
           error, counted);
}

static void print_number(const format_facts *facts, const rounded *number)
{
    if (!number->exact)
        printf("%s is no fp32 number; the nearest, %.17g, is rounded\n", number->text,
               (double)number->x);
    else
        printf("%s\n", number->text);
    for (size_t i = 0; i < number->count; i++)
        print_outcome(facts, number, i);
}

/* --- JSON --------------------------------------------------------------------------- */

static json_t *outcome_json(const rounded *number, const outcome *got)
{
    double error = 0;
    const bool known = relative_error(number, got, &error);

    return json_pack("{s:s, s:f, s:I, s:o, s:o, s:b, s:b, s:b, s:b, s:b}", "mode",
                     got->mode, "probability", got->probability, "code",
                     (json_int_t)got->code, "value", plumb_json_real((double)got->value),
                     "relative_error", known ? json_real(error) : json_null(), "saturated",
                     got->counts.saturated > 0, "clipped", got->counts.clipped > 0,
                     "flushed", got->counts.flushed > 0, "zero", got->counts.zero > 0,
                     "nonfinite", got->counts.nonfinite > 0);
}

static json_t *number_json(const rounded *number)
{
    json_t *outcomes = json_array();

    for (size_t i = 0; i < number->count; i++)
        json_array_append_new(outcomes, outcome_json(number, &number->outcomes[i]));
    return json_pack("{s:s, s:o, s:b, s:o}", "text", number->text, "fp32",
                     plumb_json_real((double)number->x), "exact", number->exact, "outcomes",
                     outcomes);
}

/* --- all ---------------------------------------------------------------------------- */

int format_show_values(const format_facts *facts, const cli_words *words, json_t *json)
{
    rounded numbers[FORMAT_MOST_NUMBERS];
    const size_t count = words->count - 1; /* after the format's name */
    json_t *list = json != NULL ? json_array() : NULL;
    const plumb_cast probe = {.format = facts->format, .scale = 1};

    if (plumb_cast_encode(&probe, NULL, 0, NULL, NULL) != PLUMB_OK)
        return cli_complain("this build has no cast to %s", facts->info->name);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = (rounded){.text = words->at[i + 1]};
        if (!plumb_text_to_float(numbers[i].text, &numbers[i].x, &numbers[i].exact)) {
            json_decref(list);
            return cli_complain("'%.60s' is no number; allowed: 0.1, -1e-4, 0x1.8p-3, inf, "
                                "nan",
                                numbers[i].text);
        }
        round_number(facts, &numbers[i]);
    }
    if (json != NULL) {
        for (size_t i = 0; i < count; i++)
            json_array_append_new(list, number_json(&numbers[i]));
        json_object_set_new(json, "values", list);
        return CLI_HEALTHY;
    }
    print_headline(facts, numbers, count);
    for (size_t i = 0; i < count; i++)
        print_number(facts, &numbers[i]);
    return CLI_HEALTHY;
}
