/* Sets of sites, grouped by what the run declares of them (class, layer, gemm, operand), never
 * by their names, and the rules that cast a set back.
 */
#include "diagnose/experiment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool plumb_format_is_low(const char *own)
{
    static const char *const wide[] = {"fp16", "float16", "f16",      "half",
                                       "fp32", "float32", "bfloat16", "float",
                                       "tf32", "fp64",    "float64"};
    plumb_spec spec;

    if (own == NULL)
        return true;
    if (plumb_spec_parse(own, NULL, &spec, NULL) == PLUMB_OK)
        return plumb_format_get(spec.format)->bits < plumb_format_get(PLUMB_BF16)->bits;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (strcmp(own, wide[i]) == 0)
            return false;
    return true;
}

bool plumb_set_by_class(const plumb_experiment *x, plumb_class class_, plumb_set *set)
{
    const plumb_declaration *d = &x->declaration;

    *set = (plumb_set){malloc((d->site_count + 1) * sizeof *set->at), 0};
    if (set->at == NULL)
        return false;
    for (size_t i = 0; i < d->site_count; i++)
        if (x->low[i] && d->sites[i].class_ == class_)
            set->at[set->count++] = i;
    return true;
}

bool plumb_set_has(const plumb_set *set, size_t site)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->at[i] == site)
            return true;
    return false;
}

static int by_index(const void *a, const void *b)
{
    const size_t left = *(const size_t *)a, right = *(const size_t *)b;

    return left < right ? -1 : left > right;
}

bool plumb_set_join(const plumb_set *a, const plumb_set *b, plumb_set *out)
{
    *out = (plumb_set){malloc((a->count + b->count + 1) * sizeof *out->at), 0};
    if (out->at == NULL)
        return false;
    for (size_t i = 0; i < a->count; i++)
        out->at[out->count++] = a->at[i];
    for (size_t i = 0; i < b->count; i++)
        if (!plumb_set_has(a, b->at[i]))
            out->at[out->count++] = b->at[i];
    qsort(out->at, out->count, sizeof *out->at, by_index);
    return true;
}

static bool same_word(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool same_kind(const plumb_declared_site *a, const plumb_declared_site *b)
{
    return a->class_ == b->class_ && same_word(a->gemm, b->gemm) &&
           same_word(a->operand, b->operand);
}

bool plumb_set_of_kind(const plumb_experiment *x, const plumb_set *set, plumb_set *out)
{
    const plumb_declaration *d = &x->declaration;

    *out = (plumb_set){malloc((d->site_count + 1) * sizeof *out->at), 0};
    if (out->at == NULL)
        return false;
    for (size_t i = 0; i < d->site_count; i++) {
        bool among = false;

        for (size_t k = 0; k < set->count && x->low[i] && !among; k++)
            among = same_kind(&d->sites[i], &d->sites[set->at[k]]);
        if (among)
            out->at[out->count++] = i;
    }
    return true;
}

void plumb_set_free(plumb_set *set)
{
    free(set->at);
    *set = (plumb_set){0};
}

enum { LONGEST_GLOB = 256 };

/* Site names are globs in a policy, so the characters that fnmatch knows are escaped: as bracket
 * expressions, which Python's fnmatch understands too; where that gets too long for a glob, and
 * for the backslash itself, with a backslash.
 */
static json_t *literal(const char *name)
{
    char glob[LONGEST_GLOB + 1];
    size_t n = 0, special = 0;

    for (const char *at = name; (at = strpbrk(at, "*?[")) != NULL; at++)
        special++;
    const bool brackets = strlen(name) + 2 * special <= LONGEST_GLOB;

    for (; *name != 0 && n + 3 < sizeof glob; name++) {
        const bool bracket = brackets && strchr("*?[", *name) != NULL;

        if (bracket)
            glob[n++] = '[';
        else if (strchr("*?[\\", *name) != NULL)
            glob[n++] = '\\';
        glob[n++] = *name;
        if (bracket)
            glob[n++] = ']';
    }
    glob[n] = 0;
    return json_string(glob);
}

size_t plumb_storage_root(const plumb_declaration *d, size_t site)
{
    for (size_t hops = 0; hops < 8; hops++) {
        const char *other = d->sites[site].shares_storage_with;
        size_t found = site;

        for (size_t i = 0; other != NULL && i < d->site_count; i++)
            if (strcmp(d->sites[i].name, other) == 0)
                found = i;
        if (found == site || found > site)
            return found == site ? site : found;
        site = found;
    }
    return site;
}

json_t *plumb_rules_over(const plumb_experiment *x, const plumb_set *set, const char *use,
                         bool raise)
{
    json_t *names = json_array();

    for (size_t i = 0; i < set->count; i++)
        json_array_append_new(names, literal(x->declaration.sites[set->at[i]].name));
    return json_pack("[{s:o,s:s,s:b}]", "sites", names, "use", use, "raise", (int)raise);
}

json_t *plumb_rules_everywhere(const char *use)
{
    return json_pack("[{s:s,s:s,s:b}]", "sites", "*", "use", use, "raise", 1);
}

/* --- words --------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* The text that all of the set share in a field, or NULL. */
static const char *common(const plumb_experiment *x, const plumb_set *set, bool operand)
{
    const plumb_declared_site *sites = x->declaration.sites;
    const char *first = operand ? sites[set->at[0]].operand : sites[set->at[0]].gemm;

    for (size_t i = 1; i < set->count; i++) {
        const plumb_declared_site *site = &sites[set->at[i]];

        if (!same_text(first, operand ? site->operand : site->gemm))
            return NULL;
    }
    return first;
}

enum { LISTED = 6 };

/* The distinct layers, ascending; returns how many there are, LISTED + 1 for more. */
static size_t distinct_layers(const plumb_experiment *x, const plumb_set *set,
                              int64_t layers[LISTED])
{
    size_t count = 0;

    for (size_t i = 0; i < set->count; i++) {
        const int64_t layer = x->declaration.sites[set->at[i]].layer;
        size_t k = 0;

        while (k < count && layers[k] < layer)
            k++;
        if (k < count && layers[k] == layer)
            continue;
        if (count == LISTED)
            return LISTED + 1;
        for (size_t m = count++; m > k; m--)
            layers[m] = layers[m - 1];
        layers[k] = layer;
    }
    return count;
}

static void describe_layers(const plumb_experiment *x, const plumb_set *set, char *text,
                            size_t size)
{
    int64_t layers[LISTED] = {0};
    const size_t count = distinct_layers(x, set, layers);
    size_t n = 0;

    if (count > LISTED) {
        snprintf(text, size, "more than %d layers", LISTED);
        return;
    }
    if (count == 1 && layers[0] < 0) {
        snprintf(text, size, "outside layers");
        return;
    }
    const size_t first = layers[0] < 0;

    n = (size_t)snprintf(text, size, "layer%s ", count - first > 1 ? "s" : "");
    for (size_t i = first; i < count && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%lld", i > first ? ", " : "",
                              (long long)layers[i]);
    if (first > 0 && n < size)
        snprintf(text + n, size - n, " and outside layers");
}

void plumb_set_describe(const plumb_experiment *x, const plumb_set *set, char *text,
                        size_t size)
{
    char layers[160], name[PLUMB_SITE_NAME];

    if (set->count == 0) {
        snprintf(text, size, "no site");
        return;
    }
    if (set->count == 1) {
        plumb_printable(x->declaration.sites[set->at[0]].name, name, sizeof name);
        snprintf(text, size, "%s", name);
        return;
    }
    char gemm[40] = "", operand[40] = "";
    const char *shared = common(x, set, false);

    if (shared != NULL)
        plumb_printable(shared, gemm, sizeof gemm);
    shared = common(x, set, true);
    if (shared != NULL)
        plumb_printable(shared, operand, sizeof operand);
    describe_layers(x, set, layers, sizeof layers);
    snprintf(text, size, "%zu %s%s%s%s%s, %s", set->count, gemm, gemm[0] != 0 ? " " : "",
             operand, operand[0] != 0 ? " " : "", "sites", layers);
}

void plumb_mark_sites(const plumb_experiment *x, const plumb_samples *samples,
                      const plumb_set *set, bool *marks)
{
    for (size_t i = 0; i < samples->site_count; i++)
        for (size_t k = 0; k < set->count; k++)
            if (strcmp(samples->site_names[i], x->declaration.sites[set->at[k]].name) == 0)
                marks[i] = true;
}
