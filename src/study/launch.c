/* Starting a trainer, and making sure that nothing of it is left.
 *
 * The child is the leader of its own process group and executes only after folder/pid says
 * who it is, so that whatever happens to plumb, the next one finds what is still running.
 * Groups are signalled only while a process that is known to be ours keeps their number.
 */
#include "log/request.h"
#include "study/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

extern char **environ;

static const double kill_wait_seconds = 10, poll_seconds = 0.01;

/* --- environment and arguments ------------------------------------------------------------ */

static bool is_named(const char *variable, const char *name)
{
    const size_t n = strlen(name);

    return strncmp(variable, name, n) == 0 && variable[n] == '=';
}

/* Variables of the contract: those around plumb are not those of the run. */
static bool is_contract(const char *variable)
{
    if (is_named(variable, "PLUMB_RUN_DIR"))
        return true;
    for (size_t i = 0; i < plumb_variable_count; i++)
        if (is_named(variable, plumb_variables[i].name))
            return true;
    return false;
}

static size_t count_list(char *const *list)
{
    size_t n = 0;

    while (list != NULL && list[n] != NULL)
        n++;
    return n;
}

char **study_environment(char *const *extra)
{
    char **list = calloc(count_list(environ) + count_list(extra) + 1, sizeof *list);
    size_t n = 0;

    if (list == NULL)
        return NULL;
    for (size_t i = 0; environ != NULL && environ[i] != NULL; i++)
        if (!is_contract(environ[i]))
            list[n++] = environ[i];
    for (size_t i = 0; extra[i] != NULL; i++)
        list[n++] = extra[i];
    return list;
}

static void free_arguments(char **arguments)
{
    for (size_t i = 0; arguments != NULL && arguments[i] != NULL; i++)
        free(arguments[i]);
    free(arguments);
}

static char **fill_arguments(const char *const *command, const plumb_request *request)
{
    size_t count = 0;

    while (command[count] != NULL)
        count++;
    char **arguments = calloc(count + 1, sizeof *arguments);

    for (size_t i = 0; arguments != NULL && i < count; i++) {
        arguments[i] = plumb_request_substitute(request, command[i]);
        if (arguments[i] == NULL) {
            free_arguments(arguments);
            return NULL;
        }
    }
    return arguments;
}

/* --- the child -------------------------------------------------------------------------- */

/* Descriptors of one start: input, output, error of the child; the gate that holds it until
 * its pid file is written; the report of a failed exec.
 */
enum { IN, OUT, ERR, GATE_READ, GATE_WRITE, REPORT_READ, REPORT_WRITE, DESCRIPTORS };

static void close_all(int *fd)
{
    for (int i = 0; i < DESCRIPTORS; i++) {
        if (fd[i] >= 0)
            close(fd[i]);
        fd[i] = -1;
    }
}

static bool open_pipe(int ends[2])
{
    if (pipe(ends) != 0)
        return false;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    return true;
}

static plumb_status open_all(const char *folder, int *fd, plumb_error *why)
{
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    char path[STUDY_PATH];

    for (int i = 0; i < DESCRIPTORS; i++)
        fd[i] = -1;
    fd[IN] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    plumb_print(path, sizeof path, "%s/stdout", folder);
    fd[OUT] = open(path, flags, 0644);
    if (fd[OUT] >= 0) {
        plumb_print(path, sizeof path, "%s/stderr", folder);
        fd[ERR] = open(path, flags, 0644);
    }
    if (fd[IN] < 0 || fd[OUT] < 0 || fd[ERR] < 0 || !open_pipe(fd + GATE_READ) ||
        !open_pipe(fd + REPORT_READ)) {
        plumb_fail(why, PLUMB_IO, "cannot open the files of a run (%s): %s", path,
                   strerror(errno));
        close_all(fd);
        return PLUMB_IO;
    }
    return PLUMB_OK;
}

/* Between fork and exec: only what is safe there. */
static void become(char **arguments, char **environment, const int *fd, pid_t parent)
{
    static const int signals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGPIPE, SIGTERM, SIGCHLD,
                                  SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU};
    sigset_t none;
    char go;

    setpgid(0, 0);
#if defined(__linux__)
    /* SIGTERM and not SIGKILL: a launcher then ends its own workers.  What ignores it is
     * killed by the next plumb that opens the study. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
    close(fd[GATE_WRITE]);
    if (getppid() != parent || read(fd[GATE_READ], &go, 1) != 1)
        _exit(127);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        signal(signals[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(fd[IN], 0) == 0 && dup2(fd[OUT], 1) == 1 && dup2(fd[ERR], 2) == 2) {
        environ = environment;
        execvp(arguments[0], arguments);
    }
    const int error = errno;

    if (write(fd[REPORT_WRITE], &error, sizeof error) < 0)
        _exit(126);
    _exit(127);
}

static plumb_status write_pid(const char *folder, pid_t pid, plumb_error *why)
{
    study_process process;
    char path[STUDY_PATH];

    study_process_describe(pid, &process);
    plumb_print(path, sizeof path, "%s/pid", folder);
    json_t *json = study_process_to_json(&process);

    if (json == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %s", path);
    const plumb_status status = plumb_json_save(path, json, why);

    json_decref(json);
    return status;
}

/* The group of the trainer that is running, for a signal handler; 0: none.  It is set before the
 * trainer executes and cleared before its leader is reaped, so the number is never another's.
 */
static volatile sig_atomic_t running_group;

void plumb_study_kill_running(void)
{
    const pid_t group = (pid_t)running_group;

    if (group > 0) {
        kill(-group, SIGKILL);
        kill(group, SIGKILL); /* before it has a group of its own */
    }
    study_emergency_kill();
}

/* Opens the gate and waits for exec; errno of a failed one, else 0. */
static int let_go(int *fd)
{
    int error = 0;
    ssize_t got;

    if (write(fd[GATE_WRITE], "g", 1) != 1)
        return errno;
    close(fd[REPORT_WRITE]);
    fd[REPORT_WRITE] = -1;
    do
        got = read(fd[REPORT_READ], &error, sizeof error);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof error ? error : 0;
}

static void reap(study_child *child)
{
    pid_t got;

    running_group = 0;
    do
        got = waitpid(child->pid, &child->status, 0);
    while (got < 0 && errno == EINTR);
    child->reaped = true;
    child->has_status = got == child->pid;
}

static plumb_status start(char **arguments, char **environment, const char *folder,
                          bool with_pid, study_child *child, int *exec_error,
                          plumb_error *why)
{
    const pid_t parent = getpid();
    int fd[DESCRIPTORS];
    plumb_status status = open_all(folder, fd, why);

    *child = (study_child){0};
    *exec_error = 0;
    if (status != PLUMB_OK)
        return status;
    child->pid = fork();
    if (child->pid < 0) {
        status = plumb_fail(why, PLUMB_IO, "cannot start a process: %s", strerror(errno));
        goto out;
    }
    if (child->pid == 0)
        become(arguments, environment, fd, parent);
    running_group = child->pid;
    setpgid(child->pid, child->pid); /* whoever is first */
    if (with_pid)
        status = write_pid(folder, child->pid, why);
    if (status == PLUMB_OK)
        *exec_error = let_go(fd);
    close_all(fd); /* closes the gate: a child still waiting there ends */
    if (status != PLUMB_OK || *exec_error != 0)
        reap(child);
out:
    close_all(fd);
    return status;
}

plumb_status study_launch(const char *const *command, const plumb_request *request,
                          const char *folder, study_child *child, int *exec_error,
                          plumb_error *why)
{
    char **extra = plumb_request_environment(request);
    char **environment = extra == NULL ? NULL : study_environment(extra);
    char **arguments = fill_arguments(command, request);
    plumb_status status;

    if (environment == NULL || arguments == NULL)
        status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory to start %s", command[0]);
    else
        status = start(arguments, environment, folder, true, child, exec_error, why);
    free_arguments(arguments);
    free(environment);
    if (extra != NULL)
        plumb_environment_free(extra);
    return status;
}

/* --- the end of a child -------------------------------------------------------------------- */

bool study_child_ended(study_child *child)
{
    siginfo_t info = {0};

    if (child->reaped)
        return true;
    if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOWAIT | WNOHANG) == 0)
        return info.si_pid == child->pid;
    if (errno == ECHILD) { /* SIGCHLD is ignored in this process: the status is lost */
        child->reaped = true;
        running_group = 0;
    }
    return child->reaped;
}

bool study_child_ended_well(const study_child *child)
{
    siginfo_t info = {0};

    if (child->reaped)
        return !child->has_status ||
               (WIFEXITED(child->status) && WEXITSTATUS(child->status) == 0);
    return waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOWAIT | WNOHANG) == 0 &&
           info.si_code == CLD_EXITED && info.si_status == 0;
}

static bool is_running(study_child *child)
{
    return !study_child_ended(child) || study_group_size(child->pid) > 0;
}

static bool wait_for(study_child *child, double seconds)
{
    const double until = study_clock() + seconds;

    while (is_running(child)) {
        if (study_clock() >= until)
            return false;
        study_pause(poll_seconds);
    }
    return true;
}

/* The leader is not reaped before the group is empty, so the number stays ours. */
static void send_all(const study_child *child, int signal_number)
{
    kill(-child->pid, signal_number);
    if (!child->reaped)
        kill(child->pid, signal_number);
}

plumb_status study_child_finish(study_child *child, double grace, plumb_error *why)
{
    if (is_running(child)) {
        send_all(child, SIGTERM);
        if (!wait_for(child, grace))
            send_all(child, SIGKILL);
    }
    if (!wait_for(child, kill_wait_seconds))
        return plumb_fail(why, PLUMB_IO, "process group %lld cannot be killed",
                          (long long)child->pid);
    if (!child->reaped)
        reap(child);
    return PLUMB_OK;
}

void study_kill_command(const char *text, const char *run_dir, const char *folder)
{
    char variable[STUDY_PATH + 16], sh[] = "sh", option[] = "-c";
    char *extra[] = {variable, NULL};
    char *line = strdup(text);
    char *arguments[] = {sh, option, line, NULL};
    study_child child;
    int exec_error;

    plumb_print(variable, sizeof variable, "PLUMB_RUN_DIR=%s", run_dir);
    char **environment = study_environment(extra);

    if (line != NULL && environment != NULL &&
        start(arguments, environment, folder, false, &child, &exec_error, NULL) ==
            PLUMB_OK &&
        exec_error == 0) {
        wait_for(&child, 60);
        study_child_finish(&child, 0, NULL);
    }
    free(environment);
    free(line);
}

/* --- orphans --------------------------------------------------------------------------- */

/* True when the group of that number is still the trainer's: its leader lives, or members
 * are left that were started for this run directory.
 */
static bool is_ours(const study_process *leader, const char *run_dir)
{
    const pid_t pid = (pid_t)leader->pid;

    return (study_process_life(leader) == STUDY_ALIVE && getpgid(pid) == pid) ||
           study_group_works_in(pid, run_dir);
}

static bool wait_for_group(pid_t group, double seconds)
{
    const double until = study_clock() + seconds;

    while (study_group_size(group) > 0) {
        if (study_clock() >= until)
            return false;
        study_pause(poll_seconds);
    }
    return true;
}

plumb_status study_kill_orphan(const plumb_launcher *launcher, const char *folder,
                               const char *run_dir, plumb_error *why)
{
    char path[STUDY_PATH];
    study_process leader, self;
    json_t *json = NULL;

    plumb_print(path, sizeof path, "%s/pid", folder);
    if (plumb_json_load(path, 1 << 16, &json, NULL) != PLUMB_OK)
        return PLUMB_OK; /* killed before the trainer was executed */
    const bool good = study_process_from_json(json, &leader);

    json_decref(json);
    study_process_describe(getpid(), &self);
    if (good && strcmp(leader.boot, self.boot) == 0 &&
        strcmp(leader.space, self.space) == 0 && is_ours(&leader, run_dir)) {
        const pid_t group = (pid_t)leader.pid;

        kill(-group, SIGTERM);
        if (!wait_for_group(group,
                            launcher->grace_seconds < 2 ? launcher->grace_seconds : 2))
            kill(-group, SIGKILL);
        if (!wait_for_group(group, kill_wait_seconds))
            return plumb_fail(why, PLUMB_IO,
                              "the trainer of %s (process group %lld) cannot be killed",
                              folder, (long long)group);
    }
    if (launcher->detached) {
        plumb_print(path, sizeof path, "%s/stop", run_dir);
        plumb_file_write(path, "", 0, NULL); /* for one that no kill command reaches */
    }
    if (launcher->kill_command != NULL)
        study_kill_command(launcher->kill_command, run_dir, folder);
    return PLUMB_OK;
}
