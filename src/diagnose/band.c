/* The noise band: how far two healthy bf16 runs drift apart when only the order of their sums
 * changes.  A gap inside it means nothing.  With the band known, a run that shows no failure of
 * its own is compared with its twin.
 */
#include "diagnose/experiment.h"

#include "diagnose/cost.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ORDERS = 2, SHORTEST = 10 };

/* Nats.  Rounding in 8 bits itself moves a healthy run by a few hundredths. */
static const double least_band = 0.05, band_without_measure = 0.1, safety = 3;

/* One order of sums is enough where twice its drift would not move the band. */
static const double no_doubt = 0.5;

/* What the runs with other orders showed. */
typedef struct drift {
    int runs; /* that got to their end */
    double largest;
    bool moved;
} drift;

static plumb_status measure(plumb_experiment *x, drift *d, plumb_error *why)
{
    json_t *rules = plumb_rules_everywhere("bf16");
    plumb_status status = PLUMB_OK;

    *d = (drift){0};
    for (uint64_t order = 1; order <= ORDERS && status == PLUMB_OK; order++) {
        if (d->moved && d->largest < no_doubt * least_band / safety)
            break; /* far below what counts at all */
        plumb_outcome outcome;
        bool by_hash;
        char label[48];

        snprintf(label, sizeof label, "bf16 twin, other order of sums (%llu)",
                 (unsigned long long)order);
        const plumb_question question = {.phase = "band",
                                         .label = label,
                                         .rules = rules,
                                         .stop_at = x->horizon,
                                         .micro_order = order};

        status = plumb_ask(x, &question, &outcome, why);
        if (status != PLUMB_OK)
            break;
        double last;
        const double gap = plumb_history_gap(&outcome.history, &x->twin.history, 0.9,
                                             PLUMB_GAP_SKIP, &last);

        if (plumb_survived(x, &outcome) && isfinite(gap)) {
            d->runs++;
            d->largest = gap > d->largest ? gap : d->largest;
            d->moved |=
                plumb_history_differ(&outcome.history, &x->twin.history, &by_hash) != 0;
        }
        plumb_outcome_free(&outcome);
    }
    json_decref(rules);
    return status;
}

static plumb_status assume(plumb_experiment *x, const char *reason)
{
    snprintf(x->band_text, sizeof x->band_text, "%.3f nats, an assumption: %s", x->band,
             reason);
    return plumb_limit(x, "The noise band of %.2f nats is assumed: %s.", x->band, reason);
}

static plumb_status set_band(plumb_experiment *x, plumb_error *why)
{
    drift d;

    if (x->settings->band > 0) {
        x->band = x->settings->band;
        snprintf(x->band_text, sizeof x->band_text, "%.3f nats, as asked", x->band);
        return PLUMB_OK;
    }
    x->band = band_without_measure;
    if (!x->offers_micro_order)
        return assume(x, "the trainer cannot change the order of its sums");
    const plumb_status status = measure(x, &d, why);

    if (status != PLUMB_OK)
        return status;
    if (d.runs == 0)
        return assume(x, "no run with another order of sums got to its end");
    if (!d.moved)
        return assume(x,
                      "another order of micro-batches changed nothing (one micro-batch a "
                      "step?)");
    x->band = safety * d.largest > least_band ? safety * d.largest : least_band;
    snprintf(
        x->band_text, sizeof x->band_text,
        "%.3f nats: %g times the largest smoothed gap (%.4f) between %d orders of the same "
        "bf16 sums, at least %.2f",
        x->band, safety, d.largest, d.runs + 1, least_band);
    return PLUMB_OK;
}

/* The run beside its twin.  A gap that begins in its last steps needs a few more of them. */
static plumb_status judge_beside_twin(plumb_experiment *x, plumb_failure *failure,
                                      plumb_error *why)
{
    plumb_predicates predicates = x->predicates;
    const int64_t wish = plumb_weights_wish(x->own.last_step);
    const plumb_question question = {.phase = "twin",
                                     .label = "the run itself, beside its twin",
                                     .stop_at = x->own.last_step,
                                     .sensors = true,
                                     .paired = &x->twin.history,
                                     .checkpoint_at = &wish,
                                     .checkpoint_count = wish > 0};
    plumb_outcome longer;

    predicates.twin = &x->twin.history;
    predicates.band = x->band;
    *failure = plumb_history_judge(&x->own.history, &predicates);
    if (x->own.end != PLUMB_END_REACHED || failure->predicate != PLUMB_FAILS_NOT ||
        plumb_history_pending(&x->own.history, &predicates) == 0)
        return PLUMB_OK;
    const plumb_status status = plumb_ask(x, &question, &longer, why);

    if (status != PLUMB_OK)
        return status;
    *failure = longer.failure;
    plumb_outcome_free(&x->own);
    x->own = longer;
    return PLUMB_OK;
}

static plumb_status judge_gap(plumb_experiment *x, plumb_error *why)
{
    plumb_failure failure;
    plumb_status status = judge_beside_twin(x, &failure, why);

    if (status != PLUMB_OK)
        return status;

    if (failure.predicate == PLUMB_FAILS_NOT && x->own.history.count < SHORTEST)
        return plumb_settle(
            x, "cannot tell", 2,
            "No sign of failure up to step %lld, but that is too short a run to be "
            "called healthy: a failure of the loss has to hold for %d steps.",
            (long long)x->own.last_step, SHORTEST);
    if (failure.predicate == PLUMB_FAILS_NOT)
        return PLUMB_OK;
    char text[400];

    x->failure = failure;
    x->own.failure = failure;
    plumb_rejudged(x, &x->own);
    x->horizon =
        plumb_cost_horizon(failure.step, failure.decided, x->settings->margin, x->look_to);
    plumb_describe_failure(&failure, text, sizeof text);
    return plumb_state(x, "compared", "The run %s.", text);
}

/* Where parts of a class may stray further than the run itself, the verdict says so. */
static void say_arm_band(plumb_experiment *x)
{
    const double arm = plumb_arm_band(x);
    const size_t used = strlen(x->band_text);

    if (arm > x->band && used < sizeof x->band_text)
        snprintf(
            x->band_text + used, sizeof x->band_text - used,
            "; %.3f for parts of a class, a quarter of what the run itself strays at most",
            arm);
}

plumb_status plumb_stage_band(plumb_experiment *x, plumb_error *why)
{
    plumb_status status = PLUMB_OK;

    if (x->offers_micro_order && !(x->settings->band > 0))
        status = plumb_question_now(x, why, "How far do two healthy runs drift apart?");
    if (status == PLUMB_OK)
        status = set_band(x, why);
    if (status == PLUMB_OK && x->failure.predicate == PLUMB_FAILS_NOT)
        status = judge_gap(x, why);
    if (status == PLUMB_OK && !x->settled)
        say_arm_band(x);
    return status;
}
