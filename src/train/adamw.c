/* AdamW (Loshchilov and Hutter, 2019) with clipping by the global norm.
 *
 *   g = gradient * min(1, clip / norm)
 *   m = b1 m + (1 - b1) g      v = b2 v + (1 - b2) g^2      both stored in their site's spec
 *   w = w - lr (m^ / (sqrt(v^) + eps) + decay w)            decay on matrices only
 *
 * w is stored in its site's spec as well.  MS-AMP and COAT move the weights by the moments as they were
 * before they are rounded; here that is a setting (optimizer.update_from).  Every element is on its own,
 * so threads do not matter.
 */
#include "train/sensors.h"
#include "train/train.h"

#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "plumb/reduce.h"
#include "quant/grain.h"

enum { PIECE = 512 };

typedef struct adam {
    float lr, beta1, beta2, eps, decay, clip;
    float unbias1, unbias2; /* 1 / (1 - beta^step) */
} adam;

/* n elements from i on, n at most PIECE. */
static void moments_of(const trainer *t, const adam *a, size_t i, size_t n)
{
    float of_m[PIECE], of_v[PIECE];

    for (size_t j = 0; j < n; j++) {
        const float g = t->share[0][i + j] * a->clip;

        of_m[j] = (1.0f - a->beta1) * g;
        of_v[j] = (1.0f - a->beta2) * g * g;
    }
    plumb_accumulate(NULL, a->beta1, t->m + i, of_m, n, NULL, NULL, NULL);
    plumb_accumulate(NULL, a->beta2, t->v + i, of_v, n, NULL, NULL, NULL);
}

static void moments(const trainer *t, const plumb_parameter *p, const adam *a)
{
    const size_t end = p->offset + p->rows * p->cols;

#pragma omp parallel for schedule(static) num_threads(t->threads)
    for (size_t i = p->offset; i < end; i += PIECE)
        moments_of(t, a, i, end - i < PIECE ? end - i : PIECE);
}

/* Bits of |x|: ordered like the values, NaN above all. */
static uint32_t magnitude(float x)
{
    return bits_of(x) & 0x7fffffffu;
}

/* Returns the bits of the largest |update|. */
static uint32_t apply(const trainer *t, const plumb_parameter *p, const adam *a)
{
    const size_t end = p->offset + p->rows * p->cols;
    const float decay = p->matrix ? a->decay : 0.0f;
    const float *m = t->m, *v = t->v;
    float *w = t->weights;
    uint32_t most = 0;

#pragma omp parallel for schedule(static) num_threads(t->threads) reduction(max : most)
    for (size_t i = p->offset; i < end; i++) {
        const float update = m[i] * a->unbias1 / (sqrtf(v[i] * a->unbias2) + a->eps);
        const uint32_t bits = magnitude(update);

        most = bits > most ? bits : most;
        w[i] -= a->lr * (update + decay * w[i]);
    }
    return most;
}

/* There is no axis that a product would contract: blocks of 1x128, mx32 and nvfp4 are consecutive
 * elements of the flattened tensor, as in COAT (arXiv 2410.19313).
 */
void adamw_shape(const plumb_spec *spec, const plumb_parameter *p, size_t *rows,
                 size_t *cols)
{
    const bool flat =
        plumb_grain_length(spec->grain) != 0 && plumb_grain_turns(spec->grain);

    *rows = flat ? 1 : p->rows;
    *cols = flat ? p->rows * p->cols : p->cols;
}

static float *state_of(const trainer *t, size_t which)
{
    return which == STATE_M ? t->m : which == STATE_V ? t->v : t->weights;
}

plumb_status adamw_store(trainer *t, size_t parameter, size_t which, int64_t step,
                         plumb_counts *counts, plumb_quantized *q, plumb_error *why)
{
    const plumb_parameter *p = &t->parameters[parameter];
    const size_t index = parameter_site(&t->sites, parameter, which);
    const plumb_spec *spec = &t->sites.at[index].effective;
    float *x = state_of(t, which) + p->offset;
    size_t rows, cols;

    adamw_shape(spec, p, &rows, &cols);
    const plumb_source source = {
        .format = PLUMB_FP32, .x = x, .rows = rows, .cols = cols, .ld = cols};
    const plumb_draw draw = site_draw(t, index, step);

    *q = (plumb_quantized){.codes = t->codes, .d = t->scales};
    const plumb_copies copies = {.along_columns = q, .column_counts = counts};
    const plumb_status status =
        plumb_quantize_copies(spec, &source, &draw, NULL, true, &copies, why);

    return status == PLUMB_OK ? plumb_dequantize(q, x, why) : status;
}

static plumb_status store(trainer *t, size_t parameter, size_t which, plumb_error *why)
{
    const size_t index = parameter_site(&t->sites, parameter, which);
    const plumb_parameter *p = &t->parameters[parameter];
    plumb_counts counts = {0};
    plumb_quantized q;

    if (t->sites.at[index].effective.format == PLUMB_FP32) {
        if (which == STATE_MASTER) /* what products read of them is counted there */
            return PLUMB_OK;
        sensors_tensor(t, index, state_of(t, which) + p->offset, p->rows * p->cols);
        return PLUMB_OK;
    }
    sensors_state(t, parameter, which, state_of(t, which));
    sensors_values(t, index, state_of(t, which) + p->offset, p->rows * p->cols);
    const plumb_status status =
        adamw_store(t, parameter, which, t->step + 1, &counts, &q, why);

    if (status != PLUMB_OK)
        return status;
    sensors_quantized(t, index, &counts, &q);
    sensors_stored(t, parameter, which, &q);
    return PLUMB_OK;
}

plumb_status adamw_begin(trainer *t, plumb_error *why)
{
    plumb_status status = PLUMB_OK;

    for (size_t i = 0; i < t->parameter_count && status == PLUMB_OK; i++) {
        const size_t index = parameter_site(&t->sites, i, STATE_MASTER);
        plumb_quantized q;

        if (t->sites.at[index].effective.format != PLUMB_FP32)
            status = adamw_store(t, i, STATE_MASTER, t->step, NULL, &q, why);
    }
    return status;
}

static plumb_status store_moments(trainer *t, size_t parameter, plumb_error *why)
{
    const plumb_status status = store(t, parameter, STATE_M, why);

    return status == PLUMB_OK ? store(t, parameter, STATE_V, why) : status;
}

/* A norm that is not finite clips nothing: what is in the gradient is in the update. */
static float clip_factor(const trainer *t, double norm)
{
    const double clip = t->settings.clip * t->request.clip_scale;

    return clip > 0 && isfinite(norm) && norm > clip ? (float)(clip / norm) : 1.0f;
}

plumb_status adamw_step(trainer *t, int64_t step, step_result *r, plumb_error *why)
{
    const settings *s = &t->settings;
    const bool stored = settings_choice(s->update_from, UPDATE_FROM) == 0;
    uint32_t most = 0;

    t->beta1_power *= s->beta1;
    t->beta2_power *= s->beta2;
    r->lr = schedule_rate(t, step);
    const adam a = {.lr = (float)r->lr,
                    .beta1 = (float)s->beta1,
                    .beta2 = (float)s->beta2,
                    .eps = (float)s->eps,
                    .decay = (float)s->weight_decay,
                    .clip = clip_factor(t, r->grad_norm),
                    .unbias1 = (float)(1 / (1 - t->beta1_power)),
                    .unbias2 = (float)(1 / (1 - t->beta2_power))};

    for (size_t i = 0; i < t->parameter_count; i++) {
        plumb_status status = PLUMB_OK;

        moments(t, &t->parameters[i], &a);
        if (stored)
            status = store_moments(t, i, why);
        if (status != PLUMB_OK)
            return status;
        const uint32_t bits = apply(t, &t->parameters[i], &a);

        sensors_update(t, i, float_of(bits));
        most = bits > most ? bits : most;
        if (!stored)
            status = store_moments(t, i, why);
        if (status == PLUMB_OK)
            status = store(t, i, STATE_MASTER, why);
        if (status != PLUMB_OK)
            return status;
    }
    memcpy(&r->update_max, &most, sizeof most);
    return PLUMB_OK;
}
