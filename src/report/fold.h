/* fold.h - which runs of a long list are shown, and what is said of the others. */
#ifndef REPORT_FOLD_H
#define REPORT_FOLD_H

#include "report/verdict.h"

/* Sets shown[i] for at most most runs: those that the verdict rests on first (the first of
 * each phase, what heals, proof and mask), then the others in their order.  Where the others
 * stand in at most most_gaps places, one that stands alone is shown as well.
 */
void report_fold(const report_run *runs, size_t count, size_t most, size_t most_gaps,
                 bool *shown);

/* "9 more arms, none heals", for the runs first ... last - 1 that are not shown. */
void report_folded_words(report_text *text, const report_run *runs, const bool *shown,
                         size_t first, size_t last);

#endif
