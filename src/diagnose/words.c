/* Text: made printable, allocated, quoted for a shell.  Everything that a run wrote goes
 * through plumb_printable before it enters a sentence.
 */
#include "diagnose/experiment.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void plumb_printable(const char *in, char *out, size_t size)
{
    size_t n = 0;

    for (; in[n] != 0 && n + 1 < size; n++)
        out[n] = in[n] >= 32 && in[n] < 127 ? in[n] : '?';
    out[n] = 0;
}

char *plumb_text(const char *format, ...)
{
    va_list arguments, again;

    va_start(arguments, format);
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, arguments);
    char *text = length >= 0 ? malloc((size_t)length + 1) : NULL;

    if (text != NULL)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(arguments);
    return text;
}

json_t *plumb_text_json(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = malloc(size);

    if (copy == NULL)
        return NULL;
    plumb_printable(text, copy, size);
    json_t *json = json_string(copy);

    free(copy);
    return json;
}

/* --- shell lines ---------------------------------------------------------------- */

typedef struct line {
    char *text;
    size_t length, room;
    bool failed;
} line;

static void put(line *l, const char *text, size_t n)
{
    if (!l->failed && l->length + n + 1 > l->room) {
        const size_t room = 2 * (l->length + n + 1);
        char *more = realloc(l->text, room);

        if (more == NULL)
            l->failed = true;
        else
            l->text = more, l->room = room;
    }
    if (l->failed)
        return;
    memcpy(l->text + l->length, text, n);
    l->length += n;
    l->text[l->length] = 0;
}

static bool is_plain(const char *text, size_t n)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_-+=.,/:@%";

    return strspn(text, plain) >= n;
}

/* Text that the shell takes as it is. */
static void put_quoted(line *l, const char *text, size_t n)
{
    if (is_plain(text, n)) {
        put(l, text, n);
        return;
    }
    put(l, "'", 1);
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\'')
            put(l, "'\\''", 4);
        else
            put(l, text + i, 1);
    }
    put(l, "'", 1);
}

static void put_word(line *l, const char *word)
{
    if (l->length > 0)
        put(l, " ", 1);
    if (*word == 0)
        put(l, "''", 2);
    put_quoted(l, word, strlen(word));
}

/* NAME=value: quoted as a whole it would be the name of a command. */
static void put_assignment(line *l, const char *assignment)
{
    const size_t name = strcspn(assignment, "=") + 1;

    put(l, " ", 1);
    put(l, assignment, name);
    put_quoted(l, assignment + name, strlen(assignment + name));
}

/* As put_word, but that the shell expands the placeholder in it. */
static void put_expanded(line *l, const char *word, const char *placeholder)
{
    const size_t n = strlen(placeholder);
    const char *at;

    put(l, " ", 1);
    for (; (at = strstr(word, placeholder)) != NULL; word = at + n) {
        put_quoted(l, word, (size_t)(at - word));
        put(l, "\"", 1);
        put(l, placeholder, n);
        put(l, "\"", 1);
    }
    put_quoted(l, word, strlen(word));
}

static char *finish(line *l)
{
    if (l->failed || l->text == NULL) {
        free(l->text);
        return NULL;
    }
    return l->text;
}

char *plumb_shell_words(const char *const *command)
{
    line l = {0};

    put(&l, "", 0);
    for (size_t i = 0; command[i] != NULL; i++)
        put_word(&l, command[i]);
    return finish(&l);
}

char *plumb_shell_line(const plumb_request *request, const char *policy,
                       const char *const *command)
{
    plumb_request by_hand = *request;
    char policy_copy[4096] = "", placeholder[] = "$PLUMB_RUN_DIR";
    line l = {0};

    if (policy != NULL)
        snprintf(policy_copy, sizeof policy_copy, "%s", policy);
    by_hand.run_dir = placeholder;
    by_hand.policy = policy != NULL ? policy_copy : NULL;
    char **environment = plumb_request_environment(&by_hand);

    if (environment == NULL)
        return NULL;
    /* In a subshell: the variables must not stay behind and steer the next run. */
    put(&l, "(export PLUMB_RUN_DIR=$(mktemp -d);",
        strlen("(export PLUMB_RUN_DIR=$(mktemp -d);"));
    for (size_t i = 0; environment[i] != NULL; i++)
        if (strncmp(environment[i], "PLUMB_RUN_DIR=", 14) != 0)
            put_assignment(&l, environment[i]);
    plumb_environment_free(environment);
    for (size_t i = 0; command[i] != NULL && !l.failed; i++) {
        char *word = plumb_request_substitute(&by_hand, command[i]);

        if (word == NULL)
            l.failed = true;
        else if (strstr(word, placeholder) != NULL)
            put_expanded(&l, word, placeholder);
        else
            put_word(&l, word);
        free(word);
    }
    put(&l, ")", 1);
    return finish(&l);
}
