/* chart.h - what is drawn of a study or of one run: which arms, which site, and the pictures.
 *
 * A picture is drawn twice, wide and narrow; the style sheet shows the one that fits.
 */
#ifndef REPORT_CHART_H
#define REPORT_CHART_H

#include "plumb/format.h"
#include "report/heat.h"
#include "report/series.h"
#include "report/spectra.h"
#include "report/text.h"
#include "report/verdict.h"

/* The part that a run plays in the verdict; its name is also its class in the style sheet. */
typedef enum report_role {
    REPORT_OWN,
    REPORT_TWIN,
    REPORT_HEALED, /* the least set cast back */
    REPORT_FIX,
    REPORT_MASK,
    REPORT_ROLES
} report_role;

extern const char *const report_role_class[REPORT_ROLES];
extern const char *const report_role_name[REPORT_ROLES];

typedef struct report_charts {
    const report_verdict *verdict;
    const report_run *run[REPORT_ROLES]; /* NULL: no run plays it, or it left no loss */
    report_series arm[REPORT_ROLES][REPORT_FIELDS];

    char site[PLUMB_SITE_NAME];   /* foreign; "": no statistics */
    const report_run *ill, *well; /* whose statistics; well may be NULL */
    report_role well_role;
    report_site_series ill_series, well_series;
    report_heat ill_heat, well_heat;
    report_spectra ill_spectra, well_spectra;
    report_heat shadow; /* deviation from bf16 by layer; of the ill run */

    bool has_format; /* the declaration says in which format the site runs */
    plumb_format format;
} report_charts;

/* Picks and reads.  Runs whose directories are absent or unreadable are left out. */
plumb_status report_charts_load(const char *study, const report_verdict *verdict,
                                report_charts *charts, plumb_error *why);
/* The same of one run directory; verdict is about it and has one run. */
plumb_status report_charts_load_run(const char *run_dir, const report_verdict *verdict,
                                    report_charts *charts, plumb_error *why);
void report_charts_free(report_charts *charts);

/* Thins all series to a plot of so many pixel columns. */
plumb_status report_charts_thin(report_charts *charts, size_t columns, plumb_error *why);

bool report_charts_has_loss(const report_charts *charts);
bool report_charts_has_tails(const report_charts *charts);
bool report_charts_has_site(const report_charts *charts);
bool report_charts_has_window(const report_charts *charts);

typedef void report_draw(report_text *svg, const report_charts *charts, bool narrow);
report_draw report_draw_loss, report_draw_tails, report_draw_site, report_draw_window;

/* Bars of the runs that shown marks, in their order. */
void report_draw_timeline(report_text *svg, const report_verdict *verdict,
                          const bool *shown, bool narrow);

/* "held", "failed", "broken", "open": the class of an outcome in the style sheet. */
const char *report_outcome_class(report_outcome outcome);

#endif
