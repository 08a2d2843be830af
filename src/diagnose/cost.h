/* cost.h - what a diagnosis costs, counted in horizons.  Pure functions.
 *
 * One horizon is the run up to the old failure and the margin behind it, at least 50 steps.
 */
#ifndef DIAGNOSE_COST_H
#define DIAGNOSE_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The last step an arm must reach: failure + margin (at least 50 when margin is 0), not beyond a
 * schedule of known length, and never before the failure was decided.
 */
int64_t plumb_cost_horizon(int64_t failure, int64_t decided, int64_t margin,
                           int64_t schedule);

/* Steps that a run took which began after start and logged last as its last. */
int64_t plumb_cost_steps(int64_t start, int64_t last);

/* Upper estimate of the arms that a search needs: one for each class, then for each level
 * about twice the logarithm of its number of groups.
 */
size_t plumb_cost_search_arms(size_t classes, const size_t *groups, size_t levels);

/* Whether starting `arms` arms at `step` instead of 0 saves more than its check costs: the
 * unchanged run from there to the failure and the bf16 arm from there to the horizon.
 */
bool plumb_cost_start_pays(int64_t step, int64_t failure, int64_t horizon, size_t arms);

#endif
