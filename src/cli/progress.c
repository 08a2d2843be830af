/* What is going on, on standard error: one rewritten line on a terminal, else a line for
 * each question, finished run and answer.  Also the flag that Ctrl-C sets.
 */
#include "cli/cli.h"

#include "plumb/report.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;

/* Whoever asks twice wants it to end now, and the trainer with it, however deaf that is. */
static void note_interrupt(int signal_number)
{
    if (interrupted) {
        plumb_study_kill_running();
        signal(signal_number, SIG_DFL);
        raise(signal_number);
    }
    interrupted = 1;
}

void cli_catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = SA_RESTART};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

bool cli_interrupted(void)
{
    return interrupted != 0;
}

cli_progress cli_progress_for(bool quiet)
{
    const plumb_screen screen = plumb_screen_for(stderr);

    return (cli_progress){.out = quiet ? NULL : stderr,
                          .terminal = screen.progress,
                          .width = screen.width > 0 ? screen.width : 80};
}

void cli_progress_clear(cli_progress *progress)
{
    if (progress->open)
        fputs("\r\033[K", progress->out);
    progress->open = false;
}

void cli_progress_line(cli_progress *progress, const char *text)
{
    if (progress->out == NULL)
        return;
    cli_progress_clear(progress);
    cli_print_clean(progress->out, text);
    fputc('\n', progress->out);
    fflush(progress->out);
}

/* "4.2 s", "42 s", "3 min", "2.5 h". */
static void print_time(char *text, size_t size, double seconds)
{
    if (seconds < 9.95)
        plumb_print(text, size, "%.1f s", seconds);
    else if (seconds < 99.5)
        plumb_print(text, size, "%.0f s", seconds);
    else if (seconds < 99.5 * 60)
        plumb_print(text, size, "%.0f min", seconds / 60);
    else
        plumb_print(text, size, "%.1f h", seconds / 3600);
}

static void show_running(cli_progress *progress, const plumb_progress *news)
{
    char line[512], left[32] = "", took[32];

    if (!progress->terminal)
        return;
    print_time(took, sizeof took, news->seconds);
    if (news->seconds_left >= 0)
        print_time(left, sizeof left, news->seconds_left);
    plumb_print(line, sizeof line, "  %.60s  step %lld", news->label,
                (long long)news->step);
    if (news->steps > 0)
        plumb_append(line, sizeof line, " of %lld", (long long)news->steps);
    plumb_append(line, sizeof line, "  %s%s%s%s", took, left[0] != 0 ? ", about " : "",
                 left, left[0] != 0 ? " left" : "");
    if ((size_t)progress->width < sizeof line)
        line[progress->width - 1] = 0;
    cli_progress_clear(progress);
    cli_print_clean(progress->out, line);
    progress->open = true;
    fflush(progress->out);
}

bool cli_progress_show(void *context, const plumb_progress *news)
{
    cli_progress *progress = context;
    const char *text = news->text != NULL ? news->text : "";
    const char *label = news->label != NULL ? news->label : "";
    char line[1024], took[32];

    if (progress->out == NULL || (progress->brief && news->kind != PLUMB_PROGRESS_RUNNING))
        return !cli_interrupted();
    switch (news->kind) {
    case PLUMB_PROGRESS_QUESTION:
    case PLUMB_PROGRESS_ANSWER:
        plumb_print(line, sizeof line, "%s%s",
                    news->kind == PLUMB_PROGRESS_ANSWER ? "    " : "", text);
        cli_progress_line(progress, line);
        break;
    case PLUMB_PROGRESS_RUNNING:
        show_running(progress, news);
        break;
    case PLUMB_PROGRESS_DONE:
        print_time(took, sizeof took, news->seconds);
        plumb_print(line, sizeof line, "  %s: %s (%s)", label, text,
                    news->reused ? "done before" : took);
        cli_progress_line(progress, line);
        break;
    }
    return !cli_interrupted();
}
