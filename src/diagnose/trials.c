/* Counterfactuals on the least set: one thing of its quantisation changed, the number of bits
 * kept, as far as the trainer declares such uses.
 */
#include "diagnose/experiment.h"

#include <stdio.h>
#include <stdlib.h>

/* The use of a site that amounts to the trial, or NULL. */
static const char *use_for(const plumb_declared_site *site, plumb_trial trial)
{
    plumb_spec own;
    plumb_trial what;

    if (site->own == NULL || plumb_spec_parse(site->own, NULL, &own, NULL) != PLUMB_OK)
        return NULL;
    for (size_t i = 0; i < site->use_count; i++)
        if (plumb_trial_of(&own, site->uses[i], &what) && what == trial)
            return site->uses[i];
    return NULL;
}

/* A rule for each site, or NULL when a site of the set does not offer the trial. */
static json_t *rules_for(const plumb_experiment *x, plumb_trial trial)
{
    json_t *rules = json_array();

    for (size_t i = 0; i < x->culprits.count; i++) {
        const size_t site = x->culprits.at[i];
        const plumb_set one = {(size_t[]){site}, 1};
        const char *use = use_for(&x->declaration.sites[site], trial);
        json_t *rule = use != NULL ? plumb_rules_over(x, &one, use, false) : NULL;

        if (rule == NULL || json_array_extend(rules, rule) != 0) {
            json_decref(rule);
            json_decref(rules);
            return NULL;
        }
        json_decref(rule);
    }
    return rules;
}

static plumb_status read_story(plumb_experiment *x, plumb_error *why)
{
    plumb_samples samples = {0};
    plumb_error trouble = {0};

    if (!x->offers_observe || x->own.run_dir == NULL || x->culprits.count == 0)
        return PLUMB_OK;
    if (plumb_samples_read(x->own.run_dir, &samples, &trouble) != PLUMB_OK)
        return plumb_limit(x, "The site statistics could not be read: %s", trouble.message);
    bool *among = calloc(samples.site_count + 1, sizeof *among);
    plumb_status status = PLUMB_OK;

    if (among == NULL)
        status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for site statistics");
    else {
        plumb_mark_sites(x, &samples, &x->culprits, among);
        status = plumb_story_read(&samples, among, plumb_seen_before(x), &x->story, why);
    }
    free(among);
    plumb_samples_free(&samples);
    return status;
}

void plumb_trial_use(const plumb_experiment *x, plumb_trial trial,
                     char use[PLUMB_SPEC_TEXT])
{
    const json_t *rule = json_array_get(x->trial_rules[trial], 0);

    plumb_printable(json_string_value(json_object_get(rule, "use")), use, PLUMB_SPEC_TEXT);
}

static plumb_status try_all(plumb_experiment *x, plumb_error *why)
{
    plumb_status status = PLUMB_OK;

    for (int t = 0; t < PLUMB_TRIAL_COUNT && status == PLUMB_OK; t++) {
        char what[120], use[PLUMB_SPEC_TEXT], label[sizeof what + sizeof use + 8];
        plumb_answer answer;
        json_t *rules = rules_for(x, (plumb_trial)t);

        if (rules == NULL)
            continue;
        x->trial_rules[t] = rules;
        plumb_set_describe(x, &x->culprits, what, sizeof what);
        plumb_trial_use(x, (plumb_trial)t, use);
        snprintf(label, sizeof label, "%s as %s", what, use);
        status = plumb_ask_arm(x, "mechanism", label, rules, &answer, why);
        if (status != PLUMB_OK ||
            (!answer.heals && answer.failure.predicate == PLUMB_FAILS_NOT))
            continue; /* no answer */
        x->trials.result[t] = answer.heals ? PLUMB_TRIAL_HEALED : PLUMB_TRIAL_FAILED;
        status = plumb_state(x, "compared", "%s (%s) %s.", label,
                             plumb_trial_text((plumb_trial)t),
                             answer.heals ? "heals" : "does not heal");
    }
    return status;
}

void plumb_forget_trials(plumb_experiment *x)
{
    for (int t = 0; t < PLUMB_TRIAL_COUNT; t++) {
        json_decref(x->trial_rules[t]);
        x->trial_rules[t] = NULL;
    }
    x->trials = (plumb_trials){0};
    x->story = (plumb_story){0};
    x->mechanism = (plumb_mechanism){0};
}

plumb_status plumb_stage_mechanism(plumb_experiment *x, plumb_error *why)
{
    plumb_spec own = {0};
    plumb_status status = read_story(x, why);

    if (status == PLUMB_OK && x->culprits.count > 0) {
        status = plumb_question_now(x, why, "By what mechanism?");
        if (status == PLUMB_OK)
            status = try_all(x, why);
        const char *text = x->declaration.sites[x->culprits.at[0]].own;

        if (text == NULL || plumb_spec_parse(text, NULL, &own, NULL) != PLUMB_OK)
            own = (plumb_spec){0};
    }
    if (status == PLUMB_OK)
        plumb_mechanism_choose(&x->trials, &x->story, &own, &x->mechanism);
    return status;
}
