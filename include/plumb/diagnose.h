/* plumb/diagnose.h - plan, search, mechanism, proof: the experiment.
 *
 * plumb_diagnose asks a study for runs, one question after the other, and writes
 * STUDY/verdict.json.  It sees runs only through their directories, so it treats a trainer in
 * any language like the built-in one.  Because a study finds finished runs again, calling it a
 * second time goes on where the first was killed.  One thread; not reentrant for one study.
 */
#ifndef PLUMB_DIAGNOSE_H
#define PLUMB_DIAGNOSE_H

#include "plumb/study.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the user may choose.  Zero-initialised fields mean the defaults in brackets. */
typedef struct plumb_diagnose_settings {
    const char *const *command; /* argv of the trainer, NULL-terminated */
    const char *question;       /* how to name the run in the report [the command] */
    uint64_t seed, data_seed;   /* of the failing run */
    bool has_seed;              /* false: leave PLUMB_SEED to the trainer's own [1] */
    int64_t steps;              /* look so far for the failure [the schedule's length] */
    int64_t margin;        /* steps past the old failure that an arm must survive [50] */
    int seeds;             /* further seeds for the proof [1] */
    int64_t observe_every; /* sensors in the runs that are read for them [1] */
    double band;           /* allowed smoothed gap in nats; 0: measured */
    double lr_scale;       /* of the masking arm [0.3] */
    bool plan_only; /* look at the trainer, say what would be run and what it costs */
} plumb_diagnose_settings;

/* What the caller is told while it goes on (for a terminal).  Text pointers are valid during
 * the call.
 */
typedef enum plumb_progress_kind {
    PLUMB_PROGRESS_QUESTION, /* text: the question that the next runs answer */
    PLUMB_PROGRESS_RUNNING,  /* an arm: label, step, steps, seconds so far, seconds_left */
    PLUMB_PROGRESS_DONE,     /* an arm ended: label, text says how */
    PLUMB_PROGRESS_ANSWER,   /* text: what the runs answered, with its evidence level */
} plumb_progress_kind;

typedef struct plumb_progress {
    plumb_progress_kind kind;
    const char *text, *label;
    int64_t step, steps;
    double seconds,
        seconds_left; /* left of the whole diagnosis, estimated; -1: not known */
    bool reused;
} plumb_progress;

/* Return false to interrupt: the verdict so far is still written, with "cannot tell". */
typedef bool plumb_progress_fn(void *context, const plumb_progress *progress);

/* Runs the experiment and writes verdict.json (also when it ends early).  *verdict gets the same
 * document; json_decref it.  A status other than PLUMB_OK means that plumb could not work (disk,
 * memory); a trainer that cannot be run is a verdict.
 *
 * verdict.json (docs/verdict.md says what each word claims):
 *   plumb         build id
 *   question      string
 *   command       [argv]
 *   verdict       "numerics" | "not numerics" | "not reproducible" | "healthy" | "cannot tell"
 *   exit          0 | 1 | 2 | 3
 *   headline      one sentence, for the top of the screen
 *   class         "forward" ... | null;  classes: [..] when a pair was needed
 *   scope         "site" | "layer" | "class" | "pair" | "all classes" | null
 *   sites         [names cast back in the least set that heals]
 *   failure       null | {predicate, step, decided, value, threshold, text}
 *   mechanism     null | {name, text, level}
 *   first_moved   null | {site, statistic, step, lead, value, least, most, text}
 *   fix           null | {rules, text, held, of, seeds, past_step, returned_at, level}
 *   mask          null | {text, survived}            (the lower learning rate)
 *   band          null | {nats, text}
 *   statements    [{level: "seen"|"compared"|"caused", text}]
 *   runs          [{id, label, phase, text, seed, rules, start_step, last_step, stop_at,
 *                   end, predicate, fail_step, gap, seconds, horizons, reused, command}]
 *                 phase: "repeat" | "twin" | "band" | "class" | "layer" | "operand" |
 *                 "mechanism" | "proof" | "mask" | "check"; in the order in which they were asked
 *   cost          {horizon_steps, search, proof, seconds, planned}    (in horizons)
 *   limits        [sentences: what this verdict does not claim, what would tell more]
 *   next          a command line to paste
 */
plumb_status plumb_diagnose(plumb_study *study, const plumb_diagnose_settings *settings,
                            plumb_progress_fn *progress, void *context, json_t **verdict,
                            plumb_error *why);

/* --- what a trainer's runs can prove ------------------------------------------------ */

typedef struct plumb_contract_settings {
    const char *const *command; /* argv of the trainer, NULL-terminated */
    const char *prefix;         /* what stands before it in `next` ["plumb diagnose --"] */
    uint64_t seed;              /* of the runs; data and numbers [1] */
    double grace;               /* of the launcher, for sentences [10] */
} plumb_contract_settings;

/* Asks a trainer for up to twenty runs, none of them kept from before, all but one (which is stopped
 * after its first line) of three steps or a step more than its first checkpoint, and says of each row of
 * plumb_lacks (plumb/log.h) whether it holds.  What a trainer declares is believed nowhere: what can be
 * tried is tried.  What it does not declare is not tried, except the policy, the seed, the
 * checkpoints that it tells of and the hashes that it logs.  The runs come to an end as the study's
 * launcher says; a log that is flooded ends its run.
 *
 * *report (json_decref it) is
 *   plumb      build id
 *   command    [argv]
 *   exit       0 all that it offers holds (it may offer little), 1 something does not,
 *              2 no run logged its steps: nothing can be said, 3 it cannot be run as asked
 *   headline   one sentence, for the top of the screen
 *   finds      [what a diagnosis of this trainer can find]
 *   not        [{what, needs: the check that it fails for}]
 *   checks     [{check, what, state, text, cost, close}]; state: "does not hold" |
 *              "cannot tell" | "missing" | "holds", in this order; cost and close null where it holds
 *   runs       [{label, id, end, first_step, last_step, seconds, message}]
 *   seconds    of all runs
 *   next       a command line to paste
 * A status other than PLUMB_OK means that plumb could not work, or was interrupted.
 */
plumb_status plumb_contract_check(plumb_study *study,
                                  const plumb_contract_settings *settings,
                                  plumb_progress_fn *progress, void *context,
                                  json_t **report, plumb_error *why);

#ifdef __cplusplus
}
#endif
#endif
