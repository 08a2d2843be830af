/* tests/study/asking.h - a study of the trainer in trainer.h, and questions to its index. */
#ifndef TEST_ASKING_H
#define TEST_ASKING_H

#include "trainer.h"

#include <sqlite3.h>

static plumb_error why;
static const plumb_predicates tight = {.persistence = 3};

/* A study whose trainer is `sh trainer.sh mode 30 pause`. */
static inline plumb_study *open_study(const char *mode, const char *pause)
{
    const char *const command[] = {"sh", trainer_path, mode, "30", pause, NULL};
    const plumb_launcher launcher = {.command = command, .grace_seconds = 0.1};
    plumb_study *study = NULL;

    CHECK_OK(plumb_study_open(in_scratch("study"), &launcher, &study, &why), why);
    if (study == NULL) {
        check_done("the study cannot be opened");
        exit(1);
    }
    return study;
}

static inline plumb_study *fresh_study(const char *mode, const char *pause)
{
    plumb_dir_remove(in_scratch("study"), NULL);
    forget_launches();
    return open_study(mode, pause);
}

/* One number out of the index; -1 on any error. */
static inline int ask_index(const char *question)
{
    sqlite3 *base = NULL;
    sqlite3_stmt *s = NULL;
    int answer = -1;

    if (sqlite3_open(in_scratch("study/index.sqlite"), &base) == SQLITE_OK &&
        sqlite3_prepare_v2(base, question, -1, &s, NULL) == SQLITE_OK)
        answer = sqlite3_step(s) == SQLITE_ROW ? sqlite3_column_int(s, 0) : -2;
    sqlite3_finalize(s);
    sqlite3_close(base);
    return answer;
}

static inline plumb_request request_of(int64_t stop_at, uint64_t seed)
{
    plumb_request request;

    plumb_request_init(&request);
    request.stop_at = stop_at;
    request.has_seed = true;
    request.seed = seed;
    return request;
}

#endif
