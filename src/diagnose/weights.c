/* Predicate (d): are the weights of a run as good in bf16 as in the arithmetic that made them?
 *
 * A fault in the forward products can be learned around: the loss looks healthy, and the weights
 * are of no use without the fault.  One step from a checkpoint under the policy "everything in
 * bf16" shows it, since its loss is that of the same weights on the same batch.  Where the run
 * fails so, alone or beside a gap to its twin, each arm has to pass this as well.
 */
#include "diagnose/experiment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int64_t plumb_weights_wish(int64_t stop_at)
{
    return stop_at - 1;
}

static const plumb_metrics *row_of(const plumb_history *history, int64_t step)
{
    for (size_t i = history->count; i > 0; i--)
        if (history->at[i - 1].step == step)
            return &history->at[i - 1];
    return NULL;
}

/* The loss of the one step from `ref`, with rules or (NULL) in the run's own arithmetic; NaN when
 * the step was not logged or saw another batch than `own`.
 */
static plumb_status one_step(plumb_experiment *x, const plumb_question *of, const char *ref,
                             json_t *rules, const plumb_metrics *own, double *loss,
                             plumb_error *why)
{
    plumb_outcome outcome;
    char label[160];
    plumb_question question = *of;

    snprintf(label, sizeof label, "%.110s: step %lld again%s", of->label,
             (long long)own->step, rules != NULL ? ", in bf16" : "");
    question.phase = "check";
    question.label = label;
    question.rules = rules;
    question.stop_at = own->step;
    question.start = ref;
    question.start_step = own->step - 1;
    question.sensors = false;
    question.unjudged = true;
    question.paired = NULL;
    question.checkpoint_count = 0;
    const plumb_status status = plumb_ask(x, &question, &outcome, why);

    if (status != PLUMB_OK)
        return status;
    const plumb_metrics *row = row_of(&outcome.history, own->step);

    *loss = row == NULL || (row->has_batch_hash && own->has_batch_hash &&
                            row->batch_hash != own->batch_hash)
                ? (double)NAN
                : row->loss;
    plumb_outcome_free(&outcome);
    return PLUMB_OK;
}

plumb_status plumb_weights_compare(plumb_experiment *x, const plumb_question *question,
                                   const plumb_outcome *outcome, double *worse,
                                   int64_t *step, plumb_error *why)
{
    json_t *everywhere = plumb_rules_everywhere("bf16");
    char *ref = plumb_checkpoint_before(outcome->run_dir, outcome->last_step, step);
    const plumb_metrics *own = row_of(&outcome->history, ++*step);
    double loss = NAN;
    plumb_status status = PLUMB_OK;

    if (everywhere == NULL)
        status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for rules");
    else if (ref != NULL && own != NULL)
        status = one_step(x, question, ref, everywhere, own, &loss, why);
    *worse = own != NULL ? loss - own->loss : (double)NAN;
    free(ref);
    json_decref(everywhere);
    return status;
}

plumb_status plumb_weights_adapted(plumb_experiment *x, const char *ref, int64_t step,
                                   bool *adapted, plumb_error *why)
{
    const plumb_question question = {.label = "the run itself"};
    const plumb_metrics *own = row_of(&x->own.history, step + 1);
    json_t *everywhere = plumb_rules_everywhere("bf16");
    double loss = NAN;
    plumb_status status = PLUMB_OK;

    if (everywhere == NULL)
        status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for rules");
    else if (own != NULL)
        status = one_step(x, &question, ref, everywhere, own, &loss, why);
    json_decref(everywhere);
    *adapted = own == NULL || !(loss - own->loss <= x->band);
    return status;
}

bool plumb_unjudged(const plumb_failure *failure)
{
    return failure->predicate == PLUMB_FAILS_ARITHMETIC && isnan(failure->value);
}

plumb_status plumb_weights_judge(plumb_experiment *x, const plumb_question *question,
                                 plumb_outcome *outcome, plumb_error *why)
{
    double worse;
    int64_t step;

    if (!x->weights_fail || question->unjudged || question->everywhere ||
        outcome->end != PLUMB_END_REACHED)
        return PLUMB_OK;
    const plumb_status status =
        plumb_weights_compare(x, question, outcome, &worse, &step, why);

    if (status != PLUMB_OK)
        return status;
    if (worse <= x->band)
        return PLUMB_OK;
    if (isnan(worse)) /* not shown to heal; plumb_unjudged knows it from one that fails */
        step = question->stop_at;
    outcome->failure = (plumb_failure){PLUMB_FAILS_ARITHMETIC, step, step, worse, x->band};
    plumb_rejudged(x, outcome);
    return PLUMB_OK;
}

/* --- the run itself ---------------------------------------------------------------------- */

/* The step from the checkpoint means something only if it is the run's own in its arithmetic. */
static plumb_status confirm(plumb_experiment *x, const plumb_question *question,
                            double worse, int64_t step, plumb_error *why)
{
    const plumb_metrics *own = row_of(&x->own.history, step);
    char *ref = plumb_checkpoint_before(x->own.run_dir, step, &(int64_t){0}), text[400];
    double loss;
    plumb_status status = one_step(x, question, ref, NULL, own, &loss, why);

    free(ref);
    if (status != PLUMB_OK)
        return status;
    if (!(loss == own->loss))
        return plumb_limit(x,
                           "Resume is not exact: step %lld from its checkpoint has another "
                           "loss than the run, so its weights could not be judged in bf16.",
                           (long long)step);
    const plumb_failure failure = {PLUMB_FAILS_ARITHMETIC, step, step, worse, x->band};

    x->weights_fail = true;
    x->horizon = x->own.last_step; /* they are the work of the whole run */
    plumb_describe_failure(&failure, text, sizeof text);
    status = plumb_state(x, "compared", "The run %s.", text);
    if (x->failure.predicate != PLUMB_FAILS_NOT)
        return status;
    x->failure = x->own.failure = failure;
    plumb_rejudged(x, &x->own);
    return status;
}

static plumb_status judge_own(plumb_experiment *x, plumb_error *why)
{
    const plumb_question question = {.label = "the run itself"};
    double worse;
    int64_t step;
    plumb_status status = plumb_question_now(
        x, why, "Are its weights as good in bf16 as in their own arithmetic?");

    if (status == PLUMB_OK)
        status = plumb_weights_compare(x, &question, &x->own, &worse, &step, why);
    if (status != PLUMB_OK)
        return status;
    if (worse > x->band)
        return confirm(x, &question, worse, step, why);
    if (isnan(worse))
        return plumb_limit(x, "Whether the weights are as good in bf16 as in their own "
                              "arithmetic is not known: no checkpoint could be used.");
    return plumb_state(x, "compared",
                       "Its weights before step %lld are as good in bf16 as in its own "
                       "arithmetic: %+.4f nats, on the same batch.",
                       (long long)step, worse);
}

/* A run that failed by itself was stopped there; one that only its twin convicts ran to its end. */
plumb_status plumb_stage_weights(plumb_experiment *x, plumb_error *why)
{
    if (!x->offers_checkpoint || (x->failure.predicate != PLUMB_FAILS_NOT &&
                                  x->failure.predicate != PLUMB_FAILS_GAP))
        return PLUMB_OK;
    return judge_own(x, why);
}
