/* exp, log, sin, cos and the sums in lane order, in L2: every variant of their tables. */
#include "bench/bench.h"
#include "kernel/lanes.h"
#include "kernel/math.h"

#include <math.h>

typedef struct evaluation {
    const char *name;
    plumb_math_fn *run;
    const float *x;
    size_t n;
    float *y;
} evaluation;

typedef struct function {
    const char *name;
    plumb_math_fn *(*of)(const plumb_math_kernel *kernel);
} function;

static plumb_math_fn *exp_of(const plumb_math_kernel *kernel)
{
    return kernel->exp;
}

static plumb_math_fn *log_of(const plumb_math_kernel *kernel)
{
    return kernel->log;
}

static plumb_math_fn *sin_of(const plumb_math_kernel *kernel)
{
    return kernel->sin;
}

static plumb_math_fn *cos_of(const plumb_math_kernel *kernel)
{
    return kernel->cos;
}

static const function functions[] = {
    {"exp", exp_of}, {"log", log_of}, {"sin", sin_of}, {"cos", cos_of}};

static void evaluate(void *context)
{
    const evaluation *e = context;

    e->run(e->x, e->n, e->y);
}

static plumb_status run_function(bench *b, const bench_case *row, plumb_error *why)
{
    const function *f = row->extra;
    const size_t n = bench_elements(b, BENCH_L2, 4, 4);
    float *x = bench_take_normal(b, n, 8, why), *y = bench_take(b, n * sizeof *y, why),
          *want = bench_take(b, n * sizeof *want, why);
    evaluation each[BENCH_VARIANTS];
    const bench_output output = {"values", y, want, n * sizeof *y, sizeof *y};
    bench_race race = {.work = (double)n, .unit = "elem", .bytes = 8.0 * (double)n};
    size_t count = 0;

    if (x == NULL || y == NULL || want == NULL)
        return PLUMB_NO_MEMORY;
    for (size_t i = 0; i < plumb_math_kernel_count && count < BENCH_VARIANTS; i++) {
        const plumb_math_kernel *kernel = &plumb_math_kernels[i];

        if (bench_may_run(kernel->cpu))
            each[count++] = (evaluation){kernel->name, f->of(kernel), x, n, y};
    }
    each[0].run(x, n, want);
    bench_enter_variants(b, &race, each, sizeof *each, count, evaluate, &output, 1);
    const plumb_status status = bench_enter_copy(b, &race, x, y, n, 4, 4, why);

    return status == PLUMB_OK ? bench_race_run(b, &race, why) : status;
}

/* --- sums ------------------------------------------------------------------------------ */

typedef struct summing {
    const char *name;
    const plumb_lanes_kernel *kernel;
    const float *x;
    size_t n;
    double *sums; /* all four */
} summing;

static void sum_all(void *context)
{
    const summing *s = context;

    s->sums[0] = (double)s->kernel->sum(s->x, s->n);
    s->sums[1] = (double)s->kernel->dot(s->x, s->x, s->n);
    s->sums[2] = s->kernel->sum_squares(s->x, s->n);
    s->sums[3] = s->kernel->dot_f64(s->x, s->x, s->n);
}

static plumb_status run_sums(bench *b, const bench_case *row, plumb_error *why)
{
    const size_t n = bench_elements(b, BENCH_L2, 4, 0);
    float *x = bench_take_normal(b, n, 1, why);
    double sums[2][4];
    summing each[BENCH_VARIANTS];
    const bench_output output = {"sums", sums[0], sums[1], sizeof sums[0], sizeof(double)};
    bench_race race = {.work = 4 * (double)n, .unit = "elem", .bytes = 16.0 * (double)n};
    size_t count = 0;

    (void)row;
    if (x == NULL)
        return PLUMB_NO_MEMORY;
    for (size_t i = 0; i < plumb_lanes_kernel_count && count < BENCH_VARIANTS; i++) {
        const plumb_lanes_kernel *kernel = &plumb_lanes_kernels[i];

        if (bench_may_run(kernel->cpu))
            each[count++] = (summing){kernel->name, kernel, x, n, sums[0]};
    }
    summing reference = each[0];

    reference.sums = sums[1];
    sum_all(&reference);
    bench_enter_variants(b, &race, each, sizeof *each, count, sum_all, &output, 1);
    const plumb_status status = bench_enter_read(b, &race, x, n * sizeof *x, why);

    race.entries[race.count - 1].work = (double)n;
    return status == PLUMB_OK ? bench_race_run(b, &race, why) : status;
}

void bench_list_math(bench_list *list, const bench_machine *machine)
{
    const bench_case sums = {.name = "sums/L2",
                             .what = "sum, dot, and both in fp64: four passes",
                             .run = run_sums};

    (void)machine;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        bench_case row = {.what = "of fp32", .run = run_function, .extra = &functions[i]};

        plumb_print(row.name, sizeof row.name, "%s/L2", functions[i].name);
        bench_add(list, &row);
    }
    bench_add(list, &sums);
}
