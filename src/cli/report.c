/* plumb report: a finished study, or one run, rendered from its directory. */
#include "cli/cli.h"

#include "plumb/file.h"
#include "plumb/report.h"

#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERDICT_LIMIT = 64 << 20 };

extern char **environ;

typedef struct values {
    bool json, no_html, open, tensorboard;
} values;

static const cli_option options[] = {
    {"open", 0, NULL, CLI_FLAG, offsetof(values, open), 0, 0, NULL,
     "show the page in the browser (xdg-open)"},
    {"tensorboard", 0, NULL, CLI_FLAG, offsetof(values, tensorboard), 0, 0, NULL,
     "write event files for TensorBoard into DIR/tensorboard"},
    {"json", 0, NULL, CLI_FLAG, offsetof(values, json), 0, 0, NULL,
     "print the verdict as JSON (docs/verdict.md)"},
    {"no-html", 0, NULL, CLI_FLAG, offsetof(values, no_html), 0, 0, NULL,
     "do not write DIR/report.html"},
};

/* The browser stays when plumb ends, and what it prints is not the reader's concern. */
static void open_page(const char *directory)
{
    char here[4096], *page = plumb_path_join(directory, "report.html"), *full = NULL;
    posix_spawn_file_actions_t quiet;
    pid_t child;
    int failed = 1;

    /* An absolute path is never taken for an option. */
    if (page != NULL && getcwd(here, sizeof here) != NULL)
        full = plumb_path_join(page[0] == '/' ? "" : here, page);
    if (full != NULL && posix_spawn_file_actions_init(&quiet) == 0) {
        char *const command[] = {(char[]){"xdg-open"}, full, NULL};

        posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", 1, 0);
        posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", 1, 0);
        failed = posix_spawnp(&child, command[0], &quiet, NULL, command, environ);
        posix_spawn_file_actions_destroy(&quiet);
    }
    if (failed != 0)
        cli_complain("xdg-open could not be started; open %s by hand",
                     page != NULL ? page : "report.html");
    free(full);
    free(page);
}

static void say_path(const char *what, const char *path)
{
    printf("%s: ", what);
    cli_print_clean(stdout, path);
    fputc('\n', stdout);
}

/* Event files; verdict NULL for one run.  A failure is told and makes the exit status 3. */
static int export(const char *directory, const json_t *verdict, const values *asked,
                  int code)
{
    plumb_error why = {0};
    char path[4096];

    if (!asked->tensorboard)
        return code;
    const plumb_status status =
        verdict == NULL ? plumb_report_run_tensorboard(directory, path, &why)
                        : plumb_report_tensorboard(directory, verdict, path, &why);
    if (status != PLUMB_OK)
        return cli_complain("%s", why.message);
    if (!asked->json)
        say_path("tensorboard", path);
    return code;
}

/* One run: there is no verdict.json, and none is written. */
static int show_run(const char *directory, const values *asked)
{
    const plumb_screen screen = plumb_screen_for(stdout);
    json_t *verdict = NULL;
    plumb_error why = {0};
    char path[4096] = "";

    if (plumb_report_run(directory, &verdict, &why) != PLUMB_OK)
        return cli_complain("%s", why.message);
    if (!asked->no_html &&
        plumb_report_run_html(directory, verdict, path, &why) != PLUMB_OK) {
        cli_complain("%s", why.message); /* the screen can still be shown */
        path[0] = 0;
    }
    const int code = (int)json_integer_value(json_object_get(verdict, "exit"));
    if (asked->json) {
        cli_print_json(verdict);
        return export(directory, NULL, asked, code);
    }
    const plumb_status status = plumb_report_terminal(&screen, verdict, &why);
    json_decref(verdict);
    if (status != PLUMB_OK && !ferror(stdout))
        return cli_complain("%s", why.message);
    if (path[0] != 0)
        say_path("report", path);
    return export(directory, NULL, asked, code);
}

static int show(const char *directory, const values *asked)
{
    char *path = plumb_path_join(directory, "verdict.json");
    json_t *verdict = NULL;
    plumb_error why = {0};
    int code;

    if (path == NULL)
        return cli_complain("out of memory");
    const plumb_status status = plumb_json_load(path, VERDICT_LIMIT, &verdict, &why);

    if (status == PLUMB_NOT_FOUND)
        code = show_run(directory, asked);
    else if (status != PLUMB_OK)
        code = cli_complain("%s", why.message);
    else
        code = export(directory, verdict, asked,
                      cli_show_verdict(directory, verdict, asked->json, !asked->no_html));
    json_decref(verdict);
    free(path);
    return code;
}

static int run(const void *given, const cli_line *line)
{
    const values *asked = given;
    const char *directory = line->words.at[0];

    if (asked->open && asked->no_html)
        return cli_complain("--open shows the page that --no-html does not write");
    const int code = show(directory, asked);
    if (asked->open && code != CLI_USAGE)
        open_page(directory);
    return code;
}

const cli_verb cli_report = {
    .name = "report",
    .usage = "report DIR [options]",
    .summary = "Show a study's verdict again, or one run; write DIR/report.html.",
    .notes = "DIR is the directory of a study or of a run, also of one that goes on.",
    .exits = "as 'plumb diagnose'; of a run 0 reached, 1 fails, 2 neither",
    .words = "DIR",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .size = sizeof(values),
    .least_words = 1,
    .most_words = 1,
    .run = run,
};
