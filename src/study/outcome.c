/* What is known of a finished run: outcome.json, and the run read and judged again.
 *
 * The record says how the run ended by itself; whether it failed is decided anew from its
 * log each time, so that a band measured later applies to it as well.  A record that plumb
 * cannot have written counts as none.
 */
#include "study/parts.h"

#include <stdlib.h>
#include <string.h>

const char *plumb_end_name(plumb_end end)
{
    switch (end) {
    case PLUMB_END_REACHED:
        return "reached";
    case PLUMB_END_FAILED:
        return "failed";
    case PLUMB_END_NONFINITE:
        return "nonfinite";
    case PLUMB_END_REFUSED:
        return "refused";
    case PLUMB_END_DIED:
        return "died";
    case PLUMB_END_SILENT:
        return "silent";
    case PLUMB_END_NO_START:
        return "no start";
    }
    return "unknown";
}

static bool parse_end(const json_t *json, plumb_end *end)
{
    const char *name = json_string_value(json);

    for (int k = PLUMB_END_REACHED; name != NULL && k <= PLUMB_END_NO_START; k++)
        if (strcmp(name, plumb_end_name((plumb_end)k)) == 0) {
            *end = (plumb_end)k;
            return true;
        }
    return false;
}

void plumb_outcome_free(plumb_outcome *outcome)
{
    if (outcome == NULL)
        return;
    free(outcome->run_dir);
    plumb_history_free(&outcome->history);
    *outcome = (plumb_outcome){0};
}

/* --- the record ------------------------------------------------------------------------ */

static json_t *failure_to_json(const plumb_failure *failure)
{
    if (failure->predicate == PLUMB_FAILS_NOT)
        return json_null();
    return json_pack(
        "{s:s, s:I, s:I, s:o, s:o}", "predicate", plumb_predicate_name(failure->predicate),
        "step", (json_int_t)failure->step, "decided", (json_int_t)failure->decided, "value",
        plumb_json_real(failure->value), "threshold", plumb_json_real(failure->threshold));
}

/* Text from outside that is not UTF-8 cannot stand in JSON; it is for people only. */
static json_t *words(const char *text)
{
    json_t *json = json_string(text);

    return json != NULL ? json : json_string("(not UTF-8)");
}

plumb_status study_record_save(const char *folder, const study_record *record,
                               plumb_error *why)
{
    char path[STUDY_PATH];
    json_t *json = json_pack(
        "{s:s, s:s, s:o, s:s, s:s, s:o, s:I, s:I, s:i, s:i, s:f, s:o}", "plumb",
        plumb_build_id(), "id", record->id, "label", words(record->label), "end",
        plumb_end_name(record->judged), "by_itself", plumb_end_name(record->end), "failure",
        failure_to_json(&record->failure), "first_step", (json_int_t)record->first_step,
        "last_step", (json_int_t)record->last_step, "exit_status", record->exit_status,
        "signal", record->signal, "seconds", record->seconds, "message",
        words(record->message));

    if (json == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the outcome of %s", folder);
    plumb_print(path, sizeof path, "%s/outcome.json", folder);
    const plumb_status status = plumb_json_save(path, json, why);

    json_decref(json);
    return status;
}

static bool get_int(const json_t *json, const char *key, int64_t least, int64_t *value)
{
    const json_t *field = json_object_get(json, key);

    *value = json_integer_value(field);
    return json_is_integer(field) && *value >= least;
}

/* For the index only: judging a run anew reads its log. */
static void read_failure(const json_t *json, plumb_failure *failure)
{
    const char *name = json_string_value(json_object_get(json, "predicate"));

    for (int k = PLUMB_FAILS_NONFINITE; name != NULL && k < PLUMB_FAILS_COUNT; k++)
        if (strcmp(name, plumb_predicate_name((plumb_predicate)k)) == 0)
            failure->predicate = (plumb_predicate)k;
    failure->step = json_integer_value(json_object_get(json, "step"));
    failure->decided = json_integer_value(json_object_get(json, "decided"));
}

static bool read_record(const json_t *json, const char *id, study_record *record)
{
    const char *name = json_string_value(json_object_get(json, "id"));
    const char *label = json_string_value(json_object_get(json, "label"));
    const char *message = json_string_value(json_object_get(json, "message"));
    int64_t status, signal;

    if (name == NULL || strcmp(name, id) != 0 || label == NULL || message == NULL)
        return false;
    memcpy(record->id, id, sizeof record->id);
    plumb_print(record->label, sizeof record->label, "%s", label);
    plumb_print(record->message, sizeof record->message, "%s", message);
    if (!parse_end(json_object_get(json, "by_itself"), &record->end) ||
        !parse_end(json_object_get(json, "end"), &record->judged) ||
        !get_int(json, "first_step", INT64_MIN, &record->first_step) ||
        !get_int(json, "last_step", INT64_MIN, &record->last_step) ||
        !get_int(json, "exit_status", -1, &status) || status > 255 ||
        !get_int(json, "signal", 0, &signal) || signal > 255)
        return false;
    read_failure(json_object_get(json, "failure"), &record->failure);
    record->exit_status = (int)status;
    record->signal = (int)signal;
    return plumb_json_to_real(json_object_get(json, "seconds"), &record->seconds) &&
           record->seconds >= 0;
}

plumb_status study_record_load(const char *folder, const char *id, study_record *record,
                               plumb_error *why)
{
    char path[STUDY_PATH];
    json_t *json = NULL;

    *record = (study_record){0};
    plumb_print(path, sizeof path, "%s/outcome.json", folder);
    const plumb_status status = plumb_json_load(path, 1 << 16, &json, why);

    if (status != PLUMB_OK)
        return status;
    const bool good = read_record(json, id, record);

    json_decref(json);
    return good ? PLUMB_OK
                : plumb_fail(why, PLUMB_BAD_INPUT, "%s is not the outcome of this run",
                             path);
}

/* --- judging --------------------------------------------------------------------------- */

void study_history_trim(plumb_history *history, int64_t stop_at)
{
    if (stop_at < 0)
        return;
    while (history->count > 0 && history->at[history->count - 1].step > stop_at)
        history->count--;
}

/* A trainer that says "non-finite" and shows it has failed, whoever asks. */
static plumb_failure first_nonfinite(const plumb_history *history)
{
    for (size_t i = 0; i < history->count; i++) {
        const plumb_metrics *row = &history->at[i];

        if (study_row_nonfinite(row)) {
            const plumb_predicates least = {.smoothing = 0.9};
            const plumb_history one = {.at = history->at + i, .count = 1};

            return plumb_history_judge(&one, &least);
        }
    }
    return (plumb_failure){0};
}

plumb_status study_outcome_judge(const study_record *record, const char *run_dir,
                                 plumb_history *history, const plumb_arm *arm,
                                 plumb_outcome *outcome, plumb_error *why)
{
    study_judge judge;

    study_judge_init(&judge, arm->predicates);
    study_judge_read(&judge, history);
    plumb_failure failure = judge.failure;

    if (failure.predicate == PLUMB_FAILS_NOT && record->end == PLUMB_END_NONFINITE)
        failure = first_nonfinite(history);
    if (record->end == PLUMB_END_REFUSED)
        failure = (plumb_failure){0}; /* never a training result */
    const bool failed = failure.predicate != PLUMB_FAILS_NOT;

    if (record->end == PLUMB_END_FAILED && !failed)
        return plumb_fail(why, PLUMB_NOT_FOUND,
                          "%s was stopped before the end of the question", run_dir);
    char *path = strdup(run_dir);
    if (path == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the outcome of %s", run_dir);
    *outcome = (plumb_outcome){.end = failed ? PLUMB_END_FAILED : record->end,
                               .failure = failure,
                               .exit_status = record->exit_status,
                               .signal = record->signal,
                               .seconds = record->seconds,
                               .run_dir = path};
    memcpy(outcome->id, record->id, sizeof outcome->id);
    plumb_print(outcome->message, sizeof outcome->message, "%s", record->message);
    outcome->history = *history;
    *history = (plumb_history){0};
    if (outcome->history.count > 0) {
        outcome->first_step = outcome->history.at[0].step;
        outcome->last_step = outcome->history.at[outcome->history.count - 1].step;
    }
    return PLUMB_OK;
}
