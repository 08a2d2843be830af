/* The variants of a shape (variants.c), called like what they stand for. */
#ifndef PLUMB_MODEL_VARIANTS_H
#define PLUMB_MODEL_VARIANTS_H

#include "model/model.h"

/* r[2 N]; the gradients as rmsnorm's. */
void layernorm_forward(plumb_model *m, size_t site, const float *x, const float *g,
                       float *r, float *y, float *copy);
void layernorm_backward(const plumb_model *m, const float *x, const float *g,
                        const float *r, const float *dy, bool add, float *dx, float *dg);

/* a, h and their gradients: [N, F] */
void gelu_forward(const plumb_model *m, const float *a, float *h);
void gelu_backward(const plumb_model *m, const float *a, const float *dh, float *d_a);

/* q and k of qkv[N, 3D] in place, before rotation; r[N, 2H].  Back: qkv after rotation, d_qkv before
 * its inverse.
 */
void qk_norm_forward(const plumb_model *m, float *qkv, float *r);
void qk_norm_backward(const plumb_model *m, const float *qkv, const float *r, float *d_qkv);

#endif
