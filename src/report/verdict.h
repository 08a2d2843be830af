/* verdict.h - verdict.json (plumb/diagnose.h) as a struct, read tolerantly.
 *
 * A member that is missing or null is left out: NULL, NaN or REPORT_NONE.  A member of the
 * wrong type is PLUMB_BAD_INPUT and named.  Strings belong to the JSON document and are foreign
 * text: they go out through report_clean and report_html only.
 */
#ifndef REPORT_VERDICT_H
#define REPORT_VERDICT_H

#include <jansson.h>

#include "plumb/base.h"
#include "report/text.h"

#define REPORT_NONE INT64_MIN

/* How a run ended, as far as a reader cares. */
typedef enum report_outcome {
    REPORT_HELD,   /* reached its last step and no predicate fired */
    REPORT_FAILED, /* a failure predicate fired */
    REPORT_BROKEN, /* no training result: refused, died, silent, did not start */
    REPORT_OPEN,   /* nothing is said */
} report_outcome;

typedef struct report_run {
    const char *id, *label, *phase, *text, *end, *predicate;
    const json_t *seed, *rules, *command;
    int64_t start_step, last_step, stop_at, fail_step;
    double gap, seconds, horizons;
    bool reused;
    report_outcome outcome;
} report_run;

typedef struct report_verdict {
    const char *plumb, *question, *verdict, *headline, *class_, *scope, *next;
    const json_t *command, *classes, *sites, *limits; /* arrays of strings */
    int64_t exit;
    struct {
        bool has;
        const char *predicate, *text;
        int64_t step, decided;
        double value, threshold;
    } failure;
    struct {
        bool has;
        const char *name, *text, *level;
    } mechanism;
    struct {
        bool has;
        const char *site, *statistic, *text;
        int64_t step, lead;
        double value, least, most;
    } first_moved;
    struct {
        bool has;
        const json_t *rules;
        const char *text, *level;
        int64_t held, of, past_step, returned_at;
    } fix;
    struct {
        bool has, survived, says_survived;
        const char *text;
    } mask;
    struct {
        bool has;
        double nats;
        const char *text;
    } band;
    struct {
        bool has;
        double horizon_steps, search, proof, seconds, planned;
    } cost;
    const json_t *statements; /* array of objects; level and text are checked */
    report_run *runs;
    size_t run_count;
} report_verdict;

/* Reads json; free with report_verdict_free while json is still alive.  At most 100,000 runs. */
plumb_status report_verdict_read(const json_t *json, report_verdict *verdict,
                                 plumb_error *why);
void report_verdict_free(report_verdict *verdict);

/* STUDY/runs/ID/run.  False where it has no id: ids come from verdict.json, so one that could
 * leave the study is none.
 */
bool report_run_directory(const char *study, const report_run *run, char path[4096]);

/* A search phase asks what heals; "heals" is said of its runs only. */
bool report_is_search(const report_run *run);
bool report_is_phase(const report_run *run, const char *phase);

/* "fails, rise", "holds", "refused" ...: trusted words around foreign ones, not yet clean. */
void report_outcome_words(report_text *text, const report_run *run);

/* A command as it can be pasted: a string as it is, an array quoted for sh.  Foreign. */
void report_command(report_text *text, const json_t *command);

/* The i-th string of an array of strings. */
const char *report_string_at(const json_t *array, size_t i);

#endif
