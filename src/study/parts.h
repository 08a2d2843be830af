/* study/parts.h - what the files of this room share: paths of a run, its record, the lock,
 * the index, the child process.
 *
 * Nothing here is safe to call from several threads on one study.
 */
#ifndef STUDY_PARTS_H
#define STUDY_PARTS_H

#include <sys/types.h>

#include "plumb/file.h"
#include "study/judge.h"

enum { STUDY_PATH = 4096, STUDY_ID = 33 };

/* --- identity.c ------------------------------------------------------------------- */

/* 32 hex digits of XXH3-128 over everything that defines the run. */
plumb_status study_identity(const char *const *command, const plumb_arm *arm,
                            char id[STUDY_ID], plumb_error *why);
bool study_is_id(const char *name);

/* --- process.c: processes as /proc shows them -------------------------------------- */

/* Names a process so that another one that got the same number later is not taken for it. */
typedef struct study_process {
    char host[256], boot[64], space[64]; /* host name, boot, PID namespace */
    int64_t pid, start;                  /* start: clock ticks after boot; 0: not known */
} study_process;

typedef enum study_life {
    STUDY_GONE,
    STUDY_ALIVE,
    STUDY_ELSEWHERE, /* on another host or in another container: cannot be seen */
} study_life;

void study_process_describe(pid_t pid, study_process *process);
study_life study_process_life(const study_process *process);
json_t *study_process_to_json(const study_process *process);
bool study_process_from_json(const json_t *json, study_process *process);

/* Processes of the group that still run (not zombies); -1 where /proc does not say. */
int study_group_size(pid_t group);

/* True if a process of the group was started for this run directory (its environment). */
bool study_group_works_in(pid_t group, const char *run_dir);

double study_clock(void);         /* seconds, never going back */
void study_pause(double seconds); /* or less, when a signal comes */

/* --- lock.c ------------------------------------------------------------------------- */

plumb_status study_lock(const char *directory, plumb_error *why);
void study_unlock(const char *directory);

/* --- outcome.c: the record of a finished run ------------------------------------------ */

/* What outcome.json holds.  end is how the run came to its end by itself, and
 * PLUMB_END_FAILED when plumb stopped it because a predicate fired.
 */
typedef struct study_record {
    char id[STUDY_ID];
    char label[256];
    plumb_end end;
    plumb_end judged; /* with the predicates of that time; for people and the index */
    plumb_failure failure;
    int64_t first_step, last_step;
    int exit_status, signal;
    double seconds;
    char message[512];
} study_record;

plumb_status study_record_save(const char *folder, const study_record *record,
                               plumb_error *why);

/* PLUMB_NOT_FOUND when absent, PLUMB_BAD_INPUT when it cannot be what plumb wrote for id. */
plumb_status study_record_load(const char *folder, const char *id, study_record *record,
                               plumb_error *why);

/* The rows that count: none past the step at which the run was to stop, however late plumb
 * looked.
 */
void study_history_trim(plumb_history *history, int64_t stop_at);

/* Fills *outcome from the record and history (taken over) under the arm's predicates.
 * PLUMB_NOT_FOUND, with both untouched, when the run was stopped for a failure that these
 * predicates do not see: it did not get to the end of the new question.
 */
plumb_status study_outcome_judge(const study_record *record, const char *run_dir,
                                 plumb_history *history, const plumb_arm *arm,
                                 plumb_outcome *outcome, plumb_error *why);

/* --- index.c ---------------------------------------------------------------------------- */

typedef struct study_index study_index;

/* Opens directory/index.sqlite; false when it is absent, damaged or does not hold exactly
 * the ids given.  Then call study_index_create and put every run.
 */
bool study_index_open(const char *directory, char (*ids)[STUDY_ID], size_t count,
                      study_index **index);
plumb_status study_index_create(const char *directory, study_index **index,
                                plumb_error *why);
bool study_index_put(study_index *index, const study_record *record);
bool study_index_drop(study_index *index, const char *id);
bool study_index_has(study_index *index, const char *id);
void study_index_close(study_index **index);

/* --- launch.c --------------------------------------------------------------------------- */

typedef struct study_child {
    pid_t pid; /* also its process group */
    bool reaped;
    bool has_status; /* false: somebody else reaped it */
    int status;      /* of waitpid */
} study_child;

/* Starts the command in its own process group, with folder/pid written before it executes.
 * *exec_error is errno when it could not be executed; no process is left then.
 */
plumb_status study_launch(const char *const *command, const plumb_request *request,
                          const char *folder, study_child *child, int *exec_error,
                          plumb_error *why);

/* True once the process has ended; it is not reaped, so its number stays ours. */
bool study_child_ended(study_child *child);

/* Of a process that has ended: with status 0, as far as that is known. */
bool study_child_ended_well(const study_child *child);

/* Ends whatever is left of the group: SIGTERM, SIGKILL after grace seconds, and reaps.
 * PLUMB_IO when something cannot be killed.
 */
plumb_status study_child_finish(study_child *child, double grace, plumb_error *why);

/* Runs text by sh with PLUMB_RUN_DIR set, for at most a minute. */
void study_kill_command(const char *text, const char *run_dir, const char *folder);

/* Our environment without the contract's variables, then extra; free the list, not its strings. */
char **study_environment(char *const *extra);

/* Ends a trainer that a killed plumb left running in folder. */
plumb_status study_kill_orphan(const plumb_launcher *launcher, const char *folder,
                               const char *run_dir, plumb_error *why);

/* --- emergency.c ------------------------------------------------------------------------ */

/* From here until study_emergency_over, study_emergency_kill runs text as study_kill_command does, but
 * without waiting: it may be called from a signal handler.  Without memory it will do nothing.  text
 * NULL: nothing to run.
 */
void study_emergency_prepare(const char *text, const char *run_dir, const char *folder);
void study_emergency_kill(void);
void study_emergency_over(void);

/* --- ending.c ---------------------------------------------------------------------------- */

/* How a run came to its end, from the process, end.json and the whole log: end, exit
 * status, signal and the sentence of *record.
 */
void study_ending_read(const study_child *child, const plumb_request *request,
                       const plumb_history *history, const char *folder,
                       study_record *record);

/* The sentence of a run that was ended because nothing came from it. */
void study_ending_silent(const plumb_launcher *launcher, const plumb_history *history,
                         const char *folder, study_record *record);

/* --- watch.c ---------------------------------------------------------------------------- */

/* Follows the run from launch to end.  On success *history and *record are filled. */
plumb_status study_watch(const plumb_launcher *launcher, const plumb_arm *arm,
                         const plumb_request *request, const char *folder,
                         plumb_watch *watch, void *context, plumb_history *history,
                         study_record *record, plumb_error *why);

#endif
