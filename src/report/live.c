/* A run on a terminal while it is written: what its log has so far, as lines that fit the screen.
 * Reading costs what was appended, but for site statistics, which are read whole when they grew.
 */
#include "plumb/report.h"

#include "report/heat.h"
#include "report/seen.h"
#include "report/spark.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NAME = 15, VALUE = 10, MOST_PICTURE = 120, PLAIN_ROWS = 16 };

/* The worst over all sites, a point for each sampled step. */
typedef struct worst_site {
    report_series headroom, saturated, flushed;
} worst_site;

struct plumb_watched {
    report_seen run;
    char *run_dir, *twin_dir;
    plumb_history twin;
    report_series fields[REPORT_FIELDS], gap;
    plumb_samples samples;
    int64_t samples_size; /* of the file that they were read from */
    worst_site worst;
};

/* --- reading --------------------------------------------------------------------- */

static void free_series(plumb_watched *w)
{
    for (int f = 0; f < REPORT_FIELDS; f++)
        report_series_free(&w->fields[f]);
    report_series_free(&w->gap);
}

static void free_samples(plumb_watched *w)
{
    plumb_samples_free(&w->samples);
    report_series_free(&w->worst.headroom);
    report_series_free(&w->worst.saturated);
    report_series_free(&w->worst.flushed);
}

void plumb_watched_close(plumb_watched **watched)
{
    plumb_watched *w = *watched;

    if (w == NULL)
        return;
    free_series(w);
    free_samples(w);
    report_seen_free(&w->run);
    plumb_history_free(&w->twin);
    free(w->run_dir);
    free(w->twin_dir);
    free(w);
    *watched = NULL;
}

static bool is_study(const char *directory)
{
    char path[4200];
    struct stat info;

    plumb_print(path, sizeof path, "%s/runs", directory);
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

plumb_status plumb_watched_open(const char *run_dir, const char *twin,
                                plumb_watched **watched, plumb_error *why)
{
    plumb_watched *w = calloc(1, sizeof *w);
    struct stat info;

    *watched = w;
    if (w != NULL) {
        w->run_dir = strdup(run_dir);
        w->twin_dir = twin != NULL ? strdup(twin) : NULL;
        w->run.run_dir = w->run_dir;
    }
    if (w == NULL || w->run_dir == NULL || (twin != NULL && w->twin_dir == NULL)) {
        plumb_watched_close(watched);
        return plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
    }
    for (int i = 0; i < 2; i++) {
        const char *directory = i == 0 ? run_dir : twin;

        if (directory != NULL && (stat(directory, &info) != 0 || !S_ISDIR(info.st_mode))) {
            plumb_watched_close(watched);
            return plumb_fail(why, PLUMB_NOT_FOUND, "%s: no such directory", directory);
        }
    }
    if (is_study(run_dir)) {
        plumb_watched_close(watched);
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "%s is a study; each of its runs is a %s/runs/ID/run", run_dir,
                          run_dir);
    }
    return PLUMB_OK;
}

/* Smoothed as the predicates smooth it: the average starts with its first value. */
static plumb_status take_gap(plumb_watched *w, plumb_error *why)
{
    const plumb_history *a = &w->run.history, *b = &w->twin;
    double smooth = (double)NAN;

    if (a->count == 0 || b->count == 0)
        return PLUMB_OK;
    w->gap.at = calloc(a->count, sizeof *w->gap.at);
    if (w->gap.at == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu steps", a->count);
    for (size_t i = 0, k = 0; i < a->count; i++) {
        while (k < b->count && b->at[k].step < a->at[i].step)
            k++;
        if (k == b->count || b->at[k].step != a->at[i].step)
            continue;
        const double gap = a->at[i].loss - b->at[k].loss;

        smooth = isnan(smooth) ? gap : 0.9 * smooth + 0.1 * gap;
        w->gap.at[w->gap.count++] = (report_point){(double)a->at[i].step, smooth};
    }
    return PLUMB_OK;
}

static double part(uint64_t some, uint64_t total)
{
    return total > 0 ? (double)some / (double)total : 0;
}

static void add_worst(worst_site *worst, const plumb_sample *s, bool new_step)
{
    const double headroom = s->nonfinite > 0 ? (double)NAN : (double)s->headroom;
    report_point *h, *c, *f;

    if (new_step) {
        const double step = (double)s->step;

        worst->headroom.at[worst->headroom.count++] = (report_point){step, INFINITY};
        worst->saturated.at[worst->saturated.count++] = (report_point){step, 0};
        worst->flushed.at[worst->flushed.count++] = (report_point){step, 0};
    }
    h = &worst->headroom.at[worst->headroom.count - 1];
    c = &worst->saturated.at[worst->saturated.count - 1];
    f = &worst->flushed.at[worst->flushed.count - 1];
    if (isnan(headroom) || headroom < h->value)
        h->value = headroom;
    c->value = fmax(c->value, part(s->saturated, s->total));
    f->value = fmax(f->value, part(s->flushed, s->total));
}

static plumb_status take_samples(plumb_watched *w, plumb_error *why)
{
    worst_site *worst = &w->worst;

    if (w->samples.count == 0)
        return PLUMB_OK;
    worst->headroom.at = calloc(w->samples.count, sizeof *worst->headroom.at);
    worst->saturated.at = calloc(w->samples.count, sizeof *worst->saturated.at);
    worst->flushed.at = calloc(w->samples.count, sizeof *worst->flushed.at);
    if (worst->headroom.at == NULL || worst->saturated.at == NULL ||
        worst->flushed.at == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu samples",
                          w->samples.count);
    for (size_t i = 0; i < w->samples.count; i++)
        add_worst(worst, &w->samples.at[i],
                  i == 0 || w->samples.at[i].step != w->samples.at[i - 1].step);
    return PLUMB_OK;
}

/* Statistics that cannot be read are shown as none: the lines of the run still say most. */
static plumb_status refresh_samples(plumb_watched *w, bool *changed, plumb_error *why)
{
    char path[4200];
    struct stat info;
    plumb_error none;

    plumb_print(path, sizeof path, "%s/sites-rank00000.pls", w->run_dir);
    if (stat(path, &info) != 0 || info.st_size == w->samples_size)
        return PLUMB_OK;
    free_samples(w);
    w->samples_size = info.st_size;
    *changed = true;
    if (plumb_samples_read(w->run_dir, &w->samples, &none) != PLUMB_OK)
        return PLUMB_OK;
    return take_samples(w, why);
}

plumb_status plumb_watched_refresh(plumb_watched *w, bool *changed, bool *ended,
                                   plumb_error *why)
{
    const size_t before = w->run.history.count + w->twin.count;
    const bool had_reason = w->run.reason[0] != 0;
    plumb_status status = report_seen_refresh(&w->run, false, why);

    if (status == PLUMB_OK && w->twin_dir != NULL)
        status = plumb_history_refresh(w->twin_dir, &w->twin, true, why);
    *ended = w->run.reason[0] != 0;
    *changed = before != w->run.history.count + w->twin.count || *ended != had_reason;
    if (status == PLUMB_OK && *changed) {
        free_series(w);
        for (int f = 0; f < REPORT_FIELDS && status == PLUMB_OK; f++)
            status =
                report_series_take(&w->run.history, (report_field)f, &w->fields[f], why);
        if (status == PLUMB_OK)
            status = take_gap(w, why);
    }
    return status == PLUMB_OK ? refresh_samples(w, changed, why) : status;
}

int plumb_watched_exit(const plumb_watched *w)
{
    return report_seen_exit(&w->run);
}

/* --- a frame --------------------------------------------------------------------- */

typedef struct frame {
    report_text text;
    const plumb_screen *screen;
    size_t width, picture, lines, height; /* height 0: as long as it is */
} frame;

static void end_line(frame *f)
{
    report_add(&f->text, "\n");
    f->lines++;
}

static bool is_full(const frame *f)
{
    return f->height > 0 && f->lines + 1 >= f->height;
}

static void colour(frame *f, const char *code)
{
    if (f->screen->color)
        report_print(&f->text, "\033[%sm", code);
}

static void add_value(frame *f, const report_text *words)
{
    const size_t columns = words->at != NULL ? report_columns(words->at) : 0;

    report_spaces(&f->text, columns < VALUE ? VALUE - columns : 1);
    report_add(&f->text, words->at != NULL ? words->at : "");
    report_add(&f->text, "  ");
}

static void add_line(frame *f, const char *name, const report_series *series, bool least,
                     bool percent)
{
    report_text words = {0};

    if (series->count == 0 || is_full(f))
        return;
    const double last = series->at[series->count - 1].value;

    if (isinf(last) && last > 0 && least)
        report_add(&words, "far");
    else
        report_real(&words, percent ? 100 * last : last, 4);
    if (percent)
        report_add(&words, "%");
    report_add(&f->text, name);
    report_spaces(&f->text, NAME - report_columns(name));
    add_value(f, &words);
    report_spark(&f->text, series, f->picture, least, f->screen->unicode);
    end_line(f);
    f->text.failed |= words.failed;
    report_text_free(&words);
}

/* Steps a second over the last lines that say how long they took; 0: not known. */
static double rate_of(const plumb_history *history)
{
    const size_t from = history->count > 20 ? history->count - 20 : 0;
    double seconds = 0;

    for (size_t i = from; i < history->count; i++)
        if (history->at[i].seconds > 0)
            seconds += history->at[i].seconds;
    return seconds > 0 ? (double)(history->count - from) / seconds : 0;
}

static void add_head(frame *f, const plumb_watched *w)
{
    const int64_t last = report_seen_last_step(&w->run);
    const int64_t most = w->run.has_declaration ? w->run.declared.schedule_steps : 0;
    const double rate = rate_of(&w->run.history);
    char headline[REPORT_SEEN_WORDS];
    report_text words = {0};

    report_seen_headline(&w->run, headline);
    colour(f, report_seen_failed(&w->run) ? "1;31" : "1");
    report_clean(&f->text, headline, f->width, REPORT_CUT_END, !f->screen->unicode);
    colour(f, "0");
    end_line(f);
    report_print(&words, "step %" PRId64, last);
    if (most >= last && most > 0)
        report_print(&words, " of %" PRId64, most);
    if (rate > 0) {
        report_add(&words, ", ");
        report_real(&words, rate, 3);
        report_add(&words, " steps a second");
        if (w->run.reason[0] == 0 && most > last) {
            report_add(&words, ", ");
            report_seconds(&words, (double)(most - last) / rate);
            report_add(&words, " left");
        }
    }
    report_add(&words, "  ");
    report_add(&words, w->run_dir);
    report_clean(&f->text, words.at, f->width, REPORT_CUT_MIDDLE, !f->screen->unicode);
    end_line(f);
    end_line(f);
    f->text.failed |= words.failed;
    report_text_free(&words);
}

static void add_lines(frame *f, const plumb_watched *w)
{
    add_line(f, "loss", &w->fields[REPORT_LOSS], false, false);
    add_line(f, "gap", &w->gap, false, false);
    add_line(f, "grad norm", &w->fields[REPORT_GRAD_NORM], false, false);
    add_line(f, "grad norm max", &w->fields[REPORT_GRAD_NORM_MAX], false, false);
    add_line(f, "update max", &w->fields[REPORT_UPDATE_MAX], false, false);
    add_line(f, "least headroom", &w->worst.headroom, true, false);
    add_line(f, "most saturated", &w->worst.saturated, false, true);
    add_line(f, "most flushed", &w->worst.flushed, false, true);
}

/* As page.js has it: full (1) is where scales that follow the tensor aim; harm begins below. */
static double harm_of(float headroom)
{
    if (isnan(headroom))
        return -1;
    if (headroom < 0)
        return 1;
    if (headroom >= 1)
        return 0.45 * fmax(0, 1 - log2((double)headroom) / 6);
    return 0.6 + 0.4 * fmin(1, -log2((double)headroom) / 4);
}

static void add_site(frame *f, const report_heat *heat, size_t row, size_t name_width)
{
    const float *cells = heat->cell[REPORT_HEADROOM] + row * heat->columns;
    float last = REPORT_CELL_NONE;
    report_text words = {0}, name = {0};

    for (size_t c = 0; c < heat->columns; c++)
        last = isnan(cells[c]) ? last : cells[c];
    if (last < 0)
        report_add(&words, "nonfinite");
    else if (isinf(last))
        report_add(&words, "far");
    else if (!isnan(last))
        report_real(&words, (double)last, 3);
    report_clean(&name, heat->names[row], name_width, REPORT_CUT_MIDDLE,
                 !f->screen->unicode);
    report_add(&f->text, name.at != NULL ? name.at : "");
    report_spaces(&f->text, name_width - (name.at != NULL ? report_columns(name.at) : 0));
    add_value(f, &words);
    colour(f, harm_of(last) >= 0.6 ? "31" : "0");
    for (size_t c = 0; c < heat->columns; c++)
        report_spark_cell(&f->text, harm_of(cells[c]), f->screen->unicode);
    colour(f, "0");
    end_line(f);
    f->text.failed |= words.failed || name.failed;
    report_text_free(&words);
    report_text_free(&name);
}

static plumb_status add_sites(frame *f, const plumb_watched *w, plumb_error *why)
{
    const size_t name_width = f->width > 90 ? 40 : f->width / 2 - 6;
    const size_t left = f->height > 0 ? f->height - f->lines : PLAIN_ROWS + 3;
    report_heat heat;

    if (left < 5 || w->samples.count == 0)
        return PLUMB_OK;
    const size_t columns = f->width - name_width - VALUE - 2;
    const plumb_status status = report_heat_grid(
        &w->samples, left - 3, columns < MOST_PICTURE ? columns : MOST_PICTURE, &heat, why);

    if (status != PLUMB_OK || heat.cell[REPORT_HEADROOM] == NULL) {
        report_heat_free(&heat);
        return status;
    }
    end_line(f);
    report_print(&f->text, "headroom, %zu of %zu sites", heat.rows, w->samples.site_count);
    end_line(f);
    for (size_t row = 0; row < heat.rows; row++)
        add_site(f, &heat, row, name_width);
    report_heat_free(&heat);
    return PLUMB_OK;
}

plumb_status plumb_watched_frame(const plumb_watched *w, const plumb_screen *screen,
                                 int height, char **text, plumb_error *why)
{
    const int width = screen->width == 0 ? 100 : screen->width;
    frame f = {.screen = screen,
               .width = (size_t)(width < 40    ? 40
                                 : width > 200 ? 200
                                               : width),
               .height = height > 0 ? (size_t)height : 0};
    plumb_status status = PLUMB_OK;

    f.picture = f.width - NAME - VALUE - 2;
    f.picture = f.picture < MOST_PICTURE ? f.picture : MOST_PICTURE;
    add_head(&f, w);
    if (w->run.history.count == 0) {
        report_add(&f.text, "No step is logged yet.");
        end_line(&f);
    }
    add_lines(&f, w);
    status = add_sites(&f, w, why);
    if (status == PLUMB_OK && f.text.failed)
        status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a frame");
    if (status != PLUMB_OK)
        report_text_free(&f.text);
    *text = f.text.at;
    return status;
}

void plumb_watched_line(const plumb_watched *w, char *text, size_t size)
{
    const plumb_history *history = &w->run.history;

    plumb_print(text, size, "step %lld", (long long)report_seen_last_step(&w->run));
    if (history->count > 0)
        plumb_append(text, size, "  loss %.4f", history->at[history->count - 1].loss);
    if (w->gap.count > 0)
        plumb_append(text, size, "  gap %+.4f", w->gap.at[w->gap.count - 1].value);
    if (history->count > 0 && history->at[history->count - 1].has_grad_norm)
        plumb_append(text, size, "  grad norm %.4g",
                     history->at[history->count - 1].grad_norm);
    if (w->worst.headroom.count > 0)
        plumb_append(text, size, "  least headroom %.3g",
                     w->worst.headroom.at[w->worst.headroom.count - 1].value);
}
