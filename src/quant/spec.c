/* What a spec is before and after its text: which formats are scaled, the defaults, the normal
 * form in which two specs that mean the same are equal, and which values are allowed.
 */
#include "quant/spec.h"
#include "quant/grain.h"

#include <float.h>

bool plumb_format_is_scaled(plumb_format format)
{
    const plumb_format_info *info = plumb_format_get(format);

    return info != NULL && info->is_signed && info->bits <= 8;
}

bool plumb_spec_is_scaled(const plumb_spec *spec)
{
    return plumb_format_is_scaled(spec->format);
}

bool plumb_grain_has_own_rule(plumb_grain grain)
{
    return grain == PLUMB_GRAIN_MX32 || grain == PLUMB_GRAIN_NVFP4;
}

plumb_spec plumb_spec_default(plumb_format format)
{
    if (!plumb_format_is_scaled(format))
        return (plumb_spec){.format = format, .static_scale = 1};
    return (plumb_spec){.format = format,
                        .grain = PLUMB_GRAIN_TENSOR,
                        .rule = PLUMB_SCALE_CURRENT,
                        .static_scale = 1,
                        .history = 16,
                        .saturate = true,
                        .mx = PLUMB_MX_RCEIL};
}

static void forget_scale(plumb_spec *normal, const plumb_spec *usual)
{
    normal->margin = usual->margin;
    normal->power_of_two = usual->power_of_two;
    normal->amax_floor = usual->amax_floor;
}

/* Of formats without scales only a rounding is kept, and none of fp32, which rounds nothing. */
static plumb_spec plain_normal(const plumb_spec *spec, plumb_spec usual)
{
    if (spec->format == PLUMB_FP32)
        return usual;
    usual.rounding = spec->rounding;
    if (spec->rounding == PLUMB_ROUND_STOCHASTIC)
        usual.dither = spec->dither;
    return usual;
}

plumb_spec plumb_spec_normal(const plumb_spec *spec)
{
    const plumb_spec usual = plumb_spec_default(spec->format);
    plumb_spec normal = *spec;

    if (!plumb_spec_is_scaled(spec))
        return plain_normal(spec, usual);
    if (spec->grain == PLUMB_GRAIN_NVFP4 && spec->format != PLUMB_E2M1)
        normal.grain = usual.grain;
    const bool own_rule = plumb_grain_has_own_rule(normal.grain);

    if (spec->rule != PLUMB_SCALE_STATIC)
        normal.static_scale = usual.static_scale;
    if (spec->rule != PLUMB_SCALE_DELAYED) {
        normal.history = usual.history;
        normal.most_recent = usual.most_recent;
    }
    if (own_rule ||
        (spec->rule != PLUMB_SCALE_DELAYED && spec->rule != PLUMB_SCALE_CURRENT))
        forget_scale(&normal, &usual);
    if (own_rule || spec->rule != PLUMB_SCALE_CURRENT)
        normal.divide = usual.divide;
    if (normal.grain != PLUMB_GRAIN_MX32)
        normal.mx = usual.mx;
    if (spec->rounding != PLUMB_ROUND_STOCHASTIC)
        normal.dither = usual.dither;
    return normal;
}

bool plumb_spec_equal(const plumb_spec *a, const plumb_spec *b)
{
    const plumb_spec p = plumb_spec_normal(a), q = plumb_spec_normal(b);

    return p.format == q.format && p.grain == q.grain && p.rule == q.rule &&
           p.static_scale == q.static_scale && p.history == q.history &&
           p.margin == q.margin && p.most_recent == q.most_recent &&
           p.saturate == q.saturate && p.power_of_two == q.power_of_two &&
           p.divide == q.divide && p.amax_floor == q.amax_floor && p.mx == q.mx &&
           p.rounding == q.rounding && p.dither == q.dither;
}

static plumb_status check_grain(const plumb_spec *spec, plumb_error *why)
{
    if (spec->rule == PLUMB_SCALE_DELAYED && spec->grain != PLUMB_GRAIN_TENSOR)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "delayed scaling has one scale: it goes with grain tensor only");
    if (spec->grain == PLUMB_GRAIN_NVFP4 && spec->format != PLUMB_E2M1)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "grain nvfp4 goes with format e2m1 only, not with %s",
                          plumb_format_get(spec->format)->name);
    if (plumb_grain_has_own_rule(spec->grain) && spec->rule != PLUMB_SCALE_CURRENT)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "grains mx32 and nvfp4 go with rule current only");
    return PLUMB_OK;
}

static plumb_status check_rule(const plumb_spec *spec, plumb_error *why)
{
    if (spec->divide && spec->rule != PLUMB_SCALE_CURRENT)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "divide goes with rule current only");
    if (spec->rule == PLUMB_SCALE_STATIC &&
        !(spec->static_scale >= FLT_MIN && spec->static_scale <= FLT_MAX))
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "a static scale is a positive normal fp32 number");
    if (spec->rule == PLUMB_SCALE_DELAYED &&
        (spec->history < 1 || spec->history > PLUMB_MAX_HISTORY))
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "history=%d: allowed are 1 to %d",
                          spec->history, (int)PLUMB_MAX_HISTORY);
    return PLUMB_OK;
}

static plumb_status check_rounding(const plumb_spec *spec, plumb_error *why)
{
    if ((unsigned)spec->rounding > PLUMB_ROUND_STOCHASTIC ||
        (unsigned)spec->dither > PLUMB_DITHER_8_CENTRED)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "rounding %d or dither %d does not exist", (int)spec->rounding,
                          (int)spec->dither);
    return PLUMB_OK;
}

static plumb_status check_values(const plumb_spec *spec, plumb_error *why)
{
    if (!plumb_grain_exists(spec->grain) || (unsigned)spec->rule > PLUMB_SCALE_DELAYED)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "grain %d or scale rule %d does not exist", (int)spec->grain,
                          (int)spec->rule);
    if ((unsigned)spec->mx > PLUMB_MX_RCEIL)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "scale rounding %d does not exist",
                          (int)spec->mx);
    if (spec->margin < 0 || spec->margin > 32)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "margin=%d: allowed are 0 to 32",
                          spec->margin);
    if (!(spec->amax_floor >= 0 && spec->amax_floor <= FLT_MAX))
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "an amax floor is finite and not negative");
    return PLUMB_OK;
}

plumb_status plumb_spec_check(const plumb_spec *spec, plumb_error *why)
{
    const plumb_format_info *info = plumb_format_get(spec->format);
    plumb_status status;

    if (info == NULL)
        return plumb_fail(why, PLUMB_BAD_FORMAT, "format %d does not exist",
                          (int)spec->format);
    if (!info->is_signed)
        return plumb_fail(why, PLUMB_BAD_FORMAT,
                          "%s is a format of scales: a value in it would lose its sign",
                          info->name);
    if (spec->format == PLUMB_FP32)
        return PLUMB_OK;
    status = check_rounding(spec, why);
    if (status != PLUMB_OK || !plumb_spec_is_scaled(spec))
        return status;
    status = check_values(spec, why);
    if (status == PLUMB_OK)
        status = check_grain(spec, why);
    return status == PLUMB_OK ? check_rule(spec, why) : status;
}
