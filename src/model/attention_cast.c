/* Attention with operands in few bits: the products of attention.c, each on two operands that are
 * quantised as their sites say.
 *
 *   s = q k^T / sqrt(d)   p = softmax(s)   o = p v
 *   dp = do v^T   dv = p^T do   ds = p (dp - delta) / sqrt(d)   dq = ds k   dk = ds^T q
 *
 * softmax and its gradient read p and dp as they are, not as products read them.  An operand with
 * one scale for the tensor is quantised whole, all sequences and heads; every other one head by
 * head.  Nothing is left out above the diagonal, which moves no bit (attention.c).
 */
#include "model/attention.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "plumb/math.h"
#include "plumb/random.h"
#include "plumb/reduce.h"
#include "quant/spec.h"

/* Which tensor a role reads, and along which axis its product contracts it. */
enum { Q = 0, K, V, P, DO, DS };

static const struct {
    int tensor;
    bool along_rows;
} roles[PLUMB_ATTENTION_ROLES] = {
    [PLUMB_QK_Q] = {Q, false}, [PLUMB_QK_K] = {K, false},   [PLUMB_PV_P] = {P, false},
    [PLUMB_PV_V] = {V, true},  [PLUMB_DP_DO] = {DO, false}, [PLUMB_DP_V] = {V, false},
    [PLUMB_DV_P] = {P, true},  [PLUMB_DV_DO] = {DO, true},  [PLUMB_DQ_DS] = {DS, false},
    [PLUMB_DQ_K] = {K, true},  [PLUMB_DK_DS] = {DS, true},  [PLUMB_DK_Q] = {Q, true},
};

static size_t head_width(const plumb_model *m)
{
    return m->shape.width / m->shape.heads;
}

static size_t head_count(const plumb_model *m)
{
    return m->sequences * m->shape.heads;
}

/* p and ds have a square for each head; the others lie side by side. */
static bool is_square(size_t role)
{
    return roles[role].tensor == P || roles[role].tensor == DS;
}

/* --- memory ----------------------------------------------------------------------------- */

/* Not the canonical accumulator. */
static bool is_another(const plumb_accumulator *how)
{
    return how->kind != PLUMB_SUM_FP32 || how->promote128 || how->output != PLUMB_FP32;
}

static bool is_cast(const plumb_model *m, size_t index)
{
    bool cast = m->delta != PLUMB_DELTA_MATCHED || m->show_attention;

    for (size_t role = 0; role < PLUMB_ATTENTION_ROLES; role++)
        cast |= m->specs[site_attention(&m->shape, index, role)].format != PLUMB_FP32;
    for (size_t i = 0; i < PLUMB_ATTENTION_ROLES / 2; i++)
        cast |= is_another(&m->how[site_attention(&m->shape, index, 0) / 2 + i]);
    for (size_t i = 0; i < SOFTMAX_SITES; i++)
        cast |= m->specs[site_softmax(&m->shape, index, i)].format != PLUMB_FP32;
    return cast;
}

/* The role that shares the codes of this one, or PLUMB_ATTENTION_ROLES. */
static size_t follower(const plumb_model *m, const layer *l, size_t role)
{
    size_t next = role + 1;

    while (next < PLUMB_ATTENTION_ROLES &&
           m->owner[l->attention_site + next] != l->attention_site + role)
        next++;
    return next;
}

static bool is_forward(size_t role)
{
    return role < PLUMB_DP_DO;
}

/* Codes that the backward pass reads are the layer's own, others are used by all layers in turn. */
static void *take_codes(plumb_model *m, const layer *l, size_t role, size_t bytes)
{
    const bool kept = is_forward(role) && !m->forward_only &&
                      follower(m, l, role) < PLUMB_ATTENTION_ROLES;

    m->arena.label = kept ? PLUMB_MEMORY_ACTIVATIONS : PLUMB_MEMORY_TEMPORARIES;
    if (kept)
        return plumb_arena_take(&m->arena, bytes, 1);
    if (bytes > m->head_bytes[role]) {
        m->head_codes[role] = plumb_arena_take(&m->arena, bytes, 1);
        m->head_bytes[role] = bytes;
    }
    return m->head_codes[role];
}

static plumb_status plan_role(plumb_model *m, layer *l, size_t role, plumb_error *why)
{
    const size_t site = l->attention_site + role, t = m->shape.context;
    const plumb_spec *spec = &m->specs[m->owner[site]];
    stack *x = &l->attention[role];
    size_t bytes, scales;

    *x = (stack){.whole = plumb_spec_is_scaled(spec) && spec->grain == PLUMB_GRAIN_TENSOR};
    x->count = x->whole ? 1 : head_count(m);
    x->rows = !x->whole ? t : is_square(role) ? head_count(m) * t : m->tokens;
    x->cols = is_square(role) ? t : x->whole ? m->shape.width : head_width(m);
    const plumb_status status = plumb_quantized_need(
        spec, x->rows, x->cols, roles[role].along_rows, &bytes, &scales, why);

    if (status != PLUMB_OK)
        return status;
    size_t all_bytes = 0, all_scales = 0;

    if (!plumb_mul_size(x->count, bytes, &all_bytes) ||
        !plumb_mul_size(x->count, scales, &all_scales))
        m->arena.overflow = true;
    if (m->owner[site] == site)
        x->codes = take_codes(m, l, role, all_bytes);
    x->code_bytes = bytes;
    x->scales = scales;
    m->arena.label = is_forward(role) ? PLUMB_MEMORY_ACTIVATIONS : PLUMB_MEMORY_TEMPORARIES;
    x->d = scales == 0 ? NULL : plumb_arena_take(&m->arena, all_scales, sizeof *x->d);
    m->arena.label = PLUMB_MEMORY_RECORDS;
    x->q = plumb_arena_take(&m->arena, x->count, sizeof *x->q);
    return PLUMB_OK;
}

plumb_status attention_plan(plumb_model *m, size_t index, layer *l, plumb_error *why)
{
    const size_t role_count = m->forward_only ? PLUMB_DP_DO : PLUMB_ATTENTION_ROLES;
    const size_t t = m->shape.context;
    size_t square = 0;

    l->attention_site = site_attention(&m->shape, index, 0);
    l->softmax_site = site_softmax(&m->shape, index, 0);
    l->norm_site = site_norm(&m->shape, NORMS_OF_LAYER * index);
    l->cast_attention = is_cast(m, index);
    l->delta = m->delta;
    if (!l->cast_attention)
        return PLUMB_OK;
    for (size_t role = 0; role < role_count; role++) {
        const plumb_status status = plan_role(m, l, role, why);

        if (status != PLUMB_OK)
            return status;
    }
    if (m->forward_only || m->has_ds)
        return PLUMB_OK;
    if (!plumb_mul_size(head_count(m), t * t, &square))
        m->arena.overflow = true;
    m->arena.label = PLUMB_MEMORY_TEMPORARIES;
    m->ds = plumb_arena_take(&m->arena, square, sizeof *m->ds);
    m->has_ds = true;
    return PLUMB_OK;
}

/* By the accumulators of its layers, if they are not all canonical. */
size_t attention_workspace(const plumb_model *m)
{
    const plumb_accumulator canonical = {0};
    const size_t t = m->shape.context, d = head_width(m);
    size_t most = 0;

    for (size_t i = 0; i <= plumb_product_count(&m->shape); i++) {
        const plumb_accumulator *how =
            i < plumb_product_count(&m->shape) ? &m->how[i] : &canonical;
        const size_t inner = plumb_matmul_workspace_bytes(how, t, t, d);
        const size_t outer = plumb_matmul_workspace_bytes(how, t, d, t);

        most = inner > most ? inner : most;
        most = outer > most ? outer : most;
    }
    return most;
}

/* --- operands --------------------------------------------------------------------------- */

/* A tensor of one layer, and where one head of one sequence begins. */
static const float *tensor_of(const plumb_model *m, const layer *l, const float *d_o,
                              int tensor, size_t *ld)
{
    const size_t width = m->shape.width;

    *ld = tensor <= V ? 3 * width : tensor == DO ? width : m->shape.context;
    if (tensor <= V)
        return l->q_k_v + (size_t)tensor * width;
    return tensor == P ? l->p : tensor == DS ? m->ds : d_o;
}

static size_t head_offset(const plumb_model *m, size_t role, size_t index, size_t ld)
{
    const size_t t = m->shape.context, heads = m->shape.heads;

    if (is_square(role))
        return index * t * t;
    return index / heads * t * ld + index % heads * head_width(m);
}

/* Matrix `i` of an operand, as it was computed. */
static plumb_source source_of(const plumb_model *m, const layer *l, size_t role,
                              const float *d_o, size_t i)
{
    const stack *x = &l->attention[role];
    size_t ld;
    const float *from = tensor_of(m, l, d_o, roles[role].tensor, &ld);

    return (plumb_source){.format = PLUMB_FP32,
                          .x = from + (x->whole ? 0 : head_offset(m, role, i, ld)),
                          .rows = x->rows,
                          .cols = x->cols,
                          .ld = ld};
}

/* Matrix `i` of an operand, from beginning to end; of which thread it is does not matter. */
static plumb_status quantise_one(plumb_model *m, const layer *l, size_t role,
                                 const float *d_o, size_t i, plumb_counts *counts,
                                 plumb_error *why)
{
    const size_t site = l->attention_site + role;
    const plumb_spec *spec = &m->specs[site];
    const stack *x = &l->attention[role];
    plumb_quantized *q = &x->q[i];
    const plumb_source source = source_of(m, l, role, d_o, i);
    plumb_draw draw = model_draw(m, site);

    draw.stream = plumb_random_stream_at(draw.stream, i);
    *q = (plumb_quantized){.codes = (unsigned char *)x->codes + i * x->code_bytes,
                           .d = x->d == NULL ? NULL : x->d + i * x->scales};
    const plumb_copies copies = {.along_columns = roles[role].along_rows ? NULL : q,
                                 .along_rows = roles[role].along_rows ? q : NULL,
                                 .column_counts = counts,
                                 .row_counts = counts};

    return plumb_quantize_copies(
        spec, &source, &draw, spec->rule == PLUMB_SCALE_DELAYED ? &m->states[site] : NULL,
        true, &copies, why);
}

/* The same bytes, with scales of their own. */
static void share(const stack *from, stack *to, bool along_rows)
{
    for (size_t i = 0; i < from->count; i++) {
        to->q[i] = from->q[i];
        to->q[i].along_rows = along_rows;
        if (from->q[i].d == NULL)
            continue;
        to->q[i].d = to->d + i * to->scales;
        memcpy(to->q[i].d, from->q[i].d, from->scales * sizeof *to->d);
    }
}

/* The hook for each matrix, then what is left of the operand. */
static void tell(plumb_model *m, const layer *l, size_t role, size_t owner,
                 const plumb_counts *counts)
{
    const size_t site = l->attention_site + role;
    const stack *x = &l->attention[role];
    plumb_scale_state *state =
        m->specs[owner].rule == PLUMB_SCALE_DELAYED ? &m->states[owner] : NULL;

    for (size_t i = 0; i < x->count && m->hook != NULL; i++)
        m->hook(m->hook_context, site, &x->q[i], state);
    for (size_t i = 0; i < x->count && m->samples != NULL; i++)
        sample_matrix(m, site, &x->q[i], counts, i == 0);
}

/* The exponents of all matrices of an operand, and of the one that shares its codes. */
static void note_stack(const plumb_model *m, const layer *l, size_t role, const float *d_o,
                       size_t next)
{
    plumb_exponents *exponents = m->exponents + l->attention_site;

    for (size_t i = 0; i < l->attention[role].count; i++) {
        const plumb_source s = source_of(m, l, role, d_o, i);

        plumb_exponents_add(&exponents[role], s.x, s.rows, s.cols, s.ld);
    }
    if (next < PLUMB_ATTENTION_ROLES)
        exponents[next] = exponents[role];
}

static plumb_status quantise(plumb_model *m, layer *l, size_t role, const float *d_o,
                             plumb_error *why)
{
    const size_t site = l->attention_site + role, next = follower(m, l, role);
    stack *x = &l->attention[role];
    plumb_counts seen[PLUMB_MAX_THREADS] = {0};
    plumb_status status[PLUMB_MAX_THREADS] = {PLUMB_OK};
    plumb_error said[PLUMB_MAX_THREADS];

    if (m->owner[site] != site)
        return PLUMB_OK;
    const double begin = clock_now(m);

#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < x->count; i++) {
        const int t = omp_get_thread_num();

        if (status[t] == PLUMB_OK)
            status[t] = quantise_one(m, l, role, d_o, i, &seen[t], &said[t]);
    }
    m->part->cast += clock_now(m) - begin;
    for (int t = 0; t < m->threads; t++) {
        if (status[t] != PLUMB_OK)
            return plumb_fail(why, status[t], "%s", said[t].message);
        if (t > 0)
            plumb_counts_add(&seen[0], &seen[t]);
    }
    const bool shared =
        next < PLUMB_ATTENTION_ROLES && !(m->forward_only && !is_forward(next));

    if (shared)
        share(x, &l->attention[next], roles[next].along_rows);
    tell(m, l, role, site, &seen[0]);
    if (shared)
        tell(m, l, next, site, &seen[0]);
    if (m->exponents != NULL)
        note_stack(m, l, role, d_o, shared ? next : PLUMB_ATTENTION_ROLES);
    return PLUMB_OK;
}

/* What the products of one head read. */
static plumb_quantized head_of(const plumb_model *m, const layer *l, size_t role,
                               size_t index)
{
    const stack *x = &l->attention[role];
    plumb_quantized q = x->q[x->whole ? 0 : index];

    if (!x->whole)
        return q;
    q.codes = (unsigned char *)q.codes + head_offset(m, role, index, q.ld);
    q.rows = m->shape.context;
    q.cols = is_square(role) ? m->shape.context : head_width(m);
    return q;
}

/* --- products ---------------------------------------------------------------------------- */

/* What one thread has for itself. */
typedef struct worker {
    plumb_model *m;
    layer *l;
    const float *d_o;
    const rows_kernel *k;
    void *workspace;
    float *scratch;
    double gemm;
    plumb_status status;
    plumb_error said;
    plumb_counts counts[SOFTMAX_SITES];
} worker;

/* c = the product of the pair of operands whose first one is `role`: a b^T with either side
 * turned.
 */
static void multiply(worker *w, size_t role, bool turn_a, bool turn_b, size_t index,
                     float *c, size_t ldc)
{
    const plumb_quantized a = head_of(w->m, w->l, role, index);
    const plumb_quantized b = head_of(w->m, w->l, role + 1, index);
    const plumb_operand left = {&a, turn_a}, right = {&b, turn_b};
    const double begin = clock_now(w->m);

    if (w->status == PLUMB_OK)
        w->status =
            plumb_matmul(&w->m->how[(w->l->attention_site + role) / 2], &left, &right, c,
                         ldc, false, (plumb_tile){0}, w->workspace, &w->said);
    w->gemm += clock_now(w->m) - begin;
}

/* Row `row` of all scores becomes probabilities of columns 0..i; the future is 0. */
static void softmax_row(worker *w, size_t row, size_t i, float *s)
{
    const plumb_model *m = w->m;
    const size_t t = m->shape.context, numerator = w->l->softmax_site + SOFTMAX_NUMERATOR;

    w->k->shift(s, i + 1, 1.0f / sqrtf((float)head_width(m)));
    plumb_exp(s, i + 1, s);
    cast_elements(m, numerator, row, s, i + 1, &w->counts[SOFTMAX_NUMERATOR]);
    w->k->divide(s, i + 1,
                 cast_sum(m, w->l->softmax_site + SOFTMAX_SUM, row, s, i + 1,
                          &w->counts[SOFTMAX_SUM]));
    for (size_t j = i + 1; j < t; j++)
        s[j] = 0;
}

static void scores(worker *w, size_t index)
{
    const size_t t = w->m->shape.context;
    float *p = w->l->p + index * t * t;

    multiply(w, PLUMB_QK_Q, false, false, index, p, t);
    for (size_t i = 0; i < t; i++)
        softmax_row(w, index * t + i, i, p + i * t);
}

static void values(worker *w, size_t index)
{
    const size_t width = w->m->shape.width;

    multiply(w, PLUMB_PV_P, false, true, index,
             w->l->o + head_offset(w->m, PLUMB_PV_V, index, width), width);
}

/* --- the gradient of softmax --------------------------------------------------------------- */

/* sum over j of p dp of row i, from the tensors themselves: fp64 sums of exact products, p from an
 * exponential in fp32.
 */
static float exact_delta(const worker *w, size_t index, size_t i)
{
    const plumb_model *m = w->m;
    const size_t width = m->shape.width, d = head_width(m);
    const size_t at = head_offset(m, PLUMB_QK_Q, index, 3 * width);
    const float *q = w->l->q_k_v + at + i * 3 * width, *k = w->l->q_k_v + at + width;
    const float *d_o = w->d_o + head_offset(m, PLUMB_DP_DO, index, width) + i * width;
    float *s = w->scratch;
    double sum = 0, total = 0;

    for (size_t j = 0; j <= i; j++)
        s[j] = (float)plumb_dot_f64(q, k + j * 3 * width, d);
    w->k->shift(s, i + 1, 1.0f / sqrtf((float)d));
    plumb_exp(s, i + 1, s);
    for (size_t j = 0; j <= i; j++) {
        const double p = (double)s[j];

        sum += p;
        total += p * plumb_dot_f64(d_o, k + width + j * 3 * width, d);
    }
    return (float)(total / sum);
}

static float delta_of(const worker *w, size_t index, size_t i, const float *p,
                      const float *dp)
{
    const plumb_model *m = w->m;
    const size_t at =
        head_offset(m, PLUMB_DP_DO, index, m->shape.width) + i * m->shape.width;

    switch (w->l->delta) {
    case PLUMB_DELTA_OUTPUT:
        return plumb_dot(w->d_o + at, w->l->o + at, head_width(m));
    case PLUMB_DELTA_EXACT:
        return exact_delta(w, index, i);
    default:
        return plumb_dot(p, dp, i + 1);
    }
}

/* dp and dv; then dp becomes ds. */
static void probabilities_backward(worker *w, size_t index, float *d_qkv)
{
    const plumb_model *m = w->m;
    const size_t t = m->shape.context, ld = 3 * m->shape.width;
    const float scale = 1.0f / sqrtf((float)head_width(m));
    float *ds = m->ds + index * t * t, *p = w->l->p + index * t * t;

    multiply(w, PLUMB_DP_DO, false, false, index, ds, t);
    multiply(w, PLUMB_DV_P, true, true, index,
             d_qkv + head_offset(m, PLUMB_DQ_K, index, ld) + 2 * m->shape.width, ld);
    for (size_t i = 0; i < t; i++, ds += t, p += t) {
        w->k->softmax_backward(p, i + 1, delta_of(w, index, i, p, ds), scale, ds);
        for (size_t j = i + 1; j < t; j++)
            ds[j] = 0;
    }
}

static void scores_backward(worker *w, size_t index, float *d_qkv)
{
    const size_t ld = 3 * w->m->shape.width;
    float *dq = d_qkv + head_offset(w->m, PLUMB_DQ_K, index, ld);

    multiply(w, PLUMB_DQ_DS, false, true, index, dq, ld);
    multiply(w, PLUMB_DK_DS, true, true, index, dq + w->m->shape.width, ld);
}

/* --- passes ------------------------------------------------------------------------------ */

static void begin(plumb_model *m, layer *l, const float *d_o, worker workers[])
{
    for (int t = 0; t < m->threads; t++)
        workers[t] = (worker){.m = m,
                              .l = l,
                              .d_o = d_o,
                              .k = rows_best(),
                              .workspace = m->workspace[t],
                              .scratch = m->row[t]};
}

static plumb_status end(plumb_model *m, const worker workers[], plumb_error *why)
{
    for (int t = 0; t < m->threads; t++) {
        m->part->gemm += workers[t].gemm / m->threads;
        if (workers[t].status != PLUMB_OK)
            return plumb_fail(why, workers[t].status, "%s", workers[t].said.message);
    }
    return PLUMB_OK;
}

static plumb_status quantise_all(plumb_model *m, layer *l, const size_t list[4],
                                 const float *d_o, plumb_error *why)
{
    plumb_status status = PLUMB_OK;

    for (size_t i = 0; i < 4 && list[i] < PLUMB_ATTENTION_ROLES && status == PLUMB_OK; i++)
        status = quantise(m, l, list[i], d_o, why);
    return status;
}

static void note_softmax(plumb_model *m, const layer *l, worker workers[])
{
    for (size_t i = 0; i < SOFTMAX_SITES; i++) {
        for (int t = 1; t < m->threads; t++)
            plumb_counts_add(&workers[0].counts[i], &workers[t].counts[i]);
        sample_cast(m, l->softmax_site + i, &workers[0].counts[i]);
    }
}

plumb_status attention_cast_forward(plumb_model *m, layer *l, plumb_error *why)
{
    static const size_t first[4] = {PLUMB_QK_Q, PLUMB_QK_K, PLUMB_ATTENTION_ROLES};
    static const size_t then[4] = {PLUMB_PV_P, PLUMB_PV_V, PLUMB_ATTENTION_ROLES};
    worker workers[PLUMB_MAX_THREADS];
    plumb_status status = quantise_all(m, l, first, NULL, why);

    if (status != PLUMB_OK)
        return status;
    begin(m, l, NULL, workers);
#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < head_count(m); i++)
        scores(&workers[omp_get_thread_num()], i);
    note_softmax(m, l, workers);
    status = quantise_all(m, l, then, NULL, why);
    if (status != PLUMB_OK)
        return status;
#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < head_count(m); i++)
        values(&workers[omp_get_thread_num()], i);
    return end(m, workers, why);
}

plumb_status attention_cast_backward(plumb_model *m, layer *l, const float *d_o,
                                     float *d_qkv, plumb_error *why)
{
    static const size_t first[4] = {PLUMB_DP_DO, PLUMB_DP_V, PLUMB_DV_P, PLUMB_DV_DO};
    static const size_t then[4] = {PLUMB_DQ_DS, PLUMB_DQ_K, PLUMB_DK_DS, PLUMB_DK_Q};
    worker workers[PLUMB_MAX_THREADS];
    plumb_status status = quantise_all(m, l, first, d_o, why);

    if (status != PLUMB_OK)
        return status;
    begin(m, l, d_o, workers);
#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < head_count(m); i++)
        probabilities_backward(&workers[omp_get_thread_num()], i, d_qkv);
    status = quantise_all(m, l, then, d_o, why);
    if (status != PLUMB_OK)
        return status;
#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < head_count(m); i++)
        scores_backward(&workers[omp_get_thread_num()], i, d_qkv);
    return end(m, workers, why);
}
