/* Accumulators by name: "hopper-wgmma+promote128+fp16".  What parse reads, print writes. */
#include "plumb/matmul.h"

#include <string.h>

static const char *const kinds[PLUMB_SUM_COUNT] = {
    [PLUMB_SUM_FP32] = "fp32",
    [PLUMB_SUM_EXACT] = "exact",
    [PLUMB_SUM_HOPPER_WGMMA] = "hopper-wgmma",
    [PLUMB_SUM_HOPPER_MMA] = "hopper-mma",
    [PLUMB_SUM_ADA_MMA] = "ada-mma",
    [PLUMB_SUM_BLACKWELL_TCGEN05] = "blackwell-tcgen05",
    [PLUMB_SUM_HOPPER_16] = "hopper-16",
    [PLUMB_SUM_AMPERE_16] = "ampere-16",
    [PLUMB_SUM_VOLTA_16] = "volta-16",
};

const char *plumb_sum_kind_name(plumb_sum_kind kind)
{
    return (unsigned)kind < PLUMB_SUM_COUNT ? kinds[kind] : NULL;
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
        if (strlen(kinds[i]) == length && strncmp(*text, kinds[i], length) == 0) {
            *kind = (plumb_sum_kind)i;
            *text += length;
            return true;
        }
    }
    return false;
}

plumb_status plumb_accumulator_parse(const char *text, plumb_accumulator *how,
                                     plumb_error *why)
{
    plumb_accumulator read = {PLUMB_SUM_FP32, false, PLUMB_FP32};
    const char *at = text;

    if (parse_kind(&at, &read.kind)) {
        read.promote128 = skip(&at, "+promote128");
        read.output = skip(&at, "+fp16") ? PLUMB_FP16 : PLUMB_FP32;
        if (*at == 0) {
            *how = read;
            return PLUMB_OK;
        }
    }
    return plumb_fail(why, PLUMB_BAD_INPUT,
                      "\"%.80s\" is no accumulator: fp32, exact, hopper-wgmma, hopper-mma, "
                      "ada-mma, blackwell-tcgen05, hopper-16, ampere-16 or volta-16, then "
                      "+promote128 or nothing, then +fp16 or nothing",
                      text);
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
