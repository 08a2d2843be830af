/* Where the values of a site lie beside the window of its format, over steps: a row for each of a
 * few steps, on an axis of exponents after the scale.  A row is drawn from what the samples have:
 * the part above the window, the part flushed below it, and the largest value.
 */
#include "report/chart.h"
#include "report/svg.h"

#include <math.h>

enum { ROWS = 9 };

typedef struct row {
    double step, headroom, saturated, flushed, zero;
} row;

/* Of each of ROWS stretches of steps, the one with the least headroom; not finite is least. */
static size_t pick_rows(const report_site_series *s, row rows[ROWS])
{
    size_t count = 0, stretch = ROWS;

    for (size_t i = 0; i < s->headroom.count; i++) {
        const size_t here = i * ROWS / s->headroom.count;
        const double headroom = s->headroom.at[i].value;

        if (here == stretch && !(isnan(headroom) || headroom < rows[count - 1].headroom))
            continue;
        if (here != stretch)
            count++;
        stretch = here;
        rows[count - 1] = (row){.step = s->headroom.at[i].step, .headroom = headroom};
    }
    return count;
}

/* The value of a series at a step; thinning may have left the step out: then its neighbour. */
static double at_step(const report_series *series, double step)
{
    double value = 0;

    for (size_t i = 0; i < series->count && series->at[i].step <= step; i++)
        value = series->at[i].value;
    return value;
}

static void part_words(report_text *words, double part, const char *what)
{
    if (!(part > 0))
        return;
    if (words->size > 0)
        report_add(words, ", ");
    if (part < 1e-5)
        report_add(words, "<0.001");
    else
        report_real(words, 100 * part, 2);
    report_print(words, "%% %s", what);
}

static void box(report_text *svg, const char *class_, double x, double y, double width,
                double height)
{
    report_print(svg, "<rect class=\"%s\" x=\"", class_);
    report_fixed(svg, x, 1, false);
    report_add(svg, "\" y=\"");
    report_fixed(svg, y, 1, false);
    report_add(svg, "\" width=\"");
    report_fixed(svg, fmax(width, 0), 1, false);
    report_add(svg, "\" height=\"");
    report_fixed(svg, height, 1, false);
    report_add(svg, "\"></rect>\n");
}

static void words_at(report_text *svg, const char *class_, double x, double y,
                     const char *anchor, report_text *words)
{
    if (words->size > 0)
        report_svg_words(svg, class_, x, y, anchor, words->at);
    svg->failed |= words->failed;
    report_text_free(words);
}

/* Both ends of the window as exponents of 2: of the least value above 0 and the largest. */
static void window_of(plumb_format format, double *low, double *high)
{
    const plumb_format_info *info = plumb_format_get(format);

    *low = log2((double)info->least);
    *high = log2((double)info->largest);
}

static void draw_row(report_text *svg, const report_frame *frame, const row *r, double low,
                     double high, double y, bool wide)
{
    const double left = report_frame_x(frame, low), right = report_frame_x(frame, high);
    const bool finite = isfinite(r->headroom) && r->headroom > 0;
    const double top = finite ? high - log2(r->headroom) : frame->last;
    const double end = report_frame_x(frame, top);
    report_text words = {0};

    report_real(&words, r->step, 15);
    words_at(svg, "tick", frame->left - 8, y + 12, "end", &words);
    box(svg, "inside", left, y + 3, fmin(end, right) - left, 11);
    if (end > right)
        box(svg, "over", right, y + 3, end - right, 11);
    report_svg_line(svg, finite ? "amax" : "amax over", end, y, end, y + 17);
    part_words(&words, r->flushed, "flushed");
    if (wide)
        part_words(&words, r->zero, "zero");
    words_at(svg, "tick", left - 8, y + 12, "end", &words);
    if (!finite)
        report_add(&words, "not finite");
    else
        part_words(&words, r->saturated, "saturated");
    words_at(svg, "tick", fmax(end, right) + 8, y + 12, "start", &words);
}

void report_draw_window(report_text *svg, const report_charts *c, bool narrow)
{
    report_frame frame = {.left = narrow ? 44 : 56, .top = 34, .width = narrow ? 302 : 742};
    row rows[ROWS];
    const size_t count = pick_rows(&c->ill_series, rows);
    double low, high, most = 0;

    window_of(c->format, &low, &high);
    for (size_t i = 0; i < count; i++) {
        rows[i].saturated = at_step(&c->ill_series.saturated, rows[i].step);
        rows[i].flushed = at_step(&c->ill_series.flushed, rows[i].step);
        rows[i].zero = at_step(&c->ill_series.zero, rows[i].step);
        if (isfinite(rows[i].headroom) && rows[i].headroom > 0)
            most = fmax(most, -log2(rows[i].headroom));
    }
    /* A third of the width to each side has the words. */
    frame.first = low - (high - low) * (narrow ? 1.1 : 0.6);
    frame.last = high + fmin(fmax(most, 1), 40) + (high - low) * (narrow ? 0.95 : 0.3);
    frame.height = 24 * (double)count;
    report_svg_open(svg, narrow ? 360 : 920, frame.top + frame.height + 40, NULL,
                    "Values of the site beside the window of its format, over steps");
    box(svg, "window", report_frame_x(&frame, low), frame.top - 6,
        report_frame_x(&frame, high) - report_frame_x(&frame, low), frame.height + 6);
    report_svg_words(svg, "mark",
                     (report_frame_x(&frame, low) + report_frame_x(&frame, high)) / 2,
                     frame.top - 14, "middle", plumb_format_get(c->format)->name);
    report_svg_words(svg, "unit", frame.left - 8, frame.top - 14, "end", "step");
    for (size_t i = 0; i < count; i++)
        draw_row(svg, &frame, &rows[i], low, high, frame.top + 24 * (double)i, !narrow);
    report_svg_axis_x(svg, &frame);
    report_svg_words(svg, "unit", frame.left + frame.width, frame.top + frame.height + 36,
                     "end", "exponent of 2");
    report_svg_close(svg);
}
