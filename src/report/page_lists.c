/* The words at the end of the page: statements, limits, what to do next, what the words mean. */
#include "report/assets.h"
#include "report/page.h"
#include "report/sentence.h"

enum { ITEMS = 60, LIST_BYTES = 100000 };

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
        report_page_sentence(html, &words);
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
    report_html(html, v->next, REPORT_WORDS);
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

void report_page_lists(report_text *html, const report_verdict *v)
{
    list(html, "What the runs showed", v->statements, report_statement);
    list(html, "What this does not claim", v->limits, limit_words);
    next(html, v);
    glossary(html);
}

void report_page_foot(report_text *html, const report_verdict *v)
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
    report_add(html, report_script);
    report_add(html, report_spectra_script);
    report_add(html, "</script>\n</body>\n</html>\n");
}
