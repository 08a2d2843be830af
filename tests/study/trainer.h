/* tests/study/trainer.h - a trainer of a few lines of sh that behaves or misbehaves on
 * demand, and a scratch directory.  It shares nothing with plumb but the run contract.
 *
 *   sh trainer.sh MODE STEPS PAUSE      loss of step i: 3 - i/100
 *
 * Every launch appends its run directory to the file $TRAINER_STARTS and its process number
 * to $TRAINER_PIDS.
 */
#ifndef TEST_TRAINER_H
#define TEST_TRAINER_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "plumb/file.h"
#include "plumb/study.h"

#include "check.h"

static const char trainer_text[] =
    "mode=$1; steps=$2; pause=$3\n"
    "echo \"$PLUMB_RUN_DIR\" >>\"$TRAINER_STARTS\"\n"
    "echo $$ >>\"$TRAINER_PIDS\"\n"
    "cd \"$PLUMB_RUN_DIR\" || exit 1\n"
    "end() { echo \"{\\\"reason\\\": \\\"$1\\\", \\\"step\\\": $2}\" >end.tmp; "
    "mv end.tmp end.json; }\n"
    "line() { echo \"{\\\"step\\\": $1, \\\"loss\\\": $2}\" >>metrics.jsonl; }\n"
    "loss() { l=$((30000 - 100 * $1)); l=\"$((l / 10000)).$(printf %04d $((l % 10000)))\"; "
    "}\n"
    "last=$steps; stop=${PLUMB_STOP_AT:-$steps}; i=0\n"
    "[ $stop -lt $last ] && last=$stop\n"
    "case $mode in\n"
    "deaf) trap '' TERM;;\n"
    "deaf-child) trap '' TERM; sleep 60 & echo $! >>\"$TRAINER_PIDS\";;\n"
    "polite) trap 'end stopped $i; exit 0' TERM;;\n"
    "refuse) echo 'noise' >&2; echo 'rule 2: no site matches' >&2; echo >&2; exit 3;;\n"
    "launched) echo 'rule 2: no site matches' >&2; end refused 0; exit 1;;\n"
    "nothing) exit 0;;\n"
    "segv) echo 'about to fail' >&2; echo '---- ---' >&2; kill -SEGV $$;;\n"
    "hang) sleep 60;;\n"
    "child) sleep 60 & echo $! >>\"$TRAINER_PIDS\";;\n"
    "past) last=$steps;;\n"
    "look) echo '{\"contract\": 1}' >run.tmp; mv run.tmp run.json; end reached 0; exit "
    "0;;\n"
    "show) env | grep ^PLUMB_ | sort; shift 3; for a; do echo \"arg=$a\"; done;\n"
    "  read x || echo 'no input';;\n"
    "esac\n"
    "while [ $i -lt $last ]; do\n"
    "  i=$((i + 1)); loss $i\n"
    "  case $mode in\n"
    "  nan) [ $i -eq 7 ] && { line $i NaN; end nonfinite $i; exit 1; };;\n"
    "  hidden) [ $i -eq 7 ] && { end nonfinite 6; exit 1; };;\n"
    "  jump) [ $i -gt 10 ] && l=9;;\n"
    "  deaf) [ $i -gt 10 ] && l=9;;\n"
    "  polite) [ $i -gt 10 ] && l=9;;\n"
    "  garbage) [ $i -eq 4 ] && printf '\\001\\377 not a line\\n{\"step\": 4,\\n"
    "[1]\\n' >>metrics.jsonl;;\n"
    "  quiet) [ $i -eq 5 ] && sleep 60;;\n"
    "  teardown) [ $i -eq $last ] && { line $i $l; kill -SEGV $$; };;\n"
    "  esac\n"
    "  line $i $l\n"
    "  [ $pause = 0 ] || sleep $pause\n"
    "done\n"
    "case $mode in\n"
    "half) printf '{\"step\": 99, \"lo' >>metrics.jsonl; kill -KILL $$;;\n"
    "silent-end) exit 0;;\n"
    "esac\n"
    "end reached $i\n"
    "case $mode in linger) sleep 60;; esac\n";

static char scratch[256], trainer_path[300], starts_path[300], pids_path[300];

static inline void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

static inline void forget_launches(void)
{
    write_text(starts_path, "");
    write_text(pids_path, "");
}

static inline void scratch_make(void)
{
    const char *base = getenv("TMPDIR");

    snprintf(scratch, sizeof scratch, "%s/plumb-study-XXXXXX",
             base != NULL ? base : "/tmp");
    if (mkdtemp(scratch) == NULL) {
        perror(scratch);
        exit(1);
    }
    snprintf(trainer_path, sizeof trainer_path, "%s/trainer.sh", scratch);
    snprintf(starts_path, sizeof starts_path, "%s/starts", scratch);
    snprintf(pids_path, sizeof pids_path, "%s/pids", scratch);
    write_text(trainer_path, trainer_text);
    forget_launches();
    setenv("TRAINER_STARTS", starts_path, 1);
    setenv("TRAINER_PIDS", pids_path, 1);
}

static inline void scratch_remove(void)
{
    plumb_dir_remove(scratch, NULL);
}

static inline const char *in_scratch(const char *name)
{
    static char path[600];

    snprintf(path, sizeof path, "%s/%s", scratch, name);
    return path;
}

static inline size_t count_lines(const char *path)
{
    FILE *f = fopen(path, "r");
    size_t n = 0;

    for (int c; f != NULL && (c = fgetc(f)) != EOF;)
        n += c == '\n';
    if (f != NULL)
        fclose(f);
    return n;
}

static inline size_t launches(void)
{
    return count_lines(starts_path);
}

/* True if the file holds the text. */
static inline bool file_has(const char *path, const char *text)
{
    char *data = NULL;
    size_t size;
    const bool has = plumb_file_read(path, 1 << 20, &data, &size, NULL) == PLUMB_OK &&
                     strstr(data, text) != NULL;

    free(data);
    return has;
}

/* Processes of $TRAINER_PIDS that run and are no zombies. */
static inline int still_running(void)
{
    FILE *f = fopen(pids_path, "r");
    char line[256];
    int n = 0;

    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        char path[64], state = 'X';

        snprintf(path, sizeof path, "/proc/%d/status", atoi(line));
        FILE *status = fopen(path, "r");

        while (status != NULL && fgets(line, sizeof line, status) != NULL)
            if (sscanf(line, "State: %c", &state) == 1)
                break;
        if (status != NULL)
            fclose(status);
        n += state != 'X' && state != 'Z';
    }
    if (f != NULL)
        fclose(f);
    return n;
}

static inline void rest(double seconds)
{
    const struct timespec span = {(time_t)seconds,
                                  (long)(1e9 * (seconds - (double)(time_t)seconds))};

    nanosleep(&span, NULL);
}

static inline double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
