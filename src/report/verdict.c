/* verdict.json as a struct.  Each member is read by one call that names it, so that a message
 * can say which one is wrong; the first wrong member is the one reported.
 */
#include "report/verdict.h"

#include "plumb/file.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_LIMIT = 100000 };

typedef struct reader {
    const json_t *object;
    const char *where; /* "", "fix.", "runs[3]." */
    plumb_status *status;
    plumb_error *why;
} reader;

static const char *type_name(const json_t *json)
{
    static const char *const names[] = {"an object",  "an array",      "a string",
                                        "an integer", "a real number", "true",
                                        "false",      "null"};

    return names[json_typeof(json)];
}

static void refuse(const reader *from, const char *key, const json_t *got,
                   const char *allowed)
{
    if (*from->status == PLUMB_OK)
        *from->status =
            plumb_fail(from->why, PLUMB_BAD_INPUT, "verdict: %s%s is %s; allowed: %s",
                       from->where, key, type_name(got), allowed);
}

/* The member, or NULL when it is missing or null. */
static const json_t *member(const reader *from, const char *key)
{
    const json_t *json = json_object_get(from->object, key);

    return json_is_null(json) ? NULL : json;
}

static const char *string_of(const reader *from, const char *key)
{
    const json_t *json = member(from, key);

    if (json != NULL && !json_is_string(json))
        refuse(from, key, json, "a string");
    return json_string_value(json);
}

/* Integers written as 3.0 by other tools are taken for what they are. */
static int64_t integer_of(const reader *from, const char *key)
{
    const json_t *json = member(from, key);

    if (json_is_integer(json))
        return json_integer_value(json);
    if (json_is_real(json)) {
        const double value = json_real_value(json);

        if (fabs(value) < 9e15 && value == floor(value))
            return (int64_t)value;
    }
    if (json != NULL)
        refuse(from, key, json, "an integer");
    return REPORT_NONE;
}

static double real_of(const reader *from, const char *key)
{
    const json_t *json = member(from, key);
    double value = NAN;

    if (json != NULL && !plumb_json_to_real(json, &value))
        refuse(from, key, json, "a number");
    return value;
}

static bool bool_of(const reader *from, const char *key, bool *said)
{
    const json_t *json = member(from, key);

    if (said != NULL)
        *said = json != NULL;
    if (json != NULL && !json_is_boolean(json))
        refuse(from, key, json, "true or false");
    return json_is_true(json);
}

static const json_t *strings_of(const reader *from, const char *key)
{
    const json_t *json = member(from, key);
    const json_t *each;
    size_t i;

    if (json == NULL)
        return NULL;
    if (!json_is_array(json)) {
        refuse(from, key, json, "an array of strings");
        return NULL;
    }
    json_array_foreach(json, i, each)
    {
        if (!json_is_string(each)) {
            refuse(from, key, each, "strings in the array");
            return NULL;
        }
    }
    return json;
}

/* A command: a string, or an array of strings. */
static const json_t *command_of(const reader *from, const char *key)
{
    const json_t *json = member(from, key);

    return json_is_string(json) ? json : strings_of(from, key);
}

/* Positions *into on an object member; false when there is none. */
static bool enter(const reader *from, const char *key, const char *where, reader *into)
{
    const json_t *json = member(from, key);

    if (json != NULL && !json_is_object(json)) {
        refuse(from, key, json, "an object");
        return false;
    }
    *into = (reader){json, where, from->status, from->why};
    return json != NULL;
}

static void read_findings(const reader *top, report_verdict *v)
{
    reader in;

    v->failure.has = enter(top, "failure", "failure.", &in);
    if (v->failure.has) {
        v->failure.predicate = string_of(&in, "predicate");
        v->failure.text = string_of(&in, "text");
        v->failure.step = integer_of(&in, "step");
        v->failure.decided = integer_of(&in, "decided");
        v->failure.value = real_of(&in, "value");
        v->failure.threshold = real_of(&in, "threshold");
    }
    v->mechanism.has = enter(top, "mechanism", "mechanism.", &in);
    if (v->mechanism.has) {
        v->mechanism.name = string_of(&in, "name");
        v->mechanism.text = string_of(&in, "text");
        v->mechanism.level = string_of(&in, "level");
    }
    v->first_moved.has = enter(top, "first_moved", "first_moved.", &in);
    if (v->first_moved.has) {
        v->first_moved.site = string_of(&in, "site");
        v->first_moved.statistic = string_of(&in, "statistic");
        v->first_moved.text = string_of(&in, "text");
        v->first_moved.step = integer_of(&in, "step");
        v->first_moved.lead = integer_of(&in, "lead");
        v->first_moved.value = real_of(&in, "value");
        v->first_moved.least = real_of(&in, "least");
        v->first_moved.most = real_of(&in, "most");
    }
}

static void read_remedy(const reader *top, report_verdict *v)
{
    reader in;

    v->fix.has = enter(top, "fix", "fix.", &in);
    if (v->fix.has) {
        v->fix.rules = member(&in, "rules");
        v->fix.text = string_of(&in, "text");
        v->fix.level = string_of(&in, "level");
        v->fix.held = integer_of(&in, "held");
        v->fix.of = integer_of(&in, "of");
        v->fix.past_step = integer_of(&in, "past_step");
        v->fix.returned_at = integer_of(&in, "returned_at");
    }
    v->mask.has = enter(top, "mask", "mask.", &in);
    if (v->mask.has) {
        v->mask.text = string_of(&in, "text");
        v->mask.survived = bool_of(&in, "survived", &v->mask.says_survived);
    }
    v->band.has = enter(top, "band", "band.", &in);
    if (v->band.has) {
        v->band.nats = real_of(&in, "nats");
        v->band.text = string_of(&in, "text");
    }
    v->cost.has = enter(top, "cost", "cost.", &in);
    if (v->cost.has) {
        v->cost.horizon_steps = real_of(&in, "horizon_steps");
        v->cost.search = real_of(&in, "search");
        v->cost.proof = real_of(&in, "proof");
        v->cost.seconds = real_of(&in, "seconds");
        v->cost.planned = real_of(&in, "planned");
    }
}

/* --- runs ------------------------------------------------------------------------ */

static bool is_one_of(const char *word, const char *const *list)
{
    for (; word != NULL && *list != NULL; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

static report_outcome outcome_of(const report_run *run)
{
    static const char *const no_failure[] = {"", "none", "not", "no failure", NULL};
    static const char *const failed[] = {"failed", "nonfinite", NULL};

    if ((run->predicate != NULL && !is_one_of(run->predicate, no_failure)) ||
        is_one_of(run->end, failed) || run->fail_step > 0)
        return REPORT_FAILED;
    if (run->end == NULL)
        return REPORT_OPEN;
    return strcmp(run->end, "reached") == 0 ? REPORT_HELD : REPORT_BROKEN;
}

static void read_run(const reader *in, report_run *run)
{
    run->id = string_of(in, "id");
    run->label = string_of(in, "label");
    run->phase = string_of(in, "phase");
    run->text = string_of(in, "text");
    run->end = string_of(in, "end");
    run->predicate = string_of(in, "predicate");
    run->seed = member(in, "seed");
    if (run->seed != NULL && !json_is_integer(run->seed) && !json_is_string(run->seed))
        refuse(in, "seed", run->seed, "an integer");
    run->rules = member(in, "rules");
    run->command = command_of(in, "command");
    run->start_step = integer_of(in, "start_step");
    run->last_step = integer_of(in, "last_step");
    run->stop_at = integer_of(in, "stop_at");
    run->fail_step = integer_of(in, "fail_step");
    run->gap = real_of(in, "gap");
    run->seconds = real_of(in, "seconds");
    run->horizons = real_of(in, "horizons");
    run->reused = bool_of(in, "reused", NULL);
    run->outcome = outcome_of(run);
}

static void read_runs(const reader *top, report_verdict *v)
{
    const json_t *runs = member(top, "runs");
    const json_t *each;
    size_t i;

    if (runs != NULL && !json_is_array(runs))
        refuse(top, "runs", runs, "an array");
    if (!json_is_array(runs) || json_array_size(runs) == 0)
        return;
    if (json_array_size(runs) > RUNS_LIMIT) {
        *top->status =
            plumb_fail(top->why, PLUMB_BAD_INPUT, "verdict: %zu runs; allowed: %d",
                       json_array_size(runs), RUNS_LIMIT);
        return;
    }
    v->runs = calloc(json_array_size(runs), sizeof *v->runs);
    if (v->runs == NULL) {
        *top->status = plumb_fail(top->why, PLUMB_NO_MEMORY, "no memory for %zu runs",
                                  json_array_size(runs));
        return;
    }
    json_array_foreach(runs, i, each)
    {
        char where[40];

        snprintf(where, sizeof where, "runs[%zu].", i);
        if (!json_is_object(each))
            refuse(top, "runs", each, "objects in the array");
        else
            read_run(&(reader){each, where, top->status, top->why},
                     &v->runs[v->run_count++]);
    }
}

static void read_statements(const reader *top, report_verdict *v)
{
    const json_t *each;
    size_t i;

    v->statements = member(top, "statements");
    if (v->statements != NULL && !json_is_array(v->statements)) {
        refuse(top, "statements", v->statements, "an array");
        v->statements = NULL;
    }
    json_array_foreach(v->statements, i, each)
    {
        char where[40];
        const reader in = {each, where, top->status, top->why};

        snprintf(where, sizeof where, "statements[%zu].", i);
        if (!json_is_object(each))
            refuse(top, "statements", each, "objects in the array");
        string_of(&in, "level");
        string_of(&in, "text");
    }
}

plumb_status report_verdict_read(const json_t *json, report_verdict *verdict,
                                 plumb_error *why)
{
    plumb_status status = PLUMB_OK;
    const reader top = {json, "", &status, why};

    *verdict = (report_verdict){0};
    if (!json_is_object(json))
        return plumb_fail(why, PLUMB_BAD_INPUT, "verdict: the document is no JSON object");
    verdict->plumb = string_of(&top, "plumb");
    verdict->question = string_of(&top, "question");
    verdict->verdict = string_of(&top, "verdict");
    verdict->headline = string_of(&top, "headline");
    verdict->class_ = string_of(&top, "class");
    verdict->scope = string_of(&top, "scope");
    verdict->next = string_of(&top, "next");
    verdict->command = command_of(&top, "command");
    verdict->classes = strings_of(&top, "classes");
    verdict->sites = strings_of(&top, "sites");
    verdict->limits = strings_of(&top, "limits");
    verdict->exit = integer_of(&top, "exit");
    read_findings(&top, verdict);
    read_remedy(&top, verdict);
    read_statements(&top, verdict);
    read_runs(&top, verdict);
    if (status != PLUMB_OK)
        report_verdict_free(verdict);
    return status;
}

void report_verdict_free(report_verdict *verdict)
{
    free(verdict->runs);
    *verdict = (report_verdict){0};
}

/* --- where a run lies ------------------------------------------------------------- */

static bool is_id(const char *id)
{
    size_t size = 0;

    if (id == NULL)
        return false;
    for (; id[size] != 0; size++)
        if (size >= 64 ||
            (!isalnum((unsigned char)id[size]) && id[size] != '-' && id[size] != '_'))
            return false;
    return size > 0;
}

bool report_run_directory(const char *study, const report_run *run, char path[4096])
{
    if (!is_id(run->id))
        return false;
    const int size = snprintf(path, 4096, "%s/runs/%s/run", study, run->id);

    return size > 0 && size < 4096;
}

/* --- words about runs ------------------------------------------------------------ */

bool report_is_phase(const report_run *run, const char *phase)
{
    return run->phase != NULL && strcmp(run->phase, phase) == 0;
}

bool report_is_search(const report_run *run)
{
    static const char *const search[] = {"class", "layer", "operand", "mechanism", NULL};

    return is_one_of(run->phase, search);
}

void report_outcome_words(report_text *text, const report_run *run)
{
    static const char *const unsaid[] = {"nonfinite", "non-finite", NULL};

    switch (run->outcome) {
    case REPORT_HELD:
        /* A run that was asked for no step declares itself and ends. */
        report_add(text, run->stop_at == 0 ? "answers" : "holds");
        return;
    case REPORT_FAILED:
        report_add(text, "fails");
        if (run->predicate != NULL && *run->predicate != 0) {
            report_add(text, ", ");
            report_add(text,
                       is_one_of(run->predicate, unsaid) ? "non-finite" : run->predicate);
        } else if (is_one_of(run->end, unsaid)) {
            report_add(text, ", non-finite");
        }
        return;
    case REPORT_BROKEN:
        report_add(text, run->end);
        return;
    case REPORT_OPEN:
        report_add(text, "not known");
        return;
    }
}

static void quote(report_text *text, const char *argument)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_-+=./:,@%";

    if (*argument != 0 && strspn(argument, plain) == strlen(argument)) {
        report_add(text, argument);
        return;
    }
    report_add(text, "'");
    for (; *argument != 0; argument++) {
        if (*argument == '\'')
            report_add(text, "'\\''");
        else
            report_bytes(text, argument, 1);
    }
    report_add(text, "'");
}

void report_command(report_text *text, const json_t *command)
{
    const json_t *each;
    size_t i;

    if (json_is_string(command))
        report_add(text, json_string_value(command));
    json_array_foreach(command, i, each)
    {
        if (i > 0)
            report_add(text, " ");
        quote(text, json_string_value(each));
    }
}

const char *report_string_at(const json_t *array, size_t i)
{
    return json_string_value(json_array_get(array, i));
}
