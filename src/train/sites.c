/* The sites of a run: what each runs in by recipe and rules (own), what the policy makes of it
 * (effective), and how the run declares them.
 */
#include "train/train.h"

#include <stdlib.h>
#include <string.h>

#include "quant/spec.h"

/* --- names ---------------------------------------------------------------------------- */

static void operand_site(const plumb_shape *shape, size_t index, site *s)
{
    plumb_site operand;

    plumb_site_get(shape, index, &operand);
    *s = (site){.class_ = operand.role < PLUMB_DGRAD_DY ? PLUMB_FORWARD : PLUMB_BACKWARD,
                .layer = operand.layer,
                .gemm = operand.gemm,
                .operand = operand.operand,
                .own = {.format = PLUMB_BF16}};
    memcpy(s->name, operand.name, sizeof s->name);
}

static void parameter_sites(const plumb_parameter *p, site s[PARAMETER_SITES])
{
    static const char *const ends[] = {"optimizer/m", "optimizer/v", "collective/grad"};
    static const char *const operands[] = {"m", "v", "grad"};

    for (size_t i = 0; i < PARAMETER_SITES; i++) {
        s[i] = (site){.class_ = i == STATE_GRAD ? PLUMB_COLLECTIVE : PLUMB_OPTIMIZER,
                      .layer = p->layer,
                      .operand = operands[i],
                      .own = {.format = PLUMB_FP32}};
        plumb_print(s[i].name, sizeof s[i].name, "%s/%s", p->name, ends[i]);
    }
}

/* --- specs ------------------------------------------------------------------------------ */

/* What this trainer can do at a site. */
static plumb_status check_spec(const site_table *t, size_t index, const plumb_spec *spec,
                               plumb_error *why)
{
    const site *s = &t->at[index];
    char text[PLUMB_SPEC_TEXT];

    plumb_spec_print(spec, text);
    if (spec->rounding == PLUMB_ROUND_STOCHASTIC)
        return plumb_fail(
            why, PLUMB_UNSUPPORTED,
            "site %s cannot use %s: stochastic rounding needs a seed for each "
            "site and step, which this trainer does not give",
            s->name, text);
    if (index < t->operands || !plumb_spec_is_scaled(spec))
        return PLUMB_OK;
    if (spec->rule == PLUMB_SCALE_DELAYED)
        return plumb_fail(why, PLUMB_UNSUPPORTED,
                          "site %s cannot use %s: only operands of products have delayed "
                          "scales",
                          s->name, text);
    if (s->class_ == PLUMB_COLLECTIVE && spec->grain != PLUMB_GRAIN_TENSOR)
        return plumb_fail(why, PLUMB_UNSUPPORTED,
                          "site %s cannot use %s: the all-reduce has one scale for each "
                          "tensor",
                          s->name, text);
    return PLUMB_OK;
}

static bool matches_any(const site_table *t, const plumb_rule *rule)
{
    for (size_t i = 0; i < t->count; i++) {
        if (plumb_rule_matches(rule, t->at[i].name))
            return true;
    }
    return false;
}

/* A rule of a run file that matches nothing is a slip: the model is known. */
static plumb_status check_rules(const site_table *t, const plumb_rules *rules,
                                plumb_error *why)
{
    for (size_t i = 0; i < rules->count; i++) {
        if (!matches_any(t, &rules->at[i]))
            return plumb_fail(why, PLUMB_BAD_INPUT,
                              "rules: rule %zu: '%.100s'%s matches no site of this model",
                              i + 1, rules->at[i].globs[0],
                              rules->at[i].glob_count > 1 ? " and what follows it" : "");
    }
    return PLUMB_OK;
}

/* The last that matches wins, and the rules of the run file stand behind those of the recipe. */
static plumb_status resolve_site(const plumb_preset *preset, const plumb_rules *rules,
                                 site *s, plumb_error *why)
{
    const plumb_spec before = s->own;
    size_t winner;
    plumb_status status = plumb_policy_resolve(rules->at, rules->count, s->name, &before,
                                               &s->own, &winner, why);

    if (status == PLUMB_OK && winner == SIZE_MAX)
        status = plumb_policy_resolve(preset->rules, preset->rule_count, s->name, &before,
                                      &s->own, NULL, why);
    return status;
}

static plumb_status resolve_own(const settings *s, site_table *t, plumb_error *why)
{
    const plumb_preset *preset = plumb_preset_find(s->recipe);
    plumb_rules rules = {0};
    plumb_status status = PLUMB_OK;

    if (preset == NULL)
        return plumb_fail(
            why, PLUMB_BAD_INPUT,
            "recipe is '%s'; allowed: bf16, te-delayed, te-current, deepseek-v3",
            s->recipe);
    if (s->rules != NULL)
        status = plumb_rules_from_json(s->rules, "rules", &rules, why);
    if (status == PLUMB_OK)
        status = check_rules(t, &rules, why);
    for (size_t i = 0; i < t->count && status == PLUMB_OK; i++) {
        status = resolve_site(preset, &rules, &t->at[i], why);
        if (status == PLUMB_OK)
            status = check_spec(t, i, &t->at[i].own, why);
    }
    plumb_rules_free(&rules);
    return status;
}

plumb_status sites_resolve(site_table *t, const plumb_rules *policy, plumb_error *why)
{
    for (size_t i = 0; i < t->count; i++) {
        site *s = &t->at[i];
        plumb_status status = plumb_policy_resolve(policy->at, policy->count, s->name,
                                                   &s->own, &s->effective, NULL, why);

        if (status == PLUMB_OK)
            status = check_spec(t, i, &s->effective, why);
        if (status != PLUMB_OK)
            return status;
        if (i < t->operands)
            t->specs[i] = s->effective;
    }
    return PLUMB_OK;
}

plumb_status sites_create(const plumb_shape *shape, const settings *s, site_table *t,
                          plumb_error *why)
{
    const size_t parameters = plumb_parameter_count(shape);

    t->operands = plumb_site_count(shape);
    t->count = t->operands + PARAMETER_SITES * parameters;
    t->at = calloc(t->count, sizeof *t->at);
    t->names = calloc(t->count, sizeof *t->names);
    t->specs = calloc(t->operands, sizeof *t->specs);
    if (t->at == NULL || t->names == NULL || t->specs == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu sites", t->count);
    for (size_t i = 0; i < t->operands; i++)
        operand_site(shape, i, &t->at[i]);
    for (size_t i = 0; i < parameters; i++) {
        plumb_parameter p;

        plumb_parameter_get(shape, i, &p);
        parameter_sites(&p, &t->at[parameter_site(t, i, 0)]);
    }
    for (size_t i = 0; i < t->count; i++)
        t->names[i] = t->at[i].name;
    return resolve_own(s, t, why);
}

void sites_free(site_table *t)
{
    free(t->at);
    free(t->names);
    free(t->specs);
    *t = (site_table){0};
}

/* --- what the run says of them ------------------------------------------------------------ */

json_t *sites_unmatched(const site_table *t, const plumb_rules *policy)
{
    json_t *list = json_array();

    for (size_t i = 0; i < policy->count; i++) {
        const plumb_rule *rule = &policy->at[i];
        json_t *globs;

        if (matches_any(t, rule))
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

/* The formats that every site takes by name alone. */
static const plumb_format offered[] = {PLUMB_FP32, PLUMB_BF16, PLUMB_E4M3, PLUMB_E5M2};
enum { OFFERED = sizeof offered / sizeof offered[0] };

static void declare_uses(plumb_declared_site *d, const plumb_spec *own)
{
    const char *format = plumb_format_get(own->format)->name;
    char text[PLUMB_SPEC_TEXT];

    for (int i = 0; i < OFFERED; i++) {
        d->uses[d->use_count] = copy(plumb_format_get(offered[i])->name);
        if (d->uses[d->use_count] != NULL)
            d->use_count++;
    }
    if (!plumb_spec_is_scaled(own))
        return;
    plumb_print(text, sizeof text, "%s:current", format);
    add_use(d, own, text);
    plumb_print(text, sizeof text, "%s:saturate", format);
    add_use(d, own, text);
}

/* By the own specs: what shares codes when no policy parts them. */
static const char *owner_name(const site_table *t, const plumb_spec *own, size_t index)
{
    const size_t owner = index < t->operands ? plumb_site_owner(own, index) : index;

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
    declare_uses(d, &s->own);
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
