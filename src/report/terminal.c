/* The verdict on one screen.  The most important line is the first; everything foreign is cleaned
 * before it is measured, and measured before it is coloured, so that columns stay columns.
 */
#include "plumb/report.h"

#include "report/fold.h"
#include "report/sentence.h"
#include "report/text.h"
#include "report/verdict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    GUTTER = 13,
    REFUSAL_LINES = 12, /* what the trainer said is all that there is to show */
    RUN_ROWS = 14,
    GAPS = 4, /* places where a folded line may stand; more of them become one at the end */
    LIMITS = 3,
    STATEMENTS = 3,
};

typedef enum style { PLAIN, BOLD, DIM, RED, GREEN, YELLOW, CYAN } style;

typedef struct page {
    report_text text;
    size_t width;
    bool color, ascii;
} page;

static void paint(page *p, style s, const char *clean)
{
    static const char *const codes[] = {"", "1", "2", "1;31", "1;32", "1;33", "36"};

    if (p->color && s != PLAIN && *clean != 0)
        report_print(&p->text, "\x1b[%sm", codes[s]);
    report_add(&p->text, clean);
    if (p->color && s != PLAIN && *clean != 0)
        report_add(&p->text, "\x1b[0m");
}

static void newline(page *p)
{
    report_add(&p->text, "\n");
}

/* Pads or cuts to exactly columns. */
static void cell(page *p, style s, const char *foreign, size_t columns, bool right)
{
    report_text clean = {0};

    report_clean(&clean, foreign, columns, REPORT_CUT_MIDDLE, p->ascii);
    const char *words = clean.at != NULL ? clean.at : "";
    const size_t used = report_columns(words);
    const size_t pad = used < columns ? columns - used : 0;

    if (right)
        report_spaces(&p->text, pad);
    paint(p, s, words);
    if (!right)
        report_spaces(&p->text, pad);
    p->text.failed |= clean.failed;
    report_text_free(&clean);
}

/* The line so far without the blanks at its end. */
static void end_line(page *p)
{
    while (p->text.size > 0 && p->text.at[p->text.size - 1] == ' ')
        p->text.at[--p->text.size] = 0;
    newline(p);
}

/* Foreign words, broken at spaces, at most `lines` lines that start at column indent; the first
 * one starts where the page is.
 */
static void wrap(page *p, style s, const char *foreign, size_t indent, size_t lines)
{
    const size_t columns = p->width > indent + 20 ? p->width - indent : 20;
    report_text clean = {0};

    report_clean(&clean, foreign, columns * lines, REPORT_CUT_END, p->ascii);
    const char *at = clean.at != NULL ? clean.at : "";
    for (size_t i = 0; *at != 0; i++) {
        const size_t bytes = report_line_break(at, columns);
        report_text line = {0};

        if (i > 0)
            report_spaces(&p->text, indent);
        if (i + 1 == lines) {
            report_clean(&line, at, columns, REPORT_CUT_END, p->ascii);
            at = "";
        } else {
            report_bytes(&line, at, bytes);
            at += bytes;
            while (*at == ' ')
                at++;
        }
        paint(p, s, line.at != NULL ? line.at : "");
        end_line(p);
        p->text.failed |= line.failed;
        report_text_free(&line);
    }
    if (clean.at == NULL || *clean.at == 0)
        newline(p);
    p->text.failed |= clean.failed;
    report_text_free(&clean);
}

/* A labelled paragraph; nothing when there are no words.  Takes the words. */
static void section(page *p, style s, const char *label, report_text *words, size_t lines)
{
    if (words->size > 0) {
        cell(p, s, label, GUTTER, false);
        wrap(p, PLAIN, words->at, GUTTER, lines);
    }
    p->text.failed |= words->failed;
    report_text_free(words);
}

/* --- parts, in their order on the screen ------------------------------------------- */

static style style_of_exit(const report_verdict *v)
{
    return v->exit == 0 ? GREEN : v->exit == 1 ? RED : YELLOW;
}

static void headline(page *p, const report_verdict *v)
{
    report_text words = {0};

    report_headline(&words, v);
    wrap(p, style_of_exit(v), words.at, 0, v->exit == 3 ? REFUSAL_LINES : 3);
    p->text.failed |= words.failed;
    report_text_free(&words);
    newline(p);
}

static void question(page *p, const report_verdict *v)
{
    report_text words = {0};

    report_question(&words, v);
    section(p, BOLD, "question", &words, 2);
    report_failure(&words, v);
    section(p, BOLD, "failure", &words, 2);
}

/* Columns of the table.  A narrow screen goes without the time, then the gap, then the step;
 * the name gets what is left.
 */
enum { OUTCOME = 18, STEP = 7, GAP = 9, TIME = 11 };

typedef struct columns {
    size_t name, step, gap, time;
} columns;

static columns columns_for(size_t width)
{
    columns c = {.step = width >= 60 ? STEP : 0,
                 .gap = width >= 70 ? GAP : 0,
                 .time = width >= 90 ? TIME : 0};

    c.name = width - GUTTER - 1 - OUTCOME - c.step - c.gap - c.time;
    return c;
}

static void run_head(page *p)
{
    const columns c = columns_for(p->width);

    cell(p, DIM, "phase", GUTTER, false);
    cell(p, DIM, "run", c.name, false);
    report_add(&p->text, " ");
    cell(p, DIM, "outcome", OUTCOME, false);
    cell(p, DIM, "step", c.step, true);
    cell(p, DIM, "gap", c.gap, true);
    cell(p, DIM, "time", c.time, true);
    end_line(p);
}

static void run_row(page *p, const report_run *run)
{
    const columns c = columns_for(p->width);
    const style s = run->outcome == REPORT_FAILED ? RED
                    : run->outcome == REPORT_HELD ? GREEN
                                                  : YELLOW;
    report_text words = {0};

    cell(p, DIM, run->phase != NULL ? run->phase : "", GUTTER - 1, false);
    report_add(&p->text, " ");
    cell(p, PLAIN, run->label != NULL ? run->label : run->id, c.name, false);
    report_add(&p->text, " ");
    report_outcome_words(&words, run);
    cell(p, s, words.at, OUTCOME, false);
    report_text_free(&words);
    report_run_step(&words, run);
    cell(p, PLAIN, words.at, c.step, true);
    report_text_free(&words);
    if (fabs(run->gap) >= 1e4) /* more digits than the column has room for */
        report_real(&words, run->gap, 3);
    else if (!isnan(run->gap))
        report_fixed(&words, run->gap, 3, true);
    cell(p, PLAIN, words.at, c.gap, true);
    report_text_free(&words);
    if (run->reused)
        report_add(&words, "kept");
    else if (!isnan(run->seconds))
        report_seconds(&words, run->seconds);
    cell(p, DIM, words.at, c.time, true);
    report_text_free(&words);
    end_line(p);
}

static void folded(page *p, const report_verdict *v, const bool *shown, size_t first,
                   size_t last)
{
    report_text words = {0};

    report_spaces(&p->text, GUTTER);
    report_add(&words, "... ");
    report_folded_words(&words, v->runs, shown, first, last);
    wrap(p, DIM, words.at, GUTTER, 1);
    report_text_free(&words);
}

static size_t count_gaps(const bool *shown, size_t count)
{
    size_t gaps = 0;

    for (size_t i = 0; i < count; i++)
        gaps += !shown[i] && (i == 0 || shown[i - 1]);
    return gaps;
}

static void runs(page *p, const report_verdict *v)
{
    bool *shown = v->run_count > 0 ? calloc(v->run_count, sizeof *shown) : NULL;
    size_t gap_start = 0;

    if (shown == NULL) {
        p->text.failed |= v->run_count > 0;
        return;
    }
    report_fold(v->runs, v->run_count, RUN_ROWS, GAPS, shown);
    const bool in_place = count_gaps(shown, v->run_count) <= GAPS;
    newline(p);
    run_head(p);
    for (size_t i = 0; i < v->run_count; i++) {
        if (!shown[i])
            continue;
        if (in_place && gap_start < i)
            folded(p, v, shown, gap_start, i);
        gap_start = i + 1;
        run_row(p, &v->runs[i]);
    }
    if (!in_place)
        folded(p, v, shown, 0, v->run_count);
    else if (gap_start < v->run_count)
        folded(p, v, shown, gap_start, v->run_count);
    free(shown);
    newline(p);
}

static void findings(page *p, const report_verdict *v)
{
    report_text words = {0};

    report_verdict_words(&words, v, 3);
    section(p, style_of_exit(v), "VERDICT", &words, 3);
    report_mechanism(&words, v);
    section(p, BOLD, "MECHANISM", &words, 3);
    report_first_moved(&words, v);
    section(p, BOLD, "MOVED FIRST", &words, 2);
    report_fix(&words, v);
    section(p, BOLD, "FIX", &words, 3);
    report_mask(&words, v);
    section(p, BOLD, "MASK", &words, 2);
    report_cost(&words, v);
    section(p, BOLD, "COST", &words, 2);
}

static bool is_said_by_mask(const report_verdict *v, const json_t *statement)
{
    const char *text = json_string_value(json_object_get(statement, "text"));

    return v->mask.has && v->mask.text != NULL && text != NULL &&
           strcmp(text, v->mask.text) == 0;
}

/* What the runs showed last, where no mechanism says it better. */
static void statements(page *p, const report_verdict *v)
{
    const size_t count = json_array_size(v->statements);
    const size_t first = count > STATEMENTS ? count - STATEMENTS : 0;
    const char *label = "FOUND";

    if (v->mechanism.has)
        return;
    for (size_t i = first; i < count; i++) {
        const json_t *statement = json_array_get(v->statements, i);
        report_text words = {0};

        if (is_said_by_mask(v, statement))
            continue;
        report_statement(&words, statement);
        section(p, BOLD, label, &words, 2);
        label = "";
    }
}

static void limits(page *p, const report_verdict *v)
{
    const size_t count = json_array_size(v->limits);
    const size_t show = count <= LIMITS ? count : LIMITS;

    for (size_t i = 0; i < show; i++) {
        report_text words = {0};

        report_add(&words, report_string_at(v->limits, i));
        section(p, DIM, i == 0 ? "limits" : "", &words, 2);
    }
    if (count > show) {
        report_text words = {0};

        report_print(&words, "... %zu more in report.html", count - show);
        section(p, DIM, "", &words, 1);
    }
}

static void next(page *p, const report_verdict *v)
{
    if (v->next == NULL || *v->next == 0)
        return;
    newline(p);
    paint(p, BOLD, "next: ");
    /* To be pasted: not cut at the width, but bounded. */
    report_text clean = {0};
    report_clean(&clean, v->next, 1000, REPORT_CUT_END, p->ascii);
    paint(p, CYAN, clean.at != NULL ? clean.at : "");
    report_text_free(&clean);
    newline(p);
}

static size_t clamp_width(int width)
{
    return width <= 0 ? 100 : width < 40 ? 40 : width > 200 ? 200 : (size_t)width;
}

plumb_status plumb_report_terminal(const plumb_screen *screen, const json_t *verdict,
                                   plumb_error *why)
{
    page p = {.width = clamp_width(screen->width),
              .color = screen->color,
              .ascii = !screen->unicode};
    report_verdict v;
    plumb_status status = report_verdict_read(verdict, &v, why);

    if (status != PLUMB_OK)
        return status;
    headline(&p, &v);
    question(&p, &v);
    runs(&p, &v);
    findings(&p, &v);
    statements(&p, &v);
    limits(&p, &v);
    next(&p, &v);
    if (p.text.failed)
        status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the text of the verdict");
    else if (fwrite(p.text.at, 1, p.text.size, screen->out) != p.text.size ||
             fflush(screen->out) != 0)
        status = plumb_fail(why, PLUMB_IO, "the verdict could not be written out");
    report_text_free(&p.text);
    report_verdict_free(&v);
    return status;
}
