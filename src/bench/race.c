/* One race: every result is checked, then the entries take turns.
 *
 * What is compared always ran in the same round, within a fraction of a second, so a machine
 * that others use at the same time moves both sides of a ratio.  A wrong entry is not timed.
 */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_ROUNDS = 9, GARBAGE = 0xa5 };

typedef struct timing {
    size_t times; /* runs in one sample */
    bool wrong;
    char complaint[BENCH_COMPLAINT];
    double seconds[BENCH_ROUNDS]; /* of one run */
} timing;

static const char *const role_names[] = {"ours", "variant", "limit", "peer"};

bench_entry *bench_enter(bench_race *race, bench_role role, const char *name)
{
    if (race->count < BENCH_ENTRIES)
        race->count++;

    bench_entry *entry = &race->entries[race->count - 1];

    *entry = (bench_entry){.role = role};
    plumb_print(entry->name, sizeof entry->name, "%s", name);
    return entry;
}

void bench_enter_variants(const bench *b, bench_race *race, void *contexts, size_t size,
                          size_t count, void (*run)(void *context),
                          const bench_output *outputs, size_t output_count)
{
    for (size_t i = count; i-- > 0;) {
        const bool ours = i == count - 1;
        void *context = (char *)contexts + i * size;
        const char *name;

        if (!ours && !b->options->variants)
            return;
        memcpy(&name, context, sizeof name);

        bench_entry *entry = bench_enter(race, ours ? BENCH_OURS : BENCH_VARIANT, name);

        entry->run = run;
        entry->context = context;
        memcpy(entry->outputs, outputs, output_count * sizeof *outputs);
    }
}

/* CPU seconds of `times` runs. */
static double sample(const bench_entry *entry, size_t times)
{
    if (entry->seconds != NULL)
        return entry->seconds(entry->context, times);

    const double start = bench_clock();

    for (size_t i = 0; i < times; i++)
        entry->run(entry->context);
    return bench_clock() - start;
}

/* --- checks -------------------------------------------------------------------------- */

static void print_hex(char *text, size_t size, const unsigned char *bytes, size_t count)
{
    text[0] = 0;
    for (size_t i = count; i-- > 0 && 2 * (count - i) < size;)
        plumb_print(text + 2 * (count - 1 - i), 3, "%02x", (unsigned)bytes[i]);
}

static bool same_output(const bench_output *o, char complaint[BENCH_COMPLAINT])
{
    const unsigned char *got = o->got, *want = o->want;
    size_t at = 0;
    char a[20], b[20];

    if (memcmp(got, want, o->bytes) == 0)
        return true;
    while (got[at] == want[at])
        at++;
    at = at / o->each * o->each;
    const size_t shown = o->each < 8 ? o->each : 8;

    print_hex(a, sizeof a, got + at, shown);
    print_hex(b, sizeof b, want + at, shown);
    plumb_print(complaint, BENCH_COMPLAINT,
                "%s: element %zu is 0x%s, the reference has 0x%s", o->what, at / o->each, a,
                b);
    return false;
}

static void check(const bench_entry *entry, timing *lane)
{
    for (size_t i = 0; i < BENCH_OUTPUTS && entry->outputs[i].got != NULL; i++)
        memset(entry->outputs[i].got, GARBAGE, entry->outputs[i].bytes);
    sample(entry, 1);
    for (size_t i = 0; i < BENCH_OUTPUTS && entry->outputs[i].got != NULL; i++)
        lane->wrong = lane->wrong || !same_output(&entry->outputs[i], lane->complaint);
    if (!lane->wrong && entry->check != NULL)
        lane->wrong = !entry->check(entry->context, lane->complaint);
}

/* --- times --------------------------------------------------------------------------- */

/* How many runs make a sample of about `target` seconds; *longest is raised to what one such
 * sample takes.
 */
static size_t calibrate(const bench_entry *entry, double target, double *longest)
{
    enum { MOST = 1 << 20 };
    size_t times = 1;
    double taken = sample(entry, 1);

    while (taken < target / 8 && times < MOST) {
        times *= 4;
        taken = sample(entry, times);
    }
    *longest = fmax(*longest, taken);
    if (taken >= target || !(taken > 0))
        return times == 1 ? 1 : times / 2;
    return (size_t)ceil((double)times * target / taken);
}

static bool runs(const bench_entry *entry, const timing *lane)
{
    return entry->absent == NULL && !lane->wrong;
}

/* Entries whose sample is one run are longer than any cache; the others begin warm. */
static void time_round(const bench_race *race, timing *lanes, size_t round)
{
    for (size_t i = 0; i < race->count; i++) {
        const size_t at = (i + round) % race->count;
        timing *lane = &lanes[at];

        if (!runs(&race->entries[at], lane))
            continue;
        if (lane->times > 1)
            sample(&race->entries[at], 1);
        lane->seconds[round] =
            sample(&race->entries[at], lane->times) / (double)lane->times;
    }
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The value that the share `part` of them do not exceed; sorts. */
static double quantile(double *values, size_t count, double part)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return values[(size_t)(part * (double)(count - 1) + 0.5)];
}

/* --- the row ------------------------------------------------------------------------- */

static double work_of(const bench_race *race, size_t i)
{
    return race->entries[i].work > 0 ? race->entries[i].work : race->work;
}

/* Rate of ours over that of entry i, in each round. */
static void set_ratio(json_t *json, const bench_race *race, const timing *lanes,
                      size_t rounds, size_t ours, size_t i)
{
    double ratio[BENCH_ROUNDS];
    const double work = work_of(race, ours) / work_of(race, i);

    for (size_t r = 0; r < rounds; r++)
        ratio[r] = work * lanes[i].seconds[r] / lanes[ours].seconds[r];
    json_object_set_new(json, "ratio", json_real(quantile(ratio, rounds, 0.5)));
    json_object_set_new(json, "ratio_low", json_real(quantile(ratio, rounds, 0.25)));
    json_object_set_new(json, "ratio_high", json_real(quantile(ratio, rounds, 0.75)));
}

static json_t *entry_json(const bench_race *race, const timing *lanes, size_t rounds,
                          size_t ours, size_t i)
{
    const bench_entry *entry = &race->entries[i];
    const timing *lane = &lanes[i];
    const char *status = entry->absent != NULL ? "absent" : lane->wrong ? "wrong" : "ok";
    json_t *json = json_pack("{s:s, s:s, s:s}", "name", entry->name, "role",
                             role_names[entry->role], "status", status);
    double seconds[BENCH_ROUNDS];

    if (!runs(entry, lane)) {
        json_object_set_new(json, "note",
                            json_string(lane->wrong ? lane->complaint : entry->absent));
        return json;
    }
    memcpy(seconds, lane->seconds, sizeof seconds);
    const double median = quantile(seconds, rounds, 0.5);

    json_object_set_new(json, "seconds", json_real(median));
    json_object_set_new(json, "rate", json_real(work_of(race, i) / median));
    if (ours < race->count && ours != i && runs(&race->entries[ours], &lanes[ours]))
        set_ratio(json, race, lanes, rounds, ours, i);
    return json;
}

static void write_row(bench *b, const bench_race *race, const timing *lanes, size_t rounds)
{
    json_t *entries = json_array();
    size_t ours = 0;

    while (ours < race->count && race->entries[ours].role != BENCH_OURS)
        ours++;
    for (size_t i = 0; i < race->count; i++)
        json_array_append_new(entries, entry_json(race, lanes, rounds, ours, i));
    json_object_set_new(b->row, "unit", json_string(race->unit));
    json_object_set_new(b->row, "measure", json_string("rate"));
    json_object_set_new(b->row, "work", json_real(race->work));
    json_object_set_new(b->row, "bytes", json_real(race->bytes));
    json_object_set_new(b->row, "rounds", json_integer((json_int_t)rounds));
    json_object_set_new(b->row, "entries", entries);
}

void bench_sizes(bench *b, const char *name, double bytes, const char *limit,
                 double limit_bytes)
{
    json_object_update_new(
        b->row, json_pack("{s:s, s:s, s:[{s:s, s:s, s:s, s:f}, {s:s, s:s, s:s, s:f, s:f}]}",
                          "unit", "B", "measure", "size", "entries", "name", name, "role",
                          role_names[BENCH_OURS], "status", "ok", "size", bytes, "name",
                          limit, "role", role_names[BENCH_LIMIT], "status", "ok", "size",
                          limit_bytes, "ratio", bytes / limit_bytes));
}

plumb_status bench_race_run(bench *b, bench_race *race, plumb_error *why)
{
    const double target = b->options->quick ? 0.001 : 0.01;
    timing *lanes = calloc(BENCH_ENTRIES, sizeof *lanes);
    double longest = 0;

    if (lanes == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the times");
    for (size_t i = 0; i < race->count; i++) {
        if (race->entries[i].absent != NULL)
            continue;
        check(&race->entries[i], &lanes[i]);
        if (lanes[i].wrong)
            continue;
        lanes[i].times = calibrate(&race->entries[i], target, &longest);
    }
    const size_t rounds = b->options->quick || longest > 0.25 ? LEAST_ROUNDS : BENCH_ROUNDS;

    for (size_t r = 0; r < rounds; r++)
        time_round(race, lanes, r);
    write_row(b, race, lanes, rounds);
    free(lanes);
    return PLUMB_OK;
}
