/* The whole model in fp32 against the fp64 oracle (loss; central differences of the largest element
 * and of random ones of every tensor), and how operand sites are quantised and shared.
 *
 * Tolerance of the gradients: an element passes through about 100 products in a row of layers,
 * each rounded to 2^-24 relative to the size of its own sums; 1e-4 of the tensor's largest gradient
 * holds with room, and a forgotten or doubled term is orders of magnitude larger.
 */
#include "plumb/model.h"

#include "check.h"
#include "oracle.h"

enum { B = 2, LINEAR_SITES = 9 * PLUMB_ROLES, MOST_SITES = 128 };

static plumb_shape shape = {.layers = 2, .width = 16, .heads = 2, .ff = 20, .context = 7};
static uint8_t tokens[B * 8];
static float *weights, *gradient;
static double *weights64;

static void make_weights(void)
{
    const size_t n = plumb_weight_count(&shape);

    weights = calloc(n, sizeof *weights);
    gradient = calloc(n, sizeof *gradient);
    weights64 = calloc(n, sizeof *weights64);
    plumb_weights_init(&shape, 3, weights);
    for (size_t i = 0; i < n; i++) {
        /* Ten times the usual deviation, so that attention and gates are not all linear. */
        if (weights[i] != 1.0f)
            weights[i] *= 10;
        weights64[i] = (double)weights[i];
    }
    for (size_t i = 0; i < sizeof tokens; i++)
        tokens[i] = (uint8_t)(i * 31 % 13);
}

static plumb_model *create(const plumb_spec *specs, plumb_scale_state *states, int threads,
                           plumb_site_hook *hook, void *context)
{
    plumb_model *model = NULL;
    plumb_error why = {0};

    CHECK_OK(plumb_model_create(&(plumb_model_setup){.shape = shape,
                                                     .sequences = B,
                                                     .threads = threads,
                                                     .specs = specs,
                                                     .states = states,
                                                     .hook = hook,
                                                     .hook_context = context,
                                                     .count = true},
                                &model, &why),
             why);
    return model;
}

static double pass(plumb_model *model)
{
    plumb_loss loss = {0};
    plumb_error why = {0};

    CHECK_OK(plumb_model_weights(model, weights, &why), why);
    CHECK_OK(plumb_model_forward(model, weights, tokens, &loss, &why), why);
    CHECK_OK(plumb_model_backward(model, weights, tokens, gradient, &why), why);
    return loss.mean;
}

static double difference(size_t at)
{
    const double w = weights64[at], h = 1e-5;

    weights64[at] = w + h;
    const double above = oracle_model(&shape, weights64, tokens, B);

    weights64[at] = w - h;
    const double below = oracle_model(&shape, weights64, tokens, B);

    weights64[at] = w;
    return (above - below) / (2 * h);
}

static void check_tensor(const plumb_parameter *p)
{
    const size_t n = p->rows * p->cols;
    size_t largest = 0, at = 0;

    for (size_t i = 0; i < n; i++) {
        if (fabsf(gradient[p->offset + i]) > fabsf(gradient[p->offset + largest]))
            largest = i;
    }
    const double size = (double)fabsf(gradient[p->offset + largest]);

    CHECK(size > 0, "%s has no gradient", p->name);
    for (size_t i = 0; i < 12; i++) {
        at = i == 0 ? largest : (at * 7919 + 104729 * i) % n;
        const double want = difference(p->offset + at),
                     got = (double)gradient[p->offset + at];

        CHECK(fabs(got - want) <= 1e-4 * size, "%s[%zu]: %.9g, want %.9g (largest %.3g)",
              p->name, at, got, want, size);
    }
}

static void gradients(const char *what)
{
    plumb_spec specs[MOST_SITES] = {{.format = PLUMB_FP32}};
    plumb_model *model = create(specs, NULL, 1, NULL, NULL);
    const double loss = pass(model), want = oracle_model(&shape, weights64, tokens, B);

    CHECK(fabs(loss - want) < 1e-5, "loss %.9g, want %.9g", loss, want);
    for (size_t i = 0; i < plumb_parameter_count(&shape); i++) {
        plumb_parameter p;

        plumb_parameter_get(&shape, i, &p);
        check_tensor(&p);
    }
    plumb_model_free(&model);
    check_done(what);
}

static void parameters(void)
{
    size_t end = 0;
    plumb_parameter p;

    for (size_t i = 0; i < plumb_parameter_count(&shape); i++) {
        plumb_parameter_get(&shape, i, &p);
        CHECK(p.offset == end, "%s begins at %zu, want %zu", p.name, p.offset, end);
        end += p.rows * p.cols;
    }
    CHECK(end == plumb_weight_count(&shape), "%zu floats, want %zu",
          plumb_weight_count(&shape), end);
    const plumb_shape demo = {
        .layers = 4, .width = 128, .heads = 4, .ff = 352, .context = 64};

    CHECK(plumb_weight_count(&demo) == 869504, "%zu parameters", plumb_weight_count(&demo));
    check_done("parameters lie one behind the other");
}

/* --- sites ------------------------------------------------------------------------------- */

typedef struct seen {
    size_t calls[MOST_SITES];
    const void *codes[MOST_SITES];
    const float *d[MOST_SITES];
    bool along_rows[MOST_SITES];
    bool state[MOST_SITES];
} seen;

static void look(void *context, size_t site, plumb_quantized *q, plumb_scale_state *state)
{
    seen *s = context;

    s->calls[site]++;
    s->codes[site] = q->codes;
    s->d[site] = q->d;
    s->along_rows[site] = q->along_rows;
    s->state[site] = state != NULL;
}

static const char *const specs_text[] = {"bf16", "e4m3:tensor:current",
                                         "e4m3:1x128:current", "e4m3:128x128:current",
                                         "e4m3:tensor:delayed"};

static void sharing(void)
{
    for (size_t k = 0; k < 5; k++) {
        plumb_spec specs[MOST_SITES] = {0};
        plumb_scale_state *states = calloc(MOST_SITES, sizeof *states);
        plumb_error why = {0};
        seen s = {0};

        for (size_t i = 0; i < LINEAR_SITES; i++) {
            CHECK_OK(plumb_spec_parse(specs_text[k], NULL, &specs[i], &why), why);
            plumb_scale_state_init(&states[i]);
        }
        plumb_model *model = create(specs, states, 1, look, &s);

        pass(model);
        for (size_t i = 0; i < LINEAR_SITES; i += PLUMB_ROLES) {
            const bool shared = s.codes[i + PLUMB_FPROP_X] == s.codes[i + PLUMB_WGRAD_X] &&
                                s.codes[i + PLUMB_FPROP_W] == s.codes[i + PLUMB_DGRAD_W] &&
                                s.codes[i + PLUMB_DGRAD_DY] == s.codes[i + PLUMB_WGRAD_DY];

            CHECK(shared == (k != 2), "%s: linear %zu shares: %d", specs_text[k],
                  i / PLUMB_ROLES, shared);
            for (size_t r = 0; r < PLUMB_ROLES; r++) {
                CHECK(s.calls[i + r] == 1, "%s: site %zu had %zu calls", specs_text[k],
                      i + r, s.calls[i + r]);
                CHECK(s.state[i + r] == (k == 4), "%s: state of site %zu", specs_text[k],
                      i + r);
                CHECK((s.d[i + r] == NULL) == (k == 0), "%s: scales of site %zu",
                      specs_text[k], i + r);
            }
            CHECK(k == 0 || s.d[i + PLUMB_DGRAD_DY] != s.d[i + PLUMB_WGRAD_DY],
                  "%s: two sites have one copy of the scales", specs_text[k]);
            CHECK(s.along_rows[i + PLUMB_WGRAD_X] && s.along_rows[i + PLUMB_DGRAD_W] &&
                      !s.along_rows[i + PLUMB_FPROP_X],
                  "%s: orientation of linear %zu", specs_text[k], i / PLUMB_ROLES);
        }
        plumb_model_free(&model);
        free(states);
    }
    check_done("sites share codes exactly where that changes no bit");
}

/* A site that is quantised on its own must give the bits that the shared one gave. */
static void parting(void)
{
    plumb_spec specs[MOST_SITES] = {0};
    plumb_error why = {0};
    const size_t bytes = plumb_weight_count(&shape) * sizeof *gradient;
    float *shared = calloc(1, bytes);

    for (size_t i = 0; i < LINEAR_SITES; i++)
        CHECK_OK(plumb_spec_parse("e4m3:tensor:current", NULL, &specs[i], &why), why);
    plumb_model *model = create(specs, NULL, 1, NULL, NULL);

    pass(model);
    memcpy(shared, gradient, bytes);
    plumb_model_free(&model);
    /* A floor that never matters: another spec, the same codes. */
    for (size_t i = 0; i < LINEAR_SITES; i++)
        specs[i].amax_floor = i % PLUMB_ROLES > PLUMB_DGRAD_DY ? 1e-30f : 0.0f;
    model = create(specs, NULL, 2, NULL, NULL);
    pass(model);
    CHECK(memcmp(shared, gradient, bytes) == 0, "codes of their own give another gradient");
    plumb_model_free(&model);
    free(shared);
    check_done("sites that part keep their bits");
}

/* fp8 by hand: what the first linear reads is the rounded norm output, so quantising changes the
 * loss, by about 2^-4 of it at most, and the counts are those of the whole tensor.
 */
static void samples(void)
{
    plumb_spec specs[MOST_SITES] = {0};
    plumb_error why = {0};
    plumb_sample sample;

    for (size_t i = 0; i < LINEAR_SITES; i++)
        CHECK_OK(plumb_spec_parse("e4m3", NULL, &specs[i], &why), why);
    plumb_model *model = create(specs, NULL, 1, NULL, NULL);
    const double loss = pass(model), want = oracle_model(&shape, weights64, tokens, B);

    CHECK(loss != want && fabs(loss - want) < 0.0625 * want, "loss %g, fp64 %g", loss,
          want);
    for (size_t i = 0; i < LINEAR_SITES; i++) {
        const plumb_quantized *q = plumb_model_quantized(model, i);

        plumb_model_sample(model, i, &sample);
        CHECK(sample.total == q->rows * q->cols, "site %zu: %llu elements of %zu x %zu", i,
              (unsigned long long)sample.total, q->rows, q->cols);
        CHECK(sample.amax > 0 && sample.headroom > 0.99f && sample.headroom < 1.01f,
              "site %zu: amax %g, headroom %g", i, (double)sample.amax,
              (double)sample.headroom);
        plumb_model_sample(model, i, &sample);
        CHECK(sample.total == 0, "site %zu was sampled twice", i);
    }
    plumb_model_free(&model);
    check_done("samples");
}

/* Same bits for any number of threads and on every instruction set. */
static void bits(void)
{
    const size_t bytes = plumb_weight_count(&shape) * sizeof *gradient;
    float *first = calloc(1, bytes);
    static const char *const levels[] = {"amx", "avx512bf16", "avx512", "avx2", "baseline"};
    plumb_spec specs[MOST_SITES] = {0};
    plumb_error why = {0};

    for (size_t i = 0; i < LINEAR_SITES; i++)
        CHECK_OK(plumb_spec_parse(i % 2 ? "e4m3" : "e5m2:pow2", NULL, &specs[i], &why),
                 why);
    for (int k = 0; k < 10; k++) {
        unsigned mask;

        CHECK(plumb_cpu_parse(levels[k / 2], &mask), "no level %s", levels[k / 2]);
        plumb_cpu_limit(mask);
        plumb_model *model = create(specs, NULL, k % 2 == 0 ? 1 : 3, NULL, NULL);

        pass(model);
        if (k == 0)
            memcpy(first, gradient, bytes);
        CHECK(memcmp(first, gradient, bytes) == 0, "%s with %d threads gives other bits",
              levels[k / 2], k % 2 == 0 ? 1 : 3);
        plumb_model_free(&model);
    }
    CHECK(plumb_cpu_parse("avx512", (unsigned[]){0}), "no level avx512");
    plumb_cpu_limit(~0u);
    free(first);
    check_done("bits do not depend on threads or instruction set");
}

static void refusals(void)
{
    plumb_error why = {0};
    plumb_shape bad = shape;

    bad.heads = 3;
    CHECK(plumb_shape_check(&bad, &why) == PLUMB_BAD_SHAPE &&
              strstr(why.message, "16") != NULL,
          "3 heads of width 16: %s", why.message);
    bad = shape;
    bad.layers = 0;
    CHECK(plumb_shape_check(&bad, &why) == PLUMB_BAD_SHAPE, "no layers");
    check_done("shapes that do not fit");
}

/* The same for every variant of the shape, each alone and all together. */
static void variants(void)
{
    static const char *const names[] = {"LayerNorm", "GELU", "q and k normalised",
                                        "a tied head", "all variants"};

    for (int i = 0; i < 5; i++) {
        const plumb_shape usual = shape;

        free(weights);
        free(gradient);
        free(weights64);
        shape.layer_norm = i == 0 || i == 4;
        shape.gelu = i == 1 || i == 4;
        shape.qk_norm = i == 2 || i == 4;
        shape.tied_head = i == 3 || i == 4;
        make_weights();
        gradients(names[i]);
        parameters();
        bits();
        shape = usual;
    }
    free(weights);
    free(gradient);
    free(weights64);
    make_weights();
}

int main(void)
{
    make_weights();
    parameters();
    gradients("gradients of the whole model");
    sharing();
    parting();
    samples();
    bits();
    refusals();
    variants();
    free(weights);
    free(gradient);
    free(weights64);
    return check_exit();
}
