/* A linear layer: three products on quantised operands.
 *
 *   fprop  y[N, O] = x[N, I] w[O, I]^T    contracts I
 *   dgrad  dx[N, I] = dy[N, O] w[O, I]    contracts O
 *   wgrad  dw[O, I] = dy[N, O]^T x[N, I]  contracts N
 *
 * Each operand of each product is a site with a spec of its own.  Two sites of one tensor share
 * their codes where that changes no bit (plumb_site_owner); otherwise each is quantised on its own, blocks
 * lying along the axis that its product contracts: from the high-precision tensor, or from what the
 * codes of the first site say (from_codes).
 */
#include "model/sites.h"
#include "model/model.h"

#include <omp.h>
#include <string.h>

const bool linear_along_rows[PLUMB_ROLES] = {
    [PLUMB_DGRAD_W] = true, [PLUMB_WGRAD_DY] = true, [PLUMB_WGRAD_X] = true};

/* The role that shares the codes of this one; PLUMB_ROLES if there is none. */
static size_t follower(const plumb_model *m, const linear *l, size_t role)
{
    size_t next = role + 1;

    while (next < m->roles && m->owner[l->site + next] != l->site + role)
        next++;
    return next < m->roles ? next : PLUMB_ROLES;
}

/* The same bytes, with scales of their own. */
static void share(linear *l, size_t from, size_t to)
{
    const plumb_quantized *q = &l->q[from];

    l->q[to] = *q;
    l->q[to].along_rows = linear_along_rows[to];
    if (q->d == NULL)
        return;
    l->q[to].d = l->d[to];
    memcpy(l->d[to], q->d, plumb_quantized_scale_count(q) * sizeof *q->d);
}

/* The hook, then what is left of the operand. */
static void tell(plumb_model *m, linear *l, size_t role, size_t owner,
                 const plumb_counts *counts)
{
    if (m->hook != NULL)
        m->hook(m->hook_context, l->site + role, &l->q[role],
                m->specs[owner].rule == PLUMB_SCALE_DELAYED ? &m->states[owner] : NULL);
    if (m->samples != NULL)
        sample_matrix(m, l->site + role, &l->q[role], counts, true);
}

/* Quantises one tensor for `role`, and for the role that shares its codes; nothing where the
 * codes are another role's.
 */
static plumb_status quantise(plumb_model *m, linear *l, size_t role, const float *x,
                             size_t rows, size_t cols, plumb_error *why)
{
    const size_t site = l->site + role, next = follower(m, l, role);
    const plumb_spec *spec = &m->specs[site];
    const plumb_draw draw = model_draw(m, site);
    plumb_counts counts = {0};

    if (m->owner[site] != site)
        return PLUMB_OK;
    if (m->from_codes[site]) {
        const plumb_status decoded =
            plumb_dequantize(&l->q[site_first(site) - l->site], m->decoded, why);

        if (decoded != PLUMB_OK)
            return decoded;
        x = m->decoded;
    }
    l->q[role].d = l->d[role];
    const double begin = clock_now(m);
    const plumb_status status =
        bands_quantise(m, spec, x, rows, cols, linear_along_rows[role], &draw,
                       spec->rule == PLUMB_SCALE_DELAYED ? &m->states[site] : NULL,
                       &l->q[role], m->samples == NULL ? NULL : &counts, why);
    m->part->cast += clock_now(m) - begin;
    if (status != PLUMB_OK)
        return status;
    const bool shared = next < PLUMB_ROLES;

    if (shared)
        share(l, role, next);
    tell(m, l, role, site, &counts);
    if (shared)
        tell(m, l, next, site, &counts);
    note_exponents(m, site, x, rows, cols);
    if (shared && m->exponents != NULL)
        m->exponents[l->site + next] = m->exponents[site];
    return PLUMB_OK;
}

/* Rows of C are dealt out to the threads; the bits do not depend on how. */
static plumb_status product(plumb_model *m, size_t site, plumb_operand a, plumb_operand b,
                            size_t rows, size_t cols, float *c, bool accumulate,
                            plumb_error *why)
{
    const size_t parts = (size_t)m->threads;
    plumb_status status[PLUMB_MAX_THREADS] = {PLUMB_OK};
    plumb_error said[PLUMB_MAX_THREADS];
    const double begin = clock_now(m);

#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t t = 0; t < parts; t++) {
        const size_t chunk = (rows + 15) / 16;
        const size_t first = 16 * (chunk * t / parts), end = 16 * (chunk * (t + 1) / parts);
        const plumb_tile tile = {first, end < rows ? end : rows, 0, cols};

        if (tile.row < tile.row_end)
            status[t] = plumb_matmul(&m->how[site / 2], &a, &b, c, cols, accumulate, tile,
                                     m->workspace[t], &said[t]);
    }
    m->part->gemm += clock_now(m) - begin;
    for (size_t t = 0; t < parts; t++) {
        if (status[t] != PLUMB_OK)
            return plumb_fail(why, status[t], "%s", said[t].message);
    }
    return PLUMB_OK;
}

plumb_status linear_weights(plumb_model *m, linear *l, const float *weights,
                            plumb_error *why)
{
    const float *w = weights + l->offset;
    plumb_status status = quantise(m, l, PLUMB_FPROP_W, w, l->outputs, l->inputs, why);

    if (status == PLUMB_OK && m->roles > PLUMB_DGRAD_W)
        status = quantise(m, l, PLUMB_DGRAD_W, w, l->outputs, l->inputs, why);
    return status;
}

plumb_status linear_forward(plumb_model *m, linear *l, const float *x, float *y,
                            bool accumulate, plumb_error *why)
{
    const plumb_status status = quantise(m, l, PLUMB_FPROP_X, x, m->tokens, l->inputs, why);

    if (status != PLUMB_OK)
        return status;
    return product(m, l->site + PLUMB_FPROP_X, (plumb_operand){&l->q[PLUMB_FPROP_X], false},
                   (plumb_operand){&l->q[PLUMB_FPROP_W], false}, m->tokens, l->outputs, y,
                   accumulate, why);
}

plumb_status linear_backward(plumb_model *m, linear *l, const float *x, const float *dy,
                             float *dx, float *gradient, plumb_error *why)
{
    plumb_status status = quantise(m, l, PLUMB_DGRAD_DY, dy, m->tokens, l->outputs, why);

    if (status == PLUMB_OK)
        status = quantise(m, l, PLUMB_WGRAD_DY, dy, m->tokens, l->outputs, why);
    if (status == PLUMB_OK)
        status = quantise(m, l, PLUMB_WGRAD_X, x, m->tokens, l->inputs, why);
    if (status == PLUMB_OK)
        status = product(m, l->site + PLUMB_DGRAD_DY,
                         (plumb_operand){&l->q[PLUMB_DGRAD_DY], false},
                         (plumb_operand){&l->q[PLUMB_DGRAD_W], true}, m->tokens, l->inputs,
                         dx, false, why);
    if (status == PLUMB_OK)
        status = product(m, l->site + PLUMB_WGRAD_DY,
                         (plumb_operand){&l->q[PLUMB_WGRAD_DY], true},
                         (plumb_operand){&l->q[PLUMB_WGRAD_X], true}, l->outputs, l->inputs,
                         gradient + l->offset, false, why);
    return status;
}

size_t linear_workspace(const plumb_model *m, const linear *l)
{
    const plumb_accumulator *how = &m->how[l->site / 2];
    const size_t n = m->tokens;
    const size_t fprop = plumb_matmul_workspace_bytes(&how[0], n, l->outputs, l->inputs);
    const size_t dgrad = plumb_matmul_workspace_bytes(&how[1], n, l->inputs, l->outputs);
    const size_t wgrad = plumb_matmul_workspace_bytes(&how[2], l->outputs, l->inputs, n);
    const size_t more = fprop > dgrad ? fprop : dgrad;

    return more > wgrad ? more : wgrad;
}
