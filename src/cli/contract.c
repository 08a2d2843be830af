/* plumb contract check: what a diagnosis of this trainer could find, before anything is spent on one.
 *
 * The screen has the most important line first, then what does not hold with what it costs and how
 * to close it, then what holds, a line each.
 */
#include "cli/cli.h"

#include "plumb/report.h"
#include "report/text.h"

#include <string.h>

typedef struct values {
    const char *study, *kill_command;
    cli_seed seed;
    double silence, grace;
    bool detached, json, quiet;
} values;

#define AT(field) offsetof(values, field)

static const cli_option options[] = {
    {"study", 'd', "DIR", CLI_TEXT, AT(study), 0, 0, NULL,
     "where the runs go [plumb-out/contract-NAME]"},
    {"seed", 0, "N", CLI_SEED, AT(seed), 0, 0, NULL, "seed of the runs [1]"},
    {"silence", 0, "SECONDS", CLI_REAL, AT(silence), 0, 1e9, "0",
     "end a run that logs nothing so long; 0: never"},
    {"grace", 0, "SECONDS", CLI_REAL, AT(grace), 0.1, 1e6, "10",
     "between SIGTERM and SIGKILL"},
    {"kill-command", 0, "COMMAND", CLI_TEXT, AT(kill_command), 0, 0, NULL,
     "run by sh after SIGKILL, for launchers"},
    {"detached", 0, NULL, CLI_FLAG, AT(detached), 0, 0, NULL,
     "the command only submits a run (sbatch); see --silence"},
    {"json", 0, NULL, CLI_FLAG, AT(json), 0, 0, NULL, "print the report as JSON"},
    {"quiet", 'q', NULL, CLI_FLAG, AT(quiet), 0, 0, NULL, "no progress"},
};

/* --- the screen ------------------------------------------------------------------------ */

enum { STATE = 13, NAME = 14, GUTTER = STATE + NAME };

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));

    return text != NULL ? text : "";
}

/* Words, broken at spaces into lines that begin at column indent; the first where the line is. */
static void put_wrapped(const plumb_screen *screen, const char *words, size_t indent)
{
    const size_t width = screen->width > 0 ? (size_t)screen->width : 100;
    const size_t columns = width > indent + 20 ? width - indent : 20;
    report_text clean = {0};

    report_clean(&clean, words, 4 * columns, REPORT_CUT_END, !screen->unicode);
    for (const char *at = clean.at != NULL ? clean.at : ""; *at != 0;) {
        const size_t bytes = report_line_break(at, columns);

        if (at != clean.at)
            printf("%*s", (int)indent, "");
        printf("%.*s\n", (int)bytes, at);
        at += bytes;
        at += strspn(at, " ");
    }
    if (clean.at == NULL || clean.at[0] == 0)
        putchar('\n');
    report_text_free(&clean);
}

/* How a state is called on the screen, and its colour. */
static const struct {
    const char *state, *shown, *color;
} states[] = {
    {"does not hold", "does not", "\x1b[1;31m"},
    {"cannot tell", "cannot tell", "\x1b[33m"},
    {"missing", "missing", "\x1b[33m"},
    {"holds", "holds", "\x1b[32m"},
};

static void put_state(const plumb_screen *screen, const char *state)
{
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (strcmp(states[i].state, state) == 0)
            printf("%s%-*s%s", screen->color ? states[i].color : "", STATE, states[i].shown,
                   screen->color ? "\x1b[0m" : "");
}

static void put_more(const plumb_screen *screen, const char *label, const char *words)
{
    printf("%*s%s: ", GUTTER, "", label);
    put_wrapped(screen, words, GUTTER + strlen(label) + 2);
}

/* What was seen, and of a gap, what it costs and how to close it; of what is not offered nothing was
 * seen.
 */
static void put_check(const plumb_screen *screen, const json_t *check)
{
    const char *state = text_of(check, "state"), *cost = text_of(check, "cost");
    const bool missing = strcmp(state, "missing") == 0;

    put_state(screen, state);
    printf("%-*s", NAME, text_of(check, "check"));
    put_wrapped(screen, missing ? cost : text_of(check, "text"), GUTTER);
    if (cost[0] != 0 && !missing)
        put_more(screen, "cost", cost);
    if (cost[0] != 0)
        put_more(screen, "close", text_of(check, "close"));
}

/* Which row is the first that needs it: there the others that need the same are named, too. */
static bool is_first(const json_t *lacks, size_t i)
{
    const char *needs = text_of(json_array_get(lacks, i), "needs");

    for (size_t k = 0; k < i; k++)
        if (strcmp(text_of(json_array_get(lacks, k), "needs"), needs) == 0)
            return false;
    return true;
}

/* "Not, for want of policy: numerics or not; the class." */
static void put_lacks(const plumb_screen *screen, const json_t *report)
{
    const json_t *lacks = json_object_get(report, "not");

    for (size_t i = 0; i < json_array_size(lacks); i++) {
        const char *needs = text_of(json_array_get(lacks, i), "needs");
        char text[600];

        if (!is_first(lacks, i))
            continue;
        plumb_print(text, sizeof text, "Not, for want of %s: ", needs);
        for (size_t k = i; k < json_array_size(lacks); k++)
            if (strcmp(text_of(json_array_get(lacks, k), "needs"), needs) == 0)
                plumb_append(text, sizeof text, "%s%s", k > i ? "; " : "",
                             text_of(json_array_get(lacks, k), "what"));
        plumb_append(text, sizeof text, ".");
        put_wrapped(screen, text, 0);
    }
}

static void show(const json_t *report)
{
    const plumb_screen screen = plumb_screen_for(stdout);
    const int code = (int)json_integer_value(json_object_get(report, "exit"));
    const json_t *check;
    size_t i;

    fputs(!screen.color ? "" : code == 0 ? "\x1b[1;32m" : "\x1b[1;33m", stdout);
    put_wrapped(&screen, text_of(report, "headline"), 0);
    fputs(screen.color ? "\x1b[0m" : "", stdout);
    if (code < CLI_CANNOT_TELL) {
        put_lacks(&screen, report);
        putchar('\n');
        json_array_foreach(json_object_get(report, "checks"), i, check)
            put_check(&screen, check);
    }
    printf("\nnext: ");
    cli_print_clean(stdout, text_of(report, "next"));
    putchar('\n');
}

/* --- the verb -------------------------------------------------------------------------- */

static int check_command(const values *asked, const char *const *command, const char *study)
{
    const plumb_launcher launcher = {.command = command,
                                     .kill_command = asked->kill_command,
                                     .grace_seconds = asked->grace,
                                     .silence_seconds = asked->silence,
                                     .start_seconds = asked->silence,
                                     .detached = asked->detached};
    const plumb_contract_settings settings = {
        .command = command, .seed = asked->seed.number, .grace = asked->grace};
    cli_progress progress = cli_progress_for(asked->quiet);
    plumb_study *opened = NULL;
    plumb_error why = {0};
    json_t *report = NULL;

    if (plumb_study_open(study, &launcher, &opened, &why) != PLUMB_OK)
        return cli_complain("%s", why.message);
    cli_catch_interrupts();
    const plumb_status status = plumb_contract_check(opened, &settings, cli_progress_show,
                                                     &progress, &report, &why);

    cli_progress_clear(&progress);
    plumb_study_close(&opened);
    if (status != PLUMB_OK)
        return cli_complain("%s", why.message);
    const int code = (int)json_integer_value(json_object_get(report, "exit"));

    if (asked->json)
        return cli_print_json(report) == CLI_HEALTHY ? code : CLI_USAGE;
    show(report);
    json_decref(report);
    return code;
}

static int run(const void *given, const cli_line *line)
{
    const values *asked = given;
    const char *const known[] = {"check"};
    const char *word = line->words.at[0];
    char study[4096], hint[PLUMB_HINT];

    if (strcmp(word, "check") != 0)
        return cli_complain("unknown question '%.60s' to a contract; allowed: check%s",
                            word, plumb_hint(word, known, 1, hint));
    if (line->command == NULL || line->command[0] == NULL)
        return cli_complain("'plumb contract check' needs '--' and a command");
    cli_contract_study(line->command, study, sizeof study);
    return check_command(asked, line->command, asked->study != NULL ? asked->study : study);
}

const cli_verb cli_contract = {
    .name = "contract",
    .usage = "contract check [options] -- COMMAND ARGS...",
    .summary = "Say in three steps what a diagnosis of your trainer can find.",
    .notes =
        "Up to twenty runs of three steps: itself, again, other seeds, in bf16, resumed,\n"
        "stopped.  For each gap: what it costs in the verdict, and how to close it\n"
        "(docs/contract-check.md).",
    .exits = "0 what it offers holds, 1 not all, 2 it logs no step, 3 usage",
    .words = "check",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .size = sizeof(values),
    .least_words = 1,
    .most_words = 1,
    .takes_command = true,
    .run = run,
};
