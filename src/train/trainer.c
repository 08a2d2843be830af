/* Puts a run together: text, sites, faults, memory, model.  Everything is taken here, before the
 * first step, and given back in trainer_free.
 */
#include "train/train.h"
#include "train/sensors.h"

#include <omp.h>
#include <stdlib.h>

static void plan(trainer *t, size_t largest)
{
    const size_t length = t->shape.context + 1;

    t->weights = plumb_arena_take(&t->arena, t->weight_count, sizeof(float));
    t->m = plumb_arena_take(&t->arena, t->weight_count, sizeof(float));
    t->v = plumb_arena_take(&t->arena, t->weight_count, sizeof(float));
    for (size_t i = 0; i < t->ranks; i++)
        t->share[i] = plumb_arena_take(&t->arena, t->weight_count, sizeof(float));
    if (t->micro_batches > 1)
        t->micro = plumb_arena_take(&t->arena, t->weight_count, sizeof(float));
    t->states = plumb_arena_take(&t->arena, t->sites.operands, sizeof *t->states);
    t->tokens = plumb_arena_take(&t->arena, t->sequences, length);
    t->ordered = plumb_arena_take(&t->arena, t->sequences, length);
    t->order = plumb_arena_take(&t->arena, t->sequences, sizeof *t->order);
    t->permutation = plumb_arena_take(&t->arena, t->micro_batches + t->micro_sequences,
                                      sizeof *t->permutation);
    t->parameters = plumb_arena_take(&t->arena, t->parameter_count, sizeof *t->parameters);
    t->norms = plumb_arena_take(&t->arena, t->parameter_count, sizeof *t->norms);
    t->codes = plumb_arena_take(&t->arena, largest, sizeof(float));
    t->scales = plumb_arena_take(&t->arena, largest, sizeof(float));
}

static size_t largest_parameter(const trainer *t)
{
    size_t most = 0;

    for (size_t i = 0; i < t->parameter_count; i++) {
        plumb_parameter p;

        plumb_parameter_get(&t->shape, i, &p);
        most = p.rows * p.cols > most ? p.rows * p.cols : most;
    }
    return most;
}

static plumb_status take_memory(trainer *t, plumb_error *why)
{
    const size_t largest = largest_parameter(t);

    plan(t, largest);
    const plumb_status status = plumb_arena_commit(&t->arena, why);

    if (status != PLUMB_OK)
        return status;
    plan(t, largest);
    for (size_t i = 0; i < t->parameter_count; i++)
        plumb_parameter_get(&t->shape, i, &t->parameters[i]);
    for (size_t i = 0; i < t->sites.operands; i++)
        plumb_scale_state_init(&t->states[i]);
    plumb_weights_init(&t->shape,
                       t->request.has_seed ? t->request.seed : (uint64_t)t->settings.seed,
                       t->weights);
    t->beta1_power = t->beta2_power = 1;
    return PLUMB_OK;
}

static int thread_count(const settings *s)
{
    const int all = omp_get_max_threads();
    const int wanted = s->threads == 0 ? all : (int)s->threads;

    return wanted < 1 ? 1 : wanted > PLUMB_MAX_THREADS ? PLUMB_MAX_THREADS : wanted;
}

static void copy_sizes(trainer *t)
{
    const settings *s = &t->settings;

    t->shape = (plumb_shape){.layers = (size_t)s->layers,
                             .width = (size_t)s->width,
                             .heads = (size_t)s->heads,
                             .ff = (size_t)s->ff,
                             .context = (size_t)s->context};
    t->sequences = (size_t)s->sequences;
    t->micro_batches = (size_t)s->micro_batches;
    t->ranks = (size_t)s->ranks;
    t->micro_sequences = t->sequences / (t->micro_batches * t->ranks);
    t->threads = thread_count(s);
    t->parameter_count = plumb_parameter_count(&t->shape);
    t->weight_count = plumb_weight_count(&t->shape);
}

/* Recipe, rules, policy. */
static plumb_status resolve_sites(trainer *t, plumb_error *why)
{
    plumb_status status = sites_create(&t->shape, &t->settings, &t->sites, why);

    if (status == PLUMB_OK && t->request.policy != NULL)
        status = plumb_rules_load(t->request.policy, &t->policy, why);
    if (status == PLUMB_OK)
        status = sites_resolve(&t->sites, &t->policy, why);
    if (status == PLUMB_OK)
        status = faults_create(t->settings.faults, &t->sites, &t->faults, why);
    return status;
}

static plumb_status create_model(trainer *t, plumb_error *why)
{
    /* Under a request it says whether to look; otherwise the run file does. */
    const bool asked = t->request.run_dir != NULL;
    const int64_t every = asked ? t->request.observe_every : t->settings.sensors_every;
    plumb_status status = sensors_create(t, every, t->settings.shadow_every, why);

    if (status != PLUMB_OK)
        return status;
    return plumb_model_create(
        &(plumb_model_setup){.shape = t->shape,
                             .sequences = t->micro_sequences,
                             .threads = t->threads,
                             .specs = t->sites.specs,
                             .states = t->states,
                             .hook = t->faults.count > 0 ? faults_hook : NULL,
                             .hook_context = &t->faults,
                             .count = t->sensors != NULL},
        &t->model, why);
}

plumb_status trainer_create(trainer *t, plumb_error *why)
{
    plumb_status status;

    copy_sizes(t);
    status = plumb_shape_check(&t->shape, why);
    if (status == PLUMB_OK)
        status = resolve_sites(t, why);
    if (status == PLUMB_OK)
        status = corpus_load(&t->settings.data, t->shape.context, &t->corpus, why);
    if (status == PLUMB_OK)
        status = settings_hash(&t->settings, t->corpus.text, t->corpus.size, t->config_hash,
                               why);
    if (status == PLUMB_OK)
        status = take_memory(t, why);
    if (status == PLUMB_OK)
        status = create_model(t, why);
    return status;
}

void trainer_free(trainer *t)
{
    sensors_free(t);
    plumb_model_free(&t->model);
    plumb_arena_free(&t->arena);
    faults_free(&t->faults);
    sites_free(&t->sites);
    plumb_rules_free(&t->policy);
    free(t->corpus.text);
    plumb_request_free(&t->request);
    settings_free(&t->settings);
}
