/* The whole model: made, run forward and backward in reading order, looked at.
 *
 * The promise of the header (bits do not depend on threads) is kept by the layers: each output is
 * computed by one thread, and every sum has a fixed order.
 */
#include "model/attention.h"
#include "model/variants.h"

#include <stdlib.h>
#include <string.h>

#include "plumb/random.h"

static plumb_status check_specs(const plumb_model_setup *setup, plumb_error *why)
{
    plumb_status status = PLUMB_OK;

    for (size_t i = 0; i < plumb_site_count(&setup->shape) && status == PLUMB_OK; i++) {
        plumb_site site;

        plumb_site_get(&setup->shape, i, &site);
        status = plumb_site_takes(&site, &setup->specs[i], why);
        if (setup->specs[i].rule == PLUMB_SCALE_DELAYED && setup->states == NULL)
            status = plumb_fail(why, PLUMB_BAD_ARGUMENT,
                                "site %s is delayed, but there are no states", site.name);
    }
    return status;
}

static plumb_status check_setup(const plumb_model_setup *setup, plumb_error *why)
{
    const plumb_status status = plumb_shape_check(&setup->shape, why);

    if (status != PLUMB_OK)
        return status;
    if (setup->sequences < 1 || setup->sequences > 65536)
        return plumb_fail(why, PLUMB_BAD_SHAPE, "%zu sequences; allowed: 1 to 65536",
                          setup->sequences);
    if (setup->threads < 1 || setup->threads > PLUMB_MAX_THREADS)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "%d threads; allowed: 1 to %d",
                          setup->threads, PLUMB_MAX_THREADS);
    if ((unsigned)setup->delta >= PLUMB_DELTA_COUNT)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "delta %d does not exist",
                          (int)setup->delta);
    return check_specs(setup, why);
}

/* Everything but the arena. */
static plumb_status prepare(const plumb_model_setup *setup, plumb_model **out,
                            plumb_error *why)
{
    plumb_status status = check_setup(setup, why);

    if (status != PLUMB_OK)
        return status;
    plumb_model *m = *out = calloc(1, sizeof *m);

    if (m == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the model");
    m->shape = setup->shape;
    m->sequences = setup->sequences;
    m->tokens = setup->sequences * setup->shape.context;
    m->threads = setup->threads;
    m->states = setup->states;
    m->hook = setup->hook;
    m->hook_context = setup->hook_context;
    m->site_count = plumb_site_count(&m->shape);
    m->layers = calloc(m->shape.layers, sizeof *m->layers);
    m->specs = calloc(m->site_count, sizeof *m->specs);
    m->owner = calloc(m->site_count, sizeof *m->owner);
    m->streams = calloc(m->site_count, sizeof *m->streams);
    m->count = setup->count;
    m->delta = setup->delta;
    m->show_attention = setup->show_attention;
    m->forward_only = setup->forward_only;
    m->roles = setup->forward_only ? PLUMB_DGRAD_DY : PLUMB_ROLES;
    m->timed = setup->times != NULL;
    m->times = m->timed ? setup->times : &m->unasked;
    m->part = &m->times->layers;
    m->how = calloc(plumb_product_count(&m->shape), sizeof *m->how);
    m->from_codes = calloc(m->site_count, sizeof *m->from_codes);
    if (m->layers == NULL || m->specs == NULL || m->owner == NULL || m->streams == NULL ||
        m->how == NULL || m->from_codes == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu sites", m->site_count);
    memcpy(m->specs, setup->specs, m->site_count * sizeof *m->specs);
    for (size_t i = 0; i < m->site_count; i++) {
        plumb_site site;

        plumb_site_get(&m->shape, i, &site);
        m->streams[i] = plumb_random_stream(site.name);
        m->owner[i] = plumb_site_owner(&m->shape, m->specs, i);
        m->from_codes[i] = setup->from_codes != NULL && setup->from_codes[i] &&
                           site.kind == PLUMB_SITE_LINEAR && m->owner[i] == i &&
                           site_first(i) != i;
    }
    for (size_t i = 0; i < plumb_product_count(&m->shape) && setup->accumulators != NULL;
         i++)
        m->how[i] = plumb_product_accumulator(
            &setup->accumulators[i], m->specs[2 * i].format, m->specs[2 * i + 1].format);
    return model_plan(m, why);
}

plumb_status plumb_model_create(const plumb_model_setup *setup, plumb_model **model,
                                plumb_error *why)
{
    plumb_status status = prepare(setup, model, why);

    if (status == PLUMB_OK)
        status = plumb_arena_commit(&(*model)->arena, why);
    if (status == PLUMB_OK)
        status = model_plan(*model, why);
    if (status != PLUMB_OK) {
        plumb_model_free(model);
        return status;
    }
    rope_tables(*model);
    return PLUMB_OK;
}

void plumb_model_free(plumb_model **model)
{
    plumb_model *m = *model;

    if (m == NULL)
        return;
    plumb_arena_free(&m->arena);
    free(m->layers);
    free(m->specs);
    free(m->owner);
    free(m->streams);
    free(m->how);
    free(m->from_codes);
    free(m);
    *model = NULL;
}

plumb_status plumb_model_need(const plumb_model_setup *setup, plumb_memory *memory,
                              plumb_error *why)
{
    plumb_model *m = NULL;
    plumb_status status = prepare(setup, &m, why);

    if (status == PLUMB_OK && m->arena.overflow)
        status =
            plumb_fail(why, PLUMB_BAD_SHAPE, "the sizes asked for do not fit in memory");
    for (size_t use = 0; use < PLUMB_MEMORY_USES && status == PLUMB_OK; use++)
        memory->bytes[use] += m->arena.asked[use];
    plumb_model_free(&m);
    return status;
}

plumb_status plumb_model_respec(plumb_model *m, size_t site, const plumb_spec *spec)
{
    plumb_spec *own = &m->specs[site];

    if (spec->format != own->format || spec->grain != own->grain || spec->rule != own->rule)
        return PLUMB_UNSUPPORTED;
    *own = *spec;
    return PLUMB_OK;
}

plumb_status plumb_model_delta(plumb_model *m, size_t index, plumb_delta delta)
{
    if (!m->show_attention && delta != m->delta)
        return PLUMB_UNSUPPORTED;
    m->layers[index].delta = delta;
    return PLUMB_OK;
}

void plumb_model_draw(plumb_model *m, uint64_t seed, uint64_t number)
{
    m->seed = seed;
    m->draw = number;
}

/* --- running ------------------------------------------------------------------------ */

static plumb_status all_weights(plumb_model *m, const float *weights, plumb_error *why)
{
    plumb_status status = linear_weights(m, &m->head, weights, why);

    for (size_t i = 0; i < m->shape.layers && status == PLUMB_OK; i++) {
        layer *l = &m->layers[i];

        status = linear_weights(m, &l->qkv, weights, why);
        if (status == PLUMB_OK)
            status = linear_weights(m, &l->out, weights, why);
        if (status == PLUMB_OK)
            status = linear_weights(m, &l->up, weights, why);
        if (status == PLUMB_OK)
            status = linear_weights(m, &l->down, weights, why);
    }
    return status;
}

plumb_status plumb_model_weights(plumb_model *m, const float *weights, plumb_error *why)
{
    const double begin = clock_begin(m, &m->times->weights);
    const plumb_status status = all_weights(m, weights, why);

    clock_end(m, begin);
    return status;
}

typedef void norm_function(plumb_model *m, size_t site, const float *x, const float *g,
                           float *r, float *y, float *copy);
typedef void norm_gradient(const plumb_model *m, const float *x, const float *g,
                           const float *r, const float *dy, bool add, float *dx, float *dg);

static norm_function *norm_forward(const plumb_model *m)
{
    return m->shape.layer_norm ? layernorm_forward : rmsnorm_forward;
}

static norm_gradient *norm_backward(const plumb_model *m)
{
    return m->shape.layer_norm ? layernorm_backward : rmsnorm_backward;
}

/* x2 = x + attn.out(attention(rope(attn.qkv(rmsnorm(x))))) */
static plumb_status attention_block(plumb_model *m, layer *l, const float *weights,
                                    plumb_error *why)
{
    plumb_status status;

    norm_forward(m)(m, l->norm_site, l->x, weights + l->norm1, l->r1, l->n1, l->x2);
    status = linear_forward(m, &l->qkv, l->n1, l->q_k_v, false, why);
    if (status != PLUMB_OK)
        return status;
    if (m->shape.qk_norm)
        qk_norm_forward(m, l->q_k_v, l->rqk);
    rope_rotate(m, l->q_k_v, false);
    status = l->cast_attention ? attention_cast_forward(m, l, why)
                               : attention_forward(m, l, why);
    if (status != PLUMB_OK)
        return status;
    return linear_forward(m, &l->out, l->o, l->x2, true, why);
}

/* y = x2 + mlp.down(swiglu(mlp.up(rmsnorm(x2)))) */
static plumb_status mlp_block(plumb_model *m, layer *l, const float *weights, float *y,
                              plumb_error *why)
{
    norm_forward(m)(m, l->norm_site + 1, l->x2, weights + l->norm2, l->r2, l->n2, y);
    const plumb_status status = linear_forward(m, &l->up, l->n2, l->gate_up, false, why);

    if (status != PLUMB_OK)
        return status;
    (m->shape.gelu ? gelu_forward : swiglu_forward)(m, l->gate_up, l->h);
    return linear_forward(m, &l->down, l->h, y, true, why);
}

static float *layer_output(const plumb_model *m, size_t index)
{
    return index + 1 < m->shape.layers ? m->layers[index + 1].x : m->x;
}

plumb_status plumb_model_forward(plumb_model *m, const float *weights,
                                 const uint8_t *tokens, plumb_loss *loss, plumb_error *why)
{
    double begin = clock_begin(m, &m->times->ends);
    plumb_status status = PLUMB_OK;

    embedding_forward(m, weights, tokens, m->layers[0].x);
    clock_end(m, begin);
    begin = clock_begin(m, &m->times->layers);
    for (size_t i = 0; i < m->shape.layers && status == PLUMB_OK; i++) {
        status = attention_block(m, &m->layers[i], weights, why);
        if (status == PLUMB_OK)
            status = mlp_block(m, &m->layers[i], weights, layer_output(m, i), why);
    }
    clock_end(m, begin);
    if (status != PLUMB_OK)
        return status;
    begin = clock_begin(m, &m->times->ends);
    norm_forward(m)(m, site_norm(&m->shape, NORMS_OF_LAYER * m->shape.layers), m->x,
                    weights + m->final_norm, m->rf, m->nf, NULL);
    status = linear_forward(m, &m->head, m->nf, m->logits, false, why);
    if (status == PLUMB_OK)
        cross_entropy(m, tokens, loss);
    clock_end(m, begin);
    return status;
}

static plumb_status mlp_backward(plumb_model *m, layer *l, const float *weights,
                                 float *gradient, plumb_error *why)
{
    plumb_status status = linear_backward(m, &l->down, l->h, m->dx, m->dh, gradient, why);

    if (status != PLUMB_OK)
        return status;
    (m->shape.gelu ? gelu_backward : swiglu_backward)(m, l->gate_up, m->dh, m->d_gate_up);
    status = linear_backward(m, &l->up, l->n2, m->d_gate_up, m->dn, gradient, why);
    if (status == PLUMB_OK)
        norm_backward(m)(m, l->x2, weights + l->norm2, l->r2, m->dn, true, m->dx,
                         gradient + l->norm2);
    return status;
}

static plumb_status attention_block_backward(plumb_model *m, layer *l, const float *weights,
                                             float *gradient, plumb_error *why)
{
    plumb_status status = linear_backward(m, &l->out, l->o, m->dx, m->d_o, gradient, why);

    if (status == PLUMB_OK)
        status = l->cast_attention ? attention_cast_backward(m, l, m->d_o, m->d_qkv, why)
                                   : attention_backward(m, l, m->d_o, m->d_qkv, why);
    if (status != PLUMB_OK)
        return status;
    if (m->shape.qk_norm)
        qk_norm_backward(m, l->q_k_v, l->rqk, m->d_qkv);
    rope_rotate(m, m->d_qkv, true);
    status = linear_backward(m, &l->qkv, l->n1, m->d_qkv, m->dn, gradient, why);
    if (status == PLUMB_OK)
        norm_backward(m)(m, l->x, weights + l->norm1, l->r1, m->dn, true, m->dx,
                         gradient + l->norm1);
    return status;
}

plumb_status plumb_model_backward(plumb_model *m, const float *weights,
                                  const uint8_t *tokens, float *gradient, plumb_error *why)
{
    double begin = clock_begin(m, &m->times->ends);
    plumb_status status =
        linear_backward(m, &m->head, m->nf, m->d_logits, m->dn, gradient, why);

    if (status != PLUMB_OK)
        return status;
    norm_backward(m)(m, m->x, weights + m->final_norm, m->rf, m->dn, false, m->dx,
                     gradient + m->final_norm);
    clock_end(m, begin);
    begin = clock_begin(m, &m->times->layers);
    for (size_t i = m->shape.layers; i-- > 0 && status == PLUMB_OK;) {
        status = mlp_backward(m, &m->layers[i], weights, gradient, why);
        if (status == PLUMB_OK)
            status = attention_block_backward(m, &m->layers[i], weights, gradient, why);
    }
    clock_end(m, begin);
    if (status != PLUMB_OK)
        return status;
    begin = clock_begin(m, &m->times->ends);
    embedding_backward(m, tokens, m->dx, gradient);
    clock_end(m, begin);
    return status;
}

/* --- looking ------------------------------------------------------------------------- */

const float *plumb_model_logits(const plumb_model *m, size_t *n)
{
    *n = m->tokens * PLUMB_VOCABULARY;
    return m->logits;
}

const float *plumb_model_losses(const plumb_model *m, size_t *n)
{
    *n = m->tokens;
    return m->losses;
}

const float *plumb_model_layer_output(const plumb_model *m, size_t index, size_t *n)
{
    *n = m->tokens * m->shape.width;
    return layer_output(m, index);
}

const plumb_quantized *plumb_model_quantized(const plumb_model *m, size_t site)
{
    const size_t index = site / PLUMB_ROLES, part = index % 4;

    if (index == 4 * m->shape.layers)
        return &m->head.q[site % PLUMB_ROLES];
    const layer *l = &m->layers[index / 4];
    const linear *const linears[] = {&l->qkv, &l->out, &l->up, &l->down};

    return &linears[part]->q[site % PLUMB_ROLES];
}

void plumb_model_sample(plumb_model *m, size_t site, plumb_sample *sample)
{
    *sample = (plumb_sample){0};
    if (!m->seen[site] || m->samples == NULL)
        return;
    m->seen[site] = false;
    *sample = m->samples[site];
}

void plumb_model_exponents(plumb_model *m, plumb_exponents *exponents)
{
    m->exponents = m->samples != NULL ? exponents : NULL;
}
