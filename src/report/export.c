/* Runs as TensorBoard event files, under the tags that its users' dashboards already have.
 * Everything comes from the run directory; wall time is the sum of the steps' seconds, so the same
 * run gives the same bytes.
 */
#include "plumb/report.h"

#include "plumb/file.h"
#include "report/heat.h"
#include "report/tensorboard.h"
#include "report/verdict.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 200, MOST_VALUES = 400000, SITE_STATISTICS = 4 };

#define EVENT_FILE "events.out.tfevents.0000000000.plumb"

/* --- steps ----------------------------------------------------------------------- */

static bool loss(const plumb_metrics *m, double *value)
{
    *value = m->loss;
    return true;
}

static bool grad_norm(const plumb_metrics *m, double *value)
{
    *value = m->grad_norm;
    return m->has_grad_norm;
}

static bool loss_max(const plumb_metrics *m, double *value)
{
    *value = m->loss_max;
    return m->has_details;
}

static bool rate(const plumb_metrics *m, double *value)
{
    *value = m->lr;
    return m->has_details;
}

static bool grad_norm_max(const plumb_metrics *m, double *value)
{
    *value = m->grad_norm_max;
    return m->has_details;
}

static bool update_max(const plumb_metrics *m, double *value)
{
    *value = m->update_max;
    return m->has_details;
}

/* Names of Megatron-LM, of torchtitan, of the trackers of Hugging Face's Trainer; then what none of
 * them has.
 */
static const struct {
    const char *tag;
    bool (*get)(const plumb_metrics *m, double *value);
} step_tags[] = {
    {"lm loss", loss},
    {"grad-norm", grad_norm},
    {"learning-rate", rate},
    {"loss_metrics/global_avg_loss", loss},
    {"loss_metrics/global_max_loss", loss_max},
    {"grad_norm", grad_norm},
    {"train/loss", loss},
    {"train/grad_norm", grad_norm},
    {"train/learning_rate", rate},
    {"plumb/grad_norm_max", grad_norm_max},
    {"plumb/update_max", update_max},
};

static void add_steps(report_text *file, const plumb_history *history)
{
    double wall = 0;

    for (size_t i = 0; i < history->count; i++) {
        const plumb_metrics *m = &history->at[i];
        report_event event = {{0}};
        double value;

        wall += m->seconds > 0 ? m->seconds : 0;
        for (size_t t = 0; t < sizeof step_tags / sizeof step_tags[0]; t++)
            if (step_tags[t].get(m, &value))
                report_event_value(&event, step_tags[t].tag, value);
        report_event_end(file, &event, m->step, wall);
    }
}

/* --- sites ----------------------------------------------------------------------- */

static double percent(uint64_t some, uint64_t of)
{
    return of > 0 ? 100 * ((double)some / (double)of) : 0;
}

/* As dlfw-inspect names them, NAME_STATISTIC; underflows are parts of what was not zero. */
static void add_site(report_event *event, const char *site, const plumb_sample *s)
{
    const struct {
        const char *name;
        double value;
    } of[SITE_STATISTICS] = {
        {"underflows%", percent(s->flushed, s->total - s->zero)},
        {"overflows%", percent(s->saturated, s->total)},
        {"amax", (double)s->amax},
        {"headroom", (double)s->headroom},
    };

    for (int i = 0; i < SITE_STATISTICS; i++) {
        char tag[PLUMB_SITE_NAME + 20];

        plumb_print(tag, sizeof tag, "%s_%s", site, of[i].name);
        report_event_value(event, tag, of[i].value);
    }
}

/* Seconds that had passed at a step. */
static double wall_at(const plumb_history *history, size_t *next, double *wall,
                      uint64_t step)
{
    while (*next < history->count && history->at[*next].step <= (int64_t)step) {
        *wall += history->at[*next].seconds > 0 ? history->at[*next].seconds : 0;
        (*next)++;
    }
    return *wall;
}

/* All sites, or as many of the most harmed as MOST_VALUES values allow. */
static plumb_status add_sites(report_text *file, const plumb_history *history,
                              const plumb_samples *samples, plumb_error *why)
{
    const size_t each = samples->count / (samples->site_count + !samples->site_count) + 1;
    const size_t most = MOST_VALUES / SITE_STATISTICS / each;
    size_t *row = calloc(samples->site_count + 1, sizeof *row), next = 0;
    report_event event = {{0}};
    double wall = 0;

    if (row == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu sites",
                          samples->site_count);
    const plumb_status status = report_heat_choose(
        samples, samples->site_count < most ? samples->site_count : most, row, why);
    for (size_t i = 0; status == PLUMB_OK && i < samples->count; i++) {
        const plumb_sample *s = &samples->at[i];

        if (row[s->site] != SIZE_MAX)
            add_site(&event, samples->site_names[s->site], s);
        if (i + 1 == samples->count || samples->at[i + 1].step != s->step)
            report_event_end(file, &event, (int64_t)s->step,
                             wall_at(history, &next, &wall, s->step));
    }
    free(row);
    return status;
}

/* --- files ----------------------------------------------------------------------- */

static plumb_status write_file(const char *directory, const report_text *file,
                               plumb_error *why)
{
    char *path = plumb_path_join(directory, EVENT_FILE);
    plumb_status status = PLUMB_NO_MEMORY;

    if (path == NULL || file->failed)
        plumb_fail(why, PLUMB_NO_MEMORY, "no memory for an event file");
    else
        status = plumb_dir_make(directory, why);
    if (status == PLUMB_OK)
        status = plumb_file_write(path, file->at, file->size, why);
    free(path);
    return status;
}

/* *written is false, and nothing is written, where the run left no lines. */
static plumb_status export_run(const char *run_dir, const char *to, bool *written,
                               plumb_error *why)
{
    plumb_history history = {0};
    plumb_samples samples = {0};
    report_text file = {0};
    plumb_error none;
    plumb_status status = plumb_history_refresh(run_dir, &history, true, why);

    *written = status == PLUMB_OK && history.count > 0;
    if (*written) {
        report_event_version(&file);
        add_steps(&file, &history);
        if (plumb_samples_read(run_dir, &samples, &none) == PLUMB_OK)
            status = add_sites(&file, &history, &samples, why);
        if (status == PLUMB_OK)
            status = write_file(to, &file, why);
    }
    report_text_free(&file);
    plumb_samples_free(&samples);
    plumb_history_free(&history);
    return status;
}

plumb_status plumb_report_run_tensorboard(const char *run_dir, char path[4096],
                                          plumb_error *why)
{
    const int size = snprintf(path, 4096, "%s/tensorboard", run_dir);
    bool written;

    if (size < 0 || size >= 4096)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "the path of %.60s... is too long",
                          run_dir);
    const plumb_status status = export_run(run_dir, path, &written, why);

    if (status == PLUMB_OK && !written)
        return plumb_fail(why, PLUMB_NOT_FOUND, "%s: no step is logged there", run_dir);
    return status;
}

/* "03-bf16-twin": in the order of the study; letters, digits, dots and dashes. */
static void name_run(const report_run *run, size_t index, char *name, size_t size)
{
    const char *label = run->label != NULL ? run->label : "run";

    plumb_print(name, size, "%02zu-%.60s", index, label);
    for (char *c = name; *c != 0; c++)
        if (!isalnum((unsigned char)*c) && *c != '.' && *c != '-')
            *c = '-';
}

static plumb_status export_runs(const char *study, const char *to, const report_verdict *v,
                                plumb_error *why)
{
    plumb_status status = plumb_dir_remove(to, why);

    for (size_t i = 0; i < v->run_count && i < MOST_RUNS && status == PLUMB_OK; i++) {
        char run_dir[4096], name[80];
        bool written;

        if (!report_run_directory(study, &v->runs[i], run_dir))
            continue;
        name_run(&v->runs[i], i + 1, name, sizeof name);
        char *directory = plumb_path_join(to, name);
        if (directory == NULL)
            return plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
        status = export_run(run_dir, directory, &written, why);
        free(directory);
    }
    return status;
}

plumb_status plumb_report_tensorboard(const char *study, const json_t *verdict,
                                      char path[4096], plumb_error *why)
{
    const int size = snprintf(path, 4096, "%s/tensorboard", study);
    report_verdict v;

    if (size < 0 || size >= 4096)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "the path of %.60s... is too long",
                          study);
    plumb_status status = report_verdict_read(verdict, &v, why);

    if (status != PLUMB_OK)
        return status;
    status = export_runs(study, path, &v, why);
    report_verdict_free(&v);
    return status;
}
