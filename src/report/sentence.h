/* sentence.h - the verdict's parts as plain sentences, the same on screen and page.
 *
 * Each function appends nothing when the verdict does not say it.  What they append contains
 * foreign text as it is: pass it through report_clean or report_html.
 */
#ifndef REPORT_SENTENCE_H
#define REPORT_SENTENCE_H

#include "report/verdict.h"

void report_headline(report_text *text, const report_verdict *v);
void report_question(report_text *text, const report_verdict *v);
void report_failure(report_text *text, const report_verdict *v);
/* "numerics, class backward: SITE, SITE and 4 more" with at most `sites` names. */
void report_verdict_words(report_text *text, const report_verdict *v, size_t sites);
void report_mechanism(report_text *text, const report_verdict *v);
void report_first_moved(report_text *text, const report_verdict *v);
void report_fix(report_text *text, const report_verdict *v);
void report_mask(report_text *text, const report_verdict *v);
void report_cost(report_text *text, const report_verdict *v);
void report_statement(report_text *text, const json_t *statement);

/* The step that the row of a run shows: where it failed, else its last. */
void report_run_step(report_text *text, const report_run *run);

#endif
