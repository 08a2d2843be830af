/* mechanism.h - naming a mechanism from counterfactuals.  Pure functions.
 *
 * A trial changes one thing of the quantisation and keeps the number of bits.  What heals says
 * what was wrong; what the statistics show only adds to it.
 */
#ifndef DIAGNOSE_MECHANISM_H
#define DIAGNOSE_MECHANISM_H

#include "plumb/quant.h"

#include "diagnose/moved.h"

/* In the order in which a fix is preferred.  Saturation comes last: a cast that saturates
 * under a frozen scale can co-adapt silently.
 */
typedef enum plumb_trial {
    PLUMB_TRIAL_CURRENT = 0, /* same format, scale from the tensor at hand */
    PLUMB_TRIAL_RANGE,       /* another 8-bit format with more range */
    PLUMB_TRIAL_GRAIN,       /* same format, a scale for each block */
    PLUMB_TRIAL_SATURATE,    /* same format and scale, the cast saturates */
    PLUMB_TRIAL_COUNT
} plumb_trial;

typedef enum plumb_trial_result {
    PLUMB_TRIAL_NOT_OFFERED = 0, /* or without an answer */
    PLUMB_TRIAL_FAILED,
    PLUMB_TRIAL_HEALED,
} plumb_trial_result;

typedef struct plumb_trials {
    plumb_trial_result result[PLUMB_TRIAL_COUNT];
} plumb_trials;

const char *plumb_trial_text(plumb_trial trial);

/* Which trial a declared use amounts to for a site whose own format is own; false when it
 * changes nothing, or more than one thing, or does not parse.
 */
bool plumb_trial_of(const plumb_spec *own, const char *use, plumb_trial *trial);

/* "stale scale" and the others that plumb_mechanism_choose gives. */
extern const char *const plumb_mechanism_names[];
extern const size_t plumb_mechanism_count;

typedef struct plumb_mechanism {
    const char *name; /* one of plumb_mechanism_names; NULL: none yet */
    char text[400];
    bool by_counterfactual; /* a same-bits change healed; else only seen or compared */
    int trial;              /* the trial that names it, or -1 */
} plumb_mechanism;

/* own_rule: the site's scale rule (PLUMB_SCALE_DELAYED ... ), for the words. */
void plumb_mechanism_choose(const plumb_trials *trials, const plumb_story *story,
                            const plumb_spec *own, plumb_mechanism *mechanism);

#endif
