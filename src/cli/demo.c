/* plumb demo: a shipped run with a planted fault, diagnosed, and the verdict held against what
 * was planted.  What was planted stands beside the run file in NAME.planted.json and is read
 * only after the diagnosis: the diagnosis sees nothing but the run.
 */
#include "cli/cli.h"

#include "plumb/file.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLANTED_LIMIT = 1 << 20, MOST_SCENARIOS = 64, NAME = 64 };

typedef struct values {
    const char *study;
    bool all, list, json, quiet;
} values;

static const cli_option options[] = {
    {"study", 'd', "DIR", CLI_TEXT, offsetof(values, study), 0, 0, NULL,
     "where runs and verdict go [plumb-out/study-NAME]"},
    {"all", 'a', NULL, CLI_FLAG, offsetof(values, all), 0, 0, NULL,
     "every scenario in turn"},
    {"list", 'l', NULL, CLI_FLAG, offsetof(values, list), 0, 0, NULL,
     "say which there are"},
    {"json", 0, NULL, CLI_FLAG, offsetof(values, json), 0, 0, NULL,
     "print the verdict as JSON"},
    {"quiet", 'q', NULL, CLI_FLAG, offsetof(values, quiet), 0, 0, NULL, "no progress"},
};

/* --- where scenarios lie ------------------------------------------------------------ */

/* Beside the installed program, else in the source tree that it was built from. */
static void scenario_directory(char *path, size_t size)
{
    char *slash = NULL;

    if (cli_program_path(path, size)) {
        slash = strrchr(path, '/');
        plumb_print(slash, size - (size_t)(slash - path), "/../share/plumb/demo");
    }
    if (slash == NULL || access(path, R_OK | X_OK) != 0)
        plumb_print(path, size, "%s", CLI_SOURCE_DEMO);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The names of all scenarios, sorted; those that have a NAME.planted.json. */
static size_t scenario_names(char names[MOST_SCENARIOS][NAME])
{
    static const char ending[] = ".planted.json";
    char directory[4096];
    size_t count = 0;

    scenario_directory(directory, sizeof directory);
    DIR *listing = opendir(directory);

    if (listing == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        const size_t length = strlen(entry->d_name), tail = sizeof ending - 1;

        if (count < MOST_SCENARIOS && length > tail && length - tail < NAME &&
            strcmp(entry->d_name + length - tail, ending) == 0)
            plumb_print(names[count++], NAME, "%.*s", (int)(length - tail), entry->d_name);
    }
    closedir(listing);
    qsort(names, count, NAME, by_name);
    return count;
}

static plumb_status load_planted(const char *name, json_t **planted, plumb_error *why)
{
    char directory[4096], path[4096 + 80];

    scenario_directory(directory, sizeof directory);
    plumb_print(path, sizeof path, "%s/%s.planted.json", directory, name);
    return plumb_json_load(path, PLANTED_LIMIT, planted, why);
}

/* --- as planted? -------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "none";
}

/* Absent from planted: anything will do.  null: the verdict must have none. */
static bool same_text(const json_t *planted, const json_t *verdict, const char *key)
{
    if (json_object_get(planted, key) == NULL ||
        strcmp(text_of(planted, key), text_of(verdict, key)) == 0)
        return true;
    printf("not as planted: %s is %s, planted was %s\n", key, text_of(verdict, key),
           text_of(planted, key));
    return false;
}

static bool matches(const json_t *glob, const json_t *site)
{
    return json_is_string(glob) && json_is_string(site) &&
           fnmatch(json_string_value(glob), json_string_value(site), 0) == 0;
}

/* Every site of the verdict must match one of the planted globs, and there must be some. */
static bool same_sites(const json_t *planted, const json_t *verdict)
{
    const json_t *globs = json_object_get(planted, "sites");
    const json_t *sites = json_object_get(verdict, "sites");
    size_t g, s, matched = 0;
    const json_t *glob, *site;

    if (globs == NULL)
        return true;
    json_array_foreach(sites, s, site)
    {
        bool known = false;

        json_array_foreach(globs, g, glob) known = known || matches(glob, site);
        matched += known;
    }
    if (matched == json_array_size(sites) && (matched > 0) == (json_array_size(globs) > 0))
        return true;
    printf("not as planted: the sites are not the planted ones\n");
    return false;
}

static int hold_against(const json_t *planted, const json_t *verdict)
{
    const json_t *mechanism = json_object_get(verdict, "mechanism");
    bool same = same_text(planted, verdict, "verdict");

    same = same_text(planted, verdict, "class") && same;
    same = same_sites(planted, verdict) && same;
    if (json_object_get(planted, "mechanism") != NULL &&
        strcmp(text_of(planted, "mechanism"), text_of(mechanism, "name")) != 0) {
        printf("not as planted: the mechanism is %s, planted was %s\n",
               text_of(mechanism, "name"), text_of(planted, "mechanism"));
        same = false;
    }
    if (same)
        printf("as planted: %s\n", text_of(planted, "planted"));
    return same ? CLI_HEALTHY : CLI_PROBLEM;
}

/* --- running ------------------------------------------------------------------------ */

static int diagnose_scenario(const values *asked, const char *name, json_t **verdict)
{
    cli_diagnose_values how = cli_diagnose_defaults();
    char directory[4096], path[4096 + 80], study[4096];
    plumb_error why = {0};
    const cli_words none = {0};

    scenario_directory(directory, sizeof directory);
    plumb_print(path, sizeof path, "%s/%s.yaml", directory, name);
    char **command = cli_train_command(path, &none, &why);

    if (command == NULL)
        return cli_complain("%s", why.message);
    if (asked->study != NULL && asked->all)
        plumb_print(study, sizeof study, "%s/%s", asked->study, name);
    else if (asked->study != NULL)
        plumb_print(study, sizeof study, "%s", asked->study);
    else
        plumb_print(study, sizeof study, "plumb-out/study-%s", name);
    how.json = asked->json;
    how.quiet = asked->quiet;
    const int code =
        cli_diagnose_command(&how, (const char *const *)command, path, study, verdict);

    cli_command_free(command);
    return code;
}

static int run_scenario(const values *asked, const char *name)
{
    json_t *verdict = NULL, *planted = NULL;
    plumb_error why = {0};
    int code = diagnose_scenario(asked, name, &verdict);

    if (verdict == NULL || cli_interrupted() || asked->json)
        goto done;
    if (load_planted(name, &planted, &why) == PLUMB_OK)
        code = hold_against(planted, verdict);
    else
        code = cli_complain("%s", why.message);
done:
    json_decref(planted);
    json_decref(verdict);
    return code;
}

static int list_scenarios(char names[MOST_SCENARIOS][NAME], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        json_t *planted = NULL;
        plumb_error why;

        if (load_planted(names[i], &planted, &why) == PLUMB_OK)
            printf("%-16s %s\n", names[i], text_of(planted, "summary"));
        else
            cli_complain("%s", why.message);
        json_decref(planted);
    }
    return CLI_HEALTHY;
}

const char *cli_scenario(size_t i, const char **about)
{
    static char names[MOST_SCENARIOS][NAME], summary[200];
    static size_t count;
    json_t *planted = NULL;

    if (i == 0)
        count = scenario_names(names);
    if (i >= count)
        return NULL;
    *about = NULL;
    if (load_planted(names[i], &planted, NULL) == PLUMB_OK) {
        plumb_print(summary, sizeof summary, "%s", text_of(planted, "summary"));
        *about = summary;
    }
    json_decref(planted);
    return names[i];
}

static int run(const void *given, const cli_line *line)
{
    static char names[MOST_SCENARIOS][NAME];
    const values *asked = given;
    const char *name = line->words.count > 0 ? line->words.at[0] : "frozen-scale";
    const size_t count = scenario_names(names);
    int worst = CLI_HEALTHY;

    if (count == 0)
        return cli_complain("%s: no scenarios there", CLI_SOURCE_DEMO);
    if (asked->list)
        return list_scenarios(names, count);
    for (size_t i = 0; asked->all && i < count && !cli_interrupted(); i++) {
        const int code = run_scenario(asked, names[i]);

        worst = code > worst ? code : worst;
    }
    if (asked->all)
        return worst;
    if (bsearch(name, names, count, NAME, by_name) == NULL)
        return cli_unknown("SCENARIO", name);
    return run_scenario(asked, name);
}

const cli_verb cli_demo = {
    .name = "demo",
    .usage = "demo [SCENARIO] [options]",
    .summary = "Diagnose a shipped run with a planted fault; was it found?",
    .notes =
        "SCENARIO is frozen-scale unless given; decoy is a run that fails in bf16 too.",
    .exits = "0 as planted, 1 not as planted, 2 cannot tell, 3 bad input",
    .words = "SCENARIO",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .size = sizeof(values),
    .most_words = 1,
    .run = run,
};
