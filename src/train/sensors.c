/* Site statistics of each step: written for every k-th, kept for the last 64 in a flight recorder
 * that is written when the run ends for whatever reason.  No step is written twice.  Spectra are
 * counted and written in steps 1, 2, 4, 8, ... and in every j-th alone.
 *
 * Sensors read what the step computes and write nothing that it reads.
 */
#include "train/sensors.h"

#include <stdlib.h>
#include <string.h>

#include "plumb/cast.h"
#include "train/invariants.h"
#include "train/shadow.h"

#ifndef PLUMB_NO_SENSORS

struct sensors {
    int64_t every, spectra_every;
    bool counting;              /* the running step counts exponents: */
    plumb_exponents *exponents; /* [sites] */
    plumb_exponents *parts;     /* [threads] */
    plumb_histogram *lie;       /* those of a step, packed */
    plumb_sample *ring;         /* [FLIGHT_STEPS][sites] */
    plumb_sample *row;          /* of the running step */
    plumb_sample *packed;
    struct {
        int64_t step; /* 0: empty */
        bool written;
    } held[FLIGHT_STEPS];
    shadow shadow;
    invariants invariants;
};

plumb_status sensors_create(trainer *t, int64_t every, int64_t spectra_every,
                            int64_t shadow_every, plumb_error *why)
{
    if (every == 0)
        return PLUMB_OK;
    t->sensors = calloc(1, sizeof *t->sensors);
    if (t->sensors == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the sensors");
    t->sensors->every = every;
    t->sensors->spectra_every = spectra_every;
    t->sensors->shadow.every = shadow_every;
    return PLUMB_OK;
}

void sensors_plan(trainer *t)
{
    struct sensors *s = t->sensors;
    const size_t count = t->sites.count;

    if (s == NULL)
        return;
    t->arena.label = PLUMB_MEMORY_RECORDS;
    s->ring = plumb_arena_take(&t->arena, FLIGHT_STEPS * count, sizeof *s->ring);
    s->packed = plumb_arena_take(&t->arena, count, sizeof *s->packed);
    if (s->spectra_every > 0) {
        s->exponents = plumb_arena_take(&t->arena, count, sizeof *s->exponents);
        s->parts = plumb_arena_take(&t->arena, (size_t)t->threads, sizeof *s->parts);
        s->lie = plumb_arena_take(&t->arena, count, sizeof *s->lie);
    }
    shadow_plan(t, &s->shadow);
    invariants_plan(t, &s->invariants);
}

plumb_status sensors_take(trainer *t, plumb_error *why)
{
    return t->sensors == NULL ? PLUMB_OK : shadow_take(t, &t->sensors->shadow, why);
}

plumb_status sensors_need(const trainer *t, plumb_memory *memory, plumb_error *why)
{
    return t->sensors == NULL ? PLUMB_OK : shadow_need(t, &t->sensors->shadow, memory, why);
}

void sensors_free(trainer *t)
{
    if (t->sensors == NULL)
        return;
    shadow_free(&t->sensors->shadow);
    free(t->sensors);
    t->sensors = NULL;
}

static size_t slot(int64_t step)
{
    return (size_t)step % FLIGHT_STEPS;
}

static bool is_due(int64_t step, int64_t every)
{
    return step == 1 || step % every == 0;
}

/* Runs that fail early have spectra of before. */
static bool is_power_of_two(int64_t step)
{
    return (step & (step - 1)) == 0;
}

void sensors_begin(trainer *t, int64_t step)
{
    struct sensors *s = t->sensors;

    if (s == NULL)
        return;
    s->row = s->ring + slot(step) * t->sites.count;
    s->held[slot(step)].step = step;
    s->held[slot(step)].written = false;
    for (size_t i = 0; i < t->sites.count; i++)
        s->row[i] = (plumb_sample){.step = (uint64_t)step, .site = (uint32_t)i};
    invariants_begin(t, &s->invariants, step);
    s->counting =
        s->spectra_every > 0 && (is_power_of_two(step) || is_due(step, s->spectra_every));
    if (s->counting)
        memset(s->exponents, 0, t->sites.count * sizeof *s->exponents);
    plumb_model_exponents(t->model, s->counting ? s->exponents : NULL);
}

void sensors_values(trainer *t, size_t index, const float *x, size_t n)
{
    struct sensors *s = t->sensors;
    const size_t parts = (size_t)t->threads;

    if (s == NULL || !s->counting)
        return;
#pragma omp parallel for schedule(static) num_threads(t->threads)
    for (size_t i = 0; i < parts; i++) {
        const size_t first = n / parts * i, end = i + 1 == parts ? n : n / parts * (i + 1);

        s->parts[i] = (plumb_exponents){{0}};
        plumb_exponents_add(&s->parts[i], x + first, 1, end - first, 0);
    }
    for (size_t i = 0; i < parts; i++)
        plumb_exponents_join(&s->exponents[index], &s->parts[i]);
}

static void join(plumb_sample *into, plumb_sample *sample)
{
    sample->step = into->step;
    sample->site = into->site;
    if (into->total == 0)
        *into = *sample;
    else
        plumb_sample_join(into, sample);
}

void sensors_operands(trainer *t)
{
    if (t->sensors == NULL)
        return;
    for (size_t i = 0; i < t->sites.operands; i++) {
        plumb_sample sample;

        plumb_model_sample(t->model, i, &sample);
        if (sample.total == 0)
            continue;
        invariants_sample(t, &t->sensors->invariants, i, &sample);
        join(&t->sensors->row[i], &sample);
    }
}

void sensors_quantized(trainer *t, size_t index, const plumb_counts *counts,
                       const plumb_quantized *q)
{
    plumb_sample sample = {0};

    if (t->sensors == NULL)
        return;
    plumb_sample_fill(&sample, q, counts);
    invariants_sample(t, &t->sensors->invariants, index, &sample);
    join(&t->sensors->row[index], &sample);
}

void sensors_parameter(trainer *t, size_t index, const plumb_counts *counts, float scale)
{
    float d = 1.0f / scale;
    const plumb_quantized q = {.format = t->sites.at[index].effective.format,
                               .rows = 1,
                               .cols = 1,
                               .ld = 1,
                               .d = scale == 1.0f ? NULL : &d};

    sensors_quantized(t, index, counts, &q);
}

/* Casts that nobody reads: what is counted in a part of a tensor. */
static void count_part(const float *x, size_t n, plumb_counts *counts)
{
    enum { PIECE = 2048 };
    const plumb_cast how = {.format = PLUMB_FP32, .scale = 1};
    float codes[PIECE];

    for (size_t i = 0; i < n; i += PIECE)
        plumb_cast_encode(&how, x + i, n - i < PIECE ? n - i : PIECE, codes, counts);
}

void sensors_tensor(trainer *t, size_t index, const float *x, size_t n)
{
    const size_t parts = (size_t)t->threads;
    plumb_counts seen[PLUMB_MAX_THREADS] = {0}, counts = {0};

    if (t->sensors == NULL)
        return;
#pragma omp parallel for schedule(static) num_threads(t->threads)
    for (size_t i = 0; i < parts; i++) {
        const size_t first = n / parts * i, end = i + 1 == parts ? n : n / parts * (i + 1);

        count_part(x + first, end - first, &seen[i]);
    }
    for (size_t i = 0; i < parts; i++)
        plumb_counts_add(&counts, &seen[i]);
    sensors_parameter(t, index, &counts, 1);
    sensors_values(t, index, x, n);
}

/* Writes a held step, unless it is written or empty. */
static plumb_status write_slot(trainer *t, size_t index, plumb_error *why)
{
    struct sensors *s = t->sensors;
    const plumb_sample *row = s->ring + index * t->sites.count;
    size_t count = 0;

    if (s->held[index].step == 0 || s->held[index].written)
        return PLUMB_OK;
    for (size_t i = 0; i < t->sites.count; i++) {
        if (row[i].total > 0)
            s->packed[count++] = row[i];
    }
    s->held[index].written = true;
    return plumb_run_samples(t->run, t->sites.names, t->sites.count, s->packed, count, why);
}

/* Where the values of the running step lay. */
static plumb_status write_spectra(trainer *t, plumb_error *why)
{
    struct sensors *s = t->sensors;
    size_t count = 0;

    for (size_t i = 0; i < t->sites.count; i++) {
        plumb_histogram *h = &s->lie[count];

        h->sample = s->row[i];
        count += h->sample.total > 0 && plumb_histogram_fill(h, &s->exponents[i]);
    }
    return plumb_run_histograms(t->run, t->sites.names, t->sites.count, s->lie, count, why);
}

plumb_status sensors_end(trainer *t, int64_t step, plumb_error *why)
{
    plumb_status status;

    if (t->sensors == NULL)
        return PLUMB_OK;
    status = invariants_say(t, &t->sensors->invariants, step, why);
    if (status == PLUMB_OK && t->sensors->counting)
        status = write_spectra(t, why);
    if (status == PLUMB_OK && is_due(step, t->sensors->every))
        status = write_slot(t, slot(step), why);
    return status;
}

plumb_status sensors_flush(trainer *t, plumb_error *why)
{
    plumb_status status = PLUMB_OK;

    if (t->sensors == NULL)
        return PLUMB_OK;
    for (size_t i = 1; i <= FLIGHT_STEPS && status == PLUMB_OK; i++)
        status = write_slot(t, slot(t->step + (int64_t)i), why);
    return status;
}

plumb_status sensors_shadow(trainer *t, int64_t step, const uint8_t *tokens,
                            const float *gradient, plumb_error *why)
{
    return t->sensors == NULL
               ? PLUMB_OK
               : shadow_compare(t, &t->sensors->shadow, step, tokens, gradient, why);
}

void sensors_weights(trainer *t)
{
    if (t->sensors != NULL)
        invariants_weights(t, &t->sensors->invariants);
}

void sensors_part(trainer *t, size_t rank, const float *gradient)
{
    if (t->sensors != NULL)
        invariants_part(t, &t->sensors->invariants, rank, gradient);
}

void sensors_wire(trainer *t, size_t index, float d, bool usable)
{
    if (t->sensors != NULL)
        invariants_wire(t, &t->sensors->invariants, index, d, usable);
}

void sensors_gradient(trainer *t)
{
    if (t->sensors != NULL)
        invariants_gradient(t, &t->sensors->invariants);
}

void sensors_state(trainer *t, size_t parameter, size_t which, const float *x)
{
    if (t->sensors != NULL)
        invariants_state(t, &t->sensors->invariants, parameter, which, x);
}

void sensors_stored(trainer *t, size_t parameter, size_t which, const plumb_quantized *q)
{
    if (t->sensors != NULL)
        invariants_stored(t, &t->sensors->invariants, parameter, which, q);
}

void sensors_update(trainer *t, size_t parameter, float most)
{
    if (t->sensors != NULL)
        invariants_update(t, &t->sensors->invariants, parameter, most);
}

void sensors_settle(trainer *t)
{
    if (t->sensors != NULL)
        invariants_settle(t, &t->sensors->invariants);
}

#else
typedef int plumb_sensors_are_gone;
#endif
