/* reduce/step.h - the one step of plumb/reduce.h, for a piece of a tensor. */
#ifndef PLUMB_REDUCE_STEP_H
#define PLUMB_REDUCE_STEP_H

#include "plumb/reduce.h"

enum { PLUMB_STEP_PIECE = 512 };

/* How results are rounded, and where that is counted (NULL: nowhere). */
typedef struct plumb_step {
    const plumb_cast *cast; /* NULL: fp32 */
    plumb_counts *casts;
    plumb_sum_counts *sums;
} plumb_step;

/* The cast with its decode scale filled in; *fp32 says that there is nothing to cast.
 * Whatever plumb_cast_encode has against it comes back.
 */
plumb_status plumb_step_prepare(plumb_cast *cast, bool *fp32, plumb_error *why);

/* y = value of the code of x; y may be x.  number and first place the piece among all casts and
 * elements, for stochastic rounding.  Counts casts only.  n at most PLUMB_STEP_PIECE, here and below.
 */
void plumb_step_round(const plumb_step *step, uint64_t number, uint64_t first,
                      const float *x, size_t n, float *y);

/* The same for what goes into a sum. */
void plumb_step_leaf(const plumb_step *step, uint64_t number, uint64_t first,
                     const float *x, size_t n, float *y);

/* sum = round(decay * old + x); sum may be old.  updates: count the energy of updates. */
void plumb_step_add(const plumb_step *step, uint64_t number, uint64_t first, float decay,
                    const float *old, const float *x, size_t n, bool updates, float *sum);

/* PLUMB_BAD_SHAPE when n floats do not fit into memory. */
plumb_status plumb_step_size(size_t n, plumb_error *why);

#endif
