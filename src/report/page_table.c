/* The table of runs, each with the command that repeats it. */
#include "report/page.h"
#include "report/sentence.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

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
        report_html(html, words.at, REPORT_WORDS);
        report_add(html, "</pre>");
        if (json_is_array(run->rules) && json_array_size(run->rules) > 0) {
            char *rules = json_dumps(run->rules, JSON_COMPACT);

            report_add(html, "<p>rules: <code>");
            report_html(html, rules, REPORT_WORDS);
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

void report_page_table(report_text *html, const report_verdict *v)
{
    size_t i = 0;

    if (v->run_count == 0)
        return;
    report_add(html, "<section>\n<h2>Every run, and how to repeat "
                     "it</h2>\n<table>\n<thead><tr><th>phase</th><th>run</th><th>outcome</"
                     "th><th class=\"n\">"
                     "step</th><th class=\"n\">gap, nats</th><th class=\"n\">seed</th>"
                     "<th class=\"n\">time</th></tr></thead>\n<tbody>\n");
    for (; i < v->run_count && html->size < REPORT_TABLE_END; i++)
        table_row(html, &v->runs[i]);
    report_add(html, "</tbody>\n</table>\n");
    if (i < v->run_count)
        report_print(html, "<p class=\"lead\">%zu more runs are in verdict.json.</p>\n",
                     v->run_count - i);
    report_add(html, "</section>\n");
}
