/* The table of limits, and the choice among them. */
#include "bench/limit.h"
#include "base/cpu.h"

#define ROW(isa, ISA, bytes)                                                               \
    {                                                                                      \
#isa, PLUMB_CPU_##ISA, bench_read_##isa, bench_copy_4_1_##isa,                     \
            bench_copy_2_1_##isa, bench_copy_1_1_##isa, bench_copy_1_2_##isa,              \
            bench_copy_1_4_##isa, bench_multiply_add_##isa,                                \
            BENCH_CHAINS *BENCH_OPERATIONS *(bytes) / 4.0                                  \
    }

static const bench_limit limits[] = {
    ROW(ref, BASELINE, 16),
#if defined(__x86_64__)
    ROW(avx2, AVX2, 32),
    ROW(avx512, AVX512, 64),
#endif
};

const bench_limit *bench_limit_best(void)
{
    return PLUMB_CPU_BEST(&limits[sizeof limits / sizeof *limits - 1]);
}

bench_copy_fn *bench_limit_copy(const bench_limit *limit, int in, int out,
                                const char **name)
{
    const struct {
        int more, fewer; /* bytes read for each written, bytes written for each read */
        bench_copy_fn *run;
        const char *name;
    } shapes[] = {
        {4, 1, limit->copy_4_1, "4:1 copy"}, {2, 1, limit->copy_2_1, "2:1 copy"},
        {1, 1, limit->copy_1_1, "1:1 copy"}, {1, 2, limit->copy_1_2, "1:2 copy"},
        {1, 4, limit->copy_1_4, "1:4 copy"},
    };

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (in * shapes[i].fewer == out * shapes[i].more) {
            *name = shapes[i].name;
            return shapes[i].run;
        }
    }
    return NULL;
}

bench_dot_fn *bench_limit_dot(double *flops)
{
    *flops = BENCH_CHAINS * BENCH_DOT_OPERATIONS * 16.0;
#if defined(__x86_64__)
    if ((plumb_cpu_flags() & PLUMB_CPU_AVX512) != 0 && __builtin_cpu_supports("avx512bf16"))
        return bench_dot_avx512;
#endif
    return NULL;
}
