/* The blocked product: panels of A and B are packed, a micro-kernel walks their tiles.
 *
 * Blocking changes the order in which results are visited, never the order of the sum
 * within one: each result is carried through the panels of K from first to last.
 */
#include "base/size.h"
#include "matmul/epilogue.h"
#include "matmul/mode.h"
#include "matmul/packed.h"
#include "matmul/round.h"

/* Packed panels and running sums stay in a 1 MiB cache.  Every mr divides MC. */
enum { MC = 192, NC = 384 };

/* One call: what, where to, with which pieces of the workspace. */
typedef struct product {
    const plumb_micro *micro;
    const plumb_product *of;
    size_t depth, panel_depth; /* K, and K of one panel */
    float *rows, *slivers, *sums;
    plumb_scales da, db; /* of the panels at hand */
    plumb_panel held;    /* what the slivers hold ... */
    bool held_folded;    /* ... with the scales in it? */
    bool folded;         /* scales are in the panels at hand */
    const float *b_at;   /* the slivers at hand: these, or the caller's */
} product;

/* Blocks of K in a panel that have scales of their own, at most. */
enum { BLOCKS = PLUMB_MICRO_PANEL / PLUMB_MICRO_CHAIN };

/* Floats of each piece of the workspace; all are multiples of 16. */
typedef struct pieces {
    size_t rows, slivers, sums, da, db;
} pieces;

static pieces workspace_pieces(size_t m, size_t n, size_t k)
{
    const size_t rows = smaller(m + PLUMB_MICRO_MR - 1, MC);
    const size_t cols = plumb_round_up(smaller(n, NC), PLUMB_MICRO_NR_LCM);
    const size_t depth = plumb_round_up(smaller(k, PLUMB_MICRO_KC), PLUMB_MICRO_CHAIN);

    return (pieces){.rows = rows * PLUMB_MICRO_LD,
                    .slivers = cols * depth,
                    .sums = rows * cols,
                    .da = BLOCKS * plumb_round_up(rows, 16),
                    .db = BLOCKS * cols};
}

size_t plumb_canonical_workspace(size_t m, size_t n, size_t k)
{
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
    p->da = (plumb_scales){p->sums + size.sums, size.da / BLOCKS, 0, 0};
    p->db = (plumb_scales){p->da.d + size.da, size.db / BLOCKS, 0, 0};
}

/* PLUMB_MICRO_NR_LCM copies of x; no mr is more. */
typedef struct scale_row {
    float x[PLUMB_MICRO_NR_LCM];
} scale_row;

static scale_row row_of(float x)
{
    scale_row all;

    for (size_t i = 0; i < PLUMB_MICRO_NR_LCM; i++)
        all.x[i] = x;
    return all;
}

/* What follows all of K: scales that belong to no part of it. */
static void finish_sum(const product *p, float *sum, const float *da, const float *db)
{
    const plumb_scaling *scaling = &p->of->scaling;

    if (scaling->at_end)
        p->micro->join(sum, da, db, sum, true);
    if (scaling->tensor) {
        const scale_row a = row_of(plumb_operand_tensor_scale(p->of->a));
        const scale_row b = row_of(plumb_operand_tensor_scale(p->of->b));

        p->micro->join(sum, a.x, b.x, sum, true);
    }
}

/* One tile of sums through a panel, block by block: each is summed from +0 and joined. */
static void join_blocks(const product *p, size_t i, size_t j, size_t chains,
                        const float *rows, const float *sliver, bool first, float *sum)
{
    const plumb_micro *micro = p->micro;
    const plumb_scaling *scaling = &p->of->scaling;
    const size_t each = plumb_chains_in(scaling->block);
    _Alignas(64) float block[PLUMB_MICRO_MR * PLUMB_MICRO_NR_LCM];
    const scale_row ones = row_of(1);

    for (size_t n = 0, at = 0; at < chains; n++, at += each) {
        micro->run(smaller(each, chains - at), rows + at * micro->chain,
                   sliver + plumb_sliver_floats(micro, at), block, true);
        micro->join(block, scaling->at_join ? p->da.d + n * p->da.stride + i : ones.x,
                    scaling->at_join ? p->db.d + n * p->db.stride + j : ones.x, sum,
                    first && n == 0);
    }
}

static void store_tile(const product *p, const plumb_panel *a, const plumb_panel *b,
                       size_t i, size_t j, const float *sum, float *c, size_t ldc)
{
    p->micro->store(sum, c, ldc, smaller(p->micro->mr, a->outer_count - i),
                    smaller(p->micro->nr, b->outer_count - j), p->of->accumulate);
}

static void round_row(float *x, size_t n)
{
    for (size_t j = 0; j < n; j++)
        x[j] = plumb_round_fp16(x[j]);
}

/* Stores whole rows of a chunk, tile beside tile, and hands them to the epilogue, without the
 * flushing.  Where C is not wanted they lie where A was packed, which is done with.
 */
static void end_rows(const product *p, const plumb_panel *a, const plumb_panel *b)
{
    const plumb_micro *micro = p->micro;
    const plumb_product *of = p->of;
    const size_t ldc = of->c != NULL ? of->ldc : NC;
    const size_t column = plumb_round_up(a->outer_count, micro->mr) * micro->nr;

    for (size_t i = 0; i < a->outer_count; i += micro->mr) {
        float *rows = of->c != NULL ? of->c + (a->outer + i) * ldc + b->outer : p->rows;
        const float *sum = p->sums + i * micro->nr;

        for (size_t j = 0; j < b->outer_count; j += micro->nr, sum += column)
            store_tile(p, a, b, i, j, sum, rows + j, ldc);
        const unsigned before = plumb_mode_enter(false);

        for (size_t r = 0; r < micro->mr && i + r < a->outer_count; r++, rows += ldc) {
            if (of->how->output == PLUMB_FP16)
                round_row(rows, b->outer_count);
            plumb_epilogue_row(of, a->outer + i + r, b->outer, b->outer_count, rows);
        }
        plumb_mode_leave(before);
    }
}

/* All tiles of one pair of packed panels. */
static void multiply_panels(const product *p, const plumb_panel *a, const plumb_panel *b)
{
    const plumb_micro *micro = p->micro;
    const plumb_product *of = p->of;
    const size_t chains = plumb_chains_in(a->k_count);
    const bool joins = of->scaling.block > 0 && !p->folded;
    const bool first = a->k == 0, last = a->k + a->k_count == p->depth;
    const float *sliver = p->b_at;
    float *sum = p->sums;

    for (size_t j = 0; j < b->outer_count; j += micro->nr) {
        const float *rows = p->rows;

        for (size_t i = 0; i < a->outer_count; i += micro->mr) {
            if (joins)
                join_blocks(p, i, j, chains, rows, sliver, first, sum);
            else
                micro->run(chains, rows, sliver, sum, first);
            if (last)
                finish_sum(p, sum, p->da.d + i, p->db.d + j);
            if (last && of->extras.epilogue == NULL)
                store_tile(p, a, b, i, j, sum,
                           of->c + (a->outer + i) * of->ldc + b->outer + j, of->ldc);
            rows += micro->mr * PLUMB_MICRO_LD;
            sum += micro->mr * micro->nr;
        }
        sliver += plumb_sliver_floats(micro, chains);
    }
    if (last && of->extras.epilogue != NULL)
        end_rows(p, a, b);
}

static bool can_fold(const product *p)
{
    return p->micro->fold_rows != NULL && p->of->scaling.at_join &&
           p->of->scaling.block == PLUMB_MICRO_CHAIN &&
           plumb_can_fold(p->of->a->matrix->format, &p->da, p->of->b->matrix->format,
                          &p->db);
}

static bool same_panel(const plumb_panel *a, const plumb_panel *b)
{
    return a->outer == b->outer && a->outer_count == b->outer_count && a->k == b->k &&
           a->k_count == b->k_count;
}

/* Where the caller's packed B has the panel, folded or not as this product needs it; else NULL. */
static const float *packed_panel(const product *p, const plumb_panel *b, bool folded)
{
    const plumb_packed *packed = p->of->extras.packed;

    if (packed == NULL || packed->kernel != p->micro || packed->folded != folded ||
        p->panel_depth != p->micro->panel || b->outer % p->micro->nr != 0)
        return NULL;
    return packed->x + plumb_packed_at(p->micro, packed->n, b->outer, b->k,
                                       plumb_chains_in(b->k_count));
}

/* Packs a pair of panels, B only if it is not packed already. */
static void pack_panels(product *p, const plumb_panel *a, const plumb_panel *b)
{
    const bool folded = can_fold(p);

    p->folded = folded;
    plumb_pack_panel(p->micro, p->of->a, false, a, folded ? &p->da : NULL, p->rows);
    p->b_at = packed_panel(p, b, folded);
    if (p->b_at != NULL)
        return;
    p->b_at = p->slivers;
    if (same_panel(&p->held, b) && p->held_folded == folded)
        return;
    plumb_pack_panel(p->micro, p->of->b, true, b, folded ? &p->db : NULL, p->slivers);
    p->held = *b;
    p->held_folded = folded;
}

/* C of a chunk of rows of A and a chunk of columns of B, through all of K. */
static void multiply_chunk(product *p, plumb_panel a, plumb_panel b)
{
    const plumb_scaling *scaling = &p->of->scaling;
    const size_t block = scaling->at_join ? scaling->block : p->depth;

    for (size_t k = 0; k < p->depth; k += p->panel_depth) {
        a.k = b.k = k;
        a.k_count = b.k_count = smaller(p->panel_depth, p->depth - k);
        if (scaling->at_join || (scaling->at_end && k == 0)) {
            plumb_pack_block_scales(p->of->a, &a, block, &p->da);
            plumb_pack_block_scales(p->of->b, &b, block, &p->db);
        }
        pack_panels(p, &a, &b);
        multiply_panels(p, &a, &b);
    }
}

/* Size of the chunks when `total` is cut into equal ones of at most `largest`. */
static size_t chunk_size(size_t total, size_t largest, size_t step)
{
    const size_t chunks = (total + largest - 1) / largest;

    return plumb_round_up((total + chunks - 1) / chunks, step);
}

static void multiply_tile(product *p, const plumb_tile *tile)
{
    const size_t mc = chunk_size(tile->row_end - tile->row, MC, p->micro->mr);
    const size_t nc = chunk_size(tile->col_end - tile->col, NC, PLUMB_MICRO_NR_LCM);

    for (size_t col = tile->col; col < tile->col_end; col += nc) {
        const plumb_panel b = {.outer = col,
                               .outer_count = smaller(nc, tile->col_end - col)};

        for (size_t row = tile->row; row < tile->row_end; row += mc) {
            const plumb_panel a = {.outer = row,
                                   .outer_count = smaller(mc, tile->row_end - row)};

            multiply_chunk(p, a, b);
        }
    }
}

static void round_tile(const plumb_product *of)
{
    for (size_t i = of->tile.row; i < of->tile.row_end; i++)
        round_row(of->c + i * of->ldc + of->tile.col, of->tile.col_end - of->tile.col);
}

/* K of a panel: whole blocks, and whole chains in them; a block of less is a panel. */
static size_t panel_depth(const plumb_micro *micro, size_t block)
{
    return block % PLUMB_MICRO_CHAIN == 0 ? micro->panel : block;
}

void plumb_canonical_product(const plumb_product *of, const plumb_micro *micro)
{
    product p = {.micro = micro,
                 .of = of,
                 .depth = plumb_operand_depth(of->a),
                 .panel_depth = panel_depth(micro, of->scaling.block)};

    deal_workspace(&p, &of->tile, of->workspace);
    const unsigned before = plumb_mode_enter(micro->ftz);
    if (micro->enter != NULL)
        micro->enter();
    multiply_tile(&p, &of->tile);
    if (micro->leave != NULL)
        micro->leave();
    plumb_mode_leave(before);
    if (of->how->output == PLUMB_FP16 && of->extras.epilogue == NULL)
        round_tile(of);
}
