/* The shipped scenarios: NAME.yaml with NAME.planted.json, and the entries of scenarios.yaml, in
 * which many share the run of a base.  An entry that cannot be read is an error, never left out.
 */
#include "cli/demo.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLANTED_LIMIT = 1 << 20, MOST_SCENARIOS = 128 };

/* --- where they lie -------------------------------------------------------------------- */

void demo_directory(char *path, size_t size)
{
    char *slash = NULL;

    if (cli_program_path(path, size)) {
        slash = strrchr(path, '/');
        plumb_print(slash, size - (size_t)(slash - path), "/../share/plumb/demo");
    }
    if (slash == NULL || access(path, R_OK | X_OK) != 0)
        plumb_print(path, size, "%s", CLI_SOURCE_DEMO);
}

static void file_in_directory(const char *name, const char *ending, char *path, size_t size)
{
    char directory[4096];

    demo_directory(directory, sizeof directory);
    plumb_print(path, size, "%s/%s%s", directory, name, ending);
}

/* --- scenarios with files of their own --------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The names that have a NAME.planted.json, sorted. */
static size_t names_of_files(char names[MOST_SCENARIOS][DEMO_NAME])
{
    static const char ending[] = ".planted.json";
    char directory[4096];
    size_t count = 0;

    demo_directory(directory, sizeof directory);
    DIR *listing = opendir(directory);

    if (listing == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        const size_t length = strlen(entry->d_name), tail = sizeof ending - 1;

        if (count < MOST_SCENARIOS && length > tail && length - tail < DEMO_NAME &&
            strcmp(entry->d_name + length - tail, ending) == 0)
            plumb_print(names[count++], DEMO_NAME, "%.*s", (int)(length - tail),
                        entry->d_name);
    }
    closedir(listing);
    qsort(names, count, DEMO_NAME, by_name);
    return count;
}

static plumb_status load_file(const char *name, demo_scenario *s, plumb_error *why)
{
    char path[4096 + 100];

    plumb_print(s->name, sizeof s->name, "%s", name);
    file_in_directory(name, ".planted.json", path, sizeof path);
    return plumb_json_load(path, PLANTED_LIMIT, &s->planted, why);
}

/* --- scenarios.yaml ----------------------------------------------------------------------- */

typedef struct tables {
    json_t *bases, *scenarios, *candidates, *draws;
} tables;

static const plumb_setting keys[] = {
    {"bases", PLUMB_SETTING_TABLE, offsetof(tables, bases), 0, 0, NULL, NULL,
     "runs that scenarios share"},
    {"scenarios", PLUMB_SETTING_TABLE, offsetof(tables, scenarios), 0, 0, NULL, NULL,
     "what is planted in them"},
    {"candidates", PLUMB_SETTING_TABLE, offsetof(tables, candidates), 0, 0, NULL, NULL,
     "what was measured, too"},
    {"draws", PLUMB_SETTING_TABLE, offsetof(tables, draws), 0, 0, NULL, NULL,
     "what --faults-seed draws from"},
};

plumb_status demo_load_table(json_t **table, plumb_error *why)
{
    enum { KEYS = sizeof keys / sizeof *keys };
    tables t = {0};
    char path[4096 + 100];

    file_in_directory("scenarios", ".yaml", path, sizeof path);
    const plumb_status status = plumb_settings_load(keys, KEYS, path, NULL, 0, &t, why);

    if (status == PLUMB_OK)
        *table = plumb_settings_to_json(keys, KEYS, &t);
    plumb_settings_free(keys, KEYS, &t);
    if (status == PLUMB_OK && *table == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for scenarios");
    return status;
}

static const char *name_of(const json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "name"));

    return name != NULL ? name : "";
}

static const json_t *find_base(const json_t *bases, const json_t *entry)
{
    const char *wanted = json_string_value(json_object_get(entry, "base"));
    size_t i;
    const json_t *base;

    json_array_foreach(bases, i, base)
    {
        if (wanted != NULL && strcmp(name_of(base), wanted) == 0)
            return base;
    }
    return NULL;
}

json_t *demo_run_file(const json_t *bases, const json_t *entry, plumb_error *why)
{
    const json_t *base = find_base(bases, entry);
    json_t *run = json_deep_copy(json_object_get(base, "run"));
    json_t *more = json_object_get(entry, "set"), *rules = json_object_get(entry, "rules");
    json_t *faults = json_object_get(entry, "faults");

    if (!json_is_object(run)) {
        json_decref(run);
        plumb_fail(why, PLUMB_BAD_INPUT,
                   "scenarios.yaml: '%.60s' has no base with a run of its own",
                   name_of(entry));
        return NULL;
    }
    json_object_set_new(run, "name", json_string(name_of(entry)));
    if (more != NULL)
        json_object_update_recursive(run, more);
    if (rules != NULL)
        json_array_extend(json_object_get(run, "rules"), rules);
    if (faults != NULL)
        json_object_set(run, "faults", faults);
    return run;
}

/* A name is a file name, and nobody else's. */
static plumb_status check_name(const char *name, const demo_scenario *before, size_t count,
                               plumb_error *why)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-";

    if (name[0] == 0 || strlen(name) >= DEMO_NAME || strspn(name, allowed) != strlen(name))
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "scenarios.yaml: '%.60s' is no name; allowed: 1 to %d of a-z, "
                          "0-9 and '-'",
                          name, DEMO_NAME - 1);
    for (size_t i = 0; i < count; i++)
        if (strcmp(before[i].name, name) == 0)
            return plumb_fail(why, PLUMB_BAD_INPUT, "scenarios.yaml: there are two '%s'",
                              name);
    return PLUMB_OK;
}

static plumb_status load_entry(const json_t *table, json_t *entry, demo_scenario *all,
                               size_t count, plumb_error *why)
{
    demo_scenario *s = &all[count];
    const plumb_status status = check_name(name_of(entry), all, count, why);

    if (status != PLUMB_OK)
        return status;
    plumb_print(s->name, sizeof s->name, "%s", name_of(entry));
    s->planted = json_incref(entry);
    s->run = demo_run_file(json_object_get(table, "bases"), entry, why);
    return s->run != NULL ? PLUMB_OK : PLUMB_BAD_INPUT;
}

/* --- for who measures them ------------------------------------------------------------- */

/* Entries of scenarios.yaml with the run file that they make. */
static plumb_status add_listed(const json_t *table, const char *key, bool shipped,
                               json_t *listed, plumb_error *why)
{
    size_t i;
    json_t *entry;

    json_array_foreach(json_object_get(table, key), i, entry)
    {
        json_t *run = demo_run_file(json_object_get(table, "bases"), entry, why);
        json_t *one = json_copy(entry);

        if (run == NULL) {
            json_decref(one);
            return PLUMB_BAD_INPUT;
        }
        json_object_set_new(one, "run", run);
        json_object_set_new(one, "shipped", json_boolean(shipped));
        json_array_append_new(listed, one);
    }
    return PLUMB_OK;
}

json_t *demo_list(plumb_error *why)
{
    json_t *table = NULL, *listed = json_array();
    plumb_status status = demo_load_table(&table, why);

    if (status == PLUMB_OK)
        status = add_listed(table, "scenarios", true, listed, why);
    if (status == PLUMB_OK)
        status = add_listed(table, "candidates", false, listed, why);
    json_decref(table);
    if (status == PLUMB_OK)
        return listed;
    json_decref(listed);
    return NULL;
}

/* --- all of them ---------------------------------------------------------------------------- */

static plumb_status load_all(const json_t *table, demo_scenario *all, size_t *count,
                             plumb_error *why)
{
    static char names[MOST_SCENARIOS][DEMO_NAME];
    const size_t files = names_of_files(names);
    plumb_status status = PLUMB_OK;
    size_t i;
    json_t *entry;

    json_array_foreach(json_object_get(table, "scenarios"), i, entry)
    {
        if (status == PLUMB_OK && *count < MOST_SCENARIOS) {
            status = load_entry(table, entry, all, *count, why);
            ++*count;
        }
    }
    for (i = 0; i < files && status == PLUMB_OK && *count < MOST_SCENARIOS; i++) {
        status = check_name(names[i], all, *count, why);
        if (status == PLUMB_OK)
            status = load_file(names[i], &all[*count], why);
        ++*count;
    }
    return status;
}

plumb_status demo_load(demo_scenario **scenarios, size_t *count, plumb_error *why)
{
    json_t *table = NULL;
    plumb_status status = demo_load_table(&table, why);

    *count = 0;
    *scenarios = calloc(MOST_SCENARIOS, sizeof **scenarios);
    if (status == PLUMB_OK && *scenarios == NULL)
        status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for scenarios");
    if (status == PLUMB_OK)
        status = load_all(table, *scenarios, count, why);
    json_decref(table);
    if (status != PLUMB_OK) {
        demo_free(*scenarios, *count);
        *scenarios = NULL;
        *count = 0;
    }
    return status;
}

void demo_free(demo_scenario *scenarios, size_t count)
{
    for (size_t i = 0; scenarios != NULL && i < count; i++) {
        json_decref(scenarios[i].planted);
        json_decref(scenarios[i].run);
    }
    free(scenarios);
}
