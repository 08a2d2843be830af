/* The fix taken back: does the failure return?  Asked where the answer is worth most, first in
 * the state that led to the failure and that the fix kept alive past it, then in the run that had
 * the fix from the start, at last from step 1.
 */
#include "diagnose/experiment.h"

#include <stdio.h>
#include <stdlib.h>

/* Steps past the decided failure for which the fix is kept before it is taken back. */
enum { KEPT = 5 };

/* The latest checkpoint of a run that leaves room for the failure to come back. */
static char *last_checkpoint(const plumb_experiment *x, const plumb_outcome *outcome,
                             int64_t *step)
{
    const int64_t end = x->declaration.schedule_steps;
    int64_t before = outcome->last_step + 1;

    if (end > 0 && before > end - PLUMB_REVERT_ROOM + 1)
        before = end - PLUMB_REVERT_ROOM + 1;
    return plumb_checkpoint_before(outcome->run_dir, before, step);
}

/* The unchanged run from a checkpoint of a run under the fix. */
static plumb_status ask_without(plumb_experiment *x, const char *ref, int64_t step,
                                int64_t stop_at, plumb_outcome *outcome, plumb_error *why)
{
    char label[100];
    const int64_t end = x->declaration.schedule_steps;

    snprintf(label, sizeof label, "the fix taken back after step %lld", (long long)step);
    const plumb_question question = {.phase = "proof",
                                     .label = label,
                                     .stop_at = end > 0 && stop_at > end ? end : stop_at,
                                     .start = ref,
                                     .start_step = step};

    return plumb_ask(x, &question, outcome, why);
}

/* Says what came of it; where is a clause that begins the sentence. */
static plumb_status conclude(plumb_experiment *x, const plumb_outcome *outcome,
                             const char *where, const char *otherwise)
{
    if (outcome->failure.predicate == PLUMB_FAILS_NOT)
        return plumb_limit(x, "%s, the failure does not return by step %lld: %s.", where,
                           (long long)outcome->last_step, otherwise);
    x->fix.returned_at = outcome->failure.step;
    return plumb_state(x, "caused", "%s, the failure returns at step %lld.", where,
                       (long long)outcome->failure.step);
}

/* --- in the state that led to the failure ------------------------------------------------- */

/* The fix from the checked checkpoint past the old failure, which leaves a checkpoint there. */
static plumb_status ask_kept(plumb_experiment *x, plumb_outcome *outcome, plumb_error *why)
{
    char label[100];
    const int64_t until = x->failure.decided + KEPT;
    const plumb_question question = {.phase = "proof",
                                     .label = label,
                                     .rules = x->fix.rules,
                                     .stop_at = until,
                                     .start = x->start,
                                     .start_step = x->start_step,
                                     .part = x->fix.part,
                                     .paired = &x->start_twin.history,
                                     .checkpoint_at = &until,
                                     .checkpoint_count = 1};

    snprintf(label, sizeof label, "the fix, from step %lld", (long long)x->start_step);
    return plumb_ask(x, &question, outcome, why);
}

static plumb_status revert_from_start_state(plumb_experiment *x, plumb_error *why)
{
    plumb_outcome kept, outcome;
    char where[120], *ref;
    int64_t step;

    if (x->start == NULL || x->failure.decided + KEPT > x->horizon)
        return PLUMB_OK;
    plumb_status status = ask_kept(x, &kept, why);

    if (status != PLUMB_OK)
        return status;
    ref =
        kept.failure.predicate == PLUMB_FAILS_NOT ? last_checkpoint(x, &kept, &step) : NULL;
    plumb_outcome_free(&kept);
    if (ref == NULL || step < x->failure.step) {
        free(ref);
        return PLUMB_OK; /* it says nothing; there are other places */
    }
    status = ask_without(x, ref, step, step + x->horizon - x->start_step, &outcome, why);
    free(ref);
    if (status != PLUMB_OK)
        return status;
    snprintf(where, sizeof where,
             "With the fix from step %lld the run passes the old failure; taken back after "
             "step %lld",
             (long long)x->start_step, (long long)step);
    status = conclude(x, &outcome, where, "the state that led to it has healed");
    plumb_outcome_free(&outcome);
    return status;
}

/* --- in the run that had the fix all along --------------------------------------------------- */

static plumb_status revert_in_fixed_run(plumb_experiment *x, plumb_error *why)
{
    plumb_outcome outcome;
    char where[100], *ref;
    int64_t step;

    ref = last_checkpoint(x, &x->fixed, &step);
    if (ref == NULL)
        return PLUMB_OK;
    plumb_status status = ask_without(x, ref, step, step + x->horizon, &outcome, why);

    free(ref);
    if (status != PLUMB_OK)
        return status;
    snprintf(where, sizeof where, "Taken back in the fixed run after step %lld",
             (long long)step);
    status = conclude(x, &outcome, where, "what led to it did not come about there");
    plumb_outcome_free(&outcome);
    return status;
}

/* --- from the start ---------------------------------------------------------------------------- */

static plumb_status revert_from_start(plumb_experiment *x, plumb_error *why)
{
    plumb_outcome outcome;
    const plumb_question question = {
        .phase = "proof",
        .label = "the fix taken back: the unchanged run once more",
        .stop_at = x->horizon,
        .repeat = 3,
        .paired = x->failure.predicate == PLUMB_FAILS_GAP ? &x->twin.history : NULL};
    plumb_status status = plumb_ask(x, &question, &outcome, why);

    if (status != PLUMB_OK)
        return status;
    status =
        conclude(x, &outcome, "Without the fix, from the start", "the cause is not proved");
    plumb_outcome_free(&outcome);
    return status;
}

plumb_status plumb_revert_fix(plumb_experiment *x, plumb_error *why)
{
    /* A gap is seen against the twin only, which ends at the horizon; weights that have adapted to
     * a fault are the work of the whole run.
     */
    const bool resumes =
        x->offers_checkpoint && x->failure.predicate != PLUMB_FAILS_GAP && !x->weights_fail;
    plumb_status status = resumes ? revert_from_start_state(x, why) : PLUMB_OK;

    if (status == PLUMB_OK && resumes && x->fix.returned_at == 0)
        status = revert_in_fixed_run(x, why);
    if (status == PLUMB_OK && x->fix.returned_at == 0)
        status = revert_from_start(x, why);
    return status;
}
