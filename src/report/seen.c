/* A run directory read again and again; what a single run can be judged by. */
#include "report/seen.h"

#include "diagnose/experiment.h"

#include <math.h>
#include <string.h>

static plumb_predicates predicates_of(const report_seen *s)
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

plumb_status report_seen_refresh(report_seen *s, bool final, plumb_error *why)
{
    plumb_error none;

    /* The end first: all lines that it speaks of are there when it is. */
    if (s->reason[0] == 0 &&
        plumb_run_end_read(s->run_dir, s->reason, &s->end_step, &none) != PLUMB_OK)
        s->reason[0] = 0;
    const plumb_status status =
        plumb_history_refresh(s->run_dir, &s->history, final || s->reason[0] != 0, why);

    if (status != PLUMB_OK)
        return status;
    if (!s->has_declaration)
        s->has_declaration =
            plumb_declaration_read(s->run_dir, &s->declared, &none) == PLUMB_OK;
    const plumb_predicates rules = predicates_of(s);
    s->failure = plumb_history_judge(&s->history, &rules);
    return PLUMB_OK;
}

void report_seen_free(report_seen *s)
{
    plumb_history_free(&s->history);
    if (s->has_declaration)
        plumb_declaration_free(&s->declared);
    *s = (report_seen){0};
}

int64_t report_seen_last_step(const report_seen *s)
{
    return s->history.count > 0 ? s->history.at[s->history.count - 1].step : 0;
}

bool report_seen_failed(const report_seen *s)
{
    return s->failure.predicate != PLUMB_FAILS_NOT || strcmp(s->reason, "nonfinite") == 0;
}

bool report_seen_reached(const report_seen *s)
{
    return strcmp(s->reason, "reached") == 0;
}

int report_seen_exit(const report_seen *s)
{
    return report_seen_failed(s) ? 1 : report_seen_reached(s) ? 0 : 2;
}

void report_seen_headline(const report_seen *s, char text[REPORT_SEEN_WORDS])
{
    const long long last = (long long)report_seen_last_step(s);
    const size_t size = REPORT_SEEN_WORDS;
    char how[300];

    if (s->failure.predicate != PLUMB_FAILS_NOT) {
        plumb_describe_failure(&s->failure, how, sizeof how);
        plumb_print(text, size, "The run %s.", how);
    } else if (report_seen_failed(s)) {
        plumb_print(
            text, size,
            "The run ended at step %lld: its trainer says that a value is not finite.",
            (long long)s->end_step);
    } else if (report_seen_reached(s)) {
        plumb_print(text, size, "The run reached step %lld, and nothing in its log fails.",
                    last);
    } else if (s->reason[0] != 0) {
        plumb_print(text, size, "The run ended at step %lld: %s.", last,
                    strcmp(s->reason, "stopped") == 0 ? "it was stopped"
                                                      : "an error of its own");
    } else {
        plumb_print(text, size,
                    "The run is at step %lld, and nothing in its log fails so far.", last);
    }
}
