/* The inside of planted faults: a kind is a row of a table, with functions that are called at the
 * places where a run can be reached (below); what a kind carries over from step to step lies in a keep
 * for each site and goes into checkpoints.
 *
 * A fault belongs to the path in few bits of its sites: where a policy has put a site in bf16 or more it
 * does nothing.
 */
#ifndef PLUMB_TRAIN_FAULTS_H
#define PLUMB_TRAIN_FAULTS_H

#include "train/train.h"

enum { FAULT_PARAMETERS = 2 };

/* Which sites a kind takes. */
typedef enum fault_reach {
    FAULT_OPERANDS = 0, /* of any product */
    FAULT_LINEARS,      /* operands of linears */
    FAULT_WEIGHTS,      /* w of linears */
    FAULT_TURNED,       /* second orientations: dgrad/w, wgrad/dy, wgrad/x */
    FAULT_DELTAS,       /* ds of attention, for the delta that it is made with */
    FAULT_SHARDS,       /* operands of linears that differ between ranks: x and dy */
    FAULT_GRADIENTS, /* wgrad/dy and wgrad/x, for the gradient they make, and collective/grad */
    FAULT_COLLECTIVE, /* collective/grad */
    FAULT_MOMENTS,    /* optimizer/m and optimizer/v */
    FAULT_REACHES
} fault_reach;

/* What bounds a parameter from above beside `most`. */
typedef enum fault_bound { FAULT_FREE = 0, FAULT_MICRO_BATCHES, FAULT_RANKS } fault_bound;

typedef struct fault_parameter {
    const char *name;
    double least, most;
    double fallback; /* NaN: must be given */
    bool whole;
    fault_bound bound; /* counted from 0: less than the run has of them */
    const char *meaning;
} fault_parameter;

typedef struct fault fault;

typedef struct fault_kind {
    const char *name;
    const char *acts;   /* what the plant does */
    const char *models; /* the public bug that it stands for */
    const char *source; /* where that is told */
    fault_reach reach;
    fault_parameter parameters[FAULT_PARAMETERS];
    size_t ranks;     /* that a run must have at least; 0: any */
    const char *word; /* kinds that change the spec of their sites: what it becomes */
    bool joint;       /* a site that shares the codes of one that is hit, is hit too */
    int lead;         /* so many steps before `from` the operand function is called, too */

    /* Bytes that a site carries over, zero at first; NULL: none. */
    size_t (*keep)(const trainer *t, size_t index);

    /* After a cast; state as in plumb_site_hook. */
    void (*operand)(fault *f, trainer *t, size_t index, plumb_quantized *q,
                    plumb_scale_state *state);
    /* Before a rank begins its first micro-batch. */
    void (*rank)(fault *f, trainer *t, size_t index);
    /* The gradient of a parameter, in one micro-batch. */
    void (*micro)(fault *f, trainer *t, const plumb_parameter *p, float *gradient);
    /* The shares of all ranks before the all-reduce, and their sum after it. */
    void (*shares)(fault *f, trainer *t, size_t index, const plumb_parameter *p);
    void (*sum)(fault *f, trainer *t, const plumb_parameter *p, float *sum);
    /* Before the first step of a run, resumed or not; and between steps: t->step steps are done. */
    void (*start)(fault *f, trainer *t, size_t index);
    void (*state)(fault *f, trainer *t, size_t index);
    void (*moment)(fault *f, trainer *t, const plumb_parameter *p, float *x);
} fault_kind;

/* What a site carries over. */
typedef struct fault_keep {
    unsigned char *data;
    size_t bytes;
} fault_keep;

struct fault {
    const fault_kind *kind;
    int64_t from;
    double value[FAULT_PARAMETERS];
    bool *hits;       /* per site */
    fault_keep *keep; /* per site */
    float *before;    /* per site of the model: pending amax before the running call */
    void **own;       /* per site of the model: codes of one that shares its own */
    float *scratch;   /* as many scales as an operand has at most */
};

typedef struct fault_family {
    const fault_kind *at;
    size_t count;
} fault_family;

/* The tables, one file each. */
extern const fault_family faults_of_scales, faults_of_operands, faults_of_copies,
    faults_of_casts, faults_of_gradients, faults_of_ranks, faults_of_moments;

/* Kind number `index`, in the order of the families; NULL behind the last. */
const fault_kind *fault_kind_at(size_t index);

/* faults_read.c: what a run file says of one fault */
typedef struct fault_request {
    const fault_kind *kind;
    plumb_rules sites; /* one rule whose globs are the sites */
    int64_t from;
    double value[FAULT_PARAMETERS];
} fault_request;

plumb_status fault_read(const trainer *t, const json_t *json, size_t number,
                        fault_request *r, plumb_error *why);
/* Where it stands in the run file, for sentences: "run.yaml: faults[2]". */
enum { FAULT_PLACE = 300 };
void fault_place(const trainer *t, size_t number, char place[FAULT_PLACE]);

/* --- what functions of kinds ask -------------------------------------------------- */

static inline bool fault_begun(const fault *f, const trainer *t)
{
    return t->faults.step >= f->from;
}

/* True where the site runs in few bits under the policy. */
bool fault_is_live(const trainer *t, size_t index);
/* The parameter that a site of FAULT_GRADIENTS, COLLECTIVE or MOMENTS belongs to. */
size_t fault_parameter_of(const trainer *t, size_t index);
/* Role of an operand of a linear. */
static inline size_t fault_role(size_t index)
{
    return index % PLUMB_ROLES;
}
/* Codes and scales of an operand of a linear as the policy has it. */
void fault_operand_size(const trainer *t, size_t index, size_t *code_bytes, size_t *scales);
/* Which cast of the site in this step: 0 for weights, else the micro-batch among all. */
size_t fault_call(const trainer *t, size_t index);
size_t fault_calls(const trainer *t, size_t index);
/* Gives a site that shares its codes memory of its own, with the same bytes. */
void fault_part(fault *f, plumb_quantized *q, size_t index);

#endif
