/* bench.h - what the files of this room share: cases, entries, races.
 *
 * A case is a row that can be run.  Running it takes memory, makes inputs and references,
 * fills in a race, and hands that to bench_race_run, which checks, times and records.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "plumb/bench.h"
#include "plumb/format.h"

enum {
    BENCH_NAME = 64,
    BENCH_WHAT = 96,
    BENCH_ENTRIES = 16,
    BENCH_OUTPUTS = 3,
    BENCH_ROUNDS = 15, /* and never fewer than 9 */
    BENCH_POOL = 40,
    BENCH_ENDS = 8
};

/* --- the machine --------------------------------------------------------------------- */

/* Where the data of a row lie. */
typedef enum bench_place { BENCH_L2, BENCH_L3, BENCH_MEMORY, BENCH_PLACES } bench_place;

typedef struct bench_machine {
    char cpu[96];
    size_t l2, l3; /* bytes; common sizes where the system does not say */
} bench_machine;

bench_machine bench_machine_look(void);
const char *bench_place_name(bench_place place); /* "L2", "L3", "memory" */

/* Bytes of a working set that lies there: half of L2; a quarter of L3, which others use too,
 * but at least two L2; for memory 400 MB and four L3 at least, 800 MB at most.
 */
size_t bench_place_bytes(const bench_machine *machine, bench_place place);

/* "baseline", "avx2", "avx512": what may be used. */
const char *bench_level(void);

/* --- one race ------------------------------------------------------------------------ */

typedef enum bench_role { BENCH_OURS, BENCH_VARIANT, BENCH_LIMIT, BENCH_PEER } bench_role;

/* What a run writes, and what it should have written. */
typedef struct bench_output {
    const char *what; /* "codes", "counts" */
    void *got;
    const void *want;
    size_t bytes, each; /* in all; of one element, for the message */
} bench_output;

enum { BENCH_COMPLAINT = 160 };

/* One way to do the work of a row. */
typedef struct bench_entry {
    bench_role role;
    char name[BENCH_NAME];
    const char *absent; /* why it cannot take part ("not installed"); else NULL */

    /* Does the work once.  Or, where the work is not done in this thread: seconds does it
     * `times` times and returns the CPU seconds it took.
     */
    void (*run)(void *context);
    double (*seconds)(void *context, size_t times);
    void *context;
    double work; /* that one run does; 0: the row's */

    bench_output outputs[BENCH_OUTPUTS]; /* must be as wanted, byte for byte */
    /* What else must hold after a run; fills in the complaint if it does not. */
    bool (*check)(void *context, char complaint[BENCH_COMPLAINT]);
} bench_entry;

typedef struct bench_race {
    double work;      /* of one run */
    const char *unit; /* "elem", "FLOP", "B" */
    double bytes;     /* moved by one run; 0: not the point */
    bench_entry entries[BENCH_ENTRIES];
    size_t count;
} bench_race;

/* The next entry, zeroed but for role and name.  The last one again when there is no room. */
bench_entry *bench_enter(bench_race *race, bench_role role, const char *name);

/* --- cases --------------------------------------------------------------------------- */

typedef struct bench bench;
typedef struct bench_case bench_case;
typedef plumb_status bench_case_fn(bench *b, const bench_case *row, plumb_error *why);

struct bench_case {
    char name[BENCH_NAME];
    char what[BENCH_WHAT];
    bench_case_fn *run;
    bool slow; /* left out with quick */
    plumb_format format;
    bench_place place;
    size_t size;       /* elements, or n of a product */
    const void *extra; /* what else run wants to know */
};

typedef struct bench_list {
    bench_case *at;
    size_t count, room;
    bool failed; /* out of memory */
} bench_list;

void bench_add(bench_list *list, const bench_case *row);

typedef void bench_list_fn(bench_list *list, const bench_machine *machine);
bench_list_fn bench_list_machine, bench_list_casts, bench_list_quantize, bench_list_matmul,
    bench_list_epilogue, bench_list_accumulators, bench_list_math, bench_list_threads,
    bench_list_train;

typedef struct bench_python bench_python; /* see peer.h */

struct bench {
    const plumb_bench_options *options;
    bench_machine machine;
    void *pool[BENCH_POOL]; /* freed after each case */
    size_t pooled;
    struct {
        void (*end)(void *object);
        void *object;
    } ends[BENCH_ENDS]; /* called before that, last first */
    size_t ending;
    bench_python *python; /* started when first wanted */
    json_t *document, *row;
};

/* Memory until the end of the case, aligned for huge pages where it is large, and touched.
 * NULL when there is none, with *why filled in.
 */
void *bench_take(bench *b, size_t bytes, plumb_error *why);

/* Has end(object) called when the case is over: for what is not memory of the pool.  Past
 * BENCH_ENDS it is called at once and false returned.
 */
bool bench_at_end(bench *b, void (*end)(void *object), void *object);

/* Elements of a row that lies in a place: source and results fill it, but in memory the source
 * alone (the larger, if the results are).  A multiple of 4096.
 */
size_t bench_elements(const bench *b, bench_place place, size_t in, size_t out);

/* n normal values; they repeat after a million. */
float *bench_take_normal(bench *b, size_t n, float deviation, plumb_error *why);

/* --- entries that many rows have ------------------------------------------------------ */

enum { BENCH_VARIANTS = 8 };

/* The variants of a kernel that this CPU may run, slowest first: the last is ours, the others
 * take part if they are wanted.  contexts has `count` elements of `size` bytes, each beginning
 * with the name (a const char *); outputs are the same for all.
 */
void bench_enter_variants(const bench *b, bench_race *race, void *contexts, size_t size,
                          size_t count, void (*run)(void *context),
                          const bench_output *outputs, size_t output_count);

/* Whether this CPU may run what needs these PLUMB_CPU_* levels. */
bool bench_may_run(unsigned cpu);

/* The copy that reads in and writes out bytes for each of n elements.  All of these take
 * their contexts from the pool and fail only for want of memory.
 */
plumb_status bench_enter_copy(bench *b, bench_race *race, const void *from, void *to,
                              size_t n, int in, int out, plumb_error *why);
/* memcpy of `bytes`. */
plumb_status bench_enter_memcpy(bench *b, bench_race *race, const void *from, void *to,
                                size_t bytes, plumb_error *why);
/* Reading `bytes` and nothing else. */
plumb_status bench_enter_read(bench *b, bench_race *race, const void *from, size_t bytes,
                              plumb_error *why);
/* The peak of fp32 multiply-adds, and that of bf16 dot products where the CPU has them. */
plumb_status bench_enter_peaks(bench *b, bench_race *race, plumb_error *why);

/* Checks every entry, times those that are right, and writes the row. */
plumb_status bench_race_run(bench *b, bench_race *race, plumb_error *why);

/* Writes a row that was not timed: bytes of ours beside those of a limit. */
void bench_sizes(bench *b, const char *name, double bytes, const char *limit,
                 double limit_bytes);

/* The rows named by options->only out of cases: plumb_bench_run with a table of one's own. */
plumb_status bench_run_cases(const plumb_bench_options *options, const bench_case *cases,
                             size_t count, json_t **document, plumb_error *why);

/* CPU seconds of this thread. */
double bench_clock(void);

#endif
