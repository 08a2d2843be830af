/* Square products: operands, reference, one call. */
#include "bench/product.h"

#include "plumb/random.h"

#include "matmul/lanes.h"

static plumb_status take_operand(bench *b, const char *text, size_t n, bool turned,
                                 uint64_t seed, plumb_quantized *q, plumb_error *why)
{
    plumb_spec spec;
    size_t bytes, scales;
    float *x = bench_take(b, n * n * sizeof *x, why);
    plumb_status status = x == NULL ? PLUMB_NO_MEMORY : PLUMB_OK;

    if (status == PLUMB_OK)
        status = plumb_spec_parse(text, NULL, &spec, why);
    if (status == PLUMB_OK)
        status = plumb_quantized_need(&spec, n, n, turned, &bytes, &scales, why);
    if (status != PLUMB_OK)
        return status;
    q->codes = bench_take(b, bytes, why);
    q->d = bench_take(b, scales * sizeof *q->d, why);
    if (q->codes == NULL || q->d == NULL)
        return PLUMB_NO_MEMORY;
    plumb_random_normal(seed, plumb_random_stream("bench/product"), 1, n * n, x);
    return plumb_quantize(&spec, x, n, n, turned, NULL, false, q, NULL, why);
}

plumb_status bench_product_take(bench *b, const bench_shape *shape, size_t n,
                                bench_product *p, plumb_error *why)
{
    plumb_status status;

    *p = (bench_product){.n = n, .micro = plumb_micro_best()};
    p->name = p->micro->name;
    p->a.transposed = shape->a_turned;
    p->b.transposed = shape->b_turned;
    status = take_operand(b, shape->a, n, shape->a_turned, 1, &p->qa, why);
    if (status == PLUMB_OK)
        status = take_operand(b, shape->b, n, shape->b_turned, 2, &p->qb, why);
    if (status != PLUMB_OK)
        return status;
    p->c = bench_take(b, n * n * sizeof *p->c, why);
    p->workspace = bench_take(b, plumb_matmul_workspace_bytes(NULL, n, n, n), why);
    return p->c != NULL && p->workspace != NULL ? PLUMB_OK : PLUMB_NO_MEMORY;
}

size_t bench_product_variants(const bench_product *base, bench_product each[BENCH_VARIANTS])
{
    size_t count = 0;

    for (size_t i = 0; i < plumb_micro_count && count < BENCH_VARIANTS; i++) {
        if (!bench_may_run(plumb_micros[i].cpu))
            continue;
        each[count] = *base;
        each[count].micro = &plumb_micros[i];
        each[count++].name = plumb_micros[i].name;
    }
    return count;
}

void bench_multiply(void *product)
{
    bench_product *p = product;

    p->a.matrix = &p->qa;
    p->b.matrix = &p->qb;
    const plumb_extras extras = {.packed = p->packed.x != NULL ? &p->packed : NULL};

    plumb_matmul_extended_with(p->micro, &plumb_lanes_rows[0], NULL, &p->a, &p->b, p->c,
                               p->n, false, p->tile, &extras, p->workspace, NULL);
}

plumb_status bench_product_pack(bench *b, bench_product *p, plumb_error *why)
{
    size_t bytes;

    p->b.matrix = &p->qb;
    const plumb_status status = plumb_packed_need_with(p->micro, &p->b, &bytes, why);

    if (status != PLUMB_OK)
        return status;
    void *memory = bench_take(b, bytes, why);

    if (memory == NULL)
        return PLUMB_NO_MEMORY;
    plumb_pack_with(p->micro, &p->b, memory, &p->packed);
    return PLUMB_OK;
}

size_t bench_product_outputs(const bench_product *p, float *want,
                             bench_output outputs[BENCH_OUTPUTS])
{
    const bool whole = p->n <= BENCH_WHOLE;
    const size_t height = whole ? p->n : BENCH_BAND, count = whole ? 1 : BENCH_OUTPUTS;
    bench_product reference = *p;

    reference.micro = &plumb_micros[0];
    reference.packed.x = NULL;
    reference.c = want;
    for (size_t i = 0; i < count; i++) {
        const size_t row = whole ? 0 : i * (p->n - height) / (count - 1);

        reference.tile = (plumb_tile){row, row + height, 0, p->n};
        bench_multiply(&reference);
        outputs[i] = (bench_output){"C", p->c + row * p->n, want + row * p->n,
                                    height * p->n * sizeof *want, sizeof *want};
    }
    return count;
}

const bench_peer_product *bench_product_for_peers(bench *b, const bench_product *ours,
                                                  plumb_error *why)
{
    const size_t count = ours->n * ours->n;
    bench_peer_product *peer = bench_take(b, sizeof *peer, why);
    bench_product canonical = *ours, magnitudes = *ours;
    uint8_t *a = bench_take(b, count, why), *c = bench_take(b, count, why);

    canonical.packed.x = magnitudes.packed.x = NULL; /* that is B, and not its magnitudes */
    canonical.c = bench_take(b, count * sizeof(float), why);
    magnitudes.c = bench_take(b, count * sizeof(float), why);
    if (peer == NULL || a == NULL || c == NULL || canonical.c == NULL ||
        magnitudes.c == NULL)
        return NULL;
    peer->n = ours->n;
    peer->a = bench_take(b, count * sizeof(float), why);
    peer->b = bench_take(b, count * sizeof(float), why);
    peer->c = bench_take(b, count * sizeof(float), why);
    if (peer->a == NULL || peer->b == NULL || peer->c == NULL)
        return NULL;
    plumb_dequantize(&ours->qa, peer->a, why);
    plumb_dequantize(&ours->qb, peer->b, why);
    for (size_t i = 0; i < count; i++) {
        a[i] = ((const uint8_t *)ours->qa.codes)[i] & 0x7f;
        c[i] = ((const uint8_t *)ours->qb.codes)[i] & 0x7f;
    }
    magnitudes.qa.codes = a;
    magnitudes.qb.codes = c;
    bench_multiply(&canonical);
    bench_multiply(&magnitudes);
    peer->ours = canonical.c;
    peer->magnitude = magnitudes.c;
    return peer;
}
