/* Thinning for a picture keeps spikes: for random series with spikes, the least and the largest
 * value of every pixel column are found by a second, quadratic program.
 */
#include "report/series.h"

#include "check.h"

#include <math.h>
#include <stdlib.h>

static uint64_t state = 2463534242u;

static double draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0;
}

static report_series make(size_t count, double first, double last)
{
    report_series s = {calloc(count, sizeof *s.at), count};

    for (size_t i = 0; i < count; i++) {
        const double dice = draw();

        s.at[i].step = floor(first + (last - first) * (double)i / (double)(count - 1));
        s.at[i].value = dice < 0.001   ? (double)NAN
                        : dice < 0.002 ? (double)INFINITY
                        : dice < 0.01  ? 1e9 * (draw() - 0.5)
                                       : draw();
    }
    return s;
}

static bool holds(const report_series *s, report_point p)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->at[i].step == p.step &&
            (s->at[i].value == p.value || (isnan(s->at[i].value) && isnan(p.value))))
            return true;
    return false;
}

/* Column k covers [first + k w, first + (k+1) w), the last one its right end too. */
static bool is_in_column(double step, double first, double last, size_t columns, size_t k)
{
    const double position = (step - first) * (double)columns / (last - first);

    return position >= (double)k && (position < (double)(k + 1) || k + 1 == columns);
}

static void column_keeps(const report_series *full, const report_series *thin, double first,
                         double last, size_t columns, size_t k)
{
    report_point least = {0, INFINITY}, most = {0, -INFINITY};
    bool any = false, any_odd = false, odd_kept = false;

    for (size_t i = 0; i < full->count; i++) {
        const report_point p = full->at[i];

        if (!is_in_column(p.step, first, last, columns, k))
            continue;
        any_odd |= !isfinite(p.value);
        if (!isfinite(p.value))
            continue;
        any = true;
        least = p.value < least.value ? p : least;
        most = p.value > most.value ? p : most;
    }
    for (size_t i = 0; i < thin->count; i++)
        odd_kept |= !isfinite(thin->at[i].value) &&
                    is_in_column(thin->at[i].step, first, last, columns, k);
    if (any) {
        CHECK(holds(thin, least), "column %zu lost its least value %g", k, least.value);
        CHECK(holds(thin, most), "column %zu lost its largest value %g", k, most.value);
    }
    CHECK(any_odd == odd_kept, "column %zu: non-finite %d, kept %d", k, any_odd, odd_kept);
}

static void keeps(size_t count, size_t columns)
{
    const double first = 1, last = 1 + (double)count * 3;
    report_series full = make(count, first, last),
                  thin = {calloc(count, sizeof *thin.at), count};
    plumb_error why;

    memcpy(thin.at, full.at, count * sizeof *thin.at);
    CHECK_OK(report_series_thin(&thin, first, last, columns, &why), why);
    CHECK(thin.count <= 3 * columns, "%zu points for %zu columns", thin.count, columns);
    for (size_t i = 1; i < thin.count; i++)
        CHECK(thin.at[i].step >= thin.at[i - 1].step, "step %g after %g", thin.at[i].step,
              thin.at[i - 1].step);
    for (size_t i = 0; i < thin.count; i++)
        CHECK(holds(&full, thin.at[i]), "point %zu was not in the series", i);
    for (size_t k = 0; k < columns; k++)
        column_keeps(&full, &thin, first, last, columns, k);
    report_series_free(&full);
    report_series_free(&thin);
}

static void property(void)
{
    keeps(1000, 7);
    keeps(5000, 64);
    keeps(4999, 128);
    keeps(301, 100);
    check_done("min and max of each column survive");
}

static void edges(void)
{
    report_series s = make(30, 1, 30);
    plumb_error why;
    double least = 7, most = 7;

    CHECK_OK(report_series_thin(&s, 1, 30, 10, &why), why);
    CHECK(s.count == 30, "a short series was thinned to %zu", s.count);
    CHECK_OK(report_series_thin(&s, 5, 5, 3, &why), why);
    CHECK(s.count >= 1 && s.count <= 9, "an empty range of steps gave %zu points", s.count);
    CHECK(report_series_thin(&s, 1, 30, 0, &why) == PLUMB_BAD_ARGUMENT, "0 columns");
    report_series_free(&s);
    CHECK_OK(report_series_thin(&s, 1, 30, 10, &why), why);
    CHECK(!report_series_range(&s, false, &least, &most) && least == 7, "range of nothing");
    report_series fields[REPORT_FIELDS];
    CHECK_OK(report_series_run("/nonexistent/run", fields, &why), why);
    for (int f = 0; f < REPORT_FIELDS; f++)
        CHECK(fields[f].count == 0, "an absent run has %zu points", fields[f].count);
    check_done("edges");
}

static void site(void)
{
    char name[] = "layer.0/x", *names[] = {name};
    plumb_sample rows[] = {
        {.step = 1, .headroom = 2, .total = 8, .saturated = 2, .flushed = 4},
        {.step = 2, .headroom = INFINITY, .total = 8},
        {.step = 3, .headroom = INFINITY, .total = 8, .nonfinite = 8},
        {.step = 4, .headroom = 0},
        {.step = 5, .site = 1, .headroom = 7, .total = 8},
    };
    const plumb_samples samples = {
        .site_names = names, .site_count = 1, .at = rows, .count = 5};
    report_site_series s;
    plumb_error why;

    CHECK_OK(report_series_site(&samples, "layer.0/x", &s, &why), why);
    if (CHECK(s.headroom.count == 4, "%zu rows of the site", s.headroom.count)) {
        CHECK(s.headroom.at[0].value == 2, "headroom %g", s.headroom.at[0].value);
        CHECK(isfinite(s.headroom.at[1].value) && s.headroom.at[1].value > 1e38,
              "an empty tensor is far from full, not %g", s.headroom.at[1].value);
        CHECK(isnan(s.headroom.at[2].value), "values that are not finite: %g",
              s.headroom.at[2].value);
        CHECK(s.saturated.at[0].value == 0.25 && s.flushed.at[0].value == 0.5,
              "parts %g, %g", s.saturated.at[0].value, s.flushed.at[0].value);
        CHECK(s.saturated.at[3].value == 0, "part of nothing: %g", s.saturated.at[3].value);
    }
    report_site_series_free(&s);
    CHECK_OK(report_series_site(&samples, "layer.9/x", &s, &why), why);
    CHECK(s.headroom.count == 0, "rows of an unknown site");
    report_site_series_free(&s);
    check_done("a site's rows");
}

int main(void)
{
    property();
    site();
    edges();
    return check_exit();
}
