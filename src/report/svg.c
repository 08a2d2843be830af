/* Pictures as text: coordinates, lines, words, labels.  Axes are in axis.c. */
#include "report/svg.h"

#include <math.h>
#include <string.h>

double report_frame_x(const report_frame *frame, double step)
{
    const double part = frame->last > frame->first
                            ? (step - frame->first) / (frame->last - frame->first)
                            : 0.5;

    return frame->left + fmin(fmax(part, 0), 1) * frame->width;
}

double report_frame_y(const report_frame *frame, double value)
{
    double part;

    if (!frame->log)
        part = (value - frame->least) / (frame->most - frame->least);
    else
        part = value > 0 ? (log(value) - log(frame->least)) /
                               (log(frame->most) - log(frame->least))
                         : 0;
    if (isnan(part))
        part = 1;
    return frame->top + (1 - fmin(fmax(part, 0), 1)) * frame->height;
}

void report_frame_pad(report_frame *frame)
{
    if (frame->log) {
        const double pad = pow(frame->most / frame->least, 0.06);
        const double factor = pad > 1.05 && isfinite(pad) ? pad : 1.05;

        frame->least = fmax(frame->least / factor, 1e-300);
        frame->most = fmin(frame->most * factor, 1e300);
        return;
    }
    const double span = frame->most - frame->least;
    const double pad = span > 0 ? 0.06 * span : fmax(fabs(frame->most) * 0.1, 1e-3);

    frame->least -= pad;
    frame->most += pad;
}

static void number(report_text *svg, double value)
{
    report_fixed(svg, value, 1, false);
}

static void attribute(report_text *svg, const char *name, double value)
{
    report_print(svg, " %s=\"", name);
    number(svg, value);
    report_add(svg, "\"");
}

/* What the script needs to say the values under the pointer. */
static void hover_attributes(report_text *svg, const report_frame *frame)
{
    attribute(svg, "data-left", frame->left);
    attribute(svg, "data-width", frame->width);
    attribute(svg, "data-top", frame->top);
    attribute(svg, "data-height", frame->height);
    report_add(svg, " data-first=\"");
    report_real(svg, frame->first, 15);
    report_add(svg, "\" data-last=\"");
    report_real(svg, frame->last, 15);
    report_add(svg, "\"");
}

void report_svg_open(report_text *svg, double width, double height,
                     const report_frame *frame, const char *title)
{
    report_add(svg, "<svg role=\"img\" viewBox=\"0 0 ");
    number(svg, width);
    report_add(svg, " ");
    number(svg, height);
    report_add(svg, "\"");
    if (frame != NULL)
        hover_attributes(svg, frame);
    report_add(svg, "><title>");
    report_html(svg, title, 200);
    report_add(svg, "</title>\n");
}

void report_svg_close(report_text *svg)
{
    report_add(svg, "</svg>\n");
}

void report_svg_line(report_text *svg, const char *class_, double x1, double y1, double x2,
                     double y2)
{
    report_print(svg, "<line class=\"%s\"", class_);
    attribute(svg, "x1", x1);
    attribute(svg, "y1", y1);
    attribute(svg, "x2", x2);
    attribute(svg, "y2", y2);
    report_add(svg, "></line>\n");
}

void report_svg_words(report_text *svg, const char *class_, double x, double y,
                      const char *anchor, const char *words)
{
    report_print(svg, "<text class=\"%s\" text-anchor=\"%s\"", class_, anchor);
    attribute(svg, "x", x);
    attribute(svg, "y", y);
    report_add(svg, ">");
    report_html(svg, words, 200);
    report_add(svg, "</text>\n");
}

void report_svg_cross(report_text *svg, const char *class_, double x, double y)
{
    report_print(svg, "<path class=\"cross %s\" d=\"M", class_);
    number(svg, x - 4.5);
    report_add(svg, " ");
    number(svg, y - 4.5);
    report_add(svg, "l9 9m0 -9l-9 9\"></path>\n");
}

/* --- series -------------------------------------------------------------------------- */

static void add_points(report_text *svg, const report_series *series)
{
    report_add(svg, " data-p=\"");
    for (size_t i = 0; i < series->count; i++) {
        if (i > 0)
            report_add(svg, " ");
        report_real(svg, series->at[i].step, 15);
        report_add(svg, ":");
        report_real(svg, series->at[i].value, 6);
    }
    report_add(svg, "\"");
}

/* Non-finite values go to the edge that they left by. */
static void add_crosses(report_text *svg, const report_frame *frame, const char *class_,
                        const report_series *series)
{
    bool before = true;

    for (size_t i = 0; i < series->count; i++) {
        const report_point p = series->at[i];
        const bool finite = isfinite(p.value);

        if (!finite && (before || i == 0))
            report_svg_cross(svg, class_, report_frame_x(frame, p.step),
                             p.value < 0 ? frame->top + frame->height : frame->top);
        before = finite;
    }
}

report_line_end report_svg_series(report_text *svg, const report_frame *frame,
                                  const char *class_, const char *name,
                                  const report_series *series)
{
    report_line_end end = {0};
    bool pen_down = false, single = false;

    report_print(svg, "<path class=\"line %s\" data-name=\"", class_);
    report_html(svg, name, 60);
    report_add(svg, "\"");
    add_points(svg, series);
    report_add(svg, " d=\"");
    for (size_t i = 0; i < series->count; i++) {
        const report_point p = series->at[i];

        if (!isfinite(p.value)) {
            if (single)
                report_add(svg, "h0");
            pen_down = single = false;
            end.any = true;
            end.x = report_frame_x(frame, p.step);
            end.y = p.value < 0 ? frame->top + frame->height : frame->top;
            continue;
        }
        end = (report_line_end){true, report_frame_x(frame, p.step),
                                report_frame_y(frame, p.value)};
        report_add(svg, pen_down ? "L" : "M");
        number(svg, end.x);
        report_add(svg, " ");
        number(svg, end.y);
        single = !pen_down;
        pen_down = true;
    }
    report_add(svg, single ? "h0\"></path>\n" : "\"></path>\n");
    add_crosses(svg, frame, class_, series);
    return end;
}

/* --- labels -------------------------------------------------------------------------- */

enum { LINE = 17, TRIES = 24 };

static bool is_free(const report_labels *labels, double left, double right, double top)
{
    for (size_t i = 0; i < labels->count; i++)
        if (left < labels->at[i].right && right > labels->at[i].left &&
            top < labels->at[i].bottom && top + LINE > labels->at[i].top)
            return false;
    return true;
}

void report_svg_label(report_text *svg, report_labels *labels, const report_frame *frame,
                      const char *class_, double x, double y, const char *anchor,
                      const char *words)
{
    const double width = 7.2 * (double)report_columns(words);
    const double left = strcmp(anchor, "end") == 0      ? x - width
                        : strcmp(anchor, "middle") == 0 ? x - width / 2
                                                        : x;
    double top = y - 13;

    /* 0, down 1, up 1, down 2, ... until it stands alone inside the frame. */
    for (int i = 0; i < TRIES; i++) {
        const double move = (i % 2 == 1 ? 1 : -1) * ((i + 1) / 2) * 8.5;
        const double moved = y - 13 + move;

        if (moved < frame->top - 10 || moved + LINE > frame->top + frame->height + 8)
            continue;
        if (is_free(labels, left, left + width, moved)) {
            top = moved;
            break;
        }
    }
    if (labels->count < REPORT_LABELS) {
        labels->at[labels->count].left = left;
        labels->at[labels->count].right = left + width;
        labels->at[labels->count].top = top;
        labels->at[labels->count++].bottom = top + LINE;
    }
    report_svg_words(svg, class_, x, top + 13, anchor, words);
}
