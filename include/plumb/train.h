/* plumb/train.h - the built-in trainer: a small decoder-only transformer, exact and
 * deterministic, that emulates FP8 recipes bit by bit on a CPU.
 *
 * It keeps the run contract like any other trainer and is a laboratory for faults and recipes,
 * not a stand-in for a large model.  Same seed, same bits: for any number of threads,
 * instruction set, with sensors on or off, and after stop and resume.
 *
 * Sites (N = layer from 0; MODULE = attn.qkv, attn.out, mlp.up, mlp.down; mlp.up is the fused
 * gate and up projection of SwiGLU; the head is quantised like any linear unless a rule says
 * otherwise):
 *   layer.N/MODULE/fprop/x  fprop/w  dgrad/dy  dgrad/w  wgrad/dy  wgrad/x      forward, backward
 *   head/fprop/x ... head/wgrad/x
 *   layer.N/attn/qk/q  qk/k  pv/p  pv/v                                        forward
 *   layer.N/attn/dp/do dp/v  dv/p  dv/do  dq/ds  dq/k  dk/ds  dk/q             backward
 *   layer.N/softmax/numerator  softmax/sum                                     softmax
 *   layer.N/attn.norm/norm/squares  layer.N/mlp.norm/...  final.norm/...       norm
 *   head/loss/sum                                                              loss
 *   layer.N/MODULE/optimizer/m  v  master     (and embedding, head, *.norm)    optimizer
 *   layer.N/MODULE/collective/grad            (and embedding, head, *.norm)    collective
 * Everything else is fp32: embedding, rotary embedding, residuals, gradients.  docs/run-files.md
 * says what each site rounds.
 */
#ifndef PLUMB_TRAIN_H
#define PLUMB_TRAIN_H

#include "plumb/file.h"
#include "plumb/log.h"
#include "plumb/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Told of each step after it was logged, for a terminal.  last: the step that the run goes to;
 * run_dir: where it is written.  Must not change anything of the run.
 */
typedef void plumb_train_watch(void *context, const plumb_metrics *metrics, int64_t last,
                               const char *run_dir);

/* Runs one training run described by the YAML file at path (NULL: defaults only) and `key=value`
 * overrides, under the request of the environment (plumb/log.h).  Without a request the run is
 * written to settings key `out`.  Returns the process exit status of the contract: 0 when it ended
 * as asked (also when the loss became non-finite: end.json says so), 1 on an error of its own, 3
 * when it cannot be done as asked or the input is bad; *why then has the sentence.  watch may be
 * NULL.
 */
int plumb_train_main(const char *path, const char *const *overrides, size_t override_count,
                     plumb_train_watch *watch, void *context, plumb_error *why);

/* --- what a run would take ------------------------------------------------------------ */

/* Bytes are exact: the first pass over every array that the run would have.  Seconds are an
 * estimate of the processor time of a step on this machine, from a calibration: some steps of
 * the trainer itself with one layer and few sequences, each different layer in turn.
 */
typedef struct plumb_footprint {
    char name[128], recipe[64];
    size_t parameters, tokens; /* of a step */
    int threads;
    plumb_memory memory;
    size_t bytes; /* the sum */
    bool timed;   /* else one layer alone is too large to be tried */
    plumb_seconds step;
    double calibration;     /* seconds that it took */
    size_t tried_tokens[2]; /* of a call of the model, in the calibration */
    int64_t measured_steps; /* 0: nothing below is known */
    size_t measured_bytes;  /* largest resident set of the process, less that before */
    plumb_seconds measured; /* of a step, the first left out if there are others */
} plumb_footprint;

/* For the run file at path (NULL: defaults) and overrides.  With measure > 0 that many steps are
 * then run in memory as a run would, and measured; nothing is written.  Takes no request from the
 * environment.
 */
plumb_status plumb_train_footprint(const char *path, const char *const *overrides,
                                   size_t override_count, int64_t measure,
                                   plumb_footprint *footprint, plumb_error *why);

/* --- the same weights in several arithmetics ------------------------------------------- */

enum {
    PLUMB_EVAL_ARMS = 8,
    PLUMB_EVAL_TOKENS = 20,
    PLUMB_EVAL_BATCHES = 100000,
    PLUMB_EVAL_FEWEST = 4, /* batches, for an interval */
};

/* Weights that are good in one arithmetic only have adapted to a fault of it.  More than this between the
 * losses is called a gap: healthy recipes of 8 bits and more were never more than 0.004 apart, weights
 * that had adapted at least 0.02 (docs/eval.md).
 */
#define PLUMB_EVAL_THRESHOLD 0.01

typedef struct plumb_eval_request {
    /* A checkpoint of the built-in trainer, a file in it, or a run, of which it is the last. */
    const char *path;

    /* Arithmetics, at least two.  "own": that of the run, with the scales that the checkpoint keeps and
     * the planted faults of the run file; "fp8": the same, of a run that has 8 bits or fewer; "bf16":
     * linears in bf16, everything else of own with at least that many bits; a recipe; or a spec
     * (plumb/quant.h) for the forward operands, the rest of own.  In all but own a delayed scale is
     * that of the tensor at hand, and products are added up in fp32.
     */
    const char *const *in;
    size_t in_count;
    int64_t batches;  /* of unseen text, each as large as a micro-batch of the run */
    size_t tokens;    /* the worst of them to be kept */
    bool next_step;   /* the batch of the step after the checkpoint, too */
    const char *data; /* where the text is now; NULL: where the run had it */
} plumb_eval_request;

/* Layer outputs and logits against those of the first arithmetic. */
typedef struct plumb_eval_distance {
    double
        relative; /* 2-norm of the difference over that of the first: rms over the batches */
    double most;  /* largest difference over the rms of the first, of all batches */
} plumb_eval_distance;

typedef struct plumb_eval_arm {
    char name[PLUMB_SPEC_TEXT];
    double loss; /* mean over all tokens */

    /* Loss less that of the first arithmetic on the same batch: mean over the batches and its 95 %
     * interval (Student's t).  Without bounds (infinite) for fewer than PLUMB_EVAL_FEWEST.
     */
    double gap, low, high;
    double next_loss; /* of the next step's batch */
    plumb_eval_distance
        at[PLUMB_MAX_LAYERS + 1]; /* output of each layer; then the logits */
} plumb_eval_arm;

/* A token that two arithmetics see most differently. */
typedef struct plumb_eval_token {
    size_t position;  /* byte of the text, from 0 */
    char context[32]; /* what stands before it; '.' for what cannot be printed */
    char next;        /* the token itself, likewise */
    float loss[PLUMB_EVAL_ARMS];
} plumb_eval_token;

typedef enum plumb_eval_verdict {
    PLUMB_EVAL_SAME = 0, /* all intervals lie within the threshold */
    PLUMB_EVAL_GAP,      /* one lies outside */
    PLUMB_EVAL_UNCLEAR,  /* neither, or a loss is not finite */
} plumb_eval_verdict;

typedef struct plumb_eval {
    char checkpoint[4096], name[128], recipe[64];
    char faults
        [400]; /* of the run file, with the step from which on; "" if there are none */
    char format[16]; /* of the forward operands in own: the fewest bits */
    int64_t step, steps;
    size_t layers, parameters, policy_rules, batch_tokens;
    int64_t batches;
    bool next_step;
    plumb_eval_arm arm[PLUMB_EVAL_ARMS];
    size_t arms;
    plumb_eval_token token[PLUMB_EVAL_TOKENS]; /* the worst first */
    size_t tokens;
    plumb_eval_verdict verdict;
    size_t deciding; /* the arm that the verdict comes from */
} plumb_eval;

/* Reads the checkpoint and its text and writes nothing.  A checkpoint that is torn, foreign or of
 * another text is PLUMB_BAD_INPUT or PLUMB_NOT_FOUND with a sentence.
 */
plumb_status plumb_train_eval(const plumb_eval_request *request, plumb_eval *eval,
                              plumb_error *why);

/* The settings of a run file, for `plumb train --help` and the docs; free(). */
char *plumb_train_describe(void);

/* The same as a table (plumb/file.h): keys, ranges, defaults. */
const plumb_setting *plumb_train_settings(size_t *count);

/* The default text, in memory: the glosses of WordNet 3.0 (the part after '|' of each line of
 * DIRECTORY/data.{noun,verb,adj,adv}, one a line).  PLUMB_NOT_FOUND says which package to install.
 * free() *text.
 */
plumb_status plumb_text_wordnet(const char *directory, char **text, size_t *size,
                                plumb_error *why);

#ifdef __cplusplus
}
#endif
#endif
