/* The shadow: the first micro-batch of a step once more in bf16 arithmetic, on the same weights. */
#ifndef PLUMB_TRAIN_SHADOW_H
#define PLUMB_TRAIN_SHADOW_H

#include "train/train.h"

typedef struct shadow {
    int64_t every; /* 0: never */
    plumb_model *model;
    float *gradient;
} shadow;

/* Its gradient, in each pass over the trainer's arena; its model, if there is a shadow; what that
 * model would need.
 */
void shadow_plan(trainer *t, shadow *s);
plumb_status shadow_take(const trainer *t, shadow *s, plumb_error *why);
plumb_status shadow_need(const trainer *t, shadow *s, plumb_memory *memory,
                         plumb_error *why);
void shadow_free(shadow *s);
/* Event "shadow" if the step has one.  The model still holds that micro-batch. */
plumb_status shadow_compare(trainer *t, shadow *s, int64_t step, const uint8_t *tokens,
                            const float *gradient, plumb_error *why);

#endif
