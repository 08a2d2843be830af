/* plumb report: a finished study, rendered again from its directory. */
#include "cli/cli.h"

#include "plumb/file.h"

#include <stdlib.h>

enum { VERDICT_LIMIT = 64 << 20 };

typedef struct values {
    bool json, no_html;
} values;

static const cli_option options[] = {
    {"json", 0, NULL, CLI_FLAG, offsetof(values, json), 0, 0, NULL,
     "print the verdict as JSON (docs/verdict.md)"},
    {"no-html", 0, NULL, CLI_FLAG, offsetof(values, no_html), 0, 0, NULL,
     "do not write STUDY/report.html"},
};

static int run(const void *given, const cli_line *line)
{
    const values *asked = given;
    const char *study = line->words.at[0];
    char *path = plumb_path_join(study, "verdict.json");
    json_t *verdict = NULL;
    plumb_error why = {0};
    int code;

    if (path == NULL)
        return cli_complain("out of memory");
    const plumb_status status = plumb_json_load(path, VERDICT_LIMIT, &verdict, &why);

    if (status == PLUMB_NOT_FOUND)
        code =
            cli_complain("%s: no verdict.json there; is it the directory of a study that "
                         "'plumb diagnose' has finished?",
                         study);
    else if (status != PLUMB_OK)
        code = cli_complain("%s", why.message);
    else
        code = cli_show_verdict(study, verdict, asked->json, !asked->no_html);
    json_decref(verdict);
    free(path);
    return code;
}

const cli_verb cli_report = {
    .name = "report",
    .usage = "report STUDY [options]",
    .summary = "Show the verdict of a study again and write its report.html anew.",
    .exits = "that of the verdict, as 'plumb diagnose' gave it",
    .words = "STUDY",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .size = sizeof(values),
    .least_words = 1,
    .most_words = 1,
    .run = run,
};
