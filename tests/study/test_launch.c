/* What becomes of a trainer that behaves, and of each kind that does not. */
#include "trainer.h"

#include <math.h>

static plumb_study *study;
static plumb_outcome outcome;
static plumb_error why;

/* Runs `sh trainer.sh mode steps pause` in a study of its own. */
static plumb_status run_mode(const char *mode, const char *steps, const char *pause,
                             plumb_launcher launcher, plumb_arm arm, int64_t stop_at,
                             plumb_watch *watch)
{
    const char *const command[] = {"sh",     trainer_path, mode,          steps,      pause,
                                   "{seed}", "{x}",        "d={run_dir}", "{policy}", NULL};
    plumb_request request;

    plumb_request_init(&request);
    request.stop_at = stop_at;
    request.has_seed = true;
    request.seed = 17;
    arm.request = &request;
    arm.label = mode;
    launcher.command = launcher.command != NULL ? launcher.command : command;
    forget_launches();
    plumb_study_close(&study);
    plumb_outcome_free(&outcome);
    plumb_dir_remove(in_scratch("study"), NULL);
    plumb_status status = plumb_study_open(in_scratch("study"), &launcher, &study, &why);

    if (status == PLUMB_OK)
        status = plumb_study_run(study, &arm, watch, NULL, &outcome, &why);
    return status;
}

static void check_end(plumb_end end, int64_t first, int64_t last)
{
    CHECK(outcome.end == end, "end %s, want %s (%s)", plumb_end_name(outcome.end),
          plumb_end_name(end), outcome.message);
    CHECK(outcome.first_step == first && outcome.last_step == last,
          "steps %lld to %lld, want %lld to %lld", (long long)outcome.first_step,
          (long long)outcome.last_step, (long long)first, (long long)last);
    CHECK(still_running() == 0, "%d processes left", still_running());
}

static void check_says(const char *text)
{
    CHECK(strstr(outcome.message, text) != NULL, "message \"%s\" lacks \"%s\"",
          outcome.message, text);
}

static const plumb_launcher plain = {.grace_seconds = 5};
static const plumb_arm any = {0};
static const plumb_predicates usual = {.persistence = 3};

static void healthy(void)
{
    const plumb_arm judged = {.predicates = &usual};
    char path[700];

    CHECK_OK(run_mode("fine", "40", "0", plain, judged, 30, NULL), why);
    check_end(PLUMB_END_REACHED, 1, 30);
    CHECK(outcome.history.count == 30 && fabs(outcome.history.at[29].loss - 2.7) < 1e-9,
          "%zu rows", outcome.history.count);
    CHECK(outcome.exit_status == 0 && outcome.signal == 0 && !outcome.reused, "status");
    CHECK(outcome.message[0] == 0, "%s", outcome.message);
    CHECK(outcome.run_dir[0] == '/' && strstr(outcome.run_dir, outcome.id) != NULL, "%s",
          outcome.run_dir);
    snprintf(path, sizeof path, "%s/request.json", outcome.run_dir);
    CHECK(file_has(path, "30"), "no request");

    /* Logged the last step, then died while tearing down; or never wrote end.json. */
    CHECK_OK(run_mode("teardown", "10", "0", plain, judged, 10, NULL), why);
    check_end(PLUMB_END_REACHED, 1, 10);
    CHECK_OK(run_mode("silent-end", "10", "0", plain, judged, 10, NULL), why);
    check_end(PLUMB_END_REACHED, 1, 10);
    CHECK_OK(run_mode("fine", "8", "0", plain, judged, -1, NULL), why);
    check_end(PLUMB_END_REACHED, 1, 8);
    CHECK_OK(run_mode("look", "8", "0", plain, judged, 0, NULL), why);
    check_end(PLUMB_END_REACHED, 0, 0);
    check_done("healthy runs");
}

static void surroundings(void)
{
    const char *globs[] = {"layer.0/*"};
    plumb_rule rule = {.globs = globs, .glob_count = 1, .use = "bf16", .raise = true};
    const plumb_rules rules = {&rule, 1};
    const plumb_arm arm = {.rules = &rules};
    char path[1600], text[1700];

    CHECK(freopen(trainer_path, "r", stdin) != NULL, "no input to hide");
    setenv("PLUMB_SKIP", "5", 1); /* of a plumb around this one */
    setenv("PLUMB_CPU", "avx2", 1);
    CHECK_OK(run_mode("show", "2", "0", plain, arm, 2, NULL), why);
    unsetenv("PLUMB_SKIP");
    unsetenv("PLUMB_CPU");
    check_end(PLUMB_END_REACHED, 1, 2);
    snprintf(path, sizeof path, "%s/../stdout", outcome.run_dir);
    CHECK(file_has(path, "PLUMB_SEED=17\n") && file_has(path, "PLUMB_STOP_AT=2\n"),
          "environment");
    CHECK(!file_has(path, "PLUMB_SKIP") && file_has(path, "PLUMB_CPU=avx2\n"), "leaked");
    CHECK(file_has(path, "arg=17\narg={x}\n"), "placeholders");
    CHECK(file_has(path, "no input\n"), "the terminal is the trainer's input");
    snprintf(text, sizeof text, "arg=d=%s\n", outcome.run_dir);
    CHECK(file_has(path, text), "run_dir as placeholder");
    snprintf(text, sizeof text, "PLUMB_RUN_DIR=%s\n", outcome.run_dir);
    CHECK(file_has(path, text), "PLUMB_RUN_DIR");
    text[strlen(text) - 5] = 0; /* .../run -> .../policy.json */
    snprintf(path, sizeof path, "%.1400s/policy.json", text + sizeof "PLUMB_RUN_DIR=" - 1);
    CHECK(file_has(path, "layer.0/*") && file_has(path, "bf16"), "%s", path);
    snprintf(text, sizeof text, "arg=%s\n", path);
    snprintf(path, sizeof path, "%s/../stdout", outcome.run_dir);
    CHECK(file_has(path, text), "policy as placeholder");
    check_done("environment, placeholders, policy, input");
}

static void nonfinite(void)
{
    const plumb_arm judged = {.predicates = &usual};

    for (int k = 0; k < 2;
         k++) { /* the trainer says so and shows it: failed, asked or not */
        CHECK_OK(run_mode("nan", "30", "0", plain, k == 0 ? judged : any, 30, NULL), why);
        check_end(PLUMB_END_FAILED, 1, 7);
        CHECK(outcome.failure.predicate == PLUMB_FAILS_NONFINITE &&
                  outcome.failure.step == 7,
              "predicate %d", outcome.failure.predicate);
    }
    CHECK_OK(run_mode("hidden", "30", "0", plain, judged, 30, NULL), why);
    check_end(PLUMB_END_NONFINITE, 1, 6);
    CHECK(outcome.failure.predicate == PLUMB_FAILS_NOT, "a predicate fired");
    check_done("non-finite ends");
}

static void deaths(void)
{
    CHECK_OK(run_mode("segv", "5", "0", plain, any, 5, NULL), why);
    check_end(PLUMB_END_DIED, 0, 0);
    CHECK(outcome.signal == SIGSEGV && outcome.exit_status == -1, "signal %d status %d",
          outcome.signal, outcome.exit_status);
    check_says("SIGSEGV");
    check_says("about to fail");
    CHECK_OK(run_mode("refuse", "5", "0", plain, any, 5, NULL), why);
    check_end(PLUMB_END_REFUSED, 0, 0);
    CHECK(outcome.exit_status == 3, "status %d", outcome.exit_status);
    check_says("rule 2: no site matches");
    CHECK_OK(run_mode("launched", "5", "0", plain, any, 5, NULL), why);
    check_end(PLUMB_END_REFUSED, 0, 0); /* its launcher gave another status */
    check_says("end.json says so");
    check_says("rule 2: no site matches");
    CHECK_OK(run_mode("nothing", "5", "0", plain, any, 5, NULL), why);
    check_end(PLUMB_END_DIED, 0, 0);
    check_says("no end.json");
    CHECK_OK(run_mode("nothing", "5", "0", plain, any, 0, NULL), why);
    check_end(PLUMB_END_DIED, 0, 0);
    check_says("no run.json");
    CHECK_OK(run_mode("fine", "6", "0", plain, any, 20, NULL),
             why); /* its goal, not ours */
    check_end(PLUMB_END_DIED, 1, 6);
    check_says("after step 6 of 20");
    CHECK_OK(run_mode("half", "6", "0", plain, any, 20, NULL), why);
    check_end(PLUMB_END_DIED, 1, 6);
    CHECK(outcome.history.bad_lines == 1 && outcome.signal == SIGKILL, "half a line");
    CHECK_OK(run_mode("garbage", "20", "0", plain, any, 20, NULL), why);
    check_end(PLUMB_END_REACHED, 1, 20);
    CHECK(outcome.history.bad_lines == 3 && outcome.history.count == 20, "%zu bad lines",
          outcome.history.bad_lines);
    check_done("trainers that die, refuse, write nothing, garbage, half a line");
}

static void no_start(void)
{
    const char *const missing[] = {"/nowhere/trainer --x", "1", NULL};
    const plumb_launcher launcher = {.command = missing};
    plumb_request request;

    CHECK_OK(run_mode("fine", "5", "0", launcher, any, 5, NULL), why);
    check_end(PLUMB_END_NO_START, 0, 0);
    check_says("/nowhere/trainer --x");
    check_says(strerror(ENOENT));
    plumb_request_init(&request);
    request.stop_at = 5, request.has_seed = true, request.seed = 17;
    const plumb_arm arm = {.request = &request};
    CHECK(!plumb_study_has(study, &arm), "a command that did not start is remembered");
    check_done("a command that does not exist");
}

static void silence(void)
{
    const plumb_launcher slow = {.silence_seconds = 0.3, .start_seconds = 30};
    const plumb_launcher late = {.start_seconds = 0.3};
    const double before = now();

    CHECK_OK(run_mode("quiet", "20", "0", slow, any, 20, NULL), why);
    check_end(PLUMB_END_SILENT, 1, 4);
    check_says("no line for 0.3 s after step 4");
    CHECK_OK(run_mode("hang", "20", "0", late, any, 20, NULL), why);
    check_end(PLUMB_END_SILENT, 0, 0);
    check_says("before its first step");
    CHECK(now() - before < 5, "took %.1f s", now() - before);
    CHECK_OK(run_mode("fine", "40", "0.02", slow, any, 40, NULL),
             why); /* slow, not silent */
    check_end(PLUMB_END_REACHED, 1, 40);
    check_done("silence");
}

/* All is written, and the process hangs in its teardown. */
static void lingering(void)
{
    const plumb_launcher brief = {.grace_seconds = 0.3};
    const double before = now();

    CHECK_OK(run_mode("linger", "5", "0", brief, any, 5, NULL), why);
    check_end(PLUMB_END_REACHED, 1, 5);
    CHECK(now() - before < 10, "took %.1f s", now() - before);
    check_done("a process that outlives its run");
}

static void stopping(void)
{
    const plumb_arm judged = {.predicates = &usual};
    plumb_launcher hard = {.grace_seconds = 0.3};
    char kill_command[700], path[700];
    double before = now();

    CHECK_OK(run_mode("polite", "2000", "0.01", plain, judged, 2000, NULL), why);
    CHECK(outcome.last_step < 200, "ran to %lld", (long long)outcome.last_step);
    check_end(PLUMB_END_FAILED, 1, outcome.last_step);
    CHECK(outcome.failure.predicate == PLUMB_FAILS_RISE && outcome.failure.step == 11 &&
              outcome.failure.decided == 13,
          "%d at %lld, decided %lld", outcome.failure.predicate,
          (long long)outcome.failure.step, (long long)outcome.failure.decided);
    CHECK(outcome.exit_status == 0, "SIGTERM was not heeded: status %d signal %d",
          outcome.exit_status, outcome.signal);
    snprintf(path, sizeof path, "%s/stop", outcome.run_dir);
    CHECK(access(path, F_OK) == 0, "no stop file");
    CHECK(now() - before < 4, "took %.1f s", now() - before);

    snprintf(kill_command, sizeof kill_command, "echo \"$PLUMB_RUN_DIR\" >%s/killed",
             scratch);
    hard.kill_command = kill_command;
    before = now();
    CHECK_OK(run_mode("deaf", "2000", "0.01", hard, judged, 2000, NULL), why);
    check_end(PLUMB_END_FAILED, 1, outcome.last_step);
    CHECK(outcome.signal == SIGKILL, "signal %d", outcome.signal);
    CHECK(now() - before > 0.3 && now() - before < 4, "took %.1f s", now() - before);
    CHECK(file_has(in_scratch("killed"), outcome.run_dir), "no kill command");

    before = now();
    CHECK_OK(run_mode("past", "2000", "0.01", plain, any, 5, NULL), why);
    CHECK(now() - before < 4, "a run past its goal was not stopped: %.1f s",
          now() - before);
    check_end(PLUMB_END_REACHED, 1, 5);
    CHECK(outcome.history.count == 5, "%zu rows", outcome.history.count);
    check_says("went on past step 5");
    CHECK_OK(run_mode("child", "5", "0", plain, any, 5, NULL), why);
    check_end(PLUMB_END_REACHED, 1, 5);
    CHECK(count_lines(pids_path) == 2, "no grandchild");
    check_done("stop, SIGTERM, SIGKILL, kill command, children");
}

static int calls;
static int64_t rows_seen;

static bool interrupt(void *context, const plumb_arm *arm, const plumb_history *history,
                      double seconds)
{
    (void)context, (void)arm, (void)seconds;
    rows_seen = (int64_t)history->count;
    return ++calls < 3;
}

static bool take_away(void *context, const plumb_arm *arm, const plumb_history *history,
                      double seconds)
{
    (void)context, (void)arm, (void)history, (void)seconds;
    plumb_dir_remove(in_scratch("study/runs"), NULL);
    return true;
}

static void interruption(void)
{
    const double before = now();

    calls = 0;
    CHECK(run_mode("fine", "9000", "0.01", plain, any, 9000, interrupt) ==
              PLUMB_INTERRUPTED,
          "not interrupted");
    CHECK(now() - before > 0.5 && now() - before < 3, "took %.1f s", now() - before);
    CHECK(rows_seen > 5, "watched %lld rows", (long long)rows_seen);
    CHECK(still_running() == 0, "trainer left");
    CHECK(rmdir(in_scratch("study/runs")) == 0, "the run was not removed");
    CHECK(run_mode("fine", "9000", "0.01", plain, any, 9000, take_away) == PLUMB_IO,
          "a lost directory is no error");
    CHECK(strstr(why.message, "went away") != NULL, "%s", why.message);
    CHECK(still_running() == 0, "trainer left");
    check_done("interruption, lost directory");
}

static void many_lines(void)
{
    static const char script[] =
        "cd \"$PLUMB_RUN_DIR\"; seq 1 100000 | "
        "sed 's/.*/{\"step\": &, \"loss\": 2.5}/' >metrics.jsonl\n";
    const char *const command[] = {"sh", "-c", script, NULL};
    const plumb_launcher launcher = {.command = command};
    const plumb_arm judged = {.predicates = &usual};

    CHECK_OK(run_mode("fine", "5", "0", launcher, judged, 100000, NULL), why);
    check_end(PLUMB_END_REACHED, 1, 100000);
    CHECK(outcome.history.count == 100000, "%zu rows", outcome.history.count);
    check_done("a hundred thousand lines at once");
}

/* With SIGCHLD ignored the system keeps no exit status; the log still answers. */
static void ignored_children(void)
{
    signal(SIGCHLD, SIG_IGN);
    CHECK_OK(run_mode("fine", "10", "0.01", plain, any, 10, NULL), why);
    signal(SIGCHLD, SIG_DFL);
    check_end(PLUMB_END_REACHED, 1, 10);
    check_done("SIGCHLD ignored by the caller");
}

int main(void)
{
    scratch_make();
    healthy();
    surroundings();
    nonfinite();
    deaths();
    no_start();
    silence();
    lingering();
    stopping();
    interruption();
    many_lines();
    ignored_children();
    plumb_study_close(&study);
    plumb_outcome_free(&outcome);
    scratch_remove();
    return check_exit();
}
