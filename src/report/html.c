/* report.html: one file that needs nothing else.  Verdict first, then the pictures, then what
 * was run.  Foreign text enters through report_html alone, and the page's own policy forbids
 * it to load anything.
 */
#include "plumb/report.h"

#include "plumb/file.h"
#include "report/assets.h"
#include "report/chart.h"
#include "report/fold.h"
#include "report/sentence.h"
#include "report/text.h"
#include "report/verdict.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORDS = 2000, /* columns of a foreign sentence or command */
    SITES = 40,
    ITEMS = 60, /* limits, statements */
    BARS = 60,
    WIDE_COLUMNS = 700,
    NARROW_COLUMNS = 320,
    /* A page has at most 2 MB: no row of the table starts behind this, whatever the pictures took,
     * and a list ends with these. */
    TABLE_END = 1300000,
    LIST_BYTES = 100000,
};

typedef void sentence(report_text *text, const report_verdict *v);

/* --- foreign sentences ------------------------------------------------------------- */

/* A sentence whose evidence level, "  [caused]" at its end, becomes a badge. */
static void add_sentence(report_text *html, report_text *words)
{
    const char *level = NULL;

    if (words->size > 1 && words->at[words->size - 1] == ']') {
        for (char *at = words->at; (at = strstr(at, "  [")) != NULL; at++)
            level = at;
    }
    if (level == NULL) {
        report_html(html, words->at, WORDS);
    } else {
        words->at[words->size - 1] = 0;
        words->at[level - words->at] = 0;
        report_html(html, words->at, WORDS);
        report_add(html, " <span class=\"badge\">");
        report_html(html, level + 3, 20);
        report_add(html, "</span>");
    }
    html->failed |= words->failed;
    report_text_free(words);
}

static void fact(report_text *html, const char *name, sentence *say,
                 const report_verdict *v)
{
    report_text words = {0};

    say(&words, v);
    if (words.size == 0)
        return;
    report_print(html, "<dt>%s</dt><dd>", name);
    add_sentence(html, &words);
    report_add(html, "</dd>\n");
}

/* --- the head of the page ------------------------------------------------------------ */

static void add_pieces(report_text *html, const char *const *pieces)
{
    for (; *pieces != NULL; pieces++)
        report_add(html, *pieces);
}

/* Names of sites may be broken after a slash, so that they do not break a phone's line
 * somewhere inside a word.
 */
static void add_breakable(report_text *html, const char *foreign, size_t limit)
{
    report_text escaped = {0};

    report_html(&escaped, foreign, limit);
    for (size_t i = 0; i < escaped.size; i++) {
        report_bytes(html, escaped.at + i, 1);
        if (escaped.at[i] == '/')
            report_add(html, "<wbr>");
    }
    html->failed |= escaped.failed;
    report_text_free(&escaped);
}

static void head(report_text *html, const report_verdict *v)
{
    report_text words = {0};

    report_headline(&words, v);
    report_add(html,
               "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
               "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
               "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
               "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>plumb: ");
    report_html(html, words.at, 200);
    report_add(html, "</title>\n<style>\n");
    add_pieces(html, report_style);
    report_add(html, "</style>\n</head>\n<body>\n<main>\n");
    report_print(html,
                 "<header class=\"exit%d\">\n<p class=\"kicker\"><span class=\"pill\">",
                 v->exit >= 0 && v->exit <= 3 ? (int)v->exit : 2);
    report_html(html, v->verdict != NULL ? v->verdict : "no verdict", 60);
    report_add(html, "</span> <span>plumb diagnose</span></p>\n<h1>");
    add_breakable(html, words.at, 600);
    report_add(html, "</h1>\n");
    report_text_free(&words);
    report_question(&words, v);
    if (words.size > 0) {
        report_add(html, "<p class=\"lead\">");
        report_html(html, words.at, WORDS);
        report_add(html, "</p>\n");
    }
    report_add(html, "</header>\n");
    html->failed |= words.failed;
    report_text_free(&words);
}

static void sites(report_text *html, const report_verdict *v)
{
    const size_t count = json_array_size(v->sites);

    if (count == 0)
        return;
    report_add(html, "<dt>Where</dt><dd class=\"sites\">");
    for (size_t i = 0; i < count && i < SITES; i++) {
        report_add(html, "<code>");
        report_html(html, report_string_at(v->sites, i), 300);
        report_add(html, "</code>");
    }
    if (count > SITES)
        report_print(html, "and %zu more", count - SITES);
    report_add(html, "</dd>\n");
}

static void band_words(report_text *text, const report_verdict *v)
{
    if (!v->band.has)
        return;
    if (v->band.text != NULL) {
        report_add(text, v->band.text);
    } else if (!isnan(v->band.nats)) {
        report_real(text, v->band.nats, 3);
        report_add(text, " nats");
    }
}

static void verdict_words(report_text *text, const report_verdict *v)
{
    report_verdict_words(text, v, 0);
}

/* Where the sites have a row of their own, the verdict's row does not count them. */
static void class_words(report_text *text, const report_verdict *v)
{
    report_verdict without = *v;

    without.sites = NULL;
    verdict_words(text, &without);
}

static void facts(report_text *html, const report_verdict *v)
{
    report_add(html, "<dl class=\"facts\">\n");
    fact(html, "Verdict", class_words, v);
    sites(html, v);
    fact(html, "Failure", report_failure, v);
    fact(html, "Mechanism", report_mechanism, v);
    fact(html, "Moved first", report_first_moved, v);
    fact(html, "Fix", report_fix, v);
    fact(html, "Mask", report_mask, v);
    fact(html, "Noise band", band_words, v);
    fact(html, "Cost", report_cost, v);
    report_add(html, "</dl>\n");
}

/* --- pictures -------------------------------------------------------------------- */

static void key_item(report_text *html, report_role role, const report_run *run)
{
    report_text words = {0};

    report_print(html, "<li class=\"%s\"><b>%s</b> ", report_role_class[role],
                 report_role_name[role]);
    if (run->label != NULL && strcmp(run->label, report_role_name[role]) != 0) {
        report_add(&words, run->label);
        report_add(&words, ", ");
    }
    report_outcome_words(&words, run);
    report_add(&words, run->outcome == REPORT_HELD ? " to step " : " at step ");
    report_run_step(&words, run);
    report_html(html, words.at, 160);
    report_add(html, "</li>\n");
    html->failed |= words.failed;
    report_text_free(&words);
}

static void add_pictures(report_text *html, report_text svg[2])
{
    static const char *const classes[2] = {"wide", "narrow"};

    for (int i = 0; i < 2; i++) {
        report_print(html, "<div class=\"%s\">\n", classes[i]);
        report_bytes(html, svg[i].at != NULL ? svg[i].at : "", svg[i].size);
        report_add(html, "</div>\n");
        html->failed |= svg[i].failed;
        report_text_free(&svg[i]);
    }
}

static void loss_section(report_text *html, const report_charts *c, report_text svg[2])
{
    report_add(
        html,
        "<section class=\"drawn\">\n<h2>Loss of the arms</h2>\n<p class=\"lead\">The "
        "failing "
        "run beside its bf16 twin and the arms that the verdict rests on. A cross marks "
        "a value that is not finite.</p>\n<figure>\n");
    add_pictures(html, svg);
    report_add(html, "<figcaption><ul class=\"key\">\n");
    for (int role = 0; role < REPORT_ROLES; role++)
        if (c->run[role] != NULL)
            key_item(html, (report_role)role, c->run[role]);
    report_add(html, "</ul></figcaption>\n</figure>\n</section>\n");
}

static void site_section(report_text *html, const report_charts *c, report_text svg[2])
{
    report_add(
        html,
        "<section class=\"drawn\">\n<h2>The failing site</h2>\n<p class=\"lead\"><code>");
    report_html(html, c->site, 300);
    report_add(html, "</code></p>\n<figure>\n");
    add_pictures(html, svg);
    report_add(html, "<figcaption><ul class=\"key\">\n");
    if (c->ill != NULL)
        key_item(html, REPORT_OWN, c->ill);
    if (c->well != NULL)
        key_item(html, c->well_role, c->well);
    report_add(html,
               "</ul>Headroom is the largest finite value of the format over amax times "
               "scale, of the worst block. Lines past the frame are drawn at its edge; a "
               "part that is zero throughout has no line.</figcaption>\n</figure>\n"
               "</section>\n");
}

static bool has_steps(const report_verdict *v)
{
    for (size_t i = 0; i < v->run_count; i++)
        if (v->runs[i].last_step != REPORT_NONE && v->runs[i].last_step > 0)
            return true;
    return false;
}

/* Both sizes of both pictures: the wide ones first, since thinning for the narrow ones loses
 * points.
 */
static plumb_status draw_both(report_charts *charts, report_text loss[2],
                              report_text site[2], plumb_error *why)
{
    static const size_t columns[2] = {WIDE_COLUMNS, NARROW_COLUMNS};

    for (int narrow = 0; narrow < 2; narrow++) {
        const plumb_status status = report_charts_thin(charts, columns[narrow], why);

        if (status != PLUMB_OK)
            return status;
        if (report_charts_has_loss(charts))
            report_draw_loss(&loss[narrow], charts, narrow == 1);
        if (report_charts_has_site(charts))
            report_draw_site(&site[narrow], charts, narrow == 1);
    }
    return PLUMB_OK;
}

static plumb_status drawn_sections(report_text *html, const char *study,
                                   const report_verdict *v, plumb_error *why)
{
    report_charts charts;
    report_text loss[2] = {{0}}, site[2] = {{0}};
    plumb_status status = report_charts_load(study, v, &charts, why);

    if (status != PLUMB_OK)
        return status;
    status = draw_both(&charts, loss, site, why);
    if (status == PLUMB_OK && report_charts_has_loss(&charts))
        loss_section(html, &charts, loss);
    else if (status == PLUMB_OK && has_steps(v))
        report_add(html,
                   "<section>\n<h2>Loss of the arms</h2>\n<p class=\"lead\">No picture: "
                   "the run directories are absent or cannot be read.</p>\n</section>\n");
    if (status == PLUMB_OK && report_charts_has_site(&charts))
        site_section(html, &charts, site);
    for (int i = 0; i < 2; i++) {
        report_text_free(&loss[i]);
        report_text_free(&site[i]);
    }
    report_charts_free(&charts);
    return status;
}

static void timeline(report_text *html, const report_verdict *v)
{
    bool *shown = has_steps(v) ? calloc(v->run_count, sizeof *shown) : NULL;
    report_text svg[2] = {{0}};

    if (shown == NULL) {
        html->failed |= has_steps(v);
        return;
    }
    report_fold(v->runs, v->run_count, BARS, 0, shown);
    report_draw_timeline(&svg[0], v, shown, false);
    report_draw_timeline(&svg[1], v, shown, true);
    report_add(html,
               "<section class=\"drawn\">\n<h2>What was run</h2>\n<p class=\"lead\">In the "
               "order in which "
               "it was asked for; each bar is as long as the steps it ran, and a cross is "
               "where the run failed.</p>\n<figure>\n");
    add_pictures(html, svg);
    if (v->run_count > BARS)
        report_print(html, "<figcaption>%zu more runs are in the table.</figcaption>\n",
                     v->run_count - BARS);
    report_add(html, "</figure>\n</section>\n");
    free(shown);
}

/* --- the table of runs --------------------------------------------------------------- */

static void number_cell(report_text *html, const char *head, report_text *words)
{
    report_print(html, "<td class=\"n\" data-h=\"%s\">", head);
    if (words->size > 0)
        report_add(html, words->at);
    report_add(html, "</td>");
    html->failed |= words->failed;
    report_text_free(words);
}

/* How to repeat the run: its command and, if it had any, its rules. */
static void repeat_cell(report_text *html, const report_run *run)
{
    report_text words = {0};

    report_command(&words, run->command);
    if (words.size > 0) {
        report_add(html, "<details><summary>repeat it</summary><pre class=\"paste\">");
        report_html(html, words.at, WORDS);
        report_add(html, "</pre>");
        if (json_is_array(run->rules) && json_array_size(run->rules) > 0) {
            char *rules = json_dumps(run->rules, JSON_COMPACT);

            report_add(html, "<p>rules: <code>");
            report_html(html, rules, WORDS);
            report_add(html, "</code></p>");
            html->failed |= rules == NULL;
            free(rules);
        }
        report_add(html, "</details>");
    }
    html->failed |= words.failed;
    report_text_free(&words);
}

static void seed_words(report_text *text, const json_t *seed)
{
    if (json_is_integer(seed))
        report_print(text, "%" JSON_INTEGER_FORMAT, json_integer_value(seed));
    else if (json_is_string(seed))
        report_html(text, json_string_value(seed), 24);
}

static void table_row(report_text *html, const report_run *run)
{
    report_text words = {0};

    report_add(html, "<tr><td data-h=\"phase\">");
    report_html(html, run->phase, 40);
    report_add(html, "</td><td>");
    report_html(html, run->label != NULL ? run->label : run->id, 300);
    repeat_cell(html, run);
    report_print(html, "</td><td class=\"o %s\" data-h=\"outcome\">",
                 report_outcome_class(run->outcome));
    report_outcome_words(&words, run);
    report_html(html, words.at, 60);
    report_add(html, "</td>");
    report_text_free(&words);
    report_run_step(&words, run);
    if (run->start_step != REPORT_NONE && run->start_step > 0)
        report_print(&words, " (from %" PRId64 ")", run->start_step);
    number_cell(html, "step", &words);
    if (!isnan(run->gap))
        report_fixed(&words, run->gap, 4, true);
    number_cell(html, "gap", &words);
    seed_words(&words, run->seed);
    number_cell(html, "seed", &words);
    if (run->reused)
        report_add(&words, "kept");
    else if (!isnan(run->seconds))
        report_seconds(&words, run->seconds);
    number_cell(html, "time", &words);
    report_add(html, "</tr>\n");
}

static void table(report_text *html, const report_verdict *v)
{
    size_t i = 0;

    if (v->run_count == 0)
        return;
    report_add(html, "<section>\n<h2>Every run, and how to repeat "
                     "it</h2>\n<table>\n<thead><tr><th>phase</th><th>run</th><th>outcome</"
                     "th><th class=\"n\">"
                     "step</th><th class=\"n\">gap, nats</th><th class=\"n\">seed</th>"
                     "<th class=\"n\">time</th></tr></thead>\n<tbody>\n");
    for (; i < v->run_count && html->size < TABLE_END; i++)
        table_row(html, &v->runs[i]);
    report_add(html, "</tbody>\n</table>\n");
    if (i < v->run_count)
        report_print(html, "<p class=\"lead\">%zu more runs are in verdict.json.</p>\n",
                     v->run_count - i);
    report_add(html, "</section>\n");
}

/* --- the rest of the page ------------------------------------------------------------ */

/* A list of at most so many items and bytes; the rest is counted. */
typedef void item(report_text *words, const json_t *json);

static void list(report_text *html, const char *head, const json_t *items, item *say)
{
    const size_t count = json_array_size(items), start = html->size;
    size_t i = 0;

    if (count == 0)
        return;
    report_print(html, "<section>\n<h2>%s</h2>\n<ul>\n", head);
    for (; i < count && i < ITEMS && html->size - start < LIST_BYTES; i++) {
        report_text words = {0};

        say(&words, json_array_get(items, i));
        report_add(html, "<li>");
        add_sentence(html, &words);
        report_add(html, "</li>\n");
    }
    if (i < count)
        report_print(html, "<li>%zu more are in verdict.json.</li>\n", count - i);
    report_add(html, "</ul>\n</section>\n");
}

static void limit_words(report_text *words, const json_t *json)
{
    report_add(words, json_string_value(json));
}

static void next(report_text *html, const report_verdict *v)
{
    if (v->next == NULL || *v->next == 0)
        return;
    report_add(html, "<section>\n<h2>Next</h2>\n<pre class=\"paste\">");
    report_html(html, v->next, WORDS);
    report_add(html, "</pre>\n</section>\n");
}

static void glossary(report_text *html)
{
    static const char *const words[][2] = {
        {"seen", "observed in one run"},
        {"compared", "the difference of two runs, or a replay of one"},
        {"caused",
         "a change removed the failure, and taking it back brought the failure back"},
        {"holds", "reached its last step and no failure predicate fired"},
        {"fails",
         "a failure predicate fired: the loss or the gradient norm is not finite, rose "
         "above its own minimum, or left the band around the twin"},
        {"twin", "the same seed, data and code with every low-precision site in bf16"},
        {"gap", "smoothed loss less that of the twin, in nats per token"},
        {"band", "the gap that the order of sums alone makes: less than that is noise"},
        {"headroom",
         "largest finite value of the format over amax times scale: at 1 the format "
         "is just full"},
        {"saturated", "past the largest finite value after rounding"},
        {"flushed", "not zero before the cast, zero after it"},
        {"mask",
         "a lower learning rate that lets the run survive; it hides the failure and is "
         "no fix"},
        {"horizon",
         "old failure step and the margin past it: the length of one search run"},
        {"kept", "found finished in the study; not run again"},
    };

    report_add(html, "<section>\n<h2>What the words mean</h2>\n<dl class=\"words\">\n");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        report_print(html, "<dt>%s</dt><dd>%s</dd>\n", words[i][0], words[i][1]);
    report_add(html, "</dl>\n</section>\n");
}

static void foot(report_text *html, const report_verdict *v)
{
    report_add(html, "<footer>plumb ");
    report_html(html, v->plumb != NULL ? v->plumb : plumb_build_id(), 60);
    report_text words = {0};
    report_command(&words, v->command);
    if (words.size > 0) {
        report_add(html, " on <code>");
        report_html(html, words.at, 400);
        report_add(html, "</code>");
    }
    html->failed |= words.failed;
    report_text_free(&words);
    report_add(html, "</footer>\n</main>\n<script>\n");
    add_pieces(html, report_script);
    report_add(html, "</script>\n</body>\n</html>\n");
}

static plumb_status render(report_text *html, const char *study, const report_verdict *v,
                           plumb_error *why)
{
    head(html, v);
    facts(html, v);
    const plumb_status status = drawn_sections(html, study, v, why);

    if (status != PLUMB_OK)
        return status;
    timeline(html, v);
    table(html, v);
    list(html, "What the runs showed", v->statements, report_statement);
    list(html, "What this does not claim", v->limits, limit_words);
    next(html, v);
    glossary(html);
    foot(html, v);
    if (html->failed)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the page of the verdict");
    return PLUMB_OK;
}

plumb_status plumb_report_html(const char *study, const json_t *verdict, char path[4096],
                               plumb_error *why)
{
    const int size = snprintf(path, 4096, "%s/report.html", study);
    report_text html = {0};
    report_verdict v;

    if (size < 0 || size >= 4096)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "the path of the study is too long");
    plumb_status status = report_verdict_read(verdict, &v, why);

    if (status != PLUMB_OK)
        return status;
    status = render(&html, study, &v, why);
    if (status == PLUMB_OK)
        status = plumb_file_write(path, html.at, html.size, why);
    report_text_free(&html);
    report_verdict_free(&v);
    return status;
}
