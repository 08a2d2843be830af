/* --plan: what would be run and what it would cost.  A few steps are run to time them. */
#include "diagnose/experiment.h"

#include "diagnose/cost.h"

#include <math.h>

enum { TIMING_STEPS = 5 };

static size_t count_classes(const plumb_experiment *x, size_t *sites)
{
    bool present[PLUMB_CLASS_COUNT] = {false};
    size_t classes = 0;

    *sites = 0;
    for (size_t i = 0; i < x->declaration.site_count; i++) {
        if (!x->low[i])
            continue;
        ++*sites;
        present[x->declaration.sites[i].class_] = true;
    }
    for (int c = 0; c < PLUMB_CLASS_COUNT; c++)
        classes += present[c];
    return classes;
}

/* *seconds a step, or NaN with what became of the trainer in ending. */
static plumb_status time_steps(plumb_experiment *x, double *seconds, char *ending,
                               size_t size, plumb_error *why)
{
    plumb_outcome outcome;
    const plumb_question question = {.phase = "check",
                                     .label = "a few steps, to time them",
                                     .stop_at = TIMING_STEPS,
                                     .unjudged = true};
    const plumb_status status = plumb_ask(x, &question, &outcome, why);

    if (status != PLUMB_OK)
        return status;
    *seconds =
        outcome.last_step > 0 ? outcome.seconds / (double)outcome.last_step : (double)NAN;
    plumb_describe_end(&outcome, ending, size);
    plumb_outcome_free(&outcome);
    return PLUMB_OK;
}

static plumb_status state_plan(plumb_experiment *x, size_t classes, size_t sites,
                               size_t search, size_t proof)
{
    const int bands = x->offers_micro_order && !(x->settings->band > 0) ? 2 : 0;
    plumb_status status = plumb_state(
        x, "seen",
        "Search, at most about %zu runs: itself and its repeat, the twin, %d for the noise "
        "band, %zu classes, halving of %zu sites, up to %d counterfactuals.",
        search, bands, classes, sites, PLUMB_TRIAL_COUNT);

    if (status == PLUMB_OK)
        status =
            plumb_state(x, "seen",
                        "Proof, at most about %zu runs: the fix on %d seeds, beside the "
                        "unchanged run and the twin, its reversal%s.",
                        proof, 1 + x->settings->seeds,
                        x->offers_lr_scale ? ", a lower learning rate" : "");
    return status;
}

plumb_status plumb_stage_plan(plumb_experiment *x, plumb_error *why)
{
    size_t sites;
    const size_t classes = count_classes(x, &sites);
    const size_t groups[] = {sites};
    const size_t search = 3 + (x->offers_micro_order ? (size_t)2 : 0) +
                          plumb_cost_search_arms(classes, groups, 1) +
                          (sites > 0 ? (size_t)PLUMB_TRIAL_COUNT : 0);
    const size_t proof =
        2 + 3 * (size_t)x->settings->seeds + (x->offers_lr_scale ? (size_t)1 : 0);

    x->arms_left = search + proof;
    x->planned = (double)(search + proof);
    if (!x->settings->plan_only)
        return PLUMB_OK;
    double seconds;
    char ending[400];
    plumb_status status = time_steps(x, &seconds, ending, sizeof ending, why);

    if (status == PLUMB_OK && isnan(seconds))
        return plumb_settle(x, "cannot tell", 2, "Nothing to plan: %s.", ending);
    if (status == PLUMB_OK)
        status = state_plan(x, classes, sites, search, proof);
    if (status != PLUMB_OK)
        return status;
    return plumb_settle(/* nothing was looked for, so nothing is amiss */
                        x, "cannot tell", 0,
                        "Plan only: at most about %zu runs, each from the start to the "
                        "failure "
                        "and the margin behind it; if that is all %lld steps, %.0f s in "
                        "all.",
                        search + proof, (long long)x->look_to,
                        (double)(search + proof) * (double)x->look_to * seconds);
}
