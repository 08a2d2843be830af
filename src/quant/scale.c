/* Scales: TransformerEngine's rules for s, DeepSeek's for d, and the state machine of delayed
 * scaling (sources in plumb/quant.h).
 */
#include "quant/scale.h"

#include "base/bits.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { FRACTION = 0x007fffff };

/* 448 * 2^-margin, exactly. */
static float largest_scaled(const plumb_spec *spec)
{
    const float largest = plumb_format_get(spec->format)->largest;

    return ldexpf(largest, -spec->margin);
}

/* NaN stays: it compares false, as in TransformerEngine. */
static float with_floor(const plumb_spec *spec, float amax)
{
    return amax < spec->amax_floor ? spec->amax_floor : amax;
}

float plumb_scale_from_amax(const plumb_spec *spec, float amax, float otherwise)
{
    amax = with_floor(spec, amax);
    if (!(amax > 0) || isinf(amax))
        return otherwise;
    float s = largest_scaled(spec) / amax;
    if (isinf(s))
        s = FLT_MAX;
    if (s < FLT_MIN)
        s = FLT_MIN;
    return spec->power_of_two ? float_of(bits_of(s) & ~(uint32_t)FRACTION) : s;
}

/* d rounded up to a power of two within the exponents that DeepGEMM's UE8M0 codes have, 1
 * to 254; the mantissa carries into the exponent.
 */
static float power_of_two_up(float d)
{
    if (d < FLT_MIN)
        return FLT_MIN;
    if (d > 0x1p127f)
        return 0x1p127f;
    return float_of((bits_of(d) + FRACTION) & ~(uint32_t)FRACTION);
}

/* DeepSeek divides by d, so d is what its kernel computes. */
static float d_from_amax(const plumb_spec *spec, float amax)
{
    amax = with_floor(spec, amax);
    if (!(amax > 0))
        return 1;
    const float d = amax / largest_scaled(spec);
    return spec->power_of_two ? power_of_two_up(d) : d;
}

plumb_block_scale plumb_block_scale_current(const plumb_spec *spec, float amax)
{
    if (spec->divide) {
        const float d = d_from_amax(spec, amax);
        return (plumb_block_scale){d, true, d};
    }
    return plumb_block_scale_fixed(plumb_scale_from_amax(spec, amax, 1));
}

void plumb_block_scales(const plumb_spec *spec, float of_tensor, const float *amax,
                        size_t n, float *factor, float *d)
{
    if (spec->grain == PLUMB_GRAIN_NVFP4) {
        plumb_block_scales_nvfp4(of_tensor, amax, n, factor, d);
        return;
    }
    if (spec->grain == PLUMB_GRAIN_MX32) {
        plumb_block_scales_mx(spec, amax, n, factor, d);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const plumb_block_scale scale = plumb_block_scale_current(spec, amax[i]);

        factor[i] = scale.factor;
        d[i] = scale.d;
    }
}

plumb_block_scale plumb_block_scale_fixed(float s)
{
    return (plumb_block_scale){s, false, 1 / s};
}

void plumb_scale_state_init(plumb_scale_state *state)
{
    memset(state, 0, sizeof *state);
    state->scale = 1;
    state->pending = -1;
}

static int clamp(int x, int least, int most)
{
    return x < least ? least : x > most ? most : x;
}

static float window_maximum(const plumb_scale_state *state)
{
    float amax = 0;

    for (int i = 0; i < state->count; i++) {
        if (state->history[i] > amax)
            amax = state->history[i];
    }
    return amax;
}

void plumb_scale_state_update(plumb_scale_state *state, const plumb_spec *spec)
{
    const float newest = state->pending;
    const int window = clamp(spec->history, 1, PLUMB_MAX_HISTORY);
    const int kept = clamp(state->count, 0, window - 1); /* of a damaged checkpoint, too */

    state->pending = -1;
    if (!(newest > 0))
        return;
    memmove(state->history + 1, state->history, (size_t)kept * sizeof *state->history);
    state->history[0] = newest;
    state->count = kept + 1;
    state->scale = plumb_scale_from_amax(
        spec, spec->most_recent ? newest : window_maximum(state), state->scale);
}
