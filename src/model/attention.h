/* Attention whose operands, or softmax, are in few bits (attention_cast.c), and what the layers share
 * of sums and elements that are rounded as they are computed (casts.c).
 */
#ifndef PLUMB_MODEL_ATTENTION_H
#define PLUMB_MODEL_ATTENTION_H

#include "model/model.h"
#include "model/sites.h"

plumb_status attention_plan(plumb_model *m, size_t index, layer *l, plumb_error *why);
plumb_status attention_cast_forward(plumb_model *m, layer *l, plumb_error *why);
plumb_status attention_cast_backward(plumb_model *m, layer *l, const float *d_o,
                                     float *d_qkv, plumb_error *why);

#endif
