/* The textual form of a spec: a format and attributes, separated by colons.  One table has
 * every word; parsing, contradictions and printing go by it.
 */
#include "quant/decimal.h"
#include "quant/spec.h"

#include <string.h>

typedef enum attribute {
    GRAIN,
    RULE,
    HISTORY,
    MARGIN,
    ALGORITHM,
    OVERFLOW,
    POW2,
    DIVIDE,
    FLOOR,
    MX,
    ROUNDING,
} attribute;

typedef struct word {
    const char *text;
    attribute attribute;
    int value;
    const char *number; /* of a word that ends in '=': as messages name it; else NULL */
} word;

/* A rounding and its dither in one value. */
#define STOCHASTIC(dither) (PLUMB_ROUND_STOCHASTIC + 16 * PLUMB_DITHER_##dither)

static const word words[] = {
    {"tensor", GRAIN, PLUMB_GRAIN_TENSOR, NULL},
    {"row", GRAIN, PLUMB_GRAIN_ROW, NULL},
    {"1x128", GRAIN, PLUMB_GRAIN_1X128, NULL},
    {"128x128", GRAIN, PLUMB_GRAIN_128X128, NULL},
    {"mx32", GRAIN, PLUMB_GRAIN_MX32, NULL},
    {"nvfp4", GRAIN, PLUMB_GRAIN_NVFP4, NULL},
    {"none", RULE, PLUMB_SCALE_NONE, NULL},
    {"static=", RULE, PLUMB_SCALE_STATIC, "S"},
    {"current", RULE, PLUMB_SCALE_CURRENT, NULL},
    {"delayed", RULE, PLUMB_SCALE_DELAYED, NULL},
    {"history=", HISTORY, 0, "N"},
    {"margin=", MARGIN, 0, "N"},
    {"max", ALGORITHM, false, NULL},
    {"recent", ALGORITHM, true, NULL},
    {"saturate", OVERFLOW, true, NULL},
    {"overflow", OVERFLOW, false, NULL},
    {"pow2", POW2, true, NULL},
    {"nopow2", POW2, false, NULL},
    {"divide", DIVIDE, true, NULL},
    {"multiply", DIVIDE, false, NULL},
    {"floor=", FLOOR, 0, "A"},
    {"mx-floor", MX, PLUMB_MX_FLOOR, NULL},
    {"mx-ceil", MX, PLUMB_MX_CEIL, NULL},
    {"mx-even", MX, PLUMB_MX_EVEN, NULL},
    {"mx-rceil", MX, PLUMB_MX_RCEIL, NULL},
    {"rne", ROUNDING, PLUMB_ROUND_NEAREST_EVEN, NULL},
    {"toward-zero", ROUNDING, PLUMB_ROUND_TOWARD_ZERO, NULL},
    {"stochastic", ROUNDING, STOCHASTIC(32), NULL},
    {"stochastic8", ROUNDING, STOCHASTIC(8), NULL},
    {"stochastic8-centred", ROUNDING, STOCHASTIC(8_CENTRED), NULL},
};
enum { WORDS = sizeof words / sizeof words[0] };

const char *plumb_spec_word(size_t i)
{
    return i < WORDS ? words[i].text : NULL;
}

/* All of them, for messages: "tensor row ... static=S ...". */
static void list_words(char *text, size_t size)
{
    *text = 0;
    for (size_t i = 0; i < WORDS; i++)
        plumb_append(text, size, "%s%s%s", i > 0 ? " " : "", words[i].text,
                     words[i].number != NULL ? words[i].number : "");
}

static const char *nearest_word(const char *attempt, char hint[PLUMB_HINT])
{
    const char *names[WORDS];

    for (size_t i = 0; i < WORDS; i++)
        names[i] = words[i].text;
    return plumb_hint(attempt, names, WORDS, hint);
}

/* The formats that a spec may name. */
static size_t list_formats(const char *names[PLUMB_FORMAT_COUNT])
{
    size_t count = 0;

    for (int i = 0; i < PLUMB_FORMAT_COUNT; i++)
        if (plumb_format_get((plumb_format)i)->is_signed)
            names[count++] = plumb_format_get((plumb_format)i)->name;
    return count;
}

/* The word that the n characters at text are, and where its number starts. */
static const word *find_word(const char *text, size_t n, size_t *argument)
{
    for (size_t i = 0; i < WORDS; i++) {
        const size_t length = strlen(words[i].text);
        const bool number = words[i].number != NULL;

        if ((number ? n >= length : n == length) &&
            memcmp(text, words[i].text, length) == 0) {
            *argument = length;
            return &words[i];
        }
    }
    return NULL;
}

static bool parse_whole(const char *text, size_t n, int least, int most, int *value)
{
    int number = 0;

    if (n == 0 || n > 4)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        number = 10 * number + (text[i] - '0');
    }
    *value = number;
    return number >= least && number <= most;
}

/* Numbers of words that take one; NULL, or what is allowed. */
static const char *set_number(plumb_spec *spec, const word *w, const char *text, size_t n)
{
    float real;

    if (w->attribute == HISTORY)
        return parse_whole(text, n, 1, PLUMB_MAX_HISTORY, &spec->history)
                   ? NULL
                   : "a whole number of 1 to 1024";
    if (w->attribute == MARGIN)
        return parse_whole(text, n, 0, 32, &spec->margin) ? NULL
                                                          : "a whole number of 0 to 32";
    if (!plumb_decimal_parse(text, n, &real))
        return "a positive decimal number of 1.2e-38 to 3.4e38, up to 15 digits";
    if (w->attribute == FLOOR) {
        spec->amax_floor = real;
        return NULL;
    }
    spec->rule = PLUMB_SCALE_STATIC;
    spec->static_scale = real;
    return real > 0 ? NULL : "a scale above 0";
}

static void set_word(plumb_spec *spec, const word *w)
{
    switch (w->attribute) {
    case GRAIN:
        spec->grain = (plumb_grain)w->value;
        break;
    case RULE:
        spec->rule = (plumb_scale_rule)w->value;
        break;
    case ALGORITHM:
        spec->most_recent = w->value != 0;
        break;
    case OVERFLOW:
        spec->saturate = w->value != 0;
        break;
    case POW2:
        spec->power_of_two = w->value != 0;
        break;
    case DIVIDE:
        spec->divide = w->value != 0;
        break;
    case MX:
        spec->mx = (plumb_mx_rounding)w->value;
        break;
    case ROUNDING:
        spec->rounding = (plumb_rounding)(w->value % 16);
        spec->dither = (plumb_dither)(w->value / 16);
        break;
    case HISTORY:
    case MARGIN:
    case FLOOR:
        break;
    }
}

static plumb_status parse_attribute(plumb_spec *spec, unsigned *given, const char *text,
                                    size_t n, plumb_error *why)
{
    size_t start = 0;
    const word *w = find_word(text, n, &start);
    const char *range;
    char allowed[320], hint[PLUMB_HINT];

    if (w == NULL) {
        plumb_print(allowed, sizeof allowed, "%.*s", (int)n, text);
        if (*nearest_word(allowed, hint) != 0)
            return plumb_fail(why, PLUMB_BAD_INPUT, "\"%s\" is no attribute of a format%s",
                              allowed, hint);
        list_words(allowed, sizeof allowed);
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "\"%.*s\" is no attribute of a format; allowed: %s", (int)n, text,
                          allowed);
    }
    if (*given & 1u << w->attribute)
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "\"%.*s\" repeats or contradicts an earlier attribute", (int)n,
                          text);
    *given |= 1u << w->attribute;
    if (w->number == NULL) {
        set_word(spec, w);
        return PLUMB_OK;
    }
    range = set_number(spec, w, text + start, n - start);
    if (range != NULL)
        return plumb_fail(why, PLUMB_BAD_INPUT, "\"%.*s\": %s must be followed by %s",
                          (int)n, text, w->text, range);
    return PLUMB_OK;
}

/* An attribute that was written, changes something, and yet means nothing under the rule,
 * grain and format that came out is a mistake of the writer's; an inherited one is not.
 */
static plumb_status check_applies(const plumb_spec *spec, const plumb_spec *normal,
                                  unsigned given, plumb_error *why)
{
    static const char adaptive[] =
        "rules current and delayed only, and not with grains mx32 and nvfp4";
    const struct {
        attribute attribute;
        bool lost;
        const char *what, *with;
    } cases[] = {
        {GRAIN, spec->grain != normal->grain, "nvfp4", "format e2m1 only"},
        {HISTORY, spec->history != normal->history, "history", "rule delayed only"},
        {ALGORITHM, spec->most_recent != normal->most_recent, "recent",
         "rule delayed only"},
        {MARGIN, spec->margin != normal->margin, "margin", adaptive},
        {POW2, spec->power_of_two != normal->power_of_two, "pow2", adaptive},
        {FLOOR, spec->amax_floor != normal->amax_floor, "floor", adaptive},
        {DIVIDE, spec->divide != normal->divide, "divide",
         "rule current only, and not with grains mx32 and nvfp4"},
        {MX, spec->mx != normal->mx, "a rounding of block scales", "grain mx32 only"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].lost && (given & 1u << cases[i].attribute))
            return plumb_fail(why, PLUMB_BAD_INPUT, "%s goes with %s", cases[i].what,
                              cases[i].with);
    }
    return PLUMB_OK;
}

/* "e4m3" of "e4m3:current". */
static plumb_status parse_format(const char *text, size_t n, plumb_format *format,
                                 plumb_error *why)
{
    const char *names[PLUMB_FORMAT_COUNT];
    char name[PLUMB_SPEC_TEXT], allowed[128] = "", hint[PLUMB_HINT];

    memcpy(name, text, n);
    name[n] = 0;
    if (plumb_format_parse(name, format))
        return PLUMB_OK;
    const size_t count = list_formats(names);

    if (*plumb_hint(name, names, count, hint) != 0)
        return plumb_fail(why, PLUMB_BAD_INPUT, "\"%s\" is no format%s", name, hint);
    for (size_t i = 0; i < count; i++)
        plumb_append(allowed, sizeof allowed, "%s%s", i > 0 ? " " : "", names[i]);
    return plumb_fail(why, PLUMB_BAD_INPUT, "\"%s\" is no format; allowed: %s", name,
                      allowed);
}

/* The attributes after the format, text pointing at the first colon or the end. */
static plumb_status parse_attributes(const char *text, plumb_spec *spec, plumb_error *why)
{
    plumb_status status = PLUMB_OK;
    unsigned given = 0;

    if (*text != 0 && spec->format == PLUMB_FP32)
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "fp32 takes no attributes, but \"%s\" was given", text + 1);
    while (status == PLUMB_OK && *text == ':') {
        const size_t n = strcspn(text + 1, ":");

        status = parse_attribute(spec, &given, text + 1, n, why);
        text += 1 + n;
    }
    if (status != PLUMB_OK)
        return status;
    if (!plumb_spec_is_scaled(spec) && (given & ~(1u << ROUNDING)) != 0)
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "%s takes a rounding and no other attribute",
                          plumb_format_get(spec->format)->name);
    const plumb_spec normal = plumb_spec_normal(spec);
    status = check_applies(spec, &normal, given, why);
    *spec = normal;
    return status;
}

plumb_status plumb_spec_parse(const char *text, const plumb_spec *base, plumb_spec *spec,
                              plumb_error *why)
{
    plumb_format format;
    plumb_status status;

    if (strlen(text) >= PLUMB_SPEC_TEXT)
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "a spec of %zu characters (\"%.40s...\"); allowed are %d",
                          strlen(text), text, (int)PLUMB_SPEC_TEXT - 1);
    const size_t name = strcspn(text, ":");
    status = parse_format(text, name, &format, why);
    if (status != PLUMB_OK)
        return status;

    plumb_spec parsed = plumb_spec_default(format);
    if (base != NULL && plumb_spec_is_scaled(&parsed) && plumb_spec_is_scaled(base)) {
        parsed = plumb_spec_normal(base);
        parsed.format = format;
    }
    status = parse_attributes(text + name, &parsed, why);
    if (status == PLUMB_OK)
        status = plumb_spec_check(&parsed, why);
    if (status == PLUMB_OK)
        *spec = parsed;
    else if (why != NULL)
        why->status = PLUMB_BAD_INPUT;
    return status == PLUMB_OK ? PLUMB_OK : PLUMB_BAD_INPUT;
}

/* Appends ":word", and the number of a word that takes one. */
static void append(char text[PLUMB_SPEC_TEXT], attribute kind, int value,
                   const char *number)
{
    for (size_t i = 0; i < WORDS; i++) {
        if (words[i].attribute == kind && words[i].value == value) {
            plumb_append(text, PLUMB_SPEC_TEXT, ":%s%s", words[i].text, number);
            return;
        }
    }
}

static void append_whole(char text[PLUMB_SPEC_TEXT], attribute kind, int value)
{
    char number[PLUMB_DECIMAL_TEXT];

    plumb_print(number, sizeof number, "%d", value);
    append(text, kind, 0, number);
}

void plumb_spec_print(const plumb_spec *spec, char text[PLUMB_SPEC_TEXT])
{
    const plumb_format_info *format = plumb_format_get(spec->format);
    const plumb_spec normal = plumb_spec_normal(spec);
    const plumb_spec usual = plumb_spec_default(spec->format);
    char number[PLUMB_DECIMAL_TEXT] = "";

    plumb_print(text, PLUMB_SPEC_TEXT, "%s", format != NULL ? format->name : "?");
    if (normal.rounding != usual.rounding && !plumb_spec_is_scaled(spec))
        append(text, ROUNDING, (int)normal.rounding + 16 * (int)normal.dither, "");
    if (!plumb_spec_is_scaled(spec))
        return;
    if (normal.rule == PLUMB_SCALE_STATIC)
        plumb_decimal_print(normal.static_scale, number);
    append(text, GRAIN, (int)normal.grain, "");
    append(text, RULE, (int)normal.rule, number);
    if (normal.rule == PLUMB_SCALE_DELAYED)
        append_whole(text, HISTORY, normal.history);
    if (normal.margin != usual.margin)
        append_whole(text, MARGIN, normal.margin);
    if (normal.most_recent != usual.most_recent)
        append(text, ALGORITHM, normal.most_recent, "");
    if (normal.saturate != usual.saturate)
        append(text, OVERFLOW, normal.saturate, "");
    if (normal.power_of_two != usual.power_of_two)
        append(text, POW2, normal.power_of_two, "");
    if (normal.divide != usual.divide)
        append(text, DIVIDE, normal.divide, "");
    if (normal.amax_floor != usual.amax_floor) {
        plumb_decimal_print(normal.amax_floor, number);
        append(text, FLOOR, 0, number);
    }
    if (normal.mx != usual.mx)
        append(text, MX, (int)normal.mx, "");
    if (normal.rounding != usual.rounding)
        append(text, ROUNDING, (int)normal.rounding + 16 * (int)normal.dither, "");
}
