/* Loss of the arms on one axis: the failing run above the others, each named where it ends. */
#include "report/chart.h"
#include "report/svg.h"

#include <inttypes.h>
#include <math.h>

/* Later ones are drawn over earlier ones. */
static const report_role order[REPORT_ROLES] = {REPORT_MASK, REPORT_TWIN, REPORT_HEALED,
                                                REPORT_FIX, REPORT_OWN};

/* A log axis where the loss spans more than a factor of 30: else the fall at the start or the
 * blow-up at the end hides everything.
 */
static bool frame_values(const report_charts *c, report_frame *frame)
{
    double least, most;
    bool any = false, positive = true;

    for (int role = 0; role < REPORT_ROLES; role++) {
        if (!report_series_range(&c->arm[role][REPORT_LOSS], false, &least, &most))
            continue;
        frame->least = any ? fmin(frame->least, least) : least;
        frame->most = any ? fmax(frame->most, most) : most;
        any = true;
    }
    positive = any && frame->least > 0;
    frame->log = positive && frame->most / frame->least > 30;
    if (!any) {
        frame->least = 0;
        frame->most = 1;
    }
    report_frame_pad(frame);
    return any;
}

static void frame_steps(const report_charts *c, report_frame *frame)
{
    bool any = false;

    for (int role = 0; role < REPORT_ROLES; role++) {
        const report_series *s = &c->arm[role][REPORT_LOSS];

        if (s->count == 0)
            continue;
        frame->first = any ? fmin(frame->first, s->at[0].step) : s->at[0].step;
        frame->last =
            any ? fmax(frame->last, s->at[s->count - 1].step) : s->at[s->count - 1].step;
        any = true;
    }
}

/* A vertical line with a word at its head, on the side that anchor says, inside the picture. */
static void mark_step(report_text *svg, const report_frame *frame, const char *class_,
                      double step, const char *anchor, const char *words)
{
    const double x = report_frame_x(frame, step);
    const double width = 6.6 * (double)report_columns(words);
    const double right = frame->left + frame->width;

    if (step < frame->first || step > frame->last)
        return;
    report_svg_line(svg, class_, x, frame->top - 6, x, frame->top + frame->height);
    report_svg_words(svg, "mark",
                     anchor[0] == 'e' ? fmax(x - 5, width) : fmin(x + 5, right - width),
                     frame->top - 12, anchor, words);
}

static void mark_steps(report_text *svg, const report_charts *c, const report_frame *frame)
{
    const report_verdict *v = c->verdict;
    report_text words = {0};

    if (v->first_moved.has && v->first_moved.step != REPORT_NONE) {
        report_print(&words, "moved at %" PRId64, v->first_moved.step);
        mark_step(svg, frame, "moved", (double)v->first_moved.step, "end", words.at);
    }
    report_text_free(&words);
    if (v->failure.has && v->failure.step != REPORT_NONE) {
        report_print(&words, "fails at %" PRId64, v->failure.step);
        mark_step(svg, frame, "fails", (double)v->failure.step, "start", words.at);
    }
    report_text_free(&words);
}

/* Beside the frame for lines that reach its right end, else beside their last point. */
static void name_line(report_text *svg, report_labels *labels, const report_frame *frame,
                      const report_line_end *end, report_role role, bool narrow)
{
    char class_[32];
    const double right = frame->left + frame->width;
    const bool far = end->x > right - 4;

    plumb_print(class_, sizeof class_, "name %s", report_role_class[role]);
    if (far && !narrow)
        report_svg_label(svg, labels, frame, class_, right + 10, end->y + 4, "start",
                         report_role_name[role]);
    else if (end->x > frame->left + 0.6 * frame->width)
        report_svg_label(svg, labels, frame, class_, end->x - 4, end->y - 8, "end",
                         report_role_name[role]);
    else
        report_svg_label(svg, labels, frame, class_, end->x + 10, end->y + 14, "start",
                         report_role_name[role]);
}

void report_draw_loss(report_text *svg, const report_charts *c, bool narrow)
{
    report_frame frame =
        narrow ? (report_frame){.left = 44, .top = 46, .width = 302, .height = 250}
               : (report_frame){.left = 56, .top = 46, .width = 742, .height = 330};
    report_line_end ends[REPORT_ROLES] = {{0}};
    report_labels labels = {0};

    frame_values(c, &frame);
    frame_steps(c, &frame);
    report_svg_open(svg, narrow ? 360 : 920, frame.top + frame.height + 40, &frame,
                    "Loss of the arms over steps");
    report_svg_axis_y(svg, &frame, false);
    report_svg_axis_x(svg, &frame);
    report_svg_words(svg, "unit", frame.left - (narrow ? 36 : 44), 14, "start",
                     frame.log ? "loss, nats per token (log axis)"
                               : "loss, nats per token");
    report_svg_words(svg, "unit", frame.left + frame.width, frame.top + frame.height + 36,
                     "end", "step");
    mark_steps(svg, c, &frame);
    for (int i = 0; i < REPORT_ROLES; i++) {
        const report_role role = order[i];

        if (c->run[role] != NULL)
            ends[role] =
                report_svg_series(svg, &frame, report_role_class[role],
                                  report_role_name[role], &c->arm[role][REPORT_LOSS]);
    }
    for (int role = 0; role < REPORT_ROLES; role++)
        if (ends[role].any)
            name_line(svg, &labels, &frame, &ends[role], (report_role)role, narrow);
    report_svg_close(svg);
}
