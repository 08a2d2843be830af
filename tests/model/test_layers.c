/* Every layer type against an fp64 oracle: outputs directly, gradients as central differences of
 * the oracle, every element of a small case.
 *
 * The scalar that is differentiated is sum(c * output) with fixed c of order 1.  The fp32 layer
 * makes at most a few hundred roundings of 2^-24 on the way to one element, and they do not all
 * point the same way: 1e-5 of the largest element of the array is a wide bound, and no wrong term
 * is as small as that.
 */
#include "model/attention.h"

#include "check.h"
#include "oracle.h"

enum { B = 2, T = 5, D = 8, HEADS = 2, F = 6, N = B * T };

static const plumb_shape shape = {
    .layers = 1, .width = D, .heads = HEADS, .ff = F, .context = T};
static uint8_t tokens[B * (T + 1)];
static plumb_model *model;

/* Numbers in [-1, 1] from a counter: no two arrays are alike. */
static double number(void)
{
    static uint32_t state = 12345;

    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / (1 << 23) - 1;
}

/* Fills both with the same fp32-exact values. */
static void fill(float *x, double *copy, size_t n)
{
    for (size_t i = 0; i < n; i++)
        copy[i] = (double)(x[i] = (float)number());
}

static void compare(const char *what, const float *got, const double *want, size_t n)
{
    double largest = 0;

    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; i < n; i++)
        CHECK(fabs((double)got[i] - want[i]) <= 1e-5 * largest, "%s[%zu] = %.9g, want %.9g",
              what, i, (double)got[i], want[i]);
}

/* d/dx[i] of function, which reads x, for every i. */
static void differences(double (*function)(void), double *x, size_t n, double *out)
{
    for (size_t i = 0; i < n; i++) {
        const double at = x[i], h = 1e-5;

        x[i] = at + h;
        const double above = function();

        x[i] = at - h;
        out[i] = (above - function()) / (2 * h);
        x[i] = at;
    }
}

enum { MOST = N * PLUMB_VOCABULARY };
static float x32[MOST], g32[MOST], c32[MOST], y32[MOST], r32[N], dx32[MOST], dg32[MOST];
static double x[MOST], g[MOST], c[MOST], y[MOST], want[MOST];

static double weighted(size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += c[i] * y[i];
    return sum;
}

static double norm_function(void)
{
    oracle_rmsnorm(x, g, N, D, y);
    return weighted(N * D);
}

static void rmsnorm(void)
{
    fill(x32, x, N * D);
    fill(g32, g, D);
    fill(c32, c, N * D);
    rmsnorm_forward(model, site_norm(&shape, 0), x32, g32, r32, y32, NULL);
    norm_function();
    compare("y", y32, y, N * D);
    rmsnorm_backward(model, x32, g32, r32, c32, false, dx32, dg32);
    differences(norm_function, x, N * D, want);
    compare("dx", dx32, want, N * D);
    rmsnorm_backward(model, x32, g32, r32, c32, true, dx32, dg32);
    for (size_t i = 0; i < N * D; i++)
        want[i] *= 2;
    compare("dx added", dx32, want, N * D);
    differences(norm_function, g, D, want);
    compare("dg", dg32, want, D);
    check_done("rmsnorm");
}

static double rope_function(void)
{
    memcpy(y, x, N * 3 * D * sizeof *y);
    oracle_rope(&shape, N, y);
    return weighted(N * 3 * D);
}

static void rope(void)
{
    fill(x32, x, N * 3 * D);
    fill(c32, c, N * 3 * D);
    memcpy(y32, x32, N * 3 * D * sizeof *y32);
    rope_rotate(model, y32, false);
    rope_function();
    compare("y", y32, y, N * 3 * D);
    rope_rotate(model, c32, true);
    differences(rope_function, x, N * 3 * D, want);
    compare("dx", c32, want, N * 3 * D);
    check_done("rope");
}

static double attention_function(void)
{
    oracle_attention(&shape, N, x, y);
    return weighted(N * D);
}

static void attention(void)
{
    layer *l = &model->layers[0];
    plumb_error why = {0};

    fill(l->q_k_v, x, N * 3 * D);
    for (size_t i = 0; i < N * 3 * D; i++)
        x[i] = (double)(l->q_k_v[i] *= 2);
    fill(c32, c, N * D);
    CHECK_OK(attention_forward(model, l, &why), why);
    attention_function();
    compare("o", l->o, y, N * D);
    CHECK_OK(attention_backward(model, l, c32, dx32, &why), why);
    differences(attention_function, x, N * 3 * D, want);
    compare("d_qkv", dx32, want, N * 3 * D);
    check_done("attention");
}

static double swiglu_function(void)
{
    oracle_swiglu(x, N, F, y);
    return weighted(N * F);
}

static void swiglu(void)
{
    fill(x32, x, N * 2 * F);
    for (size_t i = 0; i < N * 2 * F; i++)
        x[i] = (double)(x32[i] *= 4);
    fill(c32, c, N * F);
    swiglu_forward(model, x32, y32);
    swiglu_function();
    compare("h", y32, y, N * F);
    swiglu_backward(model, x32, c32, dx32);
    differences(swiglu_function, x, N * 2 * F, want);
    compare("d_gate_up", dx32, want, N * 2 * F);
    check_done("swiglu");
}

static double linear_function(void)
{
    oracle_linear(x, g, N, F, D, y);
    return weighted(N * D);
}

static void down(void)
{
    linear *l = &model->layers[0].down;
    float *weights = calloc(plumb_weight_count(&shape), sizeof *weights);
    float *gradient = calloc(plumb_weight_count(&shape), sizeof *gradient);
    plumb_error why = {0};

    fill(x32, x, N * F);
    fill(weights + l->offset, g, D * F);
    fill(c32, c, N * D);
    CHECK_OK(linear_weights(model, l, weights, &why), why);
    CHECK_OK(linear_forward(model, l, x32, y32, false, &why), why);
    linear_function();
    compare("y", y32, y, N * D);
    CHECK_OK(linear_forward(model, l, x32, y32, true, &why), why);
    for (size_t i = 0; i < N * D; i++)
        y[i] *= 2;
    compare("y added", y32, y, N * D);
    CHECK_OK(linear_backward(model, l, x32, c32, dx32, gradient, &why), why);
    differences(linear_function, x, N * F, want);
    compare("dx", dx32, want, N * F);
    differences(linear_function, g, D * F, want);
    compare("dw", gradient + l->offset, want, D * F);
    free(weights);
    free(gradient);
    check_done("linear");
}

static double embedding_function(void)
{
    double sum = 0;

    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < D; j++)
            sum += c[i * D + j] * g[tokens[i / T * (T + 1) + i % T] * D + j];
    }
    return sum;
}

static void embedding(void)
{
    static double d_table[PLUMB_VOCABULARY * D];

    fill(g32, g, PLUMB_VOCABULARY * D);
    fill(c32, c, N * D);
    embedding_forward(model, g32, tokens, y32);
    for (size_t i = 0; i < N; i++)
        CHECK(memcmp(y32 + i * D, g32 + tokens[i / T * (T + 1) + i % T] * D,
                     D * sizeof *y32) == 0,
              "row %zu is not the row of its token", i);
    embedding_backward(model, tokens, c32, dg32);
    differences(embedding_function, g, PLUMB_VOCABULARY * D, d_table);
    compare("d_table", dg32, d_table, PLUMB_VOCABULARY * D);
    check_done("embedding");
}

static double loss_function(void)
{
    return oracle_loss(x, N, T, tokens);
}

static void loss(void)
{
    plumb_loss seen;
    double worst = 0;

    fill(model->logits, x, N * PLUMB_VOCABULARY);
    cross_entropy(model, tokens, &seen);
    const double mean = loss_function();

    CHECK(fabs(seen.mean - mean) < 1e-6, "loss %.9g, want %.9g", seen.mean, mean);
    differences(loss_function, x, N * PLUMB_VOCABULARY, want);
    compare("d_logits", model->d_logits, want, N * PLUMB_VOCABULARY);
    for (size_t i = 0; i < N; i++) {
        const double one =
            oracle_loss(x + i * PLUMB_VOCABULARY, 1, 1, tokens + i / T * (T + 1) + i % T);

        worst = fmax(worst, one);
    }
    CHECK(fabs((double)seen.worst - worst) < 1e-5, "worst %.9g, want %.9g",
          (double)seen.worst, worst);
    model->logits[3] = NAN;
    cross_entropy(model, tokens, &seen);
    CHECK(isnan(seen.mean) && isnan(seen.worst), "a NaN logit is not seen");
    check_done("loss");
}

int main(void)
{
    plumb_spec specs[128] = {{.format = PLUMB_FP32}};
    plumb_error why = {0};

    for (size_t i = 0; i < sizeof tokens; i++)
        tokens[i] = (uint8_t)(i * 37 % 11);
    if (!CHECK_OK(plumb_model_create(
                      &(plumb_model_setup){
                          .shape = shape, .sequences = B, .threads = 2, .specs = specs},
                      &model, &why),
                  why))
        return check_exit();
    rmsnorm();
    rope();
    attention();
    swiglu();
    down();
    embedding();
    loss();
    plumb_model_free(&model);
    return check_exit();
}
