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

/* What one event says; the texts belong to it. */
typedef struct said {
    const char *name, *site;
    int64_t rank, step;
    const json_t *event;
} said;

static const char *word(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));

    return text != NULL ? text : "";
}

/* NaN where there is none; JSON has no infinity, so trainers write words. */
static double number(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);

    if (json_is_number(value))
        return json_number_value(value);
    if (strcmp(word(event, key), "Infinity") == 0)
        return (double)INFINITY;
    return strcmp(word(event, key), "-Infinity") == 0 ? -(double)INFINITY : (double)NAN;
}

static said hear(const json_t *event)
{
    return (said){.name = word(event, "name"),
                  .site = word(event, "site"),
                  .rank = json_integer_value(json_object_get(event, "rank")),
                  .step = json_integer_value(json_object_get(event, "step")),
                  .event = event};
}

static int order_of(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

/* By what does not hold where, on which rank. */
static int same_complaint(const said *a, const said *b)
{
    const int name = strcmp(a->name, b->name), site = strcmp(a->site, b->site);

    return name != 0 ? name : site != 0 ? site : order_of(a->rank, b->rank);
}

static int compare(const void *a, const void *b)
{
    const said *const x = a, *const y = b;
    const int complaint = same_complaint(x, y);

    return complaint != 0 ? complaint : order_of(x->step, y->step);
}

static plumb_violation violation_of(const said *first, const said *tenth)
{
    plumb_violation v = {.rank = first->rank,
                         .step = first->step,
                         .decided = tenth->step,
                         .value = number(first->event, "value"),
                         .bound = number(first->event, "bound")};

    plumb_printable(first->name, v.name, sizeof v.name);
    plumb_printable(first->site, v.site, sizeof v.site);
    return v;
}

/* In events sorted by complaint and step: the earliest that comes at enough different steps. */
static bool earliest(const said *at, size_t count, plumb_violation *violation)
{
    size_t first = 0;
    int steps = 0;
    bool found = false;

    for (size_t i = 0; i < count; i++) {
        if (i == 0 || same_complaint(&at[i - 1], &at[i]) != 0) {
            first = i;
            steps = 1;
        } else if (at[i].step != at[i - 1].step) {
            steps++;
        } else {
            continue;
        }
        if (steps != HOLDS || (found && violation->step <= at[first].step))
            continue;
        *violation = violation_of(&at[first], &at[i]);
        found = true;
    }
    return found;
}

plumb_status plumb_violation_in_events(const json_t *events, plumb_violation *violation,
                                       bool *found, plumb_error *why)
{
    const size_t size = json_array_size(events);
    said *at = malloc((size + 1) * sizeof *at);
    size_t count = 0;

    *found = false;
    if (at == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu events", size);
    for (size_t i = 0; i < size; i++) {
        at[count] = hear(json_array_get(events, i));
        count += at[count].step > 0;
    }
    qsort(at, count, sizeof *at, compare);
    *found = earliest(at, count, violation);
    free(at);
    return PLUMB_OK;
}

/* --- of a run ----------------------------------------------------------------------------- */

/* The earlier of what the statistics and the events of a run show. */
static plumb_status find(const char *run_dir, plumb_violation *violation, bool *found,
                         plumb_error *why)
{
    plumb_samples samples = {0};
    plumb_violation other;
    json_t *events = NULL;
    bool heard = false;
    plumb_status status = PLUMB_OK;

    *found = false;
    if (run_dir == NULL)
        return PLUMB_OK;
    if (plumb_samples_read(run_dir, &samples, NULL) == PLUMB_OK)
        status = plumb_violation_in_samples(&samples, violation, found, why);
    if (status == PLUMB_OK &&
        plumb_events_read_ranks(run_dir, "invariant", &events, NULL) == PLUMB_OK)
        status = plumb_violation_in_events(events, &other, &heard, why);
    if (heard && (!*found || other.step < violation->step)) {
        *violation = other;
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

/* What was measured, where the trainer says it. */
static void measured(const plumb_violation *v, char *text, size_t size)
{
    text[0] = 0;
    if (!isnan(v->value) && !isnan(v->bound))
        snprintf(text, size, " (%.4g, where the limit is %.4g)", v->value, v->bound);
    else if (!isnan(v->value))
        snprintf(text, size, " (%.4g)", v->value);
}

static plumb_status say(plumb_experiment *x, const plumb_violation *v)
{
    char rank[40] = "", numbers[80];

    if (v->rank > 0)
        snprintf(rank, sizeof rank, ", on rank %lld", (long long)v->rank);
    measured(v, numbers, sizeof numbers);
    return plumb_state(
        x, "seen",
        "No loss shows it, but an invariant does not hold from step %lld on: "
        "%s%s%s%s%s.",
        (long long)v->step, v->name, v->site[0] != 0 ? " at " : "", v->site, rank, numbers);
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
    return say(x, &v);
}
