/* One line of metrics.jsonl, written by anybody.
 *
 * A line counts when it has a step and a loss; whatever else is missing or of the wrong type is
 * taken as missing.
 */
#include "log/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "file/text.h"
#include "plumb/file.h"

#define MOST_STEPS 1e15

/* A whole number in [least, 1e15]; 3.0 counts as 3, since some languages know only reals. */
static bool read_whole(const json_t *json, double least, int64_t *value)
{
    const double real = json_number_value(json);

    if (!json_is_number(json) || !(real >= least && real <= MOST_STEPS) ||
        rint(real) != real)
        return false;
    *value = (int64_t)real;
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* 0x and 1 to 16 hexadecimal digits, or 16 of them alone. */
static bool read_hex(const char *text, uint64_t *value)
{
    const bool prefix = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const char *p = prefix ? text + 2 : text;
    const size_t length = strlen(p);
    uint64_t got = 0;

    if (length == 0 || length > 16 || (!prefix && length != 16))
        return false;
    for (; *p != 0; p++) {
        const int digit = hex_digit(*p);
        if (digit < 0)
            return false;
        got = got << 4 | (uint64_t)digit;
    }
    *value = got;
    return true;
}

/* Hashes are only ever compared, so any text will do. */
static bool read_hash(const json_t *json, uint64_t *hash)
{
    const char *text = json_string_value(json);

    if (json_is_integer(json))
        *hash = (uint64_t)json_integer_value(json);
    else if (text == NULL)
        return false;
    else if (!read_hex(text, hash))
        *hash = XXH3_64bits(text, json_string_length(json));
    return true;
}

/* NaN when absent; returns whether it was there. */
static bool read_real(const json_t *object, const char *key, double *value)
{
    const json_t *json = json_object_get(object, key);

    *value = (double)NAN;
    return json != NULL && plumb_json_to_real(json, value);
}

static void read_details(const json_t *object, plumb_metrics *metrics)
{
    const char *tensor = json_string_value(json_object_get(object, "grad_norm_max_tensor"));
    const bool norm = read_real(object, "grad_norm_max", &metrics->grad_norm_max);
    const bool loss = read_real(object, "loss_max", &metrics->loss_max);
    const bool update = read_real(object, "update_max", &metrics->update_max);
    const bool lr = read_real(object, "lr", &metrics->lr);

    metrics->has_details = norm && loss && update && lr;
    if (tensor != NULL)
        plumb_text_clean(tensor, strlen(tensor), metrics->grad_norm_max_tensor,
                         sizeof metrics->grad_norm_max_tensor);
}

bool plumb_metrics_parse(const char *text, size_t length, plumb_metrics *metrics)
{
    json_t *json;

    *metrics = (plumb_metrics){0};
    if (plumb_json_parse(text, length, "line", &json, NULL) != PLUMB_OK)
        return false;
    const bool good = json_is_object(json) &&
                      read_whole(json_object_get(json, "step"), 1, &metrics->step) &&
                      read_real(json, "loss", &metrics->loss);
    if (good) {
        metrics->has_grad_norm = read_real(json, "grad_norm", &metrics->grad_norm);
        read_details(json, metrics);
        metrics->has_batch_hash =
            read_hash(json_object_get(json, "batch_hash"), &metrics->batch_hash);
        metrics->has_state_hash =
            read_hash(json_object_get(json, "state_hash"), &metrics->state_hash);
        if (!read_whole(json_object_get(json, "tokens"), 0, &metrics->tokens))
            metrics->tokens = 0;
        read_real(json, "seconds", &metrics->seconds);
        metrics->skipped = json_is_true(json_object_get(json, "skipped"));
    }
    json_decref(json);
    return good;
}
