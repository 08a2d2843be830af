/* Settings on their way out: the resolved manifest, and the text of --help. */
#include "file/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/text.h"

/* Text that is not UTF-8, a file name say, is shown with '?' in place of such bytes. */
static json_t *text_json(const char *text)
{
    char shown[4096 + 1];
    json_t *json = json_string(text);

    return json != NULL
               ? json
               : json_string(plumb_text_clean(text, strlen(text), shown, sizeof shown));
}

static json_t *strings_json(const plumb_strings *strings)
{
    json_t *array = json_array();

    for (size_t i = 0; i < strings->count; i++)
        json_array_append_new(array, text_json(strings->at[i]));
    return array;
}

static json_t *setting_json(const plumb_setting *setting, const void *object)
{
    const void *field = (const char *)object + setting->offset;
    plumb_strings strings;
    json_t *table;
    const char *text;
    int64_t whole;
    double real;
    bool truth;

    switch (setting->type) {
    case PLUMB_SETTING_INT:
        memcpy(&whole, field, sizeof whole);
        return json_integer((json_int_t)whole);
    case PLUMB_SETTING_REAL:
        memcpy(&real, field, sizeof real);
        return plumb_json_real(real);
    case PLUMB_SETTING_BOOL:
        memcpy(&truth, field, sizeof truth);
        return json_boolean(truth);
    case PLUMB_SETTING_STRING:
        memcpy(&text, field, sizeof text);
        return text != NULL ? text_json(text) : json_null();
    case PLUMB_SETTING_LIST:
        memcpy(&strings, field, sizeof strings);
        return strings_json(&strings);
    case PLUMB_SETTING_TABLE:
        memcpy(&table, field, sizeof table);
        return table != NULL ? json_deep_copy(table) : json_null();
    }
    return NULL;
}

json_t *plumb_settings_to_json(const plumb_setting *table, size_t count, const void *object)
{
    json_t *json = json_object();

    for (size_t i = 0; i < count; i++)
        json_object_set_new(json, table[i].key, setting_json(&table[i], object));
    return json;
}

/* --- help --------------------------------------------------------------------------------- */

enum { SCREEN = 79, WORDS = 600 };

/* "peak learning rate (0 to 1000) [3e-3]" */
static void print_words(const plumb_setting *setting, char words[WORDS])
{
    char allowed[200];

    plumb_setting_allowed(setting, allowed, sizeof allowed);
    plumb_print(words, WORDS, "%s", setting->help != NULL ? setting->help : "");
    if (allowed[0] != 0)
        plumb_append(words, WORDS, " (%s)", allowed);
    plumb_append(words, WORDS, " [%s]",
                 setting->fallback != NULL ? setting->fallback : "none");
}

/* How much of text goes into `room` columns without parting a word that would fit. */
static size_t line_length(const char *text, size_t room)
{
    const size_t length = strlen(text);
    size_t cut = room;

    if (length <= room)
        return length;
    while (cut > 0 && text[cut] != ' ')
        cut--;
    return cut > 0 ? cut : room;
}

/* Key and words, the words in their own column; with text NULL it only counts. */
static size_t describe(const plumb_setting *setting, size_t column, char *text, size_t size)
{
    char words[WORDS];
    size_t used = 0;

    print_words(setting, words);
    for (const char *at = words, *key = setting->key; *at != 0; key = "") {
        const size_t length = line_length(at, SCREEN - column);
        const int put =
            snprintf(text != NULL ? text + used : NULL, text != NULL ? size - used : 0,
                     "%*s%-*s%.*s\n", 2, "", (int)column - 2, key, (int)length, at);

        used += put > 0 ? (size_t)put : 0;
        at += length;
        at += strspn(at, " ");
    }
    return used;
}

char *plumb_settings_describe(const plumb_setting *table, size_t count)
{
    size_t column = 0, need = 1, used = 0;

    for (size_t i = 0; i < count; i++)
        column = strlen(table[i].key) > column ? strlen(table[i].key) : column;
    column = column + 4 < SCREEN / 2 ? column + 4 : SCREEN / 2;
    for (size_t i = 0; i < count; i++)
        need += describe(&table[i], column, NULL, 0);
    char *text = calloc(1, need);
    for (size_t i = 0; text != NULL && i < count; i++)
        used += describe(&table[i], column, text + used, need - used);
    return text;
}
