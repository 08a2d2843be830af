/* Faults of the cast itself: from a step on a site is quantised by another spec than the run declares,
 * in a word that needs no other memory: how scales are rounded, what their floor is, what becomes of
 * values that lie between two codes or past the last.
 *
 * Where the word makes no sense, as mx-floor without MX scales, nothing happens.  Sites that share codes
 * are cast once, so the fault of one is that of both.
 */
#include "train/faults.h"

#include <math.h>

static void respec(fault *f, trainer *t, size_t index)
{
    const size_t owner = plumb_site_owner(&t->shape, t->sites.specs, index);
    const plumb_spec own = t->sites.specs[owner];
    const char *format = plumb_format_get(own.format)->name;
    char text[PLUMB_SPEC_TEXT];
    plumb_spec spec;

    if (t->step + 1 < f->from)
        return;
    plumb_print(text, sizeof text, "%s:%s", format, f->kind->word);
    if (plumb_spec_parse(text, &own, &spec, NULL) != PLUMB_OK)
        return;
    if (f->kind->parameters[0].name != NULL) /* scale-floor */
        spec.amax_floor = (float)f->value[0];
    /* Both readers, lest they be taken apart. */
    for (size_t i = t->sites.operands; i-- > owner;) {
        if (plumb_site_owner(&t->shape, t->sites.specs, i) != owner)
            continue;
        t->sites.specs[i] = spec;
        plumb_model_respec(t->model, i, &spec);
    }
}

/* What softmax's backward takes off each row comes from the output that was kept, not from the
 * probabilities and gradients of this backward pass.
 */
static void stale_delta(fault *f, trainer *t, size_t index)
{
    if (t->step + 1 >= f->from)
        plumb_model_delta(t->model, (size_t)t->sites.at[index].layer, PLUMB_DELTA_OUTPUT);
}

static const fault_kind kinds[] = {
    {.name = "scale-floor",
     .acts = "every amax counts as at least `least`, so that small values are flushed",
     .models = "an epsilon that is larger than the tensors of another recipe",
     .source = "https://github.com/ROCm/TransformerEngine/pull/737",
     .reach = FAULT_OPERANDS,
     .parameters = {{"least", 1e-30, 1e30, NAN, false, FAULT_FREE, "amax"}},
     .word = "floor=1",
     .start = respec,
     .state = respec},
    {.name = "floor-rounded-scale",
     .acts = "E8M0 scales are rounded down, so that the largest values of blocks "
             "saturate",
     .models = "FLOOR where RCEIL is meant",
     .source = "https://github.com/pytorch/ao/issues/3569",
     .reach = FAULT_OPERANDS,
     .word = "mx-floor",
     .start = respec,
     .state = respec},
    {.name = "unsaturated-cast",
     .acts = "values past the largest become infinity or NaN",
     .models = "a cast without saturation",
     .source = "https://github.com/pytorch/ao/pull/4364",
     .reach = FAULT_OPERANDS,
     .word = "overflow",
     .start = respec,
     .state = respec},
    {.name = "truncating-cast",
     .acts = "values between two codes are rounded towards zero",
     .models = "an encoder that cuts the fraction off",
     .source = "https://github.com/tenstorrent/tt-metal/pull/51975",
     .reach = FAULT_OPERANDS,
     .word = "toward-zero",
     .start = respec,
     .state = respec},
    {.name = "stale-delta",
     .acts =
         "the gradient of softmax takes its delta from the output that was kept, which the "
         "quantised operands of the backward pass do not add up to",
     .models = "FlashAttention's delta in attention with FP8 operands",
     .source = "https://arxiv.org/abs/2609.37852",
     .reach = FAULT_DELTAS,
     .start = stale_delta,
     .state = stale_delta},
};

const fault_family faults_of_casts = {kinds, sizeof kinds / sizeof *kinds};
