/* Reading what a run writes as lines: its steps, its events, its end. */
#include "plumb/log.h"

#include <stdlib.h>
#include <string.h>

#include "file/text.h"
#include "log/lines.h"
#include "log/metrics.h"
#include "log/ranks.h"
#include "plumb/file.h"

enum { MOST_ROWS = 4000000, MOST_EVENTS = 1000000, END_LIMIT = 1 << 16 };

static plumb_status add_row(plumb_history *history, const plumb_metrics *row,
                            plumb_error *why)
{
    const size_t count = history->count;

    if (count >= MOST_ROWS)
        return plumb_fail(why, PLUMB_NO_MEMORY, "metrics.jsonl: more than %d steps",
                          MOST_ROWS);
    if ((count & (count - 1)) == 0) { /* full at 0, 1, 2, 4, ... */
        const size_t room = count == 0 ? 1 : 2 * count;
        plumb_metrics *grown = realloc(history->at, room * sizeof *grown);
        if (grown == NULL)
            return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu steps", room);
        history->at = grown;
    }
    history->at[history->count++] = *row;
    return PLUMB_OK;
}

static void bad_line(plumb_history *history, const char *text, size_t length)
{
    if (history->bad_lines++ > 0)
        return;
    history->bad_line_number = history->lines;
    if (text == NULL)
        plumb_print(history->bad_line, sizeof history->bad_line, "a line of over 1 MB");
    else
        plumb_text_clean(text, length, history->bad_line, sizeof history->bad_line);
}

static bool is_blank(const char *text, size_t length)
{
    while (length > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        length--;
    }
    return length == 0;
}

static plumb_status metrics_line(void *context, const char *text, size_t length,
                                 plumb_error *why)
{
    plumb_history *const history = context;
    plumb_metrics row;

    history->lines++;
    if (text != NULL && is_blank(text, length))
        return PLUMB_OK;
    if (text == NULL || !plumb_metrics_parse(text, length, &row)) {
        bad_line(history, text, length);
        return PLUMB_OK;
    }
    if (history->count > 0 && row.step <= history->at[history->count - 1].step) {
        history->backward_steps++;
        return PLUMB_OK;
    }
    return add_row(history, &row, why);
}

plumb_status plumb_history_refresh(const char *run_dir, plumb_history *history, bool final,
                                   plumb_error *why)
{
    plumb_cursor cursor = {history->offset, history->skipping};
    char *path = plumb_path_join(run_dir, "metrics.jsonl");
    plumb_status status;

    if (path == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
    status =
        plumb_lines_read(path, &cursor, final, &history->lines, metrics_line, history, why);
    history->offset = cursor.offset;
    history->skipping = cursor.skipping;
    free(path);
    return status;
}

void plumb_history_free(plumb_history *history)
{
    if (history == NULL)
        return;
    free(history->at);
    *history = (plumb_history){0};
}

typedef struct events_reader {
    json_t *events;
    size_t bad;
    const char *only; /* the name of the events that are kept; NULL: of all */
    uint32_t rank;    /* put into each of those */
} events_reader;

static bool is_event(const json_t *json)
{
    return json_is_object(json) && json_is_string(json_object_get(json, "event"));
}

/* True where the reader looks for another event. */
static bool is_other(const events_reader *reader, const json_t *json)
{
    return reader->only != NULL &&
           strcmp(json_string_value(json_object_get(json, "event")), reader->only) != 0;
}

static plumb_status event_line(void *context, const char *text, size_t length,
                               plumb_error *why)
{
    events_reader *const reader = context;
    json_t *json = NULL;

    if (text != NULL && is_blank(text, length))
        return PLUMB_OK;
    if (text != NULL)
        plumb_json_parse(text, length, "line", &json, NULL);
    if (!is_event(json) || is_other(reader, json) ||
        json_array_size(reader->events) >= MOST_EVENTS) {
        reader->bad++;
        json_decref(json);
        return PLUMB_OK;
    }
    if (reader->only != NULL)
        json_object_set_new(json, "rank", json_integer(reader->rank));
    return json_array_append_new(reader->events, json) == 0
               ? PLUMB_OK
               : plumb_fail(why, PLUMB_NO_MEMORY, "no memory for events");
}

/* Of one file; steals path. */
static plumb_status read_events(char *path, events_reader *reader, plumb_error *why)
{
    plumb_cursor cursor = {0};
    const plumb_status status =
        path == NULL || reader->events == NULL
            ? plumb_fail(why, PLUMB_NO_MEMORY, "out of memory")
            : plumb_lines_read(path, &cursor, true, NULL, event_line, reader, why);

    free(path);
    return status;
}

plumb_status plumb_events_read(const char *run_dir, json_t **events, size_t *bad_lines,
                               plumb_error *why)
{
    events_reader reader = {.events = json_array()};
    const plumb_status status =
        read_events(plumb_path_join(run_dir, "events.jsonl"), &reader, why);

    *events = NULL;
    if (bad_lines != NULL)
        *bad_lines = 0;
    if (status != PLUMB_OK) {
        json_decref(reader.events);
        return status;
    }
    *events = reader.events;
    if (bad_lines != NULL)
        *bad_lines = reader.bad;
    return PLUMB_OK;
}

plumb_status plumb_events_read_ranks(const char *run_dir, const char *name, json_t **events,
                                     plumb_error *why)
{
    events_reader reader = {.events = json_array(), .only = name};
    plumb_ranks *ranks = calloc(1, sizeof *ranks);
    plumb_status status =
        ranks == NULL ? plumb_fail(why, PLUMB_NO_MEMORY, "out of memory")
                      : plumb_ranks_find(run_dir, "events-rank", ".jsonl", ranks, why);

    if (status == PLUMB_OK)
        status = read_events(plumb_path_join(run_dir, "events.jsonl"), &reader, why);
    for (size_t i = 0; status == PLUMB_OK && i < ranks->count; i++) {
        reader.rank = ranks->at[i];
        status = read_events(plumb_rank_path(run_dir, "events-rank", reader.rank, ".jsonl"),
                             &reader, why);
    }
    free(ranks);
    if (status != PLUMB_OK) {
        json_decref(reader.events);
        reader.events = NULL;
    }
    *events = reader.events;
    return status;
}

static plumb_status read_end(const char *path, const json_t *json, char reason[16],
                             int64_t *step, plumb_error *why)
{
    static const char *const known[] = {"reached", "nonfinite", "stopped", "refused",
                                        "error"};
    const char *text = json_string_value(json_object_get(json, "reason"));
    const json_t *at = json_object_get(json, "step");
    char shown[64];

    *step = json_is_integer(at) && json_integer_value(at) > 0 ? json_integer_value(at) : 0;
    for (size_t i = 0; text != NULL && i < sizeof known / sizeof known[0]; i++)
        if (strcmp(text, known[i]) == 0) {
            plumb_print(reason, 16, "%s", text);
            return PLUMB_OK;
        }
    return plumb_fail(
        why, PLUMB_BAD_INPUT,
        "%s: reason '%s'; allowed: reached nonfinite stopped refused error", path,
        text != NULL ? plumb_text_clean(text, strlen(text), shown, sizeof shown) : "");
}

plumb_status plumb_run_end_read(const char *run_dir, char reason[16], int64_t *step,
                                plumb_error *why)
{
    char *path = plumb_path_join(run_dir, "end.json");
    json_t *json = NULL;
    plumb_status status;

    reason[0] = 0;
    *step = 0;
    if (path == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
    status = plumb_json_load(path, END_LIMIT, &json, why);
    if (status == PLUMB_OK)
        status = read_end(path, json, reason, step, why);
    json_decref(json);
    free(path);
    return status;
}
