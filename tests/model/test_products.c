/* What a setup says of products: the accumulator of each, against plumb_unit_dot element by element; the
 * canonical one where a unit does not take the formats; operands that are quantised from the codes of
 * the first one; and nothing said is nothing moved.
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "model/attention.h"

enum {
    B = 2,
    T = 7,
    N = B * T,
    D = 16,
    F = 20,
    HEADS = 2,
    MOST_SITES = 128,
    MOST = N * 64
};

static const plumb_shape shape = {
    .layers = 1, .width = D, .heads = HEADS, .ff = F, .context = T};
static uint8_t tokens[B * (T + 1)];
static float *weights, *gradient;
static plumb_model *model;

/* Codes of every site as the hook saw them; of attention, those of the first head. */
typedef struct seen {
    plumb_quantized q[MOST_SITES];
    unsigned char codes[MOST_SITES][MOST];
    float decoded[MOST_SITES][MOST];
} seen;

static void look(void *context, size_t site, plumb_quantized *q, plumb_scale_state *state)
{
    seen *s = context;
    plumb_error why = {0};

    (void)state;
    if (s->q[site].rows > 0 || q->rows * q->cols > MOST)
        return;
    s->q[site] = *q;
    if (plumb_format_get(q->format)->bytes == 1)
        memcpy(s->codes[site], q->codes, q->rows * q->cols);
    CHECK_OK(plumb_dequantize(q, s->decoded[site], &why), why);
}

static seen *run(const plumb_spec *specs, const plumb_accumulator *how,
                 const bool *from_codes)
{
    seen *s = calloc(1, sizeof *s);
    plumb_loss loss;
    plumb_error why = {0};

    plumb_model_free(&model);
    CHECK_OK(plumb_model_create(&(plumb_model_setup){.shape = shape,
                                                     .sequences = B,
                                                     .threads = 2,
                                                     .specs = specs,
                                                     .accumulators = how,
                                                     .from_codes = from_codes,
                                                     .hook = look,
                                                     .hook_context = s},
                                &model, &why),
             why);
    CHECK_OK(plumb_model_weights(model, weights, &why), why);
    CHECK_OK(plumb_model_forward(model, weights, tokens, &loss, &why), why);
    CHECK_OK(plumb_model_backward(model, weights, tokens, gradient, &why), why);
    return s;
}

static void all_specs(plumb_spec specs[MOST_SITES], const char *text)
{
    plumb_error why = {0};

    memset(specs, 0, MOST_SITES * sizeof *specs);
    for (size_t i = 0; i < plumb_linear_site_count(&shape) + PLUMB_ATTENTION_ROLES; i++)
        CHECK_OK(plumb_spec_parse(text, NULL, &specs[i], &why), why);
}

static size_t product_named(const char *name)
{
    char is[PLUMB_SITE_NAME];
    size_t i = 0;

    do
        plumb_product_name(&shape, i, is);
    while (strcmp(is, name) != 0 && ++i < plumb_product_count(&shape));
    return i;
}

/* --- accumulators --------------------------------------------------------------------------- */

/* Outer index `i` of an operand, along its contraction axis. */
static void line(const seen *s, size_t site, size_t rows, size_t cols, bool turned,
                 size_t i, unsigned char *out)
{
    for (size_t k = 0; k < (turned ? rows : cols); k++)
        out[k] = turned ? s->codes[site][k * cols + i] : s->codes[site][i * cols + k];
}

typedef struct expected {
    const char *product, *accumulator;
    bool turn_a, turn_b;
    const float *c;
    size_t ldc;
} expected;

static void check_product(const seen *s, const expected *e)
{
    const size_t site = 2 * product_named(e->product);
    const size_t a_rows = s->q[site].rows, a_cols = s->q[site].cols;
    const size_t b_rows = s->q[site + 1].rows, b_cols = s->q[site + 1].cols;
    const size_t m = e->turn_a ? a_cols : a_rows, k = e->turn_a ? a_rows : a_cols;
    const size_t n = e->turn_b ? b_cols : b_rows;
    plumb_accumulator how;
    plumb_error why = {0};
    size_t other = 0;

    CHECK_OK(plumb_accumulator_parse(e->accumulator, &how, &why), why);
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            unsigned char a[64], b[64];
            float want;
            double exact = 0;

            line(s, site, a_rows, a_cols, e->turn_a, i, a);
            line(s, site + 1, b_rows, b_cols, e->turn_b, j, b);
            CHECK_OK(plumb_unit_dot(plumb_unit_get(how.kind), PLUMB_FP32, PLUMB_E4M3, a,
                                    PLUMB_E4M3, b, k, 0, &want, &why),
                     why);
            for (size_t h = 0; h < k; h++)
                exact += (double)plumb_format_value(PLUMB_E4M3, a[h]) *
                         (double)plumb_format_value(PLUMB_E4M3, b[h]);
            other += (double)want != exact;
            want *= 0x1p-16f; /* both scales, powers of two */
            CHECK(e->c[i * e->ldc + j] == want, "%s with %s: [%zu, %zu] is %a, want %a",
                  e->product, e->accumulator, i, j, (double)e->c[i * e->ldc + j],
                  (double)want);
        }
    }
    CHECK(other > 0, "%s: the unit is exact everywhere", e->product);
}

static void accumulators(void)
{
    static const char *const asked[][2] = {{"layer.0/mlp.up/fprop", "ada-mma"},
                                           {"layer.0/attn.out/dgrad", "hopper-wgmma"},
                                           {"layer.0/mlp.up/wgrad", "ada-mma"},
                                           {"layer.0/attn/dv", "hopper-wgmma"}};
    plumb_spec specs[MOST_SITES];
    plumb_accumulator how[MOST_SITES / 2] = {0};
    plumb_parameter p;
    plumb_error why = {0};

    all_specs(specs, "e4m3:static=256");
    for (size_t i = 0; i < 4; i++)
        CHECK_OK(
            plumb_accumulator_parse(asked[i][1], &how[product_named(asked[i][0])], &why),
            why);
    seen *s = run(specs, how, NULL);

    plumb_parameter_get(&shape, 1 + PLUMB_MLP_UP, &p);
    const expected checks[] = {
        {asked[0][0], asked[0][1], false, false, model->layers[0].gate_up, 2 * F},
        {asked[1][0], asked[1][1], false, true, model->d_o, D},
        {asked[2][0], asked[2][1], true, true, gradient + p.offset, D},
    };

    for (size_t i = 0; i < 3; i++)
        check_product(s, &checks[i]);
    free(s);
    /* dv of the first head: whole operands hold all of them, so the rows are cut out. */
    all_specs(specs, "e4m3:row:static=256");
    s = run(specs, how, NULL);
    check_product(
        s, &(expected){asked[3][0], asked[3][1], true, true, model->d_qkv + 2 * D, 3 * D});
    free(s);
    check_done("products are added up by their own accumulators");
}

/* bf16 operands are not a wgmma of FP8: those products stay canonical, bit by bit. */
static void cast_back(void)
{
    plumb_spec specs[MOST_SITES];
    plumb_accumulator how[MOST_SITES / 2] = {0};
    plumb_error why = {0};
    const size_t bytes = plumb_weight_count(&shape) * sizeof *gradient;
    float *first = malloc(bytes);

    all_specs(specs, "bf16");
    free(run(specs, NULL, NULL));
    memcpy(first, gradient, bytes);
    for (size_t i = 0; i < plumb_product_count(&shape); i++)
        CHECK_OK(plumb_accumulator_parse("hopper-wgmma", &how[i], &why), why);
    free(run(specs, how, NULL));
    CHECK(memcmp(first, gradient, bytes) == 0, "a unit for FP8 moved products in bf16");
    for (size_t i = 0; i < plumb_product_count(&shape); i++)
        CHECK_OK(plumb_accumulator_parse("hopper-16", &how[i], &why), why);
    free(run(specs, how, NULL));
    CHECK(memcmp(first, gradient, bytes) != 0, "a unit for bf16 moved nothing");
    free(first);
    check_done("a unit that does not take the formats is the canonical accumulator");
}

/* --- from codes ------------------------------------------------------------------------------- */

/* Role and the one whose codes it is made from. */
static const size_t pairs[3][2] = {{PLUMB_DGRAD_W, PLUMB_FPROP_W},
                                   {PLUMB_WGRAD_DY, PLUMB_DGRAD_DY},
                                   {PLUMB_WGRAD_X, PLUMB_FPROP_X}};

/* Elements of a second operand that are not what quantising x gives. */
static size_t differ_from(const seen *s, const plumb_spec *spec, size_t site,
                          const float *x)
{
    const plumb_quantized *was = &s->q[site];
    const size_t n = was->rows * was->cols;
    unsigned char codes[MOST];
    float d[MOST], back[MOST];
    plumb_quantized q = {.codes = codes, .d = d};
    plumb_error why = {0};
    size_t count = 0;

    CHECK_OK(
        plumb_quantize(spec, x, was->rows, was->cols, true, NULL, true, &q, NULL, &why),
        why);
    CHECK_OK(plumb_dequantize(&q, back, &why), why);
    for (size_t i = 0; i < n; i++)
        count += back[i] != s->decoded[site][i];
    return count;
}

static void from_codes(void)
{
    plumb_spec specs[MOST_SITES];
    bool from[MOST_SITES] = {false};
    size_t moved = 0;

    all_specs(specs, "e4m3:1x128");
    seen *own = run(specs, NULL, NULL);

    for (size_t i = 0; i < plumb_linear_site_count(&shape); i++)
        from[i] = true;
    seen *twice = run(specs, NULL, from);

    for (size_t at = 0; at < 5; at++) {
        for (size_t i = 0; i < 3; i++) {
            const size_t site = PLUMB_ROLES * at + pairs[i][0];
            const size_t first = PLUMB_ROLES * at + pairs[i][1];

            if (twice->q[site].rows * twice->q[site].cols == 0)
                continue;
            CHECK(differ_from(twice, &specs[site], site, twice->decoded[first]) == 0,
                  "site %zu is not made from what the codes of %zu say", site, first);
            moved += differ_from(own, &specs[site], site, own->decoded[first]);
        }
    }
    CHECK(moved > 100, "quantising twice changes %zu elements", moved);
    free(own);
    free(twice);

    /* Where codes are shared there is no second copy. */
    const size_t bytes = plumb_weight_count(&shape) * sizeof *gradient;
    float *first = malloc(bytes);

    all_specs(specs, "e4m3:tensor");
    free(run(specs, NULL, NULL));
    memcpy(first, gradient, bytes);
    free(run(specs, NULL, from));
    CHECK(memcmp(first, gradient, bytes) == 0, "a byte transpose was quantised again");
    free(first);
    check_done("operands from the codes of the first");
}

int main(void)
{
    weights = calloc(plumb_weight_count(&shape), sizeof *weights);
    gradient = calloc(plumb_weight_count(&shape), sizeof *gradient);
    plumb_weights_init(&shape, 3, weights);
    for (size_t i = 0; i < plumb_weight_count(&shape); i++)
        weights[i] *= weights[i] == 1.0f ? 1 : 10;
    for (size_t i = 0; i < sizeof tokens; i++)
        tokens[i] = (uint8_t)(i * 31 % 13);
    accumulators();
    cast_back();
    from_codes();
    plumb_model_free(&model);
    free(weights);
    free(gradient);
    return check_exit();
}
