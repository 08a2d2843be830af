/* What a spec is before and after its text: which formats are scaled, the defaults, the normal
 * form in which two specs that mean the same are equal, and which values are allowed.
 */
#include "quant/spec.h"

#include <float.h>

bool plumb_spec_is_scaled(const plumb_spec *spec)
{
    return spec->format == PLUMB_E4M3 || spec->format == PLUMB_E5M2;
}

plumb_spec plumb_spec_default(plumb_format format)
{
    if (format != PLUMB_E4M3 && format != PLUMB_E5M2)
        return (plumb_spec){.format = format, .static_scale = 1};
    return (plumb_spec){.format = format,
                        .grain = PLUMB_GRAIN_TENSOR,
                        .rule = PLUMB_SCALE_CURRENT,
                        .static_scale = 1,
                        .history = 16,
                        .saturate = true};
}

plumb_spec plumb_spec_normal(const plumb_spec *spec)
{
    const plumb_spec usual = plumb_spec_default(spec->format);
    plumb_spec normal = *spec;

    if (!plumb_spec_is_scaled(spec))
        return usual;
    if (spec->rule != PLUMB_SCALE_STATIC)
        normal.static_scale = usual.static_scale;
    if (spec->rule != PLUMB_SCALE_DELAYED) {
        normal.history = usual.history;
        normal.most_recent = usual.most_recent;
    }
    if (spec->rule != PLUMB_SCALE_DELAYED && spec->rule != PLUMB_SCALE_CURRENT) {
        normal.margin = usual.margin;
        normal.power_of_two = usual.power_of_two;
        normal.amax_floor = usual.amax_floor;
    }
    if (spec->rule != PLUMB_SCALE_CURRENT)
        normal.divide = usual.divide;
    return normal;
}

bool plumb_spec_equal(const plumb_spec *a, const plumb_spec *b)
{
    const plumb_spec p = plumb_spec_normal(a), q = plumb_spec_normal(b);

    return p.format == q.format && p.grain == q.grain && p.rule == q.rule &&
           p.static_scale == q.static_scale && p.history == q.history &&
           p.margin == q.margin && p.most_recent == q.most_recent &&
           p.saturate == q.saturate && p.power_of_two == q.power_of_two &&
           p.divide == q.divide && p.amax_floor == q.amax_floor;
}

static plumb_status check_rule(const plumb_spec *spec, plumb_error *why)
{
    if (spec->rule == PLUMB_SCALE_DELAYED && spec->grain != PLUMB_GRAIN_TENSOR)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "delayed scaling has one scale: it goes with grain tensor only");
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

plumb_status plumb_spec_check(const plumb_spec *spec, plumb_error *why)
{
    if (plumb_format_get(spec->format) == NULL)
        return plumb_fail(why, PLUMB_BAD_FORMAT, "format %d does not exist",
                          (int)spec->format);
    if (!plumb_spec_is_scaled(spec))
        return PLUMB_OK;
    if ((unsigned)spec->grain > PLUMB_GRAIN_128X128 ||
        (unsigned)spec->rule > PLUMB_SCALE_DELAYED)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "grain %d or scale rule %d does not exist", (int)spec->grain,
                          (int)spec->rule);
    if (spec->margin < 0 || spec->margin > 32)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "margin=%d: allowed are 0 to 32",
                          spec->margin);
    if (!(spec->amax_floor >= 0 && spec->amax_floor <= FLT_MAX))
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "an amax floor is finite and not negative");
    return check_rule(spec, why);
}
