/* Planted faults, for demos and tests.
 *
 *   frozen-scale  between steps the scale states of the sites are put back to what they were
 *                 when step FROM began
 *   scale-factor  from step FROM on, the decode scales of the quantised operand are multiplied
 *
 * They reach the run through the site hook and the state objects only; nothing else knows of
 * them, and they share no constant with what detects them.
 */
#include "train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* `{kind: K, sites: GLOB or list, from: STEP, factor: F}` */
typedef struct request {
    const char *kind;
    plumb_rules sites; /* one rule whose globs are the sites */
    double from, factor;
} request;

static plumb_status read_globs(const json_t *json, size_t number, request *r,
                               plumb_error *why)
{
    json_t *sites = json_object_get(json, "sites");
    json_t *rules = json_pack("[{s:O, s:s}]", "sites", sites == NULL ? json_null() : sites,
                              "use", "own");
    char what[32];

    plumb_print(what, sizeof what, "faults[%zu]", number);
    const plumb_status status = plumb_rules_from_json(rules, what, &r->sites, why);

    json_decref(rules);
    return status;
}

static plumb_status read_number(const json_t *json, const char *key, size_t number,
                                double least, double most, double *value, plumb_error *why)
{
    const json_t *field = json_object_get(json, key);

    if (field == NULL || !json_is_number(field))
        return plumb_fail(why, PLUMB_BAD_INPUT, "faults[%zu].%s must be a number", number,
                          key);
    *value = json_number_value(field);
    if (!(*value >= least && *value <= most))
        return plumb_fail(why, PLUMB_BAD_INPUT, "faults[%zu].%s is %g; allowed: %g to %g",
                          number, key, *value, least, most);
    return PLUMB_OK;
}

static plumb_status check_keys(const json_t *json, size_t number, bool factor,
                               plumb_error *why)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        if (strcmp(key, "kind") != 0 && strcmp(key, "sites") != 0 &&
            strcmp(key, "from") != 0 && (strcmp(key, "factor") != 0 || !factor))
            return plumb_fail(why, PLUMB_BAD_INPUT,
                              "faults[%zu]: unknown key '%s'; allowed: kind, sites, from%s",
                              number, key, factor ? ", factor" : "");
    }
    return PLUMB_OK;
}

static plumb_status read_fault(const json_t *json, size_t number, request *r,
                               plumb_error *why)
{
    plumb_status status;

    r->kind = json_string_value(json_object_get(json, "kind"));
    if (r->kind == NULL ||
        (strcmp(r->kind, "frozen-scale") != 0 && strcmp(r->kind, "scale-factor") != 0))
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "faults[%zu].kind is %s; allowed: frozen-scale, scale-factor",
                          number, r->kind == NULL ? "missing" : r->kind);
    const bool factor = strcmp(r->kind, "scale-factor") == 0;

    status = check_keys(json, number, factor, why);
    if (status == PLUMB_OK)
        status = read_number(json, "from", number, 1, 1e9, &r->from, why);
    if (status == PLUMB_OK && factor)
        status = read_number(json, "factor", number, 0x1p-64, 0x1p64, &r->factor, why);
    if (status == PLUMB_OK)
        status = read_globs(json, number, r, why);
    return status;
}

static plumb_status build(const request *r, size_t number, const site_table *t, fault *f,
                          plumb_error *why)
{
    size_t hits = 0;

    f->frozen = strcmp(r->kind, "frozen-scale") == 0;
    f->from = (int64_t)r->from;
    f->factor = (float)r->factor;
    f->hits = calloc(t->operands, sizeof *f->hits);
    if (f->frozen)
        f->saved = calloc(t->operands, sizeof *f->saved);
    if (f->hits == NULL || (f->frozen && f->saved == NULL))
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a fault");
    for (size_t i = 0; i < t->operands; i++) {
        f->hits[i] =
            t->at[i].gemm != NULL && plumb_rule_matches(&r->sites.at[0], t->at[i].name);
        hits += f->hits[i];
    }
    if (hits == 0)
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "faults[%zu].sites matches no operand of a product", number);
    return PLUMB_OK;
}

plumb_status faults_create(const json_t *json, const site_table *t, faults *f,
                           plumb_error *why)
{
    const size_t count = json == NULL ? 0 : json_array_size(json);

    if (count == 0)
        return PLUMB_OK;
    f->at = calloc(count, sizeof *f->at);
    if (f->at == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu faults", count);
    f->count = count;
    for (size_t i = 0; i < count; i++) {
        request r = {0};
        plumb_status status = read_fault(json_array_get(json, i), i, &r, why);

        if (status == PLUMB_OK)
            status = build(&r, i, t, &f->at[i], why);
        plumb_rules_free(&r.sites);
        if (status != PLUMB_OK)
            return status;
    }
    return PLUMB_OK;
}

void faults_free(faults *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->at[i].hits);
        free(f->at[i].saved);
    }
    free(f->at);
    *f = (faults){0};
}

void faults_hook(void *context, size_t index, plumb_quantized *q, plumb_scale_state *state)
{
    const faults *f = context;

    (void)state;
    for (size_t i = 0; i < f->count; i++) {
        const fault *one = &f->at[i];

        if (one->frozen || !one->hits[index] || f->step < one->from)
            continue;
        for (size_t j = 0; j < plumb_quantized_scale_count(q); j++)
            q->d[j] *= one->factor;
    }
}

/* Sites that share storage have one state, the owner's. */
static void freeze(fault *f, int64_t done, const site_table *t, plumb_scale_state *states)
{
    if (!f->frozen || done < f->from - 1)
        return;
    for (size_t i = 0; i < t->operands; i++) {
        const size_t owner = plumb_site_owner(&t->shape, t->specs, i);

        if (!f->hits[i])
            continue;
        if (f->has_saved)
            states[owner] = f->saved[owner];
        else
            f->saved[owner] = states[owner];
        states[i] = states[owner];
    }
    f->has_saved = true;
}

void faults_between(faults *f, int64_t done, const site_table *t, plumb_scale_state *states)
{
    f->step = done + 1;
    for (size_t i = 0; i < f->count; i++)
        freeze(&f->at[i], done, t, states);
}
