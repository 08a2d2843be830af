/* The trainer: a step beside what its own products and casts take, and beside the same step without
 * sensors and log; two threads beside one; the peak of memory beside the sum of the arrays.
 *
 * Before anything is timed, the state hash after the first step must be that of a trainer without
 * sensors, of one thread, on an older instruction set.  The work of a row is the tokens of a step,
 * so a rate is tokens a second.
 */
#include "bench/bench.h"

#include "train/train.h"

#include <math.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a row trains.  Sensors write each step, not each tenth as they do when nothing is said: so
 * every round has its share of the log, and more of it than a run has.
 */
typedef struct subject {
    const char *name;
    const char *settings[10];
    bool slow;
} subject;

#define SMALL                                                                              \
    "model.layers=2", "model.width=128", "model.heads=4", "model.ff=352",                  \
        "model.context=64", "batch.sequences=16"
#define LARGE                                                                              \
    "model.layers=6", "model.width=384", "model.heads=6", "model.ff=1024",                 \
        "model.context=256", "batch.sequences=16"

static const subject subjects[] = {
    {"te-current/0.4M", {"recipe=te-current", SMALL}, false},
    {"te-current/10M", {"recipe=te-current", LARGE}, true},
    {"deepseek-v3/0.4M", {"recipe=deepseek-v3", SMALL}, false},
};

enum { SETTINGS = 16, PATH = 256, TEXT = 1 << 18 };

/* --- a place for text and logs --------------------------------------------------------- */

typedef struct place {
    char root[PATH], text[PATH];
} place;

static void place_remove(void *object)
{
    const place *p = object;

    plumb_dir_remove(p->root, NULL);
}

/* Letters in no particular order. */
static bool write_text(const char *path)
{
    FILE *file = fopen(path, "w");
    uint32_t state = 7;

    for (size_t i = 0; i < TEXT && file != NULL; i++) {
        state = state * 1664525u + 1013904223u;
        fputc("etaoin shrdlu"[(state >> 16) % 13], file);
    }
    return file != NULL && fclose(file) == 0;
}

static place *place_take(bench *b, plumb_error *why)
{
    const char *parent = getenv("TMPDIR");
    place *p = bench_take(b, sizeof *p, why);

    if (p == NULL)
        return NULL;
    plumb_print(p->root, sizeof p->root, "%.200s/plumb-bench-XXXXXX",
                parent != NULL && parent[0] != 0 ? parent : "/tmp");
    if (mkdtemp(p->root) == NULL) {
        plumb_fail(why, PLUMB_IO, "cannot make a directory like '%s'", p->root);
        return NULL;
    }
    bench_at_end(b, place_remove, p);
    plumb_print(p->text, sizeof p->text, "%s/text", p->root);
    if (!write_text(p->text)) {
        plumb_fail(why, PLUMB_IO, "cannot write '%s'", p->text);
        return NULL;
    }
    return p;
}

/* --- one side of a race ---------------------------------------------------------------- */

typedef struct arm {
    trainer t;
    uint64_t hash; /* after the last step */
    plumb_status status;
    plumb_error why;
} arm;

static void arm_end(void *object)
{
    arm *a = object;

    if (a->t.run != NULL)
        plumb_run_end(&a->t.run, "stopped", a->t.step, NULL);
    trainer_free(&a->t);
    memset(&a->t, 0, sizeof a->t); /* may be called again */
}

static void arm_step(void *context)
{
    arm *a = context;
    step_result r = {0};
    plumb_error why;
    const plumb_status status =
        a->t.run != NULL ? run_step(&a->t, &r, &why) : trainer_step(&a->t, &r, &why);

    a->hash = r.state_hash;
    if (status != PLUMB_OK && a->status == PLUMB_OK) {
        a->status = status;
        a->why = why;
    }
}

/* What the products and casts of such steps took. */
static double arm_parts(void *context, size_t times)
{
    arm *a = context;
    plumb_times *parts = &a->t.times;

    *parts = (plumb_times){0};
    for (size_t i = 0; i < times; i++)
        arm_step(a);
    return parts->layers.gemm + parts->layers.cast + parts->ends.gemm + parts->ends.cast +
           parts->weights.cast;
}

/* The longest of the processor times of its threads.  A thread that waits for others should not
 * count, so on a machine that is busy with other work OMP_WAIT_POLICY=passive belongs into the
 * environment.
 */
static double arm_by_threads(void *context, size_t times)
{
    arm *a = context;
    double begin[PLUMB_MAX_THREADS], end[PLUMB_MAX_THREADS], most = 0;

    trainer_clocks(&a->t, begin);
    for (size_t i = 0; i < times; i++)
        arm_step(a);
    trainer_clocks(&a->t, end);
    for (int i = 0; i < a->t.threads; i++)
        most = fmax(most, end[i] - begin[i]);
    return most;
}

static size_t all_settings(const subject *s, const place *p, const char *last,
                           char words[3][PATH + 8], const char **at)
{
    size_t count = 0;

    for (; s->settings[count] != NULL; count++)
        at[count] = s->settings[count];
    plumb_print(words[0], sizeof words[0], "data=%s", p->text);
    plumb_print(words[1], sizeof words[1], "out=%s/run", p->root);
    plumb_print(words[2], sizeof words[2], "%s", last);
    for (size_t i = 0; i < 3; i++)
        at[count++] = words[i];
    return count;
}

/* A trainer at step 0, or NULL; with `logs` it has sensors and a directory to write to. */
static arm *arm_take(bench *b, const subject *s, const place *p, int threads, bool logs,
                     plumb_error *why)
{
    const char *at[SETTINGS];
    char words[3][PATH + 8], last[32];
    arm *a = bench_take(b, sizeof *a, why);
    plumb_status status;

    if (a == NULL)
        return NULL;
    memset(a, 0, sizeof *a);
    plumb_print(last, sizeof last, "sensors.every=%d", logs);
    const size_t count = all_settings(s, p, last, words, at);

    plumb_request_init(&a->t.request);
    a->t.timed = true;
    status = settings_load(NULL, at, count, &a->t.settings, why);
    a->t.settings.threads = threads;
    if (status == PLUMB_OK)
        status = trainer_create(&a->t, why);
    if (status == PLUMB_OK && logs)
        status = run_open(&a->t, why);
    if (status == PLUMB_OK && logs)
        status = run_declare(&a->t, why);
    if (!bench_at_end(b, arm_end, a) || status != PLUMB_OK)
        return NULL;
    return a;
}

/* The state hash after step 1 without anything that should not matter. */
static plumb_status reference(bench *b, const subject *s, const place *p, uint64_t *hash,
                              plumb_error *why)
{
    const unsigned allowed = plumb_cpu_flags();

    plumb_cpu_limit(PLUMB_CPU_AVX2);
    arm *a = arm_take(b, s, p, 1, false, why);

    if (a != NULL)
        arm_step(a);
    plumb_cpu_limit(allowed);
    if (a == NULL)
        return PLUMB_NO_MEMORY;
    arm_end(a);
    *hash = a->hash;
    return a->status == PLUMB_OK ? PLUMB_OK
                                 : plumb_fail(why, a->status, "%s", a->why.message);
}

static bench_entry *enter_arm(bench_race *race, bench_role role, const char *name, arm *a,
                              const uint64_t *hash)
{
    bench_entry *entry = bench_enter(race, role, name);

    entry->run = arm_step;
    entry->context = a;
    entry->outputs[0] =
        (bench_output){"state hash", &a->hash, hash, sizeof *hash, sizeof *hash};
    return entry;
}

/* A step that fails leaves no hash, so it is found out before it is timed; this says why. */
static plumb_status race_arms(bench *b, bench_race *race, const arm *one, const arm *other,
                              plumb_error *why)
{
    const arm *bad = one->status != PLUMB_OK ? one : other;
    const plumb_status status = bench_race_run(b, race, why);

    if (status != PLUMB_OK || (one->status == PLUMB_OK && other->status == PLUMB_OK))
        return status;
    return plumb_fail(why, bad->status, "%s", bad->why.message);
}

/* --- rows ------------------------------------------------------------------------------ */

static double tokens_of(const arm *a)
{
    return (double)(a->t.sequences * a->t.shape.context);
}

static plumb_status run_step_row(bench *b, const bench_case *row, plumb_error *why)
{
    const subject *s = row->extra;
    const place *p = place_take(b, why);
    uint64_t hash;

    if (p == NULL)
        return PLUMB_IO;
    const plumb_status status = reference(b, s, p, &hash, why);

    if (status != PLUMB_OK)
        return status;
    arm *on = arm_take(b, s, p, 1, true, why), *off = arm_take(b, s, p, 1, false, why);

    if (on == NULL || off == NULL)
        return PLUMB_NO_MEMORY;
    bench_race race = {.work = tokens_of(on), .unit = "token"};

    enter_arm(&race, BENCH_OURS, "one thread, with sensors and log", on, &hash);
    bench_entry *parts = bench_enter(&race, BENCH_LIMIT, "its products and casts alone");

    parts->seconds = arm_parts;
    parts->context = on;
    enter_arm(&race, BENCH_LIMIT, "without sensors and log", off, &hash);
    return race_arms(b, &race, on, off, why);
}

static plumb_status run_threads_row(bench *b, const bench_case *row, plumb_error *why)
{
    const subject *s = row->extra;
    const place *p = place_take(b, why);
    uint64_t hash;

    if (p == NULL)
        return PLUMB_IO;
    const plumb_status status = reference(b, s, p, &hash, why);

    if (status != PLUMB_OK)
        return status;
    arm *two = arm_take(b, s, p, 2, false, why), *one = arm_take(b, s, p, 1, false, why);

    if (two == NULL || one == NULL)
        return PLUMB_NO_MEMORY;
    bench_race race = {.work = tokens_of(one), .unit = "token"};
    bench_entry *ours = enter_arm(&race, BENCH_OURS, "two threads", two, &hash);

    ours->seconds = arm_by_threads;
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        ours->absent = "this machine has one CPU";
    enter_arm(&race, BENCH_LIMIT, "one thread", one, &hash);
    return race_arms(b, &race, two, one, why);
}

static plumb_status run_memory_row(bench *b, const bench_case *row, plumb_error *why)
{
    const place *p = place_take(b, why);
    const char *at[SETTINGS];
    char words[3][PATH + 8];
    plumb_footprint f;

    if (p == NULL)
        return PLUMB_IO;
    const size_t count = all_settings(row->extra, p, "threads=1", words, at);

#ifdef __GLIBC__
    malloc_trim(0); /* what earlier rows gave back must not be taken for a reserve */
#endif
    const plumb_status status = plumb_train_footprint(NULL, at, count, 2, &f, why);

    if (status != PLUMB_OK)
        return status;
    bench_sizes(b, "peak of two steps", (double)f.measured_bytes, "sum of its arrays",
                (double)f.bytes);
    return PLUMB_OK;
}

void bench_list_train(bench_list *list, const bench_machine *machine)
{
    static const struct {
        const char *name, *what;
        bench_case_fn *run;
    } rows[] = {
        {"step", "a step of the trainer, tokens a second", run_step_row},
        {"threads", "a step of the trainer, two threads beside one", run_threads_row},
        {"memory", "peak of the trainer's memory", run_memory_row},
    };

    (void)machine;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t j = 0; j < sizeof subjects / sizeof *subjects; j++) {
            bench_case row = {
                .run = rows[i].run, .slow = subjects[j].slow, .extra = &subjects[j]};

            plumb_print(row.name, sizeof row.name, "train/%s/%s", rows[i].name,
                        subjects[j].name);
            plumb_print(row.what, sizeof row.what, "%s", rows[i].what);
            bench_add(list, &row);
        }
    }
}
