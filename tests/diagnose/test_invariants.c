/* Violated invariants in statistics and events that are made by hand. */
#include "diagnose/invariants.h"

#include <math.h>

#include "check.h"

enum { SITES = 2, STEPS = 40 };

static char first_name[] = "first", second_name[] = "second";
static char *names[] = {first_name, second_name};
static plumb_sample rows[SITES * STEPS];

/* Decoded as large as the source everywhere, sampled every second step. */
static plumb_samples healthy(void)
{
    for (size_t i = 0; i < SITES * STEPS; i++)
        rows[i] = (plumb_sample){.step = 2 + 2 * (i / SITES),
                                 .site = i % SITES,
                                 .amax = 3,
                                 .decoded_amax = 3,
                                 .total = 100,
                                 .flushed = 50};
    return (plumb_samples){names, SITES, rows, SITES * STEPS, false};
}

static plumb_sample *at(size_t site, size_t sample)
{
    return &rows[sample * SITES + site];
}

static bool look(const plumb_samples *samples, plumb_violation *v)
{
    plumb_error why = {0};
    bool found;

    CHECK_OK(plumb_violation_in_samples(samples, v, &found, &why), why);
    return found;
}

/* Samples from `from` on, `count` of them, decoded `times` as large. */
static void scale(size_t site, size_t from, size_t count, float times)
{
    for (size_t i = from; i < from + count; i++)
        at(site, i)->decoded_amax = 3 * times;
}

static void in_samples(void)
{
    plumb_samples s = healthy();
    plumb_violation v;

    CHECK(!look(&s, &v), "a healthy run");
    scale(1, 5, 9, 2);
    CHECK(!look(&s, &v), "nine in a row");
    scale(1, 5, 10, 2);
    CHECK(look(&s, &v), "ten in a row");
    CHECK(strcmp(v.site, "second") == 0 && v.step == 12 && v.decided == 30, "%s %lld %lld",
          v.site, (long long)v.step, (long long)v.decided);
    CHECK(v.value == 2 && v.bound == 1.5, "%g %g", v.value, v.bound);
    scale(0, 4, 12, 0.5F);
    CHECK(look(&s, &v) && strcmp(v.site, "first") == 0 && v.step == 10 && v.value == 0.5,
          "not the earlier one: %s %lld", v.site, (long long)v.step);
    at(0, 9)->decoded_amax = 3;
    CHECK(look(&s, &v) && strcmp(v.site, "second") == 0, "a pause does not count");
    at(1, 3)->site = 7; /* no such site */
    CHECK(look(&s, &v), "a row of no site");
    check_done("the scale belongs to the data");
}

/* What the format does to values is no violation. */
static void excuses(void)
{
    plumb_samples s = healthy();
    plumb_violation v;

    scale(0, 0, STEPS, 1.45F);
    scale(1, 0, STEPS, 0.7F);
    CHECK(!look(&s, &v), "a factor below 1.5");
    scale(0, 0, STEPS, 0.1F);
    scale(1, 0, STEPS, 0);
    for (size_t i = 0; i < STEPS; i++) {
        at(0, i)->saturated = 1;
        at(1, i)->flushed = 51;
    }
    CHECK(!look(&s, &v), "values that saturate, values that become zero");
    s = healthy();
    scale(0, 0, STEPS, 3);
    scale(1, 0, STEPS, 3);
    for (size_t i = 0; i < STEPS; i++) {
        at(0, i)->nonfinite = 1;
        at(1, i)->amax = i % 2 == 0 ? 0 : INFINITY;
    }
    CHECK(!look(&s, &v), "values that are no numbers, and none at all");
    check_done("what the format does is no violation");
}

static json_t *event(const char *name, const char *site, int step)
{
    return json_pack("{s:s, s:s, s:s, s:i, s:f, s:f}", "event", "invariant", "name", name,
                     "site", site, "step", step, "value", 4.0 + step, "bound", 4.0);
}

static bool hear(const json_t *events, plumb_violation *v)
{
    plumb_error why = {0};
    bool found;

    CHECK_OK(plumb_violation_in_events(events, v, &found, &why), why);
    return found;
}

static void in_events(void)
{
    plumb_violation v = {0};
    json_t *events = json_array();

    for (int step = 1; step <= 30; step++) {
        json_array_append_new(events, event("rare", "a", 1));
        json_array_append_new(events,
                              event("sum of ranks", step % 2 == 0 ? "a" : "b", step));
        if (step == 18)
            CHECK(!hear(events, &v), "nine steps of each site");
    }
    CHECK(hear(events, &v), "not seen");
    CHECK(strcmp(v.name, "sum of ranks") == 0 && strcmp(v.site, "b") == 0, "%s at %s",
          v.name, v.site);
    CHECK(v.step == 1 && v.decided == 19 && v.value == 5 && v.bound == 4, "%lld %lld %g",
          (long long)v.step, (long long)v.decided, v.value);
    json_decref(events);
    check_done("events of the trainer");
}

/* Each rank counts for itself; which lines come first does not matter, the step does. */
static void of_ranks(void)
{
    plumb_violation v = {0};
    json_t *events = json_array();

    for (int rank = 2; rank >= 0; rank--) {
        for (int step = 30; step > 21 - (rank == 1 ? 2 : 0); step--) {
            json_t *one = event("sum of ranks", "a", step);

            json_object_set_new(one, "rank", json_integer(rank));
            json_array_append_new(events, one);
            json_array_append(events, one);
        }
    }
    for (int step = 11; step <= 19; step++) { /* nine, and with those of others more */
        json_t *one = event("sum of ranks", "a", step);

        json_object_set_new(one, "rank", json_integer(3));
        json_array_append_new(events, one);
    }
    CHECK(hear(events, &v) && v.rank == 1 && v.step == 20 && v.decided == 29,
          "rank %lld, step %lld, decided %lld", (long long)v.rank, (long long)v.step,
          (long long)v.decided);
    for (int step = 5; step <= 14; step++)
        json_array_append_new(events, event("later in the file", "b", step));
    CHECK(hear(events, &v) && v.rank == 0 && v.step == 5, "rank %lld, step %lld",
          (long long)v.rank, (long long)v.step);
    json_decref(events);
    check_done("events of ranks");
}

/* Anything may stand in the file. */
static void hostile(void)
{
    plumb_violation v;
    json_t *events = json_array();

    for (int step = 1; step <= 20; step++)
        json_array_append_new(events, json_pack("{s:s, s:i, s:[s], s:i, s:s}", "event",
                                                "invariant", "name", 7, "site", "x", "step",
                                                step, "value", "\x1b[2J"));
    json_array_append_new(events,
                          json_pack("{s:s, s:s}", "event", "invariant", "step", "1"));
    json_array_append_new(events, json_string("invariant"));
    CHECK(hear(events, &v), "ten steps are ten steps");
    CHECK(v.name[0] == 0 && v.site[0] == 0 && isnan(v.value) && isnan(v.bound),
          "text of no kind");
    CHECK(!hear(NULL, &v), "no events");
    json_decref(events);
    check_done("events of any shape");
}

int main(void)
{
    in_samples();
    excuses();
    in_events();
    of_ranks();
    hostile();
    return check_exit();
}
