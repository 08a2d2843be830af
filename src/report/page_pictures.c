/* The sections with pictures that are drawn as lines and bars: arms, failing site, timeline. */
#include "report/fold.h"
#include "report/page.h"
#include "report/sentence.h"

#include <stdlib.h>
#include <string.h>

enum { BARS = 60, WIDE_COLUMNS = 700, NARROW_COLUMNS = 320 };

void report_page_key(report_text *html, report_role role, const report_run *run)
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

void report_page_drawings(report_text *html, report_text svg[2])
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

typedef bool report_has(const report_charts *charts);
typedef void around(report_text *html, const report_charts *charts, report_text svg[2]);

static void arms_key(report_text *html, const report_charts *c)
{
    report_add(html, "<figcaption><ul class=\"key\">\n");
    for (int role = 0; role < REPORT_ROLES; role++)
        if (c->run[role] != NULL)
            report_page_key(html, (report_role)role, c->run[role]);
    report_add(html, "</ul></figcaption>\n");
}

static void open_section(report_text *html, const char *head, const char *lead)
{
    report_print(html,
                 "<section class=\"drawn\">\n<h2>%s</h2>\n<p class=\"lead\">%s</p>\n"
                 "<figure>\n",
                 head, lead);
}

static bool is_alone(const report_charts *c)
{
    return c->verdict->run_count == 1;
}

static void loss_section(report_text *html, const report_charts *c, report_text svg[2])
{
    if (is_alone(c))
        open_section(html, "Loss", "A cross marks a value that is not finite.");
    else
        open_section(html, "Loss of the arms",
                     "The failing run beside its bf16 twin and the arms that the verdict "
                     "rests on. A cross marks a value that is not finite.");
    report_page_drawings(html, svg);
    if (!is_alone(c))
        arms_key(html, c);
    report_add(html, "</figure>\n</section>\n");
}

static void tails_section(report_text *html, const report_charts *c, report_text svg[2])
{
    (void)c;
    open_section(html, "Tails",
                 "What the mean hides: gradients, the worst token, the worst tensor, the "
                 "largest step of a weight. All axes are logarithmic.");
    report_page_drawings(html, svg);
    report_add(html, "</figure>\n</section>\n");
}

static void site_section(report_text *html, const report_charts *c, report_text svg[2])
{
    report_print(html, "<section class=\"drawn\">\n<h2>%s</h2>\n<p class=\"lead\"><code>",
                 is_alone(c) ? "The site with the least headroom" : "The failing site");
    report_html(html, c->site, 300);
    report_add(html, "</code></p>\n<figure>\n");
    report_page_drawings(html, svg);
    report_add(html, "<figcaption><ul class=\"key\">\n");
    if (c->ill != NULL && !is_alone(c))
        report_page_key(html, REPORT_OWN, c->ill);
    if (c->well != NULL)
        report_page_key(html, c->well_role, c->well);
    report_add(html,
               "</ul>Headroom is the largest finite value of the format over amax times "
               "scale, of the worst block. Lines past the frame are drawn at its edge; a "
               "part that is zero throughout has no line.</figcaption>\n</figure>\n"
               "</section>\n");
}

static void window_section(report_text *html, const report_charts *c, report_text svg[2])
{
    report_print(html,
                 "<section class=\"drawn\">\n<h2>Its values and the window of %s</h2>\n"
                 "<p class=\"lead\"><code>",
                 plumb_format_get(c->format)->name);
    report_html(html, c->site, 300);
    report_add(html, "</code></p>\n<figure>\n");
    report_page_drawings(html, svg);
    report_add(
        html, "<figcaption>Exponents are those after the scale. The log has counts below, "
              "inside and above the window and the largest value of each step; how the "
              "values lie inside the window it does not have. Of each stretch of steps the "
              "one with the least headroom is drawn.</figcaption>\n</figure>\n"
              "</section>\n");
}

/* In the order of the page; the heat map stands before the first that is about one site. */
static const struct picture {
    report_has *has;
    report_draw *draw;
    around *say;
    bool one_site;
} pictures[] = {
    {report_charts_has_loss, report_draw_loss, loss_section, false},
    {report_charts_has_tails, report_draw_tails, tails_section, false},
    {report_charts_has_site, report_draw_site, site_section, true},
    {report_charts_has_window, report_draw_window, window_section, true},
};
enum { PICTURES = sizeof pictures / sizeof pictures[0] };

static bool has_steps(const report_verdict *v)
{
    for (size_t i = 0; i < v->run_count; i++)
        if (v->runs[i].last_step != REPORT_NONE && v->runs[i].last_step > 0)
            return true;
    return false;
}

/* Both sizes of all pictures: the wide ones first, since thinning for the narrow ones loses
 * points.
 */
static plumb_status draw_both(report_charts *charts, report_text svg[PICTURES][2],
                              plumb_error *why)
{
    static const size_t columns[2] = {WIDE_COLUMNS, NARROW_COLUMNS};

    for (int narrow = 0; narrow < 2; narrow++) {
        const plumb_status status = report_charts_thin(charts, columns[narrow], why);

        if (status != PLUMB_OK)
            return status;
        for (size_t i = 0; i < PICTURES; i++)
            if (pictures[i].has(charts))
                pictures[i].draw(&svg[i][narrow], charts, narrow == 1);
    }
    return PLUMB_OK;
}

static void add_sections(report_text *html, const report_charts *charts,
                         report_text svg[PICTURES][2])
{
    bool heat = false;

    if (!report_charts_has_loss(charts) && has_steps(charts->verdict))
        report_add(html,
                   "<section>\n<h2>Loss of the arms</h2>\n<p class=\"lead\">No picture: "
                   "the run directories are absent or cannot be read.</p>\n</section>\n");
    for (size_t i = 0; i < PICTURES; i++) {
        if (pictures[i].one_site && !heat) {
            report_page_heat(html, charts);
            heat = true;
        }
        if (pictures[i].has(charts))
            pictures[i].say(html, charts, svg[i]);
    }
    report_page_spectra(html, charts);
}

plumb_status report_page_pictures(report_text *html, report_charts *charts,
                                  plumb_error *why)
{
    report_text svg[PICTURES][2] = {{{0}}};
    const plumb_status status = draw_both(charts, svg, why);

    if (status == PLUMB_OK)
        add_sections(html, charts, svg);
    for (size_t i = 0; i < PICTURES; i++)
        for (int k = 0; k < 2; k++)
            report_text_free(&svg[i][k]);
    return status;
}

void report_page_timeline(report_text *html, const report_verdict *v)
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
    report_page_drawings(html, svg);
    if (v->run_count > BARS)
        report_print(html, "<figcaption>%zu more runs are in the table.</figcaption>\n",
                     v->run_count - BARS);
    report_add(html, "</figure>\n</section>\n");
    free(shown);
}
