/* plumb diagnose: the experiment, over a run file or over any command. */
#include "cli/cli.h"

#include "plumb/file.h"
#include "plumb/report.h"

#include <string.h>

#define AT(field) offsetof(cli_diagnose_values, field)

static const cli_option options[] = {
    {"set", 's', "KEY=VALUE", CLI_LIST, AT(set), 0, 0, NULL,
     "override a setting of RUN.yaml; repeatable"},
    {"study", 'd', "DIR", CLI_TEXT, AT(study), 0, 0, NULL,
     "where runs and verdict go [plumb-out/study-NAME]"},
    {"steps", 'n', "N", CLI_INT, AT(steps), 1, 1e9, NULL,
     "look so far for the failure [the schedule]"},
    {"margin", 0, "N", CLI_INT, AT(margin), 1, 1e9, "50",
     "steps past the old failure that count as survived"},
    {"seed", 0, "N", CLI_SEED, AT(seed), 0, 0, NULL,
     "seed of the failing run [the trainer's own]"},
    {"data-seed", 0, "N", CLI_SEED, AT(data_seed), 0, 0, NULL,
     "its order of the data [as --seed]"},
    {"seeds", 0, "N", CLI_INT, AT(seeds), 1, 100, "1",
     "further seeds for the proof of the fix"},
    {"observe", 0, "N", CLI_INT, AT(observe), 1, 1e9, "1",
     "sensors every N steps, where they are read"},
    {"band", 0, "NATS", CLI_REAL, AT(band), 0, 100, "0",
     "allowed smoothed gap; 0: measured"},
    {"lr-scale", 0, "X", CLI_REAL, AT(lr_scale), 1e-6, 1, "0.3",
     "learning rate of the masking arm"},
    {"silence", 0, "SECONDS", CLI_REAL, AT(silence), 0, 1e9, "0",
     "kill a run that logs nothing so long; 0: never"},
    {"grace", 0, "SECONDS", CLI_REAL, AT(grace), 0.1, 1e6, "10",
     "between SIGTERM and SIGKILL"},
    {"kill-command", 0, "COMMAND", CLI_TEXT, AT(kill_command), 0, 0, NULL,
     "run by sh after SIGKILL, for launchers"},
    {"detached", 0, NULL, CLI_FLAG, AT(detached), 0, 0, NULL,
     "the command only submits a run (sbatch); see --silence"},
    {"plan", 0, NULL, CLI_FLAG, AT(plan), 0, 0, NULL,
     "only say what would be run and what it costs"},
    {"json", 0, NULL, CLI_FLAG, AT(json), 0, 0, NULL, "print the verdict as JSON"},
    {"no-html", 0, NULL, CLI_FLAG, AT(no_html), 0, 0, NULL, "do not write report.html"},
    {"quiet", 'q', NULL, CLI_FLAG, AT(quiet), 0, 0, NULL, "no progress"},
};

cli_diagnose_values cli_diagnose_defaults(void)
{
    cli_diagnose_values values;
    cli_line line;
    plumb_error why;
    char *const nothing[] = {NULL};
    bool help;

    cli_parse(&cli_diagnose, nothing, &values, &line, &help, &why);
    return values;
}

static plumb_diagnose_settings settings_of(const cli_diagnose_values *values,
                                           const char *const *command, const char *question)
{
    return (plumb_diagnose_settings){
        .command = command,
        .question = question,
        .seed = values->seed.number,
        .data_seed =
            values->data_seed.given ? values->data_seed.number : values->seed.number,
        .has_seed = values->seed.given,
        .steps = values->steps,
        .margin = values->margin,
        .seeds = (int)values->seeds,
        .observe_every = values->observe,
        .band = values->band,
        .lr_scale = values->lr_scale,
        .plan_only = values->plan,
    };
}

static void announce(cli_progress *progress, const char *question,
                     const char *const *command, const char *study)
{
    char text[512];

    plumb_print(text, sizeof text, "diagnosing %.200s; the study is %.200s",
                question != NULL ? question : command[0], study);
    cli_progress_line(progress, text);
}

/* report.html alone: what the verdict says is for the caller to show. */
static int keep_report(const char *study, const json_t *verdict)
{
    plumb_error why = {0};
    char path[4096];

    if (plumb_report_html(study, verdict, path, &why) != PLUMB_OK)
        return cli_complain("%s", why.message);
    return (int)json_integer_value(json_object_get(verdict, "exit"));
}

int cli_diagnose_command(const cli_diagnose_values *values, const char *const *command,
                         const char *question, const char *study, json_t **verdict)
{
    const plumb_launcher launcher = {.command = command,
                                     .kill_command = values->kill_command,
                                     .grace_seconds = values->grace,
                                     .silence_seconds = values->silence,
                                     .start_seconds = values->silence,
                                     .detached = values->detached};
    const plumb_diagnose_settings settings = settings_of(values, command, question);
    cli_progress progress = cli_progress_for(values->quiet);
    plumb_study *opened = NULL;
    plumb_error why = {0};
    json_t *found = NULL;
    int code = CLI_USAGE;

    progress.brief = values->brief;
    if (!values->brief)
        announce(&progress, question, command, study);
    if (plumb_study_open(study, &launcher, &opened, &why) != PLUMB_OK)
        return cli_complain("%s", why.message);
    cli_catch_interrupts();
    const plumb_status status =
        plumb_diagnose(opened, &settings, cli_progress_show, &progress, &found, &why);

    cli_progress_clear(&progress);
    plumb_study_close(&opened);
    if (found != NULL && values->brief)
        code = keep_report(study, found);
    else if (found != NULL)
        code =
            cli_show_verdict(study, found, values->json, !values->no_html && !values->plan);
    if (status != PLUMB_OK && !(status == PLUMB_INTERRUPTED && found != NULL))
        code = cli_complain("%s", why.message);
    if (cli_interrupted())
        cli_complain("interrupted; the same command goes on from here");
    if (verdict != NULL)
        *verdict = found;
    else
        json_decref(found);
    return code;
}

static int diagnose_file(const cli_diagnose_values *values, const char *file)
{
    plumb_error why = {0};
    char **command = cli_train_command(file, &values->set, &why);
    char study[4096];

    if (command == NULL)
        return cli_complain("%s", why.message);
    cli_study_name(file, NULL, study, sizeof study);
    const int code =
        cli_diagnose_command(values, (const char *const *)command, file,
                             values->study != NULL ? values->study : study, NULL);

    cli_command_free(command);
    return code;
}

static int run(const void *given, const cli_line *line)
{
    const cli_diagnose_values *values = given;
    char study[4096];

    if (line->words.count > 0 && line->command != NULL)
        return cli_complain("give a run file or a command after '--', not both");
    if (values->data_seed.given && !values->seed.given)
        return cli_complain("--data-seed needs --seed");
    if (line->words.count > 0)
        return diagnose_file(values, line->words.at[0]);
    if (line->command == NULL || line->command[0] == NULL)
        return cli_complain("'plumb diagnose' needs a run file, or '--' and a command");
    if (values->set.count > 0)
        return cli_complain(
            "--set is for run files of the built-in trainer; put the options of "
            "your own trainer into the command");
    cli_study_name(NULL, line->command, study, sizeof study);
    return cli_diagnose_command(values, line->command, NULL,
                                values->study != NULL ? values->study : study, NULL);
}

const cli_verb cli_diagnose = {
    .name = "diagnose",
    .usage = "diagnose [options] RUN.yaml | -- COMMAND ARGS...",
    .summary = "Find out why an FP8 run fails, and prove the fix.",
    .exits = "0 healthy, 1 problem found, 2 cannot tell, 3 usage or bad input",
    .words = "RUN.yaml",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .size = sizeof(cli_diagnose_values),
    .most_words = 1,
    .takes_command = true,
    .run = run,
};
