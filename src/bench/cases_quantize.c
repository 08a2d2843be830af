/* Quantising whole matrices: amax, scale and cast of each block, through plumb_quantize.
 * The reference is the same call held to the baseline instruction set.
 */
#include "bench/bench.h"

#include "plumb/quant.h"

#include <math.h>
#include <string.h>

typedef struct recipe {
    const char *name, *text; /* text as plumb_spec_parse reads it */
    bool along_rows;
    bench_place last; /* places from L2 to this one */
} recipe;

static const recipe recipes[] = {
    {"1x128", "e4m3:1x128:current", false, BENCH_MEMORY},
    {"128x128", "e4m3:128x128:current", false, BENCH_L3},
    {"tensor", "e4m3:tensor:current", false, BENCH_MEMORY},
    {"row", "e4m3:row:current", false, BENCH_L3},
    {"mx32", "e4m3:mx32:current", false, BENCH_MEMORY},
    {"nvfp4", "e2m1:nvfp4:current", false, BENCH_L3},
    {"1x128-turned", "e4m3:1x128:current", true, BENCH_L3},
};

typedef struct quantizing {
    plumb_spec spec;
    const float *x;
    size_t rows, cols;
    bool along_rows;
    plumb_quantized *out;
    plumb_counts *counts;
} quantizing;

static void quantize(void *context)
{
    const quantizing *q = context;

    memset(q->counts, 0, sizeof *q->counts);
    plumb_quantize(&q->spec, q->x, q->rows, q->cols, q->along_rows, NULL, false, q->out,
                   q->counts, NULL);
}

/* The same on the baseline; the limit that was set comes back. */
static void quantize_by_reference(const quantizing *q)
{
    quantizing reference = *q;
    const unsigned allowed = plumb_cpu_flags();

    plumb_cpu_limit(PLUMB_CPU_BASELINE);
    quantize(&reference);
    plumb_cpu_limit(allowed);
}

static plumb_status take_quantized(bench *b, const quantizing *q, plumb_quantized *out,
                                   size_t *code_bytes, size_t *scales, plumb_error *why)
{
    const plumb_status status = plumb_quantized_need(
        &q->spec, q->rows, q->cols, q->along_rows, code_bytes, scales, why);

    if (status != PLUMB_OK)
        return status;
    out->codes = bench_take(b, *code_bytes, why);
    out->d = bench_take(b, *scales * sizeof(float), why);
    return out->codes != NULL && out->d != NULL ? PLUMB_OK : PLUMB_NO_MEMORY;
}

static plumb_status run_quantize(bench *b, const bench_case *row, plumb_error *why)
{
    const recipe *r = row->extra;
    const size_t cols = 1024, n = bench_elements(b, row->place, 4, 1) / cols * cols;
    plumb_quantized out = {0}, want = {0};
    plumb_counts counts[2];
    float *x = bench_take_normal(b, n, 1, why);
    quantizing ours = {.x = x,
                       .rows = n / cols,
                       .cols = cols,
                       .along_rows = r->along_rows,
                       .out = &want,
                       .counts = &counts[1]};
    bench_race race = {.work = (double)n, .unit = "elem"};
    size_t code_bytes, scales;
    plumb_status status = x == NULL ? PLUMB_NO_MEMORY : PLUMB_OK;

    if (status == PLUMB_OK)
        status = plumb_spec_parse(r->text, NULL, &ours.spec, why);
    if (status == PLUMB_OK)
        status = take_quantized(b, &ours, &want, &code_bytes, &scales, why);
    if (status == PLUMB_OK)
        status = take_quantized(b, &ours, &out, &code_bytes, &scales, why);
    if (status != PLUMB_OK)
        return status;
    x[n - 1] = 8; /* the largest, seen only by who reads to the end */
    quantize_by_reference(&ours);
    ours.out = &out;
    ours.counts = &counts[0];
    race.bytes = (double)(n * 4 + code_bytes + scales * 4);

    bench_entry *entry = bench_enter(&race, BENCH_OURS, bench_level());

    entry->run = quantize;
    entry->context = &ours;
    entry->outputs[0] = (bench_output){"codes", out.codes, want.codes, code_bytes, 1};
    entry->outputs[1] =
        (bench_output){"scales", out.d, want.d, scales * sizeof(float), sizeof(float)};
    entry->outputs[2] = (bench_output){"counts", &counts[0], &counts[1], sizeof counts[0],
                                       sizeof counts[0].total};
    status = bench_enter_copy(b, &race, ours.x, out.codes, n, 4, 1, why);
    return status == PLUMB_OK ? bench_race_run(b, &race, why) : status;
}

void bench_list_quantize(bench_list *list, const bench_machine *machine)
{
    (void)machine;
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        for (bench_place place = recipes[i].last + 1; place-- > 0;) {
            bench_case row = {.run = run_quantize,
                              .slow = place == BENCH_MEMORY,
                              .place = place,
                              .extra = &recipes[i]};

            plumb_print(row.name, sizeof row.name, "quantize/%s/%s", recipes[i].name,
                        bench_place_name(place));
            plumb_print(row.what, sizeof row.what, "amax, scale, cast, all counts: %s%s",
                        recipes[i].text, recipes[i].along_rows ? " down the rows" : "");
            bench_add(list, &row);
        }
    }
}
