/* plumb train: one run of the built-in trainer, by the run contract. */
#include "cli/cli.h"

#include "plumb/train.h"

#include <stdlib.h>
#include <string.h>

typedef struct values {
    cli_words set;
    const char *out;
    bool settings;
} values;

static const cli_option options[] = {
    {"set", 's', "KEY=VALUE", CLI_LIST, offsetof(values, set), 0, 0, NULL,
     "override a setting; may be given several times"},
    {"out", 'o', "DIR", CLI_TEXT, offsetof(values, out), 0, 0, NULL,
     "the run directory; as --set out=DIR"},
    {"settings", 0, NULL, CLI_FLAG, offsetof(values, settings), 0, 0, NULL,
     "list every setting with its default and range"},
};

static int print_settings(void)
{
    char *text = plumb_train_describe();

    if (text == NULL)
        return cli_complain("out of memory");
    fputs(text, stdout);
    free(text);
    return CLI_HEALTHY;
}

static int train(const values *given, const char *path)
{
    const size_t count = given->set.count + (given->out != NULL);
    const char **overrides = calloc(count + 1, sizeof *overrides);
    char out[4096 + 8];
    plumb_error why = {0};

    if (overrides == NULL)
        return cli_complain("out of memory");
    if (given->set.count > 0)
        memcpy(overrides, given->set.at, given->set.count * sizeof *overrides);
    if (given->out != NULL) {
        plumb_print(out, sizeof out, "out=%s", given->out);
        overrides[given->set.count] = out;
    }
    const int code = plumb_train_main(path, overrides, count, &why);

    if (code != 0 && why.message[0] != 0)
        cli_complain("%s", why.message);
    free(overrides);
    return code;
}

static int run(const void *given, const cli_line *line)
{
    const values *asked = given;

    if (asked->settings)
        return print_settings();
    if (line->command != NULL)
        return cli_complain("'plumb train' runs the built-in trainer; it takes no command "
                            "after '--'");
    if (asked->out != NULL && (asked->out[0] == 0 || strlen(asked->out) > 4096))
        return cli_complain("--out must name a directory in at most 4096 bytes");
    return train(asked, line->words.count > 0 ? line->words.at[0] : NULL);
}

const cli_verb cli_train = {
    .name = "train",
    .usage = "train [RUN.yaml] [--set KEY=VALUE]... [--out DIR]",
    .summary = "Run the built-in trainer once: a small, exact laboratory.",
    .notes =
        "Without RUN.yaml every setting has its default.  Under 'plumb diagnose' the run\n"
        "contract's environment says where the run goes and what is asked of it.\n"
        "Exit status: 0 ended as asked, 1 error of its own, 3 cannot be done as asked.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .size = sizeof(values),
    .most_words = 1,
    .run = run,
};
