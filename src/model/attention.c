/* Causal attention of each sequence and head, in fp32.
 *
 *   s = q k^T / sqrt(d)    p = softmax of row i over columns 0..i    o = p v
 *   dv = p^T do    dp = do v^T    ds = p (dp - sum(p dp)) / sqrt(d)    dq = ds k    dk = ds^T q
 *
 * q, k and v are read where the projection left them: columns of qkv[N, 3D].  One thread computes
 * one (sequence, head) from beginning to end, so nothing depends on how many there are.
 */
#include "model/model.h"

#include <math.h>
#include <omp.h>

#include "plumb/math.h"
#include "plumb/reduce.h"

/* Matrices of one sequence and head. */
typedef struct head_view {
    plumb_quantized q, k, v, p, o;
    size_t column; /* of q in qkv, of o in o */
} head_view;

/* What one thread has for itself. */
typedef struct worker {
    const plumb_model *m;
    void *workspace;
    float *ds; /* [T, T] */
    double gemm;
    plumb_status status;
    plumb_error said;
} worker;

static plumb_quantized matrix(const float *x, size_t rows, size_t cols, size_t ld)
{
    /* plumb_quantized has room for codes that are written; here they are only read. */
    union {
        const float *from;
        void *to;
    } codes = {.from = x};

    return (plumb_quantized){
        .format = PLUMB_FP32, .rows = rows, .cols = cols, .ld = ld, .codes = codes.to};
}

static head_view view(const plumb_model *m, const float *qkv, const float *p,
                      const float *o, size_t b, size_t head)
{
    const size_t width = m->shape.width, d = width / m->shape.heads, t = m->shape.context;
    const float *q = qkv + b * t * 3 * width + head * d;

    return (head_view){
        .q = matrix(q, t, d, 3 * width),
        .k = matrix(q + width, t, d, 3 * width),
        .v = matrix(q + 2 * width, t, d, 3 * width),
        .p = matrix(p, t, t, t),
        .o = matrix(o + b * t * width + head * d, t, d, width),
    };
}

/* c = a b^T, with either side read as its transpose. */
static void multiply(const plumb_quantized *a, bool a_transposed, const plumb_quantized *b,
                     bool b_transposed, float *c, size_t ldc, worker *w)
{
    const plumb_operand left = {a, a_transposed}, right = {b, b_transposed};
    const double begin = clock_now(w->m);

    if (w->status == PLUMB_OK)
        w->status = plumb_matmul(NULL, &left, &right, c, ldc, false, (plumb_tile){0},
                                 w->workspace, &w->said);
    w->gemm += clock_now(w->m) - begin;
}

/* Row i of the scores becomes probabilities; columns past i are the future: 0. */
static void softmax_row(float *s, size_t i, size_t columns, float scale)
{
    float most = s[0];

    for (size_t j = 1; j <= i; j++)
        most = s[j] > most ? s[j] : most;
    for (size_t j = 0; j <= i; j++)
        s[j] = (s[j] - most) * scale;
    plumb_exp(s, i + 1, s);
    const float sum = plumb_sum(s, i + 1);

    for (size_t j = 0; j <= i; j++)
        s[j] /= sum;
    for (size_t j = i + 1; j < columns; j++)
        s[j] = 0;
}

static float head_scale(const plumb_shape *s)
{
    return 1.0f / sqrtf((float)(s->width / s->heads));
}

static void head_forward(worker *w, layer *l, size_t index)
{
    const plumb_model *m = w->m;
    const size_t heads = m->shape.heads, t = m->shape.context, width = m->shape.width;
    const size_t b = index / heads, head = index % heads;
    float *p = l->p + index * t * t;
    float *o = l->o + b * t * width + head * (width / heads);
    const head_view h = view(m, l->q_k_v, p, l->o, b, head);

    multiply(&h.q, false, &h.k, false, p, t, w);
    for (size_t i = 0; i < t; i++)
        softmax_row(p + i * t, i, t, head_scale(&m->shape));
    multiply(&h.p, false, &h.v, true, o, width, w);
}

/* dp becomes ds. */
static void softmax_backward(const float *p, size_t t, float scale, float *dp)
{
    for (size_t i = 0; i < t; i++, p += t, dp += t) {
        const float sum = plumb_dot(p, dp, i + 1);

        for (size_t j = 0; j <= i; j++)
            dp[j] = p[j] * (dp[j] - sum) * scale;
        for (size_t j = i + 1; j < t; j++)
            dp[j] = 0;
    }
}

static void head_backward(worker *w, const layer *l, const float *d_o, float *d_qkv,
                          size_t index)
{
    const plumb_model *m = w->m;
    const size_t heads = m->shape.heads, t = m->shape.context, width = m->shape.width;
    const size_t b = index / heads, head = index % heads, ld = 3 * width;
    const float *p = l->p + index * t * t;
    float *dq = d_qkv + b * t * ld + head * (width / heads);
    const head_view h = view(m, l->q_k_v, p, d_o, b, head);
    const plumb_quantized scores = matrix(w->ds, t, t, t);

    multiply(&h.o, false, &h.v, false, w->ds, t, w);
    multiply(&h.p, true, &h.o, true, dq + 2 * width, ld, w);
    softmax_backward(p, t, head_scale(&m->shape), w->ds);
    multiply(&scores, false, &h.k, true, dq, ld, w);
    multiply(&scores, true, &h.q, true, dq + width, ld, w);
}

static void begin(const plumb_model *m, worker workers[])
{
    for (int t = 0; t < m->threads; t++) {
        workers[t].m = m;
        workers[t].workspace = m->workspace[t];
        workers[t].ds = m->row[t];
        workers[t].gemm = 0;
        workers[t].status = PLUMB_OK;
    }
}

/* The first failure, if any: shapes were checked at creation, so there is none. */
static plumb_status end(const plumb_model *m, const worker workers[], plumb_error *why)
{
    for (int t = 0; t < m->threads; t++) {
        m->part->gemm += workers[t].gemm / m->threads;
        if (workers[t].status != PLUMB_OK)
            return plumb_fail(why, workers[t].status, "%s", workers[t].said.message);
    }
    return PLUMB_OK;
}

plumb_status attention_forward(const plumb_model *m, layer *l, plumb_error *why)
{
    worker workers[PLUMB_MAX_THREADS];

    begin(m, workers);
#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < m->sequences * m->shape.heads; i++)
        head_forward(&workers[omp_get_thread_num()], l, i);
    return end(m, workers, why);
}

plumb_status attention_backward(const plumb_model *m, const layer *l, const float *d_o,
                                float *d_qkv, plumb_error *why)
{
    worker workers[PLUMB_MAX_THREADS];

    begin(m, workers);
#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < m->sequences * m->shape.heads; i++)
        head_backward(&workers[omp_get_thread_num()], l, d_o, d_qkv, i);
    return end(m, workers, why);
}

size_t attention_workspace(const plumb_shape *s)
{
    const size_t t = s->context, d = s->width / s->heads;
    const size_t inner = plumb_matmul_workspace_bytes(NULL, t, t, d);
    const size_t outer = plumb_matmul_workspace_bytes(NULL, t, d, t);

    return inner > outer ? inner : outer;
}
