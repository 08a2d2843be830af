/* The heat map: each cell has the worst of its steps, a single bad sample among millions is
 * there with its value, and the page of 1,000 sites and 10,000 steps stays below 2 MB.
 *
 * The reader of cells below is written from the sentence in report/heat.h and page.js: two digits
 * of base 87 over the printable characters that mean nothing in HTML.
 *
 *   test_report_heat [EVERY]     sensors every so many steps of the long run (10)
 */
#include "report/heat.h"

#include "check.h"
#include "fixture.h"
#include "plumb/file.h"
#include "plumb/report.h"

#include <math.h>
#include <stdlib.h>

/* --- reading cells ----------------------------------------------------------------- */

static int digit(char c)
{
    int place = 0;

    for (char each = '!'; each < c; each++)
        place += strchr("\"&'<>`\\", each) == NULL;
    return place;
}

/* NaN: no sample; -1: not finite. */
static double cell_at(const char *cells, size_t size, size_t column)
{
    const char *two = size > 2 ? cells + 2 * column : cells;
    const int code = 87 * digit(two[0]) + digit(two[1]);

    if (code < 4)
        return code == 0 ? (double)NAN : code == 1 ? -1 : code == 2 ? 0 : (double)INFINITY;
    return pow(10, 24.0 * (code - 4) / (87 * 87 - 5) - 12);
}

static bool is_near(double got, double want)
{
    return got == want || (isnan(got) && isnan(want)) || fabs(got / want - 1) < 0.005;
}

/* --- small maps against a second account --------------------------------------------- */

enum { SITES = 7, STEPS = 613 };

static uint64_t state = 1442695040888963407u;

static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1;
    return (uint32_t)(state >> 33) % below;
}

static void draw_samples(plumb_samples *samples)
{
    static char names[SITES][8];
    static char *list[SITES];

    *samples = (plumb_samples){.site_names = list, .site_count = SITES};
    samples->at = calloc(SITES * STEPS, sizeof *samples->at);
    for (uint32_t site = 0; site < SITES; site++) {
        snprintf(names[site], sizeof names[site], "site%u", (unsigned)site);
        list[site] = names[site];
    }
    for (uint64_t step = 1; step <= STEPS; step++)
        for (uint32_t site = 0; site < SITES; site++) {
            if (draw(10) == 0)
                continue;
            samples->at[samples->count++] = (plumb_sample){
                .step = 3 * step,
                .site = site,
                .headroom = draw(40) == 0
                                ? INFINITY
                                : ldexpf(1 + (float)draw(99) / 99, (int)draw(20) - 4),
                .amax = 1,
                .decoded_amax = draw(50) == 0 ? INFINITY : 1 + (float)draw(100) / 1000,
                .total = 1000,
                .saturated = draw(3) == 0 ? draw(1000) : 0,
                .flushed = draw(1000),
                .nonfinite = draw(200) == 0};
        }
}

/* The column of a step by the map's own list of first steps. */
static size_t column_of(const report_heat *heat, uint64_t step)
{
    size_t column = 0;

    while (column + 1 < heat->columns && heat->steps[column + 1] <= step)
        column++;
    return column;
}

static double seen_in(const plumb_sample *s, report_statistic statistic)
{
    switch (statistic) {
    case REPORT_HEADROOM:
        return s->nonfinite > 0 ? -1 : (double)s->headroom;
    case REPORT_SATURATED:
        return (double)s->saturated / 1000;
    case REPORT_FLUSHED:
        return (double)s->flushed / 1000;
    case REPORT_AMAX_ERROR:
        return isinf(s->decoded_amax) ? -1 : (double)s->decoded_amax - 1;
    default:
        return 0;
    }
}

static double worst_of(const plumb_samples *samples, const report_heat *heat, uint32_t site,
                       size_t column, report_statistic statistic)
{
    double worst = (double)NAN;

    for (size_t i = 0; i < samples->count; i++) {
        const plumb_sample *s = &samples->at[i];
        const double value = seen_in(s, statistic);

        if (s->site != site || column_of(heat, s->step) != column)
            continue;
        if (isnan(worst) || value < 0 ||
            (worst >= 0 && (statistic == REPORT_HEADROOM ? value < worst : value > worst)))
            worst = value;
    }
    return worst;
}

static void compare(const plumb_samples *samples, size_t bytes)
{
    report_heat heat;
    plumb_error why;

    CHECK_OK(report_heat_sites(samples, bytes, &heat, &why), why);
    CHECK(heat.rows == SITES && heat.left_out == 0, "%zu rows", heat.rows);
    CHECK(heat.columns >= 40 && heat.columns <= 240, "%zu columns", heat.columns);
    CHECK(heat.steps[0] == 3 && heat.steps[heat.columns] == 3 * STEPS,
          "first or last step");
    for (uint32_t site = 0; site < SITES; site++)
        for (int t = 0; t < REPORT_DEVIATION; t++) {
            report_text text = {0};

            if (!CHECK(heat.cell[t] != NULL, "no %s", report_statistic_name[t]))
                continue;
            report_heat_row(&text, heat.cell[t] + site * heat.columns, heat.columns);
            for (size_t c = 0; c < heat.columns; c++) {
                const double got = cell_at(text.at, text.size, c);
                const double want = worst_of(samples, &heat, site, c, (report_statistic)t);

                CHECK(is_near(got, want), "%s of site %u, column %zu: %g, want %g",
                      report_statistic_name[t], (unsigned)site, c, got, want);
            }
            report_text_free(&text);
        }
    report_heat_free(&heat);
}

static void small_maps(void)
{
    plumb_samples samples;

    draw_samples(&samples);
    compare(&samples, 400000);
    compare(&samples, 8000);
    free(samples.at);
    check_done("each cell is the worst of its steps");
}

/* Where not all rows fit, the site that saturates stays. */
static void left_out(void)
{
    plumb_samples samples;
    report_heat heat;
    plumb_error why;
    bool there = false;

    draw_samples(&samples);
    for (size_t i = 0; i < samples.count; i++)
        samples.at[i].saturated = samples.at[i].site == 5 ? 3 : 0;
    CHECK_OK(report_heat_sites(&samples, 1300, &heat, &why), why);
    CHECK(heat.rows == 2 && heat.left_out == SITES - 2, "%zu rows", heat.rows);
    for (size_t i = 0; i < heat.rows; i++)
        there = there || strcmp(heat.names[i], "site5") == 0;
    CHECK(there, "the site that saturates was left out");
    report_heat_free(&heat);
    CHECK_OK(report_heat_sites(&(plumb_samples){0}, 1300, &heat, &why), why);
    CHECK(heat.rows == 0, "rows of nothing");
    report_heat_free(&heat);
    free(samples.at);
    check_done("rows that do not fit");
}

/* --- the deviation of a run ------------------------------------------------------------ */

static void shadow(void)
{
    static const char text[] =
        "[{\"event\":\"shadow\",\"step\":1,\"layers\":[{\"name\":\"layer.0\",\"relative\":"
        "0.01}],"
        "\"gradient\":{\"relative\":0.5}},"
        "{\"event\":\"shadow\",\"step\":\"x\",\"layers\":7},"
        "{\"event\":\"shadow\",\"step\":9,\"layers\":[{\"name\":7},{\"name\":\"layer.0\","
        "\"relative\":\"NaN\"},{\"name\":\"layer.1\",\"relative\":-4}],\"gradient\":3}]";
    json_t *events = json_loads(text, 0, NULL);
    report_heat heat;
    plumb_error why;

    CHECK_OK(report_heat_shadow(events, 60000, &heat, &why), why);
    if (CHECK(heat.rows == 2 && heat.columns == 2, "%zu rows, %zu columns", heat.rows,
              heat.columns)) {
        CHECK(strcmp(heat.names[0], "layer.0") == 0 &&
                  strcmp(heat.names[1], "gradient") == 0,
              "%s, %s", heat.names[0], heat.names[1]);
        CHECK(heat.cell[REPORT_DEVIATION][0] == 0.01F &&
                  heat.cell[REPORT_DEVIATION][1] == REPORT_CELL_NONFINITE &&
                  heat.cell[REPORT_DEVIATION][2] == 0.5F &&
                  isnan(heat.cell[REPORT_DEVIATION][3]),
              "cells");
        CHECK(heat.steps[0] == 1 && heat.steps[1] == 9 && heat.steps[2] == 9, "steps");
    }
    report_heat_free(&heat);
    json_decref(events);
    CHECK_OK(report_heat_shadow(NULL, 60000, &heat, &why), why);
    CHECK(heat.rows == 0, "rows of no events");
    check_done("deviation of layers");
}

/* --- a large run ------------------------------------------------------------------------ */

enum { MANY_SITES = 1000, LONG = 10000, BAD_SITE = 617, BAD_STEP = 7770, CHUNK_STEPS = 50 };

/* Noise in every cell, so that nothing is saved by rows that are all equal. */
static plumb_sample sample_of(uint64_t step, uint32_t site)
{
    const bool bad = site == BAD_SITE && step == BAD_STEP;
    const uint32_t noise = (uint32_t)(step * 2654435761u + site * 40503u) >> 8;

    return (plumb_sample){.step = step,
                          .site = site,
                          .scale = 1,
                          .amax = 2,
                          .decoded_amax = 2 + (float)(noise % 97) / 1000,
                          .headroom = bad ? 0.125F : 4 + (float)(noise % 1000) / 10,
                          .total = 1 << 20,
                          .saturated = bad ? 1 << 17 : noise % 3,
                          .flushed = noise % 5000,
                          .zero = noise % 701};
}

static bool write_samples(plumb_run *run, uint64_t every, plumb_error *why)
{
    char(*text)[PLUMB_SITE_NAME] = calloc(MANY_SITES, sizeof *text);
    const char **names = calloc(MANY_SITES, sizeof *names);
    plumb_sample *rows = calloc((size_t)MANY_SITES * CHUNK_STEPS, sizeof *rows);
    bool good = text != NULL && names != NULL && rows != NULL;
    size_t count = 0;

    for (uint32_t site = 0; good && site < MANY_SITES; site++) {
        snprintf(text[site], sizeof text[site], "layer.%u/moe.expert.%u.down/fprop/x",
                 (unsigned)site / 10, (unsigned)site % 10);
        names[site] = text[site];
    }
    for (uint64_t step = every; good && step <= LONG; step += every) {
        for (uint32_t site = 0; site < MANY_SITES; site++)
            rows[count++] = sample_of(step, site);
        if (count == (size_t)MANY_SITES * CHUNK_STEPS || step + every > LONG) {
            good = plumb_run_samples(run, names, MANY_SITES, rows, count, why) == PLUMB_OK;
            count = 0;
        }
    }
    free(rows);
    free(names);
    free(text);
    return good;
}

/* All bins in use, as none of a real site are: at steps 1, 20, 40, ... a part that grows with k. */
static bool write_histograms(plumb_run *run, plumb_error *why)
{
    char(*text)[64] = calloc(MANY_SITES, sizeof *text);
    const char **names = calloc(MANY_SITES, sizeof *names);
    plumb_histogram *rows = calloc(MANY_SITES, sizeof *rows);
    bool good = text != NULL && names != NULL && rows != NULL;

    for (uint32_t i = 0; good && i < MANY_SITES; i++) {
        snprintf(text[i], sizeof text[i], "layer.%u/moe.expert.%u.down/fprop/x", i / 10,
                 i % 10);
        names[i] = text[i];
        for (int k = 0; k < PLUMB_BINS; k++)
            rows[i].bin[k] = (float)(k + 1 + (int)i);
        rows[i].first = -30;
        rows[i].sample = (plumb_sample){.site = i,
                                        .scale = 3,
                                        .least_scale = 2,
                                        .headroom = 9,
                                        .total = 1000,
                                        .saturated = i == BAD_SITE ? 125 : 0};
    }
    for (uint64_t step = 0; good && step <= LONG; step += 20) {
        for (uint32_t i = 0; i < MANY_SITES; i++)
            rows[i].sample.step = step > 0 ? step : 1;
        good =
            plumb_run_histograms(run, names, MANY_SITES, rows, MANY_SITES, why) == PLUMB_OK;
    }
    free(rows);
    free(names);
    free(text);
    return good;
}

static bool write_run(const char *directory, uint64_t every, plumb_error *why)
{
    plumb_run *run = NULL;
    bool good = plumb_run_create(directory, &run, why) == PLUMB_OK;

    for (int64_t step = 1; good && step <= LONG; step++) {
        const plumb_metrics line = {.step = step,
                                    .loss = 2 + 1 / (double)step,
                                    .grad_norm = 1 + (double)(step % 7),
                                    .has_grad_norm = true,
                                    .grad_norm_max = 0.5,
                                    .loss_max = 9,
                                    .update_max = 1e-3 + 1e-6 * (double)(step % 11),
                                    .has_details = true};

        good = plumb_run_step(run, &line, why) == PLUMB_OK;
    }
    good = good && write_samples(run, every, why) && write_histograms(run, why);
    if (run != NULL)
        good = plumb_run_end(&run, "reached", LONG, why) == PLUMB_OK && good;
    return good;
}

/* The value of data-NAME="..." of the list's item whose text is site, and the steps of its list. */
static void find_bad(const char *html)
{
    char name[80];
    const char *steps = strstr(html, "data-steps=\""), *item, *cells;
    size_t column = 0, at = 0;

    snprintf(name, sizeof name, ">layer.%d/moe.expert.%d.down/fprop/x</li>", BAD_SITE / 10,
             BAD_SITE % 10);
    item = strstr(html, name);
    if (!CHECK(steps != NULL && item != NULL, "no heat map, or no row %s", name))
        return;
    for (steps += 12; *steps != '"'; at++) {
        char *end;

        if (strtoull(steps, &end, 10) <= BAD_STEP)
            column = at;
        steps = *end == ' ' ? end + 1 : end;
    }
    while (item > html && strncmp(item, "<li", 3) != 0)
        item--;
    cells = strstr(item, "data-saturated=\"") + 16;
    CHECK(is_near(cell_at(cells, strcspn(cells, "\""), column), 0.125),
          "the bad step has %g of its values saturated, not an eighth",
          cell_at(cells, strcspn(cells, "\""), column));
    cells = strstr(item, "data-headroom=\"") + 15;
    CHECK(is_near(cell_at(cells, strcspn(cells, "\""), column), 0.125),
          "its headroom is %g", cell_at(cells, strcspn(cells, "\""), column));
}

/* The bad site is among those that are shown, and has its first step and its last. */
static void find_histogram(const char *html)
{
    char name[80];
    const char *figure = strstr(html, "<figure class=\"spectra\">"), *item, *rows, *at;
    uint64_t last = 0;
    int count = 0;

    snprintf(name, sizeof name, ">layer.%d/moe.expert.%d.down/fprop/x</li>", BAD_SITE / 10,
             BAD_SITE % 10);
    item = figure != NULL ? strstr(figure, name) : NULL;
    if (!CHECK(item != NULL, "no histograms of %s", name))
        return;
    while (strncmp(item, "<li", 3) != 0)
        item--;
    rows = strstr(item, "data-rows=\"") + 11;
    CHECK(strncmp(rows, "1 -30 48 1.585 1 0 ", 19) == 0, "%.40s", rows);
    for (at = rows; *at != '"' && count < 100; count++) {
        last = strtoull(at, NULL, 10);
        for (int field = 0; field < 7 && *at != '"'; field++)
            at += strcspn(at, " \"") + (at[strcspn(at, " \"")] == ' ');
    }
    CHECK(count >= 3 && last == LONG, "%d steps, the last %llu", count,
          (unsigned long long)last);
}

static void large(uint64_t every)
{
    char directory[256], path[4096];
    plumb_error why = {0};
    json_t *verdict = NULL;

    if (!CHECK(fixture_directory(directory) && write_run(directory, every, &why), "%s",
               why.message))
        return;
    CHECK_OK(plumb_report_run(directory, &verdict, &why), why);
    CHECK_OK(plumb_report_run_html(directory, verdict, path, &why), why);
    char *html = fixture_read(path);
    if (CHECK(html != NULL, "no page")) {
        CHECK(strlen(html) <= 2000000, "%zu bytes", strlen(html));
        printf("# %d sites, %d steps, sampled every %llu: %zu bytes\n", MANY_SITES, LONG,
               (unsigned long long)every, strlen(html));
        find_bad(html);
        find_histogram(html);
    }
    free(html);
    json_decref(verdict);
    fixture_remove(directory);
    check_done("1000 sites and 10000 steps in 2 MB");
}

int main(int count, char **arguments)
{
    const long every = count > 1 ? strtol(arguments[1], NULL, 10) : 10;

    small_maps();
    left_out();
    shadow();
    large(every > 0 ? (uint64_t)every : 10);
    return check_exit();
}
