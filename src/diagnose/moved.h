/* moved.h - which statistic of which site left its healthy range first.
 *
 * Pure functions over site statistics.  The healthy range is the one that the same site shows
 * in the clean arm (the run with the fix), widened by a stated margin.  A site that the clean
 * arm runs in another format has no range of that kind: then only what the format itself
 * forbids counts (nothing past the largest finite value, decoded values as large as the source).
 */
#ifndef DIAGNOSE_MOVED_H
#define DIAGNOSE_MOVED_H

#include "plumb/log.h"

/* The name of the i-th statistic that is looked at; NULL past the last. */
const char *plumb_statistic_name(size_t i);

typedef struct plumb_movement {
    size_t site;           /* in the own run's table of sites */
    const char *statistic; /* a plumb_statistic_name */
    int64_t step;
    double value, least, most; /* what was seen; the range that it left */
    bool against_clean;        /* the range is the clean arm's, not the format's limit */
} plumb_movement;

/* The earliest movement at a step before `before`: outside for 3 samples in a row, or from there
 * to the end.  among: per site of own, NULL for all.  changed: per site of own, true where the
 * clean arm ran it in another format.  At the same step a site named in prefer (may be NULL)
 * wins.  False when nothing moved.
 */
plumb_status plumb_moved_first(const plumb_samples *own, const plumb_samples *clean,
                               const bool *among, const bool *changed, const bool *prefer,
                               int64_t before, plumb_movement *movement, bool *found,
                               plumb_error *why);

/* The most suspect of the sites in among, by the last sample before `before`: whose values grew most
 * under a scale that stood still, or are decoded furthest from their source (both as a ratio, of
 * 1.5 at least; non-finite values count as more than any).  SIZE_MAX when there is none.  It orders what is tried, and decides nothing.
 */
plumb_status plumb_suspect(const plumb_samples *own, const bool *among, int64_t before,
                           size_t *site, plumb_error *why);

/* What the samples of some sites tell about their scale. */
typedef struct plumb_story {
    bool known; /* there were samples */
    int64_t
        frozen_since; /* the scale did not change from this step on while amax did; 0: no */
    double frozen_growth; /* by which factor amax grew in that time */
    double least_headroom;
    double saturated, flushed; /* largest fraction of a sample before the failure */
    double factor; /* median of decoded maximum over source maximum; 1: consistent */
    size_t site;   /* the one of them that the numbers above come from */
} plumb_story;

/* Of the sites in among, the one with the least headroom before `before` tells the story; the
 * factor is that of the site whose decoded values are furthest from their source.
 */
plumb_status plumb_story_read(const plumb_samples *own, const bool *among, int64_t before,
                              plumb_story *story, plumb_error *why);

#endif
