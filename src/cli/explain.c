/* plumb explain: what a word in a verdict, a run file or a table means.  The texts are
 * cli/words/: each is as wide as a screen, works a number by hand, says where it comes from and
 * ends in commands that show it.  Every word of the closed lists below has one.
 */
#include "cli/cli.h"

#include <ctype.h>
#include <string.h>

#include "cli/embedded/words.h"
#include "diagnose/mechanism.h"
#include "plumb/matmul.h"

enum { NAME = 80, ALIASES = 200, MOST = 128, WIDTH = 79 };

/* "# stale scale | mechanism | frozen scale, stale" and the lines up to the next of its kind. */
typedef struct entry {
    char name[NAME], kind[NAME], aliases[ALIASES];
    const char *body;
    size_t length;
} entry;

/* --- texts --------------------------------------------------------------------------------- */

static const char *next_head(const char *at)
{
    while (*at != 0 && strncmp(at, "# ", 2) != 0) {
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    return at;
}

/* Takes what stands before " | " or the end of the line. */
static const char *take_part(const char *at, char *part, size_t size)
{
    const size_t line = strcspn(at, "\n");
    const char *bar = memchr(at, '|', line);
    size_t n = bar != NULL ? (size_t)(bar - at) : line;
    const char *next = at + n + (bar != NULL);

    while (n > 0 && at[n - 1] == ' ')
        n--;
    plumb_print(part, size, "%.*s", (int)n, at);
    return next + strspn(next, " ");
}

/* The text at *at, which then is the next; false past the last. */
static bool take_entry(const char **at, entry *e)
{
    const char *head = next_head(*at);

    if (*head == 0)
        return false;
    head = take_part(head + 2, e->name, sizeof e->name);
    head = take_part(head, e->kind, sizeof e->kind);
    head = take_part(head, e->aliases, sizeof e->aliases);
    e->body = head + strspn(head, "\n");
    *at = next_head(e->body);
    e->length = (size_t)(*at - e->body);
    while (e->length > 0 && e->body[e->length - 1] == '\n')
        e->length--;
    return true;
}

static const char *all_texts(void)
{
    return (const char *)words;
}

const char *cli_word(size_t i, const char **about)
{
    static entry all[MOST];
    const char *at = all_texts();

    if (i >= MOST)
        return NULL;
    for (size_t n = 0; n <= i; n++)
        if (!take_entry(&at, &all[i]))
            return NULL;
    *about = all[i].kind;
    return all[i].name;
}

/* --- finding ------------------------------------------------------------------------------- */

/* Case does not count, and '-' and '_' are spaces. */
static bool same_word(const char *a, const char *b, size_t length)
{
    if (strlen(a) != length)
        return false;
    for (size_t i = 0; i < length; i++) {
        const char x = a[i] == '-' || a[i] == '_' ? ' ' : a[i];
        const char y = b[i] == '-' || b[i] == '_' ? ' ' : b[i];

        if (tolower((unsigned char)x) != tolower((unsigned char)y))
            return false;
    }
    return true;
}

static bool is_called(const entry *e, const char *word)
{
    return same_word(word, e->name, strlen(e->name));
}

static bool has_alias(const entry *e, const char *word)
{
    for (const char *at = e->aliases; *at != 0;) {
        const size_t n = strcspn(at, ",");

        if (same_word(word, at, n))
            return true;
        at += n;
        at += strspn(at, ", ");
    }
    return false;
}

static void print_entry(const entry *e)
{
    printf("%s (%s)\n\n%.*s\n", e->name, e->kind, (int)e->length, e->body);
}

/* A format, a setting or the like that has no text of its own. */
static bool explain_known(const char *word)
{
    static const struct {
        const char *vocabulary, *see;
    } known[] = {{"FORMAT", "plumb format "},
                 {"COMMAND", "plumb help "},
                 {"SCENARIO", "plumb demo "},
                 {"SETTING", "plumb train --settings"}};

    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        const char *name = known[k].vocabulary, *about = NULL, *see = known[k].see, *found;
        const cli_vocabulary *vocabulary = cli_vocabulary_find(name, strlen(name));

        for (size_t i = 0; (found = vocabulary->nth(i, &about)) != NULL; i++) {
            if (!same_word(word, found, strlen(found)))
                continue;
            printf("%s (%s)\n\n%s%s", found, vocabulary->what, about != NULL ? about : "",
                   about != NULL ? "\n\n" : "");
            printf("$ %s%s\n", see, see[strlen(see) - 1] == ' ' ? found : "");
            return true;
        }
    }
    return false;
}

static bool explain_first(const char *word, bool (*fits)(const entry *, const char *))
{
    const char *at = all_texts();
    entry e;

    while (take_entry(&at, &e))
        if (fits(&e, word)) {
            print_entry(&e);
            return true;
        }
    return false;
}

static int explain(const char *word)
{
    if (explain_first(word, is_called) || explain_first(word, has_alias) ||
        explain_known(word))
        return CLI_HEALTHY;
    return cli_unknown("WORD", word);
}

/* --- the list ------------------------------------------------------------------------------ */

static const char *nth_class(size_t i)
{
    return i < PLUMB_CLASS_COUNT ? plumb_class_name((plumb_class)i) : NULL;
}

static const char *nth_mechanism(size_t i)
{
    return i < plumb_mechanism_count ? plumb_mechanism_names[i] : NULL;
}

static const char *nth_predicate(size_t i)
{
    const char *name = plumb_predicate_name((plumb_predicate)(i + 1));

    return strcmp(name, "unknown") != 0 ? name : NULL;
}

static const char *nth_recipe(size_t i)
{
    return i < plumb_preset_count ? plumb_presets[i].name : NULL;
}

static const char *nth_accumulator(size_t i)
{
    return i < PLUMB_SUM_COUNT ? plumb_sum_kind_name((plumb_sum_kind)i) : NULL;
}

static const char *nth_evidence(size_t i)
{
    static const char *const levels[] = {"seen", "compared", "caused"};

    if (i < 3)
        return levels[i];
    return i - 3 <= PLUMB_EVIDENCE_ONE_SOURCE ? plumb_evidence_name((plumb_evidence)(i - 3))
                                              : NULL;
}

/* Closed lists, all words of which must be explained; format properties are no such list. */
static const struct {
    const char *kind;
    const char *(*nth)(size_t i);
} kinds[] = {{"class", nth_class},
             {"mechanism", nth_mechanism},
             {"statistic", plumb_statistic_name},
             {"predicate", nth_predicate},
             {"recipe", nth_recipe},
             {"accumulator", nth_accumulator},
             {"evidence", nth_evidence},
             {"format property", NULL}};

static bool is_explained(const char *word, const char *kind)
{
    const char *at = all_texts();
    entry e;

    while (take_entry(&at, &e))
        if (strcmp(e.name, word) == 0 && strcmp(e.kind, kind) == 0)
            return true;
    return false;
}

static void list_kind(const char *kind)
{
    size_t column = (size_t)printf("  %-16s", kind);
    const char *at = all_texts(), *comma = "";
    entry e;

    while (take_entry(&at, &e)) {
        if (strcmp(e.kind, kind) != 0)
            continue;
        if (column + strlen(e.name) + 3 > WIDTH) {
            column = (size_t)printf("%s\n%18s", comma[0] != 0 ? "," : "", "") - 2;
            comma = "";
        }
        column += (size_t)printf("%s%s", comma, e.name);
        comma = ", ";
    }
    putchar('\n');
}

static int list(void)
{
    int code = CLI_HEALTHY;

    printf(
        "'plumb explain WORD' says what a word means, works a number by hand, and names\n"
        "its source and a command to see it.\n\n");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const char *word;

        list_kind(kinds[k].kind);
        for (size_t i = 0; kinds[k].nth != NULL && (word = kinds[k].nth(i)) != NULL; i++)
            if (!is_explained(word, kinds[k].kind)) {
                printf("  not yet: %s\n", word);
                code = CLI_CANNOT_TELL;
            }
    }
    printf("\nFormats, settings, commands and scenarios are known, too.\n");
    return code;
}

static int run(const void *values, const cli_line *line)
{
    char word[200] = "";

    (void)values;
    if (line->words.count == 0)
        return list();
    for (size_t i = 0; i < line->words.count; i++)
        plumb_append(word, sizeof word, "%s%s", i > 0 ? " " : "", line->words.at[i]);
    return explain(word);
}

const cli_verb cli_explain = {
    .name = "explain",
    .usage = "explain [WORD...]",
    .summary = "Say what a word means: a class, mechanism, statistic, recipe ...",
    .notes = "A name of several words may be written with spaces, '-' or in quotes.",
    .words = "WORD...",
    .most_words = 8,
    .run = run,
};
