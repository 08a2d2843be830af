/* study/judge.h - a judge that reads a history row by row, so that a growing log costs no
 * more than its new lines.  The verdict at a row depends only on rows up to it.
 */
#ifndef STUDY_JUDGE_H
#define STUDY_JUDGE_H

#include "plumb/study.h"

enum { STUDY_PERSISTENT = 3 }; /* predicates that must hold for a while */

typedef struct study_judge {
    bool never;             /* no predicates: nothing fails */
    plumb_predicates rules; /* defaults filled in */
    size_t next;            /* first row not read yet */
    size_t twin_next;
    int64_t last_step;
    bool begun, paired, unpaired; /* unpaired: the twin is no reference from here on */
    double smooth, least, gap;
    struct {
        int held;     /* consecutive rows for which the condition holds */
        int64_t step; /* the first of them */
    } state[STUDY_PERSISTENT];
    plumb_failure failure;
} study_judge;

/* predicates NULL: nothing ever fails. */
void study_judge_init(study_judge *judge, const plumb_predicates *predicates);

/* Reads the rows that are new since the last call.  True once the run has failed. */
bool study_judge_read(study_judge *judge, const plumb_history *history);

/* True if a row shows a loss or gradient norm that is not finite. */
bool study_row_nonfinite(const plumb_metrics *row);

#endif
