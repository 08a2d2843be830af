/* kill -9 of a plumb at random moments: no finished run is repeated, no trainer is left. */
#include "asking.h"

enum { ARMS = 4 };

/* The whole study, as a plumb that may be killed at any point would do it. */
static bool whole_study(const char *mode)
{
    plumb_study *study = open_study(mode, "0.01");
    bool good = study != NULL;

    for (int i = 0; good && i < ARMS; i++) {
        plumb_request request = request_of(12, (uint64_t)i);
        const plumb_arm arm = {.request = &request, .predicates = &tight};
        plumb_outcome o;

        good = plumb_study_run(study, &arm, NULL, NULL, &o, &why) == PLUMB_OK;
        good = good && o.end == PLUMB_END_REACHED && o.last_step == 12;
        if (good)
            plumb_outcome_free(&o);
    }
    plumb_study_close(&study);
    return good;
}

/* Directories of finished runs, one a line, into the file done. */
static void note_finished(void)
{
    char command[1200];

    snprintf(
        command, sizeof command,
        "for f in %s/study/runs/*/outcome.json; do [ -f $f ] && echo ${f%%/*}/run; done "
        ">%s/done",
        scratch, scratch);
    if (system(command) < 0)
        exit(1);
}

/* Launches noted in starts whose run had been finished before, or that came twice. */
static int repeated(void)
{
    char command[1200];

    snprintf(command, sizeof command, "exit $(cat %s/done %s | sort | uniq -d | wc -l)",
             scratch, starts_path);
    const int status = system(command);

    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void murder(const char *mode, int rounds, uint64_t random)
{
    int orphans = 0;

    plumb_dir_remove(in_scratch("study"), NULL);
    for (int round = 0; round <= rounds; round++) {
        note_finished();
        forget_launches();
        const pid_t child = fork();

        if (child == 0)
            _exit(whole_study(mode) ? 0 : 1);
        random = random * 6364136223846793005u + 1442695040888963407u;
        if (round < rounds) {
            rest(0.2 * (double)(random >> 33) / 2147483648.0);
            kill(child, SIGKILL);
        }
        int status;
        waitpid(child, &status, 0);
        CHECK(round < rounds || (WIFEXITED(status) && WEXITSTATUS(status) == 0),
              "the last round did not get through");
        CHECK(repeated() == 0, "round %d: %d finished runs were repeated", round,
              repeated());
        orphans += still_running();
        plumb_study *study = open_study(mode, "0.01");
        CHECK(still_running() == 0, "round %d: %d trainers left", round, still_running());
        plumb_study_close(&study);
    }
    CHECK(orphans > 0 || strcmp(mode, "fine") == 0,
          "no trainer survived its plumb: the test shows nothing");
    note_finished();
    CHECK(count_lines(in_scratch("done")) == ARMS, "%zu runs",
          count_lines(in_scratch("done")));
    CHECK(ask_index("SELECT count(*) FROM runs WHERE \"end\"='reached'") == ARMS, "index");
}

/* A trainer that heeds SIGTERM ends with its plumb, before anybody opens the study again. */
static void parent_death(void)
{
    plumb_study *study = fresh_study("fine", "0.01");

    plumb_study_close(&study);
    const pid_t child = fork();
    if (child == 0) {
        const char *const command[] = {"sh", trainer_path, "fine", "5000", "0.01", NULL};
        const plumb_launcher launcher = {.command = command};
        plumb_request r = request_of(5000, 1);
        const plumb_arm arm = {.request = &r};
        plumb_outcome o;

        plumb_study_open(in_scratch("study"), &launcher, &study, &why);
        _exit(plumb_study_run(study, &arm, NULL, NULL, &o, &why) != PLUMB_OK);
    }
    for (int i = 0; i < 100 && still_running() == 0; i++)
        rest(0.02);
    CHECK(still_running() == 1, "no trainer");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    for (int i = 0; i < 100 && still_running() > 0; i++)
        rest(0.02);
#if defined(__linux__)
    CHECK(still_running() == 0, "the trainer goes on without plumb");
#endif
    check_done("the death of plumb ends a trainer that listens");
}

static void killed(void)
{
    murder("fine", 14, 1);
    murder("deaf-child", 6, 2);
    check_done("kill -9 at random moments");
}

int main(void)
{
    scratch_make();
    parent_death();
    killed();
    scratch_remove();
    return check_exit();
}
