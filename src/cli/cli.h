/* cli.h - what the files of the program share: verbs, options, exit codes, text.
 *
 * A verb is a table of options and a function.  Parsing, `plumb VERB --help`, the man pages,
 * completion in three shells and the suggestions for mistyped names all come from the same
 * table, so they cannot disagree.
 */
#ifndef PLUMB_CLI_CLI_H
#define PLUMB_CLI_CLI_H

#include <stdio.h>

#include "plumb/diagnose.h"
#include "plumb/file.h"

/* Exit codes of every verb. */
enum { CLI_HEALTHY = 0, CLI_PROBLEM = 1, CLI_CANNOT_TELL = 2, CLI_USAGE = 3 };

typedef enum cli_kind {
    CLI_FLAG,   /* bool */
    CLI_TEXT,   /* const char * */
    CLI_CHOICE, /* const char *: one of those that the argument names, "nt|nn|tn" */
    CLI_LIST,   /* cli_words: may be given several times */
    CLI_INT,    /* int64_t */
    CLI_SEED,   /* cli_seed */
    CLI_REAL,   /* double */
} cli_kind;

typedef struct cli_words {
    const char **at;
    size_t count;
} cli_words;

typedef struct cli_seed {
    uint64_t number;
    bool given;
} cli_seed;

/* One option.  offset is where its value lies in the verb's own struct.  The argument says to
 * people and to completion what may stand there: a vocabulary (cli_vocabulary) or FILE, DIR,
 * KEY=VALUE, a name with an ending ("RUN.yaml": a file), lower-case words as they stand, or
 * anything else (N); several of these apart by '|'.
 */
typedef struct cli_option {
    const char *name;     /* without the dashes */
    char letter;          /* short form, or 0 */
    const char *argument; /* how help names the value; NULL for a flag */
    cli_kind kind;
    size_t offset;
    double least, most;   /* INT, REAL */
    const char *fallback; /* default, parsed like a value; NULL: zero */
    const char *help;
} cli_option;

/* What stands on the command line besides options. */
typedef struct cli_line {
    cli_words words; /* positional arguments */
    const char *const
        *command; /* argv after "--", NULL-terminated; NULL when there was no "--" or the
                     verb takes no command: then these are words, too */
} cli_line;

typedef struct cli_verb {
    const char *name;
    const char *usage; /* one or two lines, each what follows "plumb " */
    const char *summary;
    const char
        *words; /* what the arguments are, as cli_option.argument, apart by spaces; the
                          last may end in "..."; NULL: no completion */
    const char *notes; /* after the options in its help; may be NULL */
    const char *exits; /* "0 healthy, 1 ...": its exit status; NULL: 0 or 3 */
    const cli_option *options;
    size_t option_count;
    size_t size; /* of the struct that the offsets point into; at most CLI_VALUES */
    size_t least_words, most_words;
    bool negative_words; /* -0.1 and -inf are words, not options */
    bool takes_command;  /* "-- COMMAND..." */
    bool hidden;         /* not in `plumb help`: for shells and packagers */
    const plumb_setting *(*settings)(size_t *count); /* for its man page; may be NULL */
    int (*run)(const void *values, const cli_line *line);
} cli_verb;

enum { CLI_VALUES = 512 };

extern const cli_verb cli_train, cli_diagnose, cli_contract, cli_demo, cli_report,
    cli_format, cli_matmul, cli_watch, cli_eval, cli_footprint, cli_bench, cli_text,
    cli_version, cli_help, cli_completion, cli_man, cli_explain;

/* All verbs, in the order of `plumb help`. */
extern const cli_verb *const cli_verbs[];
extern const size_t cli_verb_count;
const cli_verb *cli_verb_find(const char *name); /* NULL if there is none */

/* Fills *values (zeroed, verb->size bytes) and *line from argv.  On failure why says what is
 * wrong and what is allowed, with the nearest known name.  *help is set when --help was met:
 * nothing after it is looked at.  Free with cli_free in any case.
 */
plumb_status cli_parse(const cli_verb *verb, char *const *argv, void *values,
                       cli_line *line, bool *help, plumb_error *why);
void cli_free(const cli_verb *verb, void *values, cli_line *line);

/* The option of that name (length bytes) or letter, --help among them; NULL if there is none. */
const cli_option *cli_option_find(const cli_verb *verb, const char *name, size_t length);
const cli_option *cli_option_letter(const cli_verb *verb, char letter);

/* --- words that are known ------------------------------------------------------------ */

/* A closed list that a word on the command line comes from: formats, recipes, verbs.  nth gives
 * its words in order and NULL past the last; *about gets a few words on it, or NULL.
 */
typedef struct cli_vocabulary {
    const char *name; /* as arguments name it: "FORMAT" */
    const char *what; /* as sentences do: "format" */
    const char *list; /* the command that lists them */
    const char *(*nth)(size_t i, const char **about);
} cli_vocabulary;

/* NULL if there is none of that name (length bytes). */
const cli_vocabulary *cli_vocabulary_find(const char *name, size_t length);

/* "unknown format 'e4m'; did you mean 'e4m3'?", or what lists them; returns CLI_USAGE. */
int cli_unknown(const char *vocabulary, const char *word);

/* The n-th word of `plumb explain` and its kind. */
const char *cli_word(size_t i, const char **about);

/* The n-th scenario of `plumb demo` and its summary. */
const char *cli_scenario(size_t i, const char **about);

/* The help of one verb, at most 80 columns wide. */
void cli_print_help(FILE *out, const cli_verb *verb);

/* Text from outside made harmless: nothing that a trainer prints may move the cursor. */
void cli_print_clean(FILE *out, const char *text);

/* Prints json on standard output and forgets it.  NULL, which is what json_pack makes of text
 * that is no UTF-8, is complained about.  An exit code; cli_finish sees a failed write.
 */
int cli_print_json(json_t *json);

/* "plumb: SENTENCE" on standard error; returns CLI_USAGE. */
int cli_complain(const char *format, ...) PLUMB_PRINTF(1, 2);

/* Flushes standard output; a failed write turns exit_code into CLI_USAGE with a sentence,
 * except when the reader has gone away (head, less).
 */
int cli_finish(int exit_code);

/* Where this program lies: an absolute path.  False when the system does not say. */
bool cli_program_path(char *path, size_t size);

/* --- Ctrl-C ------------------------------------------------------------------------ */

/* From now on the first SIGINT, SIGTERM or SIGHUP only sets a flag; a second one kills the
 * trainer that is running and ends the program as usual.
 */
void cli_catch_interrupts(void);
bool cli_interrupted(void);

/* --- progress on standard error ----------------------------------------------------- */

/* On a terminal the last line is rewritten and shows the time left; elsewhere there is one
 * line for each question, finished run and answer.
 */
typedef struct cli_progress {
    FILE *out; /* NULL: silent */
    bool terminal;
    bool brief; /* only the line that is rewritten */
    int width;
    bool open;        /* a line without its newline stands on the terminal */
    const char *name; /* what is being diagnosed */
} cli_progress;

cli_progress cli_progress_for(bool quiet);
bool cli_progress_show(void *progress,
                       const plumb_progress *news);               /* a plumb_progress_fn */
void cli_progress_line(cli_progress *progress, const char *text); /* a line of its own */
void cli_progress_clear(cli_progress *progress);

/* --- shared by diagnose, demo and report ------------------------------------------- */

/* The settings of diagnose, as the options table fills them. */
typedef struct cli_diagnose_values {
    const char *study, *kill_command;
    cli_words set;
    int64_t steps, margin, seeds, observe;
    cli_seed seed, data_seed;
    double band, silence, grace, lr_scale;
    bool detached, plan, json, no_html, quiet;
    bool
        brief; /* not an option: progress is one rewritten line, and no verdict is printed */
} cli_diagnose_values;

/* The values that the table gives when nothing is on the command line. */
cli_diagnose_values cli_diagnose_defaults(void);

/* Diagnoses the command in the study directory and prints the verdict (unless brief, which only
 * writes the report).  *verdict (may be
 * NULL) gets the document; json_decref it.  Returns the exit code.
 */
int cli_diagnose_command(const cli_diagnose_values *values, const char *const *command,
                         const char *question, const char *study, json_t **verdict);

/* The argv that runs the built-in trainer on a run file: this program, "train", the file's
 * absolute path, overrides.  NULL with *why filled in; free with cli_command_free.
 */
char **cli_train_command(const char *run_file, const cli_words *set, plumb_error *why);
void cli_command_free(char **command);

/* The default study of a run file (or NULL) or command: plumb-out/study-NAME. */
void cli_study_name(const char *run_file, const char *const *command, char *path,
                    size_t size);

/* Where the runs of a contract check go: plumb-out/contract-NAME. */
void cli_contract_study(const char *const *command, char *path, size_t size);

/* Prints verdict on out as people read it, or as JSON, and writes STUDY/report.html.
 * Returns the verdict's exit code, or CLI_USAGE.
 */
int cli_show_verdict(const char *study, const json_t *verdict, bool json, bool html);

#endif
