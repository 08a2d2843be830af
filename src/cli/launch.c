/* The command that a diagnosis launches, and the name of the study it goes into. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "cli/cli.h"

#include "plumb/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char **take(char **command, size_t *count, const char *word)
{
    command[*count] = strdup(word);
    return command[(*count)++] != NULL ? command : NULL;
}

static bool fill(char **command, const char *program, const char *file,
                 const cli_words *set)
{
    size_t count = 0;
    bool good = take(command, &count, program) && take(command, &count, "train") &&
                take(command, &count, file);

    for (size_t i = 0; good && i < set->count; i++)
        good = take(command, &count, "--set") && take(command, &count, set->at[i]);
    return good;
}

/* What a command is filled in with; see docs/run-contract.md. */
static const char *placeholder_in(const char *word)
{
    static const char *const names[] = {"{run_dir}", "{seed}",   "{data_seed}",
                                        "{stop_at}", "{policy}", "{start}"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(word, names[i]) != NULL)
            return names[i];
    return NULL;
}

/* Our own trainer takes no placeholders, so one in a path or a setting is meant as it stands,
 * and would be lost.
 */
static bool is_free_of_placeholders(const char *file, const cli_words *set,
                                    plumb_error *why)
{
    const char *word = file, *name = placeholder_in(file);

    for (size_t i = 0; name == NULL && i < set->count; i++) {
        word = set->at[i];
        name = placeholder_in(word);
    }
    if (name == NULL)
        return true;
    plumb_fail(why, PLUMB_BAD_INPUT,
               "%s: holds %s, which a diagnosis would fill in; choose another name", word,
               name);
    return false;
}

char **cli_train_command(const char *run_file, const cli_words *set, plumb_error *why)
{
    char program[4096];
    struct stat about;
    char *file = NULL, **command = NULL;
    bool good = false;

    if (!cli_program_path(program, sizeof program)) {
        plumb_fail(why, PLUMB_IO,
                   "cannot find out where this program lies: /proc is needed");
        return NULL;
    }
    file = realpath(run_file, NULL);
    if (file == NULL || stat(file, &about) != 0) {
        plumb_fail(why, PLUMB_NOT_FOUND, "%s: %s", run_file, strerror(errno));
        goto done;
    }
    if (!S_ISREG(about.st_mode)) {
        plumb_fail(why, PLUMB_BAD_INPUT,
                   "%s: not a file; to diagnose a command, write it after"
                   " '--'",
                   run_file);
        goto done;
    }
    if (!is_free_of_placeholders(file, set, why))
        goto done;
    command = calloc(4 + 2 * set->count, sizeof *command);
    good = command != NULL && fill(command, program, file, set);
    if (!good) {
        plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
        cli_command_free(command);
    }
done:
    free(file);
    return good ? command : NULL;
}

void cli_command_free(char **command)
{
    for (char **word = command; word != NULL && *word != NULL; word++)
        free(*word);
    free(command);
}

/* The last part of path without its ending, of at most 64 harmless characters. */
static void stem(const char *path, char *name, size_t size)
{
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    size_t length = strlen(base);
    const char *dot = strrchr(base, '.');

    if (dot != NULL && dot != base)
        length = (size_t)(dot - base);
    length = length < size - 1 ? length : size - 1;
    for (size_t i = 0; i < length; i++)
        name[i] = strchr("/ \t\n*?'\"\\$&;|<>`", base[i]) != NULL || base[i] < ' '
                      ? '-'
                      : base[i];
    name[length] = 0;
}

/* The script says more than its interpreter: the first argument that is a file. */
static const char *telling_word(const char *const *command)
{
    struct stat about;

    for (const char *const *word = command + 1; *command != NULL && *word != NULL; word++)
        if ((*word)[0] != '-' && stat(*word, &about) == 0 && S_ISREG(about.st_mode))
            return *word;
    return *command;
}

static void name_directory(const char *kind, const char *after, char *path, size_t size)
{
    char name[65];

    stem(after, name, sizeof name);
    plumb_print(path, size, "plumb-out/%s-%s", kind, name[0] != 0 ? name : "run");
}

void cli_study_name(const char *run_file, const char *const *command, char *path,
                    size_t size)
{
    name_directory("study", run_file != NULL ? run_file : telling_word(command), path,
                   size);
}

void cli_contract_study(const char *const *command, char *path, size_t size)
{
    name_directory("contract", telling_word(command), path, size);
}
