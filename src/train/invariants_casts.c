/* Invariants of casts: scales that belong to their data, maxima that come back, and weights that are
 * read as they are.  The first two need the statistics of a cast alone.
 */
#include "train/invariants.h"

#include <math.h>

#include "quant/grain.h"
#include "quant/spec.h"

#ifndef PLUMB_NO_SENSORS

/* Far from where fp32 itself ends, so that scales are accurate. */
static bool is_ordinary(double x)
{
    return x >= 0x1p-100 && x <= 0x1p100;
}

/* --- the scale is that of its rule -------------------------------------------------------- */

/* Current scaling: s * amax is the largest value over 2^margin, or down to half of it where s is
 * rounded to a power of two (plumb_scale_from_amax).  An amax below the floor counts as the floor.
 */
static void current_scale(invariants *v, size_t index, const plumb_spec *spec,
                          const plumb_sample *s)
{
    const double amax =
        s->amax < spec->amax_floor ? (double)spec->amax_floor : (double)s->amax;
    const double full =
        ldexp((double)plumb_format_get(spec->format)->largest, -spec->margin);
    const double least = full * (spec->power_of_two ? 0.5 : 1) * (1 - INVARIANT_SLACK);
    const double most = full * (1 + INVARIANT_SLACK), value = amax * (double)s->scale;

    if (!is_ordinary(amax) || !is_ordinary((double)s->scale))
        return;
    if (value < least || value > most)
        invariant_broken(v, INVARIANT_SCALE, index, value, value < least ? least : most);
}

/* Any other rule says which scale it is. */
static void given_scale(invariants *v, size_t index, float wanted, float scale)
{
    const double ratio = (double)scale / (double)wanted;

    if (is_ordinary((double)wanted) && !(fabs(ratio - 1) <= INVARIANT_SLACK))
        invariant_broken(v, INVARIANT_SCALE, index, (double)scale, (double)wanted);
}

/* A scale of the values at hand leaves none of them past the range, to nearest; but the scales of blocks
 * that are rounded down (OCP MX), or to three bits (NVFP4), do.
 */
static bool may_saturate(const plumb_spec *spec)
{
    const bool up = spec->mx == PLUMB_MX_RCEIL || spec->mx == PLUMB_MX_CEIL;

    return spec->rule != PLUMB_SCALE_CURRENT || spec->grain == PLUMB_GRAIN_NVFP4 ||
           (spec->grain == PLUMB_GRAIN_MX32 && !up) ||
           spec->rounding != PLUMB_ROUND_NEAREST_EVEN;
}

static void scale_of_rule(const trainer *t, invariants *v, size_t index,
                          const plumb_spec *spec, const plumb_sample *s)
{
    if (s->saturated > 0 && plumb_spec_is_scaled(spec) && !may_saturate(spec) &&
        is_ordinary((double)s->amax))
        invariant_broken(v, INVARIANT_SCALE, index, (double)s->saturated, 0);
    if (spec->grain != PLUMB_GRAIN_TENSOR || !plumb_spec_is_scaled(spec))
        return;
    if (spec->rule == PLUMB_SCALE_CURRENT)
        current_scale(v, index, spec, s);
    else if (spec->rule == PLUMB_SCALE_STATIC)
        given_scale(v, index, spec->static_scale, s->scale);
    else if (spec->rule == PLUMB_SCALE_DELAYED) {
        const size_t owner = plumb_site_owner(&t->shape, t->sites.specs, index);
        plumb_scale_state *twin = &v->twin[owner];

        given_scale(v, index, twin->scale, s->scale);
        if (owner == index && s->amax > twin->pending)
            twin->pending = s->amax;
    }
}

/* --- the largest value is decoded as such -------------------------------------------------- */

/* Where nothing is past the range and the largest value is a normal one, it comes back within half a
 * step (a whole one, unless to nearest), and nothing comes back larger by more.  Half a step is at
 * most 2^-(fraction bits + 1) of the value.
 */
static void decoded_maximum(invariants *v, size_t index, const plumb_spec *spec,
                            const plumb_sample *s)
{
    const plumb_format_info *f = plumb_format_get(spec->format);
    const bool nearest = spec->rounding == PLUMB_ROUND_NEAREST_EVEN;
    const double step = ldexp(nearest ? 0.5 : 1, -f->fraction_bits) + INVARIANT_SLACK;
    const double value = (double)s->decoded_amax / (double)s->amax;

    if (s->saturated > 0 || s->nonfinite > 0 || !is_ordinary((double)s->amax) ||
        s->amax < spec->amax_floor ||
        (double)s->headroom * (double)f->least_normal > (double)f->largest / 2)
        return;
    if (!(fabs(value - 1) <= step))
        invariant_broken(v, INVARIANT_DECODED, index, value,
                         value > 1 ? 1 + step : 1 - step);
}

void invariants_sample(const trainer *t, invariants *v, size_t index,
                       const plumb_sample *sample)
{
    const site *s = &t->sites.at[index];

    if (s->gemm == NULL && s->class_ != PLUMB_OPTIMIZER)
        return;
    scale_of_rule(t, v, index, &s->effective, sample);
    decoded_maximum(v, index, &s->effective, sample);
}

/* --- the codes of a weight are that weight's ------------------------------------------------ */

static double decode_scale(const plumb_quantized *q, size_t element)
{
    const plumb_blocks b = plumb_blocks_in(q);
    const size_t row = element / q->cols, col = element % q->cols;

    if (q->d == NULL)
        return 1;
    return (double)q->d[row / b.height * b.across + col / b.width] *
           (q->grain == PLUMB_GRAIN_NVFP4 ? (double)q->d_tensor : 1);
}

static void weight_codes(const trainer *t, invariants *v, size_t index, size_t parameter,
                         const plumb_quantized *q)
{
    const plumb_parameter *p = &t->parameters[parameter];
    const plumb_spec *spec = &t->sites.at[index].effective;
    const float *table = plumb_format_decode_table(q->format);
    const unsigned char *codes = q->codes;

    for (size_t j = 0; j < LOOKS; j++) {
        const size_t element = v->element[parameter * LOOKS + j];
        const size_t at = element - p->offset;
        const double d = decode_scale(q, at), w = (double)t->weights[element];
        const double value = (double)table[codes[at / q->cols * q->ld + at % q->cols]] * d;
        const double allowed = invariant_cast_error(spec, d, w);

        if (isfinite(w) && isfinite(d) && !(fabs(value - w) <= allowed))
            invariant_broken(v, INVARIANT_WEIGHT, index, fabs(value - w), allowed);
    }
}

void invariants_weights(const trainer *t, invariants *v)
{
    for (size_t i = 0; i < plumb_linear_site_count(&t->shape); i++) {
        const size_t role = i % PLUMB_ROLES;
        const plumb_quantized *q = plumb_model_quantized(t->model, i);
        plumb_site s;

        if ((role != PLUMB_FPROP_W && role != PLUMB_DGRAD_W) ||
            !plumb_spec_is_scaled(&t->sites.at[i].effective) || t->sites.from_codes[i])
            continue;
        plumb_site_get(&t->shape, i, &s);
        weight_codes(t, v, i, s.parameter, q);
    }
}

/* --- what is stored is what was computed ------------------------------------------------------ */

static stored *kept_of(const trainer *t, const invariants *v, size_t parameter,
                       size_t which)
{
    return v->kept + (which * t->parameter_count + parameter) * LOOKS;
}

void invariants_state(const trainer *t, invariants *v, size_t parameter, size_t which,
                      const float *x)
{
    stored *kept = kept_of(t, v, parameter, which);

    for (size_t j = 0; j < LOOKS; j++)
        kept[j].x = x[v->element[parameter * LOOKS + j]];
}

void invariants_stored(const trainer *t, invariants *v, size_t parameter, size_t which,
                       const plumb_quantized *q)
{
    const size_t index = parameter_site(&t->sites, parameter, which);
    const plumb_spec *spec = &t->sites.at[index].effective;
    stored *kept = kept_of(t, v, parameter, which);

    for (size_t j = 0; j < LOOKS; j++) {
        const size_t element =
            v->element[parameter * LOOKS + j] - t->parameters[parameter].offset;
        const double allowed =
            invariant_cast_error(spec, decode_scale(q, element), (double)kept[j].x);

        kept[j].allowed = isfinite(allowed) ? allowed : -1;
    }
}

static void settle_state(const trainer *t, invariants *v, size_t parameter, size_t which,
                         const float *x)
{
    const stored *kept = kept_of(t, v, parameter, which);

    for (size_t j = 0; j < LOOKS; j++) {
        const double now = (double)x[v->element[parameter * LOOKS + j]];
        const double error = fabs(now - (double)kept[j].x);

        if (kept[j].allowed >= 0 && !(error <= kept[j].allowed))
            invariant_broken(v, INVARIANT_STORED,
                             parameter_site(&t->sites, parameter, which), error,
                             kept[j].allowed);
    }
}

static void follow_scales(const trainer *t, invariants *v)
{
    for (size_t i = 0; i < t->sites.operands; i++) {
        const plumb_spec *spec = &t->sites.at[i].effective;

        if (spec->rule == PLUMB_SCALE_DELAYED &&
            plumb_site_owner(&t->shape, t->sites.specs, i) == i)
            plumb_scale_state_update(&v->twin[i], spec);
    }
}

/* The least of n values; NaN is passed over. */
static float least_of(const float *x, size_t n)
{
    float least = 0;

    for (size_t i = 0; i < n; i++)
        least = x[i] < least ? x[i] : least;
    return least;
}

void invariants_settle(const trainer *t, invariants *v)
{
    for (size_t i = 0; i < t->parameter_count; i++) {
        const plumb_parameter *p = &t->parameters[i];
        const float least = least_of(t->v + p->offset, p->rows * p->cols);

        settle_state(t, v, i, STATE_M, t->m);
        settle_state(t, v, i, STATE_V, t->v);
        settle_state(t, v, i, STATE_MASTER, t->weights);
        if (least < 0)
            invariant_broken(v, INVARIANT_POSITIVE, parameter_site(&t->sites, i, STATE_V),
                             (double)least, 0);
    }
    follow_scales(t, v);
}

#else
typedef int plumb_invariants_of_casts_are_gone;
#endif
