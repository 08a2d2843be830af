/* The runs as bars in the order in which they were asked for: as long as the steps they ran,
 * coloured by how they ended, with a cross where they failed.
 */
#include "report/chart.h"
#include "report/sentence.h"
#include "report/svg.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static double step_or(int64_t step, double otherwise)
{
    return step == REPORT_NONE || step < 0 ? otherwise : (double)step;
}

static void frame_steps(const report_verdict *v, const bool *shown, report_frame *frame)
{
    frame->first = 0;
    frame->last = 1;
    for (size_t i = 0; i < v->run_count; i++)
        if (shown[i])
            frame->last = fmax(frame->last, step_or(v->runs[i].last_step, 0));
}

static void draw_bar(report_text *svg, const report_frame *frame, const report_run *run,
                     double y)
{
    const double from = report_frame_x(frame, step_or(run->start_step, 0));
    const double to = report_frame_x(frame, step_or(run->last_step, 0));
    const bool failed = run->outcome == REPORT_FAILED;
    report_text words = {0};

    report_print(svg, "<rect class=\"bar %s\" rx=\"2\" x=\"",
                 report_outcome_class(run->outcome));
    report_fixed(svg, from, 1, false);
    report_add(svg, "\" y=\"");
    report_fixed(svg, y, 1, false);
    report_add(svg, "\" height=\"10\" width=\"");
    report_fixed(svg, fmax(to - from, 2), 1, false);
    report_add(svg, "\"></rect>\n");
    if (failed)
        report_svg_cross(
            svg, "failed",
            report_frame_x(frame, step_or(run->fail_step, step_or(run->last_step, 0))),
            y + 5);
    report_run_step(&words, run);
    report_svg_words(svg, "tick", fmax(to, from + 2) + (failed ? 10 : 6), y + 9, "start",
                     words.at);
    svg->failed |= words.failed;
    report_text_free(&words);
}

/* The browser's own tip: works without the script. */
static void add_tip(report_text *svg, const report_run *run)
{
    report_text words = {0};

    if (run->label != NULL)
        report_add(&words, run->label);
    report_add(&words, ": ");
    report_outcome_words(&words, run);
    if (run->text != NULL) {
        report_add(&words, "; ");
        report_add(&words, run->text);
    }
    report_add(svg, "<title>");
    report_html(svg, words.at, 300);
    report_add(svg, "</title>");
    svg->failed |= words.failed;
    report_text_free(&words);
}

static void draw_row(report_text *svg, const report_frame *frame, const report_run *run,
                     double y, bool new_phase, bool narrow)
{
    const char *label = run->label != NULL ? run->label : run->id;
    report_text cut = {0};

    report_clean(&cut, label, narrow ? 44 : 42, REPORT_CUT_MIDDLE, false);
    report_add(svg, "<g>");
    add_tip(svg, run);
    if (new_phase && !narrow)
        report_svg_words(svg, "phase", 0, y + 9, "start", run->phase);
    report_svg_words(svg, "row", narrow ? 0 : frame->left - 12, y + (narrow ? -5 : 9),
                     narrow ? "start" : "end", cut.at != NULL ? cut.at : "");
    draw_bar(svg, frame, run, y);
    report_add(svg, "</g>\n");
    svg->failed |= cut.failed;
    report_text_free(&cut);
}

void report_draw_timeline(report_text *svg, const report_verdict *v, const bool *shown,
                          bool narrow)
{
    report_frame frame = {
        .left = narrow ? 0 : 380, .top = narrow ? 4 : 8, .width = narrow ? 310 : 480};
    const double row = narrow ? 36 : 23;
    const report_run *before = NULL;
    size_t rows = 0;

    for (size_t i = 0; i < v->run_count; i++)
        rows += shown[i];
    frame.height = row * (double)rows + (narrow ? 6 : 2);
    frame_steps(v, shown, &frame);
    report_svg_open(svg, narrow ? 360 : 920, frame.top + frame.height + 40, &frame,
                    "Runs in the order in which they were asked for");
    report_svg_axis_x(svg, &frame);
    report_svg_words(svg, "unit", frame.left + frame.width, frame.top + frame.height + 36,
                     "end", "step");
    double y = frame.top + (narrow ? 22 : 6);
    for (size_t i = 0; i < v->run_count; i++) {
        const report_run *run = &v->runs[i];

        if (!shown[i])
            continue;
        const bool new_phase =
            before == NULL || run->phase == NULL || !report_is_phase(before, run->phase);
        if (new_phase && before != NULL && !narrow)
            report_svg_line(svg, "grid", 0, y - 6, frame.left + frame.width, y - 6);
        draw_row(svg, &frame, run, y, new_phase, narrow);
        before = run;
        y += row;
    }
    report_svg_close(svg);
}
