/* What the mean hides, over the same steps: gradient norm, the largest of a tensor, the loss of the
 * worst token, the largest change of a weight.  One panel for each that the runs have.
 */
#include "report/chart.h"
#include "report/svg.h"

#include <math.h>

enum { PANELS = REPORT_FIELDS - 1, GAP = 38 };

static const char *const names[REPORT_FIELDS] = {
    "loss", "gradient norm", "gradient norm of the worst tensor", "loss of the worst token",
    "largest change of a weight"};

/* Later ones are drawn over earlier ones; the others would only crowd four panels. */
static const report_role order[] = {REPORT_TWIN, REPORT_FIX, REPORT_OWN};
enum { ARMS = sizeof order / sizeof order[0] };

static bool frame_field(const report_charts *c, int field, report_frame *frame)
{
    double least, most;
    bool any = false, said = false;

    for (int i = 0; i < ARMS; i++) {
        const report_series *s = &c->arm[order[i]][field];

        said = said || s->count > 0;
        if (!report_series_range(s, true, &least, &most))
            continue;
        frame->least = any ? fmin(frame->least, least) : least;
        frame->most = any ? fmax(frame->most, most) : most;
        any = true;
    }
    if (!any) {
        frame->least = 0.1;
        frame->most = 1;
    }
    frame->log = true;
    report_frame_pad(frame);
    return said;
}

static void frame_steps(const report_charts *c, report_frame *frame)
{
    frame->first = INFINITY;
    for (int i = 0; i < ARMS; i++)
        for (int field = REPORT_LOSS + 1; field < REPORT_FIELDS; field++) {
            const report_series *s = &c->arm[order[i]][field];

            if (s->count == 0)
                continue;
            frame->first = fmin(frame->first, s->at[0].step);
            frame->last = fmax(frame->last, s->at[s->count - 1].step);
        }
}

static void name_line(report_text *svg, report_labels *labels, const report_frame *frame,
                      const report_line_end *end, report_role role)
{
    char class_[32];

    plumb_print(class_, sizeof class_, "name %s", report_role_class[role]);
    report_svg_label(svg, labels, frame, class_,
                     fmin(end->x, frame->left + frame->width) + 10, end->y + 4, "start",
                     report_role_name[role]);
}

static void draw_panel(report_text *svg, const report_charts *c, const report_frame *frame,
                       int field, bool narrow)
{
    const double bottom = frame->top + frame->height;
    report_labels labels = {0};

    report_svg_axis_y(svg, frame, false);
    report_svg_line(svg, "base", frame->left, bottom, frame->left + frame->width, bottom);
    report_svg_words(svg, "unit", frame->left - (narrow ? 36 : 44), frame->top - 10,
                     "start", names[field]);
    for (int i = 0; i < ARMS; i++) {
        const report_series *s = &c->arm[order[i]][field];
        char words[80];

        if (s->count == 0)
            continue;
        plumb_print(words, sizeof words, "%s, %s", names[field],
                    report_role_name[order[i]]);
        const report_line_end end =
            report_svg_series(svg, frame, report_role_class[order[i]], words, s);
        if (end.any && !narrow && c->verdict->run_count > 1)
            name_line(svg, &labels, frame, &end, order[i]);
    }
}

void report_draw_tails(report_text *svg, const report_charts *c, bool narrow)
{
    report_frame both = {.left = narrow ? 44 : 56, .top = 26, .width = narrow ? 302 : 742};
    report_frame panel[PANELS];
    int field[PANELS];
    size_t count = 0;

    frame_steps(c, &both);
    for (int f = REPORT_LOSS + 1; f < REPORT_FIELDS; f++) {
        panel[count] = both;
        panel[count].height = narrow ? 80 : 92;
        panel[count].top = both.top + (double)count * (panel[count].height + GAP);
        if (frame_field(c, f, &panel[count]))
            field[count++] = f;
    }
    if (count == 0)
        return;
    both.height = panel[count - 1].top + panel[count - 1].height - both.top;
    report_svg_open(svg, narrow ? 360 : 920, both.top + both.height + 40, &both,
                    "Gradient norms, largest loss and largest change over steps");
    for (size_t i = 0; i < count; i++)
        draw_panel(svg, c, &panel[i], field[i], narrow);
    report_svg_axis_x(svg, &panel[count - 1]);
    report_svg_words(svg, "unit", both.left + both.width, both.top + both.height + 36,
                     "end", "step");
    report_svg_close(svg);
}
