/* Runs of the trainer for tests: each in a process of its own, in a directory of its own, on a
 * small made-up text.
 */
#ifndef PLUMB_TEST_RUN_H
#define PLUMB_TEST_RUN_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "plumb/train.h"

static char test_root[64]; /* removed at the end */
static char test_text[96];
static int test_runs;

/* Words in no particular order: enough structure for the loss to fall. */
static inline void test_begin(void)
{
    static const char *const words[] = {"the ",    "scale ", "of ",     "a ",
                                        "tensor ", "is ",    "stale\n", "and ",
                                        "wrong ",  "0.5 ",   "norm; "};
    uint32_t state = 7;
    FILE *file;

    snprintf(test_root, sizeof test_root, "train-test-XXXXXX");
    if (mkdtemp(test_root) == NULL)
        exit(2);
    snprintf(test_text, sizeof test_text, "%s/text", test_root);
    file = fopen(test_text, "w");
    for (int i = 0; i < 4000 && file != NULL; i++) {
        state = state * 1664525u + 1013904223u;
        fputs(words[(state >> 16) % 11], file);
    }
    if (file == NULL || fclose(file) != 0)
        exit(2);
}

static inline void test_end(void)
{
    plumb_dir_remove(test_root, NULL);
}

/* A run: what was asked, and what it left behind. */
typedef struct test_run {
    plumb_request request;
    char dir[128];
    int status; /* exit status; -1 when a signal ended it */
    char said[600];
    plumb_history history;
} test_run;

static inline test_run test_request(void)
{
    test_run r;

    memset(&r, 0, sizeof r);
    plumb_request_init(&r.request);
    r.request.stop_at = 8;
    snprintf(r.dir, sizeof r.dir, "%s/run-%d", test_root, ++test_runs);
    return r;
}

enum { TEST_SETTINGS = 24 };

/* Settings of the small model, then the caller's (space-separated key=value). */
static inline size_t test_settings(const char *more, char *memory, const char **at)
{
    static const char *const base[] = {"model.layers=2",     "model.width=32",
                                       "model.heads=2",      "model.ff=40",
                                       "model.context=16",   "batch.sequences=4",
                                       "optimizer.steps=40", "optimizer.warmup=4"};
    static char data[128];
    size_t count = 0;

    snprintf(data, sizeof data, "data=%s", test_text);
    for (; count < 8; count++)
        at[count] = base[count];
    at[count++] = data;
    strcpy(memory, more);
    for (char *word = strtok(memory, " "); word != NULL && count < TEST_SETTINGS;
         word = strtok(NULL, " "))
        at[count++] = word;
    return count;
}

static inline void test_child(test_run *r, const char *path, const char *more, int said)
{
    const char *settings[TEST_SETTINGS];
    char memory[1024];
    plumb_error why = {0};
    const size_t count = test_settings(more, memory, settings);
    char absolute[4096];

    if (getcwd(absolute, sizeof absolute - 200) == NULL)
        _exit(99);
    strcat(absolute, "/");
    strcat(absolute, r->dir);
    setenv("PLUMB_RUN_DIR", absolute, 1);
    const int status = plumb_train_main(path, settings, count, NULL, NULL, &why);

    if (write(said, why.message, strlen(why.message)) < 0)
        _exit(99);
    _exit(status);
}

/* Starts it; the pipe gives its message. */
static inline pid_t test_start(test_run *r, const char *path, const char *more, int *said)
{
    int ends[2];
    pid_t child;

    plumb_dir_make(r->dir, NULL);
    r->request.run_dir = r->dir;
    CHECK(plumb_request_write(&r->request, NULL) == PLUMB_OK && pipe(ends) == 0,
          "no request in %s", r->dir);
    r->request.run_dir = NULL;
    fflush(stdout);
    child = fork();
    if (child == 0) {
        close(ends[0]);
        test_child(r, path, more, ends[1]);
    }
    close(ends[1]);
    *said = ends[0];
    return child;
}

static inline void test_wait(test_run *r, pid_t child, int said)
{
    int status = 0;
    const ssize_t got = read(said, r->said, sizeof r->said - 1);

    r->said[got > 0 ? got : 0] = 0;
    close(said);
    waitpid(child, &status, 0);
    r->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    plumb_history_refresh(r->dir, &r->history, true, NULL);
}

static inline void test_go(test_run *r, const char *path, const char *more)
{
    int said;
    const pid_t child = test_start(r, path, more, &said);

    test_wait(r, child, said);
}

/* A run of the small model with these settings that must succeed. */
static inline test_run test_plain(const char *more)
{
    test_run r = test_request();

    test_go(&r, NULL, more);
    CHECK(r.status == 0 && r.history.count > 0, "%s: status %d: %s", more, r.status,
          r.said);
    return r;
}

static inline void test_free(test_run *r)
{
    plumb_history_free(&r->history);
    plumb_request_free(&r->request);
}

/* First step with another state hash (0: none); b may begin later. */
static inline int64_t test_differ(const test_run *a, const test_run *b)
{
    size_t j = 0;

    for (size_t i = 0; i < a->history.count; i++) {
        const plumb_metrics *x = &a->history.at[i];

        while (j < b->history.count && b->history.at[j].step < x->step)
            j++;
        if (j == b->history.count)
            break;
        const plumb_metrics *y = &b->history.at[j];

        if (y->step == x->step && (x->state_hash != y->state_hash || !x->has_state_hash ||
                                   x->batch_hash != y->batch_hash ||
                                   (x->loss != y->loss && !isnan(x->loss + y->loss))))
            return x->step;
    }
    return 0;
}

/* The first event of this name, borrowed from events; NULL if there is none. */
static inline json_t *test_event(const json_t *events, const char *name)
{
    for (size_t i = 0; i < json_array_size(events); i++) {
        json_t *event = json_array_get(events, i);
        const char *is = json_string_value(json_object_get(event, "event"));

        if (is != NULL && strcmp(is, name) == 0)
            return event;
    }
    return NULL;
}

static inline void test_write(const char *path, const char *text)
{
    CHECK(plumb_file_write(path, text, strlen(text), NULL) == PLUMB_OK, "cannot write %s",
          path);
}

#endif
