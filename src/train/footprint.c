/* What a run would take: bytes from the first pass over its arrays, seconds from a trainer of one
 * layer and few sequences, scaled up.
 *
 * A call of the model costs a fixed part and a part for each token, so two batch sizes give the
 * cost of any; a step is its calls, and what the trainer does for each parameter.
 */
#include "train/sensors.h"
#include "train/train.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const size_t most_tokens = 1024;           /* of a calibration's call */
static const size_t most_bytes = (size_t)1 << 30; /* of a calibration */
static const double patience = 0.25;              /* seconds of one of its steps */

/* Processor time of a step. */
typedef struct cost {
    plumb_times model;
    double trainer; /* all that is not the model's */
} cost;

static double processor_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void trainer_clocks(const trainer *t, double seconds[PLUMB_MAX_THREADS])
{
#pragma omp parallel num_threads(t->threads)
    seconds[omp_get_thread_num()] = processor_seconds();
}

static double sum(const plumb_seconds *s)
{
    return s->gemm + s->cast + s->rest;
}

static double model_seconds(const plumb_times *t)
{
    return sum(&t->layers) + sum(&t->ends) + sum(&t->weights);
}

static double seconds_of(const cost *c)
{
    return model_seconds(&c->model) + c->trainer;
}

static size_t total(const plumb_memory *memory)
{
    size_t bytes = 0;

    for (size_t use = 0; use < PLUMB_MEMORY_USES; use++)
        bytes += memory->bytes[use];
    return bytes;
}

static plumb_status one_step(trainer *t, cost *c, plumb_error *why)
{
    step_result unused;
    const double begin = processor_seconds();

    t->times = (plumb_times){0};
    const plumb_status status = trainer_step(t, &unused, why);

    c->model = t->times;
    c->trainer = processor_seconds() - begin - model_seconds(&c->model);
    return status;
}

/* --- the calibration ------------------------------------------------------------------ */

/* The site of the whole model, in this layer, that a site of the small one stands for. */
static size_t whole_site(const trainer *whole, size_t layer, const site *s)
{
    const char *place = strchr(s->name, '/');
    char name[PLUMB_SITE_NAME];
    size_t i = 0;

    if (s->layer < 0)
        plumb_print(name, sizeof name, "%s", s->name);
    else
        plumb_print(name, sizeof name, "layer.%zu%s", layer, place);
    while (i + 1 < whole->sites.count && strcmp(whole->sites.at[i].name, name) != 0)
        i++;
    return i;
}

static size_t few_micro_batches(const trainer *whole)
{
    return whole->micro_batches > 1 ? 2 : 1;
}

/* One layer of the whole trainer, with text and settings borrowed from it. */
static plumb_status small_create(const trainer *whole, size_t layer, size_t sequences,
                                 trainer *t, plumb_error *why)
{
    plumb_status status;

    plumb_request_init(&t->request);
    t->settings = whole->settings;
    t->corpus = whole->corpus;
    t->timed = true;
    t->settings.layers = 1;
    t->settings.micro_batches = (int64_t)few_micro_batches(whole);
    t->settings.sequences =
        t->settings.micro_batches * t->settings.ranks * (int64_t)sequences;
    t->settings.shadow_every = 0;
    trainer_sizes(t);
    status = sites_create(&t->shape, &t->settings, &t->sites, why);
    for (size_t i = 0; i < t->sites.count && status == PLUMB_OK; i++) {
        t->sites.at[i].effective =
            whole->sites.at[whole_site(whole, layer, &t->sites.at[i])].effective;
        if (i < t->sites.operands)
            t->sites.specs[i] = t->sites.at[i].effective;
    }
    return status == PLUMB_OK ? trainer_plan(t, why) : status;
}

static void small_free(trainer *t)
{
    t->settings = (settings){0};
    t->corpus = (corpus){0};
    trainer_free(t);
}

/* The cheaper of two steps after the first, or the first where there is no time for more. */
static plumb_status cheapest_step(trainer *t, cost *c, bool *slow, plumb_error *why)
{
    cost again;
    plumb_status status = trainer_take(t, why);

    if (status == PLUMB_OK)
        status = one_step(t, c, why);
    *slow = seconds_of(c) > patience;
    if (status != PLUMB_OK || *slow)
        return status;
    status = one_step(t, c, why);
    if (status == PLUMB_OK)
        status = one_step(t, &again, why);
    if (status == PLUMB_OK && seconds_of(&again) < seconds_of(c))
        *c = again;
    return status;
}

/* One layer with this many sequences a call. */
typedef struct trial {
    size_t sequences;
    cost cost;
} trial;

static plumb_status try_layer(const trainer *whole, size_t layer, trial *try, bool *slow,
                              plumb_footprint *f, plumb_error *why)
{
    trainer *t = calloc(1, sizeof *t);
    plumb_memory memory = {0};
    plumb_status status;

    if (t == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a calibration");
    status = small_create(whole, layer, try->sequences, t, why);
    if (status == PLUMB_OK)
        status = trainer_need(t, &memory, why);
    f->timed = status == PLUMB_OK && total(&memory) <= most_bytes;
    if (f->timed)
        status = cheapest_step(t, &try->cost, slow, why);
    small_free(t);
    free(t);
    return status;
}

/* Two batch sizes, or twice the same where there is no more to learn or no time for it. */
static plumb_status try_sizes(const trainer *t, size_t layer, trial trials[2],
                              plumb_footprint *f, plumb_error *why)
{
    const size_t context = t->shape.context;
    const size_t wanted = (most_tokens + context - 1) / context;
    const size_t most = wanted < t->micro_sequences ? wanted : t->micro_sequences;
    bool slow = false;
    plumb_status status;

    trials[0].sequences = most == t->micro_sequences || most == 1 ? most : most / 2;
    status = try_layer(t, layer, &trials[0], &slow, f, why);
    trials[1] = trials[0];
    if (status == PLUMB_OK && f->timed && !slow && trials[0].sequences < most) {
        trials[1].sequences = most;
        status = try_layer(t, layer, &trials[1], &slow, f, why);
    }
    for (size_t i = 0; i < 2; i++)
        f->tried_tokens[i] = trials[i].sequences * context;
    return status;
}

/* --- scaling up ----------------------------------------------------------------------- */

/* A straight line through two batch sizes, read at the run's own.  Noise must not make a larger
 * batch cheaper.
 */
static double at_full_size(const trainer *t, const trial trials[2], double few, double many)
{
    const double a = (double)trials[0].sequences, b = (double)trials[1].sequences;
    const double wanted = (double)t->micro_sequences;

    if (a == b)
        return many * wanted / b;
    const double slope = many > few ? (many - few) / (b - a) : 0;

    return many + slope * (wanted - b);
}

/* *step += count * a part of the model that all calls of a step have. */
static void add_calls(const trainer *t, const trial trials[2], const plumb_seconds *few,
                      const plumb_seconds *many, double count, plumb_seconds *step)
{
    const double calls = (double)t->micro_batches / (double)few_micro_batches(t);

    step->gemm += count * calls * at_full_size(t, trials, few->gemm, many->gemm);
    step->cast += count * calls * at_full_size(t, trials, few->cast, many->cast);
    step->rest += count * calls * at_full_size(t, trials, few->rest, many->rest);
}

/* What goes with the number of parameters. */
static void add_parameters(const trainer *t, const cost *c, plumb_seconds *step)
{
    plumb_shape one = t->shape;

    one.layers = 1;
    const double table = (double)PLUMB_VOCABULARY * (double)one.width;
    const double of_one = (double)plumb_weight_count(&one);
    const double of_whole = (double)t->weight_count;
    const double linears = (of_whole - table) / (of_one - table);

    step->cast += linears * c->model.weights.cast;
    step->rest += linears * c->model.weights.rest + of_whole / of_one * c->trainer;
}

/* True when every site of layer a runs in what that of layer b does. */
static bool same_layer(const trainer *t, size_t a, size_t b)
{
    bool same = true;

    for (size_t i = 0; i < t->sites.operands && same; i++) {
        const site *s = &t->sites.at[i];

        if (s->layer == (int)a)
            same = plumb_spec_equal(&s->effective,
                                    &t->sites.at[whole_site(t, b, s)].effective);
    }
    return same;
}

/* Layers that run in the same formats cost the same: *like of them, if this is the first. */
static bool first_of_its_kind(const trainer *t, size_t layer, double *like)
{
    for (size_t i = 0; i < layer; i++) {
        if (same_layer(t, i, layer))
            return false;
    }
    *like = 1;
    for (size_t i = layer + 1; i < t->shape.layers; i++)
        *like += same_layer(t, layer, i);
    return true;
}

static plumb_status estimate(const trainer *t, plumb_footprint *f, plumb_error *why)
{
    f->timed = true;
    for (size_t i = 0; i < t->shape.layers && f->timed; i++) {
        trial trials[2] = {0};
        double like;

        if (!first_of_its_kind(t, i, &like))
            continue;
        const plumb_status status = try_sizes(t, i, trials, f, why);

        if (status != PLUMB_OK)
            return status;
        const cost *few = &trials[0].cost, *many = &trials[1].cost;

        add_calls(t, trials, &few->model.layers, &many->model.layers, like, &f->step);
        if (i > 0)
            continue;
        add_calls(t, trials, &few->model.ends, &many->model.ends, 1, &f->step);
        add_parameters(t, many, &f->step);
    }
    return PLUMB_OK;
}

/* --- measuring ------------------------------------------------------------------------ */

/* A line of /proc/self/status in bytes; 0 where there is none. */
static size_t process_bytes(const char *key)
{
    FILE *file = fopen("/proc/self/status", "r");
    char text[256];
    size_t kib = 0;

    while (file != NULL && fgets(text, sizeof text, file) != NULL) {
        if (strncmp(text, key, strlen(key)) == 0)
            kib = (size_t)strtoull(text + strlen(key) + 1, NULL, 10);
    }
    if (file != NULL)
        fclose(file);
    return 1024 * kib;
}

/* The largest resident set begins anew, where the system lets it; else it is that of all the time
 * before, too.
 */
static void forget_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");

    if (file == NULL)
        return;
    fputs("5", file);
    fclose(file);
}

static plumb_status measure_steps(trainer *t, int64_t steps, size_t before,
                                  plumb_footprint *f, plumb_error *why)
{
    plumb_status status = trainer_take(t, why);
    double counted = 0;

    for (int64_t i = 0; i < steps && status == PLUMB_OK; i++) {
        cost c;

        status = one_step(t, &c, why);
        if (status != PLUMB_OK || (i == 0 && steps > 1))
            continue;
        f->measured.gemm += c.model.layers.gemm + c.model.ends.gemm;
        f->measured.cast += c.model.layers.cast + c.model.ends.cast + c.model.weights.cast;
        f->measured.rest += seconds_of(&c);
        counted++;
    }
    if (status != PLUMB_OK)
        return status;
    f->measured.gemm /= counted;
    f->measured.cast /= counted;
    f->measured.rest = f->measured.rest / counted - f->measured.gemm - f->measured.cast;
    f->measured_steps = steps;
    f->measured_bytes = process_bytes("VmHWM") - before;
    return PLUMB_OK;
}

/* --- entry ---------------------------------------------------------------------------- */

static plumb_status look(trainer *t, int64_t measure, size_t before, plumb_footprint *f,
                         plumb_error *why)
{
    plumb_status status = trainer_prepare(t, why);

    if (status == PLUMB_OK)
        status = trainer_need(t, &f->memory, why);
    if (status != PLUMB_OK)
        return status;
    plumb_print(f->name, sizeof f->name, "%s", t->settings.name);
    plumb_print(f->recipe, sizeof f->recipe, "%s", t->settings.recipe);
    f->parameters = t->weight_count;
    f->tokens = t->sequences * t->shape.context;
    f->threads = t->threads;
    f->bytes = total(&f->memory);
    if (measure > 0)
        status = measure_steps(t, measure, before, f, why);
    if (status != PLUMB_OK)
        return status;
    const double begin = processor_seconds();

    status = estimate(t, f, why);
    f->calibration = processor_seconds() - begin;
    return status;
}

plumb_status plumb_train_footprint(const char *path, const char *const *overrides,
                                   size_t override_count, int64_t measure,
                                   plumb_footprint *footprint, plumb_error *why)
{
    const size_t before = process_bytes("VmRSS");
    trainer *t = calloc(1, sizeof *t);
    plumb_status status;

    *footprint = (plumb_footprint){0};
    forget_peak();
    if (t == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory");
    plumb_request_init(&t->request);
    t->timed = true;
    t->path = path;
    status = settings_load(path, overrides, override_count, &t->settings, why);
    if (status == PLUMB_OK)
        status = look(t, measure, before, footprint, why);
    trainer_free(t);
    free(t);
    return status;
}
