/* What must hold in any run, whatever its recipe and its data: looked at in every step while sensors
 * are on, and said in events `invariant` (docs/run-contract.md, section 6).
 *
 * Each bound is derived where it is used, from formats and specs alone; nothing is measured on runs.
 * Where a recipe promises nothing (values past the range of a static scale, say) nothing is looked
 * at.  Elements of tensors are looked at by sample: others in each step, drawn from bits of their own.
 */
#ifndef PLUMB_TRAIN_INVARIANTS_H
#define PLUMB_TRAIN_INVARIANTS_H

#include "train/train.h"

/* In the order of the table in invariants.c. */
typedef enum invariant {
    INVARIANT_GRADIENT = 0, /* the gradient is the mean of what backward made */
    INVARIANT_STORED,       /* moments and weights are stored as they were computed */
    INVARIANT_POSITIVE,     /* second moments */
    INVARIANT_STEP,         /* of Adam */
    INVARIANT_SCALE,        /* what the rule of the site makes of what was seen */
    INVARIANT_DECODED,      /* the largest value comes back as such */
    INVARIANT_WEIGHT,       /* the codes of a weight are that weight's */
    INVARIANTS
} invariant;

enum {
    LOOKS = 64,     /* elements of each parameter in a step; a multiple of 4 */
    COMPLAINTS = 16 /* of each invariant in a step */
};

typedef struct complaint {
    invariant which;
    size_t site;
    double value, bound;
} complaint;

/* How the all-reduce of a parameter rounded. */
typedef struct wire_cast {
    float d;     /* the largest decode scale */
    bool usable; /* no value was past its range */
} wire_cast;

/* A value before it is stored, and how far from it the stored one may be; negative: no promise. */
typedef struct stored {
    float x;
    double allowed;
} stored;

typedef struct invariants {
    size_t *element;     /* [parameter][LOOKS]: places among all weights */
    double *part, *size; /* [rank][parameter][LOOKS]: sums of gradients, of magnitudes */
    wire_cast *wire;     /* [parameter] */
    stored *kept;        /* [PARAMETER_SITES][parameter][LOOKS] */
    plumb_scale_state *twin; /* per site of the model: the state of delayed scaling as it
                                follows from what was seen */
    bool begun;
    double series; /* of the bound of Adam's step: sum of (beta1^2 / beta2)^k, k < step */
    complaint complaints[INVARIANTS * COMPLAINTS];
    size_t count, of[INVARIANTS];
} invariants;

void invariants_plan(trainer *t, invariants *v);
void invariants_begin(trainer *t, invariants *v, int64_t step);
/* A gradient of `rank` as backward made it. */
void invariants_part(const trainer *t, invariants *v, size_t rank, const float *gradient);
/* The codes of all weights, once they are made. */
void invariants_weights(const trainer *t, invariants *v);
/* The statistics of one cast of a site. */
void invariants_sample(const trainer *t, invariants *v, size_t index,
                       const plumb_sample *sample);
void invariants_wire(const trainer *t, invariants *v, size_t index, float d, bool usable);
/* The gradient that the optimizer gets. */
void invariants_gradient(const trainer *t, invariants *v);
/* A state before it is stored, and its codes after. */
void invariants_state(const trainer *t, invariants *v, size_t parameter, size_t which,
                      const float *x);
void invariants_stored(const trainer *t, invariants *v, size_t parameter, size_t which,
                       const plumb_quantized *q);
/* Bits of the largest |update| of a parameter. */
void invariants_update(const trainer *t, invariants *v, size_t parameter, float most);
/* When the step is over: the state that the next one finds. */
void invariants_settle(const trainer *t, invariants *v);
plumb_status invariants_say(trainer *t, const invariants *v, int64_t step,
                            plumb_error *why);

/* --- between the files of this -------------------------------------------------------- */

void invariant_broken(invariants *v, invariant which, size_t index, double value,
                      double bound);

/* A cast and back moves x by no more than this: half a step of the format for its magnitude, or of
 * its subnormals (a whole step, unless to nearest), and the roundings of scaling, each 2^-24 of x.
 * Infinite where |x| is past the range.
 */
double invariant_cast_error(const plumb_spec *spec, double d, double x);

/* What may be lost in fp32 on the way, of a value: a few of its roundings. */
#define INVARIANT_SLACK 0x1p-20

#endif
