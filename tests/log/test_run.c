/* The writer: the very bytes of its lines, what it refuses, when it should stop. */
#include "plumb/log.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "file/scratch.h"

static bool file_is(const char *name, const char *want)
{
    size_t size;
    char *got = scratch_get(name, &size);
    const bool same = got != NULL && strcmp(got, want) == 0;

    if (!same)
        printf("# %s holds: %s\n", name, got != NULL ? got : "(absent)");
    free(got);
    return same;
}

static void lines(void)
{
    plumb_run *run;
    plumb_error why = {0};
    plumb_metrics m = {.step = 1, .loss = 0.1, .seconds = (double)NAN};

    scratch_folder("a");
    CHECK_OK(plumb_run_create(scratch_at("a"), &run, &why), why);
    CHECK_OK(plumb_run_step(run, &m, &why), why);
    CHECK(file_is("a/metrics.jsonl", "{\"step\":1,\"loss\":0.10000000000000001}\n"),
          "not visible at once");
    m = (plumb_metrics){.step = 2,
                        .loss = (double)NAN,
                        .grad_norm = (double)INFINITY,
                        .has_grad_norm = true,
                        .grad_norm_max = -(double)INFINITY,
                        .grad_norm_max_tensor = "head",
                        .loss_max = 2,
                        .update_max = 0.5,
                        .lr = 1e-3,
                        .has_details = true,
                        .batch_hash = 0xabc,
                        .has_batch_hash = true,
                        .state_hash = UINT64_MAX,
                        .has_state_hash = true,
                        .tokens = 512,
                        .seconds = 0.25,
                        .skipped = true};
    CHECK_OK(plumb_run_step(run, &m, &why), why);
    CHECK(file_is("a/metrics.jsonl",
                  "{\"step\":1,\"loss\":0.10000000000000001}\n"
                  "{\"step\":2,\"loss\":\"NaN\",\"grad_norm\":\"Infinity\","
                  "\"grad_norm_max\":\"-Infinity\",\"grad_norm_max_tensor\":\"head\","
                  "\"loss_max\":2.0,\"update_max\":0.5,\"lr\":0.001,"
                  "\"batch_hash\":\"0x0000000000000abc\","
                  "\"state_hash\":\"0xffffffffffffffff\",\"tokens\":512,\"seconds\":0.25,"
                  "\"skipped\":true}\n"),
          "second line");
    CHECK_OK(plumb_run_event(run, "checkpoint",
                             json_pack("{s:i,s:s}", "step", 5, "ref", "x"), &why),
             why);
    CHECK_OK(plumb_run_event(run, "alive", NULL, &why), why);
    CHECK(plumb_run_event(run, "bad", json_integer(3), &why) == PLUMB_BAD_ARGUMENT,
          "fields");
    CHECK_OK(plumb_run_end(&run, "nonfinite", 2, &why), why);
    CHECK(run == NULL, "not cleared");
    CHECK(
        file_is(
            "a/events.jsonl",
            "{\"event\":\"checkpoint\",\"step\":5,\"ref\":\"x\"}\n{\"event\":\"alive\"}\n"),
        "events");
    CHECK(file_is("a/end.json", "{\n \"reason\": \"nonfinite\",\n \"step\": 2\n}\n"),
          "end");
    check_done("lines");
}

static void occupied(void)
{
    static const char *const files[] = {"run.json", "metrics.jsonl", "events.jsonl"};
    plumb_run *run;
    plumb_error why = {0};

    for (size_t i = 0; i < 3; i++) {
        scratch_folder("b");
        char name[64];
        snprintf(name, sizeof name, "b/%s", files[i]);
        scratch_text(name, "");
        CHECK(plumb_run_create(scratch_at("b"), &run, &why) == PLUMB_BUSY && run == NULL &&
                  strstr(why.message, files[i]) != NULL,
              "%s: %s", files[i], why.message);
        CHECK(file_is(name, ""), "%s was touched", files[i]);
        remove(scratch_at("b/run.json"));
        remove(scratch_at("b/metrics.jsonl"));
        remove(scratch_at("b/events.jsonl"));
    }
    CHECK(plumb_run_create(scratch_at("nowhere"), &run, &why) == PLUMB_IO, "no directory");
    check_done("occupied");
}

static void full_disk(void)
{
    const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    const struct rlimit small = {30, RLIM_INFINITY};
    const plumb_metrics m = {.step = 1, .loss = 0.5};
    plumb_run *run;
    plumb_error why = {0};

    scratch_folder("f");
    CHECK_OK(plumb_run_create(scratch_at("f"), &run, &why), why);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    const plumb_status first = plumb_run_step(run, &m, &why);
    const plumb_status second = plumb_run_step(run, &m, &why);
    setrlimit(RLIMIT_FSIZE, &none);
    CHECK(first == PLUMB_OK && second == PLUMB_IO, "%d, %d", (int)first, (int)second);
    CHECK(strstr(why.message, "metrics.jsonl") != NULL, "%s", why.message);
    plumb_run_end(&run, "error", 1, NULL);
    check_done("full disk");
}

static void end_reader(void)
{
    char reason[16];
    int64_t step;
    plumb_error why = {0};

    CHECK_OK(plumb_run_end_read(scratch_at("a"), reason, &step, &why), why);
    CHECK(strcmp(reason, "nonfinite") == 0 && step == 2, "%s at %d", reason, (int)step);
    scratch_folder("e");
    CHECK(plumb_run_end_read(scratch_at("e"), reason, &step, &why) == PLUMB_NOT_FOUND,
          "absent");
    scratch_text("e/end.json", "{\"reason\":\"stopped\"}");
    CHECK_OK(plumb_run_end_read(scratch_at("e"), reason, &step, &why), why);
    CHECK(strcmp(reason, "stopped") == 0 && step == 0, "%s at %d", reason, (int)step);
    static const char *const bad[] = {"{\"reason\":\"bored\",\"step\":1}",
                                      "{\"step\":1}",
                                      "[]",
                                      "{\"reason\":\"reached",
                                      "",
                                      "{\"reason\":\"reachedreachedreachedreached\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        scratch_text("e/end.json", bad[i]);
        CHECK(plumb_run_end_read(scratch_at("e"), reason, &step, &why) == PLUMB_BAD_INPUT,
              "%s", bad[i]);
    }
    check_done("end.json read");
}

static void stops(void)
{
    plumb_run *run;
    plumb_error why = {0};

    scratch_folder("s");
    CHECK_OK(plumb_run_create(scratch_at("s"), &run, &why), why);
    CHECK(!plumb_run_should_stop(run), "stops without reason");
    scratch_text("s/stop", "");
    CHECK(plumb_run_should_stop(run), "RUN_DIR/stop not seen");
    remove(scratch_at("s/stop"));
    CHECK(!plumb_run_should_stop(run), "stop is gone");
    plumb_run_interrupt();
    CHECK(plumb_run_should_stop(run), "interrupt not seen");
    plumb_run_end(&run, "stopped", 0, NULL);
    check_done("stop");
}

int main(void)
{
    scratch_make();
    lines();
    occupied();
    full_disk();
    end_reader();
    stops();
    scratch_remove();
    return check_exit();
}
