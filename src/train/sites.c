/* The sites of a run: what each runs in by recipe and rules (own), and what the policy makes of it
 * (effective).
 */
#include "train/train.h"

#include <stdlib.h>
#include <string.h>

#include "quant/spec.h"

/* --- names ---------------------------------------------------------------------------- */

static void model_site(const plumb_shape *shape, size_t index, site *s)
{
    plumb_site m;

    plumb_site_get(shape, index, &m);
    *s = (site){.class_ = m.class_,
                .kind = m.kind,
                .layer = m.layer,
                .gemm = m.gemm,
                .operand = m.operand,
                .own = {.format = m.kind == PLUMB_SITE_LINEAR ? PLUMB_BF16 : PLUMB_FP32}};
    memcpy(s->name, m.name, sizeof s->name);
}

static void parameter_sites(const plumb_parameter *p, site s[PARAMETER_SITES])
{
    static const char *const ends[] = {"optimizer/m", "optimizer/v", "collective/grad",
                                       "optimizer/master"};
    static const char *const operands[] = {"m", "v", "grad", "master"};

    for (size_t i = 0; i < PARAMETER_SITES; i++) {
        s[i] = (site){.class_ = i == STATE_GRAD ? PLUMB_COLLECTIVE : PLUMB_OPTIMIZER,
                      .layer = p->layer,
                      .operand = operands[i],
                      .own = {.format = PLUMB_FP32}};
        plumb_print(s[i].name, sizeof s[i].name, "%s/%s", p->name, ends[i]);
    }
}

/* --- specs ------------------------------------------------------------------------------ */

static plumb_status check_model_site(const site_table *t, size_t index,
                                     const plumb_spec *spec, plumb_error *why)
{
    plumb_site s;

    plumb_site_get(&t->shape, index, &s);
    return plumb_site_takes(&s, spec, why);
}

/* What this trainer can do at a site. */
static plumb_status check_spec(const site_table *t, size_t index, const plumb_spec *spec,
                               plumb_error *why)
{
    const site *s = &t->at[index];
    char text[PLUMB_SPEC_TEXT];

    plumb_spec_print(spec, text);
    if (index < t->operands)
        return check_model_site(t, index, spec, why);
    if (!plumb_spec_is_scaled(spec))
        return PLUMB_OK;
    if (spec->rule == PLUMB_SCALE_DELAYED)
        return plumb_fail(why, PLUMB_UNSUPPORTED,
                          "site %s cannot use %s: only operands of products have delayed "
                          "scales",
                          s->name, text);
    if (s->class_ == PLUMB_COLLECTIVE && spec->grain != PLUMB_GRAIN_TENSOR &&
        !t->own_wire_scales)
        return plumb_fail(why, PLUMB_UNSUPPORTED,
                          "site %s cannot use %s: the all-reduce has one scale for each "
                          "tensor, unless reduce.scale is own",
                          s->name, text);
    return PLUMB_OK;
}

bool sites_match(const site_table *t, const plumb_rule *rule)
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
    char hint[PLUMB_HINT];

    for (size_t i = 0; i < rules->count; i++) {
        const char *glob = rules->at[i].globs[0];

        if (!sites_match(t, &rules->at[i]))
            return plumb_fail(why, PLUMB_BAD_INPUT,
                              "rules: rule %zu: '%.100s'%s matches no site of this model%s",
                              i + 1, glob,
                              rules->at[i].glob_count > 1 ? " and what follows it" : "",
                              plumb_hint(glob, t->names, t->count, hint));
    }
    return PLUMB_OK;
}

static plumb_status unknown_recipe(const char *name, plumb_error *why)
{
    const char *names[64];
    char hint[PLUMB_HINT], allowed[400] = "";
    size_t count = 0;

    for (; count < plumb_preset_count && count < 64; count++) {
        names[count] = plumb_presets[count].name;
        plumb_append(allowed, sizeof allowed, "%s%s", count > 0 ? ", " : "", names[count]);
    }
    if (*plumb_hint(name, names, count, hint) != 0)
        return plumb_fail(why, PLUMB_BAD_INPUT, "recipe is '%.60s'%s", name, hint);
    return plumb_fail(why, PLUMB_BAD_INPUT, "recipe is '%.60s'; allowed: %s", name,
                      allowed);
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
        return unknown_recipe(s->recipe, why);
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

    t->shape = *shape;
    t->own_wire_scales = wire_has_own_scales(s);
    t->operands = plumb_site_count(shape);
    t->count = t->operands + PARAMETER_SITES * parameters;
    t->at = calloc(t->count, sizeof *t->at);
    t->names = calloc(t->count, sizeof *t->names);
    t->specs = calloc(t->operands, sizeof *t->specs);
    if (t->at == NULL || t->names == NULL || t->specs == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu sites", t->count);
    for (size_t i = 0; i < t->operands; i++)
        model_site(shape, i, &t->at[i]);
    for (size_t i = 0; i < parameters; i++) {
        plumb_parameter p;

        plumb_parameter_get(shape, i, &p);
        parameter_sites(&p, &t->at[parameter_site(t, i, 0)]);
    }
    for (size_t i = 0; i < t->count; i++)
        t->names[i] = t->at[i].name;
    const plumb_status status = resolve_own(s, t, why);

    return status == PLUMB_OK ? products_create(s, t, why) : status;
}

void sites_free(site_table *t)
{
    free(t->at);
    free(t->names);
    free(t->specs);
    free(t->accumulators);
    free(t->from_codes);
    *t = (site_table){0};
}
