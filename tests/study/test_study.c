/* What a study remembers: the same question twice, other questions, judging anew; the lock,
 * the index, damaged records, a full disk.
 */
#define _XOPEN_SOURCE 700 /* setitimer */

#include "asking.h"

#include <sys/resource.h>
#include <sys/time.h>

static const plumb_predicates wide = {.persistence = 3, .rise = 50};

/* Runs the arm and checks its end; true when it was found finished. */
static bool run_arm(plumb_study *study, plumb_request *request,
                    const plumb_predicates *predicates, plumb_end end, int64_t fail_step)
{
    const plumb_arm arm = {.label = "an arm", .request = request, .predicates = predicates};
    plumb_outcome o;

    CHECK_OK(plumb_study_run(study, &arm, NULL, NULL, &o, &why), why);
    CHECK(o.end == end && o.failure.step == fail_step, "%s at %lld, want %s at %lld (%s)",
          plumb_end_name(o.end), (long long)o.failure.step, plumb_end_name(end),
          (long long)fail_step, o.message);
    const bool reused = o.reused;

    plumb_outcome_free(&o);
    return reused;
}

static void reuse(void)
{
    plumb_study *study = fresh_study("fine", "0");
    plumb_request request = request_of(20, 1);
    plumb_arm arm = {.label = "own", .request = &request};
    plumb_outcome first, again;

    CHECK(!plumb_study_has(study, &arm), "finished before it ran");
    CHECK_OK(plumb_study_run(study, &arm, NULL, NULL, &first, &why), why);
    for (int k = 0; k < 2; k++) {
        CHECK(plumb_study_has(study, &arm), "not remembered");
        CHECK_OK(plumb_study_run(study, &arm, NULL, NULL, &again, &why), why);
        CHECK(!first.reused && again.reused, "reused %d", again.reused);
        CHECK(strcmp(first.id, again.id) == 0 &&
                  strcmp(first.run_dir, again.run_dir) == 0 && first.end == again.end &&
                  again.first_step == 1 && again.last_step == 20 &&
                  again.history.count == 20 && again.exit_status == 0 &&
                  again.seconds > 0.99 * first.seconds &&
                  again.seconds < 1.01 * first.seconds,
              "another outcome");
        plumb_outcome_free(&again);
        plumb_study_close(&study);
        study = open_study("fine", "0");
    }
    CHECK(launches() == 1, "%zu launches", launches());
    CHECK(strlen(first.id) == 32, "id %s", first.id);
    plumb_outcome_free(&first);
    plumb_study_close(&study);
    study = open_study("fine", "0.001");
    CHECK(!plumb_study_has(study, &arm), "another command found the same run");
    plumb_study_close(&study);
    plumb_study_close(&study);
    check_done("the same question twice");
}

static void identity(void)
{
    plumb_study *study = fresh_study("fine", "0");
    int64_t steps[] = {5, 6};
    char start[] = "a checkpoint";
    const char *globs[] = {"a", "b"};
    plumb_rule rule = {.globs = globs, .glob_count = 2, .use = "bf16"};
    plumb_rules rules = {&rule, 1};
    plumb_request r = request_of(5, 1);
    plumb_arm arm = {.label = "x", .request = &r, .rules = &rules, .config_hash = "c"};
    plumb_outcome o;
    int differ = 0;

    CHECK_OK(plumb_study_run(study, &arm, NULL, NULL, &o, &why), why);
    plumb_outcome_free(&o);
    CHECK(plumb_study_has(study, &arm), "not the same");
    arm.label = "y", arm.predicates = &tight;
    CHECK(plumb_study_has(study, &arm), "a label or a predicate makes another run");
#define OTHER(change, back)                                                                \
    do {                                                                                   \
        change;                                                                            \
        CHECK(!plumb_study_has(study, &arm), "the same run with " #change);                \
        back;                                                                              \
        CHECK(plumb_study_has(study, &arm), "not the same again after " #back);            \
        differ++;                                                                          \
    } while (0)
    OTHER(r.seed = 2, r.seed = 1);
    OTHER(r.has_seed = false, r.has_seed = true);
    OTHER(r.has_data_seed = true, r.has_data_seed = false);
    OTHER(r.has_micro_order = true, r.has_micro_order = false);
    OTHER(r.stop_at = 4, r.stop_at = 5);
    OTHER(r.start = start, r.start = NULL);
    OTHER((r.checkpoint_at = steps, r.checkpoint_count = 1), r.checkpoint_count = 0);
    OTHER(r.lr_scale = 0.5, r.lr_scale = 1);
    OTHER(r.warmup_scale = 0.5, r.warmup_scale = 1);
    OTHER(r.clip_scale = 0.5, r.clip_scale = 1);
    OTHER((r.skip = (plumb_span){3, 4}), r.skip = (plumb_span){0});
    OTHER(r.observe_every = 1, r.observe_every = 0);
    OTHER(rule.use = "own", rule.use = "bf16");
    OTHER(rule.raise = true, rule.raise = false);
    OTHER(rule.glob_count = 1, rule.glob_count = 2);
    OTHER(globs[1] = "c", globs[1] = "b");
    OTHER((globs[0] = "ab", globs[1] = ""), (globs[0] = "a", globs[1] = "b"));
    OTHER(rules.count = 0, rules.count = 1);
    OTHER(arm.config_hash = "d", arm.config_hash = "c");
    OTHER(arm.config_hash = NULL, arm.config_hash = "c");
    OTHER(arm.repeat = 1, arm.repeat = 0);
#undef OTHER
    CHECK(differ == 21, "%d", differ);
    plumb_study_close(&study);
    check_done("what makes another run");
}

static bool refuse_to_wait(void *context, const plumb_arm *arm,
                           const plumb_history *history, double seconds)
{
    (void)context, (void)arm, (void)history, (void)seconds;
    return false;
}

static void judged_anew(void)
{
    plumb_study *study = fresh_study("jump", "0.01");
    plumb_request r = request_of(30, 1);

    CHECK(!run_arm(study, &r, &tight, PLUMB_END_FAILED, 11), "at first");
    CHECK(run_arm(study, &r, &tight, PLUMB_END_FAILED, 11) && launches() == 1, "again");
    const plumb_arm arm = {.request = &r, .predicates = &wide};
    plumb_outcome o;
    CHECK(ask_index("SELECT count(*) FROM runs") == 1, "no row");
    CHECK(plumb_study_run(study, &arm, refuse_to_wait, NULL, &o, &why) == PLUMB_INTERRUPTED,
          "not interrupted");
    CHECK(ask_index("SELECT count(*) FROM runs") == 0, "the row of a run that was removed");
    forget_launches();
    CHECK(!run_arm(study, &r, &tight, PLUMB_END_FAILED, 11), "removed, so run again");
    CHECK(!run_arm(study, &r, &wide, PLUMB_END_REACHED, 0) && launches() == 2,
          "a stopped run answered a question past its end");
    CHECK(run_arm(study, &r, &wide, PLUMB_END_REACHED, 0), "wide again");
    CHECK(run_arm(study, &r, &tight, PLUMB_END_FAILED, 11), "tight on the whole run");
    CHECK(run_arm(study, &r, NULL, PLUMB_END_REACHED, 0) && launches() == 2,
          "no predicates");

    /* A twin that comes later: loss 3 - i/100 against 9 from step 11 on. */
    plumb_metrics rows[30];
    for (int i = 0; i < 30; i++)
        rows[i] = (plumb_metrics){.step = i + 1, .loss = 2.99 - 0.01 * i};
    const plumb_history twin = {.at = rows, .count = 30};
    const plumb_predicates paired = {
        .rise = 50, .persistence = 3, .twin = &twin, .band = 0.1};
    CHECK(run_arm(study, &r, &paired, PLUMB_END_FAILED, 11) && launches() == 2, "paired");
    plumb_study_close(&study);
    check_done("judging a finished run anew");
}

/* --- lock ---------------------------------------------------------------------------------- */

static void check_refused(const char *text, const char *more)
{
    const char *const command[] = {"true", NULL};
    const plumb_launcher launcher = {.command = command};
    plumb_study *study = NULL;
    const plumb_status status =
        plumb_study_open(in_scratch("study"), &launcher, &study, &why);

    CHECK(status == PLUMB_BUSY && study == NULL, "status %s", plumb_status_name(status));
    CHECK(strstr(why.message, text) != NULL && strstr(why.message, more) != NULL,
          "\"%s\" lacks \"%s\" or \"%s\"", why.message, text, more);
    if (study != NULL)
        plumb_study_close(&study);
}

/* Writes the lock with one of its fields replaced. */
static void edit_lock(const char *key, json_t *value)
{
    json_t *json = NULL;

    CHECK_OK(plumb_json_load(in_scratch("old-lock"), 1 << 16, &json, &why), why);
    json_object_set_new(json, key, value);
    CHECK_OK(plumb_json_save(in_scratch("study/lock"), json, &why), why);
    json_decref(json);
}

static pid_t die_with_lock(void)
{
    const pid_t child = fork();

    if (child == 0) {
        open_study("fine", "0");
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return child;
}

static void lock(void)
{
    plumb_study *study = fresh_study("fine", "0");
    char host[256] = "", pid[32];

    gethostname(host, sizeof host - 1);
    snprintf(pid, sizeof pid, "process %d ", (int)getpid());
    check_refused(pid, host);
    const pid_t child = fork();
    if (child == 0) {
        check_refused(pid, host);
        _exit(check_state.failures > 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0, "another process was let in");
    char *data = NULL;
    size_t size = 0;
    CHECK_OK(plumb_file_read(in_scratch("study/lock"), 1 << 16, &data, &size, &why), why);
    write_text(in_scratch("old-lock"), data != NULL ? data : "");
    free(data);
    plumb_study_close(&study);
    CHECK(access(in_scratch("study/lock"), F_OK) != 0, "the lock was left");

    die_with_lock();
    CHECK(access(in_scratch("study/lock"), F_OK) == 0, "no stale lock");
    study = open_study("fine", "0");
    CHECK(study != NULL, "a stale lock was not taken over");
    plumb_study_close(&study);
    edit_lock("start", json_integer(1)); /* our number, but a process of long ago */
    study = open_study("fine", "0");
    plumb_study_close(&study);
    edit_lock("boot", json_string("another")); /* the host has been started anew */
    study = open_study("fine", "0");
    plumb_study_close(&study);
    edit_lock("host", json_string("elsewhere"));
    check_refused("elsewhere", "remove ");
    edit_lock("space", json_string("pid:[1]")); /* another container */
    check_refused(host, "remove ");
    write_text(in_scratch("study/lock"), "{\"host\": 3}");
    check_refused("does not say who holds it", "remove it");
    unlink(in_scratch("study/lock"));
    study = open_study("fine", "0");
    plumb_study_close(&study);
    check_done("lock: refused, taken over, elsewhere");
}

/* Eight processes want the lock of a dead one at the same moment: one gets it. */
static void race(void)
{
    for (int round = 0; round < 6; round++) {
        int go[2], got = 0, refused = 0;
        pid_t children[8];

        die_with_lock();
        if (pipe(go) != 0)
            exit(1);
        for (int i = 0; i < 8; i++) {
            children[i] = fork();
            if (children[i] == 0) {
                const char *const command[] = {"true", NULL};
                const plumb_launcher launcher = {.command = command};
                plumb_study *study;
                char c;

                close(go[1]);
                if (read(go[0], &c, 1) != 0)
                    _exit(9);
                const plumb_status status =
                    plumb_study_open(in_scratch("study"), &launcher, &study, &why);
                if (status == PLUMB_OK)
                    rest(0.3);
                _exit(status == PLUMB_OK ? 0 : status == PLUMB_BUSY ? 1 : 2);
            }
        }
        close(go[0]);
        close(go[1]); /* all see the end of the pipe now */
        for (int i = 0; i < 8; i++) {
            int status;

            waitpid(children[i], &status, 0);
            got += WIFEXITED(status) && WEXITSTATUS(status) == 0;
            refused += WIFEXITED(status) && WEXITSTATUS(status) == 1;
        }
        CHECK(got == 1 && refused == 7, "%d got the lock, %d were refused", got, refused);
    }
    unlink(in_scratch("study/lock"));
    check_done("lock: eight at once");
}

/* --- index and records ----------------------------------------------------------------------- */

static void check_index(const char *when)
{
    plumb_study *study = open_study("jump", "0");
    plumb_request a = request_of(30, 1), b = request_of(5, 2);

    CHECK(ask_index("SELECT count(*) FROM runs") == 2, "%s: %d rows", when,
          ask_index("SELECT count(*) FROM runs"));
    CHECK(ask_index("SELECT fail_step FROM runs WHERE \"end\"='failed' AND "
                    "predicate='rise' AND label='an arm'") == 11,
          "%s: failed run", when);
    CHECK(ask_index("SELECT last_step FROM runs WHERE \"end\"='reached'") == 5, "%s: other",
          when);
    const plumb_arm has_a = {.request = &a, .predicates = &tight};
    const plumb_arm has_b = {.request = &b, .predicates = &tight};
    CHECK(plumb_study_has(study, &has_a) && plumb_study_has(study, &has_b), "%s: ids",
          when);
    run_arm(study, &a, &tight, PLUMB_END_FAILED, 11);
    run_arm(study, &b, &tight, PLUMB_END_REACHED, 0);
    CHECK(launches() == 2, "%s: %zu launches", when, launches());
    plumb_study_close(&study);
}

static void damage(const char *path, long at, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "r+");

    if (f == NULL || fseek(f, at, SEEK_SET) != 0 || fwrite(bytes, 1, n, f) != n ||
        fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

static void index_table(void)
{
    plumb_study *study = fresh_study("jump", "0");
    plumb_request a = request_of(30, 1), b = request_of(5, 2);
    static char zeros[4096];

    run_arm(study, &a, &tight, PLUMB_END_FAILED, 11);
    run_arm(study, &b, &tight, PLUMB_END_REACHED, 0);
    plumb_study_close(&study);
    check_index("at first");
    unlink(in_scratch("study/index.sqlite"));
    check_index("absent");
    write_text(in_scratch("study/index.sqlite"), "this is no database at all");
    check_index("garbage");
    damage(in_scratch("study/index.sqlite"), 100, zeros, sizeof zeros - 100);
    check_index("first page zeroed");
    damage(in_scratch("study/index.sqlite"), 4096, "\xff\xff\xff\xff\xff\xff", 6);
    check_index("second page damaged");
    CHECK(truncate(in_scratch("study/index.sqlite"), 0) == 0, "truncate");
    check_index("empty");
    ask_index("DELETE FROM runs WHERE \"end\"='failed'");
    check_index("a row missing");
    ask_index("UPDATE runs SET id='x' WHERE \"end\"='failed'");
    check_index("a row of another run");
    check_done("index: written, rebuilt");
}

static void find_run(const char *file, char path[900])
{
    char command[800];

    snprintf(command, sizeof command,
             "ls -d %s/study/runs/????????????????????????????????", scratch);
    FILE *ls = popen(command, "r");

    if (ls == NULL || fgets(path, 800, ls) == NULL)
        exit(1);
    pclose(ls);
    path[strcspn(path, "\n")] = 0;
    strcat(path, file);
}

static void records(void)
{
    static const char *const bad[] = {
        "", "{", "[]", "{\"end\": \"reached\"}",
        "{\"id\": \"00000000000000000000000000000000\", \"label\": \"\", \"message\": "
        "\"\", "
        "\"end\": \"reached\", \"by_itself\": \"reached\", \"first_step\": 1, "
        "\"last_step\": 5, \"exit_status\": 0, \"signal\": 0, \"seconds\": 1}"};
    plumb_study *study = fresh_study("fine", "0");
    plumb_request r = request_of(5, 1);
    char path[900];

    run_arm(study, &r, NULL, PLUMB_END_REACHED, 0);
    find_run("/outcome.json", path);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        forget_launches();
        write_text(path, bad[i]); /* while the study is open, and while it is not */
        if (i % 2 == 1) {
            plumb_study_close(&study);
            study = open_study("fine", "0");
        }
        CHECK(!run_arm(study, &r, NULL, PLUMB_END_REACHED, 0) && launches() == 1,
              "record %zu was believed", i);
    }
    forget_launches();
    find_run("/run/metrics.jsonl", path);
    CHECK(truncate(path, 60) == 0, "%s", path);
    CHECK(!run_arm(study, &r, NULL, PLUMB_END_REACHED, 0) && launches() == 1,
          "a log that lost lines was believed");
    plumb_study_close(&study);

    /* Unfinished runs go; what plumb did not name stays; links are not followed. */
    mkdir(in_scratch("study/runs/0123456789abcdef0123456789abcdef"), 0777);
    mkdir(in_scratch("study/runs/notes"), 0777);
    mkdir(in_scratch("precious"), 0777);
    write_text(in_scratch("precious/file"), "x");
    char target[600];
    snprintf(target, sizeof target, "%s/precious", scratch);
    CHECK(symlink(target, in_scratch("study/runs/ffffffffffffffffffffffffffffffff")) == 0,
          "symlink");
    CHECK(symlink(target, in_scratch("study/runs/0123456789abcdef0123456789abcdef/run")) ==
              0,
          "symlink");
    study = open_study("fine", "0");
    CHECK(access(in_scratch("study/runs/0123456789abcdef0123456789abcdef"), F_OK) != 0,
          "an unfinished run was kept");
    CHECK(access(in_scratch("study/runs/notes"), F_OK) == 0, "notes were removed");
    CHECK(access(in_scratch("precious/file"), F_OK) == 0, "a link was followed");
    CHECK(access(in_scratch("study/runs/ffffffffffffffffffffffffffffffff"), F_OK) == 0,
          "a link was removed");
    forget_launches();
    CHECK(run_arm(study, &r, NULL, PLUMB_END_REACHED, 0) && launches() == 0, "repeated");
    plumb_study_close(&study);

    CHECK(plumb_study_open(in_scratch("study"), NULL, &study, &why) == PLUMB_BAD_ARGUMENT,
          "no launcher");
    const char *const none[] = {NULL}, *const some[] = {"true", NULL};
    const plumb_launcher fine = {.command = some};
    const plumb_launcher empty = {.command = none};
    CHECK(plumb_study_open(in_scratch("study"), &empty, &study, &why) == PLUMB_BAD_ARGUMENT,
          "no command");
    CHECK(plumb_study_open(in_scratch("precious/file"), &fine, &study, &why) == PLUMB_IO &&
              strstr(why.message, "precious/file") != NULL,
          "a file as study: %s", why.message);
    check_done("damaged records, unfinished runs, what is not plumb's");
}

/* --- the system refuses, or interrupts ------------------------------------------------------- */

/* Runs in a child that can write files of at most `limit` bytes. */
static void full_disk(void)
{
    plumb_study *study = fresh_study("fine", "0");

    plumb_study_close(&study);
    for (rlim_t limit = 0; limit < 4000; limit = 2 * limit + 20) {
        const pid_t child = fork();
        if (child == 0) {
            const char *const command[] = {"sh", trainer_path, "fine", "30", "0", NULL};
            const plumb_launcher launcher = {.command = command, .grace_seconds = 0.1};
            const struct rlimit most = {limit, limit};
            plumb_request r = request_of(30, (uint64_t)limit);
            const plumb_arm arm = {.request = &r};
            plumb_outcome o;

            signal(SIGXFSZ, SIG_IGN);
            setrlimit(RLIMIT_FSIZE, &most);
            plumb_status status =
                plumb_study_open(in_scratch("study"), &launcher, &study, &why);
            if (status == PLUMB_OK)
                status = plumb_study_run(study, &arm, NULL, NULL, &o, &why);
            /* A status that says so, or a trainer that fell short: never a false success. */
            _exit(status == PLUMB_IO ? strchr(why.message, '/') == NULL
                  : status == PLUMB_OK && o.end == PLUMB_END_DIED    ? 0
                  : status == PLUMB_OK && o.end == PLUMB_END_REACHED ? limit < 600
                                                                     : 3);
        }
        int status;
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "limit %d: status %d",
              (int)limit, status);
    }
    study = open_study("fine", "0");
    plumb_request r = request_of(30, 1);
    run_arm(study, &r, NULL, PLUMB_END_REACHED, 0);
    plumb_study_close(&study);
    check_done("a disk that is full");
}

static void tick(int number)
{
    (void)number;
}

static void interrupted_calls(void)
{
    const struct sigaction action = {.sa_handler = tick}; /* without SA_RESTART */
    const struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    plumb_study *study = fresh_study("jump", "0.01");
    plumb_request r = request_of(30, 1);
    run_arm(study, &r, &tight, PLUMB_END_FAILED, 11);
    run_arm(study, &r, &wide, PLUMB_END_REACHED, 0);
    plumb_study_close(&study);
    setitimer(ITIMER_REAL, &never, NULL);
    check_done("interrupted system calls");
}

int main(void)
{
    scratch_make();
    reuse();
    identity();
    judged_anew();
    lock();
    race();
    index_table();
    records();
    full_disk();
    interrupted_calls();
    scratch_remove();
    return check_exit();
}
