/* JSON on the screen; a verdict on the screen and in report.html, and its exit code. */
#include "cli/cli.h"

#include "plumb/report.h"

static int exit_code(const json_t *verdict)
{
    const json_t *code = json_object_get(verdict, "exit");

    if (!json_is_integer(code) || json_integer_value(code) < CLI_HEALTHY ||
        json_integer_value(code) > CLI_USAGE)
        return cli_complain("verdict.json: 'exit' must be 0, 1, 2 or 3");
    return (int)json_integer_value(code);
}

static bool print_json(const json_t *json)
{
    const bool good = json_dumpf(json, stdout, JSON_INDENT(1) | JSON_ENSURE_ASCII) == 0;

    return fputc('\n', stdout) != EOF && good;
}

int cli_print_json(json_t *json)
{
    if (json == NULL)
        return cli_complain("a name that is not UTF-8 cannot be printed as JSON");
    print_json(json);
    json_decref(json);
    return CLI_HEALTHY;
}

int cli_show_verdict(const char *study, const json_t *verdict, bool json, bool html)
{
    const plumb_screen screen = plumb_screen_for(stdout);
    plumb_error why = {0};
    char path[4096] = "";

    if (!json_is_object(verdict))
        return cli_complain("%s/verdict.json: not a JSON object", study);
    if (html && plumb_report_html(study, verdict, path, &why) != PLUMB_OK) {
        cli_complain("%s", why.message); /* the screen can still be shown */
        path[0] = 0;
    }
    if (json) {
        print_json(verdict); /* cli_finish sees a failure */
        return exit_code(verdict);
    }
    if (plumb_report_terminal(&screen, verdict, &why) != PLUMB_OK && !ferror(stdout))
        return cli_complain("%s", why.message);
    if (path[0] != 0) {
        fputs("report: ", stdout);
        cli_print_clean(stdout, path);
        fputc('\n', stdout);
    }
    return exit_code(verdict);
}
