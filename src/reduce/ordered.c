/* The sum of a vector in a stated order and format: a machine whose stack holds numbers.
 *
 * They are held in fp64.  A sum of two fp32 values formed there and rounded to fp32 is the sum that
 * fp32 forms: 53 bits are at least 2 * 24 + 2 (Figueroa).
 */
#include "plumb/reduce.h"

#include "reduce/order.h"
#include "reduce/step.h"
#include "reduce/tally.h"

#include <math.h>

typedef struct numbers {
    plumb_step step;
    bool wide;
    const float *x;
    uint64_t casts; /* done so far */
    size_t depth;
    double value[PLUMB_ORDER_DEPTH];
} numbers;

/* What fp32, and then the cast, make of a sum. */
static double rounded(numbers *m, double x)
{
    float y = (float)x;

    if (m->wide)
        return x;
    if (m->step.cast != NULL)
        plumb_step_round(&m->step, m->casts++, 0, &y, 1, &y);
    return (double)y;
}

static void push(void *context, size_t leaf)
{
    numbers *m = context;
    double *top = &m->value[m->depth++];
    plumb_sum_counts *sums = m->step.sums;

    *top = 0;
    if (leaf == PLUMB_ORDER_ZERO)
        return;
    const double x = (double)m->x[leaf];

    *top = rounded(m, x);
    if (sums == NULL || !isfinite(x))
        return;
    const double error = isfinite(*top) ? x - *top : 0;

    sums->energy += x * x;
    sums->lost += error * error;
    sums->missing += error;
}

static void add(void *context)
{
    numbers *m = context;
    const double x = m->value[--m->depth], old = m->value[m->depth - 1];
    const double sum = rounded(m, old + x);
    plumb_sum_counts *sums = m->step.sums;

    m->value[m->depth - 1] = isnan(sum) ? (double)NAN : sum;
    if (sums == NULL)
        return;
    const plumb_outcome o = plumb_outcome_of(old, old, x, sum);

    sums->additions++;
    sums->swamped += o.swamped;
    sums->replaced += o.replaced;
    sums->nonfinite += o.nonfinite;
    sums->lost += o.error * o.error;
    sums->missing += o.error;
}

static plumb_status check(const plumb_summation *how, size_t n, plumb_error *why)
{
    if ((unsigned)how->order >= PLUMB_ORDER_COUNT || how->order == PLUMB_ORDER_RING)
        return plumb_fail(
            why, PLUMB_BAD_ARGUMENT,
            "order %d: a vector is summed sequentially, as a tree, pairwise or "
            "in lanes",
            (int)how->order);
    return plumb_step_size(n, why);
}

plumb_status plumb_sum_ordered(const plumb_summation *how, const float *x, size_t n,
                               double *sum, plumb_counts *casts, plumb_sum_counts *sums,
                               plumb_error *why)
{
    plumb_cast cast = how->cast;
    bool fp32 = true;
    plumb_status status = check(how, n, why);

    if (status == PLUMB_OK && !how->wide)
        status = plumb_step_prepare(&cast, &fp32, why);
    if (status != PLUMB_OK)
        return status;
    numbers m = {.step = {.cast = fp32 ? NULL : &cast, .casts = casts, .sums = sums},
                 .wide = how->wide,
                 .x = x};

    if (n > 0)
        plumb_order_run(how->order, n, 0, &(plumb_order_machine){push, add, &m});
    *sum = isnan(m.value[0]) ? (double)NAN : m.value[0]; /* one element may be any NaN */
    return PLUMB_OK;
}
