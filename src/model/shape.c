/* Names and sizes: which parameters a model has and where they lie.  Everything here is a pure
 * function of the shape.
 */
#include "plumb/model.h"

#include <math.h>

#include "plumb/random.h"

static const struct {
    const char *name;
    bool linear;
} layer_parts[PLUMB_LAYER_PARAMETERS] = {
    [PLUMB_ATTN_NORM] = {"attn.norm", false}, [PLUMB_ATTN_QKV] = {"attn.qkv", true},
    [PLUMB_ATTN_OUT] = {"attn.out", true},    [PLUMB_MLP_NORM] = {"mlp.norm", false},
    [PLUMB_MLP_UP] = {"mlp.up", true},        [PLUMB_MLP_DOWN] = {"mlp.down", true},
};

plumb_status plumb_shape_check(const plumb_shape *s, plumb_error *why)
{
    if (s->layers < 1 || s->layers > PLUMB_MAX_LAYERS)
        return plumb_fail(why, PLUMB_BAD_SHAPE, "%zu layers; allowed: 1 to %d", s->layers,
                          PLUMB_MAX_LAYERS);
    if (s->heads < 1 || s->width < 2 || s->width > 16384 || s->width % (2 * s->heads) != 0)
        return plumb_fail(
            why, PLUMB_BAD_SHAPE,
            "width %zu with %zu heads; allowed: a multiple of twice the heads, "
            "at most 16384",
            s->width, s->heads);
    if (s->ff < 1 || s->ff > 65536)
        return plumb_fail(why, PLUMB_BAD_SHAPE, "ff %zu; allowed: 1 to 65536", s->ff);
    if (s->context < 1 || s->context > 32768)
        return plumb_fail(why, PLUMB_BAD_SHAPE, "context %zu; allowed: 1 to 32768",
                          s->context);
    return PLUMB_OK;
}

size_t plumb_parameter_count(const plumb_shape *shape)
{
    return 1 + PLUMB_LAYER_PARAMETERS * shape->layers + (shape->tied_head ? 1 : 2);
}

/* Floats of one part of a layer. */
static void part_size(const plumb_shape *s, size_t part, size_t *rows, size_t *cols)
{
    *cols = part == PLUMB_MLP_DOWN ? s->ff : s->width;
    switch (part) {
    case PLUMB_ATTN_QKV:
        *rows = 3 * s->width;
        break;
    case PLUMB_MLP_UP:
        *rows = s->gelu ? s->ff : 2 * s->ff;
        break;
    case PLUMB_ATTN_OUT:
    case PLUMB_MLP_DOWN:
        *rows = s->width;
        break;
    default:
        *rows = 1;
    }
}

static size_t layer_floats(const plumb_shape *s)
{
    size_t total = 0, rows, cols;

    for (size_t part = 0; part < PLUMB_LAYER_PARAMETERS; part++) {
        part_size(s, part, &rows, &cols);
        total += rows * cols;
    }
    return total;
}

size_t plumb_weight_count(const plumb_shape *s)
{
    const size_t tables = s->tied_head ? 1 : 2;

    return tables * PLUMB_VOCABULARY * s->width + s->layers * layer_floats(s) + s->width;
}

static void layer_parameter(const plumb_shape *s, size_t layer, size_t part,
                            plumb_parameter *p)
{
    size_t rows, cols;

    p->offset = PLUMB_VOCABULARY * s->width + layer * layer_floats(s);
    for (size_t before = 0; before < part; before++) {
        part_size(s, before, &rows, &cols);
        p->offset += rows * cols;
    }
    part_size(s, part, &p->rows, &p->cols);
    p->layer = (int)layer;
    p->matrix = layer_parts[part].linear;
    plumb_print(p->name, sizeof p->name, "layer.%zu/%s", layer, layer_parts[part].name);
}

void plumb_parameter_get(const plumb_shape *s, size_t index, plumb_parameter *p)
{
    const size_t final_norm = 1 + PLUMB_LAYER_PARAMETERS * s->layers;
    const size_t end = PLUMB_VOCABULARY * s->width + s->layers * layer_floats(s);

    *p = (plumb_parameter){.layer = -1, .rows = PLUMB_VOCABULARY, .cols = s->width};
    if (index == 0) {
        p->matrix = true;
        plumb_print(p->name, sizeof p->name, "embedding");
    } else if (index > final_norm) {
        p->offset = end + s->width;
        p->matrix = true;
        plumb_print(p->name, sizeof p->name, "head");
    } else if (index == final_norm) {
        p->offset = end;
        p->rows = 1;
        plumb_print(p->name, sizeof p->name, "final.norm");
    } else {
        layer_parameter(s, (index - 1) / PLUMB_LAYER_PARAMETERS,
                        (index - 1) % PLUMB_LAYER_PARAMETERS, p);
    }
}

void plumb_weights_init(const plumb_shape *s, uint64_t seed, float *weights)
{
    const float depth = sqrtf(2.0f * (float)s->layers);

    for (size_t i = 0; i < plumb_parameter_count(s); i++) {
        plumb_parameter p;
        char stream[sizeof p.name + 8];

        plumb_parameter_get(s, i, &p);
        if (!p.matrix) {
            for (size_t j = 0; j < p.cols; j++)
                weights[p.offset + j] = 1;
            continue;
        }
        const size_t part = (i - 1) % PLUMB_LAYER_PARAMETERS;
        const bool into_residual =
            p.layer >= 0 && (part == PLUMB_ATTN_OUT || part == PLUMB_MLP_DOWN);

        plumb_print(stream, sizeof stream, "init/%s", p.name);
        plumb_random_normal(seed, plumb_random_stream(stream),
                            into_residual ? 0.02f / depth : 0.02f, p.rows * p.cols,
                            weights + p.offset);
    }
}
