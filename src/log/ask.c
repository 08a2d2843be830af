/* The request on its way out: request.json, environment, placeholders of a command.
 *
 * All three are derived from one list of (variable, value as JSON).
 */
#include "log/request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/text.h"
#include "plumb/file.h"

json_t *plumb_seed_json(uint64_t seed)
{
    char text[24];

    if (seed <= INT64_MAX)
        return json_integer((json_int_t)seed);
    snprintf(text, sizeof text, "%" PRIu64, seed);
    return json_string(text);
}

static json_t *steps_json(const plumb_request *request)
{
    json_t *array = json_array();

    for (size_t i = 0; i < request->checkpoint_count; i++)
        json_array_append_new(array, json_integer((json_int_t)request->checkpoint_at[i]));
    return array;
}

static json_t *skip_json(const plumb_span *skip)
{
    char text[48];

    if (skip->first == skip->last)
        snprintf(text, sizeof text, "%" PRId64, skip->first);
    else
        snprintf(text, sizeof text, "%" PRId64 "-%" PRId64, skip->first, skip->last);
    return json_string(text);
}

/* Everything that is set, by key. */
static json_t *request_json(const plumb_request *request)
{
    json_t *json = json_object();

    json_object_set_new(json, "contract", json_integer(PLUMB_CONTRACT_VERSION));
    if (request->run_dir != NULL)
        json_object_set_new(json, "run_dir", json_string(request->run_dir));
    if (request->has_seed)
        json_object_set_new(json, "seed", plumb_seed_json(request->seed));
    if (request->has_data_seed)
        json_object_set_new(json, "data_seed", plumb_seed_json(request->data_seed));
    if (request->has_micro_order)
        json_object_set_new(json, "micro_order", plumb_seed_json(request->micro_order));
    if (request->stop_at >= 0)
        json_object_set_new(json, "stop_at", json_integer((json_int_t)request->stop_at));
    if (request->policy != NULL)
        json_object_set_new(json, "policy", json_string(request->policy));
    if (request->start != NULL)
        json_object_set_new(json, "start", json_string(request->start));
    if (request->checkpoint_count > 0)
        json_object_set_new(json, "checkpoint_at", steps_json(request));
    if (request->lr_scale != 1)
        json_object_set_new(json, "lr_scale", json_real(request->lr_scale));
    if (request->warmup_scale != 1)
        json_object_set_new(json, "warmup_scale", json_real(request->warmup_scale));
    if (request->clip_scale != 1)
        json_object_set_new(json, "clip_scale", json_real(request->clip_scale));
    if (request->skip.first > 0)
        json_object_set_new(json, "skip", skip_json(&request->skip));
    if (request->observe_every > 0)
        json_object_set_new(json, "observe_every",
                            json_integer((json_int_t)request->observe_every));
    return json;
}

plumb_status plumb_request_write(const plumb_request *request, plumb_error *why)
{
    plumb_status status;

    if (request->run_dir == NULL)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "a request without a run directory");
    json_t *json = request_json(request);
    char *path = plumb_path_join(request->run_dir, "request.json");
    if (json == NULL || path == NULL)
        status = plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
    else
        status = plumb_json_save(path, json, why);
    json_decref(json);
    free(path);
    return status;
}

/* Text of a value: a list with commas, a real with the digits it needs, nothing for NULL. */
static char *value_text(const json_t *value)
{
    const size_t count = json_array_size(value), size = 24 * (count + 2);
    char *text;
    size_t used = 0;

    if (json_is_string(value))
        return strdup(json_string_value(value));
    text = calloc(1, size);
    if (text == NULL)
        return NULL;
    if (json_is_integer(value))
        snprintf(text, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        plumb_text_from_real(json_real_value(value), text);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%" JSON_INTEGER_FORMAT,
                                 i > 0 ? "," : "",
                                 json_integer_value(json_array_get(value, i)));
    return text;
}

static char *assignment(const char *name, const json_t *value)
{
    char *text = value_text(value);
    char *line = NULL;

    if (text != NULL) {
        const size_t size = strlen(name) + strlen(text) + 2;
        line = malloc(size);
        if (line != NULL)
            snprintf(line, size, "%s=%s", name, text);
    }
    free(text);
    return line;
}

char **plumb_request_environment(const plumb_request *request)
{
    char **environment = calloc(plumb_variable_count + 2, sizeof *environment);
    json_t *json = request_json(request);
    size_t used = 0;
    bool good = environment != NULL && json != NULL;

    if (good && request->run_dir != NULL) {
        environment[used] = assignment("PLUMB_RUN_DIR", json_object_get(json, "run_dir"));
        good = environment[used++] != NULL;
    }
    for (size_t i = 0; good && i < plumb_variable_count; i++) {
        const json_t *value = json_object_get(json, plumb_variables[i].key);

        if (value == NULL)
            continue;
        environment[used] = assignment(plumb_variables[i].name, value);
        good = environment[used++] != NULL;
    }
    json_decref(json);
    if (good)
        return environment;
    plumb_environment_free(environment);
    return NULL;
}

void plumb_environment_free(char **environment)
{
    for (char **line = environment; line != NULL && *line != NULL; line++)
        free(*line);
    free(environment);
}

/* If a placeholder starts at text: its length and, as *key, its name. */
static size_t placeholder(const char *text, const char **key)
{
    static const char *const keys[] = {"run_dir", "seed",   "data_seed",
                                       "stop_at", "policy", "start"};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const size_t length = strlen(keys[i]);
        if (text[0] == '{' && strncmp(text + 1, keys[i], length) == 0 &&
            text[1 + length] == '}') {
            *key = keys[i];
            return length + 2;
        }
    }
    return 0;
}

static bool append(char **text, size_t *used, const char *more, size_t length)
{
    char *grown = realloc(*text, *used + length + 1);

    if (grown == NULL)
        return false;
    memcpy(grown + *used, more, length);
    *used += length;
    grown[*used] = 0;
    *text = grown;
    return true;
}

char *plumb_request_substitute(const plumb_request *request, const char *argument)
{
    json_t *json = request_json(request);
    char *out = NULL;
    size_t used = 0;
    bool good = json != NULL && append(&out, &used, "", 0);

    while (good && *argument != 0) {
        const char *key = NULL;
        const size_t length = placeholder(argument, &key);

        if (length == 0) {
            const size_t plain = 1 + strcspn(argument + 1, "{");
            good = append(&out, &used, argument, plain);
            argument += plain;
            continue;
        }
        char *value = value_text(json_object_get(json, key));
        good = value != NULL && append(&out, &used, value, strlen(value));
        free(value);
        argument += length;
    }
    json_decref(json);
    if (good)
        return out;
    free(out);
    return NULL;
}
