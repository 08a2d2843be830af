/* plumb completion: what the shell functions in cli/shell ask, and those functions themselves.
 *
 * `plumb completion -- WORD...` prints what can stand in the place of the last word (it may be
 * empty, and only what begins with it comes), one a line, with a tab and a few words about it
 * where there are some.  ":file" and ":dir" ask the shell to add files or directories.
 */
#include "cli/cli.h"

#include "plumb/train.h"
#include "quant/spec.h"

#include <string.h>

#include "cli/embedded/shell_bash.h"
#include "cli/embedded/shell_fish.h"
#include "cli/embedded/shell_zsh.h"

/* The word to complete, and what of it stands before the part that is looked up. */
typedef struct place {
    const char *typed;
    int lead; /* bytes of typed: "--spec=" */
} place;

static void offer(const place *p, const char *word, const char *end, const char *about)
{
    const char *part = p->typed + p->lead;

    if (strncmp(word, part, strlen(part)) != 0)
        return;
    printf("%.*s%s%s", p->lead, p->typed, word, end);
    if (about != NULL)
        printf("\t%s", about);
    putchar('\n');
}

static void offer_vocabulary(const place *p, const cli_vocabulary *vocabulary,
                             const char *end)
{
    const char *about = NULL, *word;

    for (size_t i = 0; (word = vocabulary->nth(i, &about)) != NULL; i++)
        offer(p, word, end, about);
}

static void offer_value(const place *p, const char *argument);

/* Values of settings that are no plain numbers, as arguments of options are named. */
static const char *argument_of(const char *key)
{
    static const char *const known[][2] = {
        {"recipe", "RECIPE"}, {"data", "FILE"}, {"out", "DIR"}};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i][0], key) == 0)
            return known[i][1];
    return "VALUE";
}

static void offer_choices(const place *p, const char *choices)
{
    char word[80];

    for (const char *at = choices; *at != 0;) {
        const size_t n = strcspn(at, " ");

        plumb_print(word, sizeof word, "%.*s", (int)n, at);
        offer(p, word, "", NULL);
        at += n + (at[n] == ' ');
    }
}

/* "model.wi", or "recipe=te". */
static void offer_setting(const place *p)
{
    const char *part = p->typed + p->lead;
    const size_t length = strcspn(part, "=");
    const place value = {p->typed, p->lead + (int)length + 1};
    size_t count;
    const plumb_setting *table = plumb_train_settings(&count);

    if (part[length] == 0) {
        offer_vocabulary(p, cli_vocabulary_find("SETTING", 7), "=");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (strlen(table[i].key) != length || memcmp(table[i].key, part, length) != 0)
            continue;
        if (table[i].choices != NULL)
            offer_choices(&value, table[i].choices);
        else if (table[i].type == PLUMB_SETTING_BOOL)
            offer_choices(&value, "true false");
        else
            offer_value(&value, argument_of(table[i].key));
    }
}

/* "e4" or, behind a colon, "e4m3:cur". */
static void offer_spec(const place *p)
{
    const char *part = p->typed + p->lead, *colon = strrchr(part, ':'), *word;
    const place attribute = {p->typed, colon != NULL ? (int)(colon + 1 - p->typed) : 0};

    if (colon == NULL)
        offer_vocabulary(p, cli_vocabulary_find("FORMAT", 6), "");
    for (size_t i = 0; colon != NULL && (word = plumb_spec_word(i)) != NULL; i++)
        offer(&attribute, word, "", NULL);
}

/* One alternative of an argument; see cli_option. */
static void offer_alternative(const place *p, const char *name, size_t length)
{
    const cli_vocabulary *vocabulary = cli_vocabulary_find(name, length);
    char word[80];

    plumb_print(word, sizeof word, "%.*s", (int)length, name);
    if (vocabulary != NULL)
        offer_vocabulary(p, vocabulary, "");
    else if (strcmp(word, "KEY=VALUE") == 0)
        offer_setting(p);
    else if (strcmp(word, "SPEC") == 0)
        offer_spec(p);
    else if (strcmp(word, "DIR") == 0 || strcmp(word, "STUDY") == 0)
        puts(":dir");
    else if (strcmp(word, "FILE") == 0 || strchr(word, '.') != NULL)
        puts(":file");
    else if (word[0] >= 'a' && word[0] <= 'z')
        offer(p, word, "", NULL);
}

static void offer_value(const place *p, const char *argument)
{
    while (*argument != 0) {
        const size_t n = strcspn(argument, "|");

        offer_alternative(p, argument, n);
        argument += n + (argument[n] == '|');
    }
}

static void offer_options(const cli_verb *verb, const place *p)
{
    char name[64];

    for (size_t i = 0; i < verb->option_count; i++) {
        plumb_print(name, sizeof name, "--%s", verb->options[i].name);
        offer(p, name, "", verb->options[i].help);
    }
    offer(p, "--help", "", "show the options");
}

/* The argument number `index`: "A.npy B.npy", "FORMAT NUMBER...". */
static void offer_word(const cli_verb *verb, const place *p, size_t index)
{
    const char *at = verb->words != NULL ? verb->words : "";
    char name[80];

    for (;; index--) {
        const size_t n = strcspn(at, " ");
        const bool last = at[n] == 0, repeats = n > 3 && strcmp(at + n - 3, "...") == 0;

        if (index == 0 || (last && repeats)) {
            plumb_print(name, sizeof name, "%.*s", (int)(repeats ? n - 3 : n), at);
            offer_value(p, name);
            return;
        }
        if (last)
            return;
        at += n + 1;
    }
}

/* --- where the last word stands ------------------------------------------------------------ */

/* The option that takes the word after this one as its value; NULL if it takes none. */
static const cli_option *wants_value(const cli_verb *verb, const char *word)
{
    const cli_option *option = NULL;

    if (word[0] == '-' && word[1] == '-' && strchr(word, '=') == NULL)
        option = cli_option_find(verb, word + 2, strlen(word + 2));
    else if (word[0] == '-' && word[1] != 0 && word[2] == 0)
        option = cli_option_letter(verb, word[1]);
    return option != NULL && option->kind != CLI_FLAG ? option : NULL;
}

static void offer_last(const cli_verb *verb, const char *word, size_t index)
{
    const char *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;

    if (equals != NULL) {
        const cli_option *option =
            cli_option_find(verb, word + 2, (size_t)(equals - word - 2));
        const place value = {word, (int)(equals + 1 - word)};

        if (option != NULL && option->kind != CLI_FLAG)
            offer_value(&value, option->argument);
        return;
    }
    const place whole = {word, 0};

    if (word[0] == '-')
        offer_options(verb, &whole);
    else
        offer_word(verb, &whole, index);
}

/* words follow the verb; there is at least one. */
static void complete_in(const cli_verb *verb, const char *const *words)
{
    const cli_option *wanting = NULL;
    size_t index = 0;

    for (; words[1] != NULL; words++) {
        if (wanting == NULL && strcmp(*words, "--") == 0) {
            puts(":file"); /* of a command, or words that begin with '-' */
            return;
        }
        index += wanting == NULL && (*words)[0] != '-';
        wanting = wanting == NULL ? wants_value(verb, *words) : NULL;
    }
    const place value = {*words, 0};

    if (wanting != NULL)
        offer_value(&value, wanting->argument);
    else
        offer_last(verb, *words, index);
}

static void complete(const char *const *words)
{
    const cli_verb *verb = words[1] != NULL ? cli_verb_find(words[0]) : NULL;
    const place first = {words[0], 0};

    if (verb != NULL) {
        complete_in(verb, words + 1);
        return;
    }
    for (size_t i = 0; words[1] == NULL && i < cli_verb_count; i++)
        if (!cli_verbs[i]->hidden)
            offer(&first, cli_verbs[i]->name, "", cli_verbs[i]->summary);
    if (words[1] == NULL && words[0][0] == '-')
        offer_choices(&first, "--help --version");
}

/* --- the verb ------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    const unsigned char *script;
} shells[] = {{"bash", shell_bash}, {"zsh", shell_zsh}, {"fish", shell_fish}};

static int run(const void *values, const cli_line *line)
{
    const char *name = line->words.count > 0 ? line->words.at[0] : "";

    (void)values;
    if (line->command != NULL) {
        if (line->command[0] != NULL)
            complete(line->command);
        return CLI_HEALTHY;
    }
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shells[i].name, name) == 0) {
            fputs((const char *)shells[i].script, stdout);
            return CLI_HEALTHY;
        }
    return cli_complain("'plumb completion' needs a shell; allowed: bash, zsh, fish");
}

const cli_verb cli_completion = {
    .name = "completion",
    .usage = "completion bash|zsh|fish\ncompletion -- WORD...",
    .summary = "Print the completion of a shell, or what can stand for the last WORD.",
    .notes = "In bash and zsh: source <(plumb completion bash); in fish:\n"
             "plumb completion fish | source.  What is installed needs no such line.",
    .words = "bash|zsh|fish",
    .most_words = 1,
    .takes_command = true,
    .hidden = true,
    .run = run,
};
