/* The numbers of the sites that are no operands of linears. */
#ifndef PLUMB_MODEL_SITES_H
#define PLUMB_MODEL_SITES_H

#include "plumb/model.h"

enum { SOFTMAX_NUMERATOR = 0, SOFTMAX_SUM, SOFTMAX_SITES };
enum { NORMS_OF_LAYER = 2 };

size_t site_attention(const plumb_shape *shape, size_t layer, size_t role);
size_t site_softmax(const plumb_shape *shape, size_t layer, size_t which);
/* Norms in order: attn.norm and mlp.norm of each layer, final.norm. */
size_t site_norm(const plumb_shape *shape, size_t norm);
size_t site_loss(const plumb_shape *shape);
/* The site that reads the tensor of an operand of a linear first. */
size_t site_first(size_t site);

#endif
