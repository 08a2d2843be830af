/* The verdict's parts as plain sentences.  The author of a verdict may have written the sentence
 * (text); numbers that stand beside it are added in fixed words.
 */
#include "report/sentence.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool says(const char *text)
{
    return text != NULL && *text != 0;
}

static void add_if(report_text *text, const char *foreign)
{
    if (foreign != NULL)
        report_add(text, foreign);
}

/* Appends the author's sentence without its full stop, so that a clause can follow. */
static void add_open(report_text *text, const char *foreign)
{
    size_t size = foreign != NULL ? strlen(foreign) : 0;

    while (size > 0 && (foreign[size - 1] == '.' || foreign[size - 1] == ' '))
        size--;
    if (size > 0)
        report_bytes(text, foreign, size);
}

static void separate(report_text *text, size_t start, const char *with)
{
    if (text->size > start)
        report_add(text, with);
}

static void add_level(report_text *text, const char *level)
{
    if (!says(level) || text->size == 0)
        return;
    report_add(text, "  [");
    report_add(text, level);
    report_add(text, "]");
}

static void add_step(report_text *text, int64_t step)
{
    report_print(text, "%" PRId64, step);
}

void report_headline(report_text *text, const report_verdict *v)
{
    if (says(v->headline))
        report_add(text, v->headline);
    else if (says(v->verdict))
        report_add(text, v->verdict);
    else
        report_add(text, "no verdict: the document does not say one");
}

void report_question(report_text *text, const report_verdict *v)
{
    if (says(v->question))
        report_add(text, v->question);
    else
        report_command(text, v->command);
}

void report_failure(report_text *text, const report_verdict *v)
{
    const size_t start = text->size;

    if (!v->failure.has)
        return;
    if (says(v->failure.text))
        add_open(text, v->failure.text);
    else
        add_if(text, v->failure.predicate);
    if (v->failure.step != REPORT_NONE && !says(v->failure.text)) {
        separate(text, start, " ");
        report_add(text, "from step ");
        add_step(text, v->failure.step);
    }
    if (v->failure.decided != REPORT_NONE && v->failure.decided > v->failure.step) {
        separate(text, start, "; ");
        report_add(text, "certain at step ");
        add_step(text, v->failure.decided);
    }
}

static void add_classes(report_text *text, const report_verdict *v)
{
    const size_t count = json_array_size(v->classes);

    if (count > 1) {
        report_add(text, ", classes ");
        for (size_t i = 0; i < count && i < 8; i++) {
            if (i > 0)
                report_add(text, i + 1 == count ? " and " : ", ");
            report_add(text, report_string_at(v->classes, i));
        }
    } else if (says(v->class_)) {
        report_add(text, ", class ");
        report_add(text, v->class_);
    }
}

void report_verdict_words(report_text *text, const report_verdict *v, size_t sites)
{
    const size_t count = json_array_size(v->sites);

    if (!says(v->verdict))
        return;
    report_add(text, v->verdict);
    add_classes(text, v);
    for (size_t i = 0; i < count && i < sites; i++) {
        report_add(text, i == 0 ? ": " : ", ");
        /* A name of 10 kB must not push the others off the screen. */
        report_clean(text, report_string_at(v->sites, i), 160, REPORT_CUT_MIDDLE, false);
    }
    if (count > sites)
        report_print(text, " and %zu more", count - sites);
    if (v->fix.has)
        add_level(text, v->fix.level);
}

void report_mechanism(report_text *text, const report_verdict *v)
{
    const size_t start = text->size;

    if (!v->mechanism.has)
        return;
    add_if(text, v->mechanism.name);
    if (says(v->mechanism.text)) {
        separate(text, start, ": ");
        report_add(text, v->mechanism.text);
    }
    add_level(text, v->mechanism.level);
}

static void add_range(report_text *text, double value, double least, double most)
{
    if (isnan(value))
        return;
    report_add(text, " ");
    report_real(text, value, 3);
    if (isnan(least) || isnan(most))
        return;
    report_add(text, " (clean arm: ");
    report_real(text, least, 3);
    report_add(text, " to ");
    report_real(text, most, 3);
    report_add(text, ")");
}

void report_first_moved(report_text *text, const report_verdict *v)
{
    const size_t start = text->size;

    if (!v->first_moved.has)
        return;
    if (says(v->first_moved.text)) {
        add_open(text, v->first_moved.text);
    } else {
        add_if(text, v->first_moved.site);
        separate(text, start, " ");
        add_if(text, v->first_moved.statistic);
        add_range(text, v->first_moved.value, v->first_moved.least, v->first_moved.most);
    }
    if (v->first_moved.lead != REPORT_NONE && !says(v->first_moved.text)) {
        separate(text, start, ", ");
        add_step(text, v->first_moved.lead);
        report_add(text, v->first_moved.lead == 1 ? " step" : " steps");
        report_add(text, " before the failure");
    }
}

void report_fix(report_text *text, const report_verdict *v)
{
    const size_t start = text->size;

    if (!v->fix.has)
        return;
    add_open(text, v->fix.text);
    if (v->fix.held != REPORT_NONE && v->fix.of != REPORT_NONE) {
        separate(text, start, "; ");
        report_print(text, "held on %" PRId64 " of %" PRId64 " seed%s", v->fix.held,
                     v->fix.of, v->fix.of == 1 ? "" : "s");
    }
    if (v->fix.past_step != REPORT_NONE) {
        separate(text, start, v->fix.held != REPORT_NONE ? " " : "; ");
        report_add(text, "to step ");
        add_step(text, v->fix.past_step);
    }
    if (v->fix.returned_at > 0) {
        separate(text, start, "; ");
        report_add(text, "without it the failure returns at step ");
        add_step(text, v->fix.returned_at);
    }
    add_level(text, v->fix.level);
}

void report_mask(report_text *text, const report_verdict *v)
{
    if (!v->mask.has)
        return;
    if (says(v->mask.text))
        report_add(text, v->mask.text);
    else if (v->mask.says_survived)
        report_add(text, v->mask.survived
                             ? "a lower learning rate survives: masked, not a fix"
                             : "a lower learning rate fails all the same");
}

void report_cost(report_text *text, const report_verdict *v)
{
    const double search = v->cost.search, proof = v->cost.proof;

    /* Before the failure is known there is no horizon to count in. */
    if (!v->cost.has || v->cost.horizon_steps <= 0)
        return;
    if (!isnan(search) || !isnan(proof)) {
        report_fixed(text, (isnan(search) ? 0 : search) + (isnan(proof) ? 0 : proof), 1,
                     false);
        report_add(text, " horizons");
    }
    if (!isnan(v->cost.horizon_steps)) {
        report_add(text, text->size > 0 ? " of " : "horizon of ");
        report_real(text, v->cost.horizon_steps, 9);
        report_add(text, " steps");
    }
    if (!isnan(search)) {
        report_add(text, ": search ");
        report_fixed(text, search, 1, false);
    }
    if (!isnan(proof)) {
        report_add(text, isnan(search) ? ": proof " : ", proof ");
        report_fixed(text, proof, 1, false);
    }
    if (!isnan(v->cost.planned)) {
        report_add(text, "; planned ");
        report_fixed(text, v->cost.planned, 1, false);
    }
    if (!isnan(v->cost.seconds)) {
        report_add(text, text->size > 0 ? "; " : "");
        report_seconds(text, v->cost.seconds);
    }
}

void report_statement(report_text *text, const json_t *statement)
{
    add_if(text, json_string_value(json_object_get(statement, "text")));
    add_level(text, json_string_value(json_object_get(statement, "level")));
}

void report_run_step(report_text *text, const report_run *run)
{
    if (run->outcome == REPORT_FAILED && run->fail_step != REPORT_NONE &&
        run->fail_step > 0)
        add_step(text, run->fail_step);
    else if (run->last_step != REPORT_NONE && run->last_step > 0)
        add_step(text, run->last_step);
}
