/* Levels of a sparkline are eight blocks, or eight characters that grow darker in ASCII. */
#include "report/spark.h"

#include <math.h>

static const char *const blocks[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                     "\u2585", "\u2586", "\u2587", "\u2588"};
static const char *const marks[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
enum { LEVELS = sizeof blocks / sizeof blocks[0] };

/* The worst of points from ... to - 1; a value that is not finite is the worst. */
static double worst_of(const report_point *at, size_t from, size_t to, bool least)
{
    double worst = at[from].value;

    for (size_t i = from; i < to; i++) {
        if (!isfinite(at[i].value))
            return at[i].value;
        if (least ? at[i].value < worst : at[i].value > worst)
            worst = at[i].value;
    }
    return worst;
}

/* 0 ... LEVELS - 1. */
static int level_of(double value, double low, double high)
{
    const bool log_axis = low > 0 && high / low > 30;
    const double span = log_axis ? log(high / low) : high - low;
    const double part = span > 0 ? (log_axis ? log(value / low) : value - low) / span : 0;

    return (int)fmin(fmax(part, 0) * LEVELS, LEVELS - 1);
}

void report_spark(report_text *text, const report_series *series, size_t columns,
                  bool least, bool unicode)
{
    const size_t shown = series->count < columns ? series->count : columns;
    double low = 0, high = 0;

    report_series_range(series, false, &low, &high);
    for (size_t c = 0; c < shown; c++) {
        const double value = worst_of(series->at, c * series->count / shown,
                                      (c + 1) * series->count / shown, least);

        if (!isfinite(value))
            report_add(text, "!");
        else
            report_add(text, (unicode ? blocks : marks)[level_of(value, low, high)]);
    }
}

void report_spark_cell(report_text *text, double harm, bool unicode)
{
    static const char *const shades[] = {"\u00b7", "\u2591", "\u2592", "\u2593", "\u2588"};
    static const char *const letters[] = {".", ":", "+", "*", "#"};
    enum { SHADES = sizeof shades / sizeof shades[0] };

    if (!(harm >= 0))
        report_add(text, " ");
    else
        report_add(text,
                   (unicode ? shades : letters)[(int)fmin(harm * SHADES, SHADES - 1)]);
}
