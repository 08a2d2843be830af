/* How a run came to its end, in a word and a sentence.
 *
 * The log comes first: a run that logged the step it was asked for has answered, whatever
 * its process did afterwards (many die while they tear down).  Otherwise end.json, then the
 * process, are believed, and the last line of stderr is quoted.
 */
#include "study/parts.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Adds to the record's sentence. */
PLUMB_PRINTF(2, 3) static void say(study_record *record, const char *format, ...)
{
    const size_t used = strlen(record->message);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(record->message + used, sizeof record->message - used, format, arguments);
    va_end(arguments);
}

static bool says_something(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (isalnum((unsigned char)line[i]))
            return true;
    return false;
}

/* The last line of folder/stderr that says something (mpirun ends with a rule of dashes), in printable
 * ASCII; empty if none.
 */
static void last_error_line(const char *folder, char *line, size_t size)
{
    char path[STUDY_PATH], text[4096];

    line[0] = 0;
    plumb_print(path, sizeof path, "%s/stderr", folder);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    const off_t length = lseek(fd, 0, SEEK_END), most = (off_t)sizeof text;
    const ssize_t got = pread(fd, text, sizeof text, length > most ? length - most : 0);
    size_t end = got > 0 ? (size_t)got : 0, used = 0;

    close(fd);
    size_t from = end;
    do {
        end = from;
        while (end > 0 && (text[end - 1] <= ' ' || text[end - 1] > '~'))
            end--;
        for (from = end; from > 0 && text[from - 1] != '\n';)
            from--;
    } while (from > 0 && !says_something(text + from, end - from));
    for (; from < end && used + 1 < size; from++)
        line[used++] = text[from] >= ' ' && text[from] <= '~' ? text[from] : '?';
    line[used] = 0;
}

static void quote_error(study_record *record, const char *folder)
{
    char line[256];

    last_error_line(folder, line, sizeof line);
    if (line[0] != 0)
        say(record, "; the last line of its stderr: %s", line);
    else
        say(record, "; its stderr is empty");
}

static const char *signal_name(int number)
{
    switch (number) {
    case SIGSEGV:
        return " (SIGSEGV)";
    case SIGBUS:
        return " (SIGBUS)";
    case SIGABRT:
        return " (SIGABRT)";
    case SIGFPE:
        return " (SIGFPE)";
    case SIGILL:
        return " (SIGILL)";
    case SIGTERM:
        return " (SIGTERM)";
    case SIGINT:
        return " (SIGINT)";
    case SIGKILL:
        return " (SIGKILL; the system kills so when memory runs out)";
    default:
        return "";
    }
}

static int64_t last_step(const plumb_history *history)
{
    return history->count > 0 ? history->at[history->count - 1].step : 0;
}

static void say_where(study_record *record, const plumb_history *history)
{
    if (history->count > 0)
        say(record, " after step %lld", (long long)last_step(history));
    else
        say(record, " before its first step");
    if (history->bad_lines > 0)
        say(record,
            "; %zu lines of metrics.jsonl were not understood, the first is line %lld",
            history->bad_lines, (long long)history->bad_line_number);
}

static bool has_declaration(const plumb_request *request)
{
    char path[STUDY_PATH];
    struct stat status;

    plumb_print(path, sizeof path, "%s/run.json", request->run_dir);
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* True if the run got where it was asked to go. */
static bool is_reached(const plumb_request *request, const plumb_history *history,
                       const char *reason, int exit_status)
{
    const bool says_so = strcmp(reason, "reached") == 0;

    if (request->stop_at > 0)
        return last_step(history) >= request->stop_at;
    if (request->stop_at == 0)
        return last_step(history) > 0 ||
               (has_declaration(request) && (says_so || exit_status == 0));
    return says_so;
}

static void say_process(study_record *record)
{
    if (record->signal != 0)
        say(record, "the trainer was ended by signal %d%s", record->signal,
            signal_name(record->signal));
    else if (record->exit_status >= 0)
        say(record, "the trainer ended with exit status %d", record->exit_status);
    else
        say(record, "the trainer ended");
}

static void say_died(study_record *record, const plumb_request *request,
                     const plumb_history *history, const char *reason)
{
    say_process(record);
    if (strcmp(reason, "stopped") == 0)
        say(record, ", stopped though plumb had not asked it to");
    else if (strcmp(reason, "error") == 0)
        say(record, " and reports an error of its own");
    else if (strcmp(reason, "reached") == 0)
        say(record, " and says that it reached its goal");
    else
        say(record, " without saying why (no end.json)");
    say_where(record, history);
    if (request->stop_at > 0)
        say(record, " of %lld", (long long)request->stop_at);
    else if (request->stop_at == 0)
        say(record, ", and wrote no run.json");
}

void study_ending_read(const study_child *child, const plumb_request *request,
                       const plumb_history *history, const char *folder,
                       study_record *record)
{
    char reason[16] = "";
    int64_t step;

    record->exit_status = -1;
    record->signal = 0;
    record->message[0] = 0;
    if (child->has_status && WIFEXITED(child->status))
        record->exit_status = WEXITSTATUS(child->status);
    if (child->has_status && WIFSIGNALED(child->status))
        record->signal = WTERMSIG(child->status);
    if (plumb_run_end_read(request->run_dir, reason, &step, NULL) != PLUMB_OK)
        reason[0] = 0;

    if (record->exit_status == 3 || strcmp(reason, "refused") == 0) {
        record->end = PLUMB_END_REFUSED;
        say(record, "the trainer cannot do what was asked (%s)",
            record->exit_status == 3 ? "exit status 3" : "end.json says so");
        quote_error(record, folder);
    } else if (strcmp(reason, "nonfinite") == 0) {
        record->end = PLUMB_END_NONFINITE;
        say(record, "the trainer ended because something was not finite");
        say_where(record, history);
    } else if (is_reached(request, history, reason, record->exit_status)) {
        record->end = PLUMB_END_REACHED;
        if (request->stop_at >= 0 && last_step(history) > request->stop_at)
            say(record, "the trainer went on past step %lld, where it was asked to stop",
                (long long)request->stop_at);
    } else {
        record->end = PLUMB_END_DIED;
        say_died(record, request, history, reason);
        quote_error(record, folder);
    }
}

void study_ending_silent(const plumb_launcher *launcher, const plumb_history *history,
                         const char *folder, study_record *record)
{
    record->message[0] = 0;
    say(record, "no line for %g s",
        history->offset == 0 ? launcher->start_seconds : launcher->silence_seconds);
    say_where(record, history);
    say(record, ", so it was stopped");
    quote_error(record, folder);
}
