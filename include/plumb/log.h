/* plumb/log.h - the run directory: the run contract (docs/run-contract.md) in C.
 *
 * A trainer reads a request and writes a run; plumb reads it back.  Nothing else passes
 * between them.  A plumb_run (writer) belongs to one thread; readers are independent.
 */
#ifndef PLUMB_LOG_H
#define PLUMB_LOG_H

#include <jansson.h>

#include "plumb/observe.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PLUMB_CONTRACT_VERSION = 1 };

/* --- request ----------------------------------------------------------------- */

typedef struct plumb_span {
    int64_t first, last; /* steps, both included */
} plumb_span;

/* What one run is asked to do.  Pointers are owned; free with plumb_request_free. */
typedef struct plumb_request {
    char *run_dir; /* PLUMB_RUN_DIR; NULL: not run by plumb */
    uint64_t seed, data_seed;
    bool has_seed, has_data_seed; /* false: the trainer's own */
    bool has_micro_order;
    uint64_t micro_order;
    int64_t stop_at; /* -1: unset; 0: write run.json and exit */
    char *policy;    /* absolute path of the rules, or NULL */
    char *start;     /* ref of a checkpoint, or NULL */
    int64_t *checkpoint_at;
    size_t checkpoint_count;
    double lr_scale, warmup_scale, clip_scale; /* 1: unset */
    plumb_span skip;                           /* first = 0: unset */
    int64_t observe_every;                     /* 0: sensors off */
} plumb_request;

void plumb_request_init(plumb_request *request); /* everything unset */
void plumb_request_free(plumb_request *request);

/* Reads RUN_DIR/request.json when PLUMB_RUN_DIR is set (the file wins over the other
 * variables, since launchers lose environments), else the environment alone.  With no
 * PLUMB_* at all the request stays unset.  PLUMB_BAD_INPUT names variable and value.
 */
plumb_status plumb_request_read(plumb_request *request, plumb_error *why);

/* Writes run_dir/request.json. */
plumb_status plumb_request_write(const plumb_request *request, plumb_error *why);

/* The values that are set, as environment strings "NAME=value" (NULL-terminated) for a child.
 * Whoever starts the child drops the other variables of the request from its environment.
 * NULL when out of memory.
 */
char **plumb_request_environment(const plumb_request *request);
void plumb_environment_free(char **environment);

/* Replaces {run_dir} {seed} {data_seed} {stop_at} {policy} {start} in one argument with
 * the request's values (unset: empty).  Other braces stay.  Fresh string; free().
 */
char *plumb_request_substitute(const plumb_request *request, const char *argument);

/* --- policy file --------------------------------------------------------------- */

/* Rules read from JSON.  rules stay valid until free. */
typedef struct plumb_rules {
    plumb_rule *at;
    size_t count;
} plumb_rules;

/* rules is a JSON array of {"sites": glob | [glob...], "use": name, "raise": bool}; what
 * names it in messages.  At most 10,000 rules of 10,000 globs of 256 bytes.
 */
plumb_status plumb_rules_from_json(const json_t *json, const char *what, plumb_rules *rules,
                                   plumb_error *why);
plumb_status plumb_rules_load(const char *path, plumb_rules *rules, plumb_error *why);
json_t *plumb_rules_to_json(const plumb_rules *rules);
void plumb_rules_free(plumb_rules *rules);

/* --- run.json ------------------------------------------------------------------- */

/* A site as a run declares it.  diagnose groups by these fields and never parses names. */
typedef struct plumb_declared_site {
    char *name;
    plumb_class class_;
    int64_t layer;              /* -1: none */
    char *gemm, *operand, *own; /* gemm and operand may be NULL */
    char *shares_storage_with;  /* a site's name, or NULL */
    char **uses;
    size_t use_count;
} plumb_declared_site;

typedef struct plumb_declaration {
    int contract;
    char *trainer, *version, *config_hash;
    int64_t world_size, schedule_steps; /* schedule_steps 0: unknown */
    char **features;                    /* of the contract's closed list */
    size_t feature_count;
    plumb_declared_site *sites;
    size_t site_count;
    double unigram_entropy; /* nats per token of the training data; NaN: unknown */
    int64_t warmup_steps;   /* 0: unknown */
} plumb_declaration;

/* Reads run_dir/run.json; PLUMB_NOT_FOUND when there is none.  At most 100,000 sites; names of
 * at most 127 printable bytes; every site needs a name and a class.  What is left out gets a
 * default: trainer, version, config_hash "", world_size 1, layer -1, own "unknown", uses
 * {"bf16"}, no features, no sites.  A newer contract version is PLUMB_UNSUPPORTED.
 */
plumb_status plumb_declaration_read(const char *run_dir, plumb_declaration *declaration,
                                    plumb_error *why);
bool plumb_declaration_has(const plumb_declaration *declaration, const char *feature);
void plumb_declaration_free(plumb_declaration *declaration);

/* --- less is enough --------------------------------------------------------------- */

/* What a trainer may lack, what that costs in the verdict and how to close it: the table of section
 * 11 of docs/run-contract.md, in its order.
 */
typedef enum plumb_lack {
    PLUMB_LACK_STEPS = 0,
    PLUMB_LACK_DECLARATION,
    PLUMB_LACK_SITES,
    PLUMB_LACK_PLACES,
    PLUMB_LACK_USES,
    PLUMB_LACK_CONFIG_HASH,
    PLUMB_LACK_GRAD_NORM,
    PLUMB_LACK_STATE_HASH,
    PLUMB_LACK_BATCH_HASH,
    PLUMB_LACK_REPEAT,
    PLUMB_LACK_SEED,
    PLUMB_LACK_DATA_SEED,
    PLUMB_LACK_POLICY,
    PLUMB_LACK_PARTS,
    PLUMB_LACK_REFUSAL,
    PLUMB_LACK_CHECKPOINT,
    PLUMB_LACK_EXACT_RESUME,
    PLUMB_LACK_MICRO_ORDER,
    PLUMB_LACK_SCALES,
    PLUMB_LACK_SKIP,
    PLUMB_LACK_SAMPLES,
    PLUMB_LACK_END,
    PLUMB_LACK_STOP,
    PLUMB_LACK_FORWARD,
    PLUMB_LACK_COUNT
} plumb_lack;

typedef struct plumb_lack_row {
    const char *name;  /* one word, for tables and JSON */
    const char *what;  /* as the table of the page names it */
    const char *cost;  /* what the verdict loses */
    const char *close; /* what the trainer has to do */
} plumb_lack_row;

extern const plumb_lack_row plumb_lacks[PLUMB_LACK_COUNT];

/* --- writing a run ---------------------------------------------------------------- */

typedef struct plumb_run plumb_run;

/* One line of metrics.jsonl.  NaN in an optional real, 0 in has_*: the key is left out. */
typedef struct plumb_metrics {
    int64_t step;
    double loss, grad_norm;
    bool has_grad_norm;
    double grad_norm_max; /* optional from here on */
    char grad_norm_max_tensor[PLUMB_SITE_NAME];
    double loss_max, update_max, lr;
    bool has_details; /* the four above are present (they may be non-finite) */
    uint64_t batch_hash, state_hash;
    bool has_batch_hash, has_state_hash;
    int64_t tokens;
    double seconds;
    bool skipped;
} plumb_metrics;

/* Creates the files of a run in run_dir (which exists).  Refuses a directory that already
 * holds a run.json, metrics.jsonl or events.jsonl (PLUMB_BUSY).
 */
plumb_status plumb_run_create(const char *run_dir, plumb_run **run, plumb_error *why);

/* run.json, written under another name and renamed.  Before step 1. */
plumb_status plumb_run_declare(plumb_run *run, const plumb_declaration *declaration,
                               const json_t *extra, plumb_error *why);

/* Appends a line and flushes it. */
plumb_status plumb_run_step(plumb_run *run, const plumb_metrics *metrics, plumb_error *why);

/* Appends {"event": name, ...fields} to events.jsonl; steals the reference to fields (an
 * object, or NULL).
 */
plumb_status plumb_run_event(plumb_run *run, const char *name, json_t *fields,
                             plumb_error *why);

/* Site statistics, sites-rank00000.pls.  site_names as in the declaration's order. */
plumb_status plumb_run_samples(plumb_run *run, const char *const *site_names,
                               size_t site_count, const plumb_sample *samples, size_t count,
                               plumb_error *why);

/* How the values lay at a few steps, spectra-rank00000.pls. */
plumb_status plumb_run_histograms(plumb_run *run, const char *const *site_names,
                                  size_t site_count, const plumb_histogram *histograms,
                                  size_t count, plumb_error *why);

/* True once RUN_DIR/stop exists or plumb_run_interrupt was called (from a signal handler). */
bool plumb_run_should_stop(const plumb_run *run);
void plumb_run_interrupt(void);

/* end.json, then closes and frees.  reason: reached, nonfinite, stopped, error. */
plumb_status plumb_run_end(plumb_run **run, const char *reason, int64_t step,
                           plumb_error *why);

/* --- reading a run, also one that is being written ---------------------------------- */

/* All metrics lines so far.  Grows by plumb_history_refresh. */
typedef struct plumb_history {
    plumb_metrics *at;
    size_t count;
    int64_t offset;     /* bytes of the file consumed */
    int64_t lines;      /* lines consumed */
    bool skipping;      /* offset is inside a line that is too long */
    size_t bad_lines;   /* lines that were not a JSON object with step and loss */
    char bad_line[128]; /* the first of them, printable, cut */
    int64_t bad_line_number;
    size_t backward_steps; /* lines whose step did not increase (a restart): ignored rows */
} plumb_history;

/* Reads what was appended since the last call; a line without its newline is left for the
 * next call unless final.  Lines over 1 MB count as bad.  An absent file is an empty history,
 * empty lines are nothing.  A file that has become shorter is read again from its start; rows
 * that are already known then count as backward steps.  Zero *history before the first call.
 * Never fails on content, only on I/O, memory, more than 4,000,000 rows, or where
 * metrics.jsonl is no regular file.
 *
 * has_details is set only where all four values were there; a value that was not is NaN.
 * Hashes may be "0x" with hexadecimal digits, whole numbers, or any other text (then the XXH3
 * of the text): they are only ever compared.
 */
plumb_status plumb_history_refresh(const char *run_dir, plumb_history *history, bool final,
                                   plumb_error *why);
void plumb_history_free(plumb_history *history);

/* events.jsonl as a JSON array of objects, each with a string "event"; malformed lines are
 * skipped and counted (bad_lines may be NULL).  An absent file has no events.  json_decref it.
 */
plumb_status plumb_events_read(const char *run_dir, json_t **events, size_t *bad_lines,
                               plumb_error *why);

/* Files of ranks that are read: those of rank 0 and of the lowest others. */
enum { PLUMB_MOST_RANKS = 4096 };

/* The events of this name of every rank (events.jsonl, then events-rank00001.jsonl and so on), each with
 * an integer "rank".  Malformed lines and all other events are passed over.  json_decref it.
 */
plumb_status plumb_events_read_ranks(const char *run_dir, const char *name, json_t **events,
                                     plumb_error *why);

/* end.json.  PLUMB_NOT_FOUND if absent, PLUMB_BAD_INPUT if its reason is none of the five. */
plumb_status plumb_run_end_read(const char *run_dir, char reason[16], int64_t *step,
                                plumb_error *why);

/* Site statistics of one run, of all its ranks: rows of the same site and step are joined
 * (plumb_sample_join: scale and maxima the largest, headroom the least, counts added).  A site that
 * several ranks have by the same name is one.  A torn last chunk is ignored and said in torn.
 */
typedef struct plumb_samples {
    char **site_names;
    size_t site_count;
    plumb_sample *at; /* ordered by step, then site */
    size_t count;
    bool torn;
} plumb_samples;

/* PLUMB_NOT_FOUND where rank 0 has no file. */
plumb_status plumb_samples_read(const char *run_dir, plumb_samples *samples,
                                plumb_error *why);
void plumb_samples_free(plumb_samples *samples);

/* Exponent histograms of a few steps, of rank 0: spectra-rank00000.pls. */
typedef struct plumb_histograms {
    char **site_names;
    size_t site_count;
    plumb_histogram *at; /* ordered by step, then site */
    size_t count;
    bool torn;
} plumb_histograms;

plumb_status plumb_histograms_read(const char *run_dir, plumb_histograms *histograms,
                                   plumb_error *why);
void plumb_histograms_free(plumb_histograms *histograms);

#ifdef __cplusplus
}
#endif
#endif
