/* Violations in statistics and events, and the stage that asks for them.
 *
 * Some faults show in no loss for as long as anybody looks: a scale of another step on an operand
 * of one layer, a rank that the all-reduce forgot.  They break something that must hold in any
 * run, so they need no twin.
 */
#include "diagnose/invariants.h"

#include "diagnose/cost.h"
#include "diagnose/experiment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOLDS = 10 /* samples in a row, or steps with an event */ };

static const double within = 1.5;

/* --- in samples ------------------------------------------------------------------------- */

/* Decoded over source maximum where that must be about 1; else 1. */
static double scale_ratio(const plumb_sample *s)
{
    if (s->saturated > 0 || s->nonfinite > 0 || s->flushed > s->total / 2 ||
        !(s->amax > 0) || !isfinite(s->amax))
        return 1;
    return (double)s->decoded_amax / (double)s->amax;
}

/* How long the present violation of a site has lasted. */
typedef struct streak {
    int length;
    int64_t step;
    double value;
} streak;

static bool extend(streak *k, const plumb_sample *s)
{
    const double ratio = scale_ratio(s);

    if (ratio <= within && ratio >= 1 / within) {
        k->length = 0;
        return false;
    }
    if (k->length++ == 0) {
        k->step = (int64_t)s->step;
        k->value = ratio;
    }
    return k->length == HOLDS;
}

plumb_status plumb_violation_in_samples(const plumb_samples *samples,
                                        plumb_violation *violation, bool *found,
                                        plumb_error *why)
{
    streak *streaks = calloc(samples->site_count + 1, sizeof *streaks);

    *found = false;
    *violation = (plumb_violation){0};
    if (streaks == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu sites",
                          samples->site_count);
    for (size_t i = 0; i < samples->count; i++) {
        const plumb_sample *s = &samples->at[i];
        streak *k = &streaks[s->site < samples->site_count ? s->site : samples->site_count];

        if (!extend(k, s) || s->site >= samples->site_count ||
            (*found && violation->step <= k->step))
            continue;
        *found = true;
        *violation = (plumb_violation){.name = "scale belongs to the data",
                                       .step = k->step,
                                       .decided = (int64_t)s->step,
                                       .value = k->value,
                                       .bound = k->value > 1 ? within : 1 / within};
        snprintf(violation->site, sizeof violation->site, "%s",
                 samples->site_names[s->site]);
    }
    free(streaks);
    return PLUMB_OK;
}

/* --- in events -------------------------------------------------------------------------- */

static const char *word(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));

    return text != NULL ? text : "";
}

static int64_t step_of(const json_t *event)
{
    return json_integer_value(json_object_get(event, "step"));
}

static bool is_violation(const json_t *event)
{
    return strcmp(word(event, "event"), "invariant") == 0 && step_of(event) > 0;
}

/* Counts the different steps of the events like events[first], from there on. */
static int64_t tenth_step(const json_t *events, size_t first)
{
    const json_t *one = json_array_get(events, first);
    int64_t last = 0;
    int steps = 0;

    for (size_t i = first; i < json_array_size(events) && steps < HOLDS; i++) {
        const json_t *other = json_array_get(events, i);

        if (!is_violation(other) || step_of(other) <= last ||
            strcmp(word(one, "name"), word(other, "name")) != 0 ||
            strcmp(word(one, "site"), word(other, "site")) != 0)
            continue;
        last = step_of(other);
        steps++;
    }
    return steps == HOLDS ? last : 0;
}

bool plumb_violation_in_events(const json_t *events, plumb_violation *violation)
{
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        const int64_t decided = is_violation(event) ? tenth_step(events, i) : 0;

        if (decided == 0)
            continue;
        *violation =
            (plumb_violation){.step = step_of(event),
                              .decided = decided,
                              .value = json_number_value(json_object_get(event, "value")),
                              .bound = json_number_value(json_object_get(event, "bound"))};
        plumb_printable(word(event, "name"), violation->name, sizeof violation->name);
        plumb_printable(word(event, "site"), violation->site, sizeof violation->site);
        return true;
    }
    return false;
}

/* --- of a run ----------------------------------------------------------------------------- */

/* The earlier of what the statistics and the events of a run show. */
static plumb_status find(const char *run_dir, plumb_violation *violation, bool *found,
                         plumb_error *why)
{
    plumb_samples samples = {0};
    plumb_violation said;
    json_t *events = NULL;
    size_t bad_lines;
    plumb_status status = PLUMB_OK;

    *found = false;
    if (run_dir == NULL)
        return PLUMB_OK;
    if (plumb_samples_read(run_dir, &samples, NULL) == PLUMB_OK)
        status = plumb_violation_in_samples(&samples, violation, found, why);
    if (status == PLUMB_OK &&
        plumb_events_read(run_dir, &events, &bad_lines, NULL) == PLUMB_OK &&
        plumb_violation_in_events(events, &said) &&
        (!*found || said.step < violation->step)) {
        *violation = said;
        *found = true;
    }
    json_decref(events);
    plumb_samples_free(&samples);
    return status;
}

static plumb_failure failure_of(const plumb_violation *v)
{
    return (plumb_failure){PLUMB_FAILS_INVARIANT, v->step, v->decided, v->value, v->bound};
}

plumb_status plumb_invariants_judge(plumb_experiment *x, const plumb_question *question,
                                    plumb_outcome *outcome, plumb_error *why)
{
    plumb_violation violation;
    bool found;

    if (!x->invariants_fail || question->unjudged || outcome->end != PLUMB_END_REACHED ||
        outcome->failure.predicate != PLUMB_FAILS_NOT)
        return PLUMB_OK;
    const plumb_status status = find(outcome->run_dir, &violation, &found, why);

    if (status != PLUMB_OK || !found || violation.step > question->stop_at)
        return status;
    outcome->failure = failure_of(&violation);
    plumb_rejudged(x, outcome);
    return PLUMB_OK;
}

plumb_status plumb_stage_invariants(plumb_experiment *x, plumb_error *why)
{
    plumb_violation v;
    bool found;

    if (x->failure.predicate != PLUMB_FAILS_NOT)
        return PLUMB_OK;
    const plumb_status status = find(x->own.run_dir, &v, &found, why);

    if (status != PLUMB_OK || !found)
        return status;
    x->invariants_fail = true;
    x->failure = x->own.failure = failure_of(&v);
    x->horizon =
        plumb_cost_horizon(v.step, v.decided, x->settings->margin, x->own.last_step);
    plumb_rejudged(x, &x->own);
    return plumb_state(
        x, "seen",
        "No loss shows it, but an invariant does not hold from step %lld on: "
        "%s%s%s (%.4g, where the limit is %.4g).",
        (long long)v.step, v.name, v.site[0] != 0 ? " at " : "", v.site, v.value, v.bound);
}
