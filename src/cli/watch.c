/* plumb watch: a run on the terminal while it is written.  It reads the run directory and nothing
 * else: it neither knows nor touches the trainer's process, so Ctrl-C ends the watching alone.
 *
 * A frame is written over the last one in a single write, each line erased behind its end, on the
 * terminal's other screen; the last frame stays on the usual one.
 */
#include "cli/cli.h"

#include "plumb/report.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

typedef struct values {
    const char *twin;
    double interval;
    bool once;
} values;

static const cli_option options[] = {
    {"twin", 0, "DIR", CLI_TEXT, offsetof(values, twin), 0, 0, NULL,
     "a run to take the loss from: shows the gap to it"},
    {"interval", 0, "SECONDS", CLI_REAL, offsetof(values, interval), 0.05, 3600, "0.5",
     "look so often"},
    {"once", 0, NULL, CLI_FLAG, offsetof(values, once), 0, 0, NULL,
     "show the run as it is now, and end"},
};

static void sleep_for(double seconds)
{
    const struct timespec time = {(time_t)seconds,
                                  (long)((seconds - (double)(time_t)seconds) * 1e9)};

    nanosleep(&time, NULL); /* a signal ends it early, which is what is wanted */
}

static int height_of(FILE *out)
{
    struct winsize size;

    return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_row > 8 ? size.ws_row : 24;
}

/* Over the last frame: home, the lines, what is below them. */
static void put_over(const char *text)
{
    fputs("\033[H", stdout);
    for (const char *end; *text != 0; text = end + 1) {
        end = strchr(text, '\n');
        if (end == NULL)
            break;
        fwrite(text, 1, (size_t)(end - text), stdout);
        fputs("\033[K\n", stdout);
    }
    fputs("\033[J", stdout);
    fflush(stdout);
}

static plumb_status put_frame(const plumb_watched *watched, bool over, plumb_error *why)
{
    const plumb_screen screen = plumb_screen_for(stdout);
    char *text = NULL;
    const plumb_status status =
        plumb_watched_frame(watched, &screen, over ? height_of(stdout) : 0, &text, why);

    if (status == PLUMB_OK && over)
        put_over(text);
    else if (status == PLUMB_OK)
        fputs(text, stdout);
    free(text);
    return status;
}

/* Something new: a frame on a terminal, a line elsewhere. */
static plumb_status show_news(const plumb_watched *watched, bool terminal, plumb_error *why)
{
    char line[400];

    if (terminal)
        return put_frame(watched, true, why);
    plumb_watched_line(watched, line, sizeof line);
    cli_print_clean(stdout, line);
    fputc('\n', stdout);
    fflush(stdout);
    return PLUMB_OK;
}

/* Until the run ends, Ctrl-C, or nobody reads any more. */
static plumb_status follow(plumb_watched *watched, const values *asked, bool terminal,
                           plumb_error *why)
{
    bool changed, ended = false, first = true;
    plumb_status status = PLUMB_OK;

    while (status == PLUMB_OK && !ended && !cli_interrupted() && !ferror(stdout)) {
        status = plumb_watched_refresh(watched, &changed, &ended, why);
        if (status != PLUMB_OK || ended || asked->once)
            break;
        if (changed || first)
            status = show_news(watched, terminal, why);
        first = false;
        sleep_for(asked->interval);
    }
    return status;
}

static int watch(plumb_watched *watched, const values *asked)
{
    const bool terminal = plumb_screen_for(stdout).progress && !asked->once;
    plumb_error why = {0};

    if (terminal)
        fputs("\033[?1049h\033[?25l", stdout);
    plumb_status status = follow(watched, asked, terminal, &why);
    if (terminal)
        fputs("\033[?25h\033[?1049l", stdout);
    if (status == PLUMB_OK)
        status = put_frame(watched, false, &why);
    return status == PLUMB_OK ? plumb_watched_exit(watched)
                              : cli_complain("%s", why.message);
}

static int run(const void *given, const cli_line *line)
{
    const values *asked = given;
    plumb_watched *watched;
    plumb_error why = {0};

    if (plumb_watched_open(line->words.at[0], asked->twin, &watched, &why) != PLUMB_OK)
        return cli_complain("%s", why.message);
    cli_catch_interrupts();
    const int code = watch(watched, asked);
    plumb_watched_close(&watched);
    return code;
}

const cli_verb cli_watch = {
    .name = "watch",
    .usage = "watch RUN [options]",
    .summary = "Show a run on the terminal while it is written.",
    .notes =
        "RUN is a run directory; of a study, STUDY/runs/ID/run.  It ends with the run;\n"
        "Ctrl-C ends the watching and leaves the run alone.  A column has the worst of\n"
        "its steps.  Into a pipe or a file, a line for each look that saw a new step.",
    .exits = "0 the run reached its goal, 1 it fails, 2 neither",
    .words = "DIR",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .size = sizeof(values),
    .least_words = 1,
    .most_words = 1,
    .run = run,
};
