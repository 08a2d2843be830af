/* Invariants of the gradient and of Adam's step.
 *
 * The gradient that the optimizer gets is the mean of what backward made, over micro-batches and ranks,
 * within what the roundings between them may lose.  The exact sums are formed in fp64, where fp32
 * values lose next to nothing; the bound is a running error analysis in the order of the all-reduce
 * (Higham, Accuracy and Stability of Numerical Algorithms, section 3.3), with each cast counted.
 */
#include "train/invariants.h"

#include <math.h>

#include "reduce/order.h"

#ifndef PLUMB_NO_SENSORS

/* --- the gradient is the mean of its parts ------------------------------------------------ */

void invariants_part(const trainer *t, invariants *v, size_t rank, const float *gradient)
{
    const size_t looks = t->parameter_count * LOOKS;
    double *part = v->part + rank * looks, *size = v->size + rank * looks;

    for (size_t i = 0; i < looks; i++) {
        const double g = (double)gradient[v->element[i]];

        part[i] += g;
        size[i] += fabs(g);
    }
}

void invariants_wire(const trainer *t, invariants *v, size_t index, float d, bool usable)
{
    v->wire[(index - t->sites.operands) / PARAMETER_SITES] = (wire_cast){d, usable};
}

/* Exact sums, and how far from each the computed one may be. */
typedef struct running {
    const trainer *t;
    const invariants *v;
    const plumb_spec *spec;
    double d;
    size_t look; /* of all */
    struct {
        double sum, error;
    } at[PLUMB_ORDER_DEPTH_RANKS];
    size_t depth;
} running;

/* What is on top has been cast. */
static void cast(running *r)
{
    const double size = fabs(r->at[r->depth - 1].sum) + r->at[r->depth - 1].error;

    if (r->spec->format != PLUMB_FP32)
        r->at[r->depth - 1].error += invariant_cast_error(r->spec, r->d, size);
}

/* A rank's mean over its micro-batches: so many roundings of sums no larger than `size`. */
static void push(void *context, size_t rank)
{
    running *r = context;
    const trainer *t = r->t;
    const size_t at = rank * t->parameter_count * LOOKS + r->look;
    const double micro = (double)t->micro_batches;

    r->at[r->depth].sum = r->v->part[at] / micro;
    r->at[r->depth].error =
        t->micro_batches == 1 ? 0 : micro * 0x1p-23 * r->v->size[at] / micro + 0x1p-149;
    r->depth++;
    cast(r);
}

static void add(void *context)
{
    running *r = context;
    const size_t top = --r->depth, sum = top - 1;

    r->at[sum].sum += r->at[top].sum;
    r->at[sum].error += r->at[top].error;
    r->at[sum].error += 0x1p-24 * (fabs(r->at[sum].sum) + r->at[sum].error);
    cast(r);
}

/* In a ring the ranks begin elsewhere for each piece of the tensor. */
static size_t turn(const trainer *t, const plumb_parameter *p, size_t element)
{
    const size_t n = p->rows * p->cols, length = (n + t->ranks - 1) / t->ranks;

    return ((element - p->offset) / length + 1) % t->ranks;
}

static void look(const trainer *t, invariants *v, size_t parameter, size_t j)
{
    const plumb_parameter *p = &t->parameters[parameter];
    const size_t index = parameter_site(&t->sites, parameter, STATE_GRAD);
    const size_t element = v->element[parameter * LOOKS + j];
    const double ranks = (double)t->ranks;
    running r = {.t = t,
                 .v = v,
                 .spec = &t->sites.at[index].effective,
                 .d = (double)v->wire[parameter].d,
                 .look = parameter * LOOKS + j};
    const plumb_order_machine machine = {push, add, &r};

    plumb_order_run(wire_order(&t->settings), t->ranks, turn(t, p, element), &machine);
    const double wanted = r.at[0].sum / ranks;
    const double allowed =
        r.at[0].error / ranks + INVARIANT_SLACK * fabs(wanted) + 0x1p-149;
    const double error = fabs((double)t->share[0][element] - wanted);

    if (isfinite(allowed) && fabs(wanted) < 0x1p100 && !(error <= allowed))
        invariant_broken(v, INVARIANT_GRADIENT, index, error, allowed);
}

void invariants_gradient(const trainer *t, invariants *v)
{
    for (size_t i = 0; i < t->parameter_count; i++) {
        for (size_t j = 0; j < LOOKS && v->wire[i].usable; j++)
            look(t, v, i, j);
    }
}

/* --- Adam's step is bounded ------------------------------------------------------------------ */

/* By Cauchy and Schwarz, with r = b1^2 / b2,
 *
 *   |m_t| = (1 - b1) |sum b1^k g_(t-k)|  <=  (1 - b1) sqrt(sum r^k) sqrt(sum b2^k g_(t-k)^2)
 *
 * and the last sum is v_t / (1 - b2); k runs from 0 to t - 1, and both are divided by their bias.
 * (Kingma and Ba, section 2.1, name (1 - b1) / sqrt(1 - b2) for a single gradient and 1 for the
 * usual; neither holds for every sequence.)  The rounding of m and v grows with the steps.
 */
static double step_bound(const trainer *t, double series, int64_t step)
{
    const double beta1 = (double)(float)t->settings.beta1;
    const double beta2 = (double)(float)t->settings.beta2;

    return (1 - beta1) / sqrt(1 - beta2) * sqrt(series) * sqrt(1 - t->beta2_power) /
           (1 - t->beta1_power) * (1 + (double)step * INVARIANT_SLACK);
}

/* Moments in few bits promise nothing: what was flushed from v stays in m.  Neither do moments of
 * another run, that may have been in few bits.  Far below 1e-16 v has too few bits in fp32, and eps
 * has to bound the step.
 */
static bool promises_step(const trainer *t, size_t parameter)
{
    const site *m = &t->sites.at[parameter_site(&t->sites, parameter, STATE_M)];
    const site *v = &t->sites.at[parameter_site(&t->sites, parameter, STATE_V)];

    return m->effective.format == PLUMB_FP32 && v->effective.format == PLUMB_FP32 &&
           t->request.start == NULL && t->settings.eps >= 1e-16 && t->settings.beta2 > 0;
}

void invariants_update(const trainer *t, invariants *v, size_t parameter, float most)
{
    const int64_t step = t->step + 1;

    if (parameter == 0)
        v->series =
            1 + v->series * t->settings.beta1 * t->settings.beta1 / t->settings.beta2;
    if (!promises_step(t, parameter) || !isfinite(most))
        return;
    const double bound = step_bound(t, v->series, step);

    if ((double)most > bound)
        invariant_broken(v, INVARIANT_STEP, parameter_site(&t->sites, parameter, STATE_V),
                         (double)most, bound);
}

#else
typedef int plumb_invariants_of_gradients_are_gone;
#endif
