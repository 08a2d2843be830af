/* The search as a tree: what was asked at each level, which arms healed, and below the one that
 * healed last, what was asked next.  Nested lists, so it reads the same on a phone and on paper.
 */
#include "report/page.h"
#include "report/sentence.h"

enum { ARMS = 16 };

static const struct level {
    const char *phase, *question;
} levels[] = {
    {"class", "Which class, cast back alone, heals?"},
    {"layer", "Which layer?"},
    {"operand", "Which operand?"},
    {"mechanism", "What about its format or scale?"},
};
enum { LEVELS = sizeof levels / sizeof levels[0] };

static size_t count_of(const report_verdict *v, size_t level, const report_run **healed)
{
    size_t count = 0;

    *healed = NULL;
    for (size_t i = 0; i < v->run_count; i++) {
        const report_run *run = &v->runs[i];

        if (!report_is_phase(run, levels[level].phase))
            continue;
        count++;
        if (run->outcome == REPORT_HELD)
            *healed = run;
    }
    return count;
}

static void arm_words(report_text *html, const report_run *run)
{
    report_text words = {0};

    report_html(html, run->label != NULL ? run->label : run->id, 300);
    if (run->outcome == REPORT_HELD) {
        report_add(&words, "heals");
    } else {
        report_outcome_words(&words, run);
        if (run->outcome == REPORT_FAILED) {
            report_add(&words, " at step ");
            report_run_step(&words, run);
        }
    }
    report_add(html, " <span>");
    report_html(html, words.at, 80);
    report_add(html, "</span>");
    html->failed |= words.failed;
    report_text_free(&words);
}

static void add_levels(report_text *html, const report_verdict *v, size_t level);

/* The arms of a level; all that healed are shown, of the others the first ones. */
static void add_arms(report_text *html, const report_verdict *v, size_t level, size_t count,
                     const report_run *healed)
{
    size_t shown = 0;

    for (size_t i = 0; i < v->run_count; i++) {
        const report_run *run = &v->runs[i];

        if (!report_is_phase(run, levels[level].phase) || (shown >= ARMS && run != healed))
            continue;
        shown++;
        report_print(html, "<li class=\"%s\">", report_outcome_class(run->outcome));
        arm_words(html, run);
        if (run == healed)
            add_levels(html, v, level + 1);
        report_add(html, "</li>\n");
    }
    if (shown < count)
        report_print(html, "<li class=\"open\">%zu more are in the table.</li>\n",
                     count - shown);
}

/* This level, or the next one that was asked. */
static void add_levels(report_text *html, const report_verdict *v, size_t level)
{
    const report_run *healed;
    size_t count = 0;

    while (level < LEVELS && (count = count_of(v, level, &healed)) == 0)
        level++;
    if (level == LEVELS)
        return;
    report_print(html, "\n<p>%s</p>\n<ul>\n", levels[level].question);
    add_arms(html, v, level, count, healed);
    report_add(html, "</ul>\n");
    if (healed == NULL)
        add_levels(html, v, level + 1);
}

void report_page_tree(report_text *html, const report_verdict *v)
{
    const report_run *own = NULL, *healed;
    size_t asked = 0;

    for (size_t level = 0; level < LEVELS; level++)
        asked += count_of(v, level, &healed);
    if (asked == 0)
        return;
    for (size_t i = 0; i < v->run_count && own == NULL; i++)
        if (report_is_phase(&v->runs[i], "repeat"))
            own = &v->runs[i];
    report_add(
        html,
        "<section>\n<h2>The search</h2>\n<p class=\"lead\">Each arm is the run itself "
        "with some sites cast back. A full mark heals; a cross still fails.</p>\n"
        "<ul class=\"tree\">\n<li class=\"failed\">");
    if (own != NULL)
        arm_words(html, own);
    else
        report_add(html, "the run itself");
    add_levels(html, v, 0);
    report_add(html, "</li>\n</ul>\n</section>\n");
}
