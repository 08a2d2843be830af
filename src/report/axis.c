/* Axes: where their lines stand and how the values are written. */
#include "report/svg.h"

#include <math.h>

/* The least of 1, 2, 5 times a power of ten that is not below rough. */
static double round_up(double rough)
{
    const double power = pow(10, floor(log10(rough)));
    const double digit = rough / power;

    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

static void tick_y(report_text *svg, const report_frame *frame, double value,
                   double spacing, bool percent)
{
    const double y = report_frame_y(frame, value);
    report_text words = {0};

    if (fabs(value) < spacing * 1e-6)
        value = 0;
    report_real(&words, percent ? 100 * value : value, 4);
    if (percent)
        report_add(&words, "%");
    report_svg_line(svg, "grid", frame->left, y, frame->left + frame->width, y);
    report_svg_words(svg, "tick", frame->left - 8, y + 4, "end", words.at);
    svg->failed |= words.failed;
    report_text_free(&words);
}

static void ticks_linear(report_text *svg, const report_frame *frame, bool percent)
{
    const double spacing =
        round_up((frame->most - frame->least) / (frame->height / 55 + 1));

    if (!(spacing > 0) || !isfinite(spacing))
        return;
    const double first = ceil(frame->least / spacing);
    for (int i = 0; i < 20 && (first + i) * spacing <= frame->most; i++)
        tick_y(svg, frame, (first + i) * spacing, spacing, percent);
}

/* Powers of ten, thinned when there are many; 2 and 5 between them when there are few. */
static void ticks_log(report_text *svg, const report_frame *frame, bool percent)
{
    static const double digits[] = {1, 2, 5};
    const double decades =
        log10(frame->most) - log10(frame->least); /* the ratio may overflow */
    const int step = decades > 7 ? (int)ceil(decades / 7) : 1;
    const int count = decades < 2.2 ? 3 : 1;
    const int first = (int)floor(log10(frame->least)), last = (int)ceil(log10(frame->most));

    for (int power = first - (first % step + step) % step; power <= last; power += step)
        for (int i = 0; i < count; i++) {
            const double value = digits[i] * pow(10, power);

            if (value >= frame->least && value <= frame->most)
                tick_y(svg, frame, value, 0, percent);
        }
}

void report_svg_axis_y(report_text *svg, const report_frame *frame, bool percent)
{
    if (frame->log)
        ticks_log(svg, frame, percent);
    else
        ticks_linear(svg, frame, percent);
}

void report_svg_axis_x(report_text *svg, const report_frame *frame)
{
    const double bottom = frame->top + frame->height;
    const double spacing =
        fmax(1, round_up(fmax(frame->last - frame->first, 1) / (frame->width / 90 + 1)));
    const double first = ceil(frame->first / spacing);

    report_svg_line(svg, "base", frame->left, bottom, frame->left + frame->width, bottom);
    for (int i = 0; i < 30 && (first + i) * spacing <= frame->last; i++) {
        const double step = (first + i) * spacing;
        const double x = report_frame_x(frame, step);
        report_text words = {0};

        report_real(&words, step, 15);
        report_svg_line(svg, "base", x, bottom, x, bottom + 4);
        report_svg_words(svg, "tick", x, bottom + 18, "middle", words.at);
        svg->failed |= words.failed;
        report_text_free(&words);
    }
}
