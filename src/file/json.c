/* JSON as the contract has it: non-finite reals as strings, and, on the way in, also as the
 * bare tokens that Python writes.  Whole numbers past int64 arrive as strings of their digits.
 */
#include "file/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "file/text.h"

json_t *plumb_json_real(double value)
{
    if (isnan(value))
        return json_string("NaN");
    if (isinf(value))
        return json_string(value > 0 ? "Infinity" : "-Infinity");
    return json_real(value);
}

bool plumb_json_to_real(const json_t *json, double *value)
{
    const char *text = json_string_value(json);

    if (json_is_number(json))
        *value = json_number_value(json);
    else if (json_is_null(json) || (text != NULL && strcmp(text, "NaN") == 0))
        *value = (double)NAN;
    else if (text != NULL && strcmp(text, "Infinity") == 0)
        *value = (double)INFINITY;
    else if (text != NULL && strcmp(text, "-Infinity") == 0)
        *value = -(double)INFINITY;
    else
        return false;
    return true;
}

/* The length of the string token at text, with its quotes; to the end if it is not closed. */
static size_t string_length(const char *text, size_t size)
{
    size_t i = 1;

    while (i < size && text[i] != '"')
        i += text[i] == '\\' ? 2 : 1;
    return i < size ? i + 1 : size;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_' || c == '.' || c == '-' || c == '+';
}

static bool is_wide_integer(const char *text, size_t length)
{
    char digits[64];
    int64_t value;

    if (length < 19 || length >= sizeof digits || text[0] == '+')
        return false;
    memcpy(digits, text, length);
    digits[length] = 0;
    for (size_t i = text[0] == '-'; i < length; i++)
        if (digits[i] < '0' || digits[i] > '9')
            return false;
    return !plumb_text_to_int(digits, &value);
}

/* Tokens that JSON does not have but that we read as strings. */
static bool needs_quotes(const char *word, size_t length)
{
    return (length == 3 && memcmp(word, "NaN", 3) == 0) ||
           (length == 8 && memcmp(word, "Infinity", 8) == 0) ||
           (length == 9 && memcmp(word, "-Infinity", 9) == 0) ||
           is_wide_integer(word, length);
}

/* Copies text to out (NULL: only counts), with quotes around such tokens. */
static size_t quote_tokens(const char *text, size_t size, char *out)
{
    size_t used = 0;

    for (size_t i = 0; i < size;) {
        size_t length = 1;
        bool quotes = false;

        if (text[i] == '"')
            length = string_length(text + i, size - i);
        else if (is_word(text[i])) {
            while (i + length < size && is_word(text[i + length]))
                length++;
            quotes = needs_quotes(text + i, length);
        }
        if (out != NULL) {
            if (quotes)
                out[used] = out[used + length + 1] = '"';
            memcpy(out + used + quotes, text + i, length);
        }
        used += length + 2 * quotes;
        i += length;
    }
    return used;
}

static plumb_status explain(const json_error_t *error, const char *what, bool quoted,
                            plumb_error *why)
{
    char text[JSON_ERROR_TEXT_LENGTH];

    plumb_text_clean(error->text, strlen(error->text), text, sizeof text);
    if (quoted || error->column < 0)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: line %d: %s", what, error->line, text);
    return plumb_fail(why, PLUMB_BAD_INPUT, "%s: line %d, column %d: %s", what, error->line,
                      error->column, text);
}

plumb_status plumb_json_parse_limit(const char *text, size_t size, size_t limit,
                                    const char *what, json_t **json, plumb_error *why)
{
    json_error_t error = {.line = 1, .column = -1};
    char *copy = NULL;

    *json = NULL;
    if (size > limit)
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "%s: %zu bytes of JSON; allowed: at most %zu", what, size, limit);
    const size_t need = quote_tokens(text, size, NULL);
    if (need != size) {
        copy = malloc(need);
        if (copy == NULL)
            return plumb_fail(why, PLUMB_NO_MEMORY, "%s: no memory for %zu bytes", what,
                              need);
        quote_tokens(text, size, copy);
    }
    *json = json_loadb(copy != NULL ? copy : text, need,
                       JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    free(copy);
    return *json != NULL ? PLUMB_OK : explain(&error, what, copy != NULL, why);
}

plumb_status plumb_json_parse(const char *text, size_t size, const char *what,
                              json_t **json, plumb_error *why)
{
    return plumb_json_parse_limit(text, size, (size_t)64 << 20, what, json, why);
}

plumb_status plumb_json_save(const char *path, const json_t *json, plumb_error *why)
{
    char *text =
        json_dumps(json, JSON_INDENT(1) | JSON_REAL_PRECISION(17) | JSON_ENCODE_ANY);

    if (text == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY,
                          "%s: the document cannot be written as JSON", path);
    const plumb_part parts[] = {{text, strlen(text)}, {"\n", 1}};
    const plumb_status status = plumb_file_write_parts(path, parts, 2, why);
    free(text);
    return status;
}

plumb_status plumb_json_load(const char *path, size_t limit, json_t **json,
                             plumb_error *why)
{
    char *text;
    size_t size;
    plumb_status status;

    *json = NULL;
    status = plumb_file_read(path, limit, &text, &size, why);
    if (status == PLUMB_OK)
        status = plumb_json_parse_limit(text, size, limit, path, json, why);
    free(text);
    return status;
}
