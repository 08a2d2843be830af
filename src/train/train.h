/* The inside of the trainer: what each file of this room gives the others.
 *
 * One struct trainer holds a whole run.  Memory is taken before step 1; the step allocates
 * nothing, except for the events it writes.
 */
#ifndef PLUMB_TRAIN_INSIDE_H
#define PLUMB_TRAIN_INSIDE_H

#include "plumb/model.h"
#include "plumb/reduce.h"
#include "plumb/train.h"

enum { MAX_RANKS = 64, FLIGHT_STEPS = 64 };

/* --- settings.c ---------------------------------------------------------------- */

typedef struct settings {
    char *name, *recipe, *out;
    plumb_strings data;
    int64_t layers, width, heads, ff, context;
    char *norm, *mlp;
    bool qk_norm, tied_head;
    int64_t sequences, micro_batches, ranks;
    int64_t restart_at, poison_at, poison_steps;
    double lr, beta1, beta2, eps, weight_decay, clip, final_lr_ratio;
    int64_t warmup, steps;
    int64_t seed, data_seed;
    char *delta, *update_from, *reduce_order, *reduce_headroom, *reduce_scale;
    plumb_strings from_codes;
    json_t *rules, *faults, *accumulators;
    int64_t sensors_every, spectra_every, shadow_every, checkpoint_every,
        validation_batches, threads;
} settings;

/* The words of settings that are one of a few, in the order of what they mean. */
#define DELTAS           "matched output exact" /* plumb_delta */
#define NORMS            "rms layer"
#define MLPS             "swiglu gelu"
#define UPDATE_FROM      "stored unrounded"
#define REDUCE_ORDERS    "sequential ring tree pairwise"
#define REDUCE_HEADROOMS "ranks sqrt none" /* plumb_reduce_headroom */
#define REDUCE_SCALES    "shared own"

/* Which of the choices a word is, from 0. */
int settings_choice(const char *word, const char *choices);

plumb_status settings_load(const char *path, const char *const *overrides, size_t count,
                           settings *s, plumb_error *why);
/* Every setting with its value, and back. */
json_t *settings_json(const settings *s);
plumb_status settings_from_json(const json_t *json, settings *s, plumb_error *why);
void settings_free(settings *s);
/* Hash of what the results depend on: settings but out, threads, sensors and checkpoints, and
 * the text.
 */
plumb_status settings_hash(const settings *s, const char *text, size_t size, char hash[17],
                           plumb_error *why);

/* --- corpus.c ------------------------------------------------------------------- */

typedef struct corpus {
    char *text;
    size_t size, train; /* bytes; the last 5 % are kept for validation */
    double entropy;     /* of single bytes of the training part, nats */
} corpus;

plumb_status corpus_load(const plumb_strings *data, size_t context, corpus *c,
                         plumb_error *why);

/* --- sites.c --------------------------------------------------------------------- */

typedef struct site {
    char name[PLUMB_SITE_NAME];
    plumb_class class_;
    plumb_site_kind kind; /* of a site of the model */
    int layer;            /* -1: none */
    const char *gemm, *operand;
    plumb_spec own, effective;
} site;

/* The sites of the model first (numbered as in plumb/model.h), then for each parameter m, v, grad, master. */
typedef struct site_table {
    plumb_shape shape;
    site *at;
    const char **names;
    plumb_spec *specs; /* effective, of the sites of the model */
    size_t count, operands;
    bool own_wire_scales;
    plumb_accumulator *accumulators; /* of each product, as the run file asks */
    bool *from_codes;                /* of each site of the model */
} site_table;

enum { STATE_M = 0, STATE_V, STATE_GRAD, STATE_MASTER, PARAMETER_SITES };

static inline size_t parameter_site(const site_table *t, size_t parameter, size_t which)
{
    return t->operands + PARAMETER_SITES * parameter + which;
}

/* Names and own specs: recipe, then the run file's rules. */
plumb_status sites_create(const plumb_shape *shape, const settings *s, site_table *t,
                          plumb_error *why);
/* Effective specs under the policy (which may be empty). */
plumb_status sites_resolve(site_table *t, const plumb_rules *policy, plumb_error *why);
/* True when the rule matches one of them. */
bool sites_match(const site_table *t, const plumb_rule *rule);
void sites_free(site_table *t);

/* products.c: accumulators of the products, and operands that are made from codes, by the run file */
plumb_status products_create(const settings *s, site_table *t, plumb_error *why);
/* Accumulators as they run, where not canonical: {"layer.0/mlp.up/fprop": "hopper-wgmma"}. */
json_t *products_effective(const site_table *t);

/* --- declare.c --- */

/* Rules that match no site, as [{"rule": number, "sites": [...]}]. */
json_t *sites_unmatched(const site_table *t, const plumb_rules *policy);
json_t *sites_effective(const site_table *t);
plumb_status sites_declare(const site_table *t, plumb_declaration *d, plumb_error *why);

/* --- faults.c -------------------------------------------------------------------- */

enum { FAULT_NAME = PLUMB_SITE_NAME + 32 };

/* Planted faults (train/faults.h); nothing else of the trainer knows what they do. */
typedef struct faults {
    struct fault *at;
    size_t count;
    size_t bytes;       /* of memory that they have taken */
    int64_t step;       /* the one that is running */
    size_t rank, micro; /* whose call of the model is running */
} faults;

struct trainer;

/* Of a trainer with sizes and sites.  Says in one sentence what cannot be planted. */
plumb_status faults_create(struct trainer *t, plumb_error *why);
void faults_free(struct trainer *t);
bool faults_hit(const struct trainer *t, size_t number, size_t site);
/* Before the first step of a run, which may be a resumed one; and between steps. */
void faults_start(struct trainer *t);
void faults_between(struct trainer *t);
/* A plumb_site_hook with a struct trainer as context. */
void faults_hook(void *context, size_t index, plumb_quantized *q, plumb_scale_state *state);
/* Before a call of the model, and with the gradient that it made. */
void faults_call(struct trainer *t, size_t rank, size_t micro);
void faults_gradient(struct trainer *t, float *gradient);
/* Around the all-reduce of one parameter. */
void faults_shares(struct trainer *t, size_t parameter);
void faults_sum(struct trainer *t, size_t parameter);
/* What goes into a checkpoint: tensor `index` of faults_kept; false behind the last. */
bool faults_kept(const struct trainer *t, size_t index, char name[FAULT_NAME],
                 unsigned char **data, size_t *bytes);

/* --- the trainer ------------------------------------------------------------------- */

/* What a step left behind, for the line of the log. */
typedef struct step_result {
    double loss;
    float loss_worst;
    double grad_norm, grad_norm_max;
    size_t grad_norm_max_parameter;
    float update_max;
    double lr;
    uint64_t batch_hash, state_hash;
} step_result;

struct sensors;

typedef struct trainer {
    settings settings;
    plumb_request request;
    const char *path;          /* of the run file, for sentences; NULL: none */
    const plumb_strings *text; /* where the text is now; NULL: where the settings say */
    plumb_shape shape;
    corpus corpus;
    plumb_rules policy;
    site_table sites;
    faults faults;
    plumb_train_watch *watch; /* NULL: nobody looks on */
    void *watch_context;
    char config_hash[17];

    plumb_parameter *parameters;
    size_t parameter_count, weight_count;
    size_t sequences, micro_sequences; /* of a step, of a call of the model */
    size_t micro_batches, ranks;
    int threads;

    plumb_model *model;
    plumb_arena arena;
    float *weights, *m, *v;
    float *share[MAX_RANKS]; /* the gradient of each rank; share[0] becomes the whole */
    float *micro;            /* of one micro-batch, when there are several */
    plumb_scale_state *states;
    uint8_t *tokens, *ordered; /* [sequences][context + 1] */
    size_t *order, *permutation;
    double *norms;        /* per parameter */
    unsigned char *codes; /* scratch: the codes of the largest parameter */
    float *scales;        /* and its scales */
    float *wire;          /* partial sums of an all-reduce with scales of its own: */
    size_t wire_stride;   /* so many elements each */
    double beta1_power, beta2_power; /* of the steps done */
    int64_t step;                    /* steps done */
    struct sensors *sensors;         /* NULL: off */
    bool timed;                      /* the model adds up its costs in times */
    plumb_times times;
    plumb_run *run;
    const char *run_dir;
} trainer;

/* batch.c: the batch of a step, its hash, and the order in which its parts are summed */
void batch_fill(trainer *t, int64_t step, uint64_t *hash);

/* gradient.c: loss and the averaged gradient, in share[0] */
plumb_status gradient_step(trainer *t, int64_t step, step_result *r, plumb_error *why);

/* wire.c: the all-reduce of one tensor, into share[0], not yet divided */
plumb_status wire_reduce(trainer *t, int64_t step, size_t parameter, plumb_error *why);
plumb_order wire_order(const settings *s);
bool wire_has_own_scales(const settings *s);
/* Partial sums that exist at one time. */
size_t wire_depth(const trainer *t);

/* validate.c: unseen text.  Weights quantised for it; batch number `batch` of micro_sequences, the
 * same for every run on this text; that batch through a model.  offsets (may be NULL): where each
 * sequence lies in the text.
 */
plumb_status unseen_weights(const trainer *t, plumb_model *model, plumb_error *why);
bool unseen_exists(const trainer *t);
void unseen_fill(const trainer *t, int64_t batch, uint8_t *tokens, size_t *offsets);
plumb_status unseen_forward(const trainer *t, plumb_model *model, int64_t batch,
                            const uint8_t *tokens, plumb_loss *loss, plumb_error *why);

/* event "validation", once, when the schedule has come to its end.  No step can
 * follow: the model is gone.
 */
plumb_status validate(trainer *t, plumb_error *why);

/* schedule.c */
double schedule_rate(const trainer *t, int64_t step);

/* adamw.c: clips, updates moments and weights */
plumb_status adamw_step(trainer *t, int64_t step, step_result *r, plumb_error *why);
/* The matrix as which a parameter's moment is stored. */
void adamw_shape(const plumb_spec *spec, const plumb_parameter *p, size_t *rows,
                 size_t *cols);
/* Stores m, v or the weights as their site's spec has them, codes and back, as after this step.  Counts
 * may be NULL.
 */
plumb_status adamw_store(trainer *t, size_t parameter, size_t which, int64_t step,
                         plumb_counts *counts, plumb_quantized *q, plumb_error *why);
/* Weights that are not fp32 begin as such. */
plumb_status adamw_begin(trainer *t, plumb_error *why);

/* state.c: scale states between steps, and the hash of everything that is carried over */
void state_update_scales(trainer *t);
uint64_t state_hash(const trainer *t);

/* checkpoint.c */
plumb_status checkpoint_save(trainer *t, plumb_error *why);
/* converted: array of the optimizer sites whose format changed. */
plumb_status checkpoint_load(trainer *t, const char *ref, json_t **converted,
                             plumb_error *why);

/* What state.json says, of a hash that fits it; json_decref it in any case. */
plumb_status checkpoint_note(const char *ref, json_t **note, plumb_error *why);

/* reopen.c: the trainer that wrote a checkpoint, with what that holds, to be looked at: no run is opened
 * and nothing written.  path: of the checkpoint, of a file in it, or of a run, of which it is the
 * last.  ref: the directory found.  faults_start comes next; trainer_free in any case.
 */
plumb_status trainer_reopen(trainer *t, const char *path, char ref[4096], plumb_error *why);

/* trainer.c: from settings and request to a trainer at step 0, in parts for who wants to know
 * what it would take: sizes; sites, text and hash; the need for memory (first pass); memory.
 */
plumb_status trainer_create(trainer *t, plumb_error *why);
void trainer_sizes(trainer *t);
plumb_status trainer_prepare(trainer *t, plumb_error *why); /* all but the memory */
plumb_status trainer_plan(trainer *t, plumb_error *why);    /* the last part of prepare */
plumb_status trainer_take(trainer *t, plumb_error *why);    /* memory and model */
plumb_model_setup trainer_model(trainer *t);
/* What the sites of the model run in when the same weights are looked at in bf16: operands of linears
 * in bf16, everything else as it is but with at least that many bits.
 */
void trainer_bf16_specs(const trainer *t, plumb_spec *specs);
/* The number under which call `call` of a step (0: its weights) draws random bits. */
uint64_t trainer_draw(const trainer *t, int64_t step, size_t call);
uint64_t trainer_seed(const trainer *t);
/* The bits that a site of a parameter draws in a step. */
plumb_draw site_draw(const trainer *t, size_t index, int64_t step);
/* Bytes of all arrays of a prepared trainer, its model's and its shadow's. */
plumb_status trainer_need(trainer *t, plumb_memory *memory, plumb_error *why);
/* One step, from its batch to its state hash.  Writes nothing but a shadow's event. */
plumb_status trainer_step(trainer *t, step_result *r, plumb_error *why);
void trainer_free(trainer *t);
/* footprint.c: processor time so far of each of its threads */
void trainer_clocks(const trainer *t, double seconds[PLUMB_MAX_THREADS]);

/* run.c: opens the directory that the request or the settings name; says what will run; a step
 * with its lines in the log
 */
plumb_status run_open(trainer *t, plumb_error *why);
plumb_status run_declare(trainer *t, plumb_error *why);
plumb_status run_step(trainer *t, step_result *r, plumb_error *why);

#endif
