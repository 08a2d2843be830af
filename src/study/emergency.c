/* The kill command when plumb itself is told to end at once: from a signal handler, which may neither
 * take memory nor wait.  All that it needs is laid out before the run begins.
 */
#include "study/parts.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECONDS = 60 /* that it may take, as in an orderly end */ };

static struct {
    char *line, **environment;
    char variable[STUDY_PATH + 16], out[STUDY_PATH], error[STUDY_PATH];
} command;

static volatile sig_atomic_t prepared;

void study_emergency_over(void)
{
    prepared = 0;
    free(command.line);
    free(command.environment);
    command.line = NULL;
    command.environment = NULL;
}

void study_emergency_prepare(const char *text, const char *run_dir, const char *folder)
{
    char *extra[] = {command.variable, NULL};

    study_emergency_over();
    if (text == NULL)
        return;
    plumb_print(command.variable, sizeof command.variable, "PLUMB_RUN_DIR=%s", run_dir);
    plumb_print(command.out, sizeof command.out, "%s/stdout", folder);
    plumb_print(command.error, sizeof command.error, "%s/stderr", folder);
    command.line = strdup(text);
    command.environment = study_environment(extra);
    prepared = command.line != NULL && command.environment != NULL;
}

static void send_to(const char *path, int flags, int stream)
{
    const int fd = open(path, flags, 0644);

    if (fd >= 0 && fd != stream) {
        dup2(fd, stream);
        close(fd);
    }
}

/* In the child: a session of its own, so that the signal that ends plumb does not end it. */
static void become(void)
{
    char sh[] = "sh", option[] = "-c";
    char *arguments[] = {sh, option, command.line, NULL};
    sigset_t none;

    setsid();
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    send_to("/dev/null", O_RDONLY, STDIN_FILENO);
    send_to(command.out, O_WRONLY | O_CREAT | O_APPEND, STDOUT_FILENO);
    send_to(command.error, O_WRONLY | O_CREAT | O_APPEND, STDERR_FILENO);
    alarm(SECONDS);
    execve("/bin/sh", arguments, command.environment);
    _exit(127);
}

void study_emergency_kill(void)
{
    if (!prepared)
        return;
    prepared = 0;
    if (fork() == 0)
        become();
}
