/* Where the arms of the search begin.  A checkpoint shortly before the failure saves every arm
 * the way there, but plumb trusts none: it must be of before the run left its twin, the unchanged
 * run resumed from it must agree with the original and fail, and the bf16 arm from it must survive.
 * Else an earlier one; at last step 0.
 */
#include "diagnose/experiment.h"

#include "diagnose/cost.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { EXPECTED_ARMS = 12, BEFORE = 3 };

typedef struct candidate {
    const char *ref;
    int64_t step;
} candidate;

/* Whether the two runs agree in every printed digit of the loss, whatever their state hashes. */
static bool same_losses(const plumb_history *a, const plumb_history *b)
{
    plumb_history copy = *a;
    bool by_hash;

    copy.at = malloc((a->count + 1) * sizeof *copy.at);
    if (copy.at == NULL)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        copy.at[i] = a->at[i];
        copy.at[i].has_state_hash = false;
    }
    const bool same = plumb_history_differ(&copy, b, &by_hash) == 0;

    free(copy.at);
    return same;
}

static plumb_status say_hash_only(plumb_experiment *x, int64_t step)
{
    return plumb_limit(
        x,
        "Resumed from step %lld the unchanged run has the losses of the original "
        "in every digit but not its state_hash: resume is not exact in something "
        "that the loss does not show.",
        (long long)step);
}

/* The unchanged run from the checkpoint: same numbers, and the failure within the horizon. */
static plumb_status check_resumed(plumb_experiment *x, const candidate *c, bool *good,
                                  bool *exact, plumb_error *why)
{
    plumb_outcome outcome;
    char label[80];
    bool by_hash;

    snprintf(label, sizeof label, "the run itself, resumed from step %lld",
             (long long)c->step);
    const plumb_question question = {
        .phase = "check",
        .label = label,
        .stop_at = x->horizon,
        .start = c->ref,
        .start_step = c->step,
        .paired = x->failure.predicate == PLUMB_FAILS_GAP ? &x->twin.history : NULL};
    plumb_status status = plumb_ask(x, &question, &outcome, why);

    if (status != PLUMB_OK)
        return status;
    const bool same_batches =
        plumb_history_confounded(&outcome.history, &x->own.history) <= 0;
    const bool differs =
        plumb_history_differ(&outcome.history, &x->own.history, &by_hash) != 0;
    const bool losses = !differs || same_losses(&outcome.history, &x->own.history);

    *exact = outcome.history.count > 0 && same_batches && losses;
    *good = *exact && outcome.failure.predicate != PLUMB_FAILS_NOT;
    if (*good)
        x->repeat_open = false;
    plumb_outcome_free(&outcome);
    if (*exact && differs)
        status = say_hash_only(x, c->step);
    return status;
}

static plumb_status check_twin(plumb_experiment *x, const candidate *c, bool *good,
                               plumb_error *why)
{
    char label[80];
    json_t *rules = plumb_rules_everywhere("bf16");

    snprintf(label, sizeof label, "bf16 from step %lld", (long long)c->step);
    const plumb_question question = {.phase = "check",
                                     .label = label,
                                     .rules = rules,
                                     .stop_at = plumb_overtime(x, x->horizon),
                                     .start = c->ref,
                                     .start_step = c->step};
    const plumb_status status = plumb_ask(x, &question, &x->start_twin, why);

    json_decref(rules);
    if (status != PLUMB_OK)
        return status;
    *good = plumb_survived(x, &x->start_twin);
    if (!*good)
        plumb_outcome_free(&x->start_twin);
    return PLUMB_OK;
}

static plumb_status try_candidate(plumb_experiment *x, const candidate *c, bool *give_up,
                                  plumb_error *why)
{
    bool good = false, exact = false, adapted = false;
    plumb_status status = PLUMB_OK;

    if (x->weights_fail)
        status = plumb_weights_adapted(x, c->ref, c->step, &adapted, why);
    if (status != PLUMB_OK || adapted)
        return status;
    status = check_resumed(x, c, &good, &exact, why);
    *give_up = !exact;
    if (status == PLUMB_OK && !exact)
        return plumb_state(
            x, "compared",
            "Resume is not exact: the unchanged run resumed from step %lld does "
            "not give the numbers of the original. That is a finding of its own; "
            "every arm starts at step 1.",
            (long long)c->step);
    if (status == PLUMB_OK && good)
        status = check_twin(x, c, &good, why);
    if (status != PLUMB_OK)
        return status;
    if (!good)
        return plumb_state(x, "compared",
                           "The checkpoint of step %lld is no place to start from: %s.",
                           (long long)c->step,
                           "the unchanged run from it does not fail, or bf16 from it does");
    x->start = plumb_text("%s", c->ref);
    x->start_step = c->step;
    if (x->start == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a checkpoint's name");
    return plumb_state(
        x, "compared",
        "Checked: the unchanged run resumed from step %lld repeats the original "
        "and fails, bf16 from there survives. The search starts there.",
        (long long)c->step);
}

int64_t plumb_apart_from(const plumb_experiment *x, double part)
{
    plumb_predicates beside = x->predicates;

    beside.rise = INFINITY;
    beside.entropy_after = 0;
    beside.twin = &x->twin.history;
    beside.band = part * x->band;
    const plumb_failure gap = plumb_history_judge(&x->own.history, &beside);

    return gap.predicate == PLUMB_FAILS_GAP ? gap.step : INT64_MAX;
}

plumb_status plumb_stage_start(plumb_experiment *x, plumb_error *why)
{
    bool give_up = false;
    const int64_t apart = plumb_apart_from(x, 1), late = x->failure.step - BEFORE + 1;
    int64_t before = apart < late ? apart : late;
    plumb_status status = PLUMB_OK;

    if (!x->offers_checkpoint || x->declaration.site_count == 0)
        return PLUMB_OK;
    while (status == PLUMB_OK && x->start == NULL && !give_up) {
        int64_t step;
        char *ref = plumb_checkpoint_before(x->again.run_dir, before, &step);
        const candidate c = {ref, step};

        give_up = ref == NULL ||
                  !plumb_cost_start_pays(step, x->failure.step, x->horizon, EXPECTED_ARMS);
        if (!give_up)
            status = try_candidate(x, &c, &give_up, why);
        free(ref);
        before = step;
    }
    return status;
}

/* Forgets the checkpoint and all that was concluded from arms that began there. */
static void forget(plumb_experiment *x)
{
    free(x->start);
    x->start = NULL;
    x->start_step = 0;
    plumb_outcome_free(&x->start_twin);
    plumb_set_free(&x->culprits);
    x->class_count = 0;
    x->all_classes = false;
    x->scope = NULL;
    plumb_forget_trials(x);
}

plumb_status plumb_search_from_start(plumb_experiment *x, plumb_error *why)
{
    plumb_status status =
        plumb_state(x, "compared",
                    "What heals from step %lld on does not heal from step 1: a part of the "
                    "fault strikes before. The search begins again at step 1.",
                    (long long)x->start_step);

    forget(x);
    if (status == PLUMB_OK)
        status = plumb_stage_classes(x, why);
    if (status == PLUMB_OK)
        status = plumb_stage_narrow(x, why);
    return status == PLUMB_OK ? plumb_stage_mechanism(x, why) : status;
}
