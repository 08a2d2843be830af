/* Faults on the gradient of a parameter as one micro-batch makes it, before it is added to that of its
 * rank.
 *
 * They belong to the weight gradient's product, or to the buffer in few bits that it is added to: one of
 * the sites of the parameter that the fault names has to be in few bits.
 */
#include "train/faults.h"

#include <math.h>

static void multiply(const plumb_parameter *p, float *gradient, float by)
{
    for (size_t i = 0; i < p->rows * p->cols; i++)
        gradient[i] *= by;
}

static void dropped(fault *f, trainer *t, const plumb_parameter *p, float *gradient)
{
    for (size_t i = 0; i < p->rows * p->cols && (double)t->faults.micro == f->value[0]; i++)
        gradient[i] = 0;
}

static void doubled(fault *f, trainer *t, const plumb_parameter *p, float *gradient)
{
    if ((double)t->faults.micro == f->value[0])
        multiply(p, gradient, 2);
}

static void factor(fault *f, trainer *t, const plumb_parameter *p, float *gradient)
{
    (void)t;
    multiply(p, gradient, (float)f->value[0]);
}

static const fault_kind kinds[] = {
    {.name = "dropped-micro-batch",
     .acts = "each rank's micro-batch number `micro_batch` adds nothing to the "
             "gradient",
     .models = "a flag gates the addition of micro-batches",
     .source = "https://github.com/AMD-AGI/Primus/pull/1046",
     .reach = FAULT_GRADIENTS,
     .parameters = {{"micro_batch", 0, 4095, 0, true, FAULT_MICRO_BATCHES, "from 0"}},
     .micro = dropped},
    {.name = "doubled-micro-batch",
     .acts = "each rank's micro-batch number `micro_batch` is added twice",
     .models = "accumulation that is fused into the product and done again",
     .source = "https://github.com/NVIDIA/TransformerEngine/pull/2371",
     .reach = FAULT_GRADIENTS,
     .parameters = {{"micro_batch", 0, 4095, 0, true, FAULT_MICRO_BATCHES, "from 0"}},
     .micro = doubled},
    {.name = "gradient-factor",
     .acts = "the gradient is multiplied by `factor`",
     .models = "the output scale of a weight gradient is left out or applied twice",
     .source = "https://github.com/pytorch/pytorch/pull/190979",
     .reach = FAULT_GRADIENTS,
     .parameters = {{"factor", -0x1p64, 0x1p64, NAN, false, FAULT_FREE, "what by"}},
     .micro = factor},
};

const fault_family faults_of_gradients = {kinds, sizeof kinds / sizeof *kinds};
