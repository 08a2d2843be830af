/* The blocked product: panels of A and B are packed, a micro-kernel walks their tiles.
 *
 * Blocking changes the order in which results are visited, never the order of the sum
 * within one: each result is carried through the panels of K from first to last.
 */
#include "base/size.h"
#include "matmul/mode.h"
#include "matmul/product.h"
#include "matmul/round.h"

enum { MC = 192, NC = 384 }; /* packed panels and running sums stay in a 1 MiB cache */

/* One call: what, where to, with which pieces of the workspace. */
typedef struct product {
    const plumb_micro *micro;
    const plumb_product *of;
    size_t depth, panel_depth; /* K, and K of one panel */
    float *rows, *slivers, *sums, *da, *db;
} product;

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
    p->da = p->sums + size.sums;
    p->db = p->da + size.da;
}

/* PLUMB_MICRO_NR_LCM copies of x; MR is less. */
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

/* All tiles of one pair of packed panels.  Scales, where there are any, lie in da and db. */
static void multiply_panels(const product *p, const plumb_panel *a, const plumb_panel *b)
{
    const plumb_micro *micro = p->micro;
    const plumb_product *of = p->of;
    const size_t depth = plumb_round_up(a->k_count, PLUMB_MICRO_CHAIN);
    const size_t chains = depth / PLUMB_MICRO_CHAIN;
    const bool first = a->k == 0, last = a->k + a->k_count == p->depth;
    _Alignas(64) float block[PLUMB_MICRO_MR_LCM * PLUMB_MICRO_NR_LCM];
    const scale_row ones = row_of(1);
    float *sum = p->sums;

    for (size_t j = 0; j < b->outer_count; j += micro->nr) {
        const float *sliver = p->slivers + j * depth;

        for (size_t i = 0; i < a->outer_count;
             i += micro->mr, sum += micro->mr * micro->nr) {
            const float *rows = p->rows + i * PLUMB_MICRO_LD;

            if (of->scaling.block > 0) {
                micro->run(chains, rows, sliver, block, true);
                micro->join(block, of->scaling.at_join ? p->da + i : ones.x,
                            of->scaling.at_join ? p->db + j : ones.x, sum, first);
            } else {
                micro->run(chains, rows, sliver, sum, first);
            }
            if (!last)
                continue;
            finish_sum(p, sum, p->da + i, p->db + j);
            micro->store(sum, of->c + (a->outer + i) * of->ldc + b->outer + j, of->ldc,
                         smaller(micro->mr, a->outer_count - i),
                         smaller(micro->nr, b->outer_count - j), of->accumulate);
        }
    }
}

/* C of a chunk of rows of A and a chunk of columns of B, through all of K. */
static void multiply_chunk(const product *p, plumb_panel a, plumb_panel b, bool b_is_packed)
{
    for (size_t k = 0; k < p->depth; k += p->panel_depth) {
        a.k = b.k = k;
        a.k_count = b.k_count = smaller(p->panel_depth, p->depth - k);
        p->micro->rows(p->micro, p->of->a, &a, p->rows);
        if (!b_is_packed)
            p->micro->slivers(p->micro, p->of->b, &b, p->slivers);
        if (p->of->scaling.at_join || (p->of->scaling.at_end && k == 0)) {
            plumb_pack_scales(p->of->a, &a, p->da);
            plumb_pack_scales(p->of->b, &b, p->db);
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

static void round_tile(const plumb_product *of)
{
    for (size_t i = of->tile.row; i < of->tile.row_end; i++) {
        for (size_t j = of->tile.col; j < of->tile.col_end; j++)
            of->c[i * of->ldc + j] = plumb_round_fp16(of->c[i * of->ldc + j]);
    }
}

void plumb_canonical_product(const plumb_product *of, const plumb_micro *micro)
{
    product p = {.micro = micro,
                 .of = of,
                 .depth = plumb_operand_depth(of->a),
                 .panel_depth = of->scaling.block > 0 ? of->scaling.block : PLUMB_MICRO_KC};

    deal_workspace(&p, &of->tile, of->workspace);
    const unsigned before = plumb_mode_enter(micro->ftz);
    multiply_tile(&p, &of->tile);
    plumb_mode_leave(before);
    if (of->how->output == PLUMB_FP16)
        round_tile(of);
}
