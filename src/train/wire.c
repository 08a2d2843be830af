/* The gradient all-reduce of one tensor: in its site's spec, in the order and with the scales that the
 * run file asks for.
 *
 * With a shared scale it is plumb_allreduce.  With scales of their own, every share and every partial
 * sum is quantised from its own amax as soon as it exists (blocks too), travels with its scales, and is
 * decoded and added in fp32 where it arrives.
 */
#include "train/sensors.h"
#include "train/train.h"

#include <math.h>

#include "plumb/random.h"
#include "reduce/order.h"

plumb_order wire_order(const settings *s)
{
    static const plumb_order orders[] = {PLUMB_ORDER_SEQUENTIAL, PLUMB_ORDER_RING,
                                         PLUMB_ORDER_TREE, PLUMB_ORDER_PAIRWISE};

    return orders[settings_choice(s->reduce_order, REDUCE_ORDERS)];
}

bool wire_has_own_scales(const settings *s)
{
    return settings_choice(s->reduce_scale, REDUCE_SCALES) == 1;
}

/* --- scales of their own ------------------------------------------------------------------ */

/* A stack of partial sums, of elements [first, first + n) of a tensor. */
typedef struct stack {
    trainer *t;
    const plumb_spec *spec;
    const float *const *shares;
    plumb_draw draw;
    size_t first, n, stride;
    size_t depth, most;
    uint64_t casts;
    plumb_counts counts;
    float least; /* encode scale so far */
    plumb_quantized q;
    plumb_status status;
    plumb_error *why;
} stack;

static void count_push(void *context, size_t rank)
{
    stack *s = context;

    (void)rank;
    s->depth++;
    s->most = s->depth > s->most ? s->depth : s->most;
}

static void count_add(void *context)
{
    stack *s = context;

    s->depth--;
}

size_t wire_depth(const trainer *t)
{
    stack s = {0};
    const plumb_order_machine machine = {count_push, count_add, &s};

    plumb_order_run(wire_order(&t->settings), t->ranks, 0, &machine);
    return s.most;
}

/* What arrives of x: codes and back. */
static void travel(stack *s, const float *from, float *to)
{
    const plumb_source source = {PLUMB_FP32, from, 1, s->n, s->n};
    const plumb_draw draw = {s->draw.seed,
                             plumb_random_stream_at(s->draw.stream, s->casts++)};
    float least, largest;

    if (s->status != PLUMB_OK)
        return;
    s->q = (plumb_quantized){.codes = s->t->codes, .d = s->t->scales};
    const plumb_copies copies = {.along_columns = &s->q, .column_counts = &s->counts};

    s->status = plumb_quantize_copies(s->spec, &source, &draw, NULL, true, &copies, s->why);
    if (s->status == PLUMB_OK)
        s->status = plumb_dequantize(&s->q, to, s->why);
    if (s->status != PLUMB_OK)
        return;
    plumb_quantized_scale_range(&s->q, &least, &largest);
    s->least = least < s->least ? least : s->least;
}

static float *place(const stack *s, size_t depth)
{
    return s->t->wire + depth * s->stride;
}

static void push(void *context, size_t rank)
{
    stack *s = context;

    travel(s, s->shares[rank] + s->first, place(s, s->depth++));
}

static void add(void *context)
{
    stack *s = context;
    float *sum = place(s, s->depth - 2);
    const float *x = place(s, --s->depth);

    for (size_t i = 0; i < s->n; i++)
        sum[i] += x[i];
    travel(s, sum, sum);
}

/* In a ring each of the ranks' pieces has an order, and scales, of its own. */
static void own_scales(stack *s, size_t n, float *out)
{
    const plumb_order order = wire_order(&s->t->settings);
    const plumb_order_machine machine = {push, add, s};
    const size_t ranks = s->t->ranks, pieces = order == PLUMB_ORDER_RING ? ranks : 1;
    const size_t length = (n + pieces - 1) / pieces;

    for (size_t c = 0; c < pieces && c * length < n; c++) {
        s->first = c * length;
        s->n = n - s->first < length ? n - s->first : length;
        s->depth = 0;
        plumb_order_run(order, ranks, (c + 1) % ranks, &machine);
        for (size_t i = 0; i < s->n; i++)
            out[s->first + i] = s->t->wire[i];
    }
}

/* --- a tensor ------------------------------------------------------------------------------ */

static plumb_status reduce_own(trainer *t, size_t index, const plumb_draw *draw,
                               const float *const *shares, size_t n, float *out,
                               plumb_error *why)
{
    stack s = {.t = t,
               .spec = &t->sites.at[index].effective,
               .shares = shares,
               .draw = *draw,
               .stride = t->wire_stride,
               .least = INFINITY,
               .why = why};

    own_scales(&s, n, out);
    if (s.status != PLUMB_OK)
        return s.status;
    sensors_quantized(t, index, &s.counts, &s.q);
    sensors_wire(t, index, 1.0f / s.least, s.counts.saturated + s.counts.nonfinite == 0);
    return PLUMB_OK;
}

static plumb_status reduce_shared(trainer *t, size_t index, const plumb_draw *draw,
                                  const float *const *shares, size_t n, float *out,
                                  plumb_error *why)
{
    const plumb_reduction how = {.order = wire_order(&t->settings),
                                 .headroom = (plumb_reduce_headroom)settings_choice(
                                     t->settings.reduce_headroom, REDUCE_HEADROOMS),
                                 .wire = t->sites.at[index].effective,
                                 .seed = draw->seed,
                                 .stream = draw->stream};
    plumb_counts counts = {0};
    float scale = 1;
    const plumb_status status =
        plumb_allreduce(&how, shares, t->ranks, n, out, &counts, NULL, &scale, why);

    if (status != PLUMB_OK)
        return status;
    sensors_wire(t, index, 1.0f / scale, true);
    if (how.wire.format == PLUMB_FP32)
        sensors_tensor(t, index, out, n);
    else
        sensors_parameter(t, index, &counts, scale);
    return PLUMB_OK;
}

plumb_status wire_reduce(trainer *t, int64_t step, size_t parameter, plumb_error *why)
{
    const plumb_parameter *p = &t->parameters[parameter];
    const size_t n = p->rows * p->cols;
    const size_t index = parameter_site(&t->sites, parameter, STATE_GRAD);
    const bool fp32 = t->sites.at[index].effective.format == PLUMB_FP32;
    const plumb_draw draw = site_draw(t, index, step);
    const float *shares[MAX_RANKS];

    if (fp32 && t->ranks == 1) {
        sensors_wire(t, index, 1, true);
        sensors_tensor(t, index, t->share[0] + p->offset, n);
        return PLUMB_OK;
    }
    for (size_t rank = 0; rank < t->ranks; rank++) {
        shares[rank] = t->share[rank] + p->offset;
        if (!fp32) /* else the sum is looked at */
            sensors_values(t, index, shares[rank], n);
    }
    return (!fp32 && wire_has_own_scales(&t->settings) ? reduce_own : reduce_shared)(
        t, index, &draw, shares, n, t->share[0] + p->offset, why);
}
