/* heat.h - sites by steps, of a few statistics, made small enough for a page.
 *
 * A cell stands for one or more steps that follow each other and has the worst of them: the
 * least headroom, the largest of everything else.  Nothing is averaged, so one bad step among
 * thousands keeps its colour.
 */
#ifndef REPORT_HEAT_H
#define REPORT_HEAT_H

#include "plumb/log.h"
#include "report/text.h"

typedef enum report_statistic {
    REPORT_HEADROOM,
    REPORT_SATURATED,
    REPORT_FLUSHED,
    REPORT_ZERO,
    REPORT_AMAX_ERROR, /* |decoded amax / amax - 1| */
    REPORT_DEVIATION,  /* |a - b| / |b| from the same weights in bf16 */
    REPORT_STATISTICS
} report_statistic;

extern const char *const report_statistic_name[REPORT_STATISTICS];

/* What stands in a cell besides a value of 0 or more. */
#define REPORT_CELL_NONE      NAN /* no sample */
#define REPORT_CELL_NONFINITE (-1.0F)

typedef struct report_heat {
    char **names;    /* of the rows; foreign */
    uint64_t *steps; /* first step of each column; one more: the last step of all */
    size_t rows, columns;
    bool single;                    /* each column is one step, not a stretch of them */
    size_t left_out;                /* rows that there was no room for */
    float *cell[REPORT_STATISTICS]; /* rows * columns; NULL: nothing is known of it */
} report_heat;

/* The heat map of the samples in at most `bytes` bytes of a page.  Where not all sites fit, those
 * with the largest saturated part and then the least headroom stay, in their order.
 */
plumb_status report_heat_sites(const plumb_samples *samples, size_t bytes,
                               report_heat *heat, plumb_error *why);

/* The same in at most so many rows and columns. */
plumb_status report_heat_grid(const plumb_samples *samples, size_t rows, size_t columns,
                              report_heat *heat, plumb_error *why);

/* row[site], for each site, is its place among the `rows` sites that are shown, or SIZE_MAX. */
plumb_status report_heat_choose(const plumb_samples *samples, size_t rows, size_t *row,
                                plumb_error *why);

/* Deviation of layers, logits and gradient, from the events "shadow" of a run. */
plumb_status report_heat_shadow(const json_t *events, size_t bytes, report_heat *heat,
                                plumb_error *why);
void report_heat_free(report_heat *heat);

/* The cells of a row as text that needs no escaping: two characters each, one pair alone where
 * all cells are equal.  page.js reads it back; a value is kept to 0.4 %.
 */
void report_heat_row(report_text *text, const float *cells, size_t columns);

#endif
