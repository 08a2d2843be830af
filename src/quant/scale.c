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

static inline float smaller_of(float a, float b)
{
    return a < b ? a : b;
}

static inline float larger_of(float a, float b)
{
    return a > b ? a : b;
}

/* NaN stays: it compares false, as in TransformerEngine. */
static inline float with_floor(const plumb_spec *spec, float amax)
{
    return amax < spec->amax_floor ? spec->amax_floor : amax;
}

/* s for an amax under a largest value, which has the margin in it. */
static inline float scale_under(const plumb_spec *spec, float largest, float amax,
                                float otherwise)
{
    amax = with_floor(spec, amax);
    const bool usable = amax > 0 && !isinf(amax);
    const float s = larger_of(smaller_of(largest / amax, FLT_MAX), FLT_MIN);
    const uint32_t kept = spec->power_of_two ? ~(uint32_t)FRACTION : ~(uint32_t)0;

    return usable ? float_of(bits_of(s) & kept) : otherwise;
}

float plumb_scale_from_amax(const plumb_spec *spec, float amax, float otherwise)
{
    return scale_under(spec, largest_scaled(spec), amax, otherwise);
}

/* d rounded up to a power of two within the exponents that DeepGEMM's UE8M0 codes have, 1
 * to 254; the mantissa carries into the exponent.
 */
static inline float power_of_two_up(float d)
{
    if (d < FLT_MIN)
        return FLT_MIN;
    if (d > 0x1p127f)
        return 0x1p127f;
    return float_of((bits_of(d) + FRACTION) & ~(uint32_t)FRACTION);
}

/* DeepSeek divides by d, so d is what its kernel computes. */
static inline float d_under(const plumb_spec *spec, float largest, float amax)
{
    amax = with_floor(spec, amax);
    if (!(amax > 0))
        return 1;
    const float d = amax / largest;
    return spec->power_of_two ? power_of_two_up(d) : d;
}

plumb_block_scale plumb_block_scale_current(const plumb_spec *spec, float amax)
{
    if (spec->divide) {
        const float d = d_under(spec, largest_scaled(spec), amax);
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
    const float largest = largest_scaled(spec);

    for (size_t i = 0; i < n && spec->divide; i++)
        factor[i] = d[i] = d_under(spec, largest, amax[i]);
    for (size_t i = 0; i < n && !spec->divide; i++) {
        factor[i] = scale_under(spec, largest, amax[i], 1);
        d[i] = 1 / factor[i];
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
