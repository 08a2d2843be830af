/* What is watched while a run goes on; none of it moves a result.
 *
 * With PLUMB_NO_SENSORS every call is gone: a test compares the state hashes of such a build
 * with those of the real one.
 */
#ifndef PLUMB_TRAIN_SENSORS_H
#define PLUMB_TRAIN_SENSORS_H

#include "train/train.h"

#ifndef PLUMB_NO_SENSORS

/* every = 0: off, t->sensors stays NULL. */
plumb_status sensors_create(trainer *t, int64_t every, int64_t spectra_every,
                            int64_t shadow_every, plumb_error *why);
void sensors_free(trainer *t);
/* Their arrays, in each pass over the trainer's arena; their models; and what those need. */
void sensors_plan(trainer *t);
plumb_status sensors_take(trainer *t, plumb_error *why);
plumb_status sensors_need(const trainer *t, plumb_memory *memory, plumb_error *why);

void sensors_begin(trainer *t, int64_t step);
/* After the first micro-batch: the same in bf16, if this step has a shadow. */
plumb_status sensors_shadow(trainer *t, int64_t step, const uint8_t *tokens,
                            const float *gradient, plumb_error *why);
/* After each micro-batch: what the operand sites saw. */
void sensors_operands(trainer *t);
/* A parameter's site: counts of a cast with one scale. */
void sensors_parameter(trainer *t, size_t index, const plumb_counts *counts, float scale);
/* The exponents of what enters a parameter's site, before it is cast; sensors_tensor does so itself. */
void sensors_values(trainer *t, size_t index, const float *x, size_t n);
/* A site where nothing was cast (fp32): counts the tensor itself. */
void sensors_tensor(trainer *t, size_t index, const float *x, size_t n);
/* The same from a quantised matrix. */
void sensors_quantized(trainer *t, size_t index, const plumb_counts *counts,
                       const plumb_quantized *q);
/* What has to hold of them (train/invariants.h): the weights' codes; a gradient as backward made it; the
 * decode scale of an all-reduce and whether it kept within its range; the gradient that comes out;
 * a state before and after it is stored; the largest update; the state that a step leaves behind.
 */
void sensors_weights(trainer *t);
void sensors_part(trainer *t, size_t rank, const float *gradient);
void sensors_wire(trainer *t, size_t index, float d, bool usable);
void sensors_gradient(trainer *t);
void sensors_state(trainer *t, size_t parameter, size_t which, const float *x);
void sensors_stored(trainer *t, size_t parameter, size_t which, const plumb_quantized *q);
void sensors_update(trainer *t, size_t parameter, float most);
void sensors_settle(trainer *t);
/* Says what does not hold.  Writes the step if it is sampled, and keeps it in the flight recorder. */
plumb_status sensors_end(trainer *t, int64_t step, plumb_error *why);
/* The flight recorder: steps not written yet. */
plumb_status sensors_flush(trainer *t, plumb_error *why);

#else

#define sensors_create(t, every, spectra_every, shadow_every, why)                         \
    ((void)(t), (void)(every), (void)(spectra_every), (void)(shadow_every), (void)(why),   \
     PLUMB_OK)
#define sensors_free(t)              ((void)(t))
#define sensors_plan(t)              ((void)(t))
#define sensors_take(t, why)         ((void)(t), (void)(why), PLUMB_OK)
#define sensors_need(t, memory, why) ((void)(t), (void)(memory), (void)(why), PLUMB_OK)
#define sensors_begin(t, step)       ((void)(t), (void)(step))
#define sensors_shadow(t, step, tokens, gradient, why)                                     \
    ((void)(t), (void)(step), (void)(tokens), (void)(gradient), (void)(why), PLUMB_OK)
#define sensors_operands(t) ((void)(t))
#define sensors_parameter(t, index, counts, scale)                                         \
    ((void)(t), (void)(index), (void)(counts), (void)(scale))
#define sensors_values(t, index, x, n) ((void)(t), (void)(index), (void)(x), (void)(n))
#define sensors_tensor(t, index, x, n) ((void)(t), (void)(index), (void)(x), (void)(n))
#define sensors_quantized(t, index, counts, q)                                             \
    ((void)(t), (void)(index), (void)(counts), (void)(q))
#define sensors_weights(t)              ((void)(t))
#define sensors_part(t, rank, gradient) ((void)(t), (void)(rank), (void)(gradient))
#define sensors_wire(t, index, d, usable)                                                  \
    ((void)(t), (void)(index), (void)(d), (void)(usable))
#define sensors_gradient(t) ((void)(t))
#define sensors_state(t, parameter, which, x)                                              \
    ((void)(t), (void)(parameter), (void)(which), (void)(x))
#define sensors_stored(t, parameter, which, q)                                             \
    ((void)(t), (void)(parameter), (void)(which), (void)(q))
#define sensors_update(t, parameter, most) ((void)(t), (void)(parameter), (void)(most))
#define sensors_settle(t)                  ((void)(t))
#define sensors_end(t, step, why)          ((void)(t), (void)(step), (void)(why), PLUMB_OK)
#define sensors_flush(t, why)              ((void)(t), (void)(why), PLUMB_OK)

#endif
#endif
