/* The memory of a model: every array that it has, asked of the arena in the same order in both passes
 * (sizes first, then places).  Nothing is allocated later.
 */
#include "model/attention.h"

#include <string.h>

static float *floats(plumb_model *m, size_t rows, size_t cols)
{
    size_t n = 0;

    if (!plumb_mul_size(rows, cols, &n))
        m->arena.overflow = true;
    return plumb_arena_take(&m->arena, n, sizeof(float));
}

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

static const size_t role_use[PLUMB_ROLES] = {
    [PLUMB_FPROP_X] = PLUMB_MEMORY_ACTIVATIONS,  [PLUMB_FPROP_W] = PLUMB_MEMORY_WEIGHTS,
    [PLUMB_DGRAD_DY] = PLUMB_MEMORY_TEMPORARIES, [PLUMB_DGRAD_W] = PLUMB_MEMORY_WEIGHTS,
    [PLUMB_WGRAD_DY] = PLUMB_MEMORY_TEMPORARIES, [PLUMB_WGRAD_X] = PLUMB_MEMORY_ACTIVATIONS,
};

/* The codes of an activation gradient are read at once and never again: all linears use the same
 * memory, or more where it is too small.
 */
static void *passing_codes(plumb_model *m, size_t bytes, size_t slot)
{
    if (bytes > m->code_bytes[slot]) {
        m->codes[slot] = plumb_arena_take(&m->arena, bytes, 1);
        m->code_bytes[slot] = bytes;
    }
    return m->codes[slot];
}

/* Codes and scales of one role.  A role that shares takes only scales. */
static plumb_status plan_role(plumb_model *m, linear *l, size_t role, size_t rows,
                              size_t cols, plumb_error *why)
{
    const size_t site = l->site + role;
    size_t bytes, scales;
    const plumb_status status =
        plumb_quantized_need(&m->specs[m->owner[site]], rows, cols, linear_along_rows[role],
                             &bytes, &scales, why);

    if (status != PLUMB_OK)
        return status;
    if (m->from_codes[site])
        m->decoded_floats = largest(m->decoded_floats, rows * cols);
    m->arena.label = role_use[role];
    if (m->owner[site] == site && role_use[role] == PLUMB_MEMORY_TEMPORARIES)
        l->q[role].codes = passing_codes(m, bytes, role == PLUMB_WGRAD_DY);
    else if (m->owner[site] == site)
        l->q[role].codes = plumb_arena_take(&m->arena, bytes, 1);
    l->d[role] = scales == 0 ? NULL : plumb_arena_take(&m->arena, scales, sizeof(float));
    return PLUMB_OK;
}

static plumb_status plan_linear(plumb_model *m, linear *l, size_t index, plumb_error *why)
{
    plumb_parameter p;
    plumb_site site;

    plumb_site_get(&m->shape, index * PLUMB_ROLES, &site);
    plumb_parameter_get(&m->shape, site.parameter, &p);
    *l = (linear){.inputs = p.cols,
                  .outputs = p.rows,
                  .site = index * PLUMB_ROLES,
                  .offset = p.offset};
    const size_t rows[PLUMB_ROLES] = {m->tokens, p.rows,    m->tokens,
                                      p.rows,    m->tokens, m->tokens};
    const size_t cols[PLUMB_ROLES] = {p.cols, p.cols, p.rows, p.cols, p.rows, p.cols};

    for (size_t role = 0; role < m->roles; role++) {
        const plumb_status status = plan_role(m, l, role, rows[role], cols[role], why);

        if (status != PLUMB_OK)
            return status;
    }
    return PLUMB_OK;
}

/* An array [N, cols] of a layer: its own where it is kept for the backward pass, else one that all
 * layers use in turn.
 */
static float *activation(plumb_model *m, size_t slot, bool kept, size_t cols)
{
    if (kept)
        return floats(m, m->tokens, cols);
    if (!m->is_passing[slot])
        m->passing[slot] = floats(m, m->tokens, cols);
    m->is_passing[slot] = true;
    return m->passing[slot];
}

/* The input of a linear is read again only if its weight gradient has codes of its own. */
static bool input_is_kept(const plumb_model *m, const linear *l)
{
    const size_t site = l->site + PLUMB_WGRAD_X;

    return !m->forward_only && m->owner[site] == site && !m->from_codes[site];
}

static void plan_activations(plumb_model *m, layer *l)
{
    const plumb_shape *s = &m->shape;
    const bool kept = !m->forward_only;
    const size_t of_rows = s->layer_norm ? 2 : 1; /* 1/deviation, mean */

    m->arena.label = PLUMB_MEMORY_ACTIVATIONS;
    l->x = activation(m, 0, kept, s->width);
    l->r1 = activation(m, 1, kept, of_rows);
    l->n1 = activation(m, 2, input_is_kept(m, &l->qkv), s->width);
    l->q_k_v = activation(m, 3, kept, 3 * s->width);
    l->p = activation(m, 4, kept, s->heads * s->context);
    l->o = activation(m, 5,
                      input_is_kept(m, &l->out) ||
                          (kept && (m->delta == PLUMB_DELTA_OUTPUT || m->show_attention)),
                      s->width);
    l->x2 = activation(m, 6, kept, s->width);
    l->r2 = activation(m, 7, kept, of_rows);
    l->n2 = activation(m, 8, input_is_kept(m, &l->up), s->width);
    l->gate_up = activation(m, 9, kept, s->gelu ? s->ff : 2 * s->ff);
    l->h = activation(m, 10, input_is_kept(m, &l->down), s->ff);
    if (s->qk_norm)
        l->rqk = activation(m, 11, kept, 2 * s->heads);
}

static plumb_status plan_layer(plumb_model *m, size_t index, layer *l, plumb_error *why)
{
    const plumb_shape *s = &m->shape;
    const size_t first = 1 + PLUMB_LAYER_PARAMETERS * index;
    linear *const linears[] = {&l->qkv, &l->out, &l->up, &l->down};
    plumb_parameter p;

    plumb_parameter_get(s, first + PLUMB_ATTN_NORM, &p);
    l->norm1 = p.offset;
    plumb_parameter_get(s, first + PLUMB_MLP_NORM, &p);
    l->norm2 = p.offset;
    for (size_t i = 0; i < 4; i++) {
        const plumb_status status = plan_linear(m, linears[i], 4 * index + i, why);

        if (status != PLUMB_OK)
            return status;
    }
    plan_activations(m, l);
    return attention_plan(m, index, l, why);
}

static size_t workspace_bytes(const plumb_model *m)
{
    size_t bytes = largest(attention_workspace(m), linear_workspace(m, &m->head));

    for (size_t i = 0; i < m->shape.layers; i++) {
        const layer *l = &m->layers[i];

        bytes = largest(bytes, linear_workspace(m, &l->qkv));
        bytes = largest(bytes, linear_workspace(m, &l->out));
        bytes = largest(bytes, linear_workspace(m, &l->up));
        bytes = largest(bytes, linear_workspace(m, &l->down));
    }
    return bytes;
}

static void plan_shared(plumb_model *m)
{
    const plumb_shape *s = &m->shape;
    const size_t n = m->tokens, half = s->width / s->heads / 2;
    plumb_parameter p;

    plumb_parameter_get(s, 1 + PLUMB_LAYER_PARAMETERS * s->layers, &p);
    m->final_norm = p.offset;
    m->arena.label = PLUMB_MEMORY_ACTIVATIONS;
    m->x = floats(m, n, s->width);
    m->rf = floats(m, n, s->layer_norm ? 2 : 1);
    m->nf = floats(m, n, s->width);
    m->logits = floats(m, n, PLUMB_VOCABULARY);
    m->arena.label = PLUMB_MEMORY_TEMPORARIES;
    m->d_logits = floats(m, n, PLUMB_VOCABULARY);
    m->losses = floats(m, n, 1);
    m->cosine = floats(m, s->context, half);
    m->sine = floats(m, s->context, half);
    if (!m->forward_only) {
        m->dx = floats(m, n, s->width);
        m->dn = floats(m, n, s->width);
        m->d_o = floats(m, n, s->width);
        m->d_qkv = floats(m, n, 3 * s->width);
        m->d_gate_up = floats(m, n, 2 * s->ff);
        m->dh = floats(m, n, s->ff);
    }
    if (m->decoded_floats > 0)
        m->decoded = floats(m, m->decoded_floats, 1);
    m->row_floats = largest(largest(2 * s->width, s->ff), s->context * s->context);
    for (int t = 0; t < m->threads; t++) {
        m->row[t] = floats(m, m->row_floats, 1);
        m->workspace[t] = plumb_arena_take(&m->arena, workspace_bytes(m), 1);
    }
    m->arena.label = PLUMB_MEMORY_RECORDS;
    m->seen = plumb_arena_take(&m->arena, m->site_count, sizeof *m->seen);
    if (m->count) {
        m->samples = plumb_arena_take(&m->arena, m->site_count, sizeof *m->samples);
        m->parts = plumb_arena_take(&m->arena, (size_t)m->threads, sizeof *m->parts);
    }
}

plumb_status model_plan(plumb_model *m, plumb_error *why)
{
    plumb_status status;

    memset(m->is_passing, 0, sizeof m->is_passing);
    memset(m->code_bytes, 0, sizeof m->code_bytes);
    memset(m->head_bytes, 0, sizeof m->head_bytes);
    m->has_ds = false;
    m->decoded_floats = 0;
    for (size_t i = 0; i < m->shape.layers; i++) {
        status = plan_layer(m, i, &m->layers[i], why);
        if (status != PLUMB_OK)
            return status;
    }
    status = plan_linear(m, &m->head, 4 * m->shape.layers, why);
    if (status == PLUMB_OK)
        plan_shared(m);
    return status;
}
