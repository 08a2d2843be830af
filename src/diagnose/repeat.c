/* The run itself, and the same request once more: does it fail, and does it fail again?  The
 * repeat runs without sensors, so one run answers two questions: whether the failure repeats,
 * and whether the sensors had a hand in it.  It leaves the checkpoints from which the search may
 * begin, so it is asked when the twin has shown where the run leaves it.
 */
#include "diagnose/experiment.h"

#include "diagnose/cost.h"

#include <stdio.h>

/* FIRST_MORE: the proof asks for repeat 3. */
enum { SHORT_REPEAT = 50, EXPECTED_ARMS = 12, MORE_REPEATS = 3, FIRST_MORE = 4 };

/* A gap is smoothed, so what opens it lies some steps before it shows. */
enum { BEFORE_FAILURE = 5, BEFORE_GAP = 10, NEAR = 25 };
static const double opening = 0.2; /* of the band */

/* The end of a run that is no training result, as a verdict. */
static plumb_status settle_no_result(plumb_experiment *x, const plumb_outcome *outcome)
{
    char text[400], line[128];
    const int exit =
        outcome->end == PLUMB_END_NO_START || outcome->end == PLUMB_END_REFUSED ? 3 : 2;

    plumb_describe_end(outcome, text, sizeof text);
    plumb_printable(outcome->history.bad_line, line, sizeof line);
    if (outcome->history.count == 0 && outcome->history.bad_lines > 0)
        return plumb_settle(
            x, "cannot tell", exit,
            "The run wrote %zu line(s) to metrics.jsonl, none of them a JSON "
            "object with step and loss; the first is: %s",
            outcome->history.bad_lines, line);
    if (outcome->history.count == 0)
        return plumb_settle(x, "cannot tell", exit, "The run logged no step: %s.", text);
    if (outcome->history.bad_lines > 0)
        return plumb_settle(
            x, "cannot tell", exit,
            "The log breaks off or is damaged: line %lld of metrics.jsonl is no "
            "whole JSON object with step and loss (%s), and %s.",
            (long long)outcome->history.bad_line_number, line, text);
    return plumb_settle(
        x, "cannot tell", exit,
        "The run ended before plumb could judge it, which is no training result: "
        "%s.",
        text);
}

/* A trainer that says nothing of its end is believed when its exit status is 0 and every line of
 * its log is whole.
 */
static bool ended_cleanly(const plumb_outcome *outcome)
{
    return outcome->end == PLUMB_END_REACHED ||
           (outcome->end == PLUMB_END_DIED && outcome->exit_status == 0 &&
            outcome->history.bad_lines == 0);
}

plumb_status plumb_stage_own(plumb_experiment *x, plumb_error *why)
{
    plumb_status status = plumb_question_now(x, why, "Does the run fail within %lld steps?",
                                             (long long)x->look_to);
    const int64_t wish = plumb_weights_wish(x->look_to);
    const plumb_question question = {.phase = "repeat",
                                     .label = "the run itself",
                                     .stop_at = x->look_to,
                                     .sensors = true,
                                     .checkpoint_at = &wish,
                                     .checkpoint_count = wish > 0};

    if (status == PLUMB_OK)
        status = plumb_ask(x, &question, &x->own, why);
    if (status != PLUMB_OK)
        return status;
    const plumb_failure *f = &x->own.failure;

    if (x->own.history.count == 0 ||
        (f->predicate == PLUMB_FAILS_NOT && !ended_cleanly(&x->own)))
        return settle_no_result(x, &x->own);
    if (f->predicate == PLUMB_FAILS_NOT) {
        x->horizon = x->own.last_step;
        return plumb_state(
            x, "seen",
            "No sign of failure in the run alone up to step %lld: finite, and no "
            "rise above its own minimum.",
            (long long)x->own.last_step);
    }
    char text[400];

    x->failure = *f;
    x->horizon = plumb_cost_horizon(f->step, f->decided, x->settings->margin,
                                    x->declaration.schedule_steps);
    plumb_describe_failure(f, text, sizeof text);
    return plumb_state(x, "seen", "The run %s.", text);
}

/* --- the repeat ----------------------------------------------------------------------- */

/* Weights that have adapted and violated invariants are no matter of one more run's loss: such a run
 * is repeated for its digits alone.
 */
static bool loss_fails(const plumb_experiment *x)
{
    return x->failure.predicate != PLUMB_FAILS_NOT &&
           x->failure.predicate != PLUMB_FAILS_ARITHMETIC &&
           x->failure.predicate != PLUMB_FAILS_INVARIANT;
}

static plumb_question same_again(const plumb_experiment *x, const char *label, int repeat)
{
    const bool fails = loss_fails(x), brief = !fails && x->horizon > SHORT_REPEAT;

    return (plumb_question){
        .phase = "repeat",
        .label = label,
        .stop_at = brief ? SHORT_REPEAT : x->horizon,
        .repeat = repeat,
        .unjudged = x->failure.predicate != PLUMB_FAILS_NOT && !fails,
        .paired = x->failure.predicate == PLUMB_FAILS_GAP ? &x->twin.history : NULL};
}

static plumb_status settle_not_reproducible(plumb_experiment *x, int64_t differ)
{
    const bool own_fails = loss_fails(x);
    const plumb_outcome *one = own_fails ? &x->own : &x->again,
                        *other = own_fails ? &x->again : &x->own;
    char text[400], rest[80] = "does not fail", parting[60] = "";

    plumb_describe_failure(&one->failure, text, sizeof text);
    if (other->failure.predicate != PLUMB_FAILS_NOT)
        snprintf(rest, sizeof rest, "fails at step %lld", (long long)other->failure.step);
    if (differ > 0)
        snprintf(parting, sizeof parting, "; they part at step %lld", (long long)differ);
    return plumb_settle(x, "not reproducible", 2,
                        "The same request twice gives two results: one run %s, the other "
                        "%s%s. Make the run deterministic first.",
                        text, rest, parting);
}

static plumb_status say_same(plumb_experiment *x, bool by_hash)
{
    const bool sensors = x->offers_observe;
    char until[80];

    if (x->repeat_open)
        snprintf(until, sizeof until, " up to step %lld, before the failure,",
                 (long long)x->again.last_step);
    return plumb_state(
        x, "compared",
        "Repeated with the same seed%s the run is the same %s on every common step%s%s.",
        x->repeat_open ? until : ",",
        by_hash ? "bit for bit (state_hash)" : "in every printed digit of the loss",
        loss_fails(x) && !x->repeat_open ? ", failure included" : "",
        sensors ? "; the repeat had its sensors off, so they do not move the result" : "");
}

static bool similar_steps(int64_t a, int64_t b)
{
    const int64_t apart = a > b ? a - b : b - a, allowed = a / 4 > 10 ? a / 4 : 10;

    return apart <= allowed;
}

/* A trainer that is not deterministic may fail twice at about the same step by chance: a failure
 * that belongs to the request comes back every time.
 */
static plumb_status insist(plumb_experiment *x, int64_t differ, plumb_error *why)
{
    plumb_status status = PLUMB_OK;

    for (int k = 0; k < MORE_REPEATS && status == PLUMB_OK && !x->settled; k++) {
        plumb_outcome more;
        char label[48];

        snprintf(label, sizeof label, "the same again, time %d", k + 3);
        const plumb_question question = same_again(x, label, FIRST_MORE + k);

        status = plumb_ask(x, &question, &more, why);
        if (status != PLUMB_OK)
            break;
        const bool fails = more.failure.predicate != PLUMB_FAILS_NOT;

        if (!fails && !ended_cleanly(&more)) {
            status = settle_no_result(x, &more);
            plumb_outcome_free(&more);
        } else if (!fails || !similar_steps(x->own.failure.step, more.failure.step)) {
            plumb_outcome_free(&x->again);
            x->again = more;
            status = settle_not_reproducible(x, differ);
        } else {
            plumb_outcome_free(&more);
        }
    }
    return status;
}

/* The repeat differs.  Was it the sensors, or is the trainer not deterministic? */
static plumb_status separate(plumb_experiment *x, int64_t differ, plumb_error *why)
{
    plumb_outcome third;
    bool by_hash;
    plumb_question question = same_again(x, "the run itself, a third time, sensors on", 2);

    question.sensors = true;
    plumb_status status = plumb_ask(x, &question, &third, why);

    if (status != PLUMB_OK)
        return status;
    if (third.history.count > 0 &&
        plumb_history_differ(&x->own.history, &third.history, &by_hash) == 0) {
        status =
            plumb_state(x, "compared",
                        "The sensors move the result: with them off the run differs from "
                        "step %lld, with them on it repeats.",
                        (long long)differ);
        if (status == PLUMB_OK)
            status = plumb_limit(x, "The sensors of this trainer change its numbers; the "
                                    "run itself and the fix from the start have them on, "
                                    "all other runs off.");
    } else {
        if (loss_fails(x))
            status = insist(x, differ, why);
        if (status == PLUMB_OK && !x->settled)
            status = plumb_limit(
                x,
                "The run is not deterministic: the same request differs from step "
                "%lld. A difference between two arms may be chance.",
                (long long)differ);
    }
    plumb_outcome_free(&third);
    return status;
}

static plumb_status judge_repeat(plumb_experiment *x, plumb_error *why)
{
    bool by_hash = false;
    const int64_t differ =
        plumb_history_differ(&x->own.history, &x->again.history, &by_hash);
    const bool own_fails = loss_fails(x);
    const bool again_fails = x->again.failure.predicate != PLUMB_FAILS_NOT;

    if (!again_fails && !ended_cleanly(&x->again))
        return settle_no_result(x, &x->again);
    if (differ == 0 && own_fails == again_fails)
        return say_same(x, by_hash);
    if (own_fails != again_fails ||
        (own_fails && !similar_steps(x->own.failure.step, x->again.failure.step)))
        return settle_not_reproducible(x, differ);
    plumb_status status = plumb_state(
        x, "compared", "Repeated with the same seed, the run differs from step %lld on%s.",
        (long long)differ,
        own_fails ? ", but it fails again and at about the same step" : "");

    if (status == PLUMB_OK && x->offers_observe)
        return separate(x, differ, why);
    if (status == PLUMB_OK && own_fails)
        status = insist(x, differ, why);
    if (status == PLUMB_OK && !x->settled)
        status =
            plumb_limit(x, "The run is not deterministic: a difference between two arms "
                           "may be chance.");
    return status;
}

/* A checkpoint before the fault: where the gap begins to open, if that is near; what looks like it long
 * before is noise.
 */
static int64_t last_wish(const plumb_experiment *x)
{
    const int64_t f = x->failure.step, apart = plumb_apart_from(x, 1);
    const int64_t opens = plumb_apart_from(x, opening);

    if (apart > f)
        return f - BEFORE_FAILURE;
    return opens >= apart - NEAR ? opens - BEFORE_FAILURE : apart - BEFORE_GAP;
}

/* Asks for the repeat; to the last checkpoint only, if there is one to begin at. */
static plumb_status repeat(plumb_experiment *x, bool open, plumb_error *why)
{
    const int64_t f = x->failure.step, close = last_wish(x);
    const int64_t wishes[] = {close / 2, close};
    const bool wish =
        loss_fails(x) && plumb_cost_start_pays(close, f, x->horizon, EXPECTED_ARMS);
    char until[40] = "", label[80];
    plumb_question question = same_again(x, label, 1);

    question.checkpoint_at = wishes;
    question.checkpoint_count = wish ? 2 : 0;
    x->repeat_open = open && wish && x->offers_checkpoint && x->declaration.site_count > 0;
    if (x->repeat_open) {
        question.stop_at = close;
        question.unjudged = true;
        snprintf(until, sizeof until, " to step %lld", (long long)close);
    }
    snprintf(label, sizeof label, "the same again%s%s", until,
             x->offers_observe ? ", sensors off" : "");
    plumb_status status = plumb_question_now(x, why, "Does it do the same again?");

    if (status == PLUMB_OK)
        status = plumb_ask(x, &question, &x->again, why);
    return status;
}

/* The whole of it, where the way to the failure was not repeated from a checkpoint. */
static plumb_status repeat_whole(plumb_experiment *x, plumb_error *why)
{
    plumb_outcome_free(&x->again);
    const plumb_status status = repeat(x, false, why);

    return status == PLUMB_OK ? judge_repeat(x, why) : status;
}

plumb_status plumb_stage_repeat(plumb_experiment *x, plumb_error *why)
{
    bool by_hash = false;
    const plumb_status status = repeat(x, true, why);

    if (status != PLUMB_OK)
        return status;
    if (!x->repeat_open)
        return judge_repeat(x, why);
    if (!ended_cleanly(&x->again) ||
        plumb_history_differ(&x->own.history, &x->again.history, &by_hash) != 0)
        return repeat_whole(x, why);
    return say_same(x, by_hash);
}

plumb_status plumb_stage_repeat_rest(plumb_experiment *x, plumb_error *why)
{
    return x->repeat_open ? repeat_whole(x, why) : PLUMB_OK;
}
