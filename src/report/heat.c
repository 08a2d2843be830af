/* From rows of samples to cells that keep the worst.  Each step belongs to one column: the k-th of
 * n distinct steps to column k * columns / n.
 */
#include "report/heat.h"

#include "plumb/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_COLUMNS = 40,
    MOST_COLUMNS = 240,
    CELL_BYTES = 2,
    ROW_BYTES = 220, /* name and markup of a row */
    SHADOW_ROWS = 400,
};

const char *const report_statistic_name[REPORT_STATISTICS] = {
    "headroom", "saturated", "flushed", "zero", "amax error", "deviation"};

void report_heat_free(report_heat *heat)
{
    for (size_t i = 0; heat->names != NULL && i < heat->rows; i++)
        free(heat->names[i]);
    free(heat->names);
    free(heat->steps);
    for (int s = 0; s < REPORT_STATISTICS; s++)
        free(heat->cell[s]);
    *heat = (report_heat){0};
}

static plumb_status no_memory(plumb_error *why)
{
    return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a heat map");
}

/* Rows and columns for so many bytes when `shown` statistics are drawn. */
static void size_of(report_heat *heat, size_t rows, size_t steps, size_t shown,
                    size_t bytes)
{
    const size_t cell = CELL_BYTES * shown;
    const size_t most = bytes / (cell * LEAST_COLUMNS + ROW_BYTES);

    heat->rows = rows < most ? rows : most;
    heat->left_out = rows - heat->rows;
    if (heat->rows == 0)
        return;
    const size_t each = bytes / heat->rows;
    const size_t fit = each > ROW_BYTES ? (each - ROW_BYTES) / cell : LEAST_COLUMNS;
    const size_t columns = fit < MOST_COLUMNS ? fit : MOST_COLUMNS;

    heat->columns = steps < columns ? steps : columns;
    heat->single = steps <= columns;
}

static plumb_status make_cells(report_heat *heat, report_statistic statistic,
                               plumb_error *why)
{
    const size_t count = heat->rows * heat->columns;
    float *cells = calloc(count + 1, sizeof *cells);

    heat->cell[statistic] = cells;
    if (cells == NULL)
        return no_memory(why);
    for (size_t i = 0; i < count; i++)
        cells[i] = REPORT_CELL_NONE;
    return PLUMB_OK;
}

/* The worse of two cells; one that is not finite is the worst of all. */
static void worsen(float *cell, report_statistic statistic, float value)
{
    if (isnan(value) || *cell == REPORT_CELL_NONFINITE)
        return;
    if (isnan(*cell) || value == REPORT_CELL_NONFINITE ||
        (statistic == REPORT_HEADROOM ? value < *cell : value > *cell))
        *cell = value;
}

/* --- sites ----------------------------------------------------------------------- */

static float part(uint64_t some, uint64_t total)
{
    return total > 0 ? (float)((double)some / (double)total) : REPORT_CELL_NONE;
}

static float value_of(const plumb_sample *s, report_statistic statistic)
{
    switch (statistic) {
    case REPORT_HEADROOM:
        return s->nonfinite > 0 || isnan(s->headroom) ? REPORT_CELL_NONFINITE
                                                      : fmaxf(s->headroom, 0);
    case REPORT_SATURATED:
        return part(s->saturated, s->total);
    case REPORT_FLUSHED:
        return part(s->flushed, s->total);
    case REPORT_ZERO:
        return part(s->zero, s->total);
    case REPORT_AMAX_ERROR:
        if (!(s->amax > 0))
            return REPORT_CELL_NONE;
        return isfinite(s->amax) && isfinite(s->decoded_amax)
                   ? fabsf(s->decoded_amax / s->amax - 1)
                   : REPORT_CELL_NONFINITE;
    case REPORT_DEVIATION:
    case REPORT_STATISTICS:
        break;
    }
    return REPORT_CELL_NONE;
}

/* A column that a trainer does not write reads as 0 throughout. */
static bool is_written(const plumb_samples *samples, report_statistic statistic)
{
    for (size_t i = 0; i < samples->count; i++) {
        const plumb_sample *s = &samples->at[i];

        if (statistic == REPORT_HEADROOM     ? s->headroom != 0
            : statistic == REPORT_AMAX_ERROR ? s->decoded_amax != 0
                                             : s->total != 0)
            return true;
    }
    return false;
}

static size_t count_steps(const plumb_samples *samples)
{
    size_t steps = 0;

    for (size_t i = 0; i < samples->count; i++)
        steps += i == 0 || samples->at[i].step != samples->at[i - 1].step;
    return steps;
}

typedef struct ranked {
    size_t site;
    float saturated, headroom;
} ranked;

static int by_harm(const void *a, const void *b)
{
    const ranked *x = a, *y = b;

    if (x->saturated != y->saturated)
        return x->saturated > y->saturated ? -1 : 1;
    if (x->headroom != y->headroom)
        return x->headroom < y->headroom ? -1 : 1;
    return x->site < y->site ? -1 : x->site > y->site;
}

plumb_status report_heat_choose(const plumb_samples *samples, size_t rows, size_t *row,
                                plumb_error *why)
{
    ranked *list = calloc(samples->site_count + 1, sizeof *list);
    size_t next = 0;

    if (list == NULL)
        return no_memory(why);
    for (size_t i = 0; i < samples->site_count; i++) {
        list[i] = (ranked){i, 0, INFINITY};
        row[i] = SIZE_MAX;
    }
    for (size_t i = 0; i < samples->count; i++) {
        const plumb_sample *s = &samples->at[i];
        ranked *r = &list[s->site];

        r->saturated = fmaxf(r->saturated, part(s->saturated, s->total));
        r->headroom = fminf(r->headroom, value_of(s, REPORT_HEADROOM));
    }
    qsort(list, samples->site_count, sizeof *list, by_harm);
    for (size_t i = 0; i < rows; i++)
        row[list[i].site] = 0;
    for (size_t i = 0; i < samples->site_count; i++)
        if (row[i] == 0)
            row[i] = next++;
    free(list);
    return PLUMB_OK;
}

static void fill(report_heat *heat, const plumb_samples *samples, const size_t *row,
                 size_t steps)
{
    size_t k = 0;

    for (size_t i = 0; i < samples->count; i++) {
        const plumb_sample *s = &samples->at[i];

        k += i > 0 && s->step != samples->at[i - 1].step;
        const size_t column = k * heat->columns / steps;
        if (k == 0 || (k - 1) * heat->columns / steps != column)
            heat->steps[column] = s->step;
        heat->steps[heat->columns] = s->step;
        if (row[s->site] == SIZE_MAX)
            continue;
        const size_t cell = row[s->site] * heat->columns + column;
        for (int t = 0; t < REPORT_STATISTICS; t++)
            if (heat->cell[t] != NULL)
                worsen(&heat->cell[t][cell], (report_statistic)t,
                       value_of(s, (report_statistic)t));
    }
}

static plumb_status name_rows(report_heat *heat, const plumb_samples *samples,
                              const size_t *row, plumb_error *why)
{
    for (size_t i = 0; i < samples->site_count; i++) {
        if (row[i] == SIZE_MAX)
            continue;
        heat->names[row[i]] = strdup(samples->site_names[i]);
        if (heat->names[row[i]] == NULL)
            return no_memory(why);
    }
    return PLUMB_OK;
}

/* Fills a heat whose rows and columns are set. */
static plumb_status make_sites(const plumb_samples *samples, size_t steps,
                               report_heat *heat, plumb_error *why)
{
    size_t *row = calloc(samples->site_count + 1, sizeof *row);
    plumb_status status = PLUMB_OK;

    heat->names = calloc(heat->rows, sizeof *heat->names);
    heat->steps = calloc(heat->columns + 1, sizeof *heat->steps);
    if (row == NULL || heat->names == NULL || heat->steps == NULL)
        status = no_memory(why);
    for (int t = 0; status == PLUMB_OK && t < REPORT_DEVIATION; t++)
        if (is_written(samples, (report_statistic)t))
            status = make_cells(heat, (report_statistic)t, why);
    if (status == PLUMB_OK)
        status = report_heat_choose(samples, heat->rows, row, why);
    if (status == PLUMB_OK)
        status = name_rows(heat, samples, row, why);
    if (status == PLUMB_OK)
        fill(heat, samples, row, steps);
    else
        report_heat_free(heat);
    free(row);
    return status;
}

plumb_status report_heat_sites(const plumb_samples *samples, size_t bytes,
                               report_heat *heat, plumb_error *why)
{
    const size_t steps = count_steps(samples);

    *heat = (report_heat){0};
    size_of(heat, samples->site_count, steps, REPORT_DEVIATION, bytes);
    return heat->rows > 0 && heat->columns > 0 ? make_sites(samples, steps, heat, why)
                                               : PLUMB_OK;
}

plumb_status report_heat_grid(const plumb_samples *samples, size_t rows, size_t columns,
                              report_heat *heat, plumb_error *why)
{
    const size_t steps = count_steps(samples);

    *heat = (report_heat){.rows = samples->site_count < rows ? samples->site_count : rows,
                          .columns = steps < columns ? steps : columns,
                          .single = steps <= columns};
    heat->left_out = samples->site_count - heat->rows;
    return heat->rows > 0 && heat->columns > 0 ? make_sites(samples, steps, heat, why)
                                               : PLUMB_OK;
}

/* --- shadow ---------------------------------------------------------------------- */

static bool is_shadow(const json_t *event)
{
    const char *name = json_string_value(json_object_get(event, "event"));
    const json_int_t step = json_integer_value(json_object_get(event, "step"));

    return name != NULL && strcmp(name, "shadow") == 0 && step > 0;
}

/* The row of this name, a new one where there is room, or SIZE_MAX. */
static size_t row_named(report_heat *heat, const char *name)
{
    for (size_t i = 0; i < heat->rows; i++)
        if (strcmp(heat->names[i], name) == 0)
            return i;
    if (heat->rows == SHADOW_ROWS)
        return SIZE_MAX;
    heat->names[heat->rows] = strdup(name);
    return heat->names[heat->rows] != NULL ? heat->rows++ : SIZE_MAX;
}

static void take(report_heat *heat, const json_t *distance, const char *name, size_t column)
{
    double value;

    if (name == NULL ||
        !plumb_json_to_real(json_object_get(distance, "relative"), &value) || value < 0)
        return;
    const size_t row = row_named(heat, name);

    if (row != SIZE_MAX)
        worsen(&heat->cell[REPORT_DEVIATION][row * heat->columns + column],
               REPORT_DEVIATION, isfinite(value) ? (float)value : REPORT_CELL_NONFINITE);
}

static void take_event(report_heat *heat, const json_t *event, size_t column)
{
    const json_t *layers = json_object_get(event, "layers"), *layer;
    size_t i;

    json_array_foreach(layers, i, layer)
        take(heat, layer, json_string_value(json_object_get(layer, "name")), column);
    take(heat, json_object_get(event, "logits"), "logits", column);
    take(heat, json_object_get(event, "gradient"), "gradient", column);
}

static plumb_status make_shadow(report_heat *heat, size_t count, size_t bytes,
                                plumb_error *why)
{
    size_of(heat, SHADOW_ROWS, count, 1, bytes);
    heat->rows = SHADOW_ROWS;
    heat->names = calloc(SHADOW_ROWS, sizeof *heat->names);
    heat->steps = calloc(heat->columns + 1, sizeof *heat->steps);
    if (heat->names == NULL || heat->steps == NULL ||
        make_cells(heat, REPORT_DEVIATION, why) != PLUMB_OK)
        return no_memory(why);
    heat->rows = heat->left_out = 0;
    return PLUMB_OK;
}

plumb_status report_heat_shadow(const json_t *events, size_t bytes, report_heat *heat,
                                plumb_error *why)
{
    const json_t *event;
    size_t count = 0, k = 0, i;

    *heat = (report_heat){0};
    json_array_foreach(events, i, event) count += is_shadow(event);
    if (count == 0)
        return PLUMB_OK;
    if (make_shadow(heat, count, bytes, why) != PLUMB_OK) {
        report_heat_free(heat);
        return PLUMB_NO_MEMORY;
    }
    json_array_foreach(events, i, event)
    {
        if (!is_shadow(event))
            continue;
        const size_t column = k * heat->columns / count;
        const uint64_t step = (uint64_t)json_integer_value(json_object_get(event, "step"));

        if (k == 0 || (k - 1) * heat->columns / count != column)
            heat->steps[column] = step;
        heat->steps[heat->columns] = step;
        k++;
        take_event(heat, event, column);
    }
    return PLUMB_OK;
}

/* --- as text --------------------------------------------------------------------- */

/* Printable ASCII without the characters that mean something in HTML or in a C string. */
static const char digits[] = "!#$%()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_"
                             "abcdefghijklmnopqrstuvwxyz{|}~";
enum {
    BASE = sizeof digits - 1,
    VALUES = BASE * BASE,
    NONE = 0,
    NONFINITE,
    NULL_,
    ENDLESS,
    FIRST
};

/* 1e-12 to 1e12 on a log axis. */
static int code_of(float cell)
{
    if (isnan(cell))
        return NONE;
    if (cell < 0)
        return NONFINITE;
    if (isinf(cell))
        return ENDLESS;
    if (cell == 0)
        return NULL_;
    const double place = (log10((double)cell) + 12) / 24;

    return FIRST + (int)lround(fmin(fmax(place, 0), 1) * (VALUES - 1 - FIRST));
}

void report_heat_row(report_text *text, const float *cells, size_t columns)
{
    size_t shown = columns;
    bool equal = true;

    for (size_t i = 1; i < columns; i++)
        equal = equal && code_of(cells[i]) == code_of(cells[0]);
    if (equal && columns > 0)
        shown = 1;
    for (size_t i = 0; i < shown; i++) {
        const int code = code_of(cells[i]);
        const char two[] = {digits[code / BASE], digits[code % BASE]};

        report_bytes(text, two, 2);
    }
}
