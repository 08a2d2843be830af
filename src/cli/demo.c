/* plumb demo: shipped runs with planted faults, diagnosed, and the verdicts held against what was
 * planted.  What was planted is read only after the diagnosis: the diagnosis sees nothing but the
 * run.
 */
#include "cli/demo.h"

#include "plumb/file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct values {
    const char *study;
    bool all, list, json, quiet;
    bool several; /* not an option: a table is made of more than one verdict */
    cli_seed faults_seed;
    int64_t draws;
} values;

static const cli_option options[] = {
    {"study", 'd', "DIR", CLI_TEXT, offsetof(values, study), 0, 0, NULL,
     "of several: DIR/NAME [plumb-out/study-NAME]"},
    {"all", 'a', NULL, CLI_FLAG, offsetof(values, all), 0, 0, NULL,
     "every scenario; as for several, a table of what was said"},
    {"faults-seed", 0, "N", CLI_SEED, offsetof(values, faults_seed), 0, 0, NULL,
     "with --all: faults drawn at random instead"},
    {"draws", 0, "N", CLI_INT, offsetof(values, draws), 1, 1000, "10", "how many"},
    {"list", 'l', NULL, CLI_FLAG, offsetof(values, list), 0, 0, NULL,
     "say which there are"},
    {"json", 0, NULL, CLI_FLAG, offsetof(values, json), 0, 0, NULL,
     "print the verdict, the table or the list as JSON"},
    {"quiet", 'q', NULL, CLI_FLAG, offsetof(values, quiet), 0, 0, NULL, "no progress"},
};

/* --- one scenario --------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "none";
}

static void study_of(const values *asked, const char *name, char *study, size_t size)
{
    if (asked->study != NULL && asked->several)
        plumb_print(study, size, "%s/%s", asked->study, name);
    else if (asked->study != NULL)
        plumb_print(study, size, "%s", asked->study);
    else
        plumb_print(study, size, "plumb-out/study-%s", name);
}

/* The run file: NAME.yaml, or written into the study. */
static plumb_status run_file_of(const demo_scenario *s, const char *study, char *path,
                                size_t size, plumb_error *why)
{
    char directory[4096];

    if (s->run != NULL) {
        plumb_print(path, size, "%s/%s.json", study, s->name);
        const plumb_status status = plumb_dir_make(study, why);

        return status == PLUMB_OK ? plumb_json_save(path, s->run, why) : status;
    }
    demo_directory(directory, sizeof directory);
    plumb_print(path, size, "%s/%s.yaml", directory, s->name);
    return PLUMB_OK;
}

static int diagnose_scenario(const values *asked, const demo_scenario *s, json_t **verdict)
{
    cli_diagnose_values how = cli_diagnose_defaults();
    char path[4096 + 80], study[4096];
    plumb_error why = {0};
    const cli_words none = {0};

    study_of(asked, s->name, study, sizeof study);
    if (run_file_of(s, study, path, sizeof path, &why) != PLUMB_OK)
        return cli_complain("%s", why.message);
    char **command = cli_train_command(path, &none, &why);

    if (command == NULL)
        return cli_complain("%s", why.message);
    how.json = asked->json;
    how.quiet = asked->quiet;
    how.brief = asked->several;
    const int code =
        cli_diagnose_command(&how, (const char *const *)command, path, study, verdict);

    cli_command_free(command);
    return code;
}

static void say_if_other(bool same, const char *what, const char *said, const char *planted)
{
    if (!same)
        printf("not as planted: %s is %s, planted was %s\n", what, said, planted);
}

static int hold_against(const json_t *planted, const json_t *verdict)
{
    const demo_score score = demo_score_verdict(planted, verdict);
    const char *wanted = text_of(planted, "mechanism");
    const char *named = text_of(json_object_get(verdict, "mechanism"), "name");
    const bool place = !score.site_asked || !score.right || score.site_right;
    const bool mechanism =
        json_object_get(planted, "mechanism") == NULL || strcmp(wanted, named) == 0;

    say_if_other(score.right, "the verdict", score.said, score.planted);
    say_if_other(mechanism, "the mechanism", named, wanted);
    if (!place)
        printf("not as planted: the sites are not the planted ones\n");
    if (!score.right || !mechanism || !place)
        return CLI_PROBLEM;
    printf("as planted: %s\n", text_of(planted, "planted"));
    return CLI_HEALTHY;
}

static int run_one(const values *asked, const demo_scenario *s)
{
    json_t *verdict = NULL;
    int code = diagnose_scenario(asked, s, &verdict);

    if (verdict != NULL && !cli_interrupted() && !asked->json)
        code = hold_against(s->planted, verdict);
    json_decref(verdict);
    return code;
}

/* --- all of them -------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* How long scenarios take, from those that were not found finished. */
typedef struct pace {
    double begin, seconds;
    size_t timed;
} pace;

static void keep_pace(pace *p)
{
    const double end = now(), took = end - p->begin;

    p->begin = end;
    if (took < 1)
        return;
    p->seconds += took;
    p->timed++;
}

/* "[3 of 27] NAME: forward, as planted; about 6 min left" */
static void report_progress(cli_progress *progress, const demo_row *row, size_t done,
                            size_t count, const pace *p)
{
    char line[400];

    plumb_print(line, sizeof line, "[%zu of %zu] %s: %s, %s", done, count,
                row->scenario->name, row->score.said,
                row->score.right ? "as planted" : "NOT as planted");
    if (done < count && p->timed > 0)
        plumb_append(line, sizeof line, "; about %.0f min left",
                     p->seconds / (double)p->timed * (double)(count - done) / 60 + 0.5);
    cli_progress_line(progress, line);
}

/* Rows as far as it came. */
static size_t run_all(const values *asked, const demo_scenario *scenarios, size_t count,
                      demo_row *rows)
{
    cli_progress progress = cli_progress_for(asked->quiet);
    pace taken = {.begin = now()};
    size_t done = 0;

    for (size_t i = 0; i < count; i++) {
        json_t *verdict = NULL;

        diagnose_scenario(asked, &scenarios[i], &verdict);
        if (verdict == NULL || cli_interrupted()) {
            json_decref(verdict);
            break;
        }
        rows[done].scenario = &scenarios[i];
        rows[done++].score = demo_score_verdict(scenarios[i].planted, verdict);
        json_decref(verdict);
        keep_pace(&taken);
        report_progress(&progress, &rows[done - 1], done, count, &taken);
    }
    return done;
}

static int show_all(const values *asked, const demo_scenario *scenarios, size_t count)
{
    demo_row *rows = calloc(count + 1, sizeof *rows);

    if (rows == NULL)
        return cli_complain("no memory for %zu scenarios", count);
    const size_t done = run_all(asked, scenarios, count, rows);
    int code = asked->faults_seed.given
                   ? demo_show_draws(rows, done, asked->faults_seed.number, asked->json)
                   : demo_show_table(rows, done, asked->json);

    if (done < count && code != CLI_USAGE)
        code = CLI_CANNOT_TELL;
    free(rows);
    return code;
}

static plumb_status draw_all(const values *asked, demo_scenario **scenarios, size_t *count,
                             plumb_error *why)
{
    json_t *table = NULL;
    plumb_status status = demo_load_table(&table, why);

    *scenarios = calloc((size_t)asked->draws, sizeof **scenarios);
    if (status == PLUMB_OK && *scenarios == NULL)
        status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for draws");
    for (*count = 0; status == PLUMB_OK && *count < (size_t)asked->draws; ++*count)
        status =
            demo_draw(table, asked->faults_seed.number, *count, &(*scenarios)[*count], why);
    json_decref(table);
    return status;
}

static int list_json(void)
{
    plumb_error why = {0};
    json_t *listed = demo_list(&why);

    return listed != NULL ? cli_print_json(listed) : cli_complain("%s", why.message);
}

static int list_scenarios(const demo_scenario *scenarios, size_t count)
{
    for (size_t i = 0; i < count; i++)
        printf("%-24s %s\n", scenarios[i].name, text_of(scenarios[i].planted, "summary"));
    return CLI_HEALTHY;
}

/* Loaded once, for completion and for words that are mistyped. */
const char *cli_scenario(size_t i, const char **about)
{
    static demo_scenario *scenarios;
    static size_t count;

    if (scenarios == NULL && demo_load(&scenarios, &count, NULL) != PLUMB_OK)
        return NULL;
    if (i >= count)
        return NULL;
    *about = text_of(scenarios[i].planted, "summary");
    return scenarios[i].name;
}

/* The words of the command line as scenarios, which stay those of `all`. */
static int pick(const cli_words *words, const demo_scenario *all, size_t count,
                demo_scenario *picked)
{
    for (size_t w = 0; w < words->count; w++) {
        size_t i = 0;

        while (i < count && strcmp(all[i].name, words->at[w]) != 0)
            i++;
        if (i == count)
            return cli_unknown("SCENARIO", words->at[w]);
        picked[w] = all[i];
    }
    return CLI_HEALTHY;
}

static int run_named(values *asked, const cli_words *words, const demo_scenario *all,
                     size_t count)
{
    demo_scenario *picked = calloc(words->count, sizeof *picked);

    if (picked == NULL)
        return cli_complain("no memory for %zu scenarios", words->count);
    int code = pick(words, all, count, picked);

    asked->several = words->count > 1;
    if (code == CLI_HEALTHY)
        code = asked->several ? show_all(asked, picked, words->count)
                              : run_one(asked, &picked[0]);
    free(picked);
    return code;
}

static int run_asked(values *asked, const cli_words *words, const demo_scenario *scenarios,
                     size_t count)
{
    static const char *const first[] = {"frozen-scale"};
    const cli_words alone = {(const char **)(uintptr_t)first, 1};

    if (asked->list && asked->json && !asked->faults_seed.given)
        return list_json();
    if (asked->list)
        return list_scenarios(scenarios, count);
    asked->several = asked->all;
    if (asked->all)
        return show_all(asked, scenarios, count);
    return run_named(asked, words->count > 0 ? words : &alone, scenarios, count);
}

static int run(const void *given, const cli_line *line)
{
    values asked = *(const values *)given;
    demo_scenario *scenarios = NULL;
    size_t count = 0;
    plumb_error why = {0};

    if (asked.faults_seed.given && !asked.all)
        return cli_complain("--faults-seed needs --all");
    if (asked.all && line->words.count > 0)
        return cli_complain("give scenarios or --all, not both");
    const plumb_status status = asked.faults_seed.given
                                    ? draw_all(&asked, &scenarios, &count, &why)
                                    : demo_load(&scenarios, &count, &why);
    const int code = status == PLUMB_OK ? run_asked(&asked, &line->words, scenarios, count)
                                        : cli_complain("%s", why.message);

    demo_free(scenarios, count);
    return code;
}

const cli_verb cli_demo = {
    .name = "demo",
    .usage = "demo [SCENARIO...] [options]\ndemo --all [--faults-seed N] [options]",
    .summary = "Diagnose a shipped run with a planted fault; was it found?",
    .notes =
        "SCENARIO is frozen-scale unless given; decoy is a run that fails in bf16 too.",
    .exits = "0 as planted, 1 not as planted, 2 cannot tell, 3 bad input",
    .words = "SCENARIO...",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .size = sizeof(values),
    .most_words = 64,
    .run = run,
};
