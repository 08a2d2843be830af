/* From argv to the values of a verb's options table, and from the table to its help.
 *
 * Options may stand before, between and after other arguments, as --name VALUE,
 * --name=VALUE, -n VALUE.  "--" ends them; what follows is a command and is left
 * alone, or words if the verb takes no command.
 */
#include "cli/cli.h"

#include "file/text.h"
#include "plumb/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_OPTIONS = 32, HELP_WIDTH = 79 };

static plumb_status out_of_memory(plumb_error *why)
{
    return plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
}

static bool words_push(cli_words *words, const char *word)
{
    const char **grown = realloc(words->at, (words->count + 1) * sizeof *grown);

    if (grown == NULL)
        return false;
    grown[words->count++] = word;
    words->at = grown;
    return true;
}

/* --- finding ------------------------------------------------------------------------ */

static const cli_option help_option = {.name = "help", .letter = 'h', .kind = CLI_FLAG};

const cli_option *cli_option_find(const cli_verb *verb, const char *name, size_t length)
{
    for (size_t i = 0; i < verb->option_count; i++) {
        const cli_option *option = &verb->options[i];

        if (strlen(option->name) == length && memcmp(option->name, name, length) == 0)
            return option;
    }
    return length == 4 && memcmp(name, "help", 4) == 0 ? &help_option : NULL;
}

const cli_option *cli_option_letter(const cli_verb *verb, char letter)
{
    for (size_t i = 0; i < verb->option_count; i++)
        if (verb->options[i].letter == letter)
            return &verb->options[i];
    return letter == 'h' ? &help_option : NULL;
}

static plumb_status unknown_option(const cli_verb *verb, const char *word, size_t length,
                                   plumb_error *why)
{
    const char *names[MOST_OPTIONS];
    char name[64];
    size_t count = 0;

    for (; count < verb->option_count && count < MOST_OPTIONS - 1; count++)
        names[count] = verb->options[count].name;
    names[count++] = help_option.name;
    plumb_print(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), word);
    const char *nearest = plumb_nearest(name, names, count);

    if (nearest != NULL)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "unknown option '--%s' of 'plumb %s'; did you mean '--%s'?", name,
                          verb->name, nearest);
    return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                      "unknown option '--%s'; 'plumb %s --help' lists them", name,
                      verb->name);
}

/* --- values ------------------------------------------------------------------------- */

/* "--seeds is '0'; allowed: a whole number, 1 to 100" */
static plumb_status out_of_range(const cli_option *option, const char *text,
                                 const char *kind, plumb_error *why)
{
    char least[PLUMB_REAL_TEXT], most[PLUMB_REAL_TEXT];

    plumb_text_from_limit(option->least, least);
    plumb_text_from_limit(option->most, most);
    return plumb_fail(why, PLUMB_BAD_ARGUMENT, "--%s is '%.60s'; allowed: %s, %s to %s",
                      option->name, text, kind, least, most);
}

static plumb_status store_int(const cli_option *option, const char *text, int64_t *value,
                              plumb_error *why)
{
    char *end;

    errno = 0;
    const long long number = strtoll(text, &end, 10);

    if (end == text || *end != 0 || errno != 0 || (double)number < option->least ||
        (double)number > option->most)
        return out_of_range(option, text, "a whole number", why);
    *value = number;
    return PLUMB_OK;
}

static plumb_status store_seed(const cli_option *option, const char *text, cli_seed *value,
                               plumb_error *why)
{
    char *end;

    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);

    if (strchr("0123456789", text[0]) == NULL || end == text || *end != 0 || errno != 0)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "--%s is '%.60s'; allowed: a whole number, 0 to 2^64 - 1",
                          option->name, text);
    *value = (cli_seed){.number = number, .given = true};
    return PLUMB_OK;
}

/* One of "nt|nn|tn". */
static plumb_status store_choice(const cli_option *option, const char *text,
                                 const char **value, plumb_error *why)
{
    const size_t length = strlen(text);
    char allowed[200] = "";

    for (const char *at = option->argument; *at != 0;) {
        const size_t n = strcspn(at, "|");

        if (n == length && memcmp(at, text, n) == 0) {
            *value = text;
            return PLUMB_OK;
        }
        plumb_append(allowed, sizeof allowed, "%s%.*s", at > option->argument ? ", " : "",
                     (int)n, at);
        at += n + (at[n] == '|');
    }
    return plumb_fail(why, PLUMB_BAD_ARGUMENT, "--%s is '%.60s'; allowed: %s", option->name,
                      text, allowed);
}

/* Decimal only: strtod alone would let hexadecimal, "inf" and "nan" pass. */
static plumb_status store_real(const cli_option *option, const char *text, double *value,
                               plumb_error *why)
{
    char *end;
    const double number = strtod(text, &end);

    if (strspn(text, "0123456789+-.eE") != strlen(text) || end == text || *end != 0 ||
        !(number >= option->least && number <= option->most))
        return out_of_range(option, text, "a number", why);
    *value = number;
    return PLUMB_OK;
}

static plumb_status store(const cli_option *option, const char *text, void *values,
                          plumb_error *why)
{
    void *at = (char *)values + option->offset;

    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)at = true;
        return PLUMB_OK;
    case CLI_TEXT:
        *(const char **)at = text;
        return PLUMB_OK;
    case CLI_CHOICE:
        return store_choice(option, text, at, why);
    case CLI_LIST:
        return words_push(at, text) ? PLUMB_OK : out_of_memory(why);
    case CLI_INT:
        return store_int(option, text, at, why);
    case CLI_SEED:
        return store_seed(option, text, at, why);
    case CLI_REAL:
        return store_real(option, text, at, why);
    }
    return PLUMB_BAD_ARGUMENT;
}

/* --- parsing ------------------------------------------------------------------------ */

/* One option at **argv, and its value, which may be the next argument. */
static plumb_status parse_option(const cli_verb *verb, char *const **argv, void *values,
                                 bool *help, plumb_error *why)
{
    const char *word = **argv, *value = NULL;
    const cli_option *option;

    if (word[1] == '-') {
        const size_t length = strcspn(word + 2, "=");

        option = cli_option_find(verb, word + 2, length);
        if (option == NULL)
            return unknown_option(verb, word + 2, length, why);
        value = word[2 + length] == '=' ? word + 3 + length : NULL;
    } else {
        option = cli_option_letter(verb, word[1]);
        if (option == NULL)
            return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                              "unknown option '%.60s'; 'plumb %s --help' lists them", word,
                              verb->name);
        value = word[2] != 0 ? word + 2 : NULL;
    }
    if (option->kind == CLI_FLAG && value != NULL)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "--%s takes no value, got '%.60s'",
                          option->name, value);
    if (option == &help_option) {
        *help = true;
        return PLUMB_OK;
    }
    if (option->kind != CLI_FLAG && value == NULL) {
        if ((*argv)[1] == NULL)
            return plumb_fail(why, PLUMB_BAD_ARGUMENT, "--%s needs a value: %s",
                              option->name, option->argument);
        value = *++*argv;
    }
    return store(option, value, values, why);
}

static plumb_status check_words(const cli_verb *verb, const cli_line *line,
                                plumb_error *why)
{
    const size_t count = line->words.count;

    if (count > verb->most_words)
        return plumb_fail(
            why, PLUMB_BAD_ARGUMENT,
            "'%.60s' is one argument too many; 'plumb %s --help' shows the use",
            line->words.at[verb->most_words], verb->name);
    if (count < verb->least_words)
        return plumb_fail(
            why, PLUMB_BAD_ARGUMENT, "'plumb %s' needs %s; 'plumb %s --help' shows the use",
            verb->name, verb->least_words == 1 ? "an argument" : "more arguments",
            verb->name);
    return PLUMB_OK;
}

/* "-" alone names standard input elsewhere; a verb may take negative numbers as words. */
static bool is_option(const cli_verb *verb, const char *word)
{
    if (word[0] != '-' || word[1] == 0)
        return false;
    return !verb->negative_words ||
           (strchr("0123456789.", word[1]) == NULL && strncasecmp(word, "-inf", 4) != 0 &&
            strcasecmp(word, "-nan") != 0);
}

static plumb_status parse_words(const cli_verb *verb, char *const *argv, void *values,
                                cli_line *line, bool *help, plumb_error *why)
{
    plumb_status status = PLUMB_OK;
    bool ended = false; /* by "--" */

    for (; *argv != NULL && !*help; argv++) {
        if (!ended && strcmp(*argv, "--") == 0) {
            line->command = verb->takes_command ? (const char *const *)argv + 1 : NULL;
            if (verb->takes_command)
                return PLUMB_OK;
            ended = true;
        } else if (!ended && is_option(verb, *argv)) {
            status = parse_option(verb, &argv, values, help, why);
        } else {
            status = words_push(&line->words, *argv) ? PLUMB_OK : out_of_memory(why);
        }
        if (status != PLUMB_OK)
            return status;
    }
    return PLUMB_OK;
}

plumb_status cli_parse(const cli_verb *verb, char *const *argv, void *values,
                       cli_line *line, bool *help, plumb_error *why)
{
    plumb_status status = PLUMB_OK;

    memset(values, 0, verb->size);
    *line = (cli_line){0};
    *help = false;
    for (size_t i = 0; i < verb->option_count && status == PLUMB_OK; i++)
        if (verb->options[i].fallback != NULL)
            status = store(&verb->options[i], verb->options[i].fallback, values, why);
    if (status == PLUMB_OK)
        status = parse_words(verb, argv, values, line, help, why);
    if (status == PLUMB_OK && !*help)
        status = check_words(verb, line, why);
    return status;
}

void cli_free(const cli_verb *verb, void *values, cli_line *line)
{
    for (size_t i = 0; i < verb->option_count; i++)
        if (verb->options[i].kind == CLI_LIST) {
            cli_words *words = (void *)((char *)values + verb->options[i].offset);

            free(words->at);
            *words = (cli_words){0};
        }
    free(line->words.at);
    *line = (cli_line){0};
}

/* --- help --------------------------------------------------------------------------- */

static int left_column(const cli_option *option, char *text, size_t size)
{
    char letter[8] = "";

    if (option->letter != 0)
        plumb_print(letter, sizeof letter, "-%c, ", option->letter);
    plumb_print(text, size, "  %s--%s%s%s", letter, option->name,
                option->argument != NULL ? " " : "",
                option->argument != NULL ? option->argument : "");
    return (int)strlen(text);
}

void cli_print_help(FILE *out, const cli_verb *verb)
{
    const char *usage = verb->usage;
    char left[HELP_WIDTH];
    int width = 0;

    for (const char *lead = "usage: plumb "; *usage != 0; lead = "       plumb ") {
        const int length = (int)strcspn(usage, "\n");

        fprintf(out, "%s%.*s\n", lead, length, usage);
        usage += length + (usage[length] == '\n');
    }
    fprintf(out, "\n%s\n", verb->summary);
    for (size_t i = 0; i < verb->option_count; i++) {
        const int length = left_column(&verb->options[i], left, sizeof left);

        width = length > width ? length : width;
    }
    for (size_t i = 0; i < verb->option_count; i++) {
        const cli_option *option = &verb->options[i];

        left_column(option, left, sizeof left);
        fprintf(out, "%s%-*s  %s", i == 0 ? "\n" : "", width, left, option->help);
        if (option->fallback != NULL)
            fprintf(out, " [%s]", option->fallback);
        fputc('\n', out);
    }
    if (verb->notes != NULL || verb->exits != NULL)
        fputc('\n', out);
    if (verb->notes != NULL)
        fprintf(out, "%s\n", verb->notes);
    if (verb->exits != NULL)
        fprintf(out, "Exit status: %s.\n", verb->exits);
}
