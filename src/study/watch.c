/* Following one run from its launch to its end.
 *
 * The log is read as it grows and judged line by line.  A run is stopped when a predicate
 * fires, when it goes on past its goal, when its process outlives its end.json, when it is silent for
 * too long, or when the user interrupts; in each case nothing of its process group is left afterwards.
 * What the trainer does is a record with a sentence, never an error of plumb.  Of a run whose command
 * only submitted it, the directory alone tells.
 */
#include "study/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double poll_seconds = 0.025, watch_seconds = 0.25;

typedef enum cause {
    RUNNING,
    BY_ITSELF,
    FAILED,
    PAST_GOAL,
    LINGERS,
    SILENT,
    INTERRUPTED,
} cause;

typedef struct session {
    const plumb_launcher *launcher;
    const plumb_arm *arm;
    const plumb_request *request;
    const char *folder;
    plumb_watch *watch;
    void *context;
    plumb_history *history;
    study_judge judge;
    study_child child;
    double started, last_line, last_watch;
    double ended; /* when it was first seen to be at its end; 0: not yet */
    int64_t offset;
    off_t events; /* size of events.jsonl */
} session;

/* --- while it runs --------------------------------------------------------------------- */

static int64_t last_step(const plumb_history *history)
{
    return history->count > 0 ? history->at[history->count - 1].step : 0;
}

static plumb_status refresh(session *run, bool final, plumb_error *why)
{
    struct stat status;

    if (stat(run->request->run_dir, &status) != 0)
        return plumb_fail(why, PLUMB_IO, "%s went away while its run was going on: %s",
                          run->request->run_dir, strerror(errno));
    return plumb_history_refresh(run->request->run_dir, run->history, final, why);
}

static bool read_new_lines(session *run)
{
    plumb_history seen = *run->history;

    if (run->history->offset != run->offset) {
        run->offset = run->history->offset;
        run->last_line = study_clock();
    }
    study_history_trim(&seen, run->request->stop_at);
    return study_judge_read(&run->judge, &seen);
}

static bool file_size(const session *run, const char *name, off_t *size)
{
    char path[STUDY_PATH];
    struct stat status;

    plumb_print(path, sizeof path, "%s/%s", run->request->run_dir, name);
    if (stat(path, &status) != 0)
        return false;
    *size = status.st_size;
    return true;
}

static bool has_file(const session *run, const char *name)
{
    off_t size;

    return file_size(run, name, &size);
}

/* An event is a sign of life as well: `alive` is there for that. */
static void read_new_events(session *run)
{
    off_t size = 0;

    if (file_size(run, "events.jsonl", &size) && size != run->events) {
        run->events = size;
        run->last_line = study_clock();
    }
}

/* Logged, or declared, all that it was asked for. */
static bool is_at_goal(const session *run)
{
    const int64_t goal = run->request->stop_at;

    return goal > 0 ? last_step(run->history) >= goal
                    : goal == 0 && has_file(run, "run.json");
}

/* A trainer writes end.json last: one that is still there a grace later hangs in its teardown.  Of one
 * that cannot be seen, to have got where it was to go is enough.
 */
static bool lingers(session *run)
{
    if (run->ended > 0)
        return study_clock() - run->ended > run->launcher->grace_seconds;
    if (has_file(run, "end.json") || (run->launcher->detached && is_at_goal(run)))
        run->ended = study_clock();
    return false;
}

/* The command has ended; where it only submitted the run, the run has, or was not even submitted. */
static bool is_over(session *run, bool ended)
{
    if (!ended || !run->launcher->detached)
        return ended;
    return has_file(run, "end.json") || !study_child_ended_well(&run->child);
}

static bool is_silent(const session *run)
{
    const double limit =
        run->offset == 0 ? run->launcher->start_seconds : run->launcher->silence_seconds;

    return limit > 0 && study_clock() - run->last_line > limit;
}

static bool is_interrupted(session *run)
{
    const double now = study_clock();

    if (run->watch == NULL || now - run->last_watch < watch_seconds)
        return false;
    run->last_watch = now;
    return !run->watch(run->context, run->arm, run->history, now - run->started);
}

static plumb_status follow(session *run, cause *why_ended, plumb_error *why)
{
    const int64_t goal = run->request->stop_at;

    for (*why_ended = RUNNING; *why_ended == RUNNING;) {
        /* Before reading, which then sees it all. */
        const bool over = is_over(run, study_child_ended(&run->child));
        const plumb_status status = refresh(run, false, why);

        if (status != PLUMB_OK)
            return status;
        const bool failed = read_new_lines(run);

        read_new_events(run);
        if (over)
            *why_ended = BY_ITSELF;
        else if (failed)
            *why_ended = FAILED;
        else if (goal >= 0 && last_step(run->history) > goal)
            *why_ended = PAST_GOAL;
        else if (lingers(run))
            *why_ended = LINGERS;
        else if (is_silent(run))
            *why_ended = SILENT;
        else if (is_interrupted(run))
            *why_ended = INTERRUPTED;
        else
            study_pause(poll_seconds);
    }
    return PLUMB_OK;
}

/* The process is none of ours: it has the grace to say that it has ended. */
static void wait_for_end(const session *run, double grace)
{
    const double until = study_clock() + grace;

    while (!has_file(run, "end.json") && study_clock() < until)
        study_pause(poll_seconds);
}

/* Asks by the stop file and SIGTERM, then insists. */
static plumb_status finish(session *run, bool by_itself, bool hurry, plumb_error *why)
{
    double grace = run->launcher->grace_seconds;
    char path[STUDY_PATH];

    if (hurry && grace > 2)
        grace = 2;
    if (!by_itself) {
        plumb_print(path, sizeof path, "%s/stop", run->request->run_dir);
        const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

        if (fd >= 0)
            close(fd); /* without it there is still the signal */
    }
    const plumb_status status = study_child_finish(&run->child, grace, why);

    if (!by_itself && run->launcher->detached)
        wait_for_end(run, grace);
    if (!by_itself && run->launcher->kill_command != NULL)
        study_kill_command(run->launcher->kill_command, run->request->run_dir, run->folder);
    return status;
}

/* --- the whole of it --------------------------------------------------------------------- */

static plumb_status fill_record(session *run, cause why_ended, study_record *record,
                                plumb_error *why)
{
    record->seconds = study_clock() - run->started;
    const plumb_status status = refresh(run, true, why);

    if (status != PLUMB_OK)
        return status;
    study_ending_read(&run->child, run->request, run->history, run->folder, record);
    study_history_trim(run->history, run->request->stop_at);
    if (why_ended == BY_ITSELF || why_ended == LINGERS ||
        record->end == PLUMB_END_REACHED || record->end == PLUMB_END_NONFINITE)
        return PLUMB_OK; /* what it did by itself answers any question */
    if (why_ended == PAST_GOAL) {
        record->end = PLUMB_END_REACHED;
    } else if (why_ended == FAILED) {
        record->end = PLUMB_END_FAILED;
        record->message[0] = 0;
    } else {
        record->end = PLUMB_END_SILENT;
        study_ending_silent(run->launcher, run->history, run->folder, record);
    }
    return PLUMB_OK;
}

static plumb_status no_start(const plumb_launcher *launcher, int error,
                             study_record *record)
{
    record->end = PLUMB_END_NO_START;
    record->exit_status = -1;
    plumb_print(record->message, sizeof record->message, "cannot start %s: %s",
                launcher->command[0], strerror(error));
    return PLUMB_OK;
}

plumb_status study_watch(const plumb_launcher *launcher, const plumb_arm *arm,
                         const plumb_request *request, const char *folder,
                         plumb_watch *watch, void *context, plumb_history *history,
                         study_record *record, plumb_error *why)
{
    session run = {.launcher = launcher,
                   .arm = arm,
                   .request = request,
                   .folder = folder,
                   .watch = watch,
                   .context = context,
                   .history = history};
    cause why_ended = RUNNING;
    int exec_error = 0;

    study_judge_init(&run.judge, arm->predicates);
    study_emergency_prepare(launcher->kill_command, request->run_dir, folder);
    run.started = run.last_line = study_clock();
    plumb_status status =
        study_launch(launcher->command, request, folder, &run.child, &exec_error, why);

    if (status != PLUMB_OK || exec_error != 0) {
        study_emergency_over();
        return status != PLUMB_OK ? status : no_start(launcher, exec_error, record);
    }
    status = follow(&run, &why_ended, why);
    const bool broken = status != PLUMB_OK;
    const plumb_status finished =
        finish(&run, why_ended == BY_ITSELF && !broken, broken || why_ended == INTERRUPTED,
               broken ? NULL : why);

    study_emergency_over();
    if (broken || finished != PLUMB_OK)
        return broken ? status : finished;
    if (why_ended == INTERRUPTED)
        return plumb_fail(why, PLUMB_INTERRUPTED, "interrupted while \"%s\" was running",
                          arm->label == NULL ? "a run" : arm->label);
    return fill_record(&run, why_ended, record, why);
}
