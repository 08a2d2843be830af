/* Loss and gradient of one step.
 *
 *   micro-batch  gradient of its mean loss
 *   rank         sum over its micro-batches in fp32, divided by their number
 *   all ranks    the all-reduce of each tensor (wire.c), divided by their number
 *
 * grad_norm is the 2-norm of the result; grad_norm_max the largest 2-norm of one tensor in one
 * micro-batch.
 */
#include "train/sensors.h"
#include "train/train.h"

#include <math.h>
#include <string.h>

#include "plumb/reduce.h"

/* 2-norm of each tensor, squared. */
static void squares(trainer *t, const float *gradient)
{
#pragma omp parallel for schedule(static) num_threads(t->threads)
    for (size_t i = 0; i < t->parameter_count; i++) {
        const plumb_parameter *p = &t->parameters[i];

        t->norms[i] = plumb_sum_squares(gradient + p->offset, p->rows * p->cols);
    }
}

static void largest_norm(trainer *t, const float *gradient, step_result *r)
{
    squares(t, gradient);
    for (size_t i = 0; i < t->parameter_count; i++) {
        const double norm = sqrt(t->norms[i]);

        if (norm > r->grad_norm_max || (isnan(norm) && !isnan(r->grad_norm_max))) {
            r->grad_norm_max = norm;
            r->grad_norm_max_parameter = i;
        }
    }
}

static void add(const trainer *t, float *sum, const float *x)
{
#pragma omp parallel for schedule(static) num_threads(t->threads)
    for (size_t i = 0; i < t->weight_count; i++)
        sum[i] += x[i];
}

static void divide(const trainer *t, float *x, size_t by)
{
    const float divisor = (float)by;

    if (by == 1)
        return;
#pragma omp parallel for schedule(static) num_threads(t->threads)
    for (size_t i = 0; i < t->weight_count; i++)
        x[i] /= divisor;
}

static plumb_status micro_batch(trainer *t, int64_t step, size_t rank, size_t micro,
                                step_result *r, plumb_error *why)
{
    const size_t call = rank * t->micro_batches + micro;
    const uint8_t *tokens = t->ordered + call * t->micro_sequences * (t->shape.context + 1);
    float *gradient = t->micro_batches == 1 ? t->share[rank] : t->micro;
    plumb_loss loss;
    plumb_status status;

    faults_call(t, rank, micro);
    plumb_model_draw(t->model, trainer_seed(t), trainer_draw(t, step, 1 + call));
    status = plumb_model_forward(t->model, t->weights, tokens, &loss, why);

    if (status == PLUMB_OK)
        status = plumb_model_backward(t->model, t->weights, tokens, gradient, why);
    if (status != PLUMB_OK)
        return status;
    sensors_part(t, rank, gradient);
    faults_gradient(t, gradient);
    r->loss += loss.mean;
    if (call == 0 || loss.worst > r->loss_worst || isnan(loss.worst))
        r->loss_worst = isnan(r->loss_worst) ? r->loss_worst : loss.worst;
    largest_norm(t, gradient, r);
    sensors_operands(t);
    if (call == 0) {
        status = sensors_shadow(t, step, tokens, gradient, why);
        if (status != PLUMB_OK)
            return status;
    }
    if (t->micro_batches > 1 && micro == 0)
        memcpy(t->share[rank], gradient, t->weight_count * sizeof *gradient);
    else if (t->micro_batches > 1)
        add(t, t->share[rank], gradient);
    return PLUMB_OK;
}

plumb_status gradient_step(trainer *t, int64_t step, step_result *r, plumb_error *why)
{
    plumb_status status;

    plumb_model_draw(t->model, trainer_seed(t), trainer_draw(t, step, 0));
    status = plumb_model_weights(t->model, t->weights, why);
    if (status == PLUMB_OK)
        sensors_weights(t);
    for (size_t rank = 0; rank < t->ranks; rank++) {
        for (size_t micro = 0; micro < t->micro_batches && status == PLUMB_OK; micro++)
            status = micro_batch(t, step, rank, micro, r, why);
        divide(t, t->share[rank], t->micro_batches);
    }
    for (size_t i = 0; i < t->parameter_count && status == PLUMB_OK; i++) {
        faults_shares(t, i);
        status = wire_reduce(t, step, i, why);
        faults_sum(t, i);
    }
    if (status != PLUMB_OK)
        return status;
    divide(t, t->share[0], t->ranks);
    sensors_gradient(t);
    r->loss /= (double)(t->ranks * t->micro_batches);
    double sum = 0;

    squares(t, t->share[0]);
    for (size_t i = 0; i < t->parameter_count; i++)
        sum += t->norms[i];
    r->grad_norm = sqrt(sum);
    return PLUMB_OK;
}
