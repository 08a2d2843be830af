/* Products with the accumulators of GPU matrix units, and without error, against the canonical
 * one on the same codes.  Checked against the baseline instruction set, and element by element
 * against plumb_unit_dot, which defines the units.
 */
#include "bench/product.h"

#include <string.h>

enum { SIDE = 256, SAMPLES = 64 };

typedef struct summing {
    bench_product product;
    plumb_accumulator how;
} summing;

static void multiply(void *context)
{
    summing *s = context;
    bench_product *p = &s->product;

    p->a.matrix = &p->qa;
    p->b.matrix = &p->qb;
    plumb_matmul(&s->how, &p->a, &p->b, p->c, p->n, false, p->tile, p->workspace, NULL);
}

static const unsigned char *row_of(const plumb_quantized *q, size_t row)
{
    return (const unsigned char *)q->codes +
           row * q->ld * (size_t)plumb_format_get(q->format)->bytes;
}

/* Elements spread over C, each once more by the definition. */
static bool as_defined(void *context, char complaint[BENCH_COMPLAINT])
{
    const summing *s = context;
    const bench_product *p = &s->product;
    const plumb_unit *unit = plumb_unit_get(s->how.kind);

    for (size_t i = 0; unit != NULL && !s->how.promote128 && i < SAMPLES; i++) {
        const size_t row = i * 37 % p->n, col = i * 101 % p->n;
        const float *got = &p->c[row * p->n + col];
        float want = 0;

        plumb_unit_dot(unit, PLUMB_FP32, p->qa.format, row_of(&p->qa, row), p->qb.format,
                       row_of(&p->qb, col), p->n, 0, &want, NULL);
        if (memcmp(got, &want, sizeof want) == 0)
            continue;
        plumb_print(complaint, BENCH_COMPLAINT, "C[%zu,%zu] is %a, by definition %a", row,
                    col, (double)*got, (double)want);
        return false;
    }
    return true;
}

static void multiply_by_reference(const summing *ours, float *c)
{
    const unsigned allowed = plumb_cpu_flags();
    summing reference = *ours;

    reference.product.c = c;
    plumb_cpu_limit(PLUMB_CPU_BASELINE);
    multiply(&reference);
    plumb_cpu_limit(allowed);
}

static plumb_status run_sum(bench *b, const bench_case *row, plumb_error *why)
{
    const bench_shape *shape = row->extra;
    const size_t n = row->size, bytes = n * n * sizeof(float);
    summing ours = {.how = {.kind = PLUMB_SUM_FP32}};
    bench_race race = {.work = 2.0 * (double)n * (double)n * (double)n, .unit = "FLOP"};
    plumb_status status = plumb_accumulator_parse(shape->name, &ours.how, why);

    if (status == PLUMB_OK)
        status = bench_product_take(b, shape, n, &ours.product, why);
    if (status != PLUMB_OK)
        return status;
    bench_product canonical = ours.product;
    float *want = bench_take(b, bytes, why);

    canonical.c = bench_take(b, bytes, why);
    ours.product.workspace =
        bench_take(b, plumb_matmul_workspace_bytes(&ours.how, n, n, n), why);
    if (want == NULL || canonical.c == NULL || ours.product.workspace == NULL)
        return PLUMB_NO_MEMORY;
    multiply_by_reference(&ours, want);

    bench_entry *entry = bench_enter(&race, BENCH_OURS, bench_level());

    entry->run = multiply;
    entry->context = &ours;
    entry->check = as_defined;
    entry->outputs[0] = (bench_output){"C", ours.product.c, want, bytes, sizeof *want};
    entry = bench_enter(&race, BENCH_LIMIT, "canonical product");
    entry->run = bench_multiply;
    entry->context = &canonical;
    if (b->options->peers && plumb_format_get(ours.product.qa.format)->bits == 8) {
        const bench_peer_product *peer = bench_product_for_peers(b, &canonical, why);

        status = peer == NULL ? PLUMB_NO_MEMORY : bench_enter_blas(b, &race, peer, why);
    }
    return status == PLUMB_OK ? bench_race_run(b, &race, why) : status;
}

/* name is the accumulator. */
static const bench_shape shapes[] = {
    {"exact", "e4m3:none", "e4m3:none", false, false},
    {"hopper-wgmma", "e4m3:none", "e4m3:none", false, false},
    {"hopper-wgmma", "e5m2:none", "e4m3:none", false, false},
    {"hopper-wgmma+promote128", "e4m3:none", "e4m3:none", false, false},
    {"hopper-mma", "e4m3:none", "e4m3:none", false, false},
    {"ada-mma", "e4m3:none", "e4m3:none", false, false},
    {"blackwell-tcgen05", "e4m3:none", "e4m3:none", false, false},
    {"hopper-16", "bf16", "bf16", false, false},
    {"ampere-16", "bf16", "bf16", false, false},
    {"volta-16", "fp16", "fp16", false, false},
};

void bench_list_accumulators(bench_list *list, const bench_machine *machine)
{
    (void)machine;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const bench_shape *s = &shapes[i];
        bench_case row = {.run = run_sum, .size = SIDE, .extra = s};

        plumb_print(row.name, sizeof row.name, "sum/%s/%.4s", s->name, s->a);
        plumb_print(row.what, sizeof row.what, "%s x %s, %d cubed", s->a, s->b, SIDE);
        bench_add(list, &row);
    }
}
