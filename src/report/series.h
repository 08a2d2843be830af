/* series.h - numbers over steps: taken from a run directory, thinned for a picture.
 *
 * Thinning keeps, of each pixel column, the least and the largest value and one non-finite
 * value: a spike is never averaged away.
 */
#ifndef REPORT_SERIES_H
#define REPORT_SERIES_H

#include "plumb/base.h"
#include "plumb/log.h"

typedef struct report_point {
    double step, value;
} report_point;

typedef struct report_series {
    report_point *at;
    size_t count;
} report_series;

void report_series_free(report_series *series);

/* Replaces *series by at most 3 points for each of columns equal parts of first ... last, in
 * their order; series that are short enough stay as they are.  Steps must not decrease.
 */
plumb_status report_series_thin(report_series *series, double first, double last,
                                size_t columns, plumb_error *why);

/* What is drawn of the lines of metrics.jsonl: the loss, and what its mean hides. */
typedef enum report_field {
    REPORT_LOSS,
    REPORT_GRAD_NORM,
    REPORT_GRAD_NORM_MAX, /* of the tensor with the largest */
    REPORT_LOSS_MAX,      /* of the worst token */
    REPORT_UPDATE_MAX,    /* the largest change of a weight */
    REPORT_FIELDS
} report_field;

/* One field of lines that are read already, one point a step that has it. */
plumb_status report_series_take(const plumb_history *history, report_field field,
                                report_series *series, plumb_error *why);

/* Each field of a run, one point a step that has it.  An absent run has empty series. */
plumb_status report_series_run(const char *run_dir, report_series series[REPORT_FIELDS],
                               plumb_error *why);

/* What a chart of one site needs of one run. */
typedef struct report_site_series {
    report_series headroom, saturated, flushed, zero; /* the last three as parts of 1 */
} report_site_series;

plumb_status report_series_site(const plumb_samples *samples, const char *site,
                                report_site_series *series, plumb_error *why);
void report_site_series_free(report_site_series *series);

/* Smallest and largest finite value; false when there is none.  Larger than 0 only: positive. */
bool report_series_range(const report_series *series, bool positive, double *least,
                         double *most);

#endif
