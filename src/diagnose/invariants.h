/* invariants.h - what no healthy run does, whatever its data: predicate (e).
 *
 * Pure functions over site statistics and events.  An invariant is violated when it does not hold
 * for ten samples in a row, or when the trainer says so itself at ten steps.
 */
#ifndef DIAGNOSE_INVARIANTS_H
#define DIAGNOSE_INVARIANTS_H

#include "plumb/log.h"

typedef struct plumb_violation {
    char name
        [80]; /* "scale belongs to the data", or the trainer's own word, as it wrote it */
    char site[PLUMB_SITE_NAME]; /* empty: none was named */
    int64_t rank;               /* that said so; 0 for samples, which are of all ranks */
    int64_t step, decided;      /* the first and the tenth of those samples */
    double value,
        bound; /* at the first; the nearer end of what is allowed; NaN: not said */
} plumb_violation;

/* Codes times their scale are about as large as what was cast: the largest decoded value lies
 * within a factor of 1.5 of the largest source value, unless values were saturated, became zero by
 * more than half, or were not finite.  The earliest violation; false in *found if there is none.
 */
plumb_status plumb_violation_in_samples(const plumb_samples *samples,
                                        plumb_violation *violation, bool *found,
                                        plumb_error *why);

/* {"event": "invariant", "name": ..., "step": N, "site": ..., "value": V, "bound": B, "rank": R}: the
 * earliest of those that the trainer reports, by name, site and rank, at ten different steps.  The
 * name of the event is not looked at.
 */
plumb_status plumb_violation_in_events(const json_t *events, plumb_violation *violation,
                                       bool *found, plumb_error *why);

#endif
