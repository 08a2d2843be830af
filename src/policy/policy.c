/* Which rule decides a site, and what spec comes out. */
#include "plumb/policy.h"

#include <fnmatch.h>
#include <string.h>

static const char *const class_names[PLUMB_CLASS_COUNT] = {
    [PLUMB_COLLECTIVE] = "collective",
    [PLUMB_OPTIMIZER] = "optimizer",
    [PLUMB_BACKWARD] = "backward",
    [PLUMB_FORWARD] = "forward",
    [PLUMB_LOSS] = "loss",
    [PLUMB_NORM] = "norm",
    [PLUMB_SOFTMAX] = "softmax",
};

const char *plumb_class_name(plumb_class class_)
{
    return (unsigned)class_ < PLUMB_CLASS_COUNT ? class_names[class_] : "unknown";
}

bool plumb_class_parse(const char *name, plumb_class *class_)
{
    for (int i = 0; i < PLUMB_CLASS_COUNT; i++) {
        if (strcmp(name, class_names[i]) == 0) {
            *class_ = (plumb_class)i;
            return true;
        }
    }
    return false;
}

bool plumb_rule_matches(const plumb_rule *rule, const char *site)
{
    for (size_t i = 0; i < rule->glob_count; i++) {
        if (fnmatch(rule->globs[i], site, 0) == 0)
            return true;
    }
    return false;
}

static int format_bits(const plumb_spec *spec)
{
    const plumb_format_info *format = plumb_format_get(spec->format);

    return format == NULL ? 0 : format->bits;
}

/* What a rule that matches makes of own; *applies is false for a raise that would not. */
static plumb_status apply_rule(const plumb_rule *rule, size_t index, const plumb_spec *own,
                               plumb_spec *spec, bool *applies, plumb_error *why)
{
    plumb_error detail = {0};

    *applies = true;
    *spec = *own;
    if (strcmp(rule->use, "own") != 0 &&
        plumb_spec_parse(rule->use, own, spec, &detail) != PLUMB_OK)
        return plumb_fail(why, PLUMB_BAD_INPUT, "rule %zu, use \"%.100s\": %s", index + 1,
                          rule->use, detail.message);
    if (rule->raise)
        *applies = format_bits(spec) > format_bits(own);
    return PLUMB_OK;
}

plumb_status plumb_policy_resolve(const plumb_rule *rules, size_t rule_count,
                                  const char *site, const plumb_spec *own,
                                  plumb_spec *effective, size_t *winner, plumb_error *why)
{
    plumb_spec spec = *own;
    size_t index = SIZE_MAX;

    for (size_t i = rule_count; i-- > 0;) {
        bool applies;

        if (!plumb_rule_matches(&rules[i], site))
            continue;
        const plumb_status status = apply_rule(&rules[i], i, own, &spec, &applies, why);
        if (status != PLUMB_OK)
            return status;
        if (applies) {
            index = i;
            break;
        }
    }
    *effective = index == SIZE_MAX ? *own : spec;
    if (winner != NULL)
        *winner = index;
    return PLUMB_OK;
}
