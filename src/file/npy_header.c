/* The dictionary of an npy file: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
 *
 * Keys come in any order, each once; strings in either quote, without escapes; numbers are
 * decimal.  Nothing else of Python is known here, so nothing else can happen.
 */
#include "file/npy.h"

#include <string.h>

#include "file/text.h"

typedef struct cursor {
    const char *path, *start, *at, *end;
    plumb_error *why;
} cursor;

static plumb_status bad(const cursor *c, const char *sentence)
{
    return plumb_fail(c->why, PLUMB_BAD_INPUT, "%.200s: npy header, byte %zu: %s", c->path,
                      (size_t)(c->at - c->start), sentence);
}

static void spaces(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t'))
        c->at++;
}

/* The next character that is no space, if it is this one. */
static bool eat(cursor *c, char wanted)
{
    spaces(c);
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

static bool eat_word(cursor *c, const char *word)
{
    const size_t length = strlen(word);

    spaces(c);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0)
        return false;
    c->at += length;
    return true;
}

/* 'TEXT' or "TEXT"; false when it is neither or longer than size - 1. */
static bool string(cursor *c, char *text, size_t size)
{
    spaces(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return false;
    const char *start = c->at + 1;
    const char *stop = memchr(start, *c->at, (size_t)(c->end - start));

    if (stop == NULL || (size_t)(stop - start) > size - 1 ||
        memchr(start, '\\', (size_t)(stop - start)) != NULL)
        return false;
    plumb_text_clean(start, (size_t)(stop - start), text, size);
    c->at = stop + 1;
    return true;
}

/* Digits as a size; false at anything else and at what does not fit. */
static bool size_number(cursor *c, size_t *value)
{
    const char *start;

    spaces(c);
    *value = 0;
    for (start = c->at; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (!plumb_mul_size(*value, 10, value) ||
            !plumb_add_size(*value, (size_t)(*c->at - '0'), value))
            return false;
    return c->at > start;
}

/* Byte order, letter, bytes: "<f4", "|u1", ">V2". */
static plumb_status read_descr(cursor *c, npy_header *header)
{
    spaces(c);
    if (c->at < c->end && *c->at == '[')
        return bad(c, "'descr' is a list: records are not read here, save one field");
    if (!string(c, header->descr, sizeof header->descr))
        return bad(c, "'descr' must be a short string");
    const char *text = header->descr, *digits = text + (strchr("<>|=", text[0]) != NULL);
    uint64_t item;

    if (text[0] == 0 || digits[0] == 0 || !plumb_text_to_uint(digits + 1, &item))
        return bad(c, "'descr' is no type such as '<f4'");
    header->kind = digits[0];
    header->swapped = text[0] == '>';
    header->item = (size_t)item;
    return PLUMB_OK;
}

static plumb_status read_order(cursor *c, npy_header *header)
{
    header->fortran = eat_word(c, "True");
    if (!header->fortran && !eat_word(c, "False"))
        return bad(c, "'fortran_order' must be True or False");
    return PLUMB_OK;
}

static plumb_status read_shape(cursor *c, npy_header *header)
{
    bool comma = true;

    if (!eat(c, '('))
        return bad(c, "'shape' must be a tuple of sizes");
    for (header->ndim = 0; !eat(c, ')'); header->ndim++) {
        size_t size;

        if (!comma || !size_number(c, &size))
            return bad(c, "'shape' holds something other than sizes");
        if (header->ndim == 2)
            return bad(c, "more than two dimensions; allowed: a matrix, or a vector as one "
                          "row");
        header->shape[header->ndim] = size;
        comma = eat(c, ',');
    }
    if (header->ndim == 0)
        return bad(c, "a scalar; allowed: a matrix, or a vector as one row");
    return PLUMB_OK;
}

static const struct {
    const char *key;
    plumb_status (*read)(cursor *c, npy_header *header);
} keys[] = {{"descr", read_descr}, {"fortran_order", read_order}, {"shape", read_shape}};

enum { KEYS = sizeof keys / sizeof keys[0] };

static plumb_status read_item(cursor *c, npy_header *header, unsigned *seen)
{
    char key[16];
    size_t i = 0;

    if (!string(c, key, sizeof key))
        return bad(c, "no key of the dictionary");
    while (i < KEYS && strcmp(key, keys[i].key) != 0)
        i++;
    if (i == KEYS || (*seen & 1u << i) != 0)
        return bad(c,
                   "a key that is twice there or is none of descr, fortran_order, shape");
    *seen |= 1u << i;
    if (!eat(c, ':'))
        return bad(c, "no ':' after a key");
    return keys[i].read(c, header);
}

plumb_status npy_header_read(const char *path, const char *text, size_t size,
                             npy_header *header, plumb_error *why)
{
    cursor c = {path, text, text, text + size, why};
    bool comma = true;
    unsigned seen = 0;

    *header = (npy_header){0};
    if (!eat(&c, '{'))
        return bad(&c, "no dictionary");
    while (!eat(&c, '}')) {
        if (!comma)
            return bad(&c, "no ',' between two keys");
        const plumb_status status = read_item(&c, header, &seen);

        if (status != PLUMB_OK)
            return status;
        comma = eat(&c, ',');
    }
    spaces(&c);
    if (c.at != c.end)
        return bad(&c, "something follows the dictionary");
    if (seen != (1u << KEYS) - 1)
        return bad(&c, "one of descr, fortran_order, shape is missing");
    return PLUMB_OK;
}
