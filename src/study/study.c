/* A study: a directory of runs, each named by what defines it.
 *
 * A run counts as finished once its outcome.json is there, which is written last.  Whatever
 * else lies in runs/ under such a name was left by a plumb that was killed: what still runs of
 * it is ended, and it is removed.  So the same question asked again, in the same process or
 * after a kill at any point, launches only what has no answer yet.
 */
#define _XOPEN_SOURCE 700 /* realpath */

#include "study/parts.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct plumb_study {
    char *directory; /* absolute */
    char **command;
    char *kill_command;
    plumb_launcher launcher;
    study_index *index; /* NULL: could not be kept up; the next open writes it anew */
    bool locked;
};

/* Where one run lies. */
typedef struct place {
    char id[STUDY_ID];
    char folder[STUDY_PATH], run_dir[STUDY_PATH], policy[STUDY_PATH];
} place;

static void place_of(const plumb_study *study, const char *id, place *where)
{
    memcpy(where->id, id, STUDY_ID - 1);
    where->id[STUDY_ID - 1] = 0;
    plumb_print(where->folder, STUDY_PATH, "%s/runs/%s", study->directory, where->id);
    plumb_print(where->run_dir, STUDY_PATH, "%s/runs/%s/run", study->directory, where->id);
    plumb_print(where->policy, STUDY_PATH, "%s/runs/%s/policy.json", study->directory,
                where->id);
}

/* --- open and close ---------------------------------------------------------------------- */

static bool copy_launcher(plumb_study *study, const plumb_launcher *launcher)
{
    size_t count = 0;

    while (launcher->command[count] != NULL)
        count++;
    study->command = calloc(count + 1, sizeof *study->command);
    for (size_t i = 0; study->command != NULL && i < count; i++) {
        study->command[i] = strdup(launcher->command[i]);
        if (study->command[i] == NULL)
            return false;
    }
    if (launcher->kill_command != NULL)
        study->kill_command = strdup(launcher->kill_command);
    study->launcher = *launcher;
    study->launcher.command = (const char *const *)study->command;
    study->launcher.kill_command = study->kill_command;
    if (!(launcher->grace_seconds > 0))
        study->launcher.grace_seconds = 10;
    return study->command != NULL &&
           (launcher->kill_command == NULL || study->kill_command != NULL);
}

void plumb_study_close(plumb_study **study)
{
    if (study == NULL || *study == NULL)
        return;
    plumb_study *s = *study;

    study_index_close(&s->index);
    if (s->locked)
        study_unlock(s->directory);
    for (size_t i = 0; s->command != NULL && s->command[i] != NULL; i++)
        free(s->command[i]);
    free(s->command);
    free(s->kill_command);
    free(s->directory);
    free(s);
    *study = NULL;
}

const char *plumb_study_directory(const plumb_study *study)
{
    return study->directory;
}

static plumb_status find_directory(plumb_study *study, const char *directory,
                                   plumb_error *why)
{
    const plumb_status status = plumb_dir_make(directory, why);

    if (status != PLUMB_OK)
        return status;
    study->directory = realpath(directory, NULL);
    if (study->directory == NULL)
        return plumb_fail(why, PLUMB_IO, "cannot find %s: %s", directory, strerror(errno));
    if (strlen(study->directory) > STUDY_PATH - 512)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "the path of %s is longer than %d bytes",
                          directory, STUDY_PATH - 512);
    return PLUMB_OK;
}

/* Removes what is in the place of a run that did not finish. */
static plumb_status clear_place(const plumb_study *study, const place *where,
                                plumb_error *why)
{
    const plumb_status status =
        study_kill_orphan(&study->launcher, where->folder, where->run_dir, why);

    return status != PLUMB_OK ? status : plumb_dir_remove(where->folder, why);
}

typedef struct records {
    study_record *at;
    size_t count, room;
} records;

static bool add_record(records *list, const study_record *record)
{
    if (list->count == list->room) {
        const size_t room = list->room == 0 ? 16 : 2 * list->room;
        study_record *grown = realloc(list->at, room * sizeof *grown);

        if (grown == NULL)
            return false;
        list->at = grown;
        list->room = room;
    }
    list->at[list->count++] = *record;
    return true;
}

/* One entry of runs/: a finished run is added to the list, an unfinished one removed, and
 * what plumb did not name is left alone.
 */
static plumb_status tidy_entry(const plumb_study *study, const char *name, records *list,
                               plumb_error *why)
{
    study_record record;
    struct stat status;
    place where;

    if (!study_is_id(name))
        return PLUMB_OK;
    place_of(study, name, &where);
    if (lstat(where.folder, &status) != 0 || !S_ISDIR(status.st_mode))
        return PLUMB_OK;
    const plumb_status loaded = study_record_load(where.folder, where.id, &record, why);

    if (loaded == PLUMB_IO || loaded == PLUMB_NO_MEMORY)
        return loaded; /* it may be there: nothing is removed for that */
    if (loaded != PLUMB_OK)
        return clear_place(study, &where, why);
    if (!add_record(list, &record))
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the runs of %s",
                          study->directory);
    return PLUMB_OK;
}

static plumb_status tidy(const plumb_study *study, records *list, plumb_error *why)
{
    char path[STUDY_PATH];
    plumb_status status;

    plumb_print(path, sizeof path, "%s/runs", study->directory);
    status = plumb_dir_make(path, why);
    if (status != PLUMB_OK)
        return status;
    DIR *runs = opendir(path);

    if (runs == NULL)
        return plumb_fail(why, PLUMB_IO, "cannot read %s: %s", path, strerror(errno));
    for (const struct dirent *entry; status == PLUMB_OK && (entry = readdir(runs)) != NULL;)
        status = tidy_entry(study, entry->d_name, list, why);
    closedir(runs);
    return status;
}

static plumb_status open_index(plumb_study *study, const records *list, plumb_error *why)
{
    char(*ids)[STUDY_ID] = calloc(list->count + 1, sizeof *ids);

    if (ids == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the index of %s",
                          study->directory);
    for (size_t i = 0; i < list->count; i++)
        memcpy(ids[i], list->at[i].id, STUDY_ID);
    const bool good = study_index_open(study->directory, ids, list->count, &study->index);

    free(ids);
    if (good)
        return PLUMB_OK;
    const plumb_status status = study_index_create(study->directory, &study->index, why);

    for (size_t i = 0; status == PLUMB_OK && i < list->count; i++)
        if (!study_index_put(study->index, &list->at[i]))
            return plumb_fail(why, PLUMB_IO, "cannot write %s/index.sqlite",
                              study->directory);
    return status;
}

plumb_status plumb_study_open(const char *directory, const plumb_launcher *launcher,
                              plumb_study **study, plumb_error *why)
{
    records list = {0};
    plumb_status status;

    *study = NULL;
    if (launcher == NULL || launcher->command == NULL || launcher->command[0] == NULL)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "a study needs the command of a trainer");
    plumb_study *s = calloc(1, sizeof *s);

    if (s == NULL || !copy_launcher(s, launcher)) {
        status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a study");
        goto out;
    }
    status = find_directory(s, directory, why);
    if (status == PLUMB_OK)
        status = study_lock(s->directory, why);
    s->locked = status == PLUMB_OK;
    if (status == PLUMB_OK)
        status = tidy(s, &list, why);
    if (status == PLUMB_OK)
        status = open_index(s, &list, why);
out:
    free(list.at);
    if (status != PLUMB_OK)
        plumb_study_close(&s);
    *study = s;
    return status;
}

/* --- one run ----------------------------------------------------------------------------- */

static plumb_status check_arm(const plumb_arm *arm, plumb_error *why)
{
    if (arm == NULL || arm->request == NULL)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "an arm needs a request");
    if (arm->request->checkpoint_count > 0 && arm->request->checkpoint_at == NULL)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "an arm with %zu checkpoints has no list",
                          arm->request->checkpoint_count);
    return PLUMB_OK;
}

/* Whether the run came to nothing for a reason that may be gone by now: no memory, no data, a
 * limit on silence that has been raised.  Not one that ends with status 0 and says nothing more.
 */
static bool may_go_better(const plumb_outcome *outcome)
{
    return outcome->end == PLUMB_END_REFUSED || outcome->end == PLUMB_END_SILENT ||
           (outcome->end == PLUMB_END_DIED &&
            (outcome->exit_status != 0 || outcome->signal != 0));
}

/* The finished run of this place, judged by the arm's predicates.  PLUMB_NOT_FOUND when there
 * is none, its record or log is damaged, it was stopped too early for them, or it was no
 * training result.
 */
static plumb_status recall(const plumb_arm *arm, const place *where, plumb_outcome *outcome,
                           plumb_error *why)
{
    plumb_history history = {0};
    study_record record;
    struct stat status;

    plumb_status got = study_record_load(where->folder, where->id, &record, why);
    if (got == PLUMB_BAD_INPUT || (got == PLUMB_OK && stat(where->run_dir, &status) != 0))
        return PLUMB_NOT_FOUND;
    if (got != PLUMB_OK)
        return got;
    got = plumb_history_refresh(where->run_dir, &history, true, why);
    if (got == PLUMB_OK) {
        study_history_trim(&history, arm->request->stop_at);
        if ((history.count == 0 ? 0 : history.at[history.count - 1].step) <
            record.last_step)
            got = PLUMB_NOT_FOUND; /* lines were lost since */
    }
    if (got == PLUMB_OK)
        got = study_outcome_judge(&record, where->run_dir, &history, arm, outcome, why);
    plumb_history_free(&history);
    if (got == PLUMB_OK && may_go_better(outcome)) {
        plumb_outcome_free(outcome);
        return PLUMB_NOT_FOUND;
    }
    if (got == PLUMB_OK)
        outcome->reused = true;
    return got;
}

/* An empty place with policy.json and request.json; request's paths are set. */
static plumb_status prepare(plumb_study *study, const plumb_arm *arm, const place *where,
                            plumb_request *request, plumb_error *why)
{
    plumb_status status = clear_place(study, where, why);

    if (study->index != NULL && !study_index_drop(study->index, where->id))
        study_index_close(&study->index);
    if (status == PLUMB_OK)
        status = plumb_dir_make(where->run_dir, why);
    if (status == PLUMB_OK && request->policy != NULL) {
        json_t *json = plumb_rules_to_json(arm->rules);

        status = json == NULL
                     ? plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %s", where->policy)
                     : plumb_json_save(where->policy, json, why);
        json_decref(json);
    }
    return status == PLUMB_OK ? plumb_request_write(request, why) : status;
}

static void keep_in_index(plumb_study *study, const study_record *record)
{
    if (study->index != NULL && !study_index_put(study->index, record))
        study_index_close(&study->index);
}

/* Writes down what happened, outcome.json last, and judges it. */
static plumb_status record_run(plumb_study *study, const plumb_arm *arm, const place *where,
                               study_record *record, plumb_history *history,
                               plumb_outcome *outcome, plumb_error *why)
{
    plumb_status status =
        study_outcome_judge(record, where->run_dir, history, arm, outcome, why);

    if (status != PLUMB_OK || record->end == PLUMB_END_NO_START)
        return status; /* nothing ran: there is nothing to remember */
    record->judged = outcome->end;
    record->failure = outcome->failure;
    record->first_step = outcome->first_step;
    record->last_step = outcome->last_step;
    status = study_record_save(where->folder, record, why);
    if (status == PLUMB_OK)
        keep_in_index(study, record);
    else
        plumb_outcome_free(outcome);
    return status;
}

static plumb_status launch(plumb_study *study, const plumb_arm *arm, place *where,
                           plumb_watch *watch, void *context, plumb_outcome *outcome,
                           plumb_error *why)
{
    plumb_request request = *arm->request;
    plumb_history history = {0};
    study_record record = {0};

    request.run_dir = where->run_dir;
    request.policy = arm->rules != NULL && arm->rules->count > 0 ? where->policy : NULL;
    memcpy(record.id, where->id, sizeof record.id);
    plumb_print(record.label, sizeof record.label, "%s",
                arm->label == NULL ? "" : arm->label);
    plumb_status status = prepare(study, arm, where, &request, why);

    if (status == PLUMB_OK)
        status = study_watch(&study->launcher, arm, &request, where->folder, watch, context,
                             &history, &record, why);
    if (status == PLUMB_OK)
        status = record_run(study, arm, where, &record, &history, outcome, why);
    else if (status == PLUMB_INTERRUPTED)
        plumb_dir_remove(where->folder, NULL);
    plumb_history_free(&history);
    return status;
}

plumb_status plumb_study_run(plumb_study *study, const plumb_arm *arm, plumb_watch *watch,
                             void *context, plumb_outcome *outcome, plumb_error *why)
{
    char id[STUDY_ID];
    place where;

    *outcome = (plumb_outcome){0};
    plumb_status status = check_arm(arm, why);
    if (status == PLUMB_OK)
        status = study_identity(study->launcher.command, arm, id, why);
    if (status != PLUMB_OK)
        return status;
    place_of(study, id, &where);
    status = arm->anew ? PLUMB_NOT_FOUND : recall(arm, &where, outcome, why);
    if (status == PLUMB_NOT_FOUND)
        status = launch(study, arm, &where, watch, context, outcome, why);
    return status;
}

bool plumb_study_has(plumb_study *study, const plumb_arm *arm)
{
    plumb_outcome outcome = {0};
    char id[STUDY_ID];
    place where;

    if (check_arm(arm, NULL) != PLUMB_OK ||
        study_identity(study->launcher.command, arm, id, NULL) != PLUMB_OK)
        return false;
    if (study->index != NULL && !study_index_has(study->index, id))
        return false;
    place_of(study, id, &where);
    const bool has = recall(arm, &where, &outcome, NULL) == PLUMB_OK;

    plumb_outcome_free(&outcome);
    return has;
}
