/* A guess before the search: the site that its statistics make most suspect is tried alone.  If it
 * heals, classes, layers and operands need not be asked one by one; if not, one arm is lost.  What
 * decides is the arm, not the statistic.
 */
#include "diagnose/experiment.h"

#include <stdlib.h>
#include <string.h>

/* In the table of the declaration; SIZE_MAX if there is none. */
static plumb_status find_suspect(plumb_experiment *x, const plumb_set *low, size_t *site,
                                 plumb_error *why)
{
    plumb_samples samples = {0};
    size_t suspect = SIZE_MAX;
    bool *among = NULL;
    plumb_status status = PLUMB_OK;

    *site = SIZE_MAX;
    if (plumb_samples_read(x->own.run_dir, &samples, NULL) != PLUMB_OK)
        goto done;
    among = calloc(samples.site_count + 1, sizeof *among);
    if (among == NULL) {
        status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for site statistics");
        goto done;
    }
    plumb_mark_sites(x, &samples, low, among);
    status = plumb_suspect(&samples, among, plumb_seen_before(x), &suspect, why);
    for (size_t i = 0; suspect != SIZE_MAX && i < low->count; i++)
        if (strcmp(x->declaration.sites[low->at[i]].name, samples.site_names[suspect]) == 0)
            *site = low->at[i];
done:
    free(among);
    plumb_samples_free(&samples);
    return status;
}

/* The site and those of its class that read the same storage. */
static bool gather(const plumb_experiment *x, size_t site, plumb_set *set)
{
    const plumb_declaration *d = &x->declaration;

    *set = (plumb_set){malloc((d->site_count + 1) * sizeof *set->at), 0};
    if (set->at == NULL)
        return false;
    for (size_t i = 0; i < d->site_count; i++)
        if (x->low[i] && d->sites[i].class_ == d->sites[site].class_ &&
            plumb_storage_root(d, i) == plumb_storage_root(d, site))
            set->at[set->count++] = i;
    return true;
}

static plumb_status try_site(plumb_experiment *x, size_t site, plumb_error *why)
{
    char what[160], label[200];
    plumb_answer answer = {0};
    plumb_set set;

    if (!gather(x, site, &set))
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a set of sites");
    plumb_set_describe(x, &set, what, sizeof what);
    plumb_print(label, sizeof label, "%s back to bf16", what);
    json_t *rules = plumb_rules_over(x, &set, "bf16", true);
    plumb_status status = rules == NULL
                              ? plumb_fail(why, PLUMB_NO_MEMORY, "no memory for rules")
                              : plumb_ask_arm(x, "operand", label, rules, &answer, why);

    json_decref(rules);
    if (status != PLUMB_OK || !answer.heals) {
        plumb_set_free(&set);
        return status;
    }
    x->culprits = set;
    x->classes[0] = x->declaration.sites[site].class_;
    x->class_count = 1;
    x->scope = set.count == 1 ? "site" : "class"; /* which reader it is, is asked next */
    return plumb_state(
        x, "compared",
        "%s, whose statistics were the worst before the failure, heals when it "
        "alone goes back to bf16; nothing else was tried.",
        what);
}

plumb_status plumb_stage_guess(plumb_experiment *x, plumb_error *why)
{
    const size_t sites = x->declaration.site_count;
    size_t site = SIZE_MAX;

    if (!x->offers_observe || x->own.run_dir == NULL || sites == 0)
        return PLUMB_OK;
    plumb_set low = {malloc(sites * sizeof *low.at), 0};
    plumb_status status = PLUMB_OK;

    if (low.at == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu sites", sites);
    for (size_t i = 0; i < sites; i++)
        if (x->low[i])
            low.at[low.count++] = i;
    status = find_suspect(x, &low, &site, why);
    plumb_set_free(&low);
    if (status == PLUMB_OK && site != SIZE_MAX)
        status = plumb_question_now(x, why, "Is it the site that looks worst?");
    return status == PLUMB_OK && site != SIZE_MAX ? try_site(x, site, why) : status;
}
