/* experiment.h - what the stages of one diagnosis share.
 *
 * Each stage asks for runs with plumb_ask, adds sentences with plumb_state and plumb_limit,
 * and either leaves something for the next stage or ends the experiment with plumb_settle.
 * The pure parts (ddmin.h, moved.h, mechanism.h, cost.h) know nothing of this struct.
 */
#ifndef DIAGNOSE_EXPERIMENT_H
#define DIAGNOSE_EXPERIMENT_H

#include "plumb/diagnose.h"
#include "plumb/file.h"

#include "diagnose/mechanism.h"
#include "diagnose/moved.h"

/* Where runs come from: a study, or a fake one in tests. */
typedef struct plumb_runner {
    plumb_status (*run)(void *self, const plumb_arm *arm, plumb_watch *watch, void *context,
                        plumb_outcome *outcome, plumb_error *why);
    void *self;
    const char *directory;
} plumb_runner;

/* Indexes into the declaration's sites, ascending. */
typedef struct plumb_set {
    size_t *at;
    size_t count;
} plumb_set;

/* What is kept of each run for the verdict. */
typedef struct plumb_record {
    char id[33];
    const char *phase;
    char *label, *text, *command;
    json_t *rules; /* NULL: none */
    uint64_t seed;
    int64_t start_step, last_step, stop_at, steps_run;
    plumb_end end;
    plumb_failure failure;
    double gap, seconds;
    bool reused;
} plumb_record;

/* One run to ask for.  Zero-initialised fields mean "as the run itself does it". */
typedef struct plumb_question {
    const char *phase, *label;
    json_t *rules; /* borrowed; NULL: no policy */
    int64_t stop_at;
    const char *start; /* ref of a checkpoint, taken after start_step */
    int64_t start_step;
    int repeat;
    uint64_t micro_order, seed_shift;
    double lr_scale;
    bool sensors, unjudged, anew;
    bool everywhere; /* all of it in bf16: its weights have no other arithmetic */
    bool part; /* of a class: the rest of it stays in few bits, so it may stray further */
    const plumb_history *paired; /* the twin for predicate (c); NULL: (a) and (b) only */
    const int64_t *checkpoint_at;
    size_t checkpoint_count;
} plumb_question;

/* One proposed change and what it survived. */
typedef struct plumb_fix {
    json_t *rules;
    char *text;
    bool part; /* less than a class: judged as such an arm is */
    int held, of;
    json_t *seeds;
    int64_t past_step, returned_at; /* returned_at 0: not seen to return */
    bool holds;
} plumb_fix;

typedef struct plumb_experiment {
    plumb_runner runner;
    const plumb_diagnose_settings *settings;
    plumb_progress_fn *progress;
    void *progress_context;

    /* look */
    plumb_declaration declaration;
    bool declared;
    bool offers_checkpoint, offers_micro_order, offers_lr_scale, offers_observe;
    bool takes_data_seed; /* or declares nothing, so that it cannot be known */
    bool said_restart;
    bool said_kept; /* that kept runs may be of another state of the trainer */
    bool *low;      /* per site: fewer bits than bf16, or a format plumb does not know */
    plumb_predicates predicates; /* (a) and (b) */
    int64_t look_to;             /* the own run is followed so far */

    /* own, repeat, twin, band */
    plumb_outcome own, again, twin;
    plumb_failure failure;
    bool
        repeat_open; /* the repeat ended at a checkpoint: the rest is repeated from there */
    int64_t horizon; /* the last step that an arm must reach alive */
    double band, twin_gap;
    char band_text[256];

    /* weights: they are worse in bf16 than in their own arithmetic, which no arm may be */
    bool weights_fail;

    /* invariants: one of them is violated in the run, which no arm may do */
    bool invariants_fail;

    /* start: a checkpoint that the search may begin from, once it has been checked */
    char *start;
    int64_t start_step;
    plumb_outcome start_twin; /* bf16 from it: the reference of the arms that begin there */

    /* classes, search */
    plumb_class classes[2];
    int class_count; /* 0: unknown or all, 1, or 2 when a pair was needed */
    bool all_classes;
    const char *scope;
    plumb_set culprits; /* the least set that heals */
    size_t search_arms;

    /* mechanism, proof */
    plumb_trials trials;
    json_t *trial_rules[PLUMB_TRIAL_COUNT];
    plumb_story story;
    plumb_mechanism mechanism;
    plumb_fix fix;
    plumb_outcome fixed; /* the proof's run on the first seed, with sensors */

    /* verdict */
    const char *verdict;
    int exit;
    bool settled;
    char headline[512];
    char mask_text[256];
    int mask; /* -1: not run, 0: fails all the same, 1: survives */
    json_t *statements, *limits, *first_moved;
    char *next;
    plumb_record *records;
    size_t record_count;
    size_t arms_left; /* estimate, for the time left */
    double planned;   /* horizons, estimated before the search */
} plumb_experiment;

/* --- arms.c: asking for a run ---------------------------------------------------- */

plumb_status plumb_ask(plumb_experiment *x, const plumb_question *question,
                       plumb_outcome *outcome, plumb_error *why);

/* The step to which a twin is run so that an arm that is granted more steps still has its
 * reference: a few past stop_at, not past the schedule.
 */
int64_t plumb_overtime(const plumb_experiment *x, int64_t stop_at);

/* Statistics of the failing run are read before this step: that of the failure, or, where a
 * violated invariant is the failure, behind the samples that show it.
 */
int64_t plumb_seen_before(const plumb_experiment *x);

/* A failure that began within the horizon. */
bool plumb_failed(const plumb_experiment *x, const plumb_outcome *outcome);

/* The gap to the twin within which an arm of the search in a class counts as healed. */
double plumb_arm_band(const plumb_experiment *x);

/* Alive at the end of the horizon (or at the end of its own schedule past the old failure). */
bool plumb_survived(const plumb_experiment *x, const plumb_outcome *outcome);

/* What an arm of the search said.  Where it does not heal, a failure of PLUMB_FAILS_NOT means that
 * it gave no answer (it was refused, it died, or its batches differ).
 */
typedef struct plumb_answer {
    bool heals;
    plumb_failure failure;
    double gap; /* the largest smoothed one to its twin */
} plumb_answer;

/* An arm: from the checked checkpoint if there is one, judged against the twin. */
plumb_status plumb_ask_arm(plumb_experiment *x, const char *phase, const char *label,
                           json_t *rules, plumb_answer *answer, plumb_error *why);

/* The outcome was judged anew, against its twin: the table of runs shall show it. */
void plumb_rejudged(plumb_experiment *x, const plumb_outcome *outcome);

/* How a run ended, as a sentence without a full stop. */
void plumb_describe_end(const plumb_outcome *outcome, char *text, size_t size);
void plumb_describe_failure(const plumb_failure *failure, char *text, size_t size);

/* --- checkpoint.c ------------------------------------------------------------------- */

/* The ref of the latest complete checkpoint of a run before step `before`, to be freed, and its
 * step; NULL and 0 if there is none.
 */
char *plumb_checkpoint_before(const char *run_dir, int64_t before, int64_t *step);

/* Steps at the beginning that say nothing of the gap of two runs. */
enum { PLUMB_GAP_SKIP = 5 };

/* --- start.c ------------------------------------------------------------------------ */

/* The first step at which the run is away from its twin for good, by this part of the band, if that is
 * before it fails; else INT64_MAX.  What is kept from then on has the fault in it, and arms that
 * begin there show no more than what makes it worse.
 */
int64_t plumb_apart_from(const plumb_experiment *x, double part);

/* --- weights.c: predicate (d) ------------------------------------------------------- */

/* The step whose checkpoint lets the weights of a run to stop_at be judged. */
int64_t plumb_weights_wish(int64_t stop_at);

/* Runs one step in bf16 from the last checkpoint of a run and compares its loss with the run's
 * own at that step: same weights, same batch, other arithmetic.  *worse is NaN when that cannot
 * be done.
 */
plumb_status plumb_weights_compare(plumb_experiment *x, const plumb_question *question,
                                   const plumb_outcome *outcome, double *worse,
                                   int64_t *step, plumb_error *why);

/* Whether the weights of a checkpoint of the run are already worse in bf16 than in the run's own
 * arithmetic, or it cannot be seen: what is kept there has the fault in it.
 */
plumb_status plumb_weights_adapted(plumb_experiment *x, const char *ref, int64_t step,
                                   bool *adapted, plumb_error *why);

/* Where the run fails by (d), every arm is judged by (d) too: sets outcome->failure.  An arm that
 * cannot be judged so has a failure without a value: plumb_unjudged.
 */
plumb_status plumb_weights_judge(plumb_experiment *x, const plumb_question *question,
                                 plumb_outcome *outcome, plumb_error *why);
bool plumb_unjudged(const plumb_failure *failure);

/* --- invariants.c: predicate (e) -------------------------------------------------------- */

/* Where the run fails by (e), every arm is judged by it too: sets outcome->failure. */
plumb_status plumb_invariants_judge(plumb_experiment *x, const plumb_question *question,
                                    plumb_outcome *outcome, plumb_error *why);

/* --- sites.c: sets of sites and the rules over them ------------------------------- */

/* True when the format text has fewer bits than bf16, or plumb does not know it. */
bool plumb_format_is_low(const char *own);

bool plumb_set_by_class(const plumb_experiment *x, plumb_class class_, plumb_set *set);
bool plumb_set_join(const plumb_set *a, const plumb_set *b, plumb_set *out);

/* Every site of few bits with the class, GEMM and operand of one of the set. */
bool plumb_set_of_kind(const plumb_experiment *x, const plumb_set *set, plumb_set *out);
bool plumb_set_has(const plumb_set *set, size_t site);
void plumb_set_free(plumb_set *set);

/* The site whose codes this one reads, by shares_storage_with; itself if it names none. */
size_t plumb_storage_root(const plumb_declaration *d, size_t site);

/* [{"sites": [...], "use": use, "raise": raise}]; NULL when out of memory. */
json_t *plumb_rules_over(const plumb_experiment *x, const plumb_set *set, const char *use,
                         bool raise);
json_t *plumb_rules_everywhere(const char *use);

/* "blk1.fc2:act" or "12 sites of class forward (fprop, x; layers 0 to 3)". */
void plumb_set_describe(const plumb_experiment *x, const plumb_set *set, char *text,
                        size_t size);

/* marks[i] for each sampled site that the set names. */
void plumb_mark_sites(const plumb_experiment *x, const plumb_samples *samples,
                      const plumb_set *set, bool *marks);

/* --- trials.c ------------------------------------------------------------------------ */

/* Counterfactuals of another set say nothing of this one. */
void plumb_forget_trials(plumb_experiment *x);

/* The use that a trial's rules ask for; they may differ between sites, then the first. */
void plumb_trial_use(const plumb_experiment *x, plumb_trial trial,
                     char use[PLUMB_SPEC_TEXT]);

/* --- verdict.c: sentences and the document ------------------------------------------ */

plumb_status plumb_state(plumb_experiment *x, const char *level, const char *format, ...)
    PLUMB_PRINTF(3, 4);
plumb_status plumb_limit(plumb_experiment *x, const char *format, ...) PLUMB_PRINTF(2, 3);

/* The end: verdict, exit code and headline.  Returns PLUMB_OK. */
plumb_status plumb_settle(plumb_experiment *x, const char *verdict, int exit,
                          const char *format, ...) PLUMB_PRINTF(4, 5);

json_t *plumb_verdict_build(const plumb_experiment *x);
plumb_status plumb_verdict_save(const plumb_experiment *x, plumb_error *why);

/* Tells the caller which question the next runs answer. */
plumb_status plumb_question_now(plumb_experiment *x, plumb_error *why, const char *format,
                                ...) PLUMB_PRINTF(3, 4);

/* --- words.c --------------------------------------------------------------------------- */

/* Printable ASCII only; anything else becomes '?'. */
void plumb_printable(const char *in, char *out, size_t size);
char *plumb_text(const char *format, ...) PLUMB_PRINTF(1, 2);
json_t *plumb_text_json(const char *text);

/* A shell line that repeats a request by hand in a new directory; NULL without memory. */
char *plumb_shell_line(const plumb_request *request, const char *policy,
                       const char *const *command);
char *plumb_shell_words(const char *const *command);

/* --- the stages, in order --------------------------------------------------------------- */

plumb_status plumb_stage_look(plumb_experiment *x, plumb_error *why);
plumb_status plumb_stage_plan(plumb_experiment *x, plumb_error *why);
plumb_status plumb_stage_own(plumb_experiment *x, plumb_error *why);
plumb_status plumb_stage_twin(plumb_experiment *x, plumb_error *why);
plumb_status plumb_stage_band(plumb_experiment *x, plumb_error *why);
plumb_status plumb_stage_weights(plumb_experiment *x, plumb_error *why);
plumb_status plumb_stage_invariants(plumb_experiment *x, plumb_error *why);
plumb_status plumb_stage_repeat(plumb_experiment *x, plumb_error *why);
plumb_status plumb_stage_healthy(plumb_experiment *x, plumb_error *why);
plumb_status plumb_stage_start(plumb_experiment *x, plumb_error *why);
plumb_status plumb_stage_repeat_rest(plumb_experiment *x, plumb_error *why);
plumb_status plumb_stage_guess(plumb_experiment *x, plumb_error *why);
plumb_status plumb_stage_classes(plumb_experiment *x, plumb_error *why);
plumb_status plumb_stage_narrow(plumb_experiment *x, plumb_error *why);
plumb_status plumb_stage_mechanism(plumb_experiment *x, plumb_error *why);
plumb_status plumb_stage_proof(plumb_experiment *x, plumb_error *why);
plumb_status plumb_stage_mask(plumb_experiment *x, plumb_error *why);
plumb_status plumb_stage_moved(plumb_experiment *x, plumb_error *why);
plumb_status plumb_stage_conclude(plumb_experiment *x, plumb_error *why);

/* Classes, place and mechanism once more with arms that begin at step 1, where what was found
 * from a checkpoint does not hold from the start.
 */
plumb_status plumb_search_from_start(plumb_experiment *x, plumb_error *why);

/* --- revert.c: the way back ---------------------------------------------------------------- */

/* Steps that the schedule must still have after a checkpoint for a failure to come back. */
enum { PLUMB_REVERT_ROOM = 20 };

/* Takes x->fix back and sets its returned_at where the failure returns. */
plumb_status plumb_revert_fix(plumb_experiment *x, plumb_error *why);

/* The whole experiment over any source of runs; plumb_diagnose calls it with a study. */
plumb_status plumb_diagnose_with(const plumb_runner *runner,
                                 const plumb_diagnose_settings *settings,
                                 plumb_progress_fn *progress, void *context,
                                 json_t **verdict, plumb_error *why);

#endif
