/* plumb text: the default training text as one file, for trainers other than ours. */
#include "cli/cli.h"

#include "plumb/file.h"
#include "plumb/train.h"

#include <stdlib.h>

typedef struct values {
    const char *out, *wordnet;
} values;

static const cli_option options[] = {
    {"out", 'o', "FILE", CLI_TEXT, offsetof(values, out), 0, 0, NULL,
     "write it there instead of to standard output"},
    {"wordnet", 0, "DIR", CLI_TEXT, offsetof(values, wordnet), 0, 0, "/usr/share/wordnet",
     "where data.noun and its sisters lie"},
};

static int run(const void *given, const cli_line *line)
{
    const values *asked = given;
    plumb_error why = {0};
    char *text = NULL;
    size_t size = 0;
    int code = CLI_HEALTHY;

    (void)line;
    if (plumb_text_wordnet(asked->wordnet, &text, &size, &why) != PLUMB_OK)
        return cli_complain("%s", why.message);
    if (asked->out == NULL)
        fwrite(text, 1, size, stdout); /* cli_finish sees a failure */
    else if (plumb_file_write(asked->out, text, size, &why) != PLUMB_OK)
        code = cli_complain("%s", why.message);
    free(text);
    return code;
}

const cli_verb cli_text = {
    .name = "text",
    .usage = "text [--out FILE]",
    .summary = "Print the default text: the glosses of WordNet 3.0, one a line.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .size = sizeof(values),
    .run = run,
};
