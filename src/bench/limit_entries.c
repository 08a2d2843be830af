/* The limits as entries of a race. */
#include "bench/bench.h"
#include "bench/limit.h"

#include <string.h>

typedef struct move {
    bench_copy_fn *run;
    const bench_limit *limit;
    const void *from;
    void *to;
    size_t bytes;
} move;

/* Results that nobody wants: a store that the compiler cannot remove. */
static volatile float float_sink;
static volatile uint64_t word_sink;

static void run_copy(void *context)
{
    const move *m = context;

    m->run(m->from, m->bytes, m->to);
}

static void run_memcpy(void *context)
{
    const move *m = context;

    memcpy(m->to, m->from, m->bytes);
    __asm__ volatile("" ::"r"(m->to) : "memory");
}

static void run_read(void *context)
{
    const move *m = context;

    word_sink = m->limit->read(m->from, m->bytes);
}

static move *enter(bench *b, bench_race *race, const char *name, void (*run)(void *),
                   plumb_error *why)
{
    move *m = bench_take(b, sizeof *m, why);

    if (m == NULL)
        return NULL;
    m->limit = bench_limit_best();

    bench_entry *entry = bench_enter(race, BENCH_LIMIT, name);

    entry->run = run;
    entry->context = m;
    return m;
}

plumb_status bench_enter_copy(bench *b, bench_race *race, const void *from, void *to,
                              size_t n, int in, int out, plumb_error *why)
{
    const char *name = "";
    bench_copy_fn *run = bench_limit_copy(bench_limit_best(), in, out, &name);
    move *m;

    if (run == NULL)
        return plumb_fail(why, PLUMB_UNSUPPORTED, "no copy reads %d bytes and writes %d",
                          in, out);
    m = enter(b, race, name, run_copy, why);
    if (m == NULL)
        return PLUMB_NO_MEMORY;
    m->run = run;
    m->from = from;
    m->to = to;
    m->bytes = n * (size_t)in;
    return PLUMB_OK;
}

plumb_status bench_enter_memcpy(bench *b, bench_race *race, const void *from, void *to,
                                size_t bytes, plumb_error *why)
{
    move *m = enter(b, race, "memcpy", run_memcpy, why);

    if (m == NULL)
        return PLUMB_NO_MEMORY;
    m->from = from;
    m->to = to;
    m->bytes = bytes;
    return PLUMB_OK;
}

plumb_status bench_enter_read(bench *b, bench_race *race, const void *from, size_t bytes,
                              plumb_error *why)
{
    move *m = enter(b, race, "read", run_read, why);

    if (m == NULL)
        return PLUMB_NO_MEMORY;
    m->from = from;
    m->bytes = bytes;
    return PLUMB_OK;
}

enum { PEAK_ROUNDS = 20000 };

static void run_multiply_add(void *context)
{
    const move *m = context;

    float_sink = m->limit->multiply_add(PEAK_ROUNDS);
}

static void run_dot(void *context)
{
    double flops;

    (void)context;
    float_sink = bench_limit_dot(&flops)(PEAK_ROUNDS);
}

plumb_status bench_enter_peaks(bench *b, bench_race *race, plumb_error *why)
{
    move *m = enter(b, race, "fp32 fma peak", run_multiply_add, why);
    double flops;

    if (m == NULL)
        return PLUMB_NO_MEMORY;
    race->entries[race->count - 1].work = PEAK_ROUNDS * m->limit->flops;
    if (bench_limit_dot(&flops) == NULL)
        return PLUMB_OK;
    if (enter(b, race, "bf16 dot peak", run_dot, why) == NULL)
        return PLUMB_NO_MEMORY;
    race->entries[race->count - 1].work = PEAK_ROUNDS * flops;
    return PLUMB_OK;
}
