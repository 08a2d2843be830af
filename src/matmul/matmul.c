/* The blocked product: panels of A and B are packed, a micro-kernel walks their tiles.
 *
 * Blocking changes the order in which results are visited, never the order of the sum
 * within one: each result is carried through the panels of K from first to last.
 */
#include "matmul/micro.h"
#include "matmul/pack.h"

#include <string.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { MC = 192, NC = 384 }; /* packed panels and running sums stay in a 1 MiB cache */

/* One call: what, where to, with which pieces of the workspace. */
typedef struct product {
    const plumb_micro *micro;
    const plumb_operand *a, *b;
    size_t depth, panel_depth; /* K, and K of one panel */
    bool blocked, scaled;      /* a scale for every 128 of K; any scale at all */
    float *c;
    size_t ldc;
    bool accumulate;
    float *rows, *slivers, *sums, *da, *db;
} product;

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Floats of each piece of the workspace; all are multiples of 16. */
typedef struct pieces {
    size_t rows, slivers, sums, da, db;
} pieces;

static pieces workspace_pieces(size_t m, size_t n, size_t k)
{
    const size_t rows = plumb_round_up(smaller(m, MC), PLUMB_MICRO_MR_LCM);
    const size_t cols = plumb_round_up(smaller(n, NC), PLUMB_MICRO_NR_LCM);
    const size_t depth = plumb_round_up(smaller(k, PLUMB_MICRO_KC), PLUMB_MICRO_CHAIN);

    return (pieces){.rows = rows * PLUMB_MICRO_LD,
                    .slivers = cols * depth,
                    .sums = rows * cols,
                    .da = plumb_round_up(rows, 16),
                    .db = cols};
}

size_t plumb_matmul_workspace_bytes(const plumb_accumulator *how, size_t m, size_t n,
                                    size_t k)
{
    (void)how;
    const pieces p = workspace_pieces(m, n, k);

    return (p.rows + p.slivers + p.sums + p.da + p.db) * sizeof(float);
}

static void deal_workspace(product *p, const plumb_tile *tile, float *workspace)
{
    const pieces size =
        workspace_pieces(tile->row_end - tile->row, tile->col_end - tile->col, p->depth);

    p->rows = workspace;
    p->slivers = p->rows + size.rows;
    p->sums = p->slivers + size.slivers;
    p->da = p->sums + size.sums;
    p->db = p->da + size.da;
}

/* All tiles of one pair of packed panels.  Scales, where there are any, lie in da and db. */
static void multiply_panels(const product *p, const plumb_panel *a, const plumb_panel *b)
{
    const plumb_micro *micro = p->micro;
    const size_t depth = plumb_round_up(a->k_count, PLUMB_MICRO_CHAIN);
    const size_t chains = depth / PLUMB_MICRO_CHAIN;
    const bool first = a->k == 0, last = a->k + a->k_count == p->depth;
    _Alignas(64) float block[PLUMB_MICRO_MR_LCM * PLUMB_MICRO_NR_LCM];
    float *sum = p->sums;

    for (size_t j = 0; j < b->outer_count; j += micro->nr) {
        const float *sliver = p->slivers + j * depth;

        for (size_t i = 0; i < a->outer_count;
             i += micro->mr, sum += micro->mr * micro->nr) {
            const float *rows = p->rows + i * PLUMB_MICRO_LD;

            if (p->blocked) {
                micro->run(chains, rows, sliver, block, true);
                micro->join(block, p->da + i, p->db + j, sum, first);
            } else {
                micro->run(chains, rows, sliver, sum, first);
            }
            if (!last)
                continue;
            if (p->scaled && !p->blocked)
                micro->join(sum, p->da + i, p->db + j, sum, true);
            micro->store(sum, p->c + (a->outer + i) * p->ldc + b->outer + j, p->ldc,
                         smaller(micro->mr, a->outer_count - i),
                         smaller(micro->nr, b->outer_count - j), p->accumulate);
        }
    }
}

/* C of a chunk of rows of A and a chunk of columns of B, through all of K. */
static void multiply_chunk(const product *p, plumb_panel a, plumb_panel b, bool b_is_packed)
{
    for (size_t k = 0; k < p->depth; k += p->panel_depth) {
        a.k = b.k = k;
        a.k_count = b.k_count = smaller(p->panel_depth, p->depth - k);
        plumb_pack_rows(p->micro, p->a, &a, p->rows);
        if (!b_is_packed)
            plumb_pack_slivers(p->micro, p->b, &b, p->slivers);
        if (p->blocked || (p->scaled && k == 0)) {
            plumb_pack_scales(p->a, &a, p->da);
            plumb_pack_scales(p->b, &b, p->db);
        }
        multiply_panels(p, &a, &b);
    }
}

/* Size of the chunks when `total` is cut into equal ones of at most `largest`. */
static size_t chunk_size(size_t total, size_t largest, size_t step)
{
    const size_t chunks = (total + largest - 1) / largest;

    return plumb_round_up((total + chunks - 1) / chunks, step);
}

static void multiply_tile(const product *p, const plumb_tile *tile)
{
    const size_t mc = chunk_size(tile->row_end - tile->row, MC, PLUMB_MICRO_MR_LCM);
    const size_t nc = chunk_size(tile->col_end - tile->col, NC, PLUMB_MICRO_NR_LCM);
    const bool one_panel = p->depth <= p->panel_depth;

    for (size_t col = tile->col; col < tile->col_end; col += nc) {
        const plumb_panel b = {.outer = col,
                               .outer_count = smaller(nc, tile->col_end - col)};

        for (size_t row = tile->row; row < tile->row_end; row += mc) {
            const plumb_panel a = {.outer = row,
                                   .outer_count = smaller(mc, tile->row_end - row)};

            multiply_chunk(p, a, b, one_panel && row > tile->row);
        }
    }
}

/* Sets what the micro-kernel expects and returns what was there before.  Exceptions are
 * masked; 0x8040 is flush-to-zero and denormals-are-zero.
 */
static unsigned enter_mode(const plumb_micro *micro)
{
#if defined(__x86_64__)
    const unsigned before = _mm_getcsr();

    _mm_setcsr(micro->ftz ? 0x1f80 | 0x8040 : 0x1f80);
    return before;
#else
    (void)micro;
    return 0;
#endif
}

static void leave_mode(unsigned before)
{
#if defined(__x86_64__)
    _mm_setcsr(before);
#else
    (void)before;
#endif
}

static plumb_status check_operand(const plumb_operand *operand, const char *name,
                                  plumb_error *why)
{
    const plumb_quantized *q = operand->matrix;

    if (plumb_format_get(q->format) == NULL)
        return plumb_fail(why, PLUMB_BAD_FORMAT, "operand %s has the unknown format %d",
                          name, (int)q->format);
    if (q->ld < q->cols)
        return plumb_fail(why, PLUMB_BAD_SHAPE, "operand %s: ld=%zu is below cols=%zu",
                          name, q->ld, q->cols);
    if (q->d != NULL && q->grain == PLUMB_GRAIN_1X128 &&
        q->along_rows != operand->transposed)
        return plumb_fail(why, PLUMB_BAD_SHAPE,
                          "operand %s: its 1x128 blocks lie along the %s, the product "
                          "contracts the %s",
                          name, q->along_rows ? "rows" : "columns",
                          q->along_rows ? "columns" : "rows");
    return PLUMB_OK;
}

static plumb_status check_shapes(const plumb_operand *a, const plumb_operand *b, size_t ldc,
                                 plumb_tile *tile, plumb_error *why)
{
    const size_t m = plumb_operand_outer(a), n = plumb_operand_outer(b);

    if (plumb_operand_depth(a) != plumb_operand_depth(b))
        return plumb_fail(why, PLUMB_BAD_SHAPE,
                          "inner sizes differ: A has K=%zu, B has K=%zu",
                          plumb_operand_depth(a), plumb_operand_depth(b));
    if (tile->row == 0 && tile->row_end == 0 && tile->col == 0 && tile->col_end == 0)
        *tile = (plumb_tile){0, m, 0, n};
    if (tile->row > tile->row_end || tile->row_end > m || tile->col > tile->col_end ||
        tile->col_end > n)
        return plumb_fail(why, PLUMB_BAD_SHAPE,
                          "tile [%zu, %zu) x [%zu, %zu) leaves the product of %zu x %zu",
                          tile->row, tile->row_end, tile->col, tile->col_end, m, n);
    if (ldc < n)
        return plumb_fail(why, PLUMB_BAD_SHAPE, "ldc=%zu is below n=%zu", ldc, n);
    return PLUMB_OK;
}

static void store_zeros(const plumb_tile *tile, float *c, size_t ldc)
{
    for (size_t i = tile->row; i < tile->row_end; i++)
        memset(c + i * ldc + tile->col, 0, (tile->col_end - tile->col) * sizeof *c);
}

plumb_status plumb_matmul_with(const plumb_micro *micro, const plumb_operand *a,
                               const plumb_operand *b, float *c, size_t ldc,
                               bool accumulate, plumb_tile tile, void *workspace,
                               plumb_error *why)
{
    plumb_status status = check_operand(a, "A", why);

    if (status == PLUMB_OK)
        status = check_operand(b, "B", why);
    if (status == PLUMB_OK)
        status = check_shapes(a, b, ldc, &tile, why);
    if (status != PLUMB_OK || tile.row == tile.row_end || tile.col == tile.col_end)
        return status;

    product p = {.micro = micro,
                 .a = a,
                 .b = b,
                 .depth = plumb_operand_depth(a),
                 .blocked = plumb_operand_blocked(a) || plumb_operand_blocked(b),
                 .scaled = a->matrix->d != NULL || b->matrix->d != NULL,
                 .c = c,
                 .ldc = ldc,
                 .accumulate = accumulate};

    if (p.depth == 0) {
        if (!accumulate)
            store_zeros(&tile, c, ldc);
        return PLUMB_OK;
    }
    p.panel_depth = p.blocked ? PLUMB_BLOCK : PLUMB_MICRO_KC;
    deal_workspace(&p, &tile, workspace);
    const unsigned before = enter_mode(micro);
    multiply_tile(&p, &tile);
    leave_mode(before);
    return PLUMB_OK;
}
