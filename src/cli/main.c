/* plumb - finds out why an FP8 training run diverges, and proves the fix.
 *
 * Looks up the verb, parses its options and runs it.  Exit codes: 0 healthy, 1 problem found,
 * 2 cannot tell, 3 usage error or bad input; an answer that could not be printed is 3.
 */
#include "cli/cli.h"

#include "plumb/file.h"
#include "plumb/report.h"
#include "report/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const cli_verb *const cli_verbs[] = {
    &cli_demo, &cli_diagnose,  &cli_contract, &cli_report,     &cli_watch, &cli_train,
    &cli_eval, &cli_footprint, &cli_format,   &cli_matmul,     &cli_bench, &cli_explain,
    &cli_text, &cli_version,   &cli_help,     &cli_completion, &cli_man,
};
const size_t cli_verb_count = sizeof cli_verbs / sizeof *cli_verbs;

const cli_verb *cli_verb_find(const char *name)
{
    for (size_t i = 0; i < cli_verb_count; i++)
        if (strcmp(cli_verbs[i]->name, name) == 0)
            return cli_verbs[i];
    return NULL;
}

int cli_complain(const char *format, ...)
{
    char sentence[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    fputs("plumb: ", stderr);
    cli_print_clean(stderr, sentence);
    fputc('\n', stderr);
    return CLI_USAGE;
}

/* Longer than any sentence of ours; a message from outside may be anything. */
enum { LONGEST = 2000 };

void cli_print_clean(FILE *out, const char *text)
{
    report_text clean = {0};

    report_clean(&clean, text, LONGEST, REPORT_CUT_END, !plumb_screen_for(out).unicode);
    if (clean.at != NULL)
        fputs(clean.at, out);
    report_text_free(&clean);
}

/* A pipe whose reader has ended shows an error even while nothing is written. */
static bool reader_is_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

int cli_finish(int exit_code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return exit_code;
    if (reader_is_gone())
        return exit_code;
    return cli_complain(
        "standard output could not be written (closed, or the disk is full)");
}

bool cli_program_path(char *path, size_t size)
{
    const ssize_t length = readlink("/proc/self/exe", path, size);

    if (length <= 0 || (size_t)length >= size)
        return false;
    path[length] = 0;
    return true;
}

/* A standard stream that the caller closed would be the number of the next file opened, and
 * messages would go into it.  Opened the wrong way round, so that using it fails.
 */
static void keep_standard_streams(void)
{
    for (int stream = 0; stream <= 2; stream++)
        if (fcntl(stream, F_GETFD) == -1 && errno == EBADF)
            open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
}

/* A handler, not SIG_IGN: that would be inherited by the trainers. */
static void ignore(int signal_number)
{
    (void)signal_number;
}

/* Of a reader that is gone, and of a file past `ulimit -f`: the write fails, and is told. */
static void ignore_failed_writes(void)
{
    struct sigaction action = {.sa_handler = ignore, .sa_flags = SA_RESTART};

    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
}

static bool limit_cpu(void)
{
    const char *name = getenv("PLUMB_CPU");
    unsigned mask;

    if (name == NULL || name[0] == 0)
        return true;
    if (!plumb_cpu_parse(name, &mask)) {
        cli_complain(
            "PLUMB_CPU is '%.60s'; allowed: baseline, avx2, avx512, avx512bf16, amx", name);
        return false;
    }
    plumb_cpu_limit(mask);
    return true;
}

static int run_verb(const cli_verb *verb, char *const *argv)
{
    _Alignas(max_align_t) unsigned char values[CLI_VALUES];
    cli_line line;
    plumb_error why;
    bool help;
    int code;

    if (cli_parse(verb, argv, values, &line, &help, &why) != PLUMB_OK)
        code = cli_complain("%s", why.message);
    else if (help)
        cli_print_help(stdout, verb), code = CLI_HEALTHY;
    else
        code = verb->run(values, &line);
    cli_free(verb, values, &line);
    return cli_finish(code);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "help";
    const cli_verb *verb = cli_verb_find(name);

    keep_standard_streams();
    ignore_failed_writes();
    if (!limit_cpu())
        return CLI_USAGE;
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        verb = &cli_help;
    else if (strcmp(name, "--version") == 0)
        verb = &cli_version;
    if (verb == NULL)
        return cli_unknown("COMMAND", name);
    return run_verb(verb, argc > 1 ? argv + 2 : argv + argc);
}
