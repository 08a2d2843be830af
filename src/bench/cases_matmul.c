/* The canonical product, packing counted, against the peak of this CPU's multiply-adds; with
 * scales, or B packed before, against itself without; peers on the same operands.
 */
#include "bench/peer.h"
#include "bench/product.h"

enum { SIZES = 4 };

typedef struct family {
    bench_shape shape;
    size_t sizes[SIZES]; /* up to the first 0 */
    bool scaled;         /* against the same product without scales */
    bool peers;
    bool packed; /* B is, once; against the same product that packs it */
} family;

static const family families[] = {
    {{"e4m3", "e4m3:none", "e4m3:none", false, false},
     {512, 1024, 2048, 4096},
     false,
     true,
     false},
    {{"e5m2", "e5m2:none", "e4m3:none", false, false}, {1024}, false, false, false},
    {{"bf16", "bf16", "bf16", false, false}, {1024}, false, false, false},
    {{"e4m3/dgrad", "e4m3:none", "e4m3:none", false, true}, {1024}, false, false, false},
    {{"e4m3/wgrad", "e4m3:none", "e4m3:none", true, true}, {1024}, false, false, false},
    {{"e4m3/tensor", "e4m3:tensor:current", "e4m3:tensor:current", false, false},
     {1024},
     true,
     false,
     false},
    {{"e4m3/blocks128", "e4m3:1x128:current", "e4m3:128x128:current", false, false},
     {512, 1024, 2048},
     true,
     false,
     false},
    {{"e4m3/mx32", "e4m3:mx32:current", "e4m3:mx32:current", false, false},
     {1024, 2048},
     true,
     false,
     false},
    {{"e2m1/nvfp4", "e2m1:nvfp4:current", "e2m1:nvfp4:current", false, false},
     {1024},
     true,
     false,
     false},
    {{"e4m3/packed", "e4m3:none", "e4m3:none", false, false},
     {512, 1024, 2048},
     false,
     true,
     true},
};

static double flops_of(size_t n)
{
    return 2.0 * (double)n * (double)n * (double)n;
}

/* The same codes without their scales, or with a B that is not packed, to compare with. */
static plumb_status enter_plain(bench *b, bench_race *race, const bench_product *ours,
                                const char *name, plumb_error *why)
{
    bench_product *plain = bench_take(b, sizeof *plain, why);

    if (plain == NULL)
        return PLUMB_NO_MEMORY;
    *plain = *ours;
    plain->qa.d = plain->qb.d = NULL;
    plain->packed.x = NULL;
    plain->c = bench_take(b, ours->n * ours->n * sizeof(float), why);
    if (plain->c == NULL)
        return PLUMB_NO_MEMORY;

    bench_entry *entry = bench_enter(race, BENCH_LIMIT, name);

    entry->run = bench_multiply;
    entry->context = plain;
    return PLUMB_OK;
}

/* What bounds the row. */
static plumb_status enter_limits(bench *b, bench_race *race, const family *f,
                                 const bench_product *ours, plumb_error *why)
{
    if (f->packed)
        return enter_plain(b, race, ours, "packing counted", why);
    return f->scaled ? enter_plain(b, race, ours, "without scales", why)
                     : bench_enter_peaks(b, race, why);
}

static plumb_status enter_peers(bench *b, bench_race *race, const bench_product *ours,
                                plumb_error *why)
{
    const bench_peer_product *peer = bench_product_for_peers(b, ours, why);

    if (peer == NULL)
        return PLUMB_NO_MEMORY;
    return bench_enter_peer_products(b, race, peer, why);
}

static plumb_status run_product(bench *b, const bench_case *row, plumb_error *why)
{
    const family *f = row->extra;
    const size_t n = row->size;
    bench_product base, each[BENCH_VARIANTS];
    bench_output outputs[BENCH_OUTPUTS];
    bench_race race = {.work = flops_of(n), .unit = "FLOP"};
    plumb_status status = bench_product_take(b, &f->shape, n, &base, why);
    float *want;

    if (status != PLUMB_OK)
        return status;
    want = bench_take(b, n * n * sizeof *want, why);
    if (want == NULL)
        return PLUMB_NO_MEMORY;
    if (f->packed)
        status = bench_product_pack(b, &base, why);
    if (status != PLUMB_OK)
        return status;
    const size_t variants = f->packed ? 1 : bench_product_variants(&base, each);

    if (f->packed)
        each[0] = base;

    bench_enter_variants(b, &race, each, sizeof *each, variants, bench_multiply, outputs,
                         bench_product_outputs(&base, want, outputs));
    status = enter_limits(b, &race, f, &base, why);
    if (status == PLUMB_OK && b->options->peers && f->peers)
        status = enter_peers(b, &race, &base, why);
    return status == PLUMB_OK ? bench_race_run(b, &race, why) : status;
}

void bench_list_matmul(bench_list *list, const bench_machine *machine)
{
    (void)machine;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const family *f = &families[i];

        for (size_t s = 0; s < SIZES && f->sizes[s] != 0; s++) {
            bench_case row = {.run = run_product,
                              .slow = f->sizes[s] > 1024,
                              .size = f->sizes[s],
                              .extra = f};

            plumb_print(row.name, sizeof row.name, "gemm/%s/%zu", f->shape.name,
                        f->sizes[s]);
            plumb_print(row.what, sizeof row.what, "%s x %s, %s", f->shape.a, f->shape.b,
                        f->packed ? "B packed before" : "packing counted");
            bench_add(list, &row);
        }
    }
}
