/* The loss on text that was never trained on, at the end of the schedule: in the run's own
 * arithmetic and, with the same weights, in bf16.  Where the two differ, the weights have adapted
 * to a fault of the arithmetic, which no training loss shows.  The run's model is used and then
 * given up: there is never memory for two.  What the run carries over does not move.
 */
#include "train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plumb/random.h"

bool unseen_exists(const trainer *t)
{
    return t->corpus.size - t->corpus.train > t->shape.context;
}

/* Seed 0 of a stream of their own. */
void unseen_fill(const trainer *t, int64_t batch, uint8_t *tokens, size_t *offsets)
{
    const size_t length = t->shape.context + 1, kept = t->corpus.size - t->corpus.train;
    const uint64_t stream = plumb_random_stream("validation");

    for (size_t i = 0; i < t->micro_sequences; i++) {
        const uint64_t index = (uint64_t)batch * t->micro_sequences + i;
        const size_t offset = t->corpus.train + (size_t)plumb_random_below(
                                                    0, stream, index, kept - length + 1);

        memcpy(tokens + i * length, t->corpus.text + offset, length);
        if (offsets != NULL)
            offsets[i] = offset;
    }
}

/* Numbers of draws that no step has. */
plumb_status unseen_weights(const trainer *t, plumb_model *model, plumb_error *why)
{
    plumb_model_draw(model, trainer_seed(t), UINT64_MAX);
    return plumb_model_weights(model, t->weights, why);
}

plumb_status unseen_forward(const trainer *t, plumb_model *model, int64_t batch,
                            const uint8_t *tokens, plumb_loss *loss, plumb_error *why)
{
    plumb_model_draw(model, trainer_seed(t), UINT64_MAX - 1 - (uint64_t)batch);
    return plumb_model_forward(model, t->weights, tokens, loss, why);
}

static plumb_status mean_loss(const trainer *t, plumb_model *model, uint8_t *tokens,
                              double *mean, plumb_error *why)
{
    plumb_status status = unseen_weights(t, model, why);

    *mean = 0;
    for (int64_t i = 0; i < t->settings.validation_batches && status == PLUMB_OK; i++) {
        plumb_loss loss;

        unseen_fill(t, i, tokens, NULL);
        status = unseen_forward(t, model, i, tokens, &loss, why);
        if (status == PLUMB_OK)
            *mean += loss.mean / (double)t->settings.validation_batches;
    }
    return status;
}

/* The run's own model, whose scale states are put back. */
static plumb_status own_loss(trainer *t, uint8_t *tokens, double *mean, plumb_error *why)
{
    const size_t bytes = t->sites.operands * sizeof *t->states;
    plumb_scale_state *saved = malloc(bytes);

    if (saved == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the validation");
    memcpy(saved, t->states, bytes);
    const plumb_status status = mean_loss(t, t->model, tokens, mean, why);

    memcpy(t->states, saved, bytes);
    free(saved);
    return status;
}

static plumb_status bf16_loss(const trainer *t, uint8_t *tokens, double *mean,
                              plumb_error *why)
{
    plumb_spec *specs = calloc(t->sites.operands, sizeof *specs);
    plumb_model *model = NULL;
    plumb_status status;

    if (specs == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the validation");
    trainer_bf16_specs(t, specs);
    status = plumb_model_create(&(plumb_model_setup){.shape = t->shape,
                                                     .sequences = t->micro_sequences,
                                                     .threads = t->threads,
                                                     .specs = specs,
                                                     .forward_only = true},
                                &model, why);
    if (status == PLUMB_OK)
        status = mean_loss(t, model, tokens, mean, why);
    plumb_model_free(&model);
    free(specs);
    return status;
}

static plumb_status both(trainer *t, uint8_t *tokens, plumb_error *why)
{
    double own, bf16;
    plumb_status status = own_loss(t, tokens, &own, why);

    plumb_model_free(&t->model);
    if (status == PLUMB_OK)
        status = bf16_loss(t, tokens, &bf16, why);
    if (status != PLUMB_OK)
        return status;
    return plumb_run_event(t->run, "validation",
                           json_pack("{s:I, s:I, s:o, s:o}", "step", (json_int_t)t->step,
                                     "batches", (json_int_t)t->settings.validation_batches,
                                     "loss", plumb_json_real(own), "loss_bf16",
                                     plumb_json_real(bf16)),
                           why);
}

plumb_status validate(trainer *t, plumb_error *why)
{
    if (t->settings.validation_batches == 0 || t->step < t->settings.steps ||
        !unseen_exists(t))
        return PLUMB_OK;
    uint8_t *tokens = calloc(t->micro_sequences, t->shape.context + 1);

    if (tokens == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the validation");
    const plumb_status status = both(t, tokens, why);

    free(tokens);
    return status;
}
