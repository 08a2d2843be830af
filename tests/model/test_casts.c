/* Sums of norms, softmax and loss in few bits, and the numerators of softmax: bits worked out in exact
 * rational arithmetic by casts.py (tests/model/casts.csv), through the layers that use them; statistics;
 * and that no other bit moves.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "model/attention.h"
#include "model/variants.h"

enum { MOST_SITES = 128, LONGEST = 4096 };

static plumb_model *model;

/* One layer of one head, T tokens. */
static plumb_shape shape_of(size_t width, size_t context)
{
    return (plumb_shape){
        .layers = 1, .width = width, .heads = 1, .ff = 8, .context = context};
}

static void make(plumb_shape shape, const plumb_spec *specs, int threads)
{
    plumb_error why = {0};

    plumb_model_free(&model);
    CHECK_OK(plumb_model_create(&(plumb_model_setup){.shape = shape,
                                                     .sequences = 1,
                                                     .threads = threads,
                                                     .specs = specs,
                                                     .count = true},
                                &model, &why),
             why);
}

static plumb_spec parse(const char *text)
{
    plumb_spec spec = {0};
    plumb_error why = {0};

    CHECK_OK(plumb_spec_parse(text, NULL, &spec, &why), why);
    return spec;
}

static float value(void)
{
    return strtof(strtok(NULL, ",\n"), NULL);
}

static uint64_t counted(size_t site)
{
    plumb_sample sample;

    plumb_model_sample(model, site, &sample);
    return sample.total;
}

/* 1/rms of a row, from the sum of its squares. */
static void squares(void)
{
    enum { D = 16, T = 2 };
    const plumb_shape shape = shape_of(D, T);
    plumb_spec specs[MOST_SITES] = {{.format = PLUMB_FP32}};
    float x[T * D], g[D], r[T], y[T * D];
    const size_t site = site_norm(&shape, 1);
    const char *spec = strtok(NULL, ",");
    const float sum = value(), want = 1.0f / sqrtf(sum / (float)D + 1e-5f);

    for (size_t i = 0; i < D; i++) {
        x[i] = x[D + i] = value();
        g[i] = (float)(i + 1);
    }
    specs[site] = parse(spec);
    make(shape, specs, 2);
    rmsnorm_forward(model, site, x, g, r, y, NULL);
    for (size_t t = 0; t < T; t++) {
        CHECK(r[t] == want, "%s: 1/rms is %a, want %a", spec, (double)r[t], (double)want);
        for (size_t i = 0; i < D; i++)
            CHECK(y[t * D + i] == x[i] * want * g[i], "%s: y[%zu]", spec, i);
    }
    CHECK(counted(site) == T * (2 * D - 1), "%s: not every term and sum is counted", spec);
}

static void softmax(void)
{
    enum { D = 4 };
    plumb_spec specs[MOST_SITES] = {{.format = PLUMB_FP32}};
    const char *numerator = strtok(NULL, ","), *sum = strtok(NULL, ",");
    const size_t n = (size_t)atoi(strtok(NULL, ","));
    const plumb_shape shape = shape_of(D, n);
    const size_t first = site_softmax(&shape, 0, SOFTMAX_NUMERATOR);
    plumb_error why = {0};

    specs[first] = parse(numerator);
    specs[site_softmax(&shape, 0, SOFTMAX_SUM)] = parse(sum);
    make(shape, specs, 1);
    layer *l = &model->layers[0];

    /* q k^T / sqrt(D) is the score of the key. */
    memset(l->q_k_v, 0, n * 3 * D * sizeof *l->q_k_v);
    for (size_t j = 0; j < n; j++) {
        l->q_k_v[j * 3 * D] = 1;
        l->q_k_v[j * 3 * D + D] = 2 * value();
    }
    CHECK_OK(attention_cast_forward(model, l, &why), why);
    for (size_t j = 0; j < n; j++) {
        const float want = value(), got = l->p[(n - 1) * n + j];

        CHECK(got == want, "%s, %s: p[%zu] of %zu is %a, want %a", numerator, sum, j, n,
              (double)got, (double)want);
    }
    CHECK(counted(first) == n * (n + 1) / 2, "%s: not every numerator is counted",
          numerator);
}

static void loss(void)
{
    plumb_spec specs[MOST_SITES] = {{.format = PLUMB_FP32}};
    const char *spec = strtok(NULL, ",");
    const size_t n = (size_t)atoi(strtok(NULL, ","));
    const plumb_shape shape = shape_of(4, n);
    const float want = value();
    uint8_t tokens[65] = {0};
    plumb_loss is;

    specs[site_loss(&shape)] = parse(spec);
    make(shape, specs, 1);
    cross_entropy(model, tokens, &is);
    CHECK(is.mean == (double)want / (double)n, "%s: mean %.9g, want %.9g", spec, is.mean,
          (double)want / (double)n);
    CHECK(fabs((double)is.worst - log(256)) < 1e-6, "worst token %g", (double)is.worst);
    CHECK(model->d_logits[1] == 1.0f / 256 / (float)n, "%s: the gradient moved", spec);
    CHECK(counted(site_loss(&shape)) == 2 * n - 1, "%s: not every sum is counted", spec);
}

static void golden(void)
{
    char path[512], line[LONGEST];
    int lines = 0;

    snprintf(path, sizeof path, "%s/tests/model/casts.csv", getenv("PLUMB_SOURCE_DIR"));
    FILE *file = fopen(path, "r");

    if (!CHECK(file != NULL, "no %s", path))
        return;
    for (; fgets(line, sizeof line, file) != NULL; lines++) {
        const char *word = strtok(line, ",");

        if (strcmp(word, "squares") == 0)
            squares();
        else if (strcmp(word, "softmax") == 0)
            softmax();
        else if (strcmp(word, "loss") == 0)
            loss();
    }
    fclose(file);
    CHECK(lines == 2 + 7 + 18 + 6, "%d lines", lines);
    check_done("bits of the golden file");
}

/* Ones summed up: a format stops where one is less than half a step. */
static void stagnation(void)
{
    static const struct {
        const char *spec;
        size_t stops;
    } cases[] = {
        {"e4m3:none", 16}, {"e5m2:none", 8}, {"bf16", 256}, {"e4m3:static=16", 16}};

    for (size_t i = 0; i < 4; i++) {
        enum { T = 300 };
        const plumb_shape shape = shape_of(4, T);
        plumb_spec specs[MOST_SITES] = {{.format = PLUMB_FP32}};
        plumb_error why = {0};

        specs[site_softmax(&shape, 0, SOFTMAX_SUM)] = parse(cases[i].spec);
        make(shape, specs, 2);
        layer *l = &model->layers[0];

        memset(l->q_k_v, 0, T * 12 * sizeof *l->q_k_v);
        CHECK_OK(attention_cast_forward(model, l, &why), why);
        for (size_t t = 0; t < T; t++) {
            const size_t sum = t + 1 < cases[i].stops ? t + 1 : cases[i].stops;

            CHECK(l->p[t * T] == 1.0f / (float)sum, "%s: row %zu has p %g", cases[i].spec,
                  t, (double)l->p[t * T]);
        }
    }
    check_done("sums of ones stop growing where they should");
}

/* LayerNorm sums up squared deviations at the same site. */
static void deviations(void)
{
    enum { D = 16 };
    plumb_shape shape = shape_of(D, 1);
    plumb_spec specs[MOST_SITES] = {{.format = PLUMB_FP32}};
    const float g[D] = {1}; /* the mean of x is 8, a deviation 4: 16 squares of 16 */
    float x[D], r[2], y[D];
    const size_t site = site_norm(&shape, 0);

    shape.layer_norm = true;
    for (size_t i = 0; i < D; i++)
        x[i] = i % 2 == 0 ? 4 : 12;
    for (int k = 0; k < 2; k++) {
        specs[site] = parse(k == 0 ? "fp32" : "e5m2:none");
        make(shape, specs, 1);
        layernorm_forward(model, site, x, g, r, y, NULL);
        /* E5M2 stops at 128: 16 is half a step there, and a tie goes to the even code. */
        const float sum = k == 0 ? 256 : 128;

        CHECK(r[0] == 1 / sqrtf(sum / D + 1e-5f) && r[1] == 8, "1/deviation %a, mean %a",
              (double)r[0], (double)r[1]);
        CHECK(y[0] == -4 * r[0] && y[1] == 0, "y is %g", (double)y[0]);
    }
    CHECK(counted(site) == 2 * D - 1, "not every sum is counted");
    check_done("deviations of LayerNorm");
}

/* E4M3 with stochastic rounding: right on average, the same for any threads, other bits for another
 * draw.
 */
static void stochastic(void)
{
    enum { D = 16, T = 200 };
    const plumb_shape shape = shape_of(D, T);
    plumb_spec specs[MOST_SITES] = {{.format = PLUMB_FP32}};
    float x[T * D], g[D], r[3][T], y[T * D];
    double mean = 0;

    for (size_t i = 0; i < T * D; i++)
        x[i] = 1.0625f; /* square 1.12890625, between 1.125 and 1.25 */
    for (size_t i = 0; i < D; i++)
        g[i] = 1;
    specs[site_norm(&shape, 0)] = parse("e4m3:none:stochastic");
    for (int k = 0; k < 3; k++) {
        make(shape, specs, k == 1 ? 2 : 1);
        plumb_model_draw(model, 7, k == 2 ? 6 : 5);
        rmsnorm_forward(model, site_norm(&shape, 0), x, g, r[k], y, NULL);
    }
    for (size_t t = 0; t < T; t++)
        mean += ((double)D / ((double)r[0][t] * (double)r[0][t]) - 1e-5 * D) / T;
    /* Sum 18.0625; steps of 2 above 16, so that its deviation is about 1.5, of 200 rows 0.1. */
    CHECK(fabs(mean - 18.0625) < 0.5, "mean of the sums %g, want 18.06", mean);
    CHECK(memcmp(r[0], r[1], sizeof r[0]) == 0, "bits depend on threads");
    CHECK(memcmp(r[0], r[2], sizeof r[0]) != 0, "another draw gives the same bits");
    CHECK(r[0][0] != r[0][1] || r[0][1] != r[0][2] || r[0][2] != r[0][3],
          "rows share their bits");
    check_done("stochastic sums");
}

int main(void)
{
    golden();
    stagnation();
    deviations();
    stochastic();
    plumb_model_free(&model);
    return check_exit();
}
