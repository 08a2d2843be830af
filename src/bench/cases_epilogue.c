/* Products whose results are cast with a scale known before, in shapes of a trainer of ten million
 * parameters: in the pass that stores them, against the product and a cast after it.
 */
#include "bench/bench.h"

#include "plumb/matmul.h"
#include "plumb/random.h"

#include <string.h>

typedef struct shape {
    size_t m, n, k;
} shape;

static const shape shapes[] = {{4096, 1152, 384}, {4096, 384, 1536}};

/* One way to the codes of C. */
typedef struct casting {
    shape size;
    plumb_quantized qa, qb;
    bool fused, keep; /* keep: C is stored too */
    plumb_cast cast;
    float *c;
    uint8_t *codes;
    plumb_counts *counts;
    void *workspace;
} casting;

static void multiply_and_cast(void *context)
{
    const casting *x = context;
    const plumb_operand a = {&x->qa, false}, b = {&x->qb, false};
    const plumb_epilogue epilogue = {NULL, &x->cast, x->codes, x->size.n, x->counts};
    const plumb_extras extras = {.epilogue = x->fused ? &epilogue : NULL};

    memset(x->counts, 0, sizeof *x->counts);
    plumb_matmul_extended(NULL, &a, &b, x->fused && !x->keep ? NULL : x->c, x->size.n,
                          false, (plumb_tile){0}, &extras, x->workspace, NULL);
    if (!x->fused)
        plumb_cast_encode(&x->cast, x->c, x->size.m * x->size.n, x->codes, x->counts);
}

/* Random codes of E4M3, no NaN among them. */
static plumb_status take_codes(bench *b, size_t rows, size_t cols, uint64_t seed,
                               plumb_quantized *q, plumb_error *why)
{
    uint8_t *codes = bench_take(b, rows * cols, why);

    *q = (plumb_quantized){.format = PLUMB_E4M3, .rows = rows, .cols = cols, .ld = cols};
    if (codes == NULL)
        return PLUMB_NO_MEMORY;
    for (size_t i = 0; i < rows * cols; i += 16) {
        uint32_t words[4];

        plumb_random_bits(seed, plumb_random_stream("bench/epilogue"), i / 16, words);
        for (size_t w = 0; w < 4; w++)
            words[w] &= 0xbfbfbfbfu;
        memcpy(codes + i, words, sizeof words);
    }
    q->codes = codes;
    return PLUMB_OK;
}

static plumb_status take_results(bench *b, casting *x, plumb_error *why)
{
    const size_t count = x->size.m * x->size.n;

    x->c = bench_take(b, count * sizeof *x->c, why);
    x->codes = bench_take(b, count, why);
    x->counts = bench_take(b, sizeof *x->counts, why);
    return x->c != NULL && x->codes != NULL && x->counts != NULL ? PLUMB_OK
                                                                 : PLUMB_NO_MEMORY;
}

static void enter(bench_race *race, bench_role role, const char *name, casting *x,
                  const casting *want)
{
    bench_entry *entry = bench_enter(race, role, name);
    const size_t count = x->size.m * x->size.n;

    entry->run = multiply_and_cast;
    entry->context = x;
    entry->outputs[0] = (bench_output){"codes", x->codes, want->codes, count, 1};
    entry->outputs[1] = (bench_output){"counts", x->counts, want->counts, sizeof *x->counts,
                                       sizeof(uint64_t)};
}

static plumb_status run_epilogue(bench *b, const bench_case *row, plumb_error *why)
{
    const shape *s = row->extra;
    bench_race race = {.work = 2.0 * (double)s->m * (double)s->n * (double)s->k,
                       .unit = "FLOP"};
    casting ours = {.size = *s,
                    .cast = {.format = PLUMB_E4M3, .saturate = true, .scale = 2}};
    plumb_status status = take_codes(b, s->m, s->k, 1, &ours.qa, why);

    ours.workspace =
        bench_take(b, plumb_matmul_workspace_bytes(NULL, s->m, s->n, s->k), why);
    if (status == PLUMB_OK)
        status = take_codes(b, s->n, s->k, 2, &ours.qb, why);
    if (status != PLUMB_OK || ours.workspace == NULL)
        return PLUMB_NO_MEMORY;
    casting kept = ours, apart = ours, want = ours;

    ours.fused = kept.fused = kept.keep = true;
    for (size_t i = 0; i < 4 && status == PLUMB_OK; i++)
        status = take_results(b, (casting *[]){&ours, &kept, &apart, &want}[i], why);
    if (status != PLUMB_OK)
        return status;
    multiply_and_cast(&want);
    enter(&race, BENCH_OURS, "fused", &ours, &want);
    enter(&race, BENCH_LIMIT, "C stored too", &kept, &want);
    enter(&race, BENCH_LIMIT, "product, then cast", &apart, &want);
    return bench_race_run(b, &race, why);
}

void bench_list_epilogue(bench_list *list, const bench_machine *machine)
{
    (void)machine;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        bench_case row = {.run = run_epilogue, .slow = true, .extra = &shapes[i]};

        plumb_print(row.name, sizeof row.name, "gemm/e4m3/cast/%zux%zux%zu", shapes[i].m,
                    shapes[i].n, shapes[i].k);
        plumb_print(row.what, sizeof row.what,
                    "e4m3 x e4m3 to e4m3 codes, packing counted");
        bench_add(list, &row);
    }
}
