/* limit.h - what bounds every kernel: moving its bytes, and multiplying and adding.
 *
 * One row for each instruction set.  The copies move whole vectors with plain loads and
 * stores and do no arithmetic worth the name; "4:1" reads four bytes for each that it
 * writes, the shape of a cast from fp32 to eight bits.
 */
#ifndef BENCH_LIMIT_H
#define BENCH_LIMIT_H

#include "plumb/base.h"

/* Reads `bytes` (a multiple of 1024) and writes them in the shape of the row; both aligned
 * to 64.
 */
typedef void bench_copy_fn(const void *from, size_t bytes, void *to);

typedef struct bench_limit {
    const char *name;
    unsigned cpu; /* PLUMB_CPU_* it needs */
    uint64_t (*read)(const void *from, size_t bytes);
    bench_copy_fn *copy_4_1, *copy_2_1, *copy_1_1, *copy_1_2, *copy_1_4;
    float (*multiply_add)(size_t rounds); /* independent chains of fp32 fma */
    double flops;                         /* of one round */
} bench_limit;

/* The fastest that may run here. */
const bench_limit *bench_limit_best(void);

/* The copy that reads `in` and writes `out` bytes for each element, and its name. */
bench_copy_fn *bench_limit_copy(const bench_limit *limit, int in, int out,
                                const char **name);

/* Dot products of pairs of bf16, added to fp32: NULL where the CPU has none. */
typedef float bench_dot_fn(size_t rounds);
bench_dot_fn *bench_limit_dot(double *flops);

#define BENCH_LIMIT_VARIANT(isa)                                                           \
    uint64_t bench_read_##isa(const void *from, size_t bytes);                             \
    bench_copy_fn bench_copy_4_1_##isa, bench_copy_2_1_##isa, bench_copy_1_1_##isa,        \
        bench_copy_1_2_##isa, bench_copy_1_4_##isa;                                        \
    float bench_multiply_add_##isa(size_t rounds)

BENCH_LIMIT_VARIANT(ref);
BENCH_LIMIT_VARIANT(avx2);
BENCH_LIMIT_VARIANT(avx512);
bench_dot_fn bench_dot_avx512;

/* Chains that run at once, enough to hide the latency of an fma, and operations on one
 * element of a vector in a round.
 */
enum { BENCH_CHAINS = 12, BENCH_OPERATIONS = 2, BENCH_DOT_OPERATIONS = 4 };

#endif
