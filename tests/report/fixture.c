/* A study made by hand: metrics lines are written as text, independent of the writer in
 * src/log; site statistics through plumb_run_samples, as there is only one writer of that format.
 */
#include "fixture.h"

#include "plumb/file.h"
#include "plumb/log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The last is a name that a page must not take for markup. */
static const char *const sites[] = {"layer.2/mlp.down/fprop/x", "layer.2/mlp.down/dgrad/dy",
                                    "layer.3/</ol><svg/onload=hostile='site'>"};
enum { SITES = sizeof sites / sizeof sites[0] };

json_t *fixture_verdict(const char *name)
{
    const char *source = getenv("PLUMB_SOURCE_DIR");
    char path[4096];

    snprintf(path, sizeof path, "%s/tests/report/%s", source != NULL ? source : ".", name);
    return json_load_file(path, 0, NULL);
}

/* Noise that is the same everywhere and means nothing. */
static double noise(int64_t step, int64_t salt)
{
    return (double)((step * 7919 + salt * 104729) % 1000) / 1000 - 0.5;
}

static double loss_at(double part, int64_t step, int64_t salt, double left)
{
    const double fall = 3.2 + 2.4 * exp(-part / 14.0) + 0.05 * noise(step, salt / 3);

    return left < 5 ? fall + 0.9 * (5 - left) / 5 : fall;
}

static bool write_metrics(const char *directory, const json_t *run, int64_t each,
                          int64_t salt)
{
    const int64_t last = json_integer_value(json_object_get(run, "last_step")) * each;
    const int64_t fails = json_integer_value(json_object_get(run, "fail_step")) * each;
    char *path = plumb_path_join(directory, "metrics.jsonl");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;

    free(path);
    if (file == NULL)
        return false;
    for (int64_t step = 1; step <= last; step++) {
        const double part = (double)step / (double)each;
        const double left = fails > 0 ? (double)(fails - step) / (double)each : 1e9;

        if (fails > 0 && step >= fails)
            fprintf(file, "{\"step\":%lld,\"loss\":\"NaN\"}\n", (long long)step);
        else
            fprintf(file, "{\"step\":%lld,\"loss\":%.9g}\n", (long long)step,
                    loss_at(part, step, salt, left) +
                        (strstr(json_string_value(json_object_get(run, "label")), "lower")
                             ? 0.35 * (1 - exp(-part / 10))
                             : 0));
    }
    return fclose(file) == 0;
}

/* Of 10 values at the failing site: 1 from 2^-14, 3 from 2^-9, 4 from 2^-8, 2 from 2^7; in e4m3 under
 * the scale 4 the window goes from 2^-11 to 112 and its subnormal part ends at 2^-8.
 */
static bool write_histograms(plumb_run *run, int64_t last, plumb_error *why)
{
    json_t *specs = json_pack("{s:{s:s, s:s}}", "sites", sites[1], "e4m3:delayed", sites[2],
                              "<b>no format</b>");
    bool good = plumb_run_event(run, "effective", specs, why) == PLUMB_OK;

    for (int64_t step = 1; good && step <= last; step += 3) {
        plumb_histogram rows[] = {
            {.sample = {.step = (uint64_t)step, .site = 1, .scale = 4, .least_scale = 4},
             .first = -14,
             .bin = {[0] = 1, [5] = 3, [6] = 4, [21] = 2}},
            {.sample = {.step = (uint64_t)step, .site = 2}, .bin = {[9] = 0.5F}},
        };

        rows[0].sample.total = 16;
        rows[0].sample.zero = 6;
        good = plumb_run_histograms(run, sites, SITES, rows, 2, why) == PLUMB_OK;
    }
    return good;
}

static bool write_samples(const char *directory, int64_t last, bool ill, plumb_error *why)
{
    plumb_run *run = NULL;
    bool good = plumb_run_create(directory, &run, why) == PLUMB_OK;

    for (int64_t step = 1; good && step <= last; step++) {
        const double drop =
            ill ? 4.2 * exp(-(double)step / 5.0) : 3.2 + 1.4 * sin((double)step / 3.0);
        const uint64_t total = 65536;
        plumb_sample rows[SITES] = {
            {.step = (uint64_t)step, .site = 0, .scale = 1, .headroom = 2, .total = total},
            {.step = (uint64_t)step, .site = 1, .scale = 1, .total = total},
            {.step = (uint64_t)step, .site = 2, .headroom = 30, .total = total, .zero = 9},
        };

        rows[1].headroom = (float)drop;
        rows[1].saturated = drop < 1 ? (uint64_t)((1 - drop) * 900) : 0;
        rows[1].flushed = ill ? (uint64_t)(30 + 9 * step) : (uint64_t)(40 + step % 7);
        good = plumb_run_samples(run, sites, SITES, rows, SITES, why) == PLUMB_OK;
    }
    good = good && write_histograms(run, last, why);
    if (run != NULL)
        good = plumb_run_end(&run, "reached", last, why) == PLUMB_OK && good;
    return good;
}

bool fixture_study(const char *study, const json_t *verdict, int64_t each)
{
    const json_t *run;
    plumb_error why;
    size_t i;
    bool fixed = false;

    json_array_foreach(json_object_get(verdict, "runs"), i, run)
    {
        char path[4096];
        const char *phase = json_string_value(json_object_get(run, "phase"));
        const int64_t last = json_integer_value(json_object_get(run, "last_step"));
        const bool proof = !fixed && strcmp(phase, "proof") == 0;

        snprintf(path, sizeof path, "%s/runs/%s/run", study,
                 json_string_value(json_object_get(run, "id")));
        if (plumb_dir_make(path, &why) != PLUMB_OK)
            return false;
        if ((i == 0 || proof) && !write_samples(path, last, i == 0, &why))
            return false;
        fixed = fixed || proof;
        if (!write_metrics(path, run, each, (int64_t)i))
            return false;
    }
    return true;
}

bool fixture_directory(char path[256])
{
    const char *base = getenv("TMPDIR");

    snprintf(path, 256, "%s/plumb-report-XXXXXX",
             base != NULL && *base != 0 ? base : "/tmp");
    return mkdtemp(path) != NULL;
}

void fixture_remove(const char *path)
{
    plumb_dir_remove(path, NULL);
}

char *fixture_read(const char *path)
{
    char *data = NULL;
    size_t size;

    return plumb_file_read(path, (size_t)64 << 20, &data, &size, NULL) == PLUMB_OK ? data
                                                                                   : NULL;
}
