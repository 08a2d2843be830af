/* ddmin.h - delta debugging: a smallest set of parts that still heals.
 *
 * A pure function of its oracle.  Zeller and Hildebrandt, "Simplifying and Isolating
 * Failure-Inducing Input", IEEE TSE 28(2), 2002: subsets first, then complements, then finer
 * pieces; before it a bisection that holds if a single part is to blame.  The result is 1-minimal: leaving out any single part of it no longer heals, unless
 * the budget ended the search.
 */
#ifndef DIAGNOSE_DDMIN_H
#define DIAGNOSE_DDMIN_H

#include "plumb/base.h"

/* Whether casting back parts[0..count) heals. */
typedef plumb_status plumb_oracle(void *context, const size_t *parts, size_t count,
                                  bool *heals, plumb_error *why);

/* All of 0..part_count-1 is known to heal and is not asked again; no subset is asked twice.
 * kept has room for part_count and gets the result, ascending.  *exhausted is true when the
 * budget of questions ended the search early.
 */
plumb_status plumb_ddmin(size_t part_count, plumb_oracle *oracle, void *context,
                         size_t budget, size_t *kept, size_t *kept_count, bool *exhausted,
                         plumb_error *why);

#endif
