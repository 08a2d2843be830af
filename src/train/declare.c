/* What a run says of its sites: the declaration of run.json, the rules that matched nothing, and what
 * each site ran in.
 */
#include "train/train.h"

#include <stdlib.h>
#include <string.h>

#include "quant/spec.h"

json_t *sites_unmatched(const site_table *t, const plumb_rules *policy)
{
    json_t *list = json_array();

    for (size_t i = 0; i < policy->count; i++) {
        const plumb_rule *rule = &policy->at[i];
        json_t *globs;

        if (sites_match(t, rule))
            continue;
        globs = json_array();
        for (size_t j = 0; j < rule->glob_count; j++)
            json_array_append_new(globs, json_string(rule->globs[j]));
        json_array_append_new(
            list, json_pack("{s:I, s:o}", "rule", (json_int_t)i, "sites", globs));
    }
    return list;
}

json_t *sites_effective(const site_table *t)
{
    json_t *sites = json_object();

    for (size_t i = 0; i < t->count; i++) {
        char text[PLUMB_SPEC_TEXT];

        plumb_spec_print(&t->at[i].effective, text);
        json_object_set_new(sites, t->at[i].name, json_string(text));
    }
    return sites;
}

static char *copy(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *fresh = malloc(size);

    if (fresh != NULL)
        memcpy(fresh, text, size);
    return fresh;
}

/* Adds a use, unless it is what the site runs in anyway. */
static void add_use(plumb_declared_site *d, const plumb_spec *own, const char *text)
{
    plumb_spec spec;

    if (plumb_spec_parse(text, own, &spec, NULL) != PLUMB_OK ||
        plumb_spec_equal(&spec, own))
        return;
    d->uses[d->use_count] = copy(text);
    if (d->uses[d->use_count] != NULL)
        d->use_count++;
}

/* What every site takes, those first that are rounded as they are computed. */
enum { OFFERED = 4 };
static const char *const offered[2][OFFERED] = {{"fp32", "bf16", "e4m3:none", "e5m2:none"},
                                                {"fp32", "bf16", "e4m3", "e5m2"}};

static bool is_matrix(const site *s)
{
    return s->kind == PLUMB_SITE_LINEAR || s->kind == PLUMB_SITE_ATTENTION;
}

static void declare_uses(plumb_declared_site *d, const site *s)
{
    const plumb_spec *own = &s->own;
    const char *format = plumb_format_get(own->format)->name;
    char text[PLUMB_SPEC_TEXT];

    for (int i = 0; i < OFFERED; i++) {
        d->uses[d->use_count] = copy(offered[is_matrix(s)][i]);
        if (d->uses[d->use_count] != NULL)
            d->use_count++;
    }
    if (!plumb_spec_is_scaled(own) || !is_matrix(s))
        return;
    plumb_print(text, sizeof text, "%s:current", format);
    add_use(d, own, text);
    plumb_print(text, sizeof text, "%s:saturate", format);
    add_use(d, own, text);
}

/* By the own specs: what shares codes when no policy parts them. */
static const char *owner_name(const site_table *t, const plumb_spec *own, size_t index)
{
    const size_t owner =
        index < t->operands ? plumb_site_owner(&t->shape, own, index) : index;

    return owner == index ? NULL : t->at[owner].name;
}

static plumb_status declare_site(const site_table *t, const plumb_spec *own, size_t index,
                                 plumb_declared_site *d, plumb_error *why)
{
    enum { MOST_USES = OFFERED + 2 };
    const site *s = &t->at[index];
    const char *shares = owner_name(t, own, index);
    char text[PLUMB_SPEC_TEXT];

    plumb_spec_print(&s->own, text);
    *d = (plumb_declared_site){.name = copy(s->name),
                               .class_ = s->class_,
                               .layer = s->layer,
                               .gemm = s->gemm == NULL ? NULL : copy(s->gemm),
                               .operand = copy(s->operand),
                               .own = copy(text),
                               .shares_storage_with = shares == NULL ? NULL : copy(shares),
                               .uses = calloc(MOST_USES, sizeof *d->uses)};
    if (d->name == NULL || d->operand == NULL || d->own == NULL || d->uses == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory to declare a site");
    declare_uses(d, s);
    return PLUMB_OK;
}

plumb_status sites_declare(const site_table *t, plumb_declaration *d, plumb_error *why)
{
    plumb_spec *own = calloc(t->operands, sizeof *own);
    plumb_status status = PLUMB_OK;

    d->sites = calloc(t->count, sizeof *d->sites);
    if (own == NULL || d->sites == NULL) {
        free(own);
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory to declare %zu sites", t->count);
    }
    for (size_t i = 0; i < t->operands; i++)
        own[i] = t->at[i].own;
    for (size_t i = 0; i < t->count && status == PLUMB_OK; i++) {
        d->site_count = i + 1;
        status = declare_site(t, own, i, &d->sites[i], why);
    }
    free(own);
    return status;
}
