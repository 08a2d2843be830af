/* Processes as /proc shows them, and the clock.
 *
 * A number alone does not name a process: it is reused.  With the time at which it started,
 * the boot, the host and the PID namespace it does; where one of these differs, plumb says
 * that it cannot know instead of guessing.
 */
#include "study/parts.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* At most size - 1 bytes of a file under /proc, ended with 0.  -1 when it cannot be read. */
static ssize_t read_proc(const char *path, char *text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;

    if (fd < 0)
        return -1;
    while (used < size - 1) {
        const ssize_t got = read(fd, text + used, size - 1 - used);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    close(fd);
    text[used] = 0;
    return (ssize_t)used;
}

typedef struct proc_stat {
    char state;
    int64_t group, start;
} proc_stat;

/* Fields 3, 5 and 22 of /proc/PID/stat; the name before them may hold anything, so they are
 * counted from the last parenthesis.
 */
static bool read_stat(int64_t pid, proc_stat *stat)
{
    char path[64], text[2048];

    plumb_print(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    if (read_proc(path, text, sizeof text) <= 0)
        return false;
    char *at = strrchr(text, ')');

    if (at == NULL || at[1] != ' ')
        return false;
    stat->state = at[2];
    at += 3;
    for (int field = 4; field <= 22; field++) {
        const int64_t value = strtoll(at, &at, 10);

        if (field == 5)
            stat->group = value;
        if (field == 22)
            stat->start = value;
    }
    return true;
}

static void copy_word(char *to, size_t size, const char *from)
{
    const size_t n = strcspn(from, " \n");
    const size_t used = n < size - 1 ? n : size - 1;

    memcpy(to, from, used);
    to[used] = 0;
}

void study_process_describe(pid_t pid, study_process *process)
{
    char text[256];
    proc_stat stat;

    *process = (study_process){.pid = pid};
    if (gethostname(text, sizeof text) == 0) {
        text[sizeof text - 1] = 0;
        copy_word(process->host, sizeof process->host, text);
    }
    if (read_proc("/proc/sys/kernel/random/boot_id", text, sizeof text) > 0)
        copy_word(process->boot, sizeof process->boot, text);
    const ssize_t got = readlink("/proc/self/ns/pid", text, sizeof text - 1);

    if (got > 0) {
        text[got] = 0;
        copy_word(process->space, sizeof process->space, text);
    }
    if (read_stat(pid, &stat))
        process->start = stat.start;
}

study_life study_process_life(const study_process *process)
{
    study_process here;
    proc_stat stat;

    study_process_describe(getpid(), &here);
    if (strcmp(process->host, here.host) != 0)
        return STUDY_ELSEWHERE;
    if (strcmp(process->boot, here.boot) != 0)
        return STUDY_GONE; /* the host has been started anew since */
    if (strcmp(process->space, here.space) != 0)
        return STUDY_ELSEWHERE;
    if (read_stat(process->pid, &stat))
        return stat.state != 'Z' && (process->start == 0 || stat.start == process->start)
                   ? STUDY_ALIVE
                   : STUDY_GONE;
    return here.start == 0 && (kill((pid_t)process->pid, 0) == 0 || errno == EPERM)
               ? STUDY_ALIVE
               : STUDY_GONE;
}

json_t *study_process_to_json(const study_process *process)
{
    return json_pack("{s:s, s:I, s:I, s:s, s:s}", "host", process->host, "pid",
                     (json_int_t)process->pid, "start", (json_int_t)process->start, "boot",
                     process->boot, "space", process->space);
}

bool study_process_from_json(const json_t *json, study_process *process)
{
    const char *host = json_string_value(json_object_get(json, "host"));
    const char *boot = json_string_value(json_object_get(json, "boot"));
    const char *space = json_string_value(json_object_get(json, "space"));
    const json_t *pid = json_object_get(json, "pid");
    const json_t *start = json_object_get(json, "start");

    *process = (study_process){0};
    if (host == NULL || boot == NULL || space == NULL || !json_is_integer(pid) ||
        !json_is_integer(start))
        return false;
    copy_word(process->host, sizeof process->host, host);
    copy_word(process->boot, sizeof process->boot, boot);
    copy_word(process->space, sizeof process->space, space);
    process->pid = json_integer_value(pid);
    process->start = json_integer_value(start);
    return process->pid > 1 && process->pid <= INT32_MAX && process->start >= 0;
}

/* True if the environment of the process holds PLUMB_RUN_DIR=run_dir. */
static bool has_run_dir(int64_t pid, const char *run_dir)
{
    enum { LIMIT = 1 << 20 };
    static const char name[] = "PLUMB_RUN_DIR=";
    char path[64];
    char *text = malloc(LIMIT);
    bool found = false;

    if (text == NULL)
        return false;
    plumb_print(path, sizeof path, "/proc/%lld/environ", (long long)pid);
    const ssize_t got = read_proc(path, text, LIMIT);

    for (const char *at = text; !found && at < text + got; at += strlen(at) + 1)
        found = strncmp(at, name, sizeof name - 1) == 0 &&
                strcmp(at + sizeof name - 1, run_dir) == 0;
    free(text);
    return found;
}

/* Counts running processes of the group; with run_dir, only those that were started for it.
 * -1 when /proc cannot be read.
 */
static int count_group(pid_t group, const char *run_dir)
{
    DIR *proc = opendir("/proc");
    int count = 0;

    if (proc == NULL)
        return -1;
    for (const struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        proc_stat stat;

        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        const int64_t pid = strtoll(entry->d_name, NULL, 10);

        if (!read_stat(pid, &stat) || stat.group != group || stat.state == 'Z' ||
            stat.state == 'X')
            continue;
        count += run_dir == NULL || has_run_dir(pid, run_dir);
    }
    closedir(proc);
    return count;
}

int study_group_size(pid_t group)
{
    return count_group(group, NULL);
}

bool study_group_works_in(pid_t group, const char *run_dir)
{
    return count_group(group, run_dir) > 0;
}

double study_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void study_pause(double seconds)
{
    const time_t whole = (time_t)seconds;
    const struct timespec span = {whole, (long)(1e9 * (seconds - (double)whole))};

    nanosleep(&span, NULL);
}
