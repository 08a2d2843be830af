/* First movement and the story of a scale, from site statistics.
 *
 * Samples come ordered by step, then site; an index by site is made once, so that each site is
 * one walk.
 */
#include "diagnose/moved.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STATISTICS = 5, IN_A_ROW = 3, FROZEN_SAMPLES = 5 };

/* --- statistics and their margins -------------------------------------------------------- */

static double headroom(const plumb_sample *s)
{
    return (double)s->headroom;
}

static double fraction(uint64_t part, uint64_t total)
{
    return total > 0 ? (double)part / (double)total : 0;
}

static double saturated(const plumb_sample *s)
{
    return fraction(s->saturated, s->total);
}

static double flushed(const plumb_sample *s)
{
    return fraction(s->flushed, s->total);
}

static double nonfinite(const plumb_sample *s)
{
    return (double)s->nonfinite;
}

static double decoded_ratio(const plumb_sample *s)
{
    const double amax = (double)s->amax, decoded = (double)s->decoded_amax;

    return amax > 0 && isfinite(amax) ? decoded / amax : (double)NAN;
}

/* How the clean range is widened (first multiplied, then added to), and the range that the
 * format itself allows where there is no clean one.
 */
static const struct statistic {
    const char *name;
    double (*value)(const plumb_sample *);
    double least_times, most_times, most_plus;
    double least, most;
} statistics[STATISTICS] = {
    {"headroom", headroom, 0.8, INFINITY, 0, 0.8, INFINITY},
    {"saturated fraction", saturated, 0, 1.5, 0.001, 0, 0.001},
    {"flushed fraction", flushed, 0, 1.5, 0.05, 0, INFINITY},
    {"non-finite values", nonfinite, 0, 1, 0, 0, 0},
    {"decoded maximum over source maximum", decoded_ratio, 0.8, 1.25, 0, 0.8, 1.25},
};

const char *plumb_statistic_name(size_t i)
{
    return i < STATISTICS ? statistics[i].name : NULL;
}

/* --- samples by site ----------------------------------------------------------------------- */

typedef struct by_site {
    const plumb_samples *samples;
    size_t *first; /* site_count + 1 offsets into order */
    size_t *order; /* indexes of samples, by site, then step */
} by_site;

static void by_site_free(by_site *b)
{
    free(b->first);
    free(b->order);
}

static bool by_site_make(const plumb_samples *samples, by_site *b)
{
    const size_t sites = samples->site_count;

    *b = (by_site){samples, calloc(sites + 2, sizeof *b->first),
                   calloc(samples->count + 1, sizeof *b->order)};
    if (b->first == NULL || b->order == NULL)
        return false;
    for (size_t i = 0; i < samples->count; i++)
        if (samples->at[i].site < sites)
            b->first[samples->at[i].site + 2]++;
    for (size_t s = 2; s < sites + 2; s++)
        b->first[s] += b->first[s - 1];
    for (size_t i = 0; i < samples->count; i++)
        if (samples->at[i].site < sites)
            b->order[b->first[samples->at[i].site + 1]++] = i;
    return true;
}

static const plumb_sample *sample_of(const by_site *b, size_t site, size_t i)
{
    const size_t at = b->first[site] + i;

    return at < b->first[site + 1] ? &b->samples->at[b->order[at]] : NULL;
}

/* --- first movement ------------------------------------------------------------------------- */

/* The range of the statistic at a site of the clean arm; false when it has no samples there. */
static bool clean_range(const by_site *clean, size_t site, const struct statistic *k,
                        double *least, double *most)
{
    const plumb_sample *s;
    bool any = false;

    *least = INFINITY;
    *most = -INFINITY;
    for (size_t i = 0; (s = sample_of(clean, site, i)) != NULL; i++) {
        const double value = k->value(s);

        if (isnan(value))
            continue;
        any = true;
        *least = fmin(*least, value);
        *most = fmax(*most, value);
    }
    *least *= k->least_times;
    *most = isinf(k->most_times) ? (double)INFINITY : *most * k->most_times + k->most_plus;
    return any;
}

static bool outside(double value, double least, double most)
{
    return isnan(value) ? false : value < least || value > most;
}

/* First step before `before` from which the site stays outside for IN_A_ROW samples or to its
 * last one; 0 if there is none.
 */
static int64_t first_outside(const by_site *own, size_t site, const struct statistic *k,
                             double least, double most, int64_t before, double *value)
{
    const plumb_sample *s;
    int64_t begun = 0;
    int row = 0;

    for (size_t i = 0; (s = sample_of(own, site, i)) != NULL; i++) {
        const int64_t step = (int64_t)s->step;

        if (!outside(k->value(s), least, most)) {
            row = 0;
            continue;
        }
        if (row++ == 0) {
            begun = step;
            *value = k->value(s);
        }
        if (begun >= before)
            return 0;
        if (row == IN_A_ROW)
            return begun;
    }
    return row > 0 && begun < before ? begun : 0;
}

static size_t find_site(const plumb_samples *samples, const char *name)
{
    size_t i = 0;

    while (i < samples->site_count && strcmp(samples->site_names[i], name) != 0)
        i++;
    return i;
}

static void consider(const by_site *own, const by_site *clean, size_t site, bool changed,
                     bool preferred, int64_t before, plumb_movement *best,
                     bool *best_preferred)
{
    const size_t twin = find_site(clean->samples, own->samples->site_names[site]);

    for (int i = 0; i < STATISTICS; i++) {
        const struct statistic *k = &statistics[i];
        double least = k->least, most = k->most, value = NAN;
        const bool against = !changed && twin < clean->samples->site_count &&
                             clean_range(clean, twin, k, &least, &most);

        if (!against) {
            least = k->least;
            most = k->most;
        }
        const int64_t step = first_outside(own, site, k, least, most, before, &value);

        if (step == 0 || (best->step > 0 && step > best->step) ||
            (step == best->step && (*best_preferred || !preferred)))
            continue;
        *best = (plumb_movement){site, k->name, step, value, least, most, against};
        *best_preferred = preferred;
    }
}

plumb_status plumb_moved_first(const plumb_samples *own, const plumb_samples *clean,
                               const bool *among, const bool *changed, const bool *prefer,
                               int64_t before, plumb_movement *movement, bool *found,
                               plumb_error *why)
{
    by_site o = {0}, c = {0};
    bool preferred = false;
    plumb_status status = PLUMB_OK;

    *movement = (plumb_movement){0};
    *found = false;
    if (!by_site_make(own, &o) || !by_site_make(clean, &c)) {
        status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu samples", own->count);
        goto done;
    }
    for (size_t site = 0; site < own->site_count; site++)
        if (among == NULL || among[site])
            consider(&o, &c, site, changed[site], prefer != NULL && prefer[site], before,
                     movement, &preferred);
    *found = movement->step > 0;
done:
    by_site_free(&o);
    by_site_free(&c);
    return status;
}

/* --- the story of the scale ------------------------------------------------------------------ */

static int by_value(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;

    return left < right ? -1 : left > right;
}

/* Median of the ratio over the last samples before the failure, where it is largest. */
static double median_ratio(const by_site *own, size_t site, int64_t before)
{
    double ratios[9];
    size_t n = 0;
    const plumb_sample *s;

    for (size_t i = 0; (s = sample_of(own, site, i)) != NULL && (int64_t)s->step < before;
         i++) {
        const double ratio = decoded_ratio(s);

        if (!isnan(ratio))
            ratios[n++ % 9] = ratio;
    }
    n = n < 9 ? n : 9;
    qsort(ratios, n, sizeof *ratios, by_value);
    return n > 0 ? ratios[n / 2] : 1;
}

static void read_frozen(const by_site *own, size_t site, int64_t before, plumb_story *story)
{
    const plumb_sample *s, *since = NULL, *last = NULL;
    size_t same = 0;

    for (size_t i = 0; (s = sample_of(own, site, i)) != NULL && (int64_t)s->step < before;
         i++) {
        if (since == NULL || s->scale != since->scale) {
            since = s;
            same = 0;
        }
        same++;
        last = s;
    }
    if (same < FROZEN_SAMPLES || !(since->amax > 0) || !isfinite(last->amax))
        return;
    const double growth = (double)last->amax / (double)since->amax;

    if (growth > 1.25 || growth < 0.8) {
        story->frozen_since = (int64_t)since->step;
        story->frozen_growth = growth;
    }
}

static double least_headroom(const by_site *own, size_t site, int64_t before)
{
    const plumb_sample *s;
    double least = INFINITY;

    for (size_t i = 0; (s = sample_of(own, site, i)) != NULL && (int64_t)s->step < before;
         i++)
        least = fmin(least, headroom(s));
    return least;
}

static void read_counts(const by_site *own, size_t site, int64_t before, plumb_story *story)
{
    const plumb_sample *s;

    for (size_t i = 0; (s = sample_of(own, site, i)) != NULL && (int64_t)s->step < before;
         i++) {
        story->saturated = fmax(story->saturated, saturated(s));
        story->flushed = fmax(story->flushed, flushed(s));
    }
}

plumb_status plumb_story_read(const plumb_samples *own, const bool *among, int64_t before,
                              plumb_story *story, plumb_error *why)
{
    by_site o = {0};
    plumb_status status = PLUMB_OK;

    *story = (plumb_story){.factor = 1, .least_headroom = INFINITY};
    if (!by_site_make(own, &o)) {
        status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu samples", own->count);
        goto done;
    }
    for (size_t site = 0; site < own->site_count; site++) {
        if (!among[site] || sample_of(&o, site, 0) == NULL)
            continue;
        const double least = least_headroom(&o, site, before);
        const double factor = median_ratio(&o, site, before);

        if (!story->known || least < story->least_headroom) {
            story->least_headroom = least;
            story->site = site;
        }
        if (factor > 0 && fabs(log(factor)) > fabs(log(story->factor)))
            story->factor = factor;
        story->known = true;
    }
    if (story->known) {
        read_frozen(&o, story->site, before, story);
        read_counts(&o, story->site, before, story);
    }
done:
    by_site_free(&o);
    return status;
}

/* --- the suspect ----------------------------------------------------------------------------- */

static const double suspect_from = 1.5;

static double suspicion(const by_site *own, size_t site, int64_t before)
{
    const plumb_sample *s, *last = NULL;
    plumb_story story = {.frozen_growth = 0};

    for (size_t i = 0; (s = sample_of(own, site, i)) != NULL && (int64_t)s->step < before;
         i++)
        last = s;
    if (last == NULL)
        return 0;
    if (last->nonfinite > 0)
        return INFINITY;
    read_frozen(own, site, before, &story);
    const double ratio = decoded_ratio(last);

    return ratio > 0 ? fmax(story.frozen_growth, fmax(ratio, 1 / ratio))
                     : story.frozen_growth;
}

plumb_status plumb_suspect(const plumb_samples *own, const bool *among, int64_t before,
                           size_t *site, plumb_error *why)
{
    by_site o = {0};
    double most = suspect_from;
    plumb_status status = PLUMB_OK;

    *site = SIZE_MAX;
    if (!by_site_make(own, &o))
        status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu samples", own->count);
    for (size_t i = 0; status == PLUMB_OK && i < own->site_count; i++) {
        const double now = among[i] ? suspicion(&o, i, before) : 0;

        if (now >= most && (*site == SIZE_MAX || now > most)) {
            most = now;
            *site = i;
        }
    }
    by_site_free(&o);
    return status;
}
