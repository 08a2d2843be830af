/* Asking for a run: the question becomes a request, the run is watched, and what came of it is
 * kept for the verdict.  Whatever a trainer does is an answer; only plumb's own trouble is an
 * error.
 */
#include "diagnose/experiment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/cost.h"

/* Steps that a run is granted past its end to decide what began before it: those for which a
 * predicate has to hold (plumb/study.h), less one.
 */
enum { OVERTIME = 9 };

void plumb_describe_failure(const plumb_failure *failure, char *text, size_t size)
{
    const long long step = (long long)failure->step;

    switch (failure->predicate) {
    case PLUMB_FAILS_NOT:
        snprintf(text, size, "does not fail");
        break;
    case PLUMB_FAILS_NONFINITE:
        snprintf(text, size, "fails at step %lld: a value is not finite", step);
        break;
    case PLUMB_FAILS_RISE:
        snprintf(text, size,
                 "fails at step %lld: the smoothed loss is %.3f; its own minimum and the "
                 "allowed rise make %.3f",
                 step, failure->value, failure->threshold);
        break;
    case PLUMB_FAILS_ENTROPY:
        snprintf(
            text, size,
            "fails at step %lld: the smoothed loss is %.3f, still above the %.3f nats of "
            "guessing by frequency alone",
            step, failure->value, failure->threshold);
        break;
    case PLUMB_FAILS_GAP:
        snprintf(
            text, size,
            "fails at step %lld: the smoothed gap to the bf16 twin is %+.3f nats, outside "
            "the band of %.3f",
            step, failure->value, failure->threshold);
        break;
    case PLUMB_FAILS_ARITHMETIC:
        if (plumb_unjudged(failure))
            snprintf(text, size, "leaves weights that could not be judged in bf16");
        else
            snprintf(
                text, size,
                "fails at step %lld: the same weights are %+.3f nats worse in bf16 than in "
                "the run's own arithmetic, more than %.3f",
                step, failure->value, failure->threshold);
        break;
    case PLUMB_FAILS_INVARIANT:
        snprintf(text, size,
                 "fails at step %lld: something that must hold in any run does not", step);
        if (!isnan(failure->value) && !isnan(failure->threshold))
            snprintf(text + strlen(text), size - strlen(text),
                     " (%.4g, where the limit is %.4g)", failure->value,
                     failure->threshold);
        break;
    case PLUMB_FAILS_COUNT:
        break;
    }
}

void plumb_describe_end(const plumb_outcome *outcome, char *text, size_t size)
{
    char message[300];

    plumb_printable(outcome->message, message, sizeof message);
    if (outcome->failure.predicate != PLUMB_FAILS_NOT)
        plumb_describe_failure(&outcome->failure, text, size);
    else if (outcome->end == PLUMB_END_REACHED && outcome->last_step == 0)
        snprintf(text, size, "answers"); /* it was only asked what it is */
    else if (outcome->end == PLUMB_END_REACHED)
        snprintf(text, size, "does not fail up to step %lld",
                 (long long)outcome->last_step);
    else if (message[0] != 0)
        snprintf(text, size, "%s", message);
    else
        snprintf(text, size, "%s after step %lld", plumb_end_name(outcome->end),
                 (long long)outcome->last_step);
}

int64_t plumb_seen_before(const plumb_experiment *x)
{
    return x->failure.predicate == PLUMB_FAILS_INVARIANT ? x->failure.decided + 1
                                                         : x->failure.step;
}

bool plumb_failed(const plumb_experiment *x, const plumb_outcome *outcome)
{
    return outcome->failure.predicate != PLUMB_FAILS_NOT &&
           outcome->failure.step <= x->horizon;
}

bool plumb_survived(const plumb_experiment *x, const plumb_outcome *outcome)
{
    if (plumb_failed(x, outcome))
        return false;
    if (outcome->last_step >= x->horizon && outcome->last_step > 0)
        return true;
    /* A trainer that ends its own schedule early, and cleanly, past the old failure. */
    return (outcome->end == PLUMB_END_REACHED ||
            (outcome->end == PLUMB_END_DIED && outcome->exit_status == 0)) &&
           outcome->last_step > x->failure.decided && outcome->last_step > 0;
}

void plumb_rejudged(plumb_experiment *x, const plumb_outcome *outcome)
{
    char text[600];

    plumb_describe_end(outcome, text, sizeof text);
    for (size_t i = 0; i < x->record_count; i++) {
        plumb_record *r = &x->records[i];

        if (strcmp(r->id, outcome->id) != 0)
            continue;
        char *copy = plumb_text("%s", text);

        r->failure = outcome->failure;
        if (copy == NULL)
            continue; /* the old words are better than none */
        free(r->text);
        r->text = copy;
    }
}

/* --- telling the caller -------------------------------------------------------------- */

static double seconds_per_step(const plumb_experiment *x)
{
    double seconds = 0;
    int64_t steps = 0;

    for (size_t i = 0; i < x->record_count; i++) {
        seconds += x->records[i].seconds;
        steps += x->records[i].steps_run;
    }
    return steps > 0 ? seconds / (double)steps : (double)NAN;
}

typedef struct watched {
    plumb_experiment *x;
    const plumb_question *question;
} watched;

static bool tell(plumb_experiment *x, const plumb_progress *progress)
{
    return x->progress == NULL || x->progress(x->progress_context, progress);
}

static bool watch(void *context, const plumb_arm *arm, const plumb_history *history,
                  double seconds)
{
    const watched *w = context;
    plumb_experiment *x = w->x;
    const int64_t step =
        history->count > 0 ? history->at[history->count - 1].step : w->question->start_step;
    const int64_t horizon = x->horizon > 0 ? x->horizon : x->look_to;
    const double rate = seconds_per_step(x);
    const double rest = (double)(w->question->stop_at - step) +
                        (double)x->arms_left * (double)(horizon - x->start_step);
    const plumb_progress progress = {.kind = PLUMB_PROGRESS_RUNNING,
                                     .label = arm->label,
                                     .step = step,
                                     .steps = w->question->stop_at,
                                     .seconds = seconds,
                                     .seconds_left = isnan(rate) ? -1 : rest * rate};

    return tell(x, &progress);
}

static plumb_status tell_end(plumb_experiment *x, const plumb_record *record,
                             plumb_error *why)
{
    const plumb_progress progress = {.kind = PLUMB_PROGRESS_DONE,
                                     .text = record->text,
                                     .label = record->label,
                                     .step = record->last_step,
                                     .steps = record->stop_at,
                                     .seconds = record->seconds,
                                     .seconds_left = -1,
                                     .reused = record->reused};

    if (!tell(x, &progress))
        return plumb_fail(why, PLUMB_INTERRUPTED, "interrupted");
    return PLUMB_OK;
}

/* --- the request ------------------------------------------------------------------------ */

static plumb_status add_wishes(const plumb_experiment *x, const plumb_question *q,
                               plumb_request *request, plumb_error *why)
{
    const bool judged = x->weights_fail && !q->unjudged && !q->everywhere;

    if (!x->offers_checkpoint || (q->checkpoint_count == 0 && !judged))
        return PLUMB_OK;
    request->checkpoint_at =
        malloc((q->checkpoint_count + 1) * sizeof *request->checkpoint_at);
    if (request->checkpoint_at == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a request");
    for (size_t i = 0; i < q->checkpoint_count; i++)
        request->checkpoint_at[request->checkpoint_count++] = q->checkpoint_at[i];
    if (judged)
        request->checkpoint_at[request->checkpoint_count++] =
            plumb_weights_wish(q->stop_at);
    return PLUMB_OK;
}

static plumb_status make_request(const plumb_experiment *x, const plumb_question *q,
                                 plumb_request *request, plumb_error *why)
{
    const plumb_diagnose_settings *s = x->settings;

    plumb_request_init(request);
    request->has_seed = s->has_seed || q->seed_shift > 0;
    request->seed = (s->has_seed ? s->seed : 1) + q->seed_shift;
    request->has_data_seed = s->has_seed && x->takes_data_seed;
    request->data_seed = s->data_seed;
    request->stop_at = q->stop_at;
    request->has_micro_order = q->micro_order > 0;
    request->micro_order = q->micro_order;
    request->lr_scale = q->lr_scale > 0 ? q->lr_scale : 1;
    if ((q->sensors || (x->invariants_fail && !q->unjudged)) && x->offers_observe)
        request->observe_every = s->observe_every > 0 ? s->observe_every : 1;
    if (q->start != NULL && (request->start = plumb_text("%s", q->start)) == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a request");
    return add_wishes(x, q, request, why);
}

/* --- the record --------------------------------------------------------------------------- */

static char *command_of(const plumb_experiment *x, const plumb_question *q,
                        const plumb_request *request, const char *id)
{
    char policy[4096] = "";

    if (q->rules != NULL)
        snprintf(policy, sizeof policy, "%s/runs/%s/policy.json", x->runner.directory, id);
    return plumb_shell_line(request, q->rules != NULL ? policy : NULL,
                            x->settings->command);
}

static plumb_status remember(plumb_experiment *x, const plumb_question *q,
                             const plumb_request *request, const plumb_outcome *outcome,
                             plumb_error *why)
{
    plumb_record *more = realloc(x->records, (x->record_count + 1) * sizeof *x->records);
    char text[600];

    if (more == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the list of runs");
    x->records = more;
    plumb_record *r = &x->records[x->record_count];

    plumb_describe_end(outcome, text, sizeof text);
    *r = (plumb_record){.phase = q->phase,
                        .rules = q->rules != NULL ? json_incref(q->rules) : NULL,
                        .seed = request->seed,
                        .start_step = q->start_step,
                        .last_step = outcome->last_step,
                        .stop_at = q->stop_at,
                        .end = outcome->end,
                        .failure = outcome->failure,
                        .gap = NAN,
                        .seconds = outcome->seconds,
                        .reused = outcome->reused};
    memcpy(r->id, outcome->id, sizeof r->id);
    r->id[sizeof r->id - 1] = 0;
    r->steps_run = plumb_cost_steps(q->start_step, outcome->last_step);
    if (q->seed_shift == 0 && x->twin.history.count > 0)
        plumb_history_gap(&outcome->history, &x->twin.history, 0.9, 0, &r->gap);
    r->label = plumb_text("%s", q->label);
    r->text = plumb_text("%s", text);
    r->command = command_of(x, q, request, r->id);
    if (r->label == NULL || r->text == NULL) {
        free(r->label);
        free(r->text);
        free(r->command);
        json_decref(r->rules);
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the list of runs");
    }
    x->record_count++;
    if (x->arms_left > 0)
        x->arms_left--;
    return tell_end(x, r, why);
}

/* A trainer without a config_hash may have been edited since a kept run was made. */
static plumb_status note_kept(plumb_experiment *x, const plumb_outcome *outcome)
{
    const char *hash = x->declaration.config_hash;

    if (!outcome->reused || x->said_kept || (hash != NULL && hash[0] != 0))
        return PLUMB_OK;
    x->said_kept = true;
    return plumb_limit(
        x, "Runs are kept from an earlier diagnosis of the same command, and the trainer "
           "declares no config_hash: if it or its data were changed since, take another "
           "--study.");
}

/* Rows of the log that are no JSON are worth a sentence: they may be all there is. */
static plumb_status note_bad_lines(plumb_experiment *x, const plumb_question *q,
                                   const plumb_outcome *outcome)
{
    char line[128];

    if (outcome->history.bad_lines == 0)
        return PLUMB_OK;
    plumb_printable(outcome->history.bad_line, line, sizeof line);
    return plumb_limit(
        x,
        "In \"%s\" %zu line(s) of metrics.jsonl were not a JSON object with step "
        "and loss and were left out; the first is line %lld: %s",
        q->label, outcome->history.bad_lines, (long long)outcome->history.bad_line_number,
        line);
}

/* A launcher that begins again by itself: the log has the first try of each step. */
static plumb_status note_restarts(plumb_experiment *x, const plumb_question *q,
                                  const plumb_outcome *outcome)
{
    const size_t lines = outcome->history.backward_steps;
    plumb_status status = PLUMB_OK;
    json_t *events = NULL;

    if (x->said_restart || outcome->run_dir == NULL)
        return PLUMB_OK;
    plumb_events_read_ranks(outcome->run_dir, "restart", &events, NULL);
    const json_t *event = json_array_get(events, 0);

    x->said_restart = lines > 0 || event != NULL;
    if (lines > 0)
        status =
            plumb_limit(x,
                        "In \"%s\" %zu line(s) are of steps that were logged before, as "
                        "after a restart: the first try of each step is read, what the "
                        "second did is not known.",
                        q->label, lines);
    else if (event != NULL)
        status = plumb_limit(x, "In \"%s\" the trainer reports a restart at step %lld.",
                             q->label,
                             (long long)json_integer_value(json_object_get(event, "step")));
    json_decref(events);
    return status;
}

/* An arm with a part of a class cast back has the rest in 8 bits still, which moves it by more than
 * another order of sums does: what strays a little beyond the band is healed where the run itself
 * strays several times further.
 */
double plumb_arm_band(const plumb_experiment *x)
{
    static const double part = 0.25, most = 2;
    double last;

    if (x->failure.predicate == PLUMB_FAILS_NOT)
        return x->band;
    const double reach = part * plumb_history_gap(&x->own.history, &x->twin.history, 0.9,
                                                  PLUMB_GAP_SKIP, &last);

    if (!(reach > x->band))
        return x->band;
    return reach < most * x->band ? reach : most * x->band;
}

static plumb_predicates predicates_of(const plumb_experiment *x, const plumb_question *q)
{
    plumb_predicates predicates = x->predicates;

    predicates.twin = q->paired;
    predicates.band = q->paired == NULL ? 0 : x->band;
    if (q->part)
        predicates.band = plumb_arm_band(x);
    return predicates;
}

static plumb_status ask_once(plumb_experiment *x, const plumb_question *question,
                             plumb_outcome *outcome, plumb_error *why)
{
    plumb_request request;
    plumb_rules rules = {0};
    const plumb_predicates predicates = predicates_of(x, question);
    watched context = {x, question};
    plumb_status status = make_request(x, question, &request, why);

    *outcome = (plumb_outcome){0};
    if (status == PLUMB_OK && question->rules != NULL)
        status = plumb_rules_from_json(question->rules, "rules of an arm", &rules, why);
    if (status != PLUMB_OK)
        goto done;
    const plumb_arm arm = {.label = question->label,
                           .request = &request,
                           .rules = rules.count > 0 ? &rules : NULL,
                           .config_hash = x->declared ? x->declaration.config_hash : NULL,
                           .repeat = question->repeat,
                           .anew = question->anew,
                           .predicates = question->unjudged ? NULL : &predicates};

    status = x->runner.run(x->runner.self, &arm, watch, &context, outcome, why);
    if (status == PLUMB_OK)
        status = remember(x, question, &request, outcome, why);
    if (status == PLUMB_OK)
        status = note_bad_lines(x, question, outcome);
    if (status == PLUMB_OK)
        status = note_restarts(x, question, outcome);
    if (status == PLUMB_OK)
        status = note_kept(x, outcome);
    if (status == PLUMB_OK)
        status = plumb_verdict_save(x, why);
done:
    plumb_rules_free(&rules);
    plumb_request_free(&request);
    if (status != PLUMB_OK)
        plumb_outcome_free(outcome);
    return status;
}

int64_t plumb_overtime(const plumb_experiment *x, int64_t stop_at)
{
    const int64_t end = x->declaration.schedule_steps, longer = stop_at + OVERTIME;

    return end > 0 && longer > end ? (stop_at > end ? stop_at : end) : longer;
}

/* The step since when something has held that the end of the run left undecided; 0: nothing. */
static int64_t undecided(const plumb_experiment *x, const plumb_question *question,
                         const plumb_outcome *outcome)
{
    const plumb_predicates predicates = predicates_of(x, question);
    const int64_t since = question->unjudged || outcome->end != PLUMB_END_REACHED
                              ? 0
                              : plumb_history_pending(&outcome->history, &predicates);

    return since <= question->stop_at ? since : 0;
}

/* What begins in the last steps is decided behind them; what begins there is not asked. */
static plumb_status go_on(plumb_experiment *x, const plumb_question *question,
                          plumb_outcome *outcome, plumb_error *why)
{
    plumb_question longer = *question;
    plumb_status status = PLUMB_OK;

    longer.stop_at = plumb_overtime(x, question->stop_at);
    if (longer.stop_at > question->stop_at) {
        plumb_outcome_free(outcome);
        status = ask_once(x, &longer, outcome, why);
    }
    if (status == PLUMB_OK && outcome->failure.step > question->stop_at) {
        outcome->failure = (plumb_failure){0};
        outcome->end = PLUMB_END_REACHED;
        plumb_rejudged(x, outcome);
    }
    const int64_t since = status == PLUMB_OK ? undecided(x, question, outcome) : 0;

    if (since == 0)
        return status;
    return plumb_limit(x,
                       "In \"%s\" a sign of failure begins at step %lld, too late before "
                       "the end to be judged.",
                       question->label, (long long)since);
}

plumb_status plumb_ask(plumb_experiment *x, const plumb_question *question,
                       plumb_outcome *outcome, plumb_error *why)
{
    plumb_status status = ask_once(x, question, outcome, why);

    if (status == PLUMB_OK && undecided(x, question, outcome) > 0)
        status = go_on(x, question, outcome, why);
    if (status == PLUMB_OK)
        status = plumb_weights_judge(x, question, outcome, why);
    return status == PLUMB_OK ? plumb_invariants_judge(x, question, outcome, why) : status;
}

/* --- arms of the search --------------------------------------------------------------------- */

/* An arm whose batches differ, or that was refused, is no answer; that, and one that was ignored,
 * is said.
 */
static plumb_status check_arm(plumb_experiment *x, const char *label,
                              const plumb_outcome *outcome, bool *counts)
{
    bool by_hash;

    *counts = true;
    if (outcome->end == PLUMB_END_REFUSED) {
        *counts = false;
        return plumb_limit(x, "The trainer refused \"%s\", so it was not tried.", label);
    }
    if (plumb_unjudged(&outcome->failure)) {
        *counts = false;
        return plumb_limit(
            x, "The weights of \"%s\" could not be judged in bf16: it counts for nothing.",
            label);
    }
    if (plumb_history_confounded(&outcome->history, &x->own.history) > 0) {
        *counts = false;
        return plumb_limit(
            x, "\"%s\" saw other batches than the run: it counts for nothing.", label);
    }
    if (outcome->history.count > 0 &&
        plumb_history_differ(&outcome->history, &x->own.history, &by_hash) == 0 &&
        !plumb_survived(x, outcome))
        return plumb_limit(
            x,
            "\"%s\" gave the same numbers as the unchanged run on every common "
            "step: the trainer ignored it, or it changes nothing.",
            label);
    return PLUMB_OK;
}

plumb_status plumb_ask_arm(plumb_experiment *x, const char *phase, const char *label,
                           json_t *rules, plumb_answer *answer, plumb_error *why)
{
    plumb_outcome outcome;
    const plumb_question question = {
        .phase = phase,
        .label = label,
        .rules = rules,
        .stop_at = x->horizon,
        .start = x->start,
        .start_step = x->start_step,
        .paired = x->start != NULL ? &x->start_twin.history : &x->twin.history,
        .part = x->class_count > 0 || x->all_classes,
    };
    plumb_status status = plumb_ask(x, &question, &outcome, why);

    *answer = (plumb_answer){0};
    if (status != PLUMB_OK)
        return status;
    bool counts;
    double last;

    x->search_arms++;
    status = check_arm(x, label, &outcome, &counts);
    if (counts)
        *answer = (plumb_answer){.heals = plumb_survived(x, &outcome),
                                 .failure = outcome.failure,
                                 .gap = plumb_history_gap(&outcome.history, question.paired,
                                                          0.9, PLUMB_GAP_SKIP, &last)};
    plumb_outcome_free(&outcome);
    return status;
}
