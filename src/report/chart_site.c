/* The failing site: headroom on a log axis with its line at 1, and below it, on the same steps,
 * which part of the values was saturated and flushed.
 */
#include "report/chart.h"
#include "report/svg.h"

#include <math.h>

/* Room above the failing run for the other one; bf16 would have 1e38.  Far from full, what matters
 * is that it is far, also for a delayed scale that has no history yet.
 */
enum { ROOM_ABOVE = 30, FAR_FROM_FULL = 10000 };

static void frame_headroom(const report_charts *c, report_frame *frame)
{
    const report_series *main =
        c->ill != NULL ? &c->ill_series.headroom : &c->well_series.headroom;
    double least = 1, most = 1, other_least, other_most;

    frame->log = true;
    if (report_series_range(main, true, &frame->least, &frame->most)) {
        least = fmin(least, frame->least);
        most = fmax(most, frame->most);
    }
    if (report_series_range(&c->well_series.headroom, true, &other_least, &other_most)) {
        least = fmin(least, fmax(other_least, least / ROOM_ABOVE));
        most = fmax(most, fmin(other_most, most * ROOM_ABOVE));
    }
    frame->least = fmax(least, 1e-12);
    frame->most = fmin(most, FAR_FROM_FULL);
    report_frame_pad(frame);
}

static void frame_parts(const report_charts *c, report_frame *frame)
{
    const report_series *const four[] = {&c->ill_series.saturated, &c->ill_series.flushed,
                                         &c->well_series.saturated,
                                         &c->well_series.flushed};
    double least, most, largest = 0;

    for (int i = 0; i < 4; i++)
        if (report_series_range(four[i], false, &least, &most))
            largest = fmax(largest, most);
    frame->log = false;
    frame->least = 0;
    frame->most = largest > 0 ? fmin(1.08 * largest, 1) : 0.01;
}

static void frame_steps(const report_charts *c, report_frame *frame)
{
    const report_series *const two[] = {&c->ill_series.headroom, &c->well_series.headroom};

    frame->first = INFINITY;
    frame->last = 0;
    for (int i = 0; i < 2; i++) {
        if (two[i]->count == 0)
            continue;
        frame->first = fmin(frame->first, two[i]->at[0].step);
        frame->last = fmax(frame->last, two[i]->at[two[i]->count - 1].step);
    }
}

static void name_line(report_text *svg, report_labels *labels, const report_frame *frame,
                      const report_line_end *end, const char *colour, const char *words,
                      bool narrow)
{
    char class_[32];
    const double right = frame->left + frame->width;

    plumb_print(class_, sizeof class_, "name %s", colour);
    if (end->x > right - 4 && !narrow)
        report_svg_label(svg, labels, frame, class_, right + 10, end->y + 4, "start",
                         words);
    else if (end->x > frame->left + 0.6 * frame->width)
        report_svg_label(svg, labels, frame, class_, end->x - 4, end->y - 8, "end", words);
    else
        report_svg_label(svg, labels, frame, class_, end->x + 10, end->y + 4, "start",
                         words);
}

static void draw_headroom(report_text *svg, const report_charts *c,
                          const report_frame *frame, bool narrow)
{
    const double one = report_frame_y(frame, 1);
    report_labels labels = {0};

    report_svg_axis_y(svg, frame, false);
    report_svg_line(svg, "limit", frame->left, one, frame->left + frame->width, one);
    report_svg_words(svg, "mark", frame->left + frame->width - 4, one - 6, "end",
                     narrow ? "1: full"
                            : "1: the format is full; below it values saturate");
    report_svg_words(svg, "unit", frame->left - (narrow ? 36 : 44), frame->top - 12,
                     "start", "headroom (log axis)");
    if (c->well != NULL) {
        const report_line_end end =
            report_svg_series(svg, frame, report_role_class[c->well_role],
                              report_role_name[c->well_role], &c->well_series.headroom);
        if (end.any)
            name_line(svg, &labels, frame, &end, report_role_class[c->well_role],
                      report_role_name[c->well_role], narrow);
    }
    if (c->ill != NULL) {
        const report_line_end end =
            report_svg_series(svg, frame, report_role_class[REPORT_OWN],
                              report_role_name[REPORT_OWN], &c->ill_series.headroom);
        if (end.any)
            name_line(svg, &labels, frame, &end, report_role_class[REPORT_OWN],
                      report_role_name[REPORT_OWN], narrow);
    }
}

/* A line that is zero throughout would only thicken the axis: the caption counts on it. */
static bool is_zero(const report_series *series)
{
    double least, most;

    return !report_series_range(series, true, &least, &most);
}

static void draw_part(report_text *svg, report_labels *labels, const report_frame *frame,
                      const report_series *series, report_role role, const char *what,
                      bool narrow)
{
    char class_[32], words[64];

    if (is_zero(series))
        return;
    plumb_print(class_, sizeof class_, "%s %s", report_role_class[role], what);
    plumb_print(words, sizeof words, "%s, %s", what, report_role_name[role]);
    const report_line_end end = report_svg_series(svg, frame, class_, words, series);
    if (end.any)
        name_line(svg, labels, frame, &end, report_role_class[role], narrow ? what : words,
                  narrow);
}

static void draw_parts(report_text *svg, const report_charts *c, const report_frame *frame,
                       bool narrow)
{
    report_labels labels = {0};

    report_svg_axis_y(svg, frame, true);
    report_svg_axis_x(svg, frame);
    report_svg_words(svg, "unit", frame->left - (narrow ? 36 : 44), frame->top - 12,
                     "start", "part of the values");
    report_svg_words(svg, "unit", frame->left + frame->width,
                     frame->top + frame->height + 36, "end", "step");
    draw_part(svg, &labels, frame, &c->well_series.flushed, c->well_role, "flushed",
              narrow);
    draw_part(svg, &labels, frame, &c->well_series.saturated, c->well_role, "saturated",
              narrow);
    draw_part(svg, &labels, frame, &c->ill_series.flushed, REPORT_OWN, "flushed", narrow);
    draw_part(svg, &labels, frame, &c->ill_series.saturated, REPORT_OWN, "saturated",
              narrow);
}

void report_draw_site(report_text *svg, const report_charts *c, bool narrow)
{
    report_frame upper = {.left = narrow ? 44 : 56,
                          .top = 32,
                          .width = narrow ? 302 : 694,
                          .height = narrow ? 190 : 220};
    report_frame lower = upper, both = upper;

    frame_steps(c, &upper);
    lower.first = both.first = upper.first;
    lower.last = both.last = upper.last;
    lower.top = upper.top + upper.height + 46;
    lower.height = narrow ? 120 : 130;
    both.height = lower.top + lower.height - upper.top;
    frame_headroom(c, &upper);
    frame_parts(c, &lower);
    report_svg_open(
        svg, narrow ? 360 : 920, lower.top + lower.height + 40, &both,
        "Headroom, saturated and flushed values of the failing site over steps");
    draw_headroom(svg, c, &upper, narrow);
    draw_parts(svg, c, &lower, narrow);
    report_svg_close(svg);
}
