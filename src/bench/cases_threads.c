/* Two threads against one.  Each thread's CPU time is taken, and the longer one counts: that
 * sees what two threads take from each other (caches, memory, clock), not what other
 * programs on the machine take from both.
 */
#include "bench/product.h"
#include "kernel/cast.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 2 };

/* Work for each thread. */
typedef struct pair {
    void (*run)(void *context);
    void *context[THREADS];
} pair;

typedef struct member {
    const pair *team;
    int number;
    size_t times;
    pthread_barrier_t *start;
    double seconds;
} member;

static void *work(void *context)
{
    member *m = context;
    void *mine = m->team->context[m->number];

    m->team->run(mine); /* warm before the start */
    pthread_barrier_wait(m->start);

    const double start = bench_clock();

    for (size_t i = 0; i < m->times; i++)
        m->team->run(mine);
    m->seconds = bench_clock() - start;
    return NULL;
}

/* The longer of both threads' times; without threads, no time. */
static double run_team(void *context, size_t times)
{
    member members[THREADS];
    pthread_t thread;
    pthread_barrier_t start;

    if (pthread_barrier_init(&start, NULL, THREADS) != 0)
        return 0;
    for (int i = 0; i < THREADS; i++)
        members[i] =
            (member){.team = context, .number = i, .times = times, .start = &start};
    const bool began = pthread_create(&thread, NULL, work, &members[1]) == 0;

    if (began) {
        work(&members[0]);
        pthread_join(thread, NULL);
    }
    pthread_barrier_destroy(&start);
    return began ? fmax(members[0].seconds, members[1].seconds) : 0;
}

static bench_entry *enter_team(bench_race *race, pair *team)
{
    bench_entry *entry = bench_enter(race, BENCH_OURS, "two threads");

    entry->seconds = run_team;
    entry->context = team;
    if (sysconf(_SC_NPROCESSORS_ONLN) < THREADS)
        entry->absent = "this machine has one CPU";
    return entry;
}

/* --- products -------------------------------------------------------------------------- */

static plumb_status run_products(bench *b, const bench_case *row, plumb_error *why)
{
    static const bench_shape shape = {"e4m3", "e4m3:none", "e4m3:none", false, false};
    const size_t n = row->size;
    bench_product one, half[THREADS];
    pair team = {.run = bench_multiply};
    bench_race race = {.work = 2.0 * (double)n * (double)n * (double)n, .unit = "FLOP"};
    const plumb_status status = bench_product_take(b, &shape, n, &one, why);
    float *want;

    if (status != PLUMB_OK)
        return status;
    want = one.c;
    for (size_t i = 0; i < THREADS; i++) {
        half[i] = one;
        half[i].c = i == 0 ? bench_take(b, n * n * sizeof(float), why) : half[0].c;
        half[i].workspace = bench_take(b, plumb_matmul_workspace_bytes(NULL, n, n, n), why);
        half[i].tile = (plumb_tile){i * n / THREADS, (i + 1) * n / THREADS, 0, n};
        team.context[i] = &half[i];
        if (half[i].c == NULL || half[i].workspace == NULL)
            return PLUMB_NO_MEMORY;
    }
    bench_multiply(&one);
    enter_team(&race, &team)->outputs[0] =
        (bench_output){"C", half[0].c, want, n * n * sizeof *want, sizeof *want};

    bench_entry *alone = bench_enter(&race, BENCH_LIMIT, "one thread");

    alone->run = bench_multiply;
    alone->context = &one;
    return bench_race_run(b, &race, why);
}

/* --- casts ----------------------------------------------------------------------------- */

typedef struct casting {
    plumb_cast how;
    const float *x;
    size_t n;
    uint8_t *codes;
    plumb_counts counts;
} casting;

static void cast(void *context)
{
    casting *c = context;

    memset(&c->counts, 0, sizeof c->counts);
    plumb_cast_encode(&c->how, c->x, c->n, c->codes, &c->counts);
}

static plumb_status run_casts(bench *b, const bench_case *row, plumb_error *why)
{
    static const float scale = 64; /* 5.9 deviations fit */
    const size_t n = bench_elements(b, row->place, 4, 1);
    const float *x = bench_take_normal(b, THREADS * n, 1, why);
    uint8_t *codes = bench_take(b, THREADS * n, why),
            *want = bench_take(b, THREADS * n, why);
    casting each[2 * THREADS]; /* one after the other, then side by side */
    pair team = {.run = cast};
    bench_race race = {.work = THREADS * (double)n, .unit = "elem"};

    if (x == NULL || codes == NULL || want == NULL)
        return PLUMB_NO_MEMORY;
    for (size_t i = 0; i < THREADS; i++) {
        casting *alone = &each[i], *together = &each[THREADS + i];

        *alone = (casting){.how = {.format = PLUMB_E4M3, .saturate = true, .scale = scale},
                           .x = x + i * n,
                           .n = n,
                           .codes = want + i * n};
        *together = *alone;
        together->codes = codes + i * n;
        team.context[i] = together;
        cast(alone);
    }
    enter_team(&race, &team)->outputs[0] =
        (bench_output){"codes", codes, want, THREADS * n, 1};

    bench_entry *alone = bench_enter(&race, BENCH_LIMIT, "one thread");

    alone->run = cast;
    alone->context = &each[0];
    alone->work = (double)n;
    return bench_race_run(b, &race, why);
}

void bench_list_threads(bench_list *list, const bench_machine *machine)
{
    (void)machine;
    for (size_t n = 512; n <= 2048; n *= 2) {
        bench_case row = {.what = "canonical e4m3 product, rows of C halved",
                          .run = run_products,
                          .slow = n > 1024,
                          .size = n};

        plumb_print(row.name, sizeof row.name, "threads/gemm/%zu", n);
        bench_add(list, &row);
    }
    for (bench_place place = BENCH_PLACES; place-- > 0;) {
        bench_case row = {.what = "fp32 to e4m3, each thread its own tensor",
                          .run = run_casts,
                          .slow = place == BENCH_MEMORY,
                          .place = place};

        plumb_print(row.name, sizeof row.name, "threads/cast/%s", bench_place_name(place));
        bench_add(list, &row);
    }
}
