/* Site statistics of a run: those of its ranks, put together.
 *
 * Ranks of a data-parallel run have the same sites and other data, so a site at a step has one row:
 * the largest maximum, the least headroom, all counts (plumb_sample_join).  What one rank alone has
 * is kept as it is.
 */
#include "plumb/log.h"

#include <stdlib.h>
#include <string.h>

#include "log/pls.h"
#include "log/ranks.h"
#include "plumb/file.h"

static int compare(const void *a, const void *b)
{
    const plumb_sample *const x = a, *const y = b;

    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->site != y->site)
        return x->site < y->site ? -1 : 1;
    return memcmp(x, y, sizeof *x); /* so that no order of equal keys is left to qsort */
}

static plumb_status no_memory(plumb_error *why)
{
    return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the site statistics of ranks");
}

/* --- sites by name ------------------------------------------------------------------------ */

typedef struct named {
    const char *name;
    uint32_t site;
} named;

static int by_name(const void *a, const void *b)
{
    const named *const x = a, *const y = b;
    const int order = strcmp(x->name, y->name);

    return order != 0 ? order : x->site < y->site ? -1 : x->site > y->site;
}

static int is_named(const void *name, const void *entry)
{
    return strcmp(name, ((const named *)entry)->name);
}

/* Adds the name to those of all; the caller has made room.  It then belongs to all. */
static uint32_t append(plumb_samples *all, char **name)
{
    all->site_names[all->site_count] = *name;
    *name = NULL;
    return (uint32_t)all->site_count++;
}

/* map[i]: the site of all that site i of one is. */
static plumb_status map_sites(plumb_samples *all, plumb_samples *one, uint32_t *map,
                              named *sorted, plumb_error *why)
{
    const size_t before = all->site_count;

    for (size_t i = 0; i < before; i++)
        sorted[i] = (named){all->site_names[i], (uint32_t)i};
    qsort(sorted, before, sizeof *sorted, by_name);
    for (size_t i = 0; i < one->site_count; i++) {
        const named *found =
            bsearch(one->site_names[i], sorted, before, sizeof *sorted, is_named);

        if (found == NULL && all->site_count >= PLS_MOST_SITES)
            return plumb_fail(why, PLUMB_BAD_INPUT, "the ranks have over %d sites",
                              (int)PLS_MOST_SITES);
        map[i] = found != NULL ? found->site : append(all, &one->site_names[i]);
    }
    return PLUMB_OK;
}

static plumb_status match_sites(plumb_samples *all, plumb_samples *one, uint32_t *map,
                                plumb_error *why)
{
    char **grown = realloc(all->site_names,
                           (all->site_count + one->site_count) * sizeof *all->site_names);
    named *sorted = malloc((all->site_count + 1) * sizeof *sorted);
    plumb_status status = PLUMB_OK;

    if (grown != NULL)
        all->site_names = grown;
    if (grown == NULL || sorted == NULL)
        status = no_memory(why);
    else
        status = map_sites(all, one, map, sorted, why);
    free(sorted);
    return status;
}

/* --- rows --------------------------------------------------------------------------------- */

/* Adds the rows of one rank to those of the others. */
static plumb_status add(plumb_samples *all, plumb_samples *one, plumb_error *why)
{
    uint32_t *map = malloc((one->site_count + 1) * sizeof *map);
    plumb_sample *grown;
    plumb_status status = map == NULL ? no_memory(why) : PLUMB_OK;

    all->torn = all->torn || one->torn;
    if (status == PLUMB_OK && one->count > PLS_MOST_ROWS - all->count)
        status = plumb_fail(why, PLUMB_BAD_INPUT, "the ranks have over 50000000 rows");
    if (status == PLUMB_OK && one->site_count > 0)
        status = match_sites(all, one, map, why);
    if (status == PLUMB_OK && one->count > 0) {
        grown = realloc(all->at, (all->count + one->count) * sizeof *all->at);
        if (grown == NULL)
            status = no_memory(why);
        else
            all->at = grown;
    }
    for (size_t i = 0; status == PLUMB_OK && i < one->count; i++) {
        all->at[all->count] = one->at[i];
        all->at[all->count++].site = map[one->at[i].site];
    }
    free(map);
    return status;
}

/* One row for each site and step, in sorted rows. */
static void join(plumb_samples *all)
{
    size_t kept = 0;

    for (size_t i = 0; i < all->count; i++) {
        plumb_sample *last = kept > 0 ? &all->at[kept - 1] : NULL;

        if (last != NULL && last->step == all->at[i].step && last->site == all->at[i].site)
            plumb_sample_join(last, &all->at[i]);
        else
            all->at[kept++] = all->at[i];
    }
    all->count = kept;
}

static plumb_status read_rank(const char *run_dir, uint32_t rank, plumb_samples *samples,
                              plumb_error *why)
{
    plumb_pls_table t;
    const plumb_status status = plumb_pls_read(run_dir, &plumb_pls_samples, rank, &t, why);

    *samples = (plumb_samples){t.site_names, t.site_count, t.rows, t.count, t.torn};
    return status;
}

static plumb_status read_others(const char *run_dir, const plumb_ranks *ranks,
                                plumb_samples *all, plumb_error *why)
{
    plumb_status status = PLUMB_OK;

    for (size_t i = 0; i < ranks->count && status == PLUMB_OK; i++) {
        plumb_samples one = {0};

        status = read_rank(run_dir, ranks->at[i], &one, why);
        if (status == PLUMB_OK)
            status = add(all, &one, why);
        plumb_samples_free(&one);
    }
    return status;
}

plumb_status plumb_samples_read(const char *run_dir, plumb_samples *samples,
                                plumb_error *why)
{
    plumb_ranks *ranks = malloc(sizeof *ranks);
    plumb_status status;

    *samples = (plumb_samples){0};
    if (ranks == NULL)
        return no_memory(why);
    status = read_rank(run_dir, 0, samples, why);
    if (status == PLUMB_OK)
        status =
            plumb_ranks_find(run_dir, plumb_pls_samples.prefix, PLS_SUFFIX, ranks, why);
    if (status == PLUMB_OK)
        status = read_others(run_dir, ranks, samples, why);
    if (status != PLUMB_OK) {
        plumb_samples_free(samples);
    } else if (samples->count > 0) {
        qsort(samples->at, samples->count, sizeof *samples->at, compare);
        if (ranks->count > 0)
            join(samples);
    }
    free(ranks);
    return status;
}

/* Spectra are looked at, not added up: those of rank 0 say what the others would. */
static int compare_histograms(const void *a, const void *b)
{
    const plumb_histogram *const x = a, *const y = b;
    const int order = compare(&x->sample, &y->sample);

    return order != 0 ? order : memcmp(x, y, sizeof *x);
}

plumb_status plumb_histograms_read(const char *run_dir, plumb_histograms *histograms,
                                   plumb_error *why)
{
    plumb_pls_table t;
    const plumb_status status = plumb_pls_read(run_dir, &plumb_pls_histograms, 0, &t, why);

    *histograms = (plumb_histograms){t.site_names, t.site_count, t.rows, t.count, t.torn};
    if (t.count > 0)
        qsort(histograms->at, t.count, sizeof *histograms->at, compare_histograms);
    return status;
}
