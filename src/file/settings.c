/* A table of settings, filled from defaults, a file and overrides, and shown again.
 *
 * The file's tree is walked with dotted paths, so `model: {width: 64}` and `model.width: 64`
 * are the same; a setting given by both is refused.
 */
#include "file/settings.h"

#include <stdlib.h>
#include <string.h>

#include "file/text.h"

enum { LONGEST_KEY = 128, MOST_SETTINGS = 1000 };

typedef struct settings_loader {
    const plumb_setting *table;
    size_t count;
    const char *path;
    int *lines; /* of each setting in the file; 0: not given */
    void *object;
} settings_loader;

static const plumb_setting *find(const plumb_setting *table, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].key, key) == 0)
            return &table[i];
    return NULL;
}

/* True when key names a group: "model" where "model.width" is known. */
static bool is_group(const plumb_setting *table, size_t count, const char *key)
{
    const size_t length = strlen(key);

    for (size_t i = 0; i < count; i++)
        if (strncmp(table[i].key, key, length) == 0 && table[i].key[length] == '.')
            return true;
    return false;
}

static plumb_status unknown_key(const plumb_setting *table, size_t count, const char *key,
                                const char *where, plumb_error *why)
{
    const char *keys[MOST_SETTINGS];
    char shown[LONGEST_KEY + 8];

    for (size_t i = 0; i < count; i++)
        keys[i] = table[i].key;
    const char *nearest = plumb_nearest(key, keys, count);
    plumb_text_clean(key, strlen(key), shown, sizeof shown);
    if (nearest == NULL)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: unknown key '%s'", where, shown);
    return plumb_fail(why, PLUMB_BAD_INPUT, "%s: unknown key '%s'; did you mean '%s'?",
                      where, shown, nearest);
}

/* The end of a path is what tells, so that is what a long one keeps. */
static void print_where(const settings_loader *loader, int line, char where[PLUMB_WHERE])
{
    const size_t length = strlen(loader->path), most = PLUMB_WHERE - 16;

    plumb_print(where, PLUMB_WHERE, "%s:%d",
                loader->path + (length > most ? length - most : 0), line);
}

static plumb_status store(const settings_loader *loader, const plumb_setting *setting,
                          const plumb_yaml *node, plumb_error *why)
{
    int *const line = &loader->lines[setting - loader->table];
    char where[PLUMB_WHERE];

    print_where(loader, node->key_line, where);
    if (*line != 0)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: %s is given twice (see line %d)",
                          where, setting->key, *line);
    *line = node->key_line;
    if (plumb_yaml_is_null(node)) /* a key without a value: the default stays */
        return PLUMB_OK;
    if (node->kind == PLUMB_YAML_SCALAR)
        print_where(loader, node->line, where);
    return plumb_setting_from_node(setting, node, where, loader->object, why);
}

/* An unknown group is named by its first setting: "modle.width". */
static plumb_status unknown_node(const settings_loader *loader, const plumb_yaml *node,
                                 const char *key, plumb_error *why)
{
    char full[LONGEST_KEY + 1], longer[2 * LONGEST_KEY], where[PLUMB_WHERE];

    plumb_print(full, sizeof full, "%s", key);
    while (node->kind == PLUMB_YAML_MAPPING && node->children != NULL) {
        node = node->children;
        plumb_print(longer, sizeof longer, "%s.%.100s", full, node->key);
        plumb_print(full, sizeof full, "%.*s", LONGEST_KEY, longer);
    }
    print_where(loader, node->key_line, where);
    return unknown_key(loader->table, loader->count, full, where, why);
}

/* Walks a mapping whose keys follow prefix. */
static plumb_status walk(const settings_loader *loader, const plumb_yaml *mapping,
                         const char *prefix, plumb_error *why)
{
    char key[LONGEST_KEY + 1], where[PLUMB_WHERE];
    plumb_status status = PLUMB_OK;

    for (const plumb_yaml *node = mapping->children; status == PLUMB_OK && node != NULL;
         node = node->next) {
        print_where(loader, node->key_line, where);
        if (strlen(prefix) + strlen(node->key) + 1 > LONGEST_KEY)
            return plumb_fail(why, PLUMB_BAD_INPUT, "%s: a key of over %d bytes", where,
                              LONGEST_KEY);
        plumb_print(key, sizeof key, "%s%s%s", prefix, *prefix != 0 ? "." : "", node->key);
        const plumb_setting *setting = find(loader->table, loader->count, key);
        const bool group = is_group(loader->table, loader->count, key);

        if (setting != NULL && (node->kind != PLUMB_YAML_MAPPING || !group))
            status = store(loader, setting, node, why);
        else if (group && node->kind == PLUMB_YAML_MAPPING)
            status = walk(loader, node, key, why);
        else if (group && !plumb_yaml_is_null(node))
            status = plumb_fail(why, PLUMB_BAD_INPUT,
                                "%s: '%s' is a group of settings, not a value", where, key);
        else if (!group)
            status = unknown_node(loader, node, key, why);
    }
    return status;
}

static plumb_status load_file(const settings_loader *loader, plumb_error *why)
{
    plumb_yaml *tree = NULL;
    char *text;
    size_t size;
    plumb_status status =
        plumb_file_read(loader->path, PLUMB_YAML_LIMIT, &text, &size, why);

    if (status == PLUMB_OK)
        status = plumb_yaml_parse(text, size, loader->path, true, &tree, why);
    free(text);
    if (status == PLUMB_OK && tree != NULL && !plumb_yaml_is_null(tree)) {
        if (tree->kind != PLUMB_YAML_MAPPING)
            status = plumb_fail(why, PLUMB_BAD_INPUT, "%s:%d: not a mapping of settings",
                                loader->path, tree->line);
        else
            status = walk(loader, tree, "", why);
    }
    plumb_yaml_free(tree);
    return status;
}

static plumb_status set_defaults(const plumb_setting *table, size_t count, void *object,
                                 plumb_error *why)
{
    plumb_status status = PLUMB_OK;

    for (size_t i = 0; status == PLUMB_OK && i < count; i++)
        if (table[i].fallback != NULL)
            status = plumb_setting_from_word(&table[i], table[i].fallback, "default",
                                             object, why);
    return status;
}

static plumb_status set_override(const plumb_setting *table, size_t count,
                                 const char *override, void *object, plumb_error *why)
{
    const size_t length = strcspn(override, "=");
    char key[LONGEST_KEY + 1], shown[80], where[PLUMB_WHERE];

    plumb_text_clean(override, strlen(override), shown, sizeof shown);
    plumb_print(where, sizeof where, "--set %s", shown);
    if (override[length] != '=' || length == 0 || length > LONGEST_KEY)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: must be key=value", where);
    memcpy(key, override, length);
    key[length] = 0;
    const plumb_setting *setting = find(table, count, key);
    if (setting == NULL)
        return unknown_key(table, count, key, where, why);
    return plumb_setting_from_word(setting, override + length + 1, where, object, why);
}

plumb_status plumb_settings_load(const plumb_setting *table, size_t count, const char *path,
                                 const char *const *overrides, size_t override_count,
                                 void *object, plumb_error *why)
{
    plumb_status status;

    if (count == 0 || count > MOST_SETTINGS)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "%zu settings; allowed: 1 to %d", count,
                          MOST_SETTINGS);
    settings_loader loader = {table, count, path, calloc(count, sizeof(int)), object};
    if (loader.lines == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu settings", count);
    status = set_defaults(table, count, object, why);
    if (status == PLUMB_OK && path != NULL)
        status = load_file(&loader, why);
    for (size_t i = 0; status == PLUMB_OK && i < override_count; i++)
        status = set_override(table, count, overrides[i], object, why);
    free(loader.lines);
    if (status != PLUMB_OK)
        plumb_settings_free(table, count, object);
    return status;
}

void plumb_settings_free(const plumb_setting *table, size_t count, void *object)
{
    for (size_t i = 0; i < count; i++)
        plumb_setting_clear(&table[i], object);
}
