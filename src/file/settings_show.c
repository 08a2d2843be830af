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

/* snprintf to the end of text; with text NULL it only counts. */
static size_t describe(const plumb_setting *setting, char *text, size_t size)
{
    char allowed[200], range[220] = "";

    plumb_setting_allowed(setting, allowed, sizeof allowed);
    if (allowed[0] != 0)
        snprintf(range, sizeof range, " (%s)", allowed);
    const int length =
        snprintf(text, size, "  %-28s %s%s\n  %-28s default: %s\n", setting->key,
                 setting->help != NULL ? setting->help : "", range, "",
                 setting->fallback != NULL ? setting->fallback : "none");
    return length > 0 ? (size_t)length : 0;
}

char *plumb_settings_describe(const plumb_setting *table, size_t count)
{
    size_t need = 1, used = 0;

    for (size_t i = 0; i < count; i++)
        need += describe(&table[i], NULL, 0);
    char *text = calloc(1, need);
    for (size_t i = 0; text != NULL && i < count; i++)
        used += describe(&table[i], text + used, need - used);
    return text;
}
