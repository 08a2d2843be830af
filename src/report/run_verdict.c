/* One run directory in the form of a verdict, so that a run is shown like a study: what fails by
 * the predicates that need no twin, and which sites stand out.  It never says why: one run alone
 * cannot.
 */
#include "plumb/report.h"

#include "diagnose/experiment.h"
#include "plumb/file.h"
#include "report/seen.h"
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

static json_t *question(const report_seen *s)
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

static json_t *failure(const report_seen *s)
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

static json_t *run_row(const report_seen *s)
{
    const char *end = report_seen_failed(s) ? "failed" : s->reason;
    json_t *json = json_pack(
        "{s:s,s:s,s:s,s:I,s:I}", "id", "run", "label", "the run", "phase", "run",
        "start_step", (json_int_t)(s->history.count > 0 ? s->history.at[0].step - 1 : 0),
        "last_step", (json_int_t)report_seen_last_step(s));
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

static plumb_status look(report_seen *s, plumb_error *why)
{
    const plumb_status status = report_seen_refresh(s, true, why);

    if (status == PLUMB_OK && !s->has_declaration && s->history.count == 0)
        return plumb_fail(why, PLUMB_NOT_FOUND,
                          "%s: neither a study (verdict.json) nor a run (run.json, "
                          "metrics.jsonl) is there",
                          s->run_dir);
    return status;
}

plumb_status plumb_report_run(const char *run_dir, json_t **verdict, plumb_error *why)
{
    report_seen s = {.run_dir = run_dir};
    const plumb_status status = look(&s, why);
    char headline[REPORT_SEEN_WORDS];

    *verdict = NULL;
    if (status == PLUMB_OK) {
        report_seen_headline(&s, headline);
        *verdict = json_pack(
            "{s:s,s:o,s:s,s:i,s:s,s:o,s:o,s:[o],s:[s]}", "plumb", plumb_build_id(),
            "question", question(&s), "verdict", "one run", "exit", report_seen_exit(&s),
            "headline", headline, "failure", failure(&s), "statements", statements(run_dir),
            "runs", run_row(&s), "limits",
            "One run alone does not say why: 'plumb diagnose' asks its bf16 twin.");
    }
    report_seen_free(&s);
    if (status != PLUMB_OK || *verdict != NULL)
        return status;
    return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a verdict");
}
