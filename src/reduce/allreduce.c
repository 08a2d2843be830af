/* The gradient all-reduce, a piece at a time: a machine whose stack holds pieces of a tensor.  What
 * travels is a code, so every share and every partial sum goes through the cast.
 */
#include "plumb/reduce.h"

#include "base/size.h"
#include "quant/scale.h"
#include "quant/spec.h"
#include "reduce/order.h"
#include "reduce/step.h"
#include "reduce/tally.h"

#include <math.h>

enum { PIECE = PLUMB_STEP_PIECE, DEPTH = PLUMB_ORDER_DEPTH_RANKS };

typedef struct pieces {
    plumb_step step;
    const float *const *shares;
    size_t first, n; /* of the piece */
    uint64_t casts;  /* of each of its elements so far */
    size_t depth;
    const float *at[DEPTH]; /* a share itself in fp32, else memory[same place] */
    float memory[DEPTH][PIECE];
} pieces;

static void push(void *context, size_t rank)
{
    pieces *m = context;
    const float *share = m->shares[rank] + m->first;
    const size_t top = m->depth++;

    if (m->step.cast != NULL) {
        plumb_step_leaf(&m->step, m->casts++, m->first, share, m->n, m->memory[top]);
        m->at[top] = m->memory[top];
        return;
    }
    m->at[top] = share;
    if (m->step.sums != NULL)
        plumb_tally_leaves(share, share, m->n, m->step.sums);
}

static void add(void *context)
{
    pieces *m = context;
    const size_t top = --m->depth, sum = top - 1;
    const uint64_t number = m->step.cast != NULL ? m->casts++ : 0;

    plumb_step_add(&m->step, number, m->first, 1, m->at[sum], m->at[top], m->n, false,
                   m->memory[sum]);
    m->at[sum] = m->memory[sum];
}

/* A share that met no addition may bring any NaN.  y may be x. */
static void store(const float *x, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = isnan(x[i]) ? (float)NAN : x[i];
}

/* Elements [begin, end), all in the same order of ranks. */
static void reduce(pieces *m, plumb_order order, size_t ranks, size_t turn, size_t begin,
                   size_t end, float *out)
{
    const plumb_order_machine machine = {push, add, m};

    for (m->first = begin; m->first < end; m->first += m->n) {
        m->n = smaller(PIECE, end - m->first);
        m->casts = m->depth = 0;
        plumb_order_run(order, ranks, turn, &machine);
        store(m->at[0], m->n, out + m->first);
    }
}

/* Piece c of the ring begins with rank c + 1. */
static void reduce_ring(pieces *m, size_t ranks, size_t n, float *out)
{
    const size_t length = n / ranks + (n % ranks != 0);

    for (size_t c = 0; c < ranks && c * length < n; c++) {
        const size_t begin = c * length;

        reduce(m, PLUMB_ORDER_RING, ranks, (c + 1) % ranks, begin,
               begin + smaller(length, n - begin), out);
    }
}

/* --- the shared scale --------------------------------------------------------------------- */

static float headroom(plumb_reduce_headroom rule, size_t ranks)
{
    switch (rule) {
    case PLUMB_REDUCE_HEADROOM_SQRT:
        return sqrtf((float)ranks);
    case PLUMB_REDUCE_HEADROOM_NONE:
        return 1;
    default:
        return (float)ranks;
    }
}

static float largest_amax(const float *const *shares, size_t ranks, size_t n)
{
    float amax = 0;

    for (size_t rank = 0; rank < ranks; rank++) {
        const float of_rank = plumb_cast_amax(shares[rank], n);

        amax = of_rank > amax ? of_rank : amax;
    }
    return amax;
}

static plumb_block_scale choose_scale(const plumb_reduction *how, const plumb_spec *wire,
                                      const float *const *shares, size_t ranks, size_t n)
{
    if (wire->rule == PLUMB_SCALE_CURRENT)
        return plumb_block_scale_current(wire, headroom(how->headroom, ranks) *
                                                   largest_amax(shares, ranks, n));
    return plumb_block_scale_fixed(wire->rule == PLUMB_SCALE_STATIC ? wire->static_scale
                                                                    : 1);
}

/* --- entry ---------------------------------------------------------------------------------- */

static plumb_status check(const plumb_reduction *how, const plumb_spec *wire, size_t ranks,
                          size_t n, plumb_error *why)
{
    const plumb_status status = plumb_spec_check(wire, why);

    if (status != PLUMB_OK)
        return status;
    if (ranks == 0 || ranks > PLUMB_MAX_REDUCE_RANKS)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "an all-reduce over %zu ranks: allowed are 1 to %d", ranks,
                          (int)PLUMB_MAX_REDUCE_RANKS);
    if ((unsigned)how->order >= PLUMB_ORDER_LANES ||
        (unsigned)how->headroom > PLUMB_REDUCE_HEADROOM_NONE)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "order %d, headroom %d: an all-reduce is sequential, a ring, a "
                          "tree or pairwise, with headroom ranks, sqrt or none",
                          (int)how->order, (int)how->headroom);
    if (wire->rule == PLUMB_SCALE_DELAYED || wire->grain != PLUMB_GRAIN_TENSOR)
        return plumb_fail(
            why, PLUMB_UNSUPPORTED,
            "the wire format of an all-reduce has one scale for all ranks: rule "
            "none, static or current, grain tensor");
    return plumb_step_size(n, why);
}

plumb_status plumb_allreduce(const plumb_reduction *how, const float *const *shares,
                             size_t ranks, size_t n, float *out, plumb_counts *casts,
                             plumb_sum_counts *sums, float *scale_used, plumb_error *why)
{
    const plumb_spec wire = plumb_spec_normal(&how->wire);
    bool fp32;
    plumb_status status = check(how, &wire, ranks, n, why);

    if (status != PLUMB_OK)
        return status;
    const plumb_block_scale scale = choose_scale(how, &wire, shares, ranks, n);
    plumb_cast cast = {.format = wire.format,
                       .saturate = wire.saturate,
                       .divide = scale.divide,
                       .scale = scale.factor,
                       .decode = scale.d,
                       .rounding = wire.rounding,
                       .dither = wire.dither,
                       .seed = how->seed,
                       .stream = how->stream};

    status = plumb_step_prepare(&cast, &fp32, why);
    if (status != PLUMB_OK)
        return status;
    pieces m;

    m.step = (plumb_step){.cast = fp32 ? NULL : &cast, .casts = casts, .sums = sums};
    m.shares = shares;
    if (how->order == PLUMB_ORDER_RING)
        reduce_ring(&m, ranks, n, out);
    else
        reduce(&m, how->order, ranks, 0, 0, n, out);
    if (scale_used != NULL)
        *scale_used = scale.divide ? 1 / scale.d : scale.factor;
    return PLUMB_OK;
}
