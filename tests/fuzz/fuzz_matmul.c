/* The arguments of a product: accumulator, shapes, formats, grains, layouts, tile, leading
 * dimension.  Whatever is accepted gives the same bits in one call, in tiles, with every
 * micro-kernel and at every level of instructions, and writes nothing else; what is refused
 * leaves C alone.
 *
 *   0 kind  1 flags  2 m  3 n  4 k  5 k of b, rarely another  6-7 formats  8-9 grains  10 ldc
 *   11-14 tile  then codes, and scales as fp32
 */
#include "arguments.h"
#include "matmul/lanes.h"
#include "matmul/micro.h"

enum { MOST_M = 13, MOST_N = 35, MOST_K = 300, MOST_PAD = 3 };

typedef struct product {
    plumb_accumulator how;
    plumb_quantized a, b;
    plumb_operand left, right;
    size_t m, n, ldc;
    bool accumulate;
    plumb_tile tile;
} product;

/* Bytes that never end: the input over and over, turned a little each time. */
static uint8_t endless(arguments *a, const arguments *all, uint8_t *turn)
{
    if (a->left == 0 && all->left > 0) {
        *a = *all;
        (*turn)++;
    }
    return (uint8_t)(take_byte(a) + *turn);
}

static size_t blocks(const plumb_quantized *q)
{
    static const size_t lengths[] = {0, 128, 128, 0, 32, 16};
    const size_t length = lengths[q->grain];
    const size_t outer = q->along_rows ? q->cols : q->rows;
    const size_t inner = q->along_rows ? q->rows : q->cols;

    switch (q->grain) {
    case PLUMB_GRAIN_TENSOR:
        return 1;
    case PLUMB_GRAIN_128X128:
        return ((q->rows + 127) / 128) * ((q->cols + 127) / 128);
    case PLUMB_GRAIN_ROW:
        return outer;
    default:
        return outer * ((inner + length - 1) / length);
    }
}

/* One operand seen as [outer, k]. */
static void take_matrix(plumb_quantized *q, plumb_operand *o, size_t outer, size_t k,
                        arguments *a, const arguments *all, uint8_t *turn)
{
    const size_t each = (size_t)plumb_format_get(q->format)->bytes;

    q->rows = o->transposed ? k : outer;
    q->cols = o->transposed ? outer : k;
    q->ld = q->cols + (*turn % 3);
    q->d_tensor = 1.5f;
    const size_t elements = q->rows * q->ld;

    q->codes = malloc(elements * each + 1);
    for (size_t i = 0; i < elements * each; i++)
        ((uint8_t *)q->codes)[i] = endless(a, all, turn);
    if (q->d != NULL) { /* stands for: with scales */
        const size_t count = blocks(q);

        q->d = malloc((count + 1) * sizeof *q->d);
        for (size_t i = 0; i < count; i++) {
            const uint32_t bits = (uint32_t)endless(a, all, turn) << 24 |
                                  (uint32_t)endless(a, all, turn) << 16;

            memcpy(&q->d[i], &bits, sizeof bits);
        }
    }
    o->matrix = q;
}

static void take_product(arguments *a, product *p)
{
    const arguments all = *a;
    static float scaled;
    uint8_t turn = 0;

    memset(p, 0, sizeof *p);
    p->how.kind = (plumb_sum_kind)(take_byte(a) % (PLUMB_SUM_COUNT + 1));
    const uint8_t flags = take_byte(a);

    p->how.promote128 = flags & 1;
    p->how.output = flags & 2 ? PLUMB_FP16 : PLUMB_FP32;
    p->accumulate = flags & 4;
    p->left.transposed = flags & 8;
    p->right.transposed = flags & 16;
    p->a.along_rows = (flags & 8) != 0;
    p->b.along_rows = (flags & 16) != 0;
    p->a.d = flags & 32 ? &scaled : NULL;
    p->b.d = flags & 64 ? &scaled : NULL;
    p->m = take_byte(a) % (MOST_M + 1);
    p->n = take_byte(a) % (MOST_N + 1);
    const size_t k = take_byte(a) * 5u % (MOST_K + 1);
    const size_t other = take_byte(a) == 77 ? 1 : 0;

    p->a.format = (plumb_format)(take_byte(a) % PLUMB_FORMAT_COUNT);
    p->b.format = (plumb_format)(take_byte(a) % PLUMB_FORMAT_COUNT);
    p->a.grain = (plumb_grain)(take_byte(a) % 6);
    p->b.grain = (plumb_grain)(take_byte(a) % 6);
    p->ldc = p->n + take_byte(a) % (MOST_PAD + 1);
    p->tile.row = take_byte(a) % (MOST_M + 2);
    p->tile.row_end = take_byte(a) % (MOST_M + 2);
    p->tile.col = take_byte(a) % (MOST_N + 2);
    p->tile.col_end = take_byte(a) % (MOST_N + 2);
    take_matrix(&p->a, &p->left, p->m, k, a, &all, &turn);
    take_matrix(&p->b, &p->right, p->n, k + other, a, &all, &turn);
}

/* C as it is before any call: numbers that accumulation picks up, guards around them. */
static uint8_t *fresh(const product *p, size_t *size)
{
    *size = p->m * p->ldc * sizeof(float);
    uint8_t *block = guarded(*size);

    for (size_t i = 0; i < p->m * p->ldc; i++) {
        const float x = (float)i * 0.37f - 2.0f;

        memcpy(block + GUARD + i * sizeof x, &x, sizeof x);
    }
    return block;
}

/* One call with a workspace of exactly the size asked for; micro NULL: the face. */
static plumb_status call(const plumb_micro *micro, const product *p, plumb_tile tile,
                         uint8_t *c)
{
    const size_t need = plumb_matmul_workspace_bytes(
        &p->how, p->m, p->n, p->left.transposed ? p->a.rows : p->a.cols);
    uint8_t *block = aligned_alloc(64, (need + 2 * GUARD + 63) / 64 * 64);
    plumb_error why;
    plumb_status status;

    if (block == NULL)
        exit(0);
    memset(block, GUARD_BYTE, need + 2 * GUARD);
    float *const result = (float *)(void *)(c + GUARD);
    void *const work = block + GUARD;

    if (micro == NULL)
        status = plumb_matmul(&p->how, &p->left, &p->right, result, p->ldc, p->accumulate,
                              tile, work, &why);
    else
        status =
            plumb_matmul_with(micro, &plumb_lanes_rows[0], &p->how, &p->left, &p->right,
                              result, p->ldc, p->accumulate, tile, work, &why);
    check_guards(block, need);
    free(block);
    FUZZ_CHECK(status == PLUMB_OK || why.message[0] != 0);
    return status;
}

static void same(const product *p, const uint8_t *want, uint8_t *got, size_t size)
{
    (void)p;
    check_guards(got, size);
    FUZZ_CHECK(memcmp(want, got, size + 2 * GUARD) == 0);
    free(got);
}

/* Four tiles that meet at (row, col). */
static void in_tiles(const product *p, const uint8_t *want, size_t row, size_t col)
{
    size_t size;
    uint8_t *c = fresh(p, &size);
    const plumb_tile tiles[] = {
        {0, row, 0, col}, {0, row, col, p->n}, {row, p->m, 0, col}, {row, p->m, col, p->n}};

    for (int t = 0; t < 4; t++)
        if (tiles[t].row < tiles[t].row_end && tiles[t].col < tiles[t].col_end)
            FUZZ_CHECK(call(NULL, p, tiles[t], c) == PLUMB_OK);
    same(p, want, c, size);
}

static void every_way(const product *p, const uint8_t *want)
{
    const unsigned have = plumb_cpu_flags();
    const plumb_tile whole = {0, 0, 0, 0};
    size_t size;

    for (size_t i = 0; i < plumb_micro_count; i++) {
        if (p->how.kind != PLUMB_SUM_FP32 || (plumb_micros[i].cpu & ~have) != 0)
            continue;
        uint8_t *c = fresh(p, &size);

        FUZZ_CHECK(call(&plumb_micros[i], p, whole, c) == PLUMB_OK);
        same(p, want, c, size);
    }
    for (size_t l = 0; plumb_cpu_level_name(l) != NULL; l++) {
        uint8_t *c = fresh(p, &size);
        unsigned mask = 0;

        plumb_cpu_parse(plumb_cpu_level_name(l), &mask);
        plumb_cpu_limit(mask);
        FUZZ_CHECK(call(NULL, p, whole, c) == PLUMB_OK);
        plumb_cpu_limit(~0u);
        same(p, want, c, size);
    }
    if (p->m > 0 && p->n > 0)
        in_tiles(p, want, p->tile.row % p->m, p->tile.col % p->n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const plumb_tile whole = {0, 0, 0, 0};
    arguments a = {data, size};
    product p;
    size_t bytes;

    take_product(&a, &p);
    uint8_t *want = fresh(&p, &bytes), *untouched = fresh(&p, &bytes);

    if (call(NULL, &p, whole, want) != PLUMB_OK)
        FUZZ_CHECK(memcmp(want, untouched, bytes + 2 * GUARD) == 0);
    else
        every_way(&p, want);
    check_guards(want, bytes);
    free(want);

    /* A tile from the input, which may not fit. */
    if (call(NULL, &p, p.tile, untouched) != PLUMB_OK) {
        uint8_t *same_as = fresh(&p, &bytes);

        FUZZ_CHECK(memcmp(same_as, untouched, bytes + 2 * GUARD) == 0);
        free(same_as);
    }
    check_guards(untouched, bytes);
    free(untouched);
    free(p.a.codes);
    free(p.b.codes);
    free(p.a.d);
    free(p.b.d);
    return 0;
}
