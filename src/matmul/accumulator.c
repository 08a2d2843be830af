/* Accumulators by name: "hopper-wgmma+promote128+fp16".  What parse reads, print writes. */
#include "plumb/matmul.h"

#include <string.h>

const char *plumb_sum_kind_name(plumb_sum_kind kind)
{
    const plumb_unit *unit = plumb_unit_get(kind);

    if (kind == PLUMB_SUM_FP32)
        return "fp32";
    if (kind == PLUMB_SUM_EXACT)
        return "exact";
    return unit != NULL ? unit->name : NULL;
}

/* Steps over `word` if the text begins with it. */
static bool skip(const char **text, const char *word)
{
    const size_t length = strlen(word);

    if (strncmp(*text, word, length) != 0)
        return false;
    *text += length;
    return true;
}

/* The kind whose name is all of the text up to "+" or its end. */
static bool parse_kind(const char **text, plumb_sum_kind *kind)
{
    const size_t length = strcspn(*text, "+");

    for (int i = 0; i < PLUMB_SUM_COUNT; i++) {
        const char *name = plumb_sum_kind_name((plumb_sum_kind)i);

        if (strlen(name) == length && strncmp(*text, name, length) == 0) {
            *kind = (plumb_sum_kind)i;
            *text += length;
            return true;
        }
    }
    return false;
}

/* "fp32, exact, ... or volta-16". */
static void list_kinds(char *text, size_t size)
{
    plumb_print(text, size, "%s", plumb_sum_kind_name((plumb_sum_kind)0));
    for (int i = 1; i < PLUMB_SUM_COUNT; i++)
        plumb_append(text, size, "%s%s", i < PLUMB_SUM_COUNT - 1 ? ", " : " or ",
                     plumb_sum_kind_name((plumb_sum_kind)i));
}

/* For a name that is nearly one; "" where the name is right and what follows is not. */
static const char *nearest_kind(const char *text, char hint[PLUMB_HINT])
{
    const char *names[PLUMB_SUM_COUNT];
    char name[PLUMB_ACCUMULATOR_TEXT];
    plumb_sum_kind kind;

    for (int i = 0; i < PLUMB_SUM_COUNT; i++)
        names[i] = plumb_sum_kind_name((plumb_sum_kind)i);
    plumb_print(name, sizeof name, "%.*s", (int)strcspn(text, "+"), text);
    hint[0] = 0;
    return parse_kind(&text, &kind) ? hint : plumb_hint(name, names, PLUMB_SUM_COUNT, hint);
}

plumb_status plumb_accumulator_parse(const char *text, plumb_accumulator *how,
                                     plumb_error *why)
{
    plumb_accumulator read = {PLUMB_SUM_FP32, false, PLUMB_FP32};
    const char *at = text;
    char allowed[160], hint[PLUMB_HINT];

    if (parse_kind(&at, &read.kind)) {
        read.promote128 = skip(&at, "+promote128");
        read.output = skip(&at, "+fp16") ? PLUMB_FP16 : PLUMB_FP32;
        if (*at == 0) {
            *how = read;
            return PLUMB_OK;
        }
    }
    if (*nearest_kind(text, hint) != 0)
        return plumb_fail(why, PLUMB_BAD_INPUT, "\"%.80s\" is no accumulator%s", text,
                          hint);
    list_kinds(allowed, sizeof allowed);
    return plumb_fail(why, PLUMB_BAD_INPUT,
                      "\"%.80s\" is no accumulator: %s, then +promote128 or nothing, then "
                      "+fp16 or nothing",
                      text, allowed);
}

void plumb_accumulator_print(const plumb_accumulator *how,
                             char text[PLUMB_ACCUMULATOR_TEXT])
{
    static const plumb_accumulator canonical = {PLUMB_SUM_FP32, false, PLUMB_FP32};
    const plumb_accumulator *of = how != NULL ? how : &canonical;
    const char *name = plumb_sum_kind_name(of->kind);

    plumb_print(text, PLUMB_ACCUMULATOR_TEXT, "%s%s%s", name != NULL ? name : "unknown",
                of->promote128 ? "+promote128" : "",
                of->output == PLUMB_FP16 ? "+fp16" : "");
}
