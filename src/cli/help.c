/* plumb help, plumb version. */
#include "cli/cli.h"

static void print_verbs(void)
{
    printf("plumb finds out why an FP8 training run diverges, and proves the fix.\n\n"
           "usage: plumb COMMAND [options]\n\n");
    for (size_t i = 0; i < cli_verb_count; i++) {
        const cli_verb *verb = cli_verbs[i];

        if (!verb->hidden)
            printf("  %-10s%s\n", verb->name, verb->summary);
    }
    printf(
        "\n'plumb help COMMAND' shows the options of one.  Start with 'plumb demo'.\n"
        "Exit status: 0 healthy, 1 problem found, 2 cannot tell, 3 usage or bad input.\n"
        "PLUMB_CPU=baseline|avx2|avx512|avx512bf16|amx limits instructions; same results."
        "\n");
}

static int run_help(const void *values, const cli_line *line)
{
    (void)values;
    if (line->words.count == 0) {
        print_verbs();
        return CLI_HEALTHY;
    }
    const cli_verb *verb = cli_verb_find(line->words.at[0]);

    if (verb == NULL)
        return cli_unknown("COMMAND", line->words.at[0]);
    cli_print_help(stdout, verb);
    return CLI_HEALTHY;
}

const cli_verb cli_help = {
    .name = "help",
    .usage = "help [COMMAND]",
    .summary = "List the commands, or the options of one.",
    .words = "COMMAND",
    .most_words = 1,
    .run = run_help,
};

static int run_version(const void *values, const cli_line *line)
{
    (void)values, (void)line;
    printf("plumb %s\n", plumb_build_id());
    return CLI_HEALTHY;
}

const cli_verb cli_version = {
    .name = "version",
    .usage = "version",
    .summary = "Say which build this is.",
    .run = run_version,
};
