/* plumb/study.h - launch runs, watch them, remember them; failure predicates and bands.
 *
 * A study is a directory:
 *   STUDY/lock                 who works here: host, pid, start time of the process
 *   STUDY/index.sqlite         a table `runs` (id, label, end, predicate, fail_step, first_step,
 *                              last_step, seconds, message); rebuilt from the directories when
 *                              absent, damaged or at odds with them
 *   STUDY/runs/ID/run/         the run directory that the trainer writes (PLUMB_RUN_DIR)
 *   STUDY/runs/ID/stdout, stderr
 *   STUDY/runs/ID/policy.json  the rules of this run
 *   STUDY/runs/ID/pid          the trainer's process, written before it executes
 *   STUDY/runs/ID/outcome.json written last, atomically: its presence means finished
 *   STUDY/verdict.json, STUDY/report.html
 *
 * ID is the hash (XXH3-128) of what defines the run: command, the trainer's config hash,
 * seeds, micro order, policy, start, stop, checkpoints, scales, skip, sensors, repeat number.
 * The same request therefore finds a finished run instead of launching another one, which is
 * also how a study that was killed goes on.  A run that came to nothing (refused, silent, died with
 * another status than 0) and shows no failure is launched again.  To run something again: another repeat number, or
 * remove STUDY/runs/ID while no plumb works there.
 *
 * One thread at a time per study.  Studies are independent.  When plumb dies, the trainer gets
 * SIGTERM (on Linux), and the next open ends what is left of its process group.
 */
#ifndef PLUMB_STUDY_H
#define PLUMB_STUDY_H

#include "plumb/log.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plumb_study plumb_study;

/* How to launch. */
typedef struct plumb_launcher {
    const char *const *command; /* argv, NULL-terminated; placeholders as in log.h */
    const char *kill_command; /* run by sh, with PLUMB_RUN_DIR set and for at most a minute,
                                   whenever plumb has stopped a run (for processes that are
                                   not in its group, on other hosts say), or NULL */
    double grace_seconds;     /* between SIGTERM and SIGKILL, and from end.json to SIGTERM;
                                   0 means 10.  At most 2 are granted when the run is
                                   thrown away */
    double
        silence_seconds;  /* no new line of the log or of events.jsonl for so long: stopped,
                                 "silent"; 0: never */
    double start_seconds; /* the same, before the first line; 0: never */

    /* The command only submits the run (sbatch): with status 0 it is no end.  The run has ended once
     * end.json is there, or a grace after the last step that was asked for; what dies without is
     * silent.  To stop it there are the file `stop`, and a grace later the kill command.
     */
    bool detached;
} plumb_launcher;

/* Opens or creates the directory and takes its lock.  PLUMB_BUSY names host, pid and the time
 * since when, and says how to proceed if that process is gone on another host.  A lock left by
 * a dead process of this host is taken over.  Runs without a whole outcome.json are removed (a
 * trainer left running from them is ended first), and a lost index is rebuilt.  PLUMB_IO when
 * the directory cannot be used or such a trainer cannot be killed.
 */
plumb_status plumb_study_open(const char *directory, const plumb_launcher *launcher,
                              plumb_study **study, plumb_error *why);
void plumb_study_close(plumb_study **study);

/* SIGKILL for the trainer that is running now and all of its process group, if there is one, and the
 * kill command, which is not waited for.  For a signal handler that then ends the program: it may be
 * called at any time.
 */
void plumb_study_kill_running(void);
const char *plumb_study_directory(const plumb_study *study);

/* --- when a run fails ------------------------------------------------------------ */

/* Predicates (a) to (c): see docs/verdict.md.  Zero-initialised fields mean the defaults in
 * brackets.  (a), a loss or gradient norm that is not finite, needs no setting and fails at
 * once; the others must hold for `persistence` consecutive logged steps.  Averages start with
 * their first value.  rise = INFINITY turns (b) off.
 */
typedef struct plumb_predicates {
    double smoothing;      /* of the exponential moving average of the loss [0.9] */
    double rise;           /* (b) nats above its own minimum [0.5] */
    int persistence;       /* consecutive steps [10] */
    double entropy;        /* (b) unigram entropy of the data; 0: not known */
    int64_t entropy_after; /* (b) step from which it counts; 0: never */
    const plumb_history
        *twin;   /* (c) reference run; NULL: not paired.  Steps that it did not
                                  log neither count nor interrupt; from its first non-finite
                                  step on it is no reference */
    double band; /* (c) allowed smoothed gap (run - twin), nats */
} plumb_predicates;

typedef enum plumb_predicate {
    PLUMB_FAILS_NOT = 0,
    PLUMB_FAILS_NONFINITE,  /* a */
    PLUMB_FAILS_RISE,       /* b */
    PLUMB_FAILS_ENTROPY,    /* b */
    PLUMB_FAILS_GAP,        /* c */
    PLUMB_FAILS_ARITHMETIC, /* d, decided by plumb/diagnose.h */
    PLUMB_FAILS_INVARIANT,  /* e, the same */
    PLUMB_FAILS_COUNT
} plumb_predicate;

const char *plumb_predicate_name(plumb_predicate predicate);

typedef struct plumb_failure {
    plumb_predicate predicate;
    int64_t step;    /* where it began: the first of the persistent steps */
    int64_t decided; /* the step at which it had persisted long enough */
    double value;    /* what was seen (loss, smoothed loss, gap) */
    double threshold;
} plumb_failure;

/* The failure that is decided first, or PLUMB_FAILS_NOT.  What is decided at a step rests on
 * that step and those before, so the answer for a run that still grows is final.  Rows whose
 * step does not increase are passed over.  predicates NULL: PLUMB_FAILS_NOT.
 */
plumb_failure plumb_history_judge(const plumb_history *history,
                                  const plumb_predicates *predicates);

/* The first step of a condition that holds at the end of the log, but not yet for `persistence`
 * steps; 0 when there is none, or the run has failed.  Such a run has to go on to be judged.
 */
int64_t plumb_history_pending(const plumb_history *history,
                              const plumb_predicates *predicates);

/* Largest |smoothed gap| (a - b) between two runs over their common steps beyond step `skip`;
 * NaN when they share none.  The average runs from their first common step, and ends before the
 * first at which a loss is not finite.  *last (may be NULL) gets the signed gap at its end.
 */
double plumb_history_gap(const plumb_history *a, const plumb_history *b, double smoothing,
                         int64_t skip, double *last);

/* First step at which the two runs differ: state_hash where both have it, else the loss.
 * 0: equal over all common steps, also when there are none.  *by_hash (may be NULL) is true
 * when the difference was seen in state hashes, or all common steps were equal in them.
 */
int64_t plumb_history_differ(const plumb_history *a, const plumb_history *b, bool *by_hash);

/* First step at which the batches differ; 0 if never; -1 if no step has a batch_hash in both. */
int64_t plumb_history_confounded(const plumb_history *a, const plumb_history *b);

/* --- running ----------------------------------------------------------------------- */

typedef enum plumb_end {
    PLUMB_END_REACHED = 0, /* the requested step was logged, whatever became of the process
                              then; stop_at 0: run.json was written; unset: end.json says so */
    PLUMB_END_FAILED,      /* a predicate fired; the run was stopped or ended by itself */
    PLUMB_END_NONFINITE,   /* the trainer said so, but no line shows it (else: FAILED, with
                              predicate nonfinite, even with no predicates given) */
    PLUMB_END_REFUSED,     /* exit status 3: cannot be done as asked */
    PLUMB_END_DIED,        /* ended before its goal without saying why */
    PLUMB_END_SILENT,      /* no line for launcher.silence_seconds; killed */
    PLUMB_END_NO_START,    /* the command could not be executed (never remembered) */
} plumb_end;

const char *plumb_end_name(plumb_end end);

/* What is known of a finished run.  Free with plumb_outcome_free. */
typedef struct plumb_outcome {
    char id[33];
    char *run_dir; /* .../runs/ID/run */
    plumb_end end;
    plumb_failure failure; /* predicate PLUMB_FAILS_NOT when it did not fail */

    /* Rows up to stop_at; of a run that was stopped, a few rows after failure.decided, as many as
     * it wrote.  Do not refresh it.
     */
    plumb_history history;

    int64_t first_step, last_step; /* logged; 0 when none */
    int exit_status, signal;       /* -1, 0 when not applicable */
    double seconds;                /* wall time of the run, also when it is reused */
    bool reused;                   /* found finished in the study */
    char message[512];             /* for the ends that need words: one sentence, with the
                                      last line of stderr where that helps */
} plumb_outcome;

void plumb_outcome_free(plumb_outcome *outcome);

/* What to run. */
typedef struct plumb_arm {
    const char *label; /* "own", "bf16 twin", "backward back to bf16": for people */
    const plumb_request *request; /* run_dir is filled in by the study, policy by rules */
    const plumb_rules *rules;     /* NULL or empty: no policy */
    const char
        *config_hash; /* of run.json, part of the identity; NULL before it is known */
    int repeat;       /* 0, 1, ...: to run the very same request again */
    bool anew;        /* launch it even if it is there: its answer may have changed */
    const plumb_predicates *predicates; /* NULL: run to the end whatever happens */
} plumb_arm;

/* Called about four times a second while a run is going on.  Return false to interrupt: the run
 * is stopped and removed, and plumb_study_run returns PLUMB_INTERRUPTED.
 */
typedef bool plumb_watch(void *context, const plumb_arm *arm, const plumb_history *history,
                         double seconds);

/* Runs the arm, or finds it finished.  Predicates are evaluated while the run goes on, and a
 * run that fails is stopped: PLUMB_RUN_DIR/stop, SIGTERM to the process group, SIGKILL after the
 * grace, then the kill command.  Whatever the trainer does is an outcome, not an error: a status
 * other than PLUMB_OK means that plumb itself could not work (disk full, interrupted).
 *
 * A finished run is judged anew with the predicates given, so that a band measured later
 * applies to it as well.  A run that was stopped because it failed, and that has not failed as
 * far as it went under the predicates given now (a wider band, or none), is not finished for
 * this question: it is run again.
 *
 * *outcome is valid, and to be freed, only with PLUMB_OK.  *watch may be NULL.
 */
plumb_status plumb_study_run(plumb_study *study, const plumb_arm *arm, plumb_watch *watch,
                             void *context, plumb_outcome *outcome, plumb_error *why);

/* True if the arm is already finished in this study (for --plan and time left). */
bool plumb_study_has(plumb_study *study, const plumb_arm *arm);

#ifdef __cplusplus
}
#endif
#endif
