/* The bytes of `plumb footprint` against the largest resident set of a run, read from the kernel;
 * its seconds against the same steps run in full (printed, and only wildly wrong ones fail: a busy
 * machine must not).
 */
#include "run.h"

/* AddressSanitizer keeps what is freed and a shadow of all memory: only a lower limit holds. */
#if defined(__SANITIZE_ADDRESS__)
static const double most = 100;
#else
static const double most = 1.2;
#endif

/* Bytes of a line of /proc/self/status. */
static double process_bytes(const char *key)
{
    FILE *file = fopen("/proc/self/status", "r");
    char text[256];
    double kib = 0;

    while (file != NULL && fgets(text, sizeof text, file) != NULL) {
        if (strncmp(text, key, strlen(key)) == 0)
            kib = strtod(text + strlen(key) + 1, NULL);
    }
    if (file != NULL)
        fclose(file);
    return 1024 * kib;
}

/* The largest resident set begins anew. */
static bool forget_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");

    return file != NULL && fputs("5", file) >= 0 && fclose(file) == 0;
}

/* Makes of the child's environment a request, with run_dir; start may be NULL. */
static void ask(const char *run_dir, const char *start)
{
    if (run_dir == NULL)
        unsetenv("PLUMB_RUN_DIR");
    else
        setenv("PLUMB_RUN_DIR", run_dir, 1);
    if (start != NULL)
        setenv("PLUMB_START", start, 1);
}

/* A whole run in a process of its own; bytes it took over what the process had before. */
static double peak_of(const char *const *settings, size_t count, const char *run_dir,
                      const char *start)
{
    double peak = -1;
    int ends[2];

    if (pipe(ends) != 0)
        return -1;
    fflush(stdout);
    const pid_t child = fork();

    if (child == 0) {
        plumb_error why = {0};
        double before, bytes = -1;

        ask(run_dir, start);
        before = process_bytes("VmRSS:");
        if (!forget_peak())
            _exit(77);
        const int status = plumb_train_main(NULL, settings, count, NULL, NULL, &why);

        if (status == 0)
            bytes = process_bytes("VmHWM:") - before;
        else
            printf("# %s\n", why.message), fflush(stdout);
        _exit(write(ends[1], &bytes, sizeof bytes) == sizeof bytes ? 0 : 99);
    }
    close(ends[1]);
    if (read(ends[0], &peak, sizeof peak) != sizeof peak)
        peak = -1;
    close(ends[0]);
    waitpid(child, NULL, 0);
    return peak;
}

static size_t all_settings(const char *more, char *memory, const char **at)
{
    static char data[128], out[128];
    size_t count = 0;

    snprintf(data, sizeof data, "data=%s", test_text);
    snprintf(out, sizeof out, "out=%s/footprint-%d", test_root, ++test_runs);
    at[count++] = data;
    at[count++] = out;
    at[count++] = "optimizer.steps=3";
    at[count++] = "validation.batches=1";
    strcpy(memory, more);
    for (char *word = strtok(memory, " "); word != NULL && count < TEST_SETTINGS;
         word = strtok(NULL, " "))
        at[count++] = word;
    return count;
}

static const struct {
    const char *what, *settings;
} runs[] = {
    {"activations rule", "recipe=te-current batch.sequences=16 model.context=128"},
    {"parameters rule", "recipe=deepseek-v3 model.layers=2 model.width=512 model.heads=8 "
                        "model.ff=1408 batch.sequences=1 model.context=32"},
    {"two ranks, two micro-batches, a shadow, checkpoints",
     "recipe=te-delayed batch.ranks=2 batch.micro_batches=2 batch.sequences=32 "
     "sensors.shadow_every=2 checkpoint.every=1"},
    {"bf16, two threads, no sensors", "recipe=bf16 threads=2 sensors.every=0 "
                                      "batch.sequences=8 model.width=256 model.ff=704"},
    {"another shape, attention in operands, operands from codes",
     "recipe=te-mxfp8 attention.delta=output from_codes=*/wgrad/x model.norm=layer "
     "model.mlp=gelu model.qk_norm=true model.tied_head=true batch.sequences=16 "
     "model.context=128"},
};

static void bytes(void)
{
    enum { RUNS = sizeof runs / sizeof *runs };
    double peaks[RUNS];

    /* First of all: what this process keeps for reuse would be no news to its children. */
    for (size_t i = 0; i < RUNS; i++) {
        const char *settings[TEST_SETTINGS];
        char memory[1024];

        peaks[i] =
            peak_of(settings, all_settings(runs[i].settings, memory, settings), NULL, NULL);
    }
    for (size_t i = 0; i < RUNS; i++) {
        const char *settings[TEST_SETTINGS];
        char memory[1024];
        const size_t count = all_settings(runs[i].settings, memory, settings);
        plumb_footprint f;
        plumb_error why = {0};
        const double peak = peaks[i];
        size_t sum = 0;

        if (!CHECK_OK(plumb_train_footprint(NULL, settings, count, 0, &f, &why), why))
            continue;
        for (size_t use = 0; use < PLUMB_MEMORY_USES; use++)
            sum += f.memory.bytes[use];
        printf("# %s: arrays %zu bytes, peak %.0f, ratio %.3f\n", runs[i].what, f.bytes,
               peak, peak / (double)f.bytes);
        CHECK(sum == f.bytes, "parts %zu, sum %zu", sum, f.bytes);
        CHECK(peak > 0.9 * (double)f.bytes && peak < most * (double)f.bytes,
              "%s: peak %.0f of %zu bytes", runs[i].what, peak, f.bytes);
    }
    check_done("bytes of all arrays are the peak of the run");
}

/* A run of many parameters that goes on from step 1: the checkpoint is as large as weights and
 * moments, and must not be in memory beside them.
 */
static void resumed(void)
{
    const char *settings[TEST_SETTINGS];
    char memory[1024], cwd[2048], first[2300], second[2300], start[2400];
    const size_t count = all_settings("recipe=te-current model.layers=2 model.width=512 "
                                      "model.heads=8 model.ff=1408 batch.sequences=1 "
                                      "model.context=32 checkpoint.every=1",
                                      memory, settings);
    plumb_footprint f;
    plumb_error why = {0};

    if (!CHECK(getcwd(cwd, sizeof cwd) != NULL, "no directory"))
        return;
    snprintf(first, sizeof first, "%s/%s/whole", cwd, test_root);
    snprintf(second, sizeof second, "%s/%s/rest", cwd, test_root);
    snprintf(start, sizeof start, "%s/checkpoints/step-1", first);
    plumb_dir_make(first, NULL);
    plumb_dir_make(second, NULL);
    const double whole = peak_of(settings, count, first, NULL);
    const double rest = peak_of(settings, count, second, start);

    if (!CHECK_OK(plumb_train_footprint(NULL, settings, count, 0, &f, &why), why))
        return;
    const double arrays = (double)f.bytes;

    printf("# resumed: arrays %.0f bytes, peak %.3f of them; from step 0 %.3f\n", arrays,
           rest / arrays, whole / arrays);
    CHECK(rest > 0.9 * arrays && rest < most * arrays, "peak %.0f of %.0f bytes", rest,
          arrays);
    check_done("a resumed run has its arrays in memory once");
}

/* What the recipe changes, by arithmetic of the test's own: 4 bytes a weight and a gradient, 8 of
 * moments, and codes of one byte instead of two.
 */
static void parts(void)
{
    const char *settings[TEST_SETTINGS];
    char memory[1024];
    plumb_footprint bf16, fp8;
    plumb_error why = {0};
    size_t count = all_settings("recipe=bf16", memory, settings);

    if (!CHECK_OK(plumb_train_footprint(NULL, settings, count, 0, &bf16, &why), why))
        return;
    count = all_settings("recipe=te-current", memory, settings);
    if (!CHECK_OK(plumb_train_footprint(NULL, settings, count, 0, &fp8, &why), why))
        return;
    const double parameters = (double)fp8.parameters;
    const double head = 256 * 128; /* in bf16 with either recipe */
    const double linears = parameters - 256 * 128 - 9 * 128 - head;
    const struct {
        const char *name;
        plumb_memory_use use;
        double want, of_bf16;
    } rows[] = {
        {"master", PLUMB_MEMORY_MASTER, 4 * parameters, 4 * parameters},
        {"gradients", PLUMB_MEMORY_GRADIENTS, 4 * parameters, 4 * parameters},
        {"optimizer", PLUMB_MEMORY_OPTIMIZER, 8 * parameters, 8 * parameters},
        {"weights", PLUMB_MEMORY_WEIGHTS, linears + 2 * head, 2 * linears + 2 * head}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double of_fp8 = (double)fp8.memory.bytes[rows[i].use];
        const double of_bf16 = (double)bf16.memory.bytes[rows[i].use];

        CHECK(of_fp8 >= rows[i].want && of_fp8 < 1.02 * rows[i].want, "%s: %.0f, want %.0f",
              rows[i].name, of_fp8, rows[i].want);
        CHECK(of_bf16 >= rows[i].of_bf16 && of_bf16 < 1.02 * rows[i].of_bf16,
              "%s in bf16: %.0f, want %.0f", rows[i].name, of_bf16, rows[i].of_bf16);
    }
    check_done("weights, master, gradients and optimizer by hand");
}

static void seconds(void)
{
    const char *settings[TEST_SETTINGS];
    char memory[1024];
    const size_t count = all_settings("recipe=te-current batch.sequences=32 "
                                      "batch.micro_batches=2",
                                      memory, settings);
    plumb_footprint f;
    plumb_error why = {0};

    if (!CHECK_OK(plumb_train_footprint(NULL, settings, count, 4, &f, &why), why))
        return;
    const double step = f.step.gemm + f.step.cast + f.step.rest;
    const double ran = f.measured.gemm + f.measured.cast + f.measured.rest;

    printf(
        "# GEMM %.4f, measured %.4f; cast %.4f, %.4f; rest %.4f, %.4f; step %.4f, %.4f\n",
        f.step.gemm, f.measured.gemm, f.step.cast, f.measured.cast, f.step.rest,
        f.measured.rest, step, ran);
    CHECK(f.timed && f.measured_steps == 4, "not timed");
    CHECK(f.step.gemm > 0 && f.step.cast > 0 && f.step.rest > 0, "a part costs nothing");
    CHECK(step < 10 * ran && ran < 10 * step, "step %g, measured %g", step, ran);
    check_done("seconds of a step, predicted and measured");
}

static void too_large(void)
{
    const char *settings[TEST_SETTINGS];
    char memory[1024];
    const size_t count =
        all_settings("model.width=4096 model.ff=16384 model.layers=64 "
                     "model.context=2048 batch.sequences=4096 data=wordnet",
                     memory, settings);
    plumb_footprint f;
    plumb_error why = {0};

    settings[0] = settings[count - 1]; /* the small text is no text for this context */
    if (plumb_train_footprint(NULL, settings, count, 0, &f, &why) == PLUMB_NOT_FOUND) {
        printf("# skipped: %s\n", why.message);
        return;
    }
    CHECK(f.bytes > (size_t)1 << 45 && !f.timed, "%zu bytes: %s", f.bytes, why.message);
    check_done("a run that fits nowhere is told, not tried");
}

int main(void)
{
    test_begin();
    bytes();
    resumed();
    parts();
    seconds();
    too_large();
    test_end();
    return check_exit();
}
