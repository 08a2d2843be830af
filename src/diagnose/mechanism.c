/* From what heals, and what the statistics show, to a name.  The order of the questions is the
 * argument: a scale that fits the tensor healing the run says more than saturation healing it,
 * and only what a counterfactual showed is more than a description.
 */
#include "diagnose/mechanism.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double consistent_within = 1.5;

enum { STALE, MISSING, OVERFLOWS, RANGE, GRANULARITY, INCONSISTENT, NOT_ISOLATED, NAMES };

const char *const plumb_mechanism_names[] = {
    [STALE] = "stale scale",         [MISSING] = "missing scale",
    [OVERFLOWS] = "overflow",        [RANGE] = "range",
    [GRANULARITY] = "granularity",   [INCONSISTENT] = "inconsistent scale",
    [NOT_ISOLATED] = "not isolated",
};
const size_t plumb_mechanism_count = NAMES;

const char *plumb_trial_text(plumb_trial trial)
{
    switch (trial) {
    case PLUMB_TRIAL_CURRENT:
        return "the same format with the scale of the tensor at hand";
    case PLUMB_TRIAL_RANGE:
        return "an 8-bit format with more range";
    case PLUMB_TRIAL_GRAIN:
        return "the same format with a scale for each block";
    case PLUMB_TRIAL_SATURATE:
        return "the same format and scale with a cast that saturates";
    case PLUMB_TRIAL_COUNT:
        break;
    }
    return "nothing";
}

static bool same_scaling(const plumb_spec *a, const plumb_spec *b)
{
    if (a->rule != b->rule || a->grain != b->grain || a->margin != b->margin ||
        (a->grain == PLUMB_GRAIN_MX32 && a->mx != b->mx))
        return false;
    if (a->rule == PLUMB_SCALE_STATIC)
        return a->static_scale == b->static_scale;
    return a->rule != PLUMB_SCALE_DELAYED ||
           (a->history == b->history && a->most_recent == b->most_recent);
}

bool plumb_trial_of(const plumb_spec *own, const char *use, plumb_trial *trial)
{
    plumb_spec other;

    if (plumb_spec_parse(use, own, &other, NULL) != PLUMB_OK ||
        plumb_format_get(other.format)->bits != plumb_format_get(own->format)->bits ||
        other.rounding != own->rounding)
        return false;
    const bool format = other.format != own->format, grain = other.grain != own->grain;
    const bool saturate = other.saturate && !own->saturate;

    /* With a current scale nothing lies past the largest value, so saturation is no second
     * change there.
     */
    if (!format && !grain && other.rule == PLUMB_SCALE_CURRENT &&
        own->rule != PLUMB_SCALE_CURRENT)
        *trial = PLUMB_TRIAL_CURRENT;
    else if (format && same_scaling(&other, own) && other.saturate == own->saturate &&
             plumb_format_get(other.format)->exponent_bits >
                 plumb_format_get(own->format)->exponent_bits)
        *trial = PLUMB_TRIAL_RANGE;
    else if (!format && grain && own->grain == PLUMB_GRAIN_TENSOR &&
             other.rule == PLUMB_SCALE_CURRENT)
        *trial = PLUMB_TRIAL_GRAIN;
    else if (!format && same_scaling(&other, own) && saturate)
        *trial = PLUMB_TRIAL_SATURATE;
    else
        return false;
    return true;
}

/* --- choosing --------------------------------------------------------------------------- */

/* "while the largest value of the tensor grew 1.9 times", or shrank. */
static void print_growth(const plumb_story *story, char *text, size_t size)
{
    if (story->frozen_growth >= 1)
        snprintf(text, size, "grew %.1f times", story->frozen_growth);
    else
        snprintf(text, size, "shrank to %.2g of what it was", story->frozen_growth);
}

static void stale(const plumb_story *story, const plumb_spec *own, bool overflow,
                  plumb_mechanism *m)
{
    const char *rule = own->rule == PLUMB_SCALE_STATIC ? "fixed scale" : "delayed scale";
    char growth[80];

    print_growth(story, growth, sizeof growth);
    m->name = plumb_mechanism_names[STALE];
    if (story->frozen_since > 0)
        snprintf(
            m->text, sizeof m->text,
            "The %s is frozen since step %lld while the largest value of the tensor %s%s; "
            "the same format with a scale that follows the tensor heals.",
            rule, (long long)story->frozen_since, growth,
            overflow ? ", so values overflow a cast that does not saturate" : "");
    else
        snprintf(
            m->text, sizeof m->text,
            "The %s does not follow the tensor%s; the same format with a scale that does "
            "heals.",
            rule, overflow ? " and values overflow a cast that does not saturate" : "");
}

static void missing(const plumb_story *story, bool overflow, plumb_mechanism *m)
{
    char lost[80] = "";

    if (story->known && story->flushed > 0.1)
        snprintf(lost, sizeof lost, ", and up to %.0f %% of them become zero",
                 100 * story->flushed);
    m->name = plumb_mechanism_names[MISSING];
    snprintf(m->text, sizeof m->text,
             "Values are cast without a scale%s%s; the same format with a scale that fits "
             "the tensor heals.",
             lost, overflow ? ", or overflow a cast that does not saturate" : "");
}

static bool is_off(double factor)
{
    return isfinite(factor) && factor > 0 &&
           (factor > consistent_within || factor < 1 / consistent_within);
}

static void unexplained(const plumb_trials *trials, const plumb_story *story,
                        plumb_mechanism *m)
{
    size_t tried = 0;

    for (int t = 0; t < PLUMB_TRIAL_COUNT; t++)
        tried += trials->result[t] == PLUMB_TRIAL_FAILED;
    if (story->known && is_off(story->factor)) {
        m->name = plumb_mechanism_names[INCONSISTENT];
        snprintf(
            m->text, sizeof m->text,
            "The scale does not belong to the data: what is decoded is %.3g times as large "
            "as what was encoded.",
            story->factor);
        return;
    }
    m->name = plumb_mechanism_names[NOT_ISOLATED];
    if (story->known && story->frozen_since > 0) {
        char growth[80];

        print_growth(story, growth, sizeof growth);
        snprintf(
            m->text, sizeof m->text,
            "Only bf16 heals. Its scale is frozen since step %lld while the largest value "
            "%s, but no change of the scale alone was shown to heal.",
            (long long)story->frozen_since, growth);
    } else if (tried > 0)
        snprintf(
            m->text, sizeof m->text,
            "Only bf16 heals; %zu change(s) at the same number of bits do not. Too few "
            "bits for these values, or a fault that touches every 8-bit format.",
            tried);
    else
        snprintf(m->text, sizeof m->text,
                 "bf16 heals; the trainer offers no change at the same number of bits that "
                 "would isolate the mechanism.");
}

void plumb_mechanism_choose(const plumb_trials *trials, const plumb_story *seen,
                            const plumb_spec *own, plumb_mechanism *m)
{
    plumb_story of_scale = *seen;
    const plumb_story *story = &of_scale;

    if (own->rule == PLUMB_SCALE_NONE || own->rule == PLUMB_SCALE_STATIC)
        of_scale.frozen_since = 0; /* it was never meant to move */
    const plumb_trial_result *r = trials->result;
    const bool overflow = r[PLUMB_TRIAL_SATURATE] == PLUMB_TRIAL_HEALED;

    *m = (plumb_mechanism){.by_counterfactual = true, .trial = -1};
    if (r[PLUMB_TRIAL_CURRENT] == PLUMB_TRIAL_HEALED) {
        m->trial = PLUMB_TRIAL_CURRENT;
        if (own->rule == PLUMB_SCALE_NONE)
            missing(story, overflow, m);
        else
            stale(story, own, overflow, m);
    } else if (overflow) {
        m->trial = PLUMB_TRIAL_SATURATE;
        m->name = plumb_mechanism_names[OVERFLOWS];
        snprintf(
            m->text, sizeof m->text,
            "Values pass the largest finite one and the cast does not saturate; the same "
            "format and scale with a cast that saturates heals.");
    } else if (r[PLUMB_TRIAL_RANGE] == PLUMB_TRIAL_HEALED) {
        m->trial = PLUMB_TRIAL_RANGE;
        m->name = plumb_mechanism_names[RANGE];
        snprintf(
            m->text, sizeof m->text,
            "The format has too little range: another 8-bit format with more range and "
            "fewer fraction bits heals.");
    } else if (r[PLUMB_TRIAL_GRAIN] == PLUMB_TRIAL_HEALED) {
        m->trial = PLUMB_TRIAL_GRAIN;
        m->name = plumb_mechanism_names[GRANULARITY];
        snprintf(
            m->text, sizeof m->text,
            "One scale for the whole tensor is too coarse: the same format with a scale "
            "for each block heals.");
    } else {
        m->by_counterfactual = false;
        unexplained(trials, story, m);
    }
}
