/* svg.h - pictures as text: a frame with axes, lines of points, labels that do not collide.
 *
 * Colours are classes of the page's style sheet, so that one picture serves light, dark and
 * paper.  Every number is written with one decimal and a full stop.
 */
#ifndef REPORT_SVG_H
#define REPORT_SVG_H

#include "report/series.h"
#include "report/text.h"

/* A plot area in a picture, and the ranges of its axes. */
typedef struct report_frame {
    double left, top, width, height; /* pixels */
    double first, last;              /* steps */
    double least, most;              /* values */
    bool log;                        /* of the value axis; least > 0 then */
} report_frame;

double report_frame_x(const report_frame *frame, double step);
double report_frame_y(const report_frame *frame, double value); /* clamped to the frame */

/* Widens least and most so that lines do not touch the frame, and an empty range is one. */
void report_frame_pad(report_frame *frame);

/* frame NULL: the picture has no read-out of steps. */
void report_svg_open(report_text *svg, double width, double height,
                     const report_frame *frame, const char *title);
void report_svg_close(report_text *svg);
void report_svg_line(report_text *svg, const char *class_, double x1, double y1, double x2,
                     double y2);
/* words are foreign; anchor: "start", "middle", "end". */
void report_svg_words(report_text *svg, const char *class_, double x, double y,
                      const char *anchor, const char *words);
void report_svg_cross(report_text *svg, const char *class_, double x, double y);

/* Grid lines with their values; percent shows parts of 1 as percent. */
void report_svg_axis_y(report_text *svg, const report_frame *frame, bool percent);
void report_svg_axis_x(report_text *svg, const report_frame *frame);

/* The line of a series, broken where values are not finite, and a cross at the first point of
 * each such stretch.  name is what the hover read-out calls it.  Returns the last point drawn.
 */
typedef struct report_line_end {
    bool any;
    double x, y;
} report_line_end;

report_line_end report_svg_series(report_text *svg, const report_frame *frame,
                                  const char *class_, const char *name,
                                  const report_series *series);

/* --- labels --------------------------------------------------------------------------- */

enum { REPORT_LABELS = 16 };

/* Boxes that are taken.  Zero-initialise for each picture. */
typedef struct report_labels {
    struct {
        double left, right, top, bottom;
    } at[REPORT_LABELS];
    size_t count;
} report_labels;

/* Writes words near (x, y), moved up or down until they cover no other label. */
void report_svg_label(report_text *svg, report_labels *labels, const report_frame *frame,
                      const char *class_, double x, double y, const char *anchor,
                      const char *words);

#endif
