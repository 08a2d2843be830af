/* The shadow has a model of its own, so it touches no scale state, no count and no gradient of the
 * run.  Its distances go to event "shadow": per layer output and for the logits the maximum of
 * |a - b| / rms(b) with its index, for the gradient cosine and relative error, whole and of the
 * worst tensor.
 */
#include "train/shadow.h"

#include <math.h>
#include <stdlib.h>

#ifndef PLUMB_NO_SENSORS

static plumb_status with_setup(const trainer *t, shadow *s, plumb_memory *memory,
                               plumb_error *why)
{
    plumb_spec *specs = calloc(t->sites.operands, sizeof *specs);
    plumb_status status;

    if (specs == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the shadow");
    trainer_bf16_specs(t, specs);
    const plumb_model_setup setup = {.shape = t->shape,
                                     .sequences = t->micro_sequences,
                                     .threads = t->threads,
                                     .specs = specs};

    status = memory != NULL ? plumb_model_need(&setup, memory, why)
                            : plumb_model_create(&setup, &s->model, why);
    free(specs);
    return status;
}

void shadow_plan(trainer *t, shadow *s)
{
    t->arena.label = PLUMB_MEMORY_GRADIENTS;
    if (s->every > 0)
        s->gradient = plumb_arena_take(&t->arena, t->weight_count, sizeof *s->gradient);
}

plumb_status shadow_take(const trainer *t, shadow *s, plumb_error *why)
{
    return s->every == 0 ? PLUMB_OK : with_setup(t, s, NULL, why);
}

plumb_status shadow_need(const trainer *t, shadow *s, plumb_memory *memory,
                         plumb_error *why)
{
    return s->every == 0 ? PLUMB_OK : with_setup(t, s, memory, why);
}

void shadow_free(shadow *s)
{
    plumb_model_free(&s->model);
}

static json_t *distance(const char *name, const float *a, const float *b, size_t n)
{
    const plumb_deviation d = plumb_observe_deviation(a, b, n);

    return json_pack("{s:s, s:o, s:I, s:o, s:o}", "name", name, "max_over_rms",
                     plumb_json_real(d.max_over_rms), "index", (json_int_t)d.index,
                     "relative", plumb_json_real(d.relative), "cosine",
                     plumb_json_real(d.cosine));
}

static json_t *outputs(const trainer *t, const shadow *s)
{
    json_t *layers = json_array();

    for (size_t i = 0; i < t->shape.layers; i++) {
        char name[32];
        size_t n;
        const float *a = plumb_model_layer_output(t->model, i, &n);

        plumb_print(name, sizeof name, "layer.%zu", i);
        json_array_append_new(
            layers, distance(name, a, plumb_model_layer_output(s->model, i, &n), n));
    }
    return layers;
}

/* The tensor with the lowest cosine; one that is not a number is the worst of all. */
static json_t *worst_tensor(const trainer *t, const shadow *s, const float *gradient)
{
    double lowest = 2;
    size_t worst = 0;

    for (size_t i = 0; i < t->parameter_count; i++) {
        const plumb_parameter *p = &t->parameters[i];
        const plumb_deviation d = plumb_observe_deviation(
            gradient + p->offset, s->gradient + p->offset, p->rows * p->cols);

        if (!(d.cosine >= lowest) && !isnan(lowest)) {
            lowest = d.cosine;
            worst = i;
        }
    }
    const plumb_parameter *p = &t->parameters[worst];

    return distance(p->name, gradient + p->offset, s->gradient + p->offset,
                    p->rows * p->cols);
}

plumb_status shadow_compare(trainer *t, shadow *s, int64_t step, const uint8_t *tokens,
                            const float *gradient, plumb_error *why)
{
    plumb_loss loss;
    plumb_status status;
    size_t n;

    if (s->every == 0 || (step != 1 && step % s->every != 0))
        return PLUMB_OK;
    status = plumb_model_weights(s->model, t->weights, why);
    if (status == PLUMB_OK)
        status = plumb_model_forward(s->model, t->weights, tokens, &loss, why);
    if (status == PLUMB_OK)
        status = plumb_model_backward(s->model, t->weights, tokens, s->gradient, why);
    if (status != PLUMB_OK)
        return status;
    if (t->run == NULL) /* measured, not logged */
        return PLUMB_OK;
    const float *logits = plumb_model_logits(t->model, &n);
    json_t *fields =
        json_pack("{s:I, s:o, s:o, s:o, s:o, s:o}", "step", (json_int_t)step, "loss_bf16",
                  plumb_json_real(loss.mean), "layers", outputs(t, s), "logits",
                  distance("logits", logits, plumb_model_logits(s->model, &n), n),
                  "gradient", distance("all", gradient, s->gradient, t->weight_count),
                  "worst_tensor", worst_tensor(t, s, gradient));

    if (fields == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for an event");
    return plumb_run_event(t->run, "shadow", fields, why);
}

#else
typedef int plumb_shadow_is_gone;
#endif
