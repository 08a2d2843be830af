/* One run directory in the form of a verdict, so that a run is shown like a study: what fails by
 * the predicates that need no twin, and which sites stand out.  It never says why: one run alone
 * cannot.
 */
#include "plumb/report.h"

#include "diagnose/experiment.h"
#include "plumb/file.h"
#include "report/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A JSON string of foreign text, whatever bytes it has. */
static json_t *text_json(const char *foreign)
{
    report_text clean = {0};

    report_clean(&clean, foreign, 300, REPORT_CUT_MIDDLE, false);
    json_t *json = json_string(clean.at != NULL ? clean.at : "");
    report_text_free(&clean);
    return json;
}

typedef struct seen {
    const char *run_dir;
    plumb_history history;
    plumb_declaration declared;
    bool has_declaration;
    char reason[16]; /* "": no end.json */
    int64_t end_step;
    plumb_failure failure;
} seen;

static plumb_predicates predicates_of(const seen *s)
{
    plumb_predicates rules = {0};
    const plumb_declaration *d = &s->declared;

    if (s->has_declaration && d->unigram_entropy > 0 && isfinite(d->unigram_entropy)) {
        rules.entropy = d->unigram_entropy;
        rules.entropy_after = d->warmup_steps > 0     ? 2 * d->warmup_steps + 50
                              : d->schedule_steps > 0 ? d->schedule_steps / 2
                                                      : 500;
    }
    return rules;
}

static plumb_status look(const char *run_dir, seen *s, plumb_error *why)
{
    plumb_error none;

    *s = (seen){.run_dir = run_dir};
    const plumb_status status = plumb_history_refresh(run_dir, &s->history, true, why);

    if (status != PLUMB_OK)
        return status;
    s->has_declaration = plumb_declaration_read(run_dir, &s->declared, &none) == PLUMB_OK;
    if (!s->has_declaration && s->history.count == 0)
        return plumb_fail(why, PLUMB_NOT_FOUND,
                          "%s: neither a study (verdict.json) nor a run (run.json, "
                          "metrics.jsonl) is there",
                          run_dir);
    if (plumb_run_end_read(run_dir, s->reason, &s->end_step, &none) != PLUMB_OK)
        s->reason[0] = 0;
    const plumb_predicates rules = predicates_of(s);
    s->failure = plumb_history_judge(&s->history, &rules);
    return PLUMB_OK;
}

static void forget(seen *s)
{
    plumb_history_free(&s->history);
    if (s->has_declaration)
        plumb_declaration_free(&s->declared);
}

static int64_t last_step(const seen *s)
{
    return s->history.count > 0 ? s->history.at[s->history.count - 1].step : 0;
}

static bool is_failed(const seen *s)
{
    return s->failure.predicate != PLUMB_FAILS_NOT || strcmp(s->reason, "nonfinite") == 0;
}

static bool is_reached(const seen *s)
{
    return strcmp(s->reason, "reached") == 0;
}

static json_t *headline(const seen *s)
{
    const long long last = (long long)last_step(s);
    char text[400], how[300];

    if (s->failure.predicate != PLUMB_FAILS_NOT) {
        plumb_describe_failure(&s->failure, how, sizeof how);
        plumb_print(text, sizeof text, "The run %s.", how);
    } else if (is_failed(s)) {
        plumb_print(
            text, sizeof text,
            "The run ended at step %lld: its trainer says that a value is not finite.",
            (long long)s->end_step);
    } else if (is_reached(s)) {
        plumb_print(text, sizeof text,
                    "The run reached step %lld, and nothing in its log fails.", last);
    } else if (s->reason[0] != 0) {
        plumb_print(text, sizeof text, "The run ended at step %lld: %s.", last,
                    strcmp(s->reason, "stopped") == 0 ? "it was stopped"
                                                      : "an error of its own");
    } else {
        plumb_print(text, sizeof text,
                    "The run is at step %lld, and nothing in its log fails so far.", last);
    }
    return json_string(text);
}

static json_t *question(const seen *s)
{
    report_text words = {0};

    report_clean(&words, s->run_dir, 200, REPORT_CUT_MIDDLE, false);
    if (s->has_declaration && s->declared.trainer[0] != 0) {
        report_add(&words, ", by ");
        report_clean(&words, s->declared.trainer, 80, REPORT_CUT_END, false);
        report_add(&words, " ");
        report_clean(&words, s->declared.version, 60, REPORT_CUT_END, false);
    }
    json_t *json = json_string(words.at != NULL ? words.at : "");
    report_text_free(&words);
    return json;
}

static json_t *failure(const seen *s)
{
    char text[300];

    if (s->failure.predicate == PLUMB_FAILS_NOT)
        return json_null();
    plumb_describe_failure(&s->failure, text, sizeof text);
    return json_pack("{s:s,s:I,s:I,s:o,s:o,s:s}", "predicate",
                     plumb_predicate_name(s->failure.predicate), "step",
                     (json_int_t)s->failure.step, "decided", (json_int_t)s->failure.decided,
                     "value", plumb_json_real(s->failure.value), "threshold",
                     plumb_json_real(s->failure.threshold), "text", text);
}

static json_t *run_row(const seen *s)
{
    const char *end = is_failed(s) ? "failed" : s->reason;
    json_t *json = json_pack(
        "{s:s,s:s,s:s,s:I,s:I}", "id", "run", "label", "the run", "phase", "run",
        "start_step", (json_int_t)(s->history.count > 0 ? s->history.at[0].step - 1 : 0),
        "last_step", (json_int_t)last_step(s));
    double seconds = 0;

    for (size_t i = 0; i < s->history.count; i++)
        if (s->history.at[i].seconds > 0)
            seconds += s->history.at[i].seconds;
    if (end[0] != 0)
        json_object_set_new(json, "end", json_string(end));
    if (seconds > 0)
        json_object_set_new(json, "seconds", plumb_json_real(seconds));
    if (s->failure.predicate != PLUMB_FAILS_NOT) {
        json_object_set_new(json, "predicate",
                            json_string(plumb_predicate_name(s->failure.predicate)));
        json_object_set_new(json, "fail_step", json_integer(s->failure.step));
    }
    return json;
}

/* --- sites ----------------------------------------------------------------------- */

static void say(json_t *list, const plumb_samples *samples, const plumb_sample *s,
                const char *what, double value)
{
    report_text words = {0};

    report_print(&words, "%s: ", what);
    report_real(&words, value, 3);
    report_add(&words, " at ");
    report_clean(&words, samples->site_names[s->site], PLUMB_SITE_NAME, REPORT_CUT_MIDDLE,
                 false);
    report_print(&words, ", step %" PRIu64, s->step);
    json_array_append_new(
        list, json_pack("{s:s,s:o}", "level", "seen", "text", text_json(words.at)));
    report_text_free(&words);
}

static double part(uint64_t some, uint64_t total)
{
    return total > 0 ? (double)some / (double)total : 0;
}

/* The sites that stand out, one sentence for each statistic. */
static json_t *statements(const char *run_dir)
{
    json_t *list = json_array();
    plumb_samples samples = {0};
    const plumb_sample *least = NULL, *clipped = NULL, *lost = NULL;
    plumb_error none;

    if (plumb_samples_read(run_dir, &samples, &none) != PLUMB_OK)
        return list;
    for (size_t i = 0; i < samples.count; i++) {
        const plumb_sample *s = &samples.at[i];

        if (s->headroom > 0 && (least == NULL || s->headroom < least->headroom))
            least = s;
        if (s->saturated > 0 &&
            (clipped == NULL ||
             part(s->saturated, s->total) > part(clipped->saturated, clipped->total)))
            clipped = s;
        if (s->flushed > 0 &&
            (lost == NULL || part(s->flushed, s->total) > part(lost->flushed, lost->total)))
            lost = s;
    }
    if (least != NULL)
        say(list, &samples, least, "Least headroom", (double)least->headroom);
    if (clipped != NULL)
        say(list, &samples, clipped, "Largest part saturated",
            part(clipped->saturated, clipped->total));
    if (lost != NULL)
        say(list, &samples, lost, "Largest part flushed", part(lost->flushed, lost->total));
    plumb_samples_free(&samples);
    return list;
}

plumb_status plumb_report_run(const char *run_dir, json_t **verdict, plumb_error *why)
{
    seen s;
    const plumb_status status = look(run_dir, &s, why);

    *verdict = NULL;
    if (status != PLUMB_OK) {
        forget(&s);
        return status;
    }
    *verdict =
        json_pack("{s:s,s:o,s:s,s:i,s:o,s:o,s:o,s:[o],s:[s]}", "plumb", plumb_build_id(),
                  "question", question(&s), "verdict", "one run", "exit",
                  is_failed(&s)    ? 1
                  : is_reached(&s) ? 0
                                   : 2,
                  "headline", headline(&s), "failure", failure(&s), "statements",
                  statements(run_dir), "runs", run_row(&s), "limits",
                  "One run alone does not say why: 'plumb diagnose' asks its bf16 twin.");
    forget(&s);
    return *verdict != NULL ? PLUMB_OK
                            : plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a verdict");
}
