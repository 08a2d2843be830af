/* One setting: a word or a node becomes a value in the owner's struct, or a sentence. */
#include "file/settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "file/text.h"

enum { LONGEST_STRING = 4096, MOST_STRINGS = 10000 };

static void *field(const plumb_setting *setting, void *object)
{
    return (char *)object + setting->offset;
}

void plumb_setting_clear(const plumb_setting *setting, void *object)
{
    plumb_strings strings;
    json_t *table;
    char *text;

    switch (setting->type) {
    case PLUMB_SETTING_STRING:
        memcpy(&text, field(setting, object), sizeof text);
        free(text);
        memset(field(setting, object), 0, sizeof text);
        break;
    case PLUMB_SETTING_LIST:
        memcpy(&strings, field(setting, object), sizeof strings);
        for (size_t i = 0; i < strings.count; i++)
            free(strings.at[i]);
        free(strings.at);
        memset(field(setting, object), 0, sizeof strings);
        break;
    case PLUMB_SETTING_TABLE:
        memcpy(&table, field(setting, object), sizeof table);
        json_decref(table);
        memset(field(setting, object), 0, sizeof table);
        break;
    case PLUMB_SETTING_INT:
    case PLUMB_SETTING_REAL:
    case PLUMB_SETTING_BOOL:
        break;
    }
}

/* "a b c" as "a, b, c". */
static void with_commas(const char *words, char *text, size_t size)
{
    size_t used = 0;

    for (const char *p = words; *p != 0 && used + 3 < size; p++) {
        if (*p == ' ')
            text[used++] = ',';
        text[used++] = *p;
    }
    text[used] = 0;
}

void plumb_setting_allowed(const plumb_setting *setting, char *text, size_t size)
{
    char least[PLUMB_REAL_TEXT], most[PLUMB_REAL_TEXT];

    text[0] = 0;
    if (setting->type == PLUMB_SETTING_INT || setting->type == PLUMB_SETTING_REAL) {
        plumb_text_from_limit(setting->least, least);
        plumb_text_from_limit(setting->most, most);
        plumb_print(text, size, "%s to %s", least, most);
    } else if (setting->type == PLUMB_SETTING_BOOL) {
        plumb_print(text, size, "true, false");
    } else if (setting->choices != NULL) {
        with_commas(setting->choices, text, size);
    }
}

static plumb_status refuse(const plumb_setting *setting, const char *word,
                           const char *where, plumb_error *why)
{
    char shown[80], allowed[200];

    plumb_text_clean(word, strlen(word), shown, sizeof shown);
    plumb_setting_allowed(setting, allowed, sizeof allowed);
    const bool number =
        setting->type == PLUMB_SETTING_INT || setting->type == PLUMB_SETTING_REAL;
    double value;
    const char *quote = number && plumb_text_to_real(word, &value) ? "" : "'";
    const char *kind = setting->type == PLUMB_SETTING_INT    ? "a whole number, "
                       : setting->type == PLUMB_SETTING_REAL ? "a number, "
                                                             : "";
    return plumb_fail(why, PLUMB_BAD_INPUT, "%s: %s is %s%s%s; allowed: %s%s", where,
                      setting->key, quote, shown, quote, *quote != 0 ? kind : "", allowed);
}

static plumb_status no_memory(const char *where, plumb_error *why)
{
    return plumb_fail(why, PLUMB_NO_MEMORY, "%s: out of memory", where);
}

static bool is_choice(const char *choices, const char *word)
{
    const size_t length = strlen(word);

    for (const char *p = choices; *p != 0;) {
        const size_t next = strcspn(p, " ");
        if (next == length && strncmp(p, word, length) == 0)
            return length > 0;
        p += next + (p[next] == ' ');
    }
    return false;
}

/* A fresh copy of a string value, checked. */
static plumb_status copy_string(const plumb_setting *setting, const char *word,
                                const char *where, char **copy, plumb_error *why)
{
    if (strlen(word) > LONGEST_STRING)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: %s is %zu bytes long; allowed: %d",
                          where, setting->key, strlen(word), LONGEST_STRING);
    if (setting->choices != NULL && !is_choice(setting->choices, word))
        return refuse(setting, word, where, why);
    *copy = strdup(word);
    return *copy != NULL ? PLUMB_OK : no_memory(where, why);
}

static plumb_status set_int(const plumb_setting *setting, const char *word,
                            const char *where, void *object, plumb_error *why)
{
    int64_t value;

    if (!plumb_text_to_int(word, &value) || !((double)value >= setting->least) ||
        !((double)value <= setting->most))
        return refuse(setting, word, where, why);
    memcpy(field(setting, object), &value, sizeof value);
    return PLUMB_OK;
}

static plumb_status set_real(const plumb_setting *setting, const char *word,
                             const char *where, void *object, plumb_error *why)
{
    double value;

    if (!plumb_text_to_real(word, &value) || !(value >= setting->least) ||
        !(value <= setting->most))
        return refuse(setting, word, where, why);
    memcpy(field(setting, object), &value, sizeof value);
    return PLUMB_OK;
}

static plumb_status set_bool(const plumb_setting *setting, const char *word,
                             const char *where, void *object, plumb_error *why)
{
    const bool value = strcmp(word, "true") == 0;

    if (!value && strcmp(word, "false") != 0)
        return refuse(setting, word, where, why);
    memcpy(field(setting, object), &value, sizeof value);
    return PLUMB_OK;
}

static plumb_status set_string(const plumb_setting *setting, const char *word,
                               const char *where, void *object, plumb_error *why)
{
    char *copy;
    const plumb_status status = copy_string(setting, word, where, &copy, why);

    if (status != PLUMB_OK)
        return status;
    plumb_setting_clear(setting, object);
    memcpy(field(setting, object), &copy, sizeof(char *));
    return PLUMB_OK;
}

static plumb_status set_scalar(const plumb_setting *setting, const char *word,
                               const char *where, void *object, plumb_error *why)
{
    switch (setting->type) {
    case PLUMB_SETTING_INT:
        return set_int(setting, word, where, object, why);
    case PLUMB_SETTING_REAL:
        return set_real(setting, word, where, object, why);
    case PLUMB_SETTING_BOOL:
        return set_bool(setting, word, where, object, why);
    case PLUMB_SETTING_STRING:
        return set_string(setting, word, where, object, why);
    case PLUMB_SETTING_LIST:
    case PLUMB_SETTING_TABLE:
        break;
    }
    return plumb_fail(why, PLUMB_BAD_ARGUMENT, "%s: %s is no scalar", where, setting->key);
}

/* One string or a sequence of strings. */
static plumb_status set_list(const plumb_setting *setting, const plumb_yaml *node,
                             const char *where, void *object, plumb_error *why)
{
    const bool sequence = node->kind == PLUMB_YAML_SEQUENCE;
    const plumb_yaml *item = sequence ? node->children : node;
    const size_t count = sequence ? node->count : 1;
    plumb_strings strings = {0};
    plumb_status status = PLUMB_OK;

    if (count > MOST_STRINGS)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: %s has %zu items; allowed: at most %d",
                          where, setting->key, count, MOST_STRINGS);
    strings.at = calloc(count + 1, sizeof *strings.at);
    if (strings.at == NULL)
        return no_memory(where, why);
    for (size_t i = 0; status == PLUMB_OK && i < count; i++) {
        if (item->kind != PLUMB_YAML_SCALAR)
            status = plumb_fail(why, PLUMB_BAD_INPUT,
                                "%s: %s must be a string or a list of strings", where,
                                setting->key);
        else
            status = copy_string(setting, item->text, where, &strings.at[i], why);
        strings.count += status == PLUMB_OK;
        item = sequence ? item->next : item;
    }
    if (status == PLUMB_OK) {
        plumb_setting_clear(setting, object);
        memcpy(field(setting, object), &strings, sizeof strings);
        return PLUMB_OK;
    }
    for (size_t i = 0; i < strings.count; i++)
        free(strings.at[i]);
    free(strings.at);
    return status;
}

static plumb_status set_table(const plumb_setting *setting, const plumb_yaml *node,
                              const char *where, void *object, plumb_error *why)
{
    bool good = node->kind == PLUMB_YAML_SEQUENCE;

    for (const plumb_yaml *row = node->children; good && row != NULL; row = row->next)
        good = row->kind == PLUMB_YAML_MAPPING;
    if (!good)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: %s must be a list of mappings", where,
                          setting->key);
    json_t *table = plumb_yaml_to_json(node);
    if (table == NULL)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: %s is not UTF-8, or out of memory",
                          where, setting->key);
    plumb_setting_clear(setting, object);
    memcpy(field(setting, object), &table, sizeof(json_t *));
    return PLUMB_OK;
}

plumb_status plumb_setting_from_node(const plumb_setting *setting, const plumb_yaml *node,
                                     const char *where, void *object, plumb_error *why)
{
    if (setting->type == PLUMB_SETTING_LIST)
        return set_list(setting, node, where, object, why);
    if (setting->type == PLUMB_SETTING_TABLE)
        return set_table(setting, node, where, object, why);
    if (node->kind != PLUMB_YAML_SCALAR)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: %s is a %s; allowed: one value", where,
                          setting->key,
                          node->kind == PLUMB_YAML_MAPPING ? "mapping" : "list");
    return set_scalar(setting, node->text, where, object, why);
}

plumb_status plumb_setting_from_word(const plumb_setting *setting, const char *word,
                                     const char *where, void *object, plumb_error *why)
{
    plumb_yaml *tree = NULL;
    plumb_yaml one = {.kind = PLUMB_YAML_SCALAR, .line = 1};
    plumb_status status;

    if (setting->type != PLUMB_SETTING_LIST && setting->type != PLUMB_SETTING_TABLE)
        return set_scalar(setting, word, where, object, why);
    if (setting->type == PLUMB_SETTING_LIST && word[0] != '[') {
        one.text = strdup(word);
        status = one.text == NULL ? no_memory(where, why)
                                  : set_list(setting, &one, where, object, why);
        free(one.text);
        return status;
    }
    status = plumb_yaml_parse(word, strlen(word), where, false, &tree, why);
    if (status == PLUMB_OK && tree == NULL)
        status =
            plumb_fail(why, PLUMB_BAD_INPUT, "%s: %s has no value", where, setting->key);
    if (status == PLUMB_OK)
        status = plumb_setting_from_node(setting, tree, where, object, why);
    plumb_yaml_free(tree);
    return status;
}
