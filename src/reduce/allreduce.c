/* The gradient all-reduce as a ring in few bits would make it, a piece at a time: what
 * travels is a code, so every share and every partial sum goes through the cast.
 */
#include "plumb/reduce.h"

#include "quant/scale.h"
#include "quant/spec.h"

#include <math.h>
#include <string.h>

enum { PIECE = 1024 };

/* What travels: format, scale, and where casts are counted. */
struct wire {
    const plumb_spec *spec;
    plumb_block_scale scale;
    plumb_counts *counts;
};

/* y = value of the code of x, decoded. */
static void send(const struct wire *wire, const float *x, size_t n, float *y)
{
    const plumb_cast how = {.format = wire->spec->format,
                            .saturate = wire->spec->saturate,
                            .divide = wire->scale.divide,
                            .scale = wire->scale.factor};
    uint16_t codes[PIECE]; /* wide enough for bf16 */

    plumb_cast_encode(&how, x, n, codes, wire->counts);
    plumb_cast_decode(how.format, wire->scale.d, codes, n, y);
}

/* A NaN is the one pattern: which of two the addition hands on is the compiler's choice. */
static void add(float *sum, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float total = sum[i] + x[i];

        sum[i] = isnan(total) ? (float)NAN : total;
    }
}

static void reduce_piece(const struct wire *wire, const float *const *shares, size_t ranks,
                         size_t first, size_t n, float *out)
{
    float sum[PIECE], share[PIECE];

    send(wire, shares[0] + first, n, sum);
    for (size_t rank = 1; rank < ranks; rank++) {
        send(wire, shares[rank] + first, n, share);
        add(sum, share, n);
        send(wire, sum, n, sum);
    }
    memcpy(out + first, sum, n * sizeof *sum);
}

static void reduce_plain(const float *const *shares, size_t ranks, size_t n, float *out)
{
    if (out != shares[0])
        memcpy(out, shares[0], n * sizeof *out);
    for (size_t rank = 1; rank < ranks; rank++)
        add(out, shares[rank], n);
}

/* The largest magnitude that a partial sum can have, at most. */
static float amax_of_sum(const float *const *shares, size_t ranks, size_t n)
{
    float amax = 0;

    for (size_t rank = 0; rank < ranks; rank++) {
        const float of_rank = plumb_cast_amax(shares[rank], n);

        amax = of_rank > amax ? of_rank : amax;
    }
    return (float)ranks * amax;
}

static plumb_block_scale choose_scale(const plumb_spec *spec, const float *const *shares,
                                      size_t ranks, size_t n)
{
    if (spec->rule == PLUMB_SCALE_CURRENT)
        return plumb_block_scale_current(spec, amax_of_sum(shares, ranks, n));
    return plumb_block_scale_fixed(spec->rule == PLUMB_SCALE_STATIC ? spec->static_scale
                                                                    : 1);
}

static plumb_status check(const plumb_spec *wire, size_t ranks, plumb_error *why)
{
    const plumb_status status = plumb_spec_check(wire, why);

    if (status != PLUMB_OK)
        return status;
    if (ranks == 0)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "an all-reduce over 0 ranks");
    if (wire->rule == PLUMB_SCALE_DELAYED || wire->grain != PLUMB_GRAIN_TENSOR)
        return plumb_fail(
            why, PLUMB_UNSUPPORTED,
            "the wire format of an all-reduce has one scale for all ranks: rule "
            "none, static or current, grain tensor");
    return PLUMB_OK;
}

plumb_status plumb_allreduce(const plumb_spec *wire, const float *const *shares,
                             size_t ranks, size_t n, float *out, plumb_counts *counts,
                             float *scale_used, plumb_error *why)
{
    const plumb_spec spec = plumb_spec_normal(wire);
    const plumb_status status = check(&spec, ranks, why);

    if (status != PLUMB_OK)
        return status;
    const struct wire how = {&spec, choose_scale(&spec, shares, ranks, n), counts};

    if (scale_used != NULL)
        *scale_used = how.scale.divide ? 1 / how.scale.d : how.scale.factor;
    if (spec.format == PLUMB_FP32) {
        reduce_plain(shares, ranks, n, out);
        return PLUMB_OK;
    }
    for (size_t first = 0; first < n; first += PIECE)
        reduce_piece(&how, shares, ranks, first, n - first < PIECE ? n - first : PIECE,
                     out);
    return PLUMB_OK;
}
