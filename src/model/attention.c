/* Causal attention of each sequence and head, in fp32.
 *
 *   s = q k^T / sqrt(d)    p = softmax of row i over columns 0..i    o = p v
 *   dv = p^T do    dp = do v^T    ds = p (dp - sum(p dp)) / sqrt(d)    dq = ds k    dk = ds^T q
 *
 * q, k and v are read where the projection left them: columns of qkv[N, 3D].  One thread computes
 * one (sequence, head) from beginning to end, so nothing depends on how many there are.
 *
 * Above the diagonal p and ds are 0, and whole blocks of it are not computed.  That moves no bit:
 * the product adds up K in groups of GROUP, each from +0; a group of zeros times finite numbers
 * gives +0, which changes no sum but one of -0, and one such group is enough for that.
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

enum { GROUP = 32, BLOCK = 4 * GROUP };

/* What one thread has for itself. */
typedef struct worker {
    const plumb_model *m;
    const rows_kernel *k;
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
static void multiply(plumb_quantized a, bool a_transposed, plumb_quantized b,
                     bool b_transposed, float *c, size_t ldc, worker *w)
{
    const plumb_operand left = {&a, a_transposed}, right = {&b, b_transposed};
    const double begin = clock_now(w->m);

    if (w->status == PLUMB_OK)
        w->status = plumb_matmul(NULL, &left, &right, c, ldc, false, (plumb_tile){0},
                                 w->workspace, &w->said);
    w->gemm += clock_now(w->m) - begin;
}

/* --- products with nothing above the diagonal -------------------------------------------- */

static plumb_quantized part(const plumb_quantized *x, size_t row, size_t row_end,
                            size_t col, size_t col_end)
{
    const float *from = x->codes;

    return matrix(from + row * x->ld + col, row_end - row, col_end - col, x->ld);
}

static plumb_quantized rows(const plumb_quantized *x, size_t row, size_t row_end)
{
    return part(x, row, row_end, 0, x->cols);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* True when 0 times any element of these rows is 0. */
static bool are_finite(const rows_kernel *k, const plumb_quantized *x, size_t row,
                       size_t row_end)
{
    const float *from = x->codes;

    return k->finite(from + row * x->ld, row_end - row, x->cols, x->ld);
}

/* s[i, j] = a[i] b[j] where j <= i, and in the rest of the blocks on the diagonal. */
static void lower_product(const plumb_quantized *a, const plumb_quantized *b, float *s,
                          worker *w)
{
    const size_t t = a->rows;

    for (size_t j = 0; j < t; j += BLOCK)
        multiply(rows(a, j, t), false, rows(b, j, smaller(j + BLOCK, t)), false,
                 s + j * t + j, t, w);
}

/* c = p x, p 0 above the diagonal. */
static void lower_times(const plumb_quantized *p, const plumb_quantized *x, float *c,
                        size_t ldc, worker *w)
{
    const size_t t = p->rows;
    const bool skip = t > BLOCK + GROUP && are_finite(w->k, x, BLOCK + GROUP, t);

    for (size_t i = 0; i < t; i += BLOCK) {
        const size_t i_end = smaller(i + BLOCK, t);
        const size_t k_end = skip ? smaller(i_end + GROUP, t) : t;

        multiply(part(p, i, i_end, 0, k_end), false, rows(x, 0, k_end), true, c + i * ldc,
                 ldc, w);
    }
}

/* c = p^T x, the same p. */
static void upper_times(const plumb_quantized *p, const plumb_quantized *x, float *c,
                        size_t ldc, worker *w)
{
    const size_t t = p->rows;
    const bool skip = t > BLOCK && are_finite(w->k, x, 0, (t - 1) / BLOCK * BLOCK);

    for (size_t j = 0; j < t; j += BLOCK) {
        const size_t k = skip ? j : 0;

        multiply(part(p, k, t, j, smaller(j + BLOCK, t)), true, rows(x, k, t), true,
                 c + j * ldc, ldc, w);
    }
}

/* --- softmax ----------------------------------------------------------------------------- */

/* Row i of the scores becomes probabilities.  Columns past i are the future: 0 up to the end of
 * the block; beyond it nothing was ever written.
 */
static void softmax_row(const rows_kernel *k, float *s, size_t i, size_t columns,
                        float scale)
{
    k->shift(s, i + 1, scale);
    plumb_exp(s, i + 1, s);
    k->divide(s, i + 1, plumb_sum(s, i + 1));
    for (size_t j = i + 1; j < columns && j % BLOCK != 0; j++)
        s[j] = 0;
}

/* --- heads ------------------------------------------------------------------------------- */

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

    lower_product(&h.q, &h.k, p, w);
    for (size_t i = 0; i < t; i++)
        softmax_row(w->k, p + i * t, i, t, head_scale(&m->shape));
    lower_times(&h.p, &h.v, o, width, w);
}

/* dp becomes ds. */
static void softmax_backward(const rows_kernel *k, const float *p, size_t t, float scale,
                             float *dp)
{
    for (size_t i = 0; i < t; i++, p += t, dp += t) {
        k->softmax_backward(p, i + 1, plumb_dot(p, dp, i + 1), scale, dp);
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

    lower_product(&h.o, &h.v, w->ds, w);
    upper_times(&h.p, &h.o, dq + 2 * width, ld, w);
    softmax_backward(w->k, p, t, head_scale(&m->shape), w->ds);
    lower_times(&scores, &h.k, dq, ld, w);
    upper_times(&scores, &h.q, dq + width, ld, w);
}

static void begin(const plumb_model *m, worker workers[])
{
    for (int t = 0; t < m->threads; t++) {
        workers[t].m = m;
        workers[t].k = rows_best();
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
