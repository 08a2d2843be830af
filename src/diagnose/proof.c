/* The proof of the fix: the least change that heals, from step 1 past the old failure, on the
 * first seed and on further ones where the unchanged run fails, and its reversal (revert.c).  What
 * does not hold is rejected, and the next change is tried.
 */
#include "diagnose/experiment.h"

#include "diagnose/cost.h"
#include "log/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- further seeds ---------------------------------------------------------------------- */

/* What one further seed showed. */
typedef struct seed_trial {
    int shift;
    uint64_t seed;
    plumb_outcome own, twin, fixed;
} seed_trial;

static plumb_status ask_own(plumb_experiment *x, seed_trial *t, plumb_error *why)
{
    char label[60];

    snprintf(label, sizeof label, "the run itself, seed %llu", (unsigned long long)t->seed);
    const plumb_question question = {.phase = "proof",
                                     .label = label,
                                     .stop_at = x->look_to,
                                     .seed_shift = (uint64_t)t->shift};

    return plumb_ask(x, &question, &t->own, why);
}

static plumb_status ask_twin(plumb_experiment *x, seed_trial *t, int64_t stop_at,
                             plumb_error *why)
{
    char label[60];
    json_t *everywhere = plumb_rules_everywhere("bf16");

    snprintf(label, sizeof label, "bf16 twin, seed %llu", (unsigned long long)t->seed);
    const plumb_question question = {.phase = "proof",
                                     .label = label,
                                     .rules = everywhere,
                                     .everywhere = true,
                                     .stop_at = plumb_overtime(x, stop_at),
                                     .seed_shift = (uint64_t)t->shift};
    const plumb_status status = plumb_ask(x, &question, &t->twin, why);

    json_decref(everywhere);
    return status;
}

static plumb_status ask_fixed(plumb_experiment *x, seed_trial *t, json_t *rules,
                              int64_t stop_at, plumb_error *why)
{
    char label[60];

    snprintf(label, sizeof label, "the fix, seed %llu", (unsigned long long)t->seed);
    const plumb_question question = {.phase = "proof",
                                     .label = label,
                                     .rules = rules,
                                     .stop_at = stop_at,
                                     .seed_shift = (uint64_t)t->shift,
                                     .part = x->fix.part,
                                     .paired = &t->twin.history};

    return plumb_ask(x, &question, &t->fixed, why);
}

/* The seed is the trainer's own under another name, or the trainer does not use seeds. */
static bool same_as_first(const plumb_experiment *x, const seed_trial *t)
{
    bool by_hash;

    return t->own.history.count > 0 &&
           plumb_history_differ(&t->own.history, &x->own.history, &by_hash) == 0;
}

/* Why this seed says nothing, or NULL.  A run that shows no failure of its own may still fail by
 * its gap to its twin, which has been run to the end of the look.
 */
static const char *useless(plumb_experiment *x, seed_trial *t)
{
    plumb_predicates predicates = x->predicates;

    if (t->twin.failure.predicate != PLUMB_FAILS_NOT)
        return "fails in bf16 too";
    predicates.twin = &t->twin.history;
    predicates.band = x->band;
    if (t->own.failure.predicate == PLUMB_FAILS_NOT) {
        t->own.failure = plumb_history_judge(&t->own.history, &predicates);
        plumb_rejudged(x, &t->own);
    }
    if (t->own.failure.predicate != PLUMB_FAILS_NOT)
        return NULL;
    return t->own.end == PLUMB_END_REACHED ? "does not fail"
                                           : "ended before it could be judged";
}

static int64_t horizon_of(const plumb_experiment *x, const plumb_failure *failure)
{
    return x->weights_fail
               ? x->horizon
               : plumb_cost_horizon(failure->step, failure->decided, x->settings->margin,
                                    x->declaration.schedule_steps);
}

static plumb_status judge_seed(plumb_experiment *x, seed_trial *t, plumb_fix *fix,
                               plumb_error *why)
{
    char text[400];
    const int64_t stop_at = horizon_of(x, &t->own.failure);
    plumb_status status = ask_fixed(x, t, fix->rules, stop_at, why);

    if (status != PLUMB_OK)
        return status;
    const bool held = t->fixed.failure.predicate == PLUMB_FAILS_NOT &&
                      t->fixed.end == PLUMB_END_REACHED &&
                      t->fixed.last_step >= t->own.failure.decided;

    fix->of++;
    fix->held += held;
    json_array_append_new(fix->seeds, plumb_seed_json(t->seed));
    plumb_describe_end(&t->fixed, text, sizeof text);
    return plumb_state(
        x, "compared",
        "Seed %llu: the unchanged run fails at step %lld; with the fix it %s.",
        (unsigned long long)t->seed, (long long)t->own.failure.step, text);
}

static plumb_status weigh_seed(plumb_experiment *x, seed_trial *t, plumb_fix *fix,
                               plumb_error *why)
{
    const plumb_status status = ask_twin(x, t,
                                         t->own.failure.predicate != PLUMB_FAILS_NOT
                                             ? horizon_of(x, &t->own.failure)
                                             : x->look_to,
                                         why);

    if (status != PLUMB_OK)
        return status;
    const char *nothing = useless(x, t);

    if (nothing != NULL)
        return plumb_limit(x, "Seed %llu %s, so it proves nothing.",
                           (unsigned long long)t->seed, nothing);
    return judge_seed(x, t, fix, why);
}

/* *same: it was the first seed once more, and another has to be taken. */
static plumb_status prove_seed(plumb_experiment *x, int shift, plumb_fix *fix, bool *same,
                               plumb_error *why)
{
    seed_trial t = {.shift = shift, .seed = x->settings->seed + (uint64_t)shift};
    plumb_status status = ask_own(x, &t, why);

    *same = status == PLUMB_OK && same_as_first(x, &t);
    if (status == PLUMB_OK && !*same)
        status = weigh_seed(x, &t, fix, why);
    plumb_outcome_free(&t.own);
    plumb_outcome_free(&t.twin);
    plumb_outcome_free(&t.fixed);
    return status;
}

/* Without --seed the trainer's own seed has no name, and one of the further ones may turn out to
 * be it; then the next stands in.  Twice the same: it uses none.
 */
static plumb_status prove_seeds(plumb_experiment *x, plumb_fix *fix, plumb_error *why)
{
    plumb_status status = PLUMB_OK;
    int same_count = 0;

    for (int k = 1; k <= x->settings->seeds + same_count && status == PLUMB_OK; k++) {
        bool same;

        status = prove_seed(x, k, fix, &same, why);
        same_count += same;
        if (status == PLUMB_OK && same_count > 1)
            return plumb_limit(
                x, "Other seeds give the numbers of the first: the trainer does "
                   "not use PLUMB_SEED, so further seeds prove nothing.");
    }
    return status;
}

/* --- the first seed --------------------------------------------------------------------- */

static plumb_status run_fixed(plumb_experiment *x, json_t *rules, bool *held,
                              plumb_error *why)
{
    const int64_t end = x->declaration.schedule_steps;
    const int64_t wishes[] = {x->failure.step, x->horizon};
    const bool room = end == 0 || x->horizon + PLUMB_REVERT_ROOM <= end;
    const plumb_question question = {.phase = "proof",
                                     .label = "the fix, from the start",
                                     .rules = rules,
                                     .stop_at = x->horizon,
                                     .sensors = true,
                                     .part = x->fix.part,
                                     .paired = &x->twin.history,
                                     .checkpoint_at = wishes,
                                     .checkpoint_count = room ? 2 : 1};

    plumb_outcome_free(&x->fixed);
    const plumb_status status = plumb_ask(x, &question, &x->fixed, why);

    if (status == PLUMB_OK)
        *held = plumb_survived(x, &x->fixed);
    return status;
}

static plumb_status prove(plumb_experiment *x, json_t *rules, bool part, const char *text,
                          plumb_error *why)
{
    plumb_fix *fix = &x->fix;
    bool held = false;

    json_decref(fix->rules);
    json_decref(fix->seeds);
    free(fix->text);
    *fix = (plumb_fix){.rules = json_incref(rules),
                       .text = plumb_text("%s", text),
                       .part = part,
                       .seeds = json_array(),
                       .past_step = x->horizon};
    if (fix->text == NULL || fix->seeds == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a fix");
    plumb_status status = run_fixed(x, rules, &held, why);

    if (status != PLUMB_OK)
        return status;
    fix->of = 1;
    fix->held = held;
    json_array_append_new(fix->seeds, plumb_seed_json(x->settings->seed));
    if (!held)
        return plumb_state(x, "compared",
                           "Rejected: %s does not hold to step %lld from the "
                           "start.",
                           text, (long long)x->horizon);
    status = plumb_state(x, "compared", "From the start, %s holds to step %lld.", text,
                         (long long)x->horizon);
    if (status == PLUMB_OK)
        status = prove_seeds(x, fix, why);
    fix->holds = fix->held == fix->of;
    return status == PLUMB_OK && fix->holds ? plumb_revert_fix(x, why) : status;
}

/* --- candidates, the least change first ------------------------------------------------------ */

static plumb_status prove_trials(plumb_experiment *x, const char *what, plumb_error *why)
{
    plumb_status status = PLUMB_OK;

    for (int t = 0; t < PLUMB_TRIAL_COUNT && status == PLUMB_OK && !x->fix.holds; t++) {
        char text[400], use[PLUMB_SPEC_TEXT];

        if (x->trials.result[t] != PLUMB_TRIAL_HEALED)
            continue;
        plumb_trial_use(x, (plumb_trial)t, use);
        snprintf(text, sizeof text, "%s as %s (%s)", what, use,
                 plumb_trial_text((plumb_trial)t));
        status = prove(x, x->trial_rules[t], true, text, why);
    }
    return status;
}

static plumb_status prove_set(plumb_experiment *x, const plumb_set *set, bool part,
                              const char *what, plumb_error *why)
{
    char text[300];
    json_t *rules = plumb_rules_over(x, set, "bf16", true);

    if (rules == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for rules");
    snprintf(text, sizeof text, "%s in bf16", what);
    const plumb_status status = prove(x, rules, part, text, why);

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
        whole.count > x->culprits.count ? prove_set(x, &whole, false, text, why) : PLUMB_OK;

    plumb_set_free(&whole);
    return status;
}

static plumb_status prove_everything(plumb_experiment *x, plumb_error *why)
{
    json_t *rules = plumb_rules_everywhere("bf16");
    const plumb_status status = prove(x, rules, false, "everything in bf16", why);

    json_decref(rules);
    return status;
}

/* The changes of the place that was found, the least first. */
static plumb_status prove_place(plumb_experiment *x, plumb_error *why)
{
    char what[200];

    plumb_set_describe(x, &x->culprits, what, sizeof what);
    plumb_status status = prove_trials(x, what, why);

    if (status == PLUMB_OK && !x->fix.holds && x->culprits.count > 0 && !x->all_classes)
        status = prove_set(x, &x->culprits, true, what, why);
    return status;
}

/* What heals from a checkpoint on and not from the start may be too little of the same kind: the same
 * operands in every layer cost one run, a search from the start many.
 */
static plumb_status prove_kind(plumb_experiment *x, plumb_error *why)
{
    plumb_set kind;

    if (x->class_count != 1 || x->culprits.count == 0)
        return PLUMB_OK;
    if (!plumb_set_of_kind(x, &x->culprits, &kind))
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a set of sites");
    if (kind.count == x->culprits.count) {
        plumb_set_free(&kind);
        return PLUMB_OK;
    }
    char what[200];

    plumb_set_describe(x, &kind, what, sizeof what);
    const plumb_status status = prove_set(x, &kind, true, what, why);

    if (status != PLUMB_OK || !x->fix.holds) {
        plumb_set_free(&kind);
        return status;
    }
    plumb_set_free(&x->culprits);
    x->culprits = kind;
    x->scope = "class";
    plumb_forget_trials(x);
    return plumb_state(x, "compared",
                       "What heals from step %lld on is too little from step 1; the same "
                       "operands in every layer are enough. A smaller set may be, too.",
                       (long long)x->start_step);
}

plumb_status plumb_stage_proof(plumb_experiment *x, plumb_error *why)
{
    plumb_status status = plumb_question_now(x, why,
                                             "Does the fix hold, and does the failure "
                                             "return without it?");

    if (status == PLUMB_OK)
        status = prove_place(x, why);
    /* Held on the first seed and not on others is another matter than not held at all. */
    if (status == PLUMB_OK && x->start != NULL && x->fix.held == 0)
        status = prove_kind(x, why);
    if (status == PLUMB_OK && x->start != NULL && x->fix.held == 0) {
        status = plumb_search_from_start(x, why);
        if (status == PLUMB_OK)
            status = prove_place(x, why);
    }
    if (status == PLUMB_OK && !x->fix.holds && x->class_count == 1)
        status = prove_class(x, why);
    if (status == PLUMB_OK && !x->fix.holds)
        status = prove_everything(x, why);
    return status;
}
