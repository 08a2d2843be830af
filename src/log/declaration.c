/* run.json as a reader sees it: bounded, validated, and content with little.
 *
 * Only what is there must be right.  What a poor trainer leaves out gets a default that
 * claims nothing.
 */
#include "plumb/log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "file/text.h"
#include "log/declaration.h"
#include "plumb/file.h"

enum { MOST_SITES = 100000, MOST_USES = 64, LONGEST_NAME = PLUMB_SITE_NAME - 1 };
#define RUN_LIMIT ((size_t)256 << 20)

const char *const plumb_features[] = {
    "checkpoint", "exact_resume", "state_hash", "batch_hash", "micro_order", "data_seed",
    "lr_scale",   "warmup_scale", "clip_scale", "skip",       "observe",
};
const size_t plumb_feature_count = sizeof plumb_features / sizeof plumb_features[0];

static plumb_status no_memory(plumb_error *why)
{
    return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for run.json");
}

/* A string of object at key, printable and at most 127 bytes; absent or null: fallback. */
static plumb_status read_name(const json_t *object, const char *key, const char *fallback,
                              const char *where, char **name, plumb_error *why)
{
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);

    if (value == NULL || json_is_null(value))
        text = fallback;
    else if (text == NULL || strlen(text) > LONGEST_NAME || !plumb_text_is_name(text))
        return plumb_fail(
            why, PLUMB_BAD_INPUT,
            "%s: '%s' must be a string of 1 to %d printable characters without "
            "spaces",
            where, key, LONGEST_NAME);
    *name = plumb_text_copy(text);
    return text == NULL || *name != NULL ? PLUMB_OK : no_memory(why);
}

/* As read_name, but spaces are fine and longer text is cut: names and versions for people. */
static plumb_status read_label(const json_t *object, const char *key, char **label,
                               plumb_error *why)
{
    const char *text = json_string_value(json_object_get(object, key));
    char shown[256];

    *label = strdup(text != NULL ? plumb_text_clean(text, strlen(text), shown, sizeof shown)
                                 : "");
    return *label != NULL ? PLUMB_OK : no_memory(why);
}

static plumb_status read_count(const json_t *object, const char *key, int64_t least,
                               int64_t fallback, const char *where, int64_t *count,
                               plumb_error *why)
{
    const json_t *value = json_object_get(object, key);

    *count = fallback;
    if (value == NULL || json_is_null(value))
        return PLUMB_OK;
    *count = json_integer_value(value);
    if (!json_is_integer(value) || *count < least || *count > INT64_C(1000000000000000))
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "%s: '%s' must be a whole number from %d to 1000000000000000",
                          where, key, (int)least);
    return PLUMB_OK;
}

static plumb_status read_class(const json_t *site, const char *where, plumb_class *class_,
                               plumb_error *why)
{
    const char *text = json_string_value(json_object_get(site, "class"));
    char known[160] = "", shown[64];

    if (text != NULL && plumb_class_parse(text, class_))
        return PLUMB_OK;
    for (int c = 0; c < PLUMB_CLASS_COUNT; c++) {
        strncat(known, " ", sizeof known - strlen(known) - 1);
        strncat(known, plumb_class_name((plumb_class)c), sizeof known - strlen(known) - 1);
    }
    if (text == NULL)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s has no class; allowed:%s", where,
                          known);
    return plumb_fail(why, PLUMB_BAD_INPUT, "%s has the class '%s'; allowed:%s", where,
                      plumb_text_clean(text, strlen(text), shown, sizeof shown), known);
}

/* `uses`: names; absent means that only bf16 is known, as everybody must. */
static plumb_status read_uses(const json_t *json, const char *where,
                              plumb_declared_site *site, plumb_error *why)
{
    const json_t *uses = json_object_get(json, "uses");
    const size_t count = json_is_array(uses) ? json_array_size(uses) : 1;

    if ((uses != NULL && !json_is_array(uses)) || count > MOST_USES)
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "%s: 'uses' must be a list of at most %d names", where,
                          MOST_USES);
    site->uses = calloc(count + 1, sizeof *site->uses);
    if (site->uses == NULL)
        return no_memory(why);
    for (size_t i = 0; i < count; i++) {
        const char *text =
            uses != NULL ? json_string_value(json_array_get(uses, i)) : "bf16";
        if (text == NULL || strlen(text) > LONGEST_NAME || !plumb_text_is_name(text))
            return plumb_fail(why, PLUMB_BAD_INPUT,
                              "%s: 'uses' must be names of 1 to %d printable characters",
                              where, LONGEST_NAME);
        site->uses[i] = strdup(text);
        if (site->uses[i] == NULL)
            return no_memory(why);
        site->use_count = i + 1;
    }
    return PLUMB_OK;
}

static plumb_status read_site(const json_t *json, const char *file, size_t index,
                              plumb_declared_site *site, plumb_error *why)
{
    char where[320];
    plumb_status status;

    plumb_print(where, sizeof where, "%s: site %zu", file, index + 1);
    status = read_name(json, "name", NULL, where, &site->name, why);
    if (status == PLUMB_OK && site->name == NULL)
        status = plumb_fail(why, PLUMB_BAD_INPUT, "%s has no name", where);
    if (status != PLUMB_OK)
        return status;
    plumb_print(where, sizeof where, "%s: site '%s'", file, site->name);
    status = read_class(json, where, &site->class_, why);
    if (status == PLUMB_OK)
        status = read_count(json, "layer", -1, -1, where, &site->layer, why);
    if (status == PLUMB_OK)
        status = read_name(json, "gemm", NULL, where, &site->gemm, why);
    if (status == PLUMB_OK)
        status = read_name(json, "operand", NULL, where, &site->operand, why);
    if (status == PLUMB_OK)
        status = read_name(json, "own", "unknown", where, &site->own, why);
    if (status == PLUMB_OK)
        status = read_name(json, "shares_storage_with", NULL, where,
                           &site->shares_storage_with, why);
    return status == PLUMB_OK ? read_uses(json, where, site, why) : status;
}

/* Names must be unique, and storage is shared with a site that exists. */
static plumb_status check_names(const plumb_declaration *declaration, const char *file,
                                plumb_error *why)
{
    json_t *names = json_object();
    plumb_status status = names != NULL ? PLUMB_OK : no_memory(why);

    for (size_t i = 0; status == PLUMB_OK && i < declaration->site_count; i++) {
        const char *name = declaration->sites[i].name;
        if (json_object_get(names, name) != NULL)
            status = plumb_fail(why, PLUMB_BAD_INPUT, "%s: two sites are named '%s'", file,
                                name);
        else if (json_object_set_new(names, name, json_true()) != 0)
            status = no_memory(why);
    }
    for (size_t i = 0; status == PLUMB_OK && i < declaration->site_count; i++) {
        const char *other = declaration->sites[i].shares_storage_with;
        if (other != NULL && json_object_get(names, other) == NULL)
            status = plumb_fail(why, PLUMB_BAD_INPUT,
                                "%s: site '%s' shares storage with '%s', which is no site",
                                file, declaration->sites[i].name, other);
    }
    json_decref(names);
    return status;
}

static plumb_status read_sites(const json_t *json, const char *file,
                               plumb_declaration *declaration, plumb_error *why)
{
    const json_t *sites = json_object_get(json, "sites");
    const size_t count = json_array_size(sites);
    plumb_status status = PLUMB_OK;

    if (sites == NULL || json_is_null(sites))
        return PLUMB_OK;
    if (!json_is_array(sites) || count > MOST_SITES)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: 'sites' must be a list of at most %d",
                          file, MOST_SITES);
    declaration->sites = calloc(count + 1, sizeof *declaration->sites);
    if (declaration->sites == NULL)
        return no_memory(why);
    for (size_t i = 0; status == PLUMB_OK && i < count; i++) {
        declaration->site_count = i + 1;
        status = read_site(json_array_get(sites, i), file, i, &declaration->sites[i], why);
    }
    return status == PLUMB_OK ? check_names(declaration, file, why) : status;
}

static plumb_status check_feature(const char *text, const char *file, plumb_error *why)
{
    char shown[64];

    for (size_t i = 0; i < plumb_feature_count; i++)
        if (text != NULL && strcmp(text, plumb_features[i]) == 0)
            return PLUMB_OK;
    if (text == NULL)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: 'features' must be a list of names",
                          file);
    plumb_text_clean(text, strlen(text), shown, sizeof shown);
    const char *nearest = plumb_nearest(text, plumb_features, plumb_feature_count);
    if (nearest != NULL)
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "%s: unknown feature '%s'; did you mean '%s'?", file, shown,
                          nearest);
    return plumb_fail(
        why, PLUMB_BAD_INPUT,
        "%s: unknown feature '%s'; allowed: checkpoint exact_resume state_hash "
        "batch_hash micro_order data_seed lr_scale warmup_scale clip_scale skip "
        "observe",
        file, shown);
}

static plumb_status read_features(const json_t *json, const char *file,
                                  plumb_declaration *declaration, plumb_error *why)
{
    const json_t *features = json_object_get(json, "features");
    const size_t count = json_array_size(features);

    if (features == NULL || json_is_null(features))
        return PLUMB_OK;
    if (!json_is_array(features) || count > MOST_USES)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: 'features' must be a list of names",
                          file);
    declaration->features = calloc(count + 1, sizeof *declaration->features);
    if (declaration->features == NULL)
        return no_memory(why);
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(features, i));
        const plumb_status status = check_feature(text, file, why);

        if (status != PLUMB_OK)
            return status;
        declaration->features[i] = strdup(text);
        if (declaration->features[i] == NULL)
            return no_memory(why);
        declaration->feature_count = i + 1;
    }
    return PLUMB_OK;
}

static plumb_status read_head(const json_t *json, const char *file,
                              plumb_declaration *declaration, plumb_error *why)
{
    const json_t *contract = json_object_get(json, "contract");
    const json_t *entropy = json_object_get(json, "unigram_entropy");
    plumb_status status;

    if (!json_is_object(json))
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: not a JSON object", file);
    if (contract != NULL && !json_is_integer(contract))
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: 'contract' must be the number %d",
                          file, PLUMB_CONTRACT_VERSION);
    if (contract != NULL && json_integer_value(contract) != PLUMB_CONTRACT_VERSION)
        return plumb_fail(why, PLUMB_UNSUPPORTED,
                          "%s: contract version %" JSON_INTEGER_FORMAT "; known here: %d",
                          file, json_integer_value(contract), PLUMB_CONTRACT_VERSION);
    declaration->contract = PLUMB_CONTRACT_VERSION;
    if (entropy != NULL && !plumb_json_to_real(entropy, &declaration->unigram_entropy))
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: 'unigram_entropy' must be a number",
                          file);
    status = read_label(json, "trainer", &declaration->trainer, why);
    if (status == PLUMB_OK)
        status = read_label(json, "version", &declaration->version, why);
    if (status == PLUMB_OK)
        status = read_label(json, "config_hash", &declaration->config_hash, why);
    if (status == PLUMB_OK)
        status = read_count(json, "world_size", 1, 1, file, &declaration->world_size, why);
    if (status == PLUMB_OK)
        status = read_count(json, "schedule_steps", 0, 0, file,
                            &declaration->schedule_steps, why);
    return status == PLUMB_OK ? read_count(json, "warmup_steps", 0, 0, file,
                                           &declaration->warmup_steps, why)
                              : status;
}

plumb_status plumb_declaration_from_json(const json_t *json, const char *what,
                                         plumb_declaration *declaration, plumb_error *why)
{
    char shown[160];
    plumb_status status;

    *declaration = (plumb_declaration){.unigram_entropy = (double)NAN};
    /* A long path would push the sentence out of the message: its end is what tells. */
    const size_t length = strlen(what);
    const char *end = length < sizeof shown ? what : what + length - (sizeof shown - 1);
    plumb_text_clean(end, strlen(end), shown, sizeof shown);
    status = read_head(json, shown, declaration, why);
    if (status == PLUMB_OK)
        status = read_features(json, shown, declaration, why);
    if (status == PLUMB_OK)
        status = read_sites(json, shown, declaration, why);
    if (status != PLUMB_OK)
        plumb_declaration_free(declaration);
    return status;
}

plumb_status plumb_declaration_read(const char *run_dir, plumb_declaration *declaration,
                                    plumb_error *why)
{
    char *path = plumb_path_join(run_dir, "run.json");
    json_t *json = NULL;
    plumb_status status;

    *declaration = (plumb_declaration){.unigram_entropy = (double)NAN};
    if (path == NULL)
        return no_memory(why);
    status = plumb_json_load(path, RUN_LIMIT, &json, why);
    if (status == PLUMB_OK)
        status = plumb_declaration_from_json(json, path, declaration, why);
    json_decref(json);
    free(path);
    return status;
}

bool plumb_declaration_has(const plumb_declaration *declaration, const char *feature)
{
    for (size_t i = 0; i < declaration->feature_count; i++)
        if (strcmp(declaration->features[i], feature) == 0)
            return true;
    return false;
}

static void free_site(plumb_declared_site *site)
{
    free(site->name);
    free(site->gemm);
    free(site->operand);
    free(site->own);
    free(site->shares_storage_with);
    for (size_t i = 0; i < site->use_count; i++)
        free(site->uses[i]);
    free(site->uses);
}

void plumb_declaration_free(plumb_declaration *declaration)
{
    if (declaration == NULL)
        return;
    free(declaration->trainer);
    free(declaration->version);
    free(declaration->config_hash);
    for (size_t i = 0; i < declaration->feature_count; i++)
        free(declaration->features[i]);
    free(declaration->features);
    for (size_t i = 0; i < declaration->site_count; i++)
        free_site(&declaration->sites[i]);
    free(declaration->sites);
    *declaration = (plumb_declaration){.unigram_entropy = (double)NAN};
}
