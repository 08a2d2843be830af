/* plumb man: manual pages in mdoc, from the tables that parsing and help come from. */
#include "cli/cli.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct values {
    const char *out;
} values;

static const cli_option options[] = {
    {"out", 'o', "DIR", CLI_TEXT, offsetof(values, out), 0, 0, NULL,
     "write all pages there, as plumb.1 and plumb-COMMAND.1"},
};

static const char everyday_exits[] =
    "0 healthy, 1 problem found, 2 cannot tell, 3 usage or bad input";

/* --- pieces of mdoc ------------------------------------------------------------------------ */

/* Text of one line; what mdoc would take for a request or an escape is made harmless. */
static void put_text(FILE *out, const char *text, size_t length)
{
    if (length > 0 && (text[0] == '.' || text[0] == '\''))
        fputs("\\&", out);
    for (size_t i = 0; i < length; i++)
        if (text[i] == '\\')
            fputs("\\e", out);
        else if (text[i] == '-') /* or it is no ASCII hyphen where people copy it */
            fputs("\\-", out);
        else
            fputc(text[i], out);
}

/* Lines, broken anew where a sentence ends, as mdoc wants it. */
static void put_lines(FILE *out, const char *text)
{
    while (*text != 0) {
        size_t n = strcspn(text, "\n");

        for (size_t i = 1; i + 1 < n; i++)
            if (text[i - 1] == '.' && text[i] == ' ' && text[i + 1] == ' ')
                n = i;
        put_text(out, text, n);
        fputc('\n', out);
        text += n;
        text += strspn(text, " \n");
    }
}

static void put_head(FILE *out, const char *page, const char *what)
{
    size_t length = strlen(what);

    fputs(".Dd November 29, 2026\n.nh\n.Dt ", out);
    for (const char *c = page; *c != 0; c++)
        fputc(toupper((unsigned char)*c), out);
    fprintf(out, " 1\n.Os plumb\n.Sh NAME\n.Nm %s\n.Nd ", page);
    length -= length > 0 && what[length - 1] == '.';
    fputc(tolower((unsigned char)what[0]), out);
    put_text(out, what + 1, length - 1);
    fputc('\n', out);
}

/* "0 healthy, 1 problem found" as a list; text that begins otherwise as it stands. */
static void put_exits(FILE *out, const char *exits)
{
    fputs(".Sh EXIT STATUS\n", out);
    if (!isdigit((unsigned char)exits[0])) {
        put_text(out, exits, strlen(exits));
        fputs(".\n", out);
        return;
    }
    fputs(".Bl -tag -width Ds -compact\n", out);
    while (*exits != 0) {
        size_t n = 0;

        while (exits[n] != 0 && !(exits[n] == ',' && isdigit((unsigned char)exits[n + 2])))
            n++;
        fprintf(out, ".It %c\n", exits[0]);
        if (n > 2)
            put_text(out, exits + 2, n - 2);
        else
            fputs("as asked", out);
        fputs(".\n", out);
        exits += n + (exits[n] == ',' ? 2 : 0);
    }
    fputs(".El\n", out);
}

/* --- a page of a verb ---------------------------------------------------------------------- */

static void put_option(FILE *out, const cli_option *option)
{
    fputs(".It ", out);
    if (option->letter != 0)
        fprintf(out, "Fl %c , ", option->letter);
    fprintf(out, "Fl -%s", option->name);
    if (option->argument != NULL)
        fprintf(out, " Ar %s", option->argument);
    fputc('\n', out);
    put_text(out, option->help, strlen(option->help));
    if (option->fallback != NULL)
        fprintf(out, " [%s]", option->fallback);
    fputc('\n', out);
}

static void put_settings(FILE *out, const cli_verb *verb)
{
    size_t count;
    const plumb_setting *table = verb->settings(&count);

    fputs(".Sh SETTINGS\nKeys of a run file and of\n.Fl -set .\n"
          "A range stands in parentheses, the default in brackets.\n"
          ".Bl -tag -width Ds\n",
          out);
    for (size_t i = 0; i < count; i++) {
        char *words = plumb_settings_describe(&table[i], 1);
        const char *text = words != NULL ? words + 2 + strlen(table[i].key) : "";

        fprintf(out, ".It Va %s\n", table[i].key);
        for (text += strspn(text, " \n"); *text != 0; text += strspn(text, " \n")) {
            const size_t n = strcspn(text, "\n");

            put_text(out, text, n);
            fputc('\n', out);
            text += n;
        }
        free(words);
    }
    fputs(".El\n", out);
}

static void put_synopsis(FILE *out, const char *usage)
{
    fputs(".Sh SYNOPSIS\n", out);
    while (*usage != 0) {
        const size_t n = strcspn(usage, "\n");

        fputs(".Nm plumb\n", out);
        put_text(out, usage, n);
        fputc('\n', out);
        usage += n + (usage[n] == '\n');
    }
}

static void put_verb(FILE *out, const cli_verb *verb)
{
    char page[64];

    plumb_print(page, sizeof page, "plumb-%s", verb->name);
    put_head(out, page, verb->summary);
    put_synopsis(out, verb->usage);
    fputs(".Sh DESCRIPTION\n", out);
    put_lines(out, verb->summary);
    if (verb->notes != NULL) {
        fputs(".Pp\n", out);
        put_lines(out, verb->notes);
    }
    if (verb->option_count > 0)
        fputs(".Pp\nThe options are as follows, with their defaults in brackets:\n"
              ".Bl -tag -width Ds\n",
              out);
    for (size_t i = 0; i < verb->option_count; i++)
        put_option(out, &verb->options[i]);
    if (verb->option_count > 0)
        fputs(".El\n", out);
    if (verb->settings != NULL)
        put_settings(out, verb);
    put_exits(out, verb->exits != NULL ? verb->exits : everyday_exits);
    fputs(".Sh SEE ALSO\n.Xr plumb 1\n", out);
}

/* --- the page of the program --------------------------------------------------------------- */

static const char introduction[] =
    ".Sh SYNOPSIS\n.Nm plumb\n.Ar COMMAND\n.Op options\n"
    ".Sh DESCRIPTION\n"
    ".Nm\n"
    "finds out why a training run in 8-bit floating point diverges, and proves\n"
    "the fix.\n"
    "It runs the training again with parts of its arithmetic put back to bf16,\n"
    "until it knows the least change that heals, and then shows that the failure\n"
    "comes back when that change is taken out.\n"
    "Each command has a page of its own:\n"
    ".Bl -tag -width plumb-footprint\n";

static const char environment[] =
    ".Sh ENVIRONMENT\n"
    ".Bl -tag -width PLUMB_CPU\n"
    ".It Ev PLUMB_CPU\n"
    "Limits the instructions that are used: baseline, avx2, avx512 or avx512bf16.\n"
    "The results are the same.\n"
    ".It Ev NO_COLOR , Ev COLUMNS\n"
    "As everywhere.\n"
    ".El\n"
    ".Sh FILES\n"
    ".Bl -tag -width Ds\n"
    ".It Pa plumb-out/study-NAME\n"
    "Where a diagnosis keeps its runs, verdict.json and report.html.\n"
    ".El\n";

static const char examples[] = ".Sh EXAMPLES\n"
                               "A shipped run with a planted fault, found and healed:\n"
                               ".Dl plumb demo\n"
                               ".Pp\n"
                               "Any trainer that keeps the run contract:\n"
                               ".Dl plumb diagnose \\-\\- python3 train.py\n"
                               ".Pp\n"
                               "What a word in a verdict means:\n"
                               ".Dl plumb explain stale scale\n";

static void put_program(FILE *out)
{
    put_head(out, "plumb", "find out why an FP8 training run diverges, and prove the fix");
    fputs(introduction, out);
    for (size_t i = 0; i < cli_verb_count; i++) {
        fprintf(out, ".It Xr plumb-%s 1\n", cli_verbs[i]->name);
        put_lines(out, cli_verbs[i]->summary);
    }
    fputs(".El\n", out);
    fputs(environment, out);
    put_exits(out, everyday_exits);
    fputs(examples, out);
}

/* --- the verb ------------------------------------------------------------------------------ */

/* verb NULL: the page of the program. */
static int write_page(const char *directory, const cli_verb *verb)
{
    char path[4096];

    plumb_print(path, sizeof path, "%s/plumb%s%s.1", directory, verb != NULL ? "-" : "",
                verb != NULL ? verb->name : "");
    FILE *out = fopen(path, "w");

    if (out == NULL)
        return cli_complain("%s: cannot be written", path);
    if (verb != NULL)
        put_verb(out, verb);
    else
        put_program(out);
    const bool failed = ferror(out) != 0;

    if (fclose(out) != 0 || failed)
        return cli_complain("%s: cannot be written", path);
    return CLI_HEALTHY;
}

static int write_all(const char *directory)
{
    plumb_error why;
    int code = CLI_HEALTHY;

    if (plumb_dir_make(directory, &why) != PLUMB_OK)
        return cli_complain("%s", why.message);
    code = write_page(directory, NULL);
    for (size_t i = 0; code == CLI_HEALTHY && i < cli_verb_count; i++)
        code = write_page(directory, cli_verbs[i]);
    return code;
}

static int run(const void *given, const cli_line *line)
{
    const values *asked = given;
    const cli_verb *verb = NULL;

    if (asked->out != NULL)
        return write_all(asked->out);
    if (line->words.count > 0) {
        verb = cli_verb_find(line->words.at[0]);
        if (verb == NULL)
            return cli_unknown("COMMAND", line->words.at[0]);
        put_verb(stdout, verb);
    } else {
        put_program(stdout);
    }
    return CLI_HEALTHY;
}

const cli_verb cli_man = {
    .name = "man",
    .usage = "man [COMMAND] [--out DIR]",
    .summary = "Print the manual page of plumb or of one command, in mdoc.",
    .notes = "To read one that is not installed: plumb man train | man -l -",
    .words = "COMMAND",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .size = sizeof(values),
    .most_words = 1,
    .hidden = true,
    .run = run,
};
