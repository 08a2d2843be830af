/* The proof of the fix: the least change that heals, from step 1 past the old failure, on the
 * first seed and on further ones where the unchanged run fails, and its reversal.  What does not
 * hold is rejected, and the next change is tried.
 */
#include "diagnose/experiment.h"

#include "diagnose/cost.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 20 };

/* --- further seeds ---------------------------------------------------------------------- */

/* The unchanged run on seed + k.  *fails and its failure are set; where it does not fail, or is
 * the first seed's run all over, this seed says nothing.
 */
static plumb_status ask_own(plumb_experiment *x, int k, plumb_outcome *own, bool *fails,
                            plumb_error *why)
{
    char label[60];
    bool by_hash;

    snprintf(label, sizeof label, "the run itself, further seed %d", k);
    const plumb_question question = {
        .phase = "proof", .label = label, .stop_at = x->look_to, .seed_shift = (uint64_t)k};
    plumb_status status = plumb_ask(x, &question, own, why);

    if (status != PLUMB_OK)
        return status;
    *fails = own->failure.predicate != PLUMB_FAILS_NOT;
    if (plumb_history_differ(&own->history, &x->own.history, &by_hash) == 0 &&
        own->history.count > 0) {
        *fails = false;
        return plumb_limit(x,
                           "Seed %d gives the numbers of the first seed: the trainer does "
                           "not use PLUMB_SEED, and the proof rests on one seed.",
                           k);
    }
    return PLUMB_OK;
}

static plumb_status ask_pair(plumb_experiment *x, int k, json_t *rules, int64_t stop_at,
                             plumb_outcome *twin, plumb_outcome *fixed, plumb_error *why)
{
    char label[80];
    json_t *everywhere = plumb_rules_everywhere("bf16");

    snprintf(label, sizeof label, "bf16 twin, further seed %d", k);
    plumb_question question = {.phase = "proof",
                               .label = label,
                               .rules = everywhere,
                               .stop_at = stop_at,
                               .seed_shift = (uint64_t)k};
    plumb_status status = plumb_ask(x, &question, twin, why);

    if (status == PLUMB_OK) {
        snprintf(label, sizeof label, "the fix, further seed %d", k);
        question.rules = rules;
        question.paired = &twin->history;
        status = plumb_ask(x, &question, fixed, why);
    }
    json_decref(everywhere);
    return status;
}

static plumb_status say_seed(plumb_experiment *x, int k, const plumb_outcome *own,
                             const plumb_outcome *fixed, bool held)
{
    char text[400];

    plumb_describe_end(fixed, text, sizeof text);
    return plumb_state(
        x, "compared",
        "Further seed %d: the unchanged run fails at step %lld, with the fix it "
        "%s: %s.",
        k, (long long)own->failure.step, text,
        held ? "the fix holds" : "the fix does not hold");
}

/* A seed on which the run fails by its gap to the twin only is judged with that twin. */
static plumb_status judge_own(plumb_experiment *x, int k, plumb_outcome *own, bool *fails,
                              plumb_error *why)
{
    plumb_outcome twin;
    json_t *everywhere = plumb_rules_everywhere("bf16");
    const plumb_question question = {.phase = "proof",
                                     .label = "bf16 twin of a further seed",
                                     .rules = everywhere,
                                     .stop_at = x->horizon,
                                     .seed_shift = (uint64_t)k};
    const plumb_status status = plumb_ask(x, &question, &twin, why);

    json_decref(everywhere);
    if (status != PLUMB_OK)
        return status;
    plumb_predicates predicates = x->predicates;

    predicates.twin = &twin.history;
    predicates.band = x->band;
    own->failure = plumb_history_judge(&own->history, &predicates);
    *fails = own->failure.predicate != PLUMB_FAILS_NOT;
    plumb_outcome_free(&twin);
    return PLUMB_OK;
}

static plumb_status prove_seed(plumb_experiment *x, int k, plumb_fix *fix, plumb_error *why)
{
    plumb_outcome own = {0}, twin = {0}, fixed = {0};
    bool fails = false;
    plumb_status status = ask_own(x, k, &own, &fails, why);

    if (status == PLUMB_OK && !fails && x->failure.predicate == PLUMB_FAILS_GAP)
        status = judge_own(x, k, &own, &fails, why);
    if (status == PLUMB_OK && !fails)
        status = plumb_limit(x,
                             "On further seed %d the unchanged run does not fail, so that "
                             "seed proves nothing.",
                             k);
    if (status != PLUMB_OK || !fails)
        goto done;
    const int64_t stop_at =
        plumb_cost_horizon(own.failure.step, own.failure.decided, x->settings->margin,
                           x->declaration.schedule_steps);

    status = ask_pair(x, k, fix->rules, stop_at, &twin, &fixed, why);
    if (status != PLUMB_OK)
        goto done;
    const bool held = fixed.failure.predicate == PLUMB_FAILS_NOT &&
                      fixed.last_step >= own.failure.decided && fixed.last_step > 0 &&
                      fixed.end == PLUMB_END_REACHED;

    fix->of++;
    fix->held += held;
    json_array_append_new(fix->seeds,
                          json_integer((json_int_t)(x->settings->seed + (uint64_t)k)));
    status = say_seed(x, k, &own, &fixed, held);
done:
    plumb_outcome_free(&own);
    plumb_outcome_free(&twin);
    plumb_outcome_free(&fixed);
    return status;
}

/* --- the first seed, and the way back ------------------------------------------------------ */

static plumb_status run_fixed(plumb_experiment *x, json_t *rules, bool *held,
                              plumb_error *why)
{
    const int64_t end = x->declaration.schedule_steps;
    const int64_t wishes[] = {x->failure.step, x->horizon};
    const bool room = end == 0 || x->horizon + ROOM <= end;
    const plumb_question question = {.phase = "proof",
                                     .label = "the fix, from the start",
                                     .rules = rules,
                                     .stop_at = x->horizon,
                                     .sensors = true,
                                     .paired = &x->twin.history,
                                     .checkpoint_at = wishes,
                                     .checkpoint_count = room ? 2 : 1};

    plumb_outcome_free(&x->fixed);
    const plumb_status status = plumb_ask(x, &question, &x->fixed, why);

    if (status == PLUMB_OK)
        *held = plumb_survived(x, &x->fixed);
    return status;
}

/* The latest checkpoint of the fixed run that leaves room for the failure to come back. */
static char *last_checkpoint(const plumb_experiment *x, int64_t *step)
{
    json_t *events = NULL, *event;
    size_t bad_lines, i;
    char *ref = NULL;
    const int64_t end = x->declaration.schedule_steps;

    *step = 0;
    if (!x->offers_checkpoint || x->fixed.run_dir == NULL ||
        plumb_events_read(x->fixed.run_dir, &events, &bad_lines, NULL) != PLUMB_OK)
        return NULL;
    json_array_foreach(events, i, event)
    {
        const char *name = json_string_value(json_object_get(event, "event"));
        const char *what = json_string_value(json_object_get(event, "ref"));
        const json_int_t at = json_integer_value(json_object_get(event, "step"));

        if (name == NULL || what == NULL || strcmp(name, "checkpoint") != 0 ||
            at <= *step || (end > 0 && at + ROOM > end))
            continue;
        free(ref);
        ref = plumb_text("%s", what);
        *step = at;
    }
    json_decref(events);
    return ref;
}

static plumb_status revert(plumb_experiment *x, plumb_fix *fix, plumb_error *why)
{
    plumb_outcome outcome;
    int64_t step;
    char *ref = last_checkpoint(x, &step), label[100];
    const int64_t end = x->declaration.schedule_steps;
    int64_t stop_at = ref != NULL ? step + x->horizon : x->horizon;

    if (end > 0 && stop_at > end)
        stop_at = end;
    snprintf(label, sizeof label, "the fix taken back after step %lld", (long long)step);
    const plumb_question question = {
        .phase = "proof",
        .label = ref != NULL ? label : "the fix taken back: the unchanged run once more",
        .stop_at = stop_at,
        .start = ref,
        .start_step = step,
        .repeat = ref != NULL ? 0 : 3,
        .paired = ref == NULL && x->failure.predicate == PLUMB_FAILS_GAP ? &x->twin.history
                                                                         : NULL};
    plumb_status status = plumb_ask(x, &question, &outcome, why);

    if (status == PLUMB_OK) {
        const bool fails = outcome.failure.predicate != PLUMB_FAILS_NOT;

        fix->returned_at = fails ? outcome.failure.step : 0;
        if (fails)
            status = plumb_state(
                x, "caused", "Taken back%s, the failure returns at step %lld.",
                ref != NULL ? " in the fixed run" : "", (long long)outcome.failure.step);
        else
            status =
                plumb_limit(x,
                            "Taken back after step %lld, the failure did not return by "
                            "step %lld: the cause is not proved.",
                            (long long)step, (long long)outcome.last_step);
        plumb_outcome_free(&outcome);
    }
    free(ref);
    return status;
}

static plumb_status prove(plumb_experiment *x, json_t *rules, const char *text,
                          plumb_error *why)
{
    plumb_fix *fix = &x->fix;
    bool held = false;

    json_decref(fix->rules);
    json_decref(fix->seeds);
    free(fix->text);
    *fix = (plumb_fix){.rules = json_incref(rules),
                       .text = plumb_text("%s", text),
                       .seeds = json_array(),
                       .past_step = x->horizon};
    if (fix->text == NULL || fix->seeds == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a fix");
    plumb_status status = run_fixed(x, rules, &held, why);

    if (status != PLUMB_OK)
        return status;
    fix->of = 1;
    fix->held = held;
    json_array_append_new(fix->seeds, json_integer((json_int_t)x->settings->seed));
    if (!held)
        return plumb_state(x, "compared",
                           "Rejected: %s does not hold to step %lld from the "
                           "start.",
                           text, (long long)x->horizon);
    status = plumb_state(x, "compared", "From the start, %s holds to step %lld.", text,
                         (long long)x->horizon);
    for (int k = 1; k <= x->settings->seeds && status == PLUMB_OK; k++)
        status = prove_seed(x, k, fix, why);
    fix->holds = fix->held == fix->of;
    return status == PLUMB_OK && fix->holds ? revert(x, fix, why) : status;
}

/* --- candidates, the least change first ------------------------------------------------------ */

static plumb_status prove_trials(plumb_experiment *x, const char *what, plumb_error *why)
{
    plumb_status status = PLUMB_OK;

    for (int t = 0; t < PLUMB_TRIAL_COUNT && status == PLUMB_OK && !x->fix.holds; t++) {
        char text[300];

        if (x->trials.result[t] != PLUMB_TRIAL_HEALED)
            continue;
        snprintf(text, sizeof text, "%s in %s", what, plumb_trial_text((plumb_trial)t));
        status = prove(x, x->trial_rules[t], text, why);
    }
    return status;
}

static plumb_status prove_set(plumb_experiment *x, const plumb_set *set, const char *what,
                              plumb_error *why)
{
    char text[300];
    json_t *rules = plumb_rules_over(x, set, "bf16", true);

    if (rules == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for rules");
    snprintf(text, sizeof text, "%s in bf16", what);
    const plumb_status status = prove(x, rules, text, why);

    json_decref(rules);
    return status;
}

static plumb_status prove_class(plumb_experiment *x, plumb_error *why)
{
    plumb_set whole;

    if (!plumb_set_by_class(x, x->classes[0], &whole))
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a class");
    char text[60];

    snprintf(text, sizeof text, "class %s", plumb_class_name(x->classes[0]));
    const plumb_status status =
        whole.count > x->culprits.count ? prove_set(x, &whole, text, why) : PLUMB_OK;

    plumb_set_free(&whole);
    return status;
}

static plumb_status prove_everything(plumb_experiment *x, plumb_error *why)
{
    json_t *rules = plumb_rules_everywhere("bf16");
    const plumb_status status = prove(x, rules, "everything in bf16", why);

    json_decref(rules);
    return status;
}

plumb_status plumb_stage_proof(plumb_experiment *x, plumb_error *why)
{
    char what[200];
    plumb_status status = plumb_question_now(x, why,
                                             "Does the fix hold, and does the failure "
                                             "return without it?");

    plumb_set_describe(x, &x->culprits, what, sizeof what);
    if (status == PLUMB_OK)
        status = prove_trials(x, what, why);
    if (status == PLUMB_OK && !x->fix.holds && x->culprits.count > 0 && !x->all_classes)
        status = prove_set(x, &x->culprits, what, why);
    if (status == PLUMB_OK && !x->fix.holds && x->class_count == 1)
        status = prove_class(x, why);
    if (status == PLUMB_OK && !x->fix.holds)
        status = prove_everything(x, why);
    return status;
}
