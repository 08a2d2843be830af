/* FP8 products of cuBLASLt on an H200, through plumb_matmul: fast accumulation is hopper-wgmma,
 * without it hopper-wgmma+promote128, with scales of tensors and where K is split.
 *
 * hardware/README.md says how the hashes were made.
 */
#include "hardware/table.h"
#include "hardware/tiles.h"

#include "plumb/matmul.h"

#include "check.h"

#include <stdlib.h>

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* As gemm.py makes them: a pure function of place. */
static uint8_t *draw_operand(uint64_t which, size_t rows, size_t k, plumb_format format)
{
    uint8_t *codes = malloc(rows * k);
    const unsigned bits = format == PLUMB_E4M3 ? 3 : 2;

    for (size_t i = 0; i < rows * k; i++) {
        const uint64_t x = mix(i + (which << 40));
        const uint64_t block = mix(i % k / 128 + (UINT64_C(9) << 40));
        const uint64_t field = (format == PLUMB_E4M3 ? 4 : 12) + block % 11 - (x >> 8) % 5;

        codes[i] = (uint8_t)((x & 1) << 7 | field << bits |
                             (x >> 16 & ((UINT64_C(1) << bits) - 1)));
    }
    return codes;
}

typedef struct gemm {
    size_t m, n, k;
    plumb_format a, b;
    bool fast, split_k;
    float scale_a, scale_b;
    uint64_t hash;
} gemm;

static bool read_gemm(FILE *file, gemm *g)
{
    char line[TABLE_LINE], *field[TABLE_FIELDS];

    if (table_row(file, line, field) != 10)
        return false;
    g->m = strtoul(field[0], NULL, 10);
    g->n = strtoul(field[1], NULL, 10);
    g->k = strtoul(field[2], NULL, 10);
    g->fast = *field[5] == '1';
    g->split_k = strstr(field[9], "splitK") != NULL;
    g->scale_a = strtof(field[6], NULL);
    g->scale_b = strtof(field[7], NULL);
    g->hash = strtoull(field[8], NULL, 16);
    return plumb_format_parse(field[3], &g->a) && plumb_format_parse(field[4], &g->b);
}

/* Kernels that split K add the parts in fp32, in order: here three of whole blocks of 128. */
static void multiply(const gemm *g, const plumb_accumulator *how, plumb_quantized *a,
                     plumb_quantized *b, size_t part, float *c)
{
    _Alignas(64) static unsigned char workspace[1 << 20];
    static float some[128 * 128];
    const size_t count = g->m * g->n;
    const uint8_t *codes_a = a->codes, *codes_b = b->codes;
    plumb_error why;

    for (size_t k = 0; k < g->k; k += part) {
        a->cols = b->cols = g->k - k < part ? g->k - k : part;
        a->codes = (void *)(codes_a + k);
        b->codes = (void *)(codes_b + k);
        const plumb_operand left = {a, false}, right = {b, false};
        CHECK_OK(plumb_matmul(how, &left, &right, some, g->n, false, (plumb_tile){0},
                              workspace, &why),
                 why);
        for (size_t i = 0; i < count; i++)
            c[i] = k == 0 ? some[i] : c[i] + some[i];
    }
    a->codes = (void *)codes_a;
    b->codes = (void *)codes_b;
}

static uint64_t product_hash(const gemm *g, plumb_sum_kind kind, bool promote128,
                             size_t part)
{
    const plumb_accumulator how = {kind, promote128, PLUMB_FP32};
    static float c[128 * 128];
    float scale_a = g->scale_a, scale_b = g->scale_b;
    plumb_quantized a = {.format = g->a, .rows = g->m, .ld = g->k};
    plumb_quantized b = {.format = g->b, .rows = g->n, .ld = g->k};
    uint64_t hash = hash_start();

    if (g->scale_a != 1) {
        a.d = &scale_a;
        b.d = &scale_b;
    }
    a.codes = draw_operand(1, g->m, g->k, g->a);
    b.codes = draw_operand(2, g->n, g->k, g->b);
    multiply(g, &how, &a, &b, part, c);
    free(a.codes);
    free(b.codes);
    hash_bytes(&hash, c, g->m * g->n * sizeof *c);
    return hash;
}

static void check_gemm(void)
{
    FILE *file = table_open("h200-gemm.csv");
    size_t rows = 0;
    gemm g;

    for (; read_gemm(file, &g); rows++) {
        const size_t part = g.split_k ? (g.k / 128 + 2) / 3 * 128 : g.k;
        const uint64_t hash = product_hash(&g, PLUMB_SUM_HOPPER_WGMMA, !g.fast, part);

        CHECK(hash == g.hash, "%zu x %zu x %zu, %s accumulation: not what cuBLASLt gives",
              g.m, g.n, g.k, g.fast ? "fast" : "split");
        if (g.k > 128)
            CHECK(product_hash(&g, PLUMB_SUM_HOPPER_WGMMA, g.fast, part) != g.hash,
                  "%zu x %zu x %zu: nothing tells whether sums are promoted", g.m, g.n,
                  g.k);
        CHECK(product_hash(&g, PLUMB_SUM_HOPPER_MMA, !g.fast, part) != g.hash,
              "%zu x %zu x %zu: nothing tells the unit", g.m, g.n, g.k);
    }
    fclose(file);
    CHECK(rows == 18, "%zu rows", rows);
    check_done("products of cuBLASLt");
}

int main(void)
{
    check_gemm();
    return check_exit();
}
