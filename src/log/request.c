/* The request: what one run is asked to do, from request.json or from the environment.
 *
 * One table names every variable, its key and how its text is read.  Both sources are turned
 * into that text first, so they accept the same values and refuse them in the same words.
 */
#include "log/request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/text.h"
#include "plumb/file.h"

enum { MOST_CHECKPOINTS = 10000, LONGEST_TEXT = 4096, REQUEST_LIMIT = 1 << 20 };
#define MOST_STEPS INT64_C(1000000000000000)

static bool read_seed(const char *text, plumb_request *request)
{
    request->has_seed = plumb_text_to_uint(text, &request->seed);
    return request->has_seed;
}

static bool read_data_seed(const char *text, plumb_request *request)
{
    request->has_data_seed = plumb_text_to_uint(text, &request->data_seed);
    return request->has_data_seed;
}

static bool read_micro_order(const char *text, plumb_request *request)
{
    request->has_micro_order = plumb_text_to_uint(text, &request->micro_order);
    return request->has_micro_order;
}

static bool read_step(const char *text, int64_t least, int64_t *value)
{
    int64_t got;

    if (!plumb_text_to_int(text, &got) || got < least || got > MOST_STEPS)
        return false;
    *value = got;
    return true;
}

static bool read_stop_at(const char *text, plumb_request *request)
{
    return read_step(text, 0, &request->stop_at);
}

static bool read_policy(const char *text, plumb_request *request)
{
    if (*text != '/' || strlen(text) > LONGEST_TEXT)
        return false;
    free(request->policy);
    request->policy = strdup(text);
    return request->policy != NULL;
}

static bool read_start(const char *text, plumb_request *request)
{
    if (strlen(text) > LONGEST_TEXT)
        return false;
    free(request->start);
    request->start = strdup(text);
    return request->start != NULL;
}

static size_t count_steps(const char *text)
{
    size_t count = 1;

    for (const char *p = text; *p != 0; p++)
        count += *p == ',';
    return count;
}

/* "100,200,300" in any order. */
static bool read_checkpoint_at(const char *text, plumb_request *request)
{
    const size_t count = count_steps(text);
    char word[32];
    int64_t *steps;

    if (count > MOST_CHECKPOINTS || (steps = calloc(count, sizeof *steps)) == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        const size_t length = strcspn(text, ",");
        bool good = length < sizeof word;
        if (good) {
            memcpy(word, text, length);
            word[length] = 0;
            good = read_step(word, 1, &steps[i]);
        }
        if (!good) {
            free(steps);
            return false;
        }
        text += length + (text[length] == ',');
    }
    free(request->checkpoint_at);
    request->checkpoint_at = steps;
    request->checkpoint_count = count;
    return true;
}

static bool read_scale(const char *text, double *value)
{
    double got;

    if (!plumb_text_to_real(text, &got) || !(got > 0) || got > 1e6)
        return false;
    *value = got;
    return true;
}

static bool read_lr_scale(const char *text, plumb_request *request)
{
    return read_scale(text, &request->lr_scale);
}

static bool read_warmup_scale(const char *text, plumb_request *request)
{
    return read_scale(text, &request->warmup_scale);
}

static bool read_clip_scale(const char *text, plumb_request *request)
{
    return read_scale(text, &request->clip_scale);
}

/* "70" or "70-72". */
static bool read_skip(const char *text, plumb_request *request)
{
    const size_t length = strcspn(text, "-");
    char word[32];
    plumb_span span;

    if (length >= sizeof word)
        return false;
    memcpy(word, text, length);
    word[length] = 0;
    if (!read_step(word, 1, &span.first))
        return false;
    span.last = span.first;
    if (text[length] == '-' && !read_step(text + length + 1, span.first, &span.last))
        return false;
    request->skip = span;
    return true;
}

static bool read_observe_every(const char *text, plumb_request *request)
{
    return read_step(text, 0, &request->observe_every);
}

#define SEED_RANGE  "0 to 18446744073709551615"
#define STEP_RANGE  "0 to 1000000000000000"
#define SCALE_RANGE "above 0, at most 1000000"

const plumb_variable plumb_variables[] = {
    {"PLUMB_SEED", "seed", SEED_RANGE, read_seed},
    {"PLUMB_DATA_SEED", "data_seed", SEED_RANGE, read_data_seed},
    {"PLUMB_MICRO_ORDER", "micro_order", SEED_RANGE, read_micro_order},
    {"PLUMB_STOP_AT", "stop_at", STEP_RANGE, read_stop_at},
    {"PLUMB_POLICY", "policy", "an absolute path", read_policy},
    {"PLUMB_START", "start", "the ref of a checkpoint, at most 4096 bytes", read_start},
    {"PLUMB_CHECKPOINT_AT", "checkpoint_at", "at most 10000 steps from 1 on, as in 100,200",
     read_checkpoint_at},
    {"PLUMB_LR_SCALE", "lr_scale", SCALE_RANGE, read_lr_scale},
    {"PLUMB_WARMUP_SCALE", "warmup_scale", SCALE_RANGE, read_warmup_scale},
    {"PLUMB_CLIP_SCALE", "clip_scale", SCALE_RANGE, read_clip_scale},
    {"PLUMB_SKIP", "skip", "a step or a span of steps from 1 on, as in 70 or 70-72",
     read_skip},
    {"PLUMB_OBSERVE_EVERY", "observe_every", STEP_RANGE, read_observe_every},
};
const size_t plumb_variable_count = sizeof plumb_variables / sizeof plumb_variables[0];

void plumb_request_init(plumb_request *request)
{
    *request =
        (plumb_request){.stop_at = -1, .lr_scale = 1, .warmup_scale = 1, .clip_scale = 1};
}

void plumb_request_free(plumb_request *request)
{
    if (request == NULL)
        return;
    free(request->run_dir);
    free(request->policy);
    free(request->start);
    free(request->checkpoint_at);
    plumb_request_init(request);
}

static plumb_status refuse(const plumb_variable *variable, const char *where,
                           const char *text, plumb_error *why)
{
    char shown[80];

    plumb_text_clean(text, strlen(text), shown, sizeof shown);
    return plumb_fail(why, PLUMB_BAD_INPUT, "%s%s is '%s'; allowed: %s", where,
                      variable->name, shown, variable->allowed);
}

static plumb_status read_environment(plumb_request *request, plumb_error *why)
{
    for (size_t i = 0; i < plumb_variable_count; i++) {
        const char *text = getenv(plumb_variables[i].name);

        if (text != NULL && *text != 0 && !plumb_variables[i].read(text, request))
            return refuse(&plumb_variables[i], "", text, why);
    }
    return PLUMB_OK;
}

/* [100, 200] as "100,200"; false when it is not an array of whole numbers. */
static bool join_steps(const json_t *array, char *text, size_t size)
{
    size_t used = 0, i;
    const json_t *item;

    *text = 0;
    json_array_foreach(array, i, item)
    {
        if (!json_is_integer(item) || used + 24 > size)
            return false;
        used += (size_t)snprintf(text + used, size - used, "%s%" JSON_INTEGER_FORMAT,
                                 i > 0 ? "," : "", json_integer_value(item));
    }
    return used > 0;
}

/* The value of a key as the text that the variable would have. */
static char *text_of(const json_t *value)
{
    const size_t size = json_is_array(value) ? 24 * json_array_size(value) + 24 : 64;
    char *text;

    if (json_is_string(value))
        return strdup(json_string_value(value));
    text = malloc(size);
    if (text == NULL)
        return NULL;
    if (json_is_integer(value))
        snprintf(text, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        plumb_text_from_real(json_real_value(value), text);
    else if (!json_is_array(value) || !join_steps(value, text, size))
        snprintf(text, size, "%s",
                 json_is_array(value) ? "[...]" : "not a number or string");
    return text;
}

static plumb_status read_file(const char *path, const json_t *json, plumb_request *request,
                              plumb_error *why)
{
    char where[256];

    if (!json_is_object(json))
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: not a JSON object", path);
    for (size_t i = 0; i < plumb_variable_count; i++) {
        const plumb_variable *const variable = &plumb_variables[i];
        const json_t *value = json_object_get(json, variable->key);
        plumb_status status = PLUMB_OK;

        if (value == NULL || json_is_null(value))
            continue;
        char *text = text_of(value);
        if (text == NULL)
            return plumb_fail(why, PLUMB_NO_MEMORY, "%s: out of memory", path);
        if (!variable->read(text, request)) {
            snprintf(where, sizeof where, "%s: key '%s' or ", path, variable->key);
            status = refuse(variable, where, text, why);
        }
        free(text);
        if (status != PLUMB_OK)
            return status;
    }
    return PLUMB_OK;
}

static plumb_status check_contract(const char *path, const json_t *json, plumb_error *why)
{
    const json_t *contract = json_object_get(json, "contract");

    if (contract != NULL && json_integer_value(contract) != PLUMB_CONTRACT_VERSION)
        return plumb_fail(why, PLUMB_UNSUPPORTED,
                          "%s: contract version other than %d, the one known here", path,
                          PLUMB_CONTRACT_VERSION);
    return PLUMB_OK;
}

static plumb_status read_all(plumb_request *request, plumb_error *why)
{
    const char *directory = getenv("PLUMB_RUN_DIR");
    json_t *json = NULL;
    plumb_status status;

    if (directory == NULL || *directory == 0)
        return read_environment(request, why);
    request->run_dir = strdup(directory);
    char *path = plumb_path_join(directory, "request.json");
    if (request->run_dir == NULL || path == NULL) {
        free(path);
        return plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
    }
    status = plumb_json_load(path, REQUEST_LIMIT, &json, why);
    if (status == PLUMB_OK)
        status = check_contract(path, json, why);
    if (status == PLUMB_OK)
        status = read_file(path, json, request, why);
    else if (status == PLUMB_NOT_FOUND)
        status = read_environment(request, why);
    json_decref(json);
    free(path);
    return status;
}

plumb_status plumb_request_read(plumb_request *request, plumb_error *why)
{
    plumb_request_init(request);
    const plumb_status status = read_all(request, why);
    if (status != PLUMB_OK)
        plumb_request_free(request);
    return status;
}
