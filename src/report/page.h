/* page.h - the sections of report.html, in the order in which a reader meets them.
 *
 * Each function appends its section, or nothing where there is nothing to show.  Foreign text
 * enters through report_html alone.
 */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include "report/chart.h"
#include "report/heat.h"

enum {
    REPORT_WORDS = 2000, /* columns of a foreign sentence or command */

    /* A page has at most 2 MB: no row of the table starts behind this, whatever the pictures
     * took, and a list ends with its own limit.
     */
    REPORT_TABLE_END = 1300000,
};

/* Appends words and frees them; their evidence level, "  [caused]" at the end, becomes a badge. */
void report_page_sentence(report_text *html, report_text *words);

void report_page_head(report_text *html, const report_verdict *v, const char *kicker);
void report_page_facts(report_text *html, const report_verdict *v);

/* Loss of the arms, what the mean hides, the failing site and its window, the heat map. */
plumb_status report_page_pictures(report_text *html, report_charts *charts,
                                  plumb_error *why);
void report_page_heat(report_text *html, const report_charts *charts);
void report_page_spectra(report_text *html, const report_charts *charts);

/* Two drawings of one picture, wide and narrow, in a figure; frees them. */
void report_page_drawings(report_text *html, report_text svg[2]);

/* "own run: fails, rise at step 22", as an item of a picture's key. */
void report_page_key(report_text *html, report_role role, const report_run *run);

void report_page_tree(report_text *html, const report_verdict *v);
void report_page_timeline(report_text *html, const report_verdict *v);
void report_page_table(report_text *html, const report_verdict *v);
void report_page_lists(report_text *html, const report_verdict *v);
void report_page_foot(report_text *html, const report_verdict *v);

#endif
