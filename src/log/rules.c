/* Policy rules between JSON and the structs that plumb/policy.h resolves. */
#include "plumb/log.h"

#include <stdlib.h>
#include <string.h>

#include "file/text.h"
#include "plumb/file.h"

enum {
    MOST_RULES = 10000,
    MOST_GLOBS = 10000,
    LONGEST_GLOB = 256,
    LONGEST_USE = PLUMB_SITE_NAME - 1,
};
#define RULES_LIMIT ((size_t)64 << 20)

static plumb_status bad(const char *what, size_t index, const char *sentence,
                        plumb_error *why)
{
    return plumb_fail(why, PLUMB_BAD_INPUT, "%s: rule %zu: %s", what, index + 1, sentence);
}

static plumb_status read_glob(const json_t *json, const char *what, size_t index,
                              const char **glob, plumb_error *why)
{
    const char *text = json_string_value(json);

    if (text == NULL || *text == 0 || strlen(text) > LONGEST_GLOB)
        return bad(what, index, "'sites' must be globs of 1 to 256 bytes", why);
    *glob = strdup(text);
    return *glob != NULL ? PLUMB_OK : plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
}

static plumb_status read_globs(const json_t *sites, const char *what, size_t index,
                               plumb_rule *rule, plumb_error *why)
{
    const size_t count = json_is_array(sites) ? json_array_size(sites) : 1;
    const char **globs;
    plumb_status status = PLUMB_OK;

    if (count == 0 || count > MOST_GLOBS)
        return bad(what, index, "'sites' must be a glob or a list of 1 to 10000", why);
    globs = calloc(count, sizeof *globs);
    if (globs == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
    rule->globs = globs;
    rule->glob_count = count;
    for (size_t i = 0; status == PLUMB_OK && i < count; i++)
        status = read_glob(json_is_array(sites) ? json_array_get(sites, i) : sites, what,
                           index, &globs[i], why);
    return status;
}

static plumb_status check_keys(const json_t *json, const char *what, size_t index,
                               plumb_error *why)
{
    static const char *const known[] = {"sites", "use", "raise"};
    const char *key;
    json_t *value;
    char shown[64];

    if (!json_is_object(json))
        return bad(what, index, "not an object with 'sites' and 'use'", why);
    json_object_foreach((json_t *)json, key, value)
    {
        if (strcmp(key, "sites") == 0 || strcmp(key, "use") == 0 ||
            strcmp(key, "raise") == 0)
            continue;
        const char *nearest = plumb_nearest(key, known, 3);
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: rule %zu: unknown key '%s'; %s%s%s",
                          what, index + 1,
                          plumb_text_clean(key, strlen(key), shown, sizeof shown),
                          nearest != NULL ? "did you mean '" : "allowed: sites, use, raise",
                          nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
    }
    return PLUMB_OK;
}

static plumb_status read_rule(const json_t *json, const char *what, size_t index,
                              plumb_rule *rule, plumb_error *why)
{
    const plumb_status status = check_keys(json, what, index, why);

    if (status != PLUMB_OK)
        return status;
    const char *use = json_string_value(json_object_get(json, "use"));
    const json_t *raise = json_object_get(json, "raise");
    const json_t *sites = json_object_get(json, "sites");
    if (sites == NULL)
        return bad(what, index, "'sites' is missing", why);
    if (use == NULL || strlen(use) > LONGEST_USE || !plumb_text_is_name(use))
        return bad(what, index, "'use' must be a name of 1 to 127 printable characters",
                   why);
    if (raise != NULL && !json_is_boolean(raise))
        return bad(what, index, "'raise' must be true or false", why);
    rule->raise = json_is_true(raise);
    rule->use = strdup(use);
    if (rule->use == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
    return read_globs(sites, what, index, rule, why);
}

plumb_status plumb_rules_from_json(const json_t *json, const char *what, plumb_rules *rules,
                                   plumb_error *why)
{
    const size_t count = json_array_size(json);
    plumb_status status = PLUMB_OK;

    *rules = (plumb_rules){0};
    if (!json_is_array(json) || count > MOST_RULES)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: not a list of at most %d rules", what,
                          MOST_RULES);
    if (count == 0)
        return PLUMB_OK;
    rules->at = calloc(count, sizeof *rules->at);
    if (rules->at == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "%s: out of memory", what);
    rules->count = count;
    for (size_t i = 0; status == PLUMB_OK && i < count; i++)
        status = read_rule(json_array_get(json, i), what, i, &rules->at[i], why);
    if (status != PLUMB_OK)
        plumb_rules_free(rules);
    return status;
}

plumb_status plumb_rules_load(const char *path, plumb_rules *rules, plumb_error *why)
{
    json_t *json;
    plumb_status status;

    *rules = (plumb_rules){0};
    status = plumb_json_load(path, RULES_LIMIT, &json, why);
    if (status == PLUMB_OK)
        status = plumb_rules_from_json(json, path, rules, why);
    json_decref(json);
    return status;
}

json_t *plumb_rules_to_json(const plumb_rules *rules)
{
    json_t *array = json_array();

    for (size_t i = 0; i < rules->count; i++) {
        const plumb_rule *const rule = &rules->at[i];
        json_t *object = json_object(), *sites = json_array();

        for (size_t j = 0; j < rule->glob_count; j++)
            json_array_append_new(sites, json_string(rule->globs[j]));
        json_object_set_new(object, "sites", sites);
        json_object_set_new(object, "use", json_string(rule->use));
        if (rule->raise)
            json_object_set_new(object, "raise", json_true());
        json_array_append_new(array, object);
    }
    return array;
}

void plumb_rules_free(plumb_rules *rules)
{
    if (rules == NULL)
        return;
    for (size_t i = 0; rules->at != NULL && i < rules->count; i++) {
        for (size_t j = 0; rules->at[i].globs != NULL && j < rules->at[i].glob_count; j++)
            free((void *)rules->at[i].globs[j]);
        free((void *)rules->at[i].globs);
        free((void *)rules->at[i].use);
    }
    free(rules->at);
    *rules = (plumb_rules){0};
}
