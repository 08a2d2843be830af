/* What this machine can do, by itself: rows of limits without anything of ours. */
#include "bench/bench.h"

typedef struct shape {
    const char *name;
    int in, out; /* bytes read and written for each element; 0, 0: memcpy */
} shape;

static const shape shapes[] = {{"read", 1, 0},
                               {"memcpy", 0, 0},
                               {"copy-4to1", 4, 1},
                               {"copy-2to1", 2, 1},
                               {"copy-1to4", 1, 4}};

static plumb_status run_move(bench *b, const bench_case *row, plumb_error *why)
{
    const shape *s = row->extra;
    const bool copies_all = s->in == 0;
    const size_t in = copies_all ? 1 : (size_t)s->in, out = copies_all ? 1 : (size_t)s->out;
    const size_t n = bench_place_bytes(&b->machine, row->place) / (in + out) / 4096 * 4096;
    void *from = bench_take(b, n * in, why), *to = bench_take(b, n * out, why);
    bench_race race = {.work = (double)(n * (in + out)), .unit = "B"};
    plumb_status status;

    if (from == NULL || to == NULL)
        return PLUMB_NO_MEMORY;
    race.bytes = race.work;
    if (copies_all)
        status = bench_enter_memcpy(b, &race, from, to, n, why);
    else if (out == 0)
        status = bench_enter_read(b, &race, from, n, why);
    else
        status = bench_enter_copy(b, &race, from, to, n, s->in, s->out, why);
    return status == PLUMB_OK ? bench_race_run(b, &race, why) : status;
}

static plumb_status run_peaks(bench *b, const bench_case *row, plumb_error *why)
{
    bench_race race = {.work = 1, .unit = "FLOP"};
    const plumb_status status = bench_enter_peaks(b, &race, why);

    (void)row;
    return status == PLUMB_OK ? bench_race_run(b, &race, why) : status;
}

void bench_list_machine(bench_list *list, const bench_machine *machine)
{
    bench_case peaks = {.name = "machine/arithmetic",
                        .what = "multiply-adds in registers",
                        .run = run_peaks};

    (void)machine;
    bench_add(list, &peaks);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (bench_place place = BENCH_PLACES; place-- > 0;) {
            bench_case row = {.what = "bytes read and written",
                              .run = run_move,
                              .slow = place == BENCH_MEMORY,
                              .place = place,
                              .extra = &shapes[i]};

            plumb_print(row.name, sizeof row.name, "machine/%s/%s", shapes[i].name,
                        bench_place_name(place));
            bench_add(list, &row);
        }
    }
}
