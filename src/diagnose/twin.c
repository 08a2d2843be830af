/* The control: everything that has fewer bits than bf16 in bf16, same seed, same batches.  If it
 * fails too, it is not the arithmetic.  If it changes nothing, it was ignored, and nothing may
 * rest on it.
 */
#include "diagnose/experiment.h"

#include "diagnose/cost.h"

#include <math.h>
#include <stdio.h>

static size_t count_low(const plumb_experiment *x)
{
    size_t count = 0;

    for (size_t i = 0; i < x->declaration.site_count; i++)
        count += x->low[i];
    return count;
}

/* Both arms fail: would a lower learning rate help them?  A hint, not part of the proof. */
static plumb_status try_rate(plumb_experiment *x, char *hint, size_t size, plumb_error *why)
{
    const double scale = x->settings->lr_scale > 0 ? x->settings->lr_scale : 0.3;
    bool alive[2] = {false, false};
    json_t *rules = plumb_rules_everywhere("bf16");
    plumb_status status = PLUMB_OK;

    for (int i = 0; i < 2 && status == PLUMB_OK; i++) {
        plumb_outcome outcome;
        const plumb_question question = {.phase = "mask",
                                         .label = i == 0 ? "the run, lower learning rate"
                                                         : "bf16, lower learning rate",
                                         .rules = i == 0 ? NULL : rules,
                                         .stop_at = x->horizon,
                                         .lr_scale = scale};

        status = plumb_ask(x, &question, &outcome, why);
        if (status == PLUMB_OK) {
            alive[i] = plumb_survived(x, &outcome);
            plumb_outcome_free(&outcome);
        }
    }
    json_decref(rules);
    if (status != PLUMB_OK)
        return status;
    snprintf(hint, size, "At %g of the learning rate %s", scale,
             alive[0] && alive[1] ? "both survive: look there first."
             : alive[0]           ? "the run survives and bf16 does not."
             : alive[1]           ? "bf16 survives and the run does not."
                                  : "both fail all the same: look at the data, the "
                                    "initialisation and the model.");
    x->mask = alive[0];
    snprintf(x->mask_text, sizeof x->mask_text, "%s", hint);
    return plumb_state(x, "compared", "%s", hint);
}

static plumb_status settle_both_fail(plumb_experiment *x, plumb_error *why)
{
    char hint[200] = "Look at the learning rate, the data and the initialisation.";
    const long long own = (long long)x->failure.step,
                    twin = (long long)x->twin.failure.step;
    plumb_status status = plumb_state(
        x, "compared", "The bf16 twin fails too, at step %lld (the run itself: step %lld).",
        twin, own);

    if (status == PLUMB_OK && x->offers_lr_scale) {
        status = plumb_question_now(x, why, "Both fail. Does a lower learning rate help?");
        if (status == PLUMB_OK)
            status = try_rate(x, hint, sizeof hint, why);
    }
    if (status != PLUMB_OK)
        return status;
    return plumb_settle(
        x, "not numerics", 1,
        "Not the FP8 arithmetic: the bf16 twin fails too, at step %lld against "
        "%lld. %s",
        twin, own, hint);
}

static plumb_status settle_ignored(plumb_experiment *x)
{
    if (x->declaration.site_count > 0 && count_low(x) == 0) {
        if (x->failure.predicate == PLUMB_FAILS_NOT)
            return plumb_settle(
                x, "healthy", 0,
                "No sign of failure up to step %lld, and no site has fewer bits "
                "than bf16.",
                (long long)x->own.last_step);
        return plumb_settle(
            x, "not numerics", 1,
            "No site of this run has fewer bits than bf16, and it fails at step "
            "%lld all the same: not FP8.",
            (long long)x->failure.step);
    }
    return plumb_settle(
        x, "cannot tell", 2,
        "The trainer ignored the policy: with everything asked to be in bf16 every common "
        "step "
        "has the same numbers as without, so no arm of this trainer means anything.");
}

static plumb_status check_twin(plumb_experiment *x, plumb_error *why)
{
    const plumb_outcome *twin = &x->twin;
    bool by_hash;
    char text[400];

    plumb_describe_end(twin, text, sizeof text);
    if (twin->end == PLUMB_END_REFUSED)
        return plumb_settle(x, "cannot tell", 2, "The trainer cannot run in bf16: %s.",
                            text);
    if (twin->history.count == 0)
        return plumb_settle(x, "cannot tell", 2, "The bf16 twin logged no step: %s.", text);
    const int64_t other = plumb_history_confounded(&x->own.history, &twin->history);

    if (other > 0)
        return plumb_settle(
            x, "cannot tell", 2,
            "The run and its bf16 twin saw different batches from step %lld on: "
            "they are confounded, and nothing follows from comparing them.",
            (long long)other);
    if (plumb_history_differ(&x->own.history, &twin->history, &by_hash) == 0)
        return settle_ignored(x);
    if (plumb_failed(x, twin)) {
        if (x->failure.predicate != PLUMB_FAILS_NOT)
            return settle_both_fail(x, why);
        return plumb_settle(
            x, "cannot tell", 2,
            "The bf16 twin itself %s, and the run does not: there is no healthy "
            "reference.",
            text);
    }
    if (!plumb_survived(x, twin))
        return plumb_settle(x, "cannot tell", 2,
                            "The bf16 twin did not get to step %lld: %s.",
                            (long long)x->horizon, text);
    return PLUMB_OK;
}

plumb_status plumb_stage_twin(plumb_experiment *x, plumb_error *why)
{
    json_t *rules = plumb_rules_everywhere("bf16");
    plumb_status status =
        plumb_question_now(x, why, "Does it fail in bf16, with the same seed and batches?");
    const plumb_question question = {.phase = "twin",
                                     .label = "bf16 twin",
                                     .rules = rules,
                                     .stop_at = plumb_overtime(x, x->horizon)};

    if (status == PLUMB_OK)
        status = plumb_ask(x, &question, &x->twin, why);
    json_decref(rules);
    if (status == PLUMB_OK)
        status = check_twin(x, why);
    if (status != PLUMB_OK || x->settled)
        return status;
    plumb_history_gap(&x->own.history, &x->twin.history, 0.9, 0, &x->twin_gap);
    if (x->failure.predicate == PLUMB_FAILS_NOT)
        return PLUMB_OK;
    return plumb_state(x, "compared",
                       "The bf16 twin %s up to step %lld, %s: the failure needs the low "
                       "precision.",
                       "does not fail", (long long)x->twin.last_step,
                       plumb_history_confounded(&x->own.history, &x->twin.history) == 0
                           ? "on the same batches"
                           : "with the same seed");
}
