/* run.json as a trainer writes it. */
#include "log/declaration.h"

#include <math.h>

#include "plumb/file.h"

static bool put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static bool put_text(json_t *object, const char *key, const char *text)
{
    return text == NULL || put(object, key, json_string(text));
}

static json_t *strings_json(char *const *at, size_t count)
{
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(array, json_string(at[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

static json_t *site_json(const plumb_declared_site *site)
{
    json_t *json = json_object();
    bool good = put_text(json, "name", site->name) &&
                put_text(json, "class", plumb_class_name(site->class_));

    if (site->layer >= 0)
        good = good && put(json, "layer", json_integer((json_int_t)site->layer));
    good = good && put_text(json, "gemm", site->gemm) &&
           put_text(json, "operand", site->operand) && put_text(json, "own", site->own) &&
           put(json, "uses", strings_json(site->uses, site->use_count)) &&
           put_text(json, "shares_storage_with", site->shares_storage_with);
    if (good)
        return json;
    json_decref(json);
    return NULL;
}

static json_t *sites_json(const plumb_declaration *declaration)
{
    json_t *array = json_array();

    for (size_t i = 0; i < declaration->site_count; i++)
        if (json_array_append_new(array, site_json(&declaration->sites[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

json_t *plumb_declaration_to_json(const plumb_declaration *declaration)
{
    json_t *json = json_object();
    bool good = put(json, "contract", json_integer(PLUMB_CONTRACT_VERSION)) &&
                put_text(json, "trainer", declaration->trainer) &&
                put_text(json, "version", declaration->version) &&
                put_text(json, "config_hash", declaration->config_hash) &&
                put(json, "world_size", json_integer((json_int_t)declaration->world_size));

    if (declaration->schedule_steps > 0)
        good = good && put(json, "schedule_steps",
                           json_integer((json_int_t)declaration->schedule_steps));
    if (declaration->warmup_steps > 0)
        good = good && put(json, "warmup_steps",
                           json_integer((json_int_t)declaration->warmup_steps));
    if (!isnan(declaration->unigram_entropy))
        good = good &&
               put(json, "unigram_entropy", plumb_json_real(declaration->unigram_entropy));
    good = good &&
           put(json, "features",
               strings_json(declaration->features, declaration->feature_count)) &&
           put(json, "sites", sites_json(declaration));
    if (good)
        return json;
    json_decref(json);
    return NULL;
}
