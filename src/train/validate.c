/* The loss on text that was never trained on, at the end of the schedule: in the run's own
 * arithmetic and, with the same weights, in bf16.  Where the two differ, the weights have adapted
 * to a fault of the arithmetic, which no training loss shows.  Models and scale states of its own:
 * nothing of the run moves.
 */
#include "train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plumb/random.h"

/* The same sequences for every run on this text: seed 0 of a stream of their own. */
static void fill(const trainer *t, int64_t batch, uint8_t *tokens)
{
    const size_t length = t->shape.context + 1, kept = t->corpus.size - t->corpus.train;
    const uint64_t stream = plumb_random_stream("validation");

    for (size_t i = 0; i < t->micro_sequences; i++) {
        const uint64_t index = (uint64_t)batch * t->micro_sequences + i;
        const uint64_t offset = plumb_random_below(0, stream, index, kept - length + 1);

        memcpy(tokens + i * length, t->corpus.text + t->corpus.train + offset, length);
    }
}

static plumb_status mean_loss(const trainer *t, const plumb_model_setup *setup,
                              uint8_t *tokens, double *mean, plumb_error *why)
{
    plumb_model *model = NULL;
    plumb_status status = plumb_model_create(setup, &model, why);

    *mean = 0;
    if (status == PLUMB_OK)
        status = plumb_model_weights(model, t->weights, why);
    for (int64_t i = 0; i < t->settings.validation_batches && status == PLUMB_OK; i++) {
        plumb_loss loss;

        fill(t, i, tokens);
        status = plumb_model_forward(model, t->weights, tokens, &loss, why);
        if (status == PLUMB_OK)
            *mean += loss.mean / (double)t->settings.validation_batches;
    }
    plumb_model_free(&model);
    return status;
}

static plumb_status both(trainer *t, plumb_spec *specs, plumb_scale_state *states,
                         uint8_t *tokens, plumb_error *why)
{
    plumb_model_setup setup = {.shape = t->shape,
                               .sequences = t->micro_sequences,
                               .threads = t->threads,
                               .specs = t->sites.specs,
                               .states = states,
                               .hook = faults_hook,
                               .hook_context = &t->faults};
    double own, bf16;
    plumb_status status = mean_loss(t, &setup, tokens, &own, why);

    if (status != PLUMB_OK)
        return status;
    for (size_t i = 0; i < t->sites.operands; i++)
        specs[i] = (plumb_spec){.format = PLUMB_BF16};
    setup.specs = specs;
    setup.hook = NULL;
    status = mean_loss(t, &setup, tokens, &bf16, why);
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
    const size_t operands = t->sites.operands;

    const size_t kept = t->corpus.size - t->corpus.train;

    if (t->settings.validation_batches == 0 || t->step < t->settings.steps ||
        kept <= t->shape.context)
        return PLUMB_OK;
    plumb_spec *specs = calloc(operands, sizeof *specs);
    plumb_scale_state *states = calloc(operands, sizeof *states);
    uint8_t *tokens = calloc(t->micro_sequences, t->shape.context + 1);
    plumb_status status = PLUMB_NO_MEMORY;

    if (specs == NULL || states == NULL || tokens == NULL) {
        plumb_fail(why, status, "no memory for the validation");
    } else {
        memcpy(states, t->states, operands * sizeof *states);
        status = both(t, specs, states, tokens, why);
    }
    free(specs);
    free(states);
    free(tokens);
    return status;
}
