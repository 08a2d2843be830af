/* Attention leaves out what lies above the diagonal.  Here it does not: whole products, and a softmax
 * that sets the future to 0, must give the same bits; also where q, k, v or the gradient is not
 * finite, and where a sum is -0 until a group of zeros makes it +0.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "check.h"
#include "model/attention.h"
#include "plumb/math.h"
#include "plumb/reduce.h"

enum { D = 16, HEADS = 2, B = 2, LONGEST = 400 };

static const size_t contexts[] = {1, 31, 128, 129, 160, 161, 256, LONGEST};
static plumb_model *model, *shown;
static size_t T;
static float *qkv, *d_o, *d_qkv, *p, *ds, *o;
static unsigned char *workspace;

static plumb_quantized matrix(float *x, size_t rows, size_t cols, size_t ld)
{
    return (plumb_quantized){
        .format = PLUMB_FP32, .rows = rows, .cols = cols, .ld = ld, .codes = x};
}

static void product(plumb_quantized a, bool turn_a, plumb_quantized b, bool turn_b,
                    float *c, size_t ldc)
{
    const plumb_operand left = {&a, turn_a}, right = {&b, turn_b};
    plumb_error why = {0};

    CHECK_OK(
        plumb_matmul(NULL, &left, &right, c, ldc, false, (plumb_tile){0}, workspace, &why),
        why);
}

static void forward_head(size_t b, size_t head)
{
    const size_t d = D / HEADS;
    float *q = qkv + b * T * 3 * D + head * d,
          *probabilities = p + (b * HEADS + head) * T * T;
    const float scale = 1.0f / sqrtf((float)d);

    product(matrix(q, T, d, 3 * D), false, matrix(q + D, T, d, 3 * D), false, probabilities,
            T);
    for (size_t i = 0; i < T; i++) {
        float *s = probabilities + i * T, most = s[0];

        for (size_t j = 1; j <= i; j++)
            most = s[j] > most ? s[j] : most;
        for (size_t j = 0; j <= i; j++)
            s[j] = (s[j] - most) * scale;
        plumb_exp(s, i + 1, s);
        const float sum = plumb_sum(s, i + 1);

        for (size_t j = 0; j < T; j++)
            s[j] = j <= i ? s[j] / sum : 0;
    }
    product(matrix(probabilities, T, T, T), false, matrix(q + 2 * D, T, d, 3 * D), true,
            o + b * T * D + head * d, D);
}

static void backward_head(size_t b, size_t head)
{
    const size_t d = D / HEADS, at = b * T * 3 * D + head * d;
    float *q = qkv + at, *dq = d_qkv + at, *probabilities = p + (b * HEADS + head) * T * T;
    const plumb_quantized whole = matrix(probabilities, T, T, T),
                          scores = matrix(ds, T, T, T);
    const plumb_quantized out = matrix(d_o + b * T * D + head * d, T, d, D);
    const float scale = 1.0f / sqrtf((float)d);

    product(out, false, matrix(q + 2 * D, T, d, 3 * D), false, ds, T);
    product(whole, true, out, true, dq + 2 * D, 3 * D);
    for (size_t i = 0; i < T; i++) {
        float *row = ds + i * T;
        const float *of = probabilities + i * T, sum = plumb_dot(of, row, i + 1);

        for (size_t j = 0; j < T; j++)
            row[j] = j <= i ? of[j] * (row[j] - sum) * scale : 0;
    }
    product(scores, false, matrix(q + D, T, d, 3 * D), true, dq, 3 * D);
    product(scores, true, matrix(q, T, d, 3 * D), true, dq + D, 3 * D);
}

/* Index of the first element that differs, or n. */
static size_t differ(const float *a, const float *b, size_t n)
{
    size_t i = 0;

    while (i < n && (memcmp(&a[i], &b[i], sizeof *a) == 0 || (isnan(a[i]) && isnan(b[i]))))
        i++;
    return i;
}

static void both(const char *what)
{
    layer *l = &model->layers[0];
    const size_t n = B * T * D;
    plumb_error why = {0};

    memcpy(l->q_k_v, qkv, 3 * n * sizeof *qkv);
    CHECK_OK(attention_forward(model, l, &why), why);
    CHECK_OK(attention_backward(model, l, d_o, model->d_qkv, &why), why);
    for (size_t i = 0; i < B * HEADS; i++) {
        forward_head(i / HEADS, i % HEADS);
        backward_head(i / HEADS, i % HEADS);
    }
    CHECK(differ(l->p, p, B * HEADS * T * T) == B * HEADS * T * T, "%s, T %zu: p", what, T);
    const size_t at = differ(l->o, o, n), back = differ(model->d_qkv, d_qkv, 3 * n);

    CHECK(at == n, "%s, T %zu: o[%zu] is %a, want %a", what, T, at, (double)l->o[at % n],
          (double)o[at % n]);
    CHECK(back == 3 * n, "%s, T %zu: d_qkv[%zu] is %a, want %a", what, T, back,
          (double)model->d_qkv[back % (3 * n)], (double)d_qkv[back % (3 * n)]);
}

/* The same with operands that are objects of their own, in fp32. */
static void compare_shown(const char *what)
{
    const layer *a = &model->layers[0];
    layer *b = &shown->layers[0];
    const size_t n = B * T * D;
    plumb_error why = {0};

    CHECK(b->cast_attention && !a->cast_attention, "operands are not shown");
    memcpy(b->q_k_v, qkv, 3 * n * sizeof *qkv);
    CHECK_OK(attention_cast_forward(shown, b, &why), why);
    CHECK_OK(attention_cast_backward(shown, b, d_o, shown->d_qkv, &why), why);
    CHECK(differ(a->o, b->o, n) == n, "%s, T %zu: o of operands that are shown", what, T);
    CHECK(differ(model->d_qkv, shown->d_qkv, 3 * n) == 3 * n,
          "%s, T %zu: d_qkv of operands that are shown", what, T);
}

static void fill(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = ((float)(seed >> 8) / 8388608.0f - 1) * (seed % 5 == 0 ? 8.0f : 1.0f);
    }
}

static void ordinary(void)
{
    fill(qkv, 3 * B * T * D, 3);
    fill(d_o, B * T * D, 4);
    both("ordinary");
    compare_shown("ordinary");
}

/* Something that is not finite in the last token, the first, and one in the middle. */
static void wild(void)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    const size_t tokens[] = {T - 1, 0, T / 2};

    for (size_t part = 0; part < 4; part++) {
        for (size_t i = 0; i < 3; i++) {
            fill(qkv, 3 * B * T * D, 3);
            fill(d_o, B * T * D, 4);
            if (part < 3)
                qkv[tokens[i] * 3 * D + part * D + 1] = bad[i];
            else
                d_o[tokens[i] * D + 1] = bad[i];
            both("wild");
            if (T <= 161)
                compare_shown("wild");
        }
    }
}

/* Scores 0, so that each p is 1 / (i + 1); in the last row of each group of 32 the sum falls below
 * the smallest normal number, from above: -0.
 */
static void negative_zero(void)
{
    memset(qkv, 0, 3 * B * T * D * sizeof *qkv);
    fill(d_o, B * T * D, 4);
    for (size_t i = 127; i < T; i += 128) {
        float *first = qkv + 2 * D, *last = qkv + i * 3 * D + 2 * D;

        for (size_t j = 0; j < D; j++) {
            first[j] = 0x1.8p-126f * (float)(i + 1);
            last[j] = -0x1.ap-126f * (float)(i + 1);
        }
        both("-0");
        compare_shown("-0");
        for (size_t j = 0; j < D; j++)
            last[j] = 0;
    }
}

static void context(size_t length)
{
    const plumb_shape shape = {
        .layers = 1, .width = D, .heads = HEADS, .ff = 8, .context = length};
    plumb_spec specs[128] = {{.format = PLUMB_FP32}};
    plumb_error why = {0};

    T = length;
    if (!CHECK_OK(plumb_model_create(
                      &(plumb_model_setup){
                          .shape = shape, .sequences = B, .threads = 2, .specs = specs},
                      &model, &why),
                  why))
        return;
    if (!CHECK_OK(plumb_model_create(&(plumb_model_setup){.shape = shape,
                                                          .sequences = B,
                                                          .threads = 2,
                                                          .specs = specs,
                                                          .show_attention = true,
                                                          .count = true},
                                     &shown, &why),
                  why))
        return;
    ordinary();
    wild();
    if (T > 128)
        negative_zero();
    plumb_model_free(&model);
    plumb_model_free(&shown);
}

int main(void)
{
    const size_t n = B * LONGEST * D, square = LONGEST * LONGEST;

    qkv = calloc(3 * n, sizeof *qkv);
    d_qkv = calloc(3 * n, sizeof *qkv);
    d_o = calloc(n, sizeof *qkv);
    o = calloc(n, sizeof *qkv);
    p = calloc(B * HEADS * square, sizeof *p);
    ds = calloc(square, sizeof *p);
    workspace = aligned_alloc(64, 1 << 20);
    for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++)
        context(contexts[i]);
    check_done("what is left out changes no bit");
    free(qkv);
    free(d_qkv);
    free(d_o);
    free(o);
    free(p);
    free(ds);
    free(workspace);
    return check_exit();
}
