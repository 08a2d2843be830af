/* Numbers over steps.  Thinning never invents a point: what comes out went in. */
#include "report/series.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void report_series_free(report_series *series)
{
    free(series->at);
    *series = (report_series){0};
}

static plumb_status make_room(report_series *series, size_t count, plumb_error *why)
{
    *series = (report_series){0};
    if (count == 0)
        return PLUMB_OK;
    series->at = calloc(count, sizeof *series->at);
    if (series->at == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a chart of %zu points",
                          count);
    return PLUMB_OK;
}

/* --- thinning -------------------------------------------------------------------- */

enum { NOTHING = -1 };

/* What is kept of one pixel column: indexes into the series. */
typedef struct kept {
    ptrdiff_t least, most, nonfinite;
} kept;

static void consider(kept *k, const report_point *at, size_t i)
{
    if (!isfinite(at[i].value)) {
        if (k->nonfinite == NOTHING)
            k->nonfinite = (ptrdiff_t)i;
        return;
    }
    if (k->least == NOTHING || at[i].value < at[k->least].value)
        k->least = (ptrdiff_t)i;
    if (k->most == NOTHING || at[i].value > at[k->most].value)
        k->most = (ptrdiff_t)i;
}

/* Moves the kept points to at[count ...] in their order; returns the new count.  Writing never
 * overtakes reading, as a column yields no more points than it held.
 */
static size_t emit(const kept *k, report_point *at, size_t count)
{
    const ptrdiff_t three[] = {k->least, k->most, k->nonfinite};
    ptrdiff_t before = NOTHING;

    for (int round = 0; round < 3; round++) {
        ptrdiff_t next = NOTHING;

        for (int i = 0; i < 3; i++)
            if (three[i] > before && (next == NOTHING || three[i] < next))
                next = three[i];
        if (next == NOTHING)
            break;
        at[count++] = at[next];
        before = next;
    }
    return count;
}

static size_t column_of(double step, double first, double last, size_t columns)
{
    const double part = last > first ? (step - first) / (last - first) : 0;

    if (!(part > 0))
        return 0;
    return part >= 1 ? columns - 1 : (size_t)(part * (double)columns);
}

plumb_status report_series_thin(report_series *series, double first, double last,
                                size_t columns, plumb_error *why)
{
    static const kept none = {NOTHING, NOTHING, NOTHING};
    kept k = none;
    size_t count = 0, column = 0;

    if (columns == 0)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "a chart of 0 columns");
    if (series->count <= 3 * columns)
        return PLUMB_OK;
    for (size_t i = 0; i < series->count; i++) {
        const size_t here = column_of(series->at[i].step, first, last, columns);

        if (here != column) {
            count = emit(&k, series->at, count);
            k = none;
            column = here;
        }
        consider(&k, series->at, i);
    }
    series->count = emit(&k, series->at, count);
    return PLUMB_OK;
}

bool report_series_range(const report_series *series, bool positive, double *least,
                         double *most)
{
    bool any = false;

    for (size_t i = 0; i < series->count; i++) {
        const double value = series->at[i].value;

        if (!isfinite(value) || (positive && !(value > 0)))
            continue;
        *least = any && *least < value ? *least : value;
        *most = any && *most > value ? *most : value;
        any = true;
    }
    return any;
}

/* --- reading --------------------------------------------------------------------- */

/* False: the line does not have it.  A value that is not finite is there, and is drawn so. */
static bool field_of(const plumb_metrics *m, report_field field, double *value)
{
    switch (field) {
    case REPORT_LOSS:
        *value = m->loss;
        return true;
    case REPORT_GRAD_NORM:
        *value = m->grad_norm;
        return m->has_grad_norm;
    case REPORT_GRAD_NORM_MAX:
        *value = m->grad_norm_max;
        return m->has_details;
    case REPORT_LOSS_MAX:
        *value = m->loss_max;
        return m->has_details;
    case REPORT_UPDATE_MAX:
        *value = m->update_max;
        return m->has_details;
    case REPORT_FIELDS:
        break;
    }
    return false;
}

plumb_status report_series_take(const plumb_history *history, report_field field,
                                report_series *series, plumb_error *why)
{
    plumb_status status = make_room(series, history->count, why);

    for (size_t i = 0; status == PLUMB_OK && i < history->count; i++) {
        report_point *next = &series->at[series->count];

        next->step = (double)history->at[i].step;
        series->count += field_of(&history->at[i], field, &next->value);
    }
    return status;
}

plumb_status report_series_run(const char *run_dir, report_series series[REPORT_FIELDS],
                               plumb_error *why)
{
    plumb_history history = {0};
    plumb_status status = plumb_history_refresh(run_dir, &history, true, why);

    for (int f = 0; f < REPORT_FIELDS; f++) {
        series[f] = (report_series){0};
        if (status == PLUMB_OK)
            status = report_series_take(&history, (report_field)f, &series[f], why);
    }
    plumb_history_free(&history);
    return status;
}

static bool find_site(const plumb_samples *samples, const char *site, size_t *index)
{
    for (size_t i = 0; i < samples->site_count; i++) {
        if (samples->site_names[i] != NULL && strcmp(samples->site_names[i], site) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

/* Infinite headroom (amax 0) is far from full, not a failure: drawn at the upper edge.  Where
 * values are not finite there is no headroom to speak of: a cross.
 */
static double headroom_of(const plumb_sample *sample)
{
    if (sample->nonfinite > 0)
        return (double)NAN;
    return sample->headroom > FLT_MAX ? (double)FLT_MAX : (double)sample->headroom;
}

static double part_of(uint64_t some, uint64_t total)
{
    return total > 0 ? (double)some / (double)total : 0;
}

plumb_status report_series_site(const plumb_samples *samples, const char *site,
                                report_site_series *series, plumb_error *why)
{
    size_t index, count = 0;
    plumb_status status;

    *series = (report_site_series){0};
    if (!find_site(samples, site, &index))
        return PLUMB_OK;
    for (size_t i = 0; i < samples->count; i++)
        count += samples->at[i].site == index;
    status = make_room(&series->headroom, count, why);
    if (status == PLUMB_OK)
        status = make_room(&series->saturated, count, why);
    if (status == PLUMB_OK)
        status = make_room(&series->flushed, count, why);
    if (status == PLUMB_OK)
        status = make_room(&series->zero, count, why);
    for (size_t i = 0; status == PLUMB_OK && i < samples->count; i++) {
        const plumb_sample *s = &samples->at[i];
        const double step = (double)s->step;

        if (s->site != index)
            continue;
        series->headroom.at[series->headroom.count++] =
            (report_point){step, headroom_of(s)};
        series->saturated.at[series->saturated.count++] =
            (report_point){step, part_of(s->saturated, s->total)};
        series->flushed.at[series->flushed.count++] =
            (report_point){step, part_of(s->flushed, s->total)};
        series->zero.at[series->zero.count++] =
            (report_point){step, part_of(s->zero, s->total)};
    }
    if (status != PLUMB_OK)
        report_site_series_free(series);
    return status;
}

void report_site_series_free(report_site_series *series)
{
    report_series_free(&series->headroom);
    report_series_free(&series->saturated);
    report_series_free(&series->flushed);
    report_series_free(&series->zero);
}
