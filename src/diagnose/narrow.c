/* Inside the class: layers, then GEMMs, then operands, then single sites (those that share
 * storage stay together), each level inside what the one before left.  Delta debugging does the
 * cutting; every question is an arm, and "later" is not healed.
 */
#include "diagnose/experiment.h"

#include "diagnose/ddmin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ARM_BUDGET: in all; a level gets what a few parts of many need, since where every part is needed
 * an arm for each of them tells no more than that.
 *
 * FEW: up to so many sites in several layers are tried one by one; more cost too many arms where
 * every one of them is needed.
 */
enum { ARM_BUDGET = 64, LEVELS = 4, FEW = 8 };

/* Groups of one level over the current set: group[i] is the group of set->at[i]. */
typedef struct level {
    const plumb_set *set;
    size_t *group, group_count;
} level;

typedef struct narrowing {
    plumb_experiment *x;
    const level *level;
    const char *phase;
    char furthest[160]; /* the part whose cast-back moved the failure furthest */
    int64_t furthest_step;
} narrowing;

/* --- grouping -------------------------------------------------------------------------- */

static bool same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool same_group(const plumb_declaration *d, size_t a, size_t b, int depth)
{
    switch (depth) {
    case 0:
        return d->sites[a].layer == d->sites[b].layer;
    case 1:
        return same(d->sites[a].gemm, d->sites[b].gemm);
    case 2:
        return same(d->sites[a].operand, d->sites[b].operand);
    default:
        return plumb_storage_root(d, a) == plumb_storage_root(d, b);
    }
}

static bool make_level(const plumb_experiment *x, const plumb_set *set, int depth, level *l)
{
    *l = (level){set, calloc(set->count + 1, sizeof *l->group), 0};
    if (l->group == NULL)
        return false;
    for (size_t i = 0; i < set->count; i++) {
        size_t k = 0;

        while (k < i && !same_group(&x->declaration, set->at[k], set->at[i], depth))
            k++;
        l->group[i] = k < i ? l->group[k] : l->group_count++;
    }
    return true;
}

static bool gather(const level *l, const size_t *parts, size_t count, plumb_set *out)
{
    *out = (plumb_set){malloc((l->set->count + 1) * sizeof *out->at), 0};
    if (out->at == NULL)
        return false;
    for (size_t i = 0; i < l->set->count; i++)
        for (size_t p = 0; p < count; p++)
            if (l->group[i] == parts[p])
                out->at[out->count++] = l->set->at[i];
    return true;
}

/* --- the oracle: an arm ------------------------------------------------------------------ */

static void note_shift(narrowing *n, const char *what, const plumb_failure *failure)
{
    if (failure->predicate == PLUMB_FAILS_NOT || failure->step <= n->furthest_step)
        return;
    n->furthest_step = failure->step;
    snprintf(n->furthest, sizeof n->furthest, "%s", what);
}

static plumb_status heals_alone(void *context, const size_t *parts, size_t count,
                                bool *heals, plumb_error *why)
{
    narrowing *n = context;
    plumb_set set;
    char what[160], label[200];
    plumb_answer answer = {0};

    if (!gather(n->level, parts, count, &set))
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a set of sites");
    plumb_set_describe(n->x, &set, what, sizeof what);
    snprintf(label, sizeof label, "%s back to bf16", what);
    json_t *rules = plumb_rules_over(n->x, &set, "bf16", true);
    const plumb_status status =
        rules == NULL ? plumb_fail(why, PLUMB_NO_MEMORY, "no memory for rules")
                      : plumb_ask_arm(n->x, n->phase, label, rules, &answer, why);

    json_decref(rules);
    plumb_set_free(&set);
    *heals = answer.heals;
    if (status == PLUMB_OK && !*heals)
        note_shift(n, what, &answer.failure);
    return status;
}

/* Enough to try each of a few parts and what is left without it, and to find a pair among many. */
static size_t level_budget(size_t parts)
{
    const size_t each = 2 * parts + 3;
    size_t pair = 4;

    for (size_t n = 1; n < parts; n *= 2)
        pair += 5;
    return each < pair ? each : pair;
}

/* --- levels --------------------------------------------------------------------------------- */

static plumb_status narrow_level(narrowing *n, int depth, plumb_set *current, size_t most,
                                 bool *exhausted, plumb_error *why)
{
    level l;
    plumb_set next = {0};
    plumb_status status = PLUMB_OK;

    if (!make_level(n->x, current, depth, &l))
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a level of the search");
    size_t *kept = malloc((l.group_count + 1) * sizeof *kept), kept_count;

    n->level = &l;
    n->phase = depth == 0 ? "layer" : "operand";
    if (kept == NULL)
        status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a level of the search");
    if (status == PLUMB_OK && l.group_count > 1) {
        const size_t level_most = level_budget(l.group_count);
        bool cut_short;

        status = plumb_ddmin(l.group_count, heals_alone, n,
                             level_most < most ? level_most : most, kept, &kept_count,
                             &cut_short, why);
        *exhausted |= cut_short;
        if (status == PLUMB_OK && !gather(&l, kept, kept_count, &next))
            status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a set of sites");
        if (status == PLUMB_OK) {
            plumb_set_free(current);
            *current = next;
        }
    }
    free(kept);
    free(l.group);
    return status;
}

static bool worth_single_sites(const plumb_experiment *x, const plumb_set *set)
{
    bool one_layer = true;

    for (size_t i = 1; i < set->count; i++)
        one_layer &= same_group(&x->declaration, set->at[0], set->at[i], 0);
    return one_layer || set->count <= FEW;
}

static const char *scope_of(const plumb_experiment *x, const plumb_set *set)
{
    bool one_layer = x->declaration.sites[set->at[0]].layer >= 0, one_unit = true;

    for (size_t i = 1; i < set->count; i++) {
        one_layer &= same_group(&x->declaration, set->at[0], set->at[i], 0);
        one_unit &= same_group(&x->declaration, set->at[0], set->at[i], 3);
    }
    return one_unit ? "site" : x->class_count == 2 ? "pair" : one_layer ? "layer" : "class";
}

static plumb_status say_place(plumb_experiment *x, const narrowing *n, size_t whole,
                              bool unsearched)
{
    char what[200];

    plumb_set_describe(x, &x->culprits, what, sizeof what);
    if (x->culprits.count == whole && whole > 1)
        return plumb_state(x, "compared",
                           "Distributed: %s of the %zu sites can be left out.%s%s%s",
                           unsearched ? "no layer, GEMM or operand" : "none", whole,
                           n->furthest[0] != 0 ? " What moved the failure furthest: " : "",
                           n->furthest, n->furthest[0] != 0 ? "." : "");
    plumb_status status =
        plumb_state(x, "compared", "The least that heals when cast back: %s.", what);

    if (status == PLUMB_OK && x->culprits.count > 1 && n->furthest[0] != 0)
        status =
            plumb_state(x, "compared",
                        "No smaller part heals; %s alone moves the failure to step %lld.",
                        n->furthest, (long long)n->furthest_step);
    return status;
}

/* Two classes healed together, and what is left of them lies in one: the other was not needed. */
static void drop_needless_class(plumb_experiment *x)
{
    const plumb_declared_site *sites = x->declaration.sites;

    if (x->class_count != 2 || x->culprits.count == 0)
        return;
    for (size_t i = 1; i < x->culprits.count; i++)
        if (sites[x->culprits.at[i]].class_ != sites[x->culprits.at[0]].class_)
            return;
    x->class_count = 1;
    x->classes[0] = sites[x->culprits.at[0]].class_;
}

static size_t arms_left(const plumb_experiment *x, size_t before)
{
    const size_t asked = x->search_arms - before;

    return asked < ARM_BUDGET ? ARM_BUDGET - asked : 0;
}

plumb_status plumb_stage_narrow(plumb_experiment *x, plumb_error *why)
{
    narrowing n = {.x = x, .furthest_step = x->failure.step};
    const size_t whole = x->culprits.count, before = x->search_arms;
    bool exhausted = false, unsearched = false;
    plumb_status status = PLUMB_OK;

    if (x->scope != NULL && strcmp(x->scope, "site") == 0)
        return PLUMB_OK; /* the guess was right */
    if (whole <= 1 || x->all_classes) {
        if (whole == 1)
            x->scope = "site";
        return PLUMB_OK;
    }
    status = plumb_question_now(x, why, "Where inside the class?");
    for (int depth = 0; depth < LEVELS && status == PLUMB_OK; depth++) {
        if (depth == LEVELS - 1 && !worth_single_sites(x, &x->culprits)) {
            unsearched = true;
            break;
        }
        status =
            narrow_level(&n, depth, &x->culprits, arms_left(x, before), &exhausted, why);
    }
    if (status != PLUMB_OK)
        return status;
    drop_needless_class(x);
    x->scope = scope_of(x, &x->culprits);
    if (exhausted)
        status =
            plumb_limit(x,
                        "The search of the place stopped after %zu arms; a smaller set "
                        "may heal too.",
                        x->search_arms - before);
    if (status == PLUMB_OK && unsearched)
        status =
            plumb_limit(x,
                        "The %zu sites left lie in several layers and were not tried one "
                        "by one; a smaller set may heal too.",
                        x->culprits.count);
    return status == PLUMB_OK ? say_place(x, &n, whole, unsearched) : status;
}
