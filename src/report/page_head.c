/* The head of the page and the facts under it: what a reader needs if he reads nothing else. */
#include "report/assets.h"
#include "report/page.h"
#include "report/sentence.h"

#include <math.h>
#include <string.h>

enum { SITES = 40 };

typedef void sentence(report_text *text, const report_verdict *v);

/* A sentence whose evidence level, "  [caused]" at its end, becomes a badge. */
void report_page_sentence(report_text *html, report_text *words)
{
    const char *level = NULL;

    if (words->size > 1 && words->at[words->size - 1] == ']') {
        for (char *at = words->at; (at = strstr(at, "  [")) != NULL; at++)
            level = at;
    }
    if (level == NULL) {
        report_html(html, words->at, REPORT_WORDS);
    } else {
        words->at[words->size - 1] = 0;
        words->at[level - words->at] = 0;
        report_html(html, words->at, REPORT_WORDS);
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
    report_page_sentence(html, &words);
    report_add(html, "</dd>\n");
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

void report_page_head(report_text *html, const report_verdict *v, const char *kicker)
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
    report_add(html, report_style);
    report_add(html, "</style>\n</head>\n<body>\n<main>\n");
    report_print(html,
                 "<header class=\"exit%d\">\n<p class=\"kicker\"><span class=\"pill\">",
                 v->exit >= 0 && v->exit <= 3 ? (int)v->exit : 2);
    report_html(html, v->verdict != NULL ? v->verdict : "no verdict", 60);
    report_print(html, "</span> <span>%s</span></p>\n<h1>", kicker);
    add_breakable(html, words.at, 600);
    report_add(html, "</h1>\n");
    report_text_free(&words);
    report_question(&words, v);
    if (words.size > 0) {
        report_add(html, "<p class=\"lead\">");
        report_html(html, words.at, REPORT_WORDS);
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

void report_page_facts(report_text *html, const report_verdict *v)
{
    report_add(html, "<dl class=\"facts\">\n");
    /* Without a class and sites it would only say what stands at the head. */
    if (v->class_ != NULL || v->classes != NULL || v->sites != NULL)
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
