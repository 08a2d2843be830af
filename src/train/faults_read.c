/* What a run file says of a fault: {kind: K, sites: glob or list, from: STEP, PARAMETER: VALUE, ...}.
 * Everything that cannot be planted is refused in one sentence with the file, the key and what is
 * allowed.
 */
#include "train/faults.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void fault_place(const trainer *t, size_t number, char place[FAULT_PLACE])
{
    plumb_print(place, FAULT_PLACE, "%.200s%sfaults[%zu]", t->path == NULL ? "" : t->path,
                t->path == NULL ? "" : ": ", number);
}

static plumb_status read_kind(const json_t *json, const char *place, fault_request *r,
                              plumb_error *why)
{
    enum { MOST_KINDS = 64 };
    const char *word = json_string_value(json_object_get(json, "kind"));
    const char *names[MOST_KINDS];
    char hint[PLUMB_HINT];
    size_t count = 0;

    for (; count < MOST_KINDS && fault_kind_at(count) != NULL; count++) {
        names[count] = fault_kind_at(count)->name;
        if (word != NULL && strcmp(word, names[count]) == 0)
            r->kind = fault_kind_at(count);
    }
    if (r->kind != NULL)
        return PLUMB_OK;
    if (word != NULL && *plumb_hint(word, names, count, hint) != 0)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s.kind is '%.60s'%s", place, word, hint);
    return plumb_fail(why, PLUMB_BAD_INPUT,
                      "%s.kind is %s%.60s%s; allowed: the %zu kinds of docs/faults.md, "
                      "from %s to %s",
                      place, word == NULL ? "missing" : "'", word == NULL ? "" : word,
                      word == NULL ? "" : "'", count, names[0], names[count - 1]);
}

static const fault_parameter *find(const fault_kind *kind, const char *key)
{
    for (size_t i = 0; i < FAULT_PARAMETERS && kind->parameters[i].name != NULL; i++) {
        if (strcmp(kind->parameters[i].name, key) == 0)
            return &kind->parameters[i];
    }
    return NULL;
}

static plumb_status check_keys(const json_t *json, const char *place,
                               const fault_kind *kind, plumb_error *why)
{
    char allowed[120] = "kind, sites, from";
    const char *key;
    json_t *value;

    for (size_t i = 0; i < FAULT_PARAMETERS && kind->parameters[i].name != NULL; i++)
        plumb_append(allowed, sizeof allowed, ", %s", kind->parameters[i].name);
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        if (strcmp(key, "kind") != 0 && strcmp(key, "sites") != 0 &&
            strcmp(key, "from") != 0 && find(kind, key) == NULL)
            return plumb_fail(why, PLUMB_BAD_INPUT,
                              "%s: kind %s has no key '%.60s'; allowed: %s", place,
                              kind->name, key, allowed);
    }
    return PLUMB_OK;
}

static plumb_status read_number(const json_t *json, const char *place,
                                const fault_parameter *p, double most, double *value,
                                plumb_error *why)
{
    const json_t *field = json_object_get(json, p->name);

    *value = p->fallback;
    if (field == NULL && !isnan(p->fallback))
        return PLUMB_OK;
    if (field == NULL || !json_is_number(field))
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "%s.%s is %s; allowed: a %snumber from %.6g to %.6g", place,
                          p->name, field == NULL ? "missing" : "no number",
                          p->whole ? "whole " : "", p->least, most);
    *value = json_number_value(field);
    if (!(*value >= p->least && *value <= most) || (p->whole && *value != rint(*value)))
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "%s.%s is %.9g; allowed: a %snumber from %.6g to %.6g", place,
                          p->name, *value, p->whole ? "whole " : "", p->least, most);
    return PLUMB_OK;
}

static double most_of(const trainer *t, const fault_parameter *p)
{
    return p->bound == FAULT_RANKS           ? (double)t->ranks - 1
           : p->bound == FAULT_MICRO_BATCHES ? (double)t->micro_batches - 1
                                             : p->most;
}

static plumb_status read_numbers(const trainer *t, const json_t *json, const char *place,
                                 fault_request *r, plumb_error *why)
{
    static const fault_parameter from = {
        .name = "from", .least = 1, .most = 1e9, .fallback = NAN, .whole = true};
    double step = 0;
    plumb_status status = read_number(json, place, &from, from.most, &step, why);

    r->from = (int64_t)step;
    for (size_t i = 0; i < FAULT_PARAMETERS && status == PLUMB_OK; i++) {
        const fault_parameter *p = &r->kind->parameters[i];

        if (p->name != NULL)
            status = read_number(json, place, p, most_of(t, p), &r->value[i], why);
    }
    return status;
}

static plumb_status read_sites(const json_t *json, const char *place, fault_request *r,
                               plumb_error *why)
{
    json_t *sites = json_object_get(json, "sites");
    json_t *rules;
    plumb_status status;

    if (sites == NULL)
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "%s.sites is missing; allowed: a glob or a list of globs", place);
    rules = json_pack("[{s:O, s:s}]", "sites", sites, "use", "own");
    status = plumb_rules_from_json(rules, place, &r->sites, why);
    json_decref(rules);
    return status;
}

plumb_status fault_read(const trainer *t, const json_t *json, size_t number,
                        fault_request *r, plumb_error *why)
{
    char place[FAULT_PLACE];
    plumb_status status;

    fault_place(t, number, place);
    status = read_kind(json, place, r, why);
    if (status == PLUMB_OK)
        status = check_keys(json, place, r->kind, why);
    if (status == PLUMB_OK && t->ranks < r->kind->ranks)
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "%s: kind %s needs batch.ranks of at least %zu, which is %zu",
                          place, r->kind->name, r->kind->ranks, t->ranks);
    if (status == PLUMB_OK)
        status = read_numbers(t, json, place, r, why);
    if (status == PLUMB_OK)
        status = read_sites(json, place, r, why);
    return status;
}
