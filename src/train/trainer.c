/* Puts a run together: text, sites, faults, memory, model.  Everything is taken here, before the
 * first step, and given back in trainer_free.
 */
#include "train/train.h"
#include "train/sensors.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "plumb/random.h"

static void *take(trainer *t, plumb_memory_use use, size_t count, size_t bytes_each)
{
    t->arena.label = use;
    return plumb_arena_take(&t->arena, count, bytes_each);
}

static float *parameters(trainer *t, plumb_memory_use use)
{
    return take(t, use, t->weight_count, sizeof(float));
}

/* True where a parameter's site is quantised by the trainer itself, in its scratch. */
static bool uses_scratch(const trainer *t, const site *s)
{
    if (s->effective.format == PLUMB_FP32)
        return false;
    return s->class_ == PLUMB_OPTIMIZER || wire_has_own_scales(&t->settings);
}

/* Codes and scales of the largest state that is stored in few bits, and partial sums. */
static plumb_status plan_scratch(trainer *t, plumb_error *why)
{
    size_t most_bytes = 0, most_scales = 0;

    t->wire_stride = 0;
    for (size_t i = t->sites.operands; i < t->sites.count; i++) {
        const site *s = &t->sites.at[i];
        const size_t parameter = (i - t->sites.operands) / PARAMETER_SITES;
        size_t bytes, scales, rows, cols;
        plumb_parameter p;

        if (!uses_scratch(t, s))
            continue;
        plumb_parameter_get(&t->shape, parameter, &p);
        adamw_shape(&s->effective, &p, &rows, &cols);
        if (s->class_ == PLUMB_COLLECTIVE) {
            cols *= rows;
            rows = 1;
            t->wire_stride = cols > t->wire_stride ? cols : t->wire_stride;
        }
        const plumb_status status =
            plumb_quantized_need(&s->effective, rows, cols, false, &bytes, &scales, why);

        if (status != PLUMB_OK)
            return status;
        most_bytes = bytes > most_bytes ? bytes : most_bytes;
        most_scales = scales > most_scales ? scales : most_scales;
    }
    t->codes = take(t, PLUMB_MEMORY_TEMPORARIES, most_bytes, 1);
    t->scales = take(t, PLUMB_MEMORY_TEMPORARIES, most_scales, sizeof(float));
    if (t->wire_stride > 0)
        t->wire = take(t, PLUMB_MEMORY_TEMPORARIES, wire_depth(t) * t->wire_stride,
                       sizeof(float));
    return PLUMB_OK;
}

/* Every array: adds up sizes before the arena is committed, deals out after. */
static plumb_status plan(trainer *t, plumb_error *why)
{
    const size_t length = t->shape.context + 1;

    t->weights = parameters(t, PLUMB_MEMORY_MASTER);
    t->m = parameters(t, PLUMB_MEMORY_OPTIMIZER);
    t->v = parameters(t, PLUMB_MEMORY_OPTIMIZER);
    for (size_t i = 0; i < t->ranks; i++)
        t->share[i] = parameters(t, PLUMB_MEMORY_GRADIENTS);
    if (t->micro_batches > 1)
        t->micro = parameters(t, PLUMB_MEMORY_GRADIENTS);
    t->states = take(t, PLUMB_MEMORY_RECORDS, t->sites.operands, sizeof *t->states);
    t->tokens = take(t, PLUMB_MEMORY_TEMPORARIES, t->sequences, length);
    t->ordered = take(t, PLUMB_MEMORY_TEMPORARIES, t->sequences, length);
    t->order = take(t, PLUMB_MEMORY_TEMPORARIES, t->sequences, sizeof *t->order);
    t->permutation = take(t, PLUMB_MEMORY_TEMPORARIES,
                          t->micro_batches + t->micro_sequences, sizeof *t->permutation);
    t->parameters =
        take(t, PLUMB_MEMORY_RECORDS, t->parameter_count, sizeof *t->parameters);
    t->norms = take(t, PLUMB_MEMORY_RECORDS, t->parameter_count, sizeof *t->norms);
    sensors_plan(t);
    return plan_scratch(t, why);
}

plumb_status trainer_take(trainer *t, plumb_error *why)
{
    plumb_status status = plumb_arena_commit(&t->arena, why);

    if (status == PLUMB_OK)
        status = plan(t, why);
    if (status != PLUMB_OK)
        return status;
    for (size_t i = 0; i < t->parameter_count; i++)
        plumb_parameter_get(&t->shape, i, &t->parameters[i]);
    for (size_t i = 0; i < t->sites.operands; i++)
        plumb_scale_state_init(&t->states[i]);
    plumb_weights_init(&t->shape, trainer_seed(t), t->weights);
    t->beta1_power = t->beta2_power = 1;
    status = adamw_begin(t, why);
    if (status == PLUMB_OK)
        status = sensors_take(t, why);
    if (status != PLUMB_OK)
        return status;
    const plumb_model_setup setup = trainer_model(t);

    return plumb_model_create(&setup, &t->model, why);
}

static int thread_count(const settings *s)
{
    const int all = omp_get_max_threads();
    const int wanted = s->threads == 0 ? all : (int)s->threads;

    return wanted < 1 ? 1 : wanted > PLUMB_MAX_THREADS ? PLUMB_MAX_THREADS : wanted;
}

void trainer_sizes(trainer *t)
{
    const settings *s = &t->settings;

    t->shape = (plumb_shape){.layers = (size_t)s->layers,
                             .width = (size_t)s->width,
                             .heads = (size_t)s->heads,
                             .ff = (size_t)s->ff,
                             .context = (size_t)s->context,
                             .layer_norm = settings_choice(s->norm, NORMS) == 1,
                             .gelu = settings_choice(s->mlp, MLPS) == 1,
                             .qk_norm = s->qk_norm,
                             .tied_head = s->tied_head};
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
        status = faults_create(t, why);
    return status;
}

/* A fault can only reach what is an object. */
static bool faults_in_attention(const trainer *t)
{
    bool any = false;

    for (size_t i = 0; i < t->faults.count; i++) {
        for (size_t j = 0; j < t->sites.operands; j++)
            any |= faults_hit(t, i, j) && t->sites.at[j].kind == PLUMB_SITE_ATTENTION;
    }
    return any;
}

void trainer_bf16_specs(const trainer *t, plumb_spec *specs)
{
    const int enough = plumb_format_get(PLUMB_BF16)->bits;

    for (size_t i = 0; i < t->sites.operands; i++) {
        const site *s = &t->sites.at[i];
        const bool keeps = s->kind != PLUMB_SITE_LINEAR &&
                           plumb_format_get(s->effective.format)->bits >= enough;

        specs[i] = keeps ? s->effective : (plumb_spec){.format = PLUMB_BF16};
    }
}

uint64_t trainer_seed(const trainer *t)
{
    return t->request.has_seed ? t->request.seed : (uint64_t)t->settings.seed;
}

uint64_t trainer_draw(const trainer *t, int64_t step, size_t call)
{
    return (uint64_t)step * (t->ranks * t->micro_batches + 1) + call;
}

plumb_draw site_draw(const trainer *t, size_t index, int64_t step)
{
    const uint64_t stream = plumb_random_stream(t->sites.at[index].name);

    return (plumb_draw){trainer_seed(t), plumb_random_stream_at(stream, (uint64_t)step)};
}

plumb_model_setup trainer_model(trainer *t)
{
    return (plumb_model_setup){.shape = t->shape,
                               .sequences = t->micro_sequences,
                               .threads = t->threads,
                               .specs = t->sites.specs,
                               .states = t->states,
                               .delta =
                                   (plumb_delta)settings_choice(t->settings.delta, DELTAS),
                               .accumulators = t->sites.accumulators,
                               .from_codes = t->sites.from_codes,
                               .show_attention = faults_in_attention(t),
                               .hook = t->faults.count > 0 ? faults_hook : NULL,
                               .hook_context = t,
                               .count = t->sensors != NULL,
                               .times = t->timed ? &t->times : NULL};
}

plumb_status trainer_plan(trainer *t, plumb_error *why)
{
    /* Under a request it says whether to look; otherwise the run file does. */
    const bool asked = t->request.run_dir != NULL;
    const int64_t every = asked ? t->request.observe_every : t->settings.sensors_every;
    const plumb_status status =
        sensors_create(t, every, t->settings.spectra_every, t->settings.shadow_every, why);

    return status == PLUMB_OK ? plan(t, why) : status;
}

plumb_status trainer_prepare(trainer *t, plumb_error *why)
{
    plumb_status status;

    trainer_sizes(t);
    status = plumb_shape_check(&t->shape, why);
    if (status == PLUMB_OK)
        status = resolve_sites(t, why);
    if (status == PLUMB_OK)
        status = corpus_load(t->text != NULL ? t->text : &t->settings.data,
                             t->shape.context, &t->corpus, why);
    if (status == PLUMB_OK)
        status = settings_hash(&t->settings, t->corpus.text, t->corpus.size, t->config_hash,
                               why);
    return status == PLUMB_OK ? trainer_plan(t, why) : status;
}

plumb_status trainer_create(trainer *t, plumb_error *why)
{
    const plumb_status status = trainer_prepare(t, why);

    return status == PLUMB_OK ? trainer_take(t, why) : status;
}

plumb_status trainer_need(trainer *t, plumb_memory *memory, plumb_error *why)
{
    plumb_model_setup setup = trainer_model(t);
    plumb_scale_state unused; /* there are no states yet: only that there will be counts */
    plumb_status status;

    *memory =
        (plumb_memory){.bytes[PLUMB_MEMORY_RECORDS] = t->corpus.size + t->faults.bytes};
    for (size_t use = 0; use < PLUMB_MEMORY_USES; use++)
        memory->bytes[use] += t->arena.asked[use];
    setup.states = &unused;
    status = plumb_model_need(&setup, memory, why);
    if (status == PLUMB_OK)
        status = sensors_need(t, memory, why);
    return status;
}

plumb_status trainer_step(trainer *t, step_result *r, plumb_error *why)
{
    const int64_t step = t->step + 1;
    plumb_status status;

    *r = (step_result){0};
    batch_fill(t, step, &r->batch_hash);
    sensors_begin(t, step);
    status = gradient_step(t, step, r, why);
    if (status == PLUMB_OK)
        status = adamw_step(t, step, r, why);
    if (status != PLUMB_OK)
        return status;
    state_update_scales(t);
    t->step = step;
    faults_between(t);
    sensors_settle(t);
    r->state_hash = state_hash(t);
    return PLUMB_OK;
}

void trainer_free(trainer *t)
{
    sensors_free(t);
    plumb_model_free(&t->model);
    plumb_arena_free(&t->arena);
    faults_free(t);
    sites_free(&t->sites);
    plumb_rules_free(&t->policy);
    free(t->corpus.text);
    plumb_request_free(&t->request);
    settings_free(&t->settings);
}
