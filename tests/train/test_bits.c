/* Same seed, same bits: twice, for 1 and 2 threads, with sensors on and off and in a build without
 * sensor calls, on every instruction set, after stop and resume.  And golden losses and state hashes, so
 * that a change of any bit is seen in review.
 */
#include "run.h"

static const char delayed[] = "recipe=te-delayed";

static void same(const test_run *a, const test_run *b, const char *what)
{
    CHECK(a->history.count == b->history.count && test_differ(a, b) == 0,
          "%s: %zu and %zu lines, first difference at step %lld", what, a->history.count,
          b->history.count, (long long)test_differ(a, b));
}

static void repeats(void)
{
    test_run first = test_plain(delayed), again = test_plain(delayed);
    test_run threads = test_plain("recipe=te-delayed threads=2");
    test_run other = test_plain("recipe=te-delayed seed=2");
    test_run data = test_plain("recipe=te-delayed data_seed=2");

    same(&first, &again, "the same run twice");
    same(&first, &threads, "1 and 2 threads");
    CHECK(test_differ(&first, &other) == 1, "another seed gives the same bits");
    CHECK(first.history.at[0].batch_hash == other.history.at[0].batch_hash,
          "the seed moved the data");
    CHECK(first.history.at[0].batch_hash != data.history.at[0].batch_hash,
          "the data seed did not move the data");
    CHECK(first.history.at[7].loss < first.history.at[0].loss - 0.5,
          "the loss did not fall: %g", first.history.at[7].loss);
    test_free(&first);
    test_free(&again);
    test_free(&threads);
    test_free(&other);
    test_free(&data);
    check_done("repeats and threads");
}

static void sensors(void)
{
    test_run off = test_plain(delayed), on = test_request(), gone = test_request();
    char command[1024], directory[300];

    on.request.observe_every = 1;
    test_go(&on, NULL, "recipe=te-delayed sensors.shadow_every=2");
    same(&off, &on, "sensors off and on");

    plumb_dir_make(gone.dir, NULL);
    if (getcwd(directory, sizeof directory) == NULL)
        return;
    snprintf(
        command, sizeof command,
        "PLUMB_RUN_DIR='%s/%s' PLUMB_STOP_AT=8 PLUMB_OBSERVE_EVERY=1 '%s' - model.layers=2 "
        "model.width=32 model.heads=2 model.ff=40 model.context=16 batch.sequences=4 "
        "optimizer.steps=40 optimizer.warmup=4 data=%s recipe=te-delayed",
        directory, gone.dir, NO_SENSORS, test_text);
    CHECK(system(command) == 0, "the build without sensors failed");
    plumb_history_refresh(gone.dir, &gone.history, true, NULL);
    same(&off, &gone, "a build without sensor calls");
    snprintf(command, sizeof command, "%s/sites-rank00000.pls", gone.dir);
    CHECK(access(command, F_OK) != 0, "the build without sensors has sensors");
    test_free(&off);
    test_free(&on);
    test_free(&gone);
    check_done("sensors on, off and gone");
}

static test_run limited(const char *level, const char *more)
{
    unsigned mask;

    CHECK(plumb_cpu_parse(level, &mask), "no level %s", level);
    plumb_cpu_limit(mask);
    return test_plain(more);
}

static void instruction_sets(void)
{
    static const char *const recipes[] = {"recipe=te-delayed", "recipe=deepseek-v3",
                                          "recipe=bf16"};

    for (int i = 0; i < 3; i++) {
        test_run best = limited("avx512bf16", recipes[i]);
        test_run wide = limited("avx512", recipes[i]);
        test_run half = limited("avx2", recipes[i]);
        test_run none = limited("baseline", recipes[i]);

        same(&best, &wide, recipes[i]);
        same(&best, &half, recipes[i]);
        same(&best, &none, recipes[i]);
        test_free(&best);
        test_free(&wide);
        test_free(&half);
        test_free(&none);
    }
    plumb_cpu_limit(~0u);
    check_done("instruction sets");
}

/* path: a run file with what delayed scaling alone does not have, or NULL. */
static void resume(const char *path, const char *what)
{
    test_run whole = test_request(), rest = test_request();
    json_t *events = NULL;
    size_t bad;

    whole.request.checkpoint_count = 1;
    whole.request.checkpoint_at = calloc(1, sizeof(int64_t));
    whole.request.checkpoint_at[0] = 3;
    test_go(&whole, path, delayed);
    CHECK(plumb_events_read(whole.dir, &events, &bad, NULL) == PLUMB_OK, "no events");
    json_t *event = test_event(events, "checkpoint");
    const char *ref = json_string_value(json_object_get(event, "ref"));

    if (CHECK(ref != NULL && ref[0] == '/', "no checkpoint event with an absolute ref")) {
        CHECK(json_integer_value(json_object_get(event, "step")) == 3, "not of step 3");
        CHECK(json_integer_value(json_object_get(event, "bytes")) > 1000, "no size");
        rest.request.start = strdup(ref);
        test_go(&rest, path, delayed);
        CHECK(rest.history.count == 5 && rest.history.at[0].step == 4,
              "%s: %zu steps from %lld", rest.said, rest.history.count,
              rest.history.count > 0 ? (long long)rest.history.at[0].step : -1);
        CHECK(test_differ(&whole, &rest) == 0, "resumed, step %lld differs",
              (long long)test_differ(&whole, &rest));
    }
    json_decref(events);
    test_free(&whole);
    test_free(&rest);
    check_done(what);
}

/* A planted fault must not see where a run was cut: what it keeps lies in the checkpoint. */
static void resume_with_fault(void)
{
    char path[128];

    snprintf(path, sizeof path, "%s/frozen.yaml", test_root);
    test_write(path,
               "faults:\n  - {kind: frozen-scale, sites: \"*/fprop/x\", from: 2}\n"
               "  - {kind: scale-factor, sites: \"*/dgrad/dy\", from: 2, factor: 4}\n");
    resume(path, "stop and resume with planted faults");
}

static void micro_order(void)
{
    static const char many[] = "recipe=te-current batch.micro_batches=2";
    test_run plain = test_plain(many), moved = test_request(), single = test_request();
    test_run alone = test_plain(delayed);
    int64_t at;

    moved.request.has_micro_order = single.request.has_micro_order = true;
    moved.request.micro_order = single.request.micro_order = 5;
    test_go(&moved, NULL, many);
    test_go(&single, NULL, delayed);
    at = test_differ(&plain, &moved);
    CHECK(at >= 1 && at <= 3, "two micro-batches: first difference at step %lld",
          (long long)at);
    at = test_differ(&alone, &single);
    CHECK(at >= 1 && at <= 3, "one micro-batch: first difference at step %lld",
          (long long)at);
    for (size_t i = 0; i < plain.history.count; i++) {
        CHECK(plain.history.at[i].batch_hash == moved.history.at[i].batch_hash,
              "the batch is another one");
        CHECK(fabs(plain.history.at[i].loss - moved.history.at[i].loss) < 0.02,
              "step %zu: %g and %g", i + 1, plain.history.at[i].loss,
              moved.history.at[i].loss);
    }
    test_free(&plain);
    test_free(&moved);
    test_free(&single);
    test_free(&alone);
    check_done("the order of micro-batches moves last bits only");
}

/* Ten losses of a run, or its ten state hashes, which see every bit that is carried over. */
static void print_golden(const test_run *r, bool hashes, char *line, size_t size)
{
    size_t end = strlen(line);

    for (size_t i = 0; i < r->history.count && end < size; i++)
        end += (size_t)(hashes ? snprintf(line + end, size - end, " %016llx",
                                          (unsigned long long)r->history.at[i].state_hash)
                               : snprintf(line + end, size - end, " %.17g",
                                          r->history.at[i].loss));
}

/* tests/train/golden.txt: a line for each row; `test_train_bits --golden` prints it anew. */
static void golden(bool print)
{
    static const struct {
        const char *name, *settings;
        bool hashes;
    } rows[] = {
        {"bf16", "recipe=bf16", false},
        {"te-delayed", "recipe=te-delayed", false},
        {"te-current", "recipe=te-current", false},
        {"deepseek-v3", "recipe=deepseek-v3", false},
        {"hashes/bf16", "recipe=bf16", true},
        {"hashes/te-delayed", "recipe=te-delayed", true},
        {"hashes/te-current", "recipe=te-current", true},
        {"hashes/deepseek-v3", "recipe=deepseek-v3", true},
        {"hashes/te-current/4-ranks", "recipe=te-current batch.ranks=4", true},
        {"hashes/deepseek-v3/3-ranks-2-micro-batches",
         "recipe=deepseek-v3 batch.sequences=12 batch.ranks=3 batch.micro_batches=2", true},
    };
    char path[512], line[1024], want[1024];
    FILE *file = NULL;

    snprintf(path, sizeof path, "%s/tests/train/golden.txt", getenv("PLUMB_SOURCE_DIR"));
    if (!print)
        file = fopen(path, "r");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_run r = test_request();

        r.request.stop_at = 10;
        test_go(&r, NULL, rows[i].settings);
        snprintf(line, sizeof line, "%s", rows[i].name);
        print_golden(&r, rows[i].hashes, line, sizeof line);
        if (print) {
            printf("%s\n", line);
        } else {
            want[0] = 0;
            CHECK(file != NULL && fgets(want, sizeof want, file) != NULL, "no line in %s",
                  path);
            want[strcspn(want, "\n")] = 0;
            CHECK(strcmp(line, want) == 0, "got  %s\n# want %s", line, want);
        }
        test_free(&r);
    }
    if (file != NULL)
        fclose(file);
    if (!print)
        check_done("golden losses and state hashes");
}

int main(int argc, char **argv)
{
    test_begin();
    if (argc > 1 && strcmp(argv[1], "--golden") == 0) {
        golden(true);
        test_end();
        return 0;
    }
    repeats();
    sensors();
    instruction_sets();
    resume(NULL, "stop and resume");
    resume_with_fault();
    micro_order();
    golden(false);
    test_end();
    return check_exit();
}
