/* spectra.h - how the values of the sites lay at a few steps of a run, and in which format each ran. */
#ifndef REPORT_SPECTRA_H
#define REPORT_SPECTRA_H

#include "plumb/log.h"

typedef struct report_spectra {
    plumb_histograms read;
    plumb_format *format; /* of each site; PLUMB_FORMAT_COUNT: not known */
} report_spectra;

/* Empty where the run has none. */
plumb_status report_spectra_load(const char *run_dir, report_spectra *spectra,
                                 plumb_error *why);
void report_spectra_free(report_spectra *spectra);
bool report_spectra_has(const report_spectra *spectra, const char *site);

/* row[site] is the place of a site among at most `rows` that are shown, or SIZE_MAX: first the one of
 * this name, then those that saturate most or have the least headroom.  *shown: how many.
 */
plumb_status report_spectra_choose(const report_spectra *spectra, const char *first,
                                   size_t rows, size_t *row, size_t *shown,
                                   plumb_error *why);

#endif
