/* A run on the terminal: no line is too wide, a spike of one step in thousands is seen, what is
 * appended appears, and nothing is written into the run.
 */
#include "report/spark.h"

#include "check.h"
#include "fixture.h"
#include "plumb/file.h"
#include "plumb/report.h"

#include <math.h>
#include <stdlib.h>

/* Columns of a line: bytes that begin a character, without ESC [ ... m. */
static size_t columns_of(const char *at, const char *end)
{
    size_t columns = 0;

    for (; at < end; at++) {
        if (*at == '\033')
            while (at < end && *at != 'm')
                at++;
        else
            columns += ((unsigned char)*at & 0xc0) != 0x80;
    }
    return columns;
}

static void check_frame(const plumb_watched *watched, int width, int height, bool unicode,
                        bool color)
{
    const plumb_screen screen = {.width = width, .unicode = unicode, .color = color};
    char *text = NULL;
    plumb_error why = {0};
    int lines = 0;

    CHECK_OK(plumb_watched_frame(watched, &screen, height, &text, &why), why);
    for (const char *at = text, *end; at != NULL && *at != 0; at = end + 1, lines++) {
        end = strchr(at, '\n');
        if (!CHECK(end != NULL, "a line without its end"))
            break;
        CHECK(columns_of(at, end) <= (size_t)(width < 40 ? 40 : width),
              "width %d: a line of %zu columns: %.*s", width, columns_of(at, end),
              (int)(end - at), at);
        for (; !unicode && at < end; at++)
            CHECK((unsigned char)*at < 0x80, "width %d: not ASCII", width);
    }
    CHECK(height == 0 || lines < height, "%d lines on %d", lines, height);
    free(text);
}

static void frames(const char *run_dir)
{
    static const int widths[] = {1, 40, 41, 57, 80, 91, 120, 200};
    plumb_watched *watched = NULL;
    plumb_error why = {0};
    bool changed, ended;

    CHECK_OK(plumb_watched_open(run_dir, run_dir, &watched, &why), why);
    CHECK_OK(plumb_watched_refresh(watched, &changed, &ended, &why), why);
    CHECK(changed, "nothing new at first");
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        for (int kind = 0; kind < 4; kind++) {
            check_frame(watched, widths[i], 0, kind & 1, kind & 2);
            for (int height = 8; height < 30; height++)
                check_frame(watched, widths[i], height, kind & 1, kind & 2);
        }
    CHECK_OK(plumb_watched_refresh(watched, &changed, &ended, &why), why);
    CHECK(!changed, "something new where nothing was written");
    CHECK(plumb_watched_exit(watched) == 1, "the run does not fail");
    plumb_watched_close(&watched);
    CHECK(watched == NULL, "not closed");
    CHECK(plumb_watched_open("/nonexistent/run", NULL, &watched, &why) == PLUMB_NOT_FOUND,
          "an absent directory");
    check_done("frames fit");
}

static void append(const char *run_dir, const char *name, const char *line)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", run_dir, name);
    file = fopen(path, "a");
    if (CHECK(file != NULL, "%s", path)) {
        fputs(line, file);
        fclose(file);
    }
}

/* Whether the frame has the words. */
static bool shows(const plumb_watched *watched, const char *words)
{
    const plumb_screen screen = {.width = 100};
    char *text = NULL;
    const bool found = plumb_watched_frame(watched, &screen, 0, &text, NULL) == PLUMB_OK &&
                       strstr(text, words) != NULL;

    free(text);
    return found;
}

static void grows(const char *directory)
{
    plumb_watched *watched = NULL;
    plumb_error why = {0};
    bool changed, ended;
    char line[400];

    CHECK_OK(plumb_watched_open(directory, NULL, &watched, &why), why);
    CHECK_OK(plumb_watched_refresh(watched, &changed, &ended, &why), why);
    CHECK(!changed && !ended && shows(watched, "No step is logged yet"), "an empty run");
    append(directory, "metrics.jsonl", "{\"step\":1,\"loss\":4.5}\n{\"step\":2,\"lo");
    CHECK_OK(plumb_watched_refresh(watched, &changed, &ended, &why), why);
    CHECK(changed && !ended && shows(watched, "at step 1"), "a line and a half");
    append(directory, "metrics.jsonl", "ss\":3.25}\n");
    CHECK_OK(plumb_watched_refresh(watched, &changed, &ended, &why), why);
    CHECK(changed && shows(watched, "3.25"), "the other half");
    plumb_watched_line(watched, line, sizeof line);
    CHECK(strcmp(line, "step 2  loss 3.2500") == 0, "'%s'", line);
    CHECK(plumb_watched_exit(watched) == 2, "a run that goes on");
    append(directory, "end.json", "{\"reason\":\"reached\",\"step\":2}");
    CHECK_OK(plumb_watched_refresh(watched, &changed, &ended, &why), why);
    CHECK(ended && plumb_watched_exit(watched) == 0, "the end");
    plumb_watched_close(&watched);
    check_done("a run that grows");
}

/* One step in 20,000, on 30 columns. */
static void spikes(void)
{
    enum { STEPS = 20000, COLUMNS = 30 };
    report_series series = {calloc(STEPS, sizeof *series.at), STEPS};
    report_text text = {0};

    for (size_t i = 0; i < STEPS; i++)
        series.at[i] = (report_point){(double)i, 2 + 0.01 * (double)(i % 3)};
    series.at[13500].value = 3;
    report_spark(&text, &series, COLUMNS, false, false);
    CHECK(text.size == COLUMNS && text.at[13500 * COLUMNS / STEPS] == '#', "'%s'", text.at);
    report_text_free(&text);
    series.at[13500].value = 1;
    report_spark(&text, &series, COLUMNS, true, false);
    CHECK(text.at[13500 * COLUMNS / STEPS] == '_' && text.at[0] != '_', "'%s'", text.at);
    report_text_free(&text);
    series.at[700].value = (double)NAN;
    report_spark(&text, &series, COLUMNS, false, false);
    CHECK(text.at[700 * COLUMNS / STEPS] == '!', "'%s'", text.at);
    report_text_free(&text);
    series.count = 1;
    report_spark(&text, &series, COLUMNS, false, true);
    CHECK(text.size == 3, "one point is %zu bytes", text.size);
    report_text_free(&text);
    report_series_free(&series);
    check_done("spikes are seen");
}

int main(void)
{
    char study[256], path[400];
    json_t *verdict = fixture_verdict("numerics.json");

    spikes();
    if (CHECK(verdict != NULL && fixture_directory(study) &&
                  fixture_study(study, verdict, 1),
              "no fixture")) {
        snprintf(path, sizeof path, "%s/runs/%s/run", study,
                 json_string_value(json_object_get(
                     json_array_get(json_object_get(verdict, "runs"), 0), "id")));
        frames(path);
        snprintf(path, sizeof path, "%s/fresh", study);
        CHECK(plumb_dir_make(path, NULL) == PLUMB_OK, "%s", path);
        grows(path);
        fixture_remove(study);
    }
    json_decref(verdict);
    return check_exit();
}
