/* Products added up by a matrix unit, one result at a time from decoded panels: the definition,
 * and the only form of nvfp4 inside a unit.
 *
 * Each result is carried through K from first to last, so that neither tiling nor panels show
 * in the bits.
 */
#include "matmul/chain.h"
#include "matmul/finish.h"
#include "matmul/mode.h"
#include "matmul/product.h"

enum {
    TILE = 32,   /* results along each side */
    SLOTS = 512, /* terms of a panel */
    BLOCKS = 32, /* blocks of K in a panel, at most */
    CHUNK = 16,  /* products under one pair of nvfp4 scales */
    CHUNKS = 4   /* of them in one fused addition */
};

/* One operand's panel: TILE rows of SLOTS terms. */
typedef struct side {
    const plumb_operand *operand;
    const plumb_format_info *format;
    int16_t *m, *e;
    float d[TILE][BLOCKS];
    bool special[TILE]; /* an infinity or NaN among its terms */
} side;

/* Panel of K: `blocks` blocks of block_k elements, each padded to block_slots terms. */
typedef struct shape {
    size_t block_k, block_slots, panel_k;
} shape;

typedef struct state {
    float c, main; /* partial sum; the fp32 one that blocks are joined into */
} state;

typedef struct job {
    const plumb_product *of;
    plumb_ending ending;
    plumb_chain chain;
    shape shape;
    size_t depth;
    side *a, *b;
    state *states;
} job;

static shape choose_shape(const job *j)
{
    const size_t group = j->chain.group;
    const size_t block = j->of->scaling.block;
    const size_t slots = block > 0 ? plumb_round_up(block, group) : SLOTS / group * group;
    const size_t blocks = block > 0 ? SLOTS / slots : 1;

    return (shape){.block_k = block > 0 ? block : slots,
                   .block_slots = slots,
                   .panel_k = blocks * (block > 0 ? block : slots)};
}

static job make_job(const plumb_product *of)
{
    job j = {.of = of,
             .ending = plumb_ending_of(of),
             .chain = plumb_chain_make(plumb_unit_get(of->how->kind), of->how->output,
                                       of->a->matrix->format, of->b->matrix->format),
             .depth = plumb_operand_depth(of->a)};

    if (of->scaling.chunks)
        j.chain.group = CHUNKS * CHUNK;
    j.shape = choose_shape(&j);
    return j;
}

/* --- workspace ------------------------------------------------------------- */

static size_t add_piece(size_t *used, size_t bytes)
{
    const size_t at = *used;

    *used = plumb_round_up(at + bytes, 64);
    return at;
}

enum { PANEL_BYTES = 2 * TILE * SLOTS * sizeof(int16_t) };

typedef struct pieces {
    size_t a, b, a_panel, b_panel, states, all;
} pieces;

static pieces workspace_pieces(void)
{
    pieces p;

    p.all = 0;
    p.a = add_piece(&p.all, sizeof(side));
    p.b = add_piece(&p.all, sizeof(side));
    p.a_panel = add_piece(&p.all, PANEL_BYTES);
    p.b_panel = add_piece(&p.all, PANEL_BYTES);
    p.states = add_piece(&p.all, TILE * TILE * sizeof(state));
    return p;
}

size_t plumb_emulated_workspace(void)
{
    return workspace_pieces().all;
}

static side *deal_side(unsigned char *workspace, size_t at, size_t panel,
                       const plumb_operand *operand)
{
    side *s = (side *)(void *)(workspace + at);
    void *terms = workspace + panel;

    s->operand = operand;
    s->format = plumb_format_get(operand->matrix->format);
    s->m = terms;
    s->e = s->m + TILE * SLOTS;
    return s;
}

static void deal_workspace(job *j)
{
    const pieces p = workspace_pieces();
    unsigned char *workspace = j->of->workspace;

    j->a = deal_side(workspace, p.a, p.a_panel, j->of->a);
    j->b = deal_side(workspace, p.b, p.b_panel, j->of->b);
    j->states = (state *)(void *)(workspace + p.states);
}

/* --- panels ---------------------------------------------------------------- */

static void put(const job *j, side *s, size_t at, plumb_parts parts)
{
    const bool number = parts.m != 0 && !plumb_parts_special(parts);

    if (j->of->scaling.chunks)
        parts.m = number ? parts.m * (1 << parts.e) : 0; /* in halves */
    s->m[at] = (int16_t)parts.m;
    s->e[at] = (int16_t)parts.e;
}

/* `count` elements from k on of one row, as terms from slot `at` on, padded with zeros. */
static bool load_block(const job *j, side *s, size_t outer, size_t k, size_t count,
                       size_t at)
{
    const void *codes = plumb_operand_element(s->operand, outer, k);
    const size_t stride = s->operand->transposed ? s->operand->matrix->ld : 1;
    const bool inside = j->of->scaling.inside && !j->of->scaling.chunks;
    const size_t slots = plumb_round_up(count, j->chain.group);
    bool special = false;
    float d = 1;

    for (size_t i = 0; i < slots; i++) {
        const size_t slot = plumb_chain_slot(&j->chain, i);
        plumb_parts parts = {0, PLUMB_E_ZERO};

        if (i < count)
            parts = plumb_chain_operand(&j->chain, s->format,
                                        plumb_load_code(s->format, codes, i * stride));
        if (inside && i < count) {
            if (i % 32 == 0)
                d = plumb_operand_scale(s->operand, outer, k + i);
            parts = plumb_with_scale(parts, d);
        }
        put(j, s, at + slot, parts);
        special |= plumb_parts_special(parts);
    }
    return special;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void load_panel(const job *j, side *s, size_t outer, size_t rows, size_t k)
{
    const size_t count = smaller(j->shape.panel_k, j->depth - k);

    for (size_t r = 0; r < rows; r++) {
        bool special = false;

        for (size_t i = 0, n = 0; i < count; i += j->shape.block_k, n++) {
            const size_t length = smaller(j->shape.block_k, count - i);

            s->d[r][n] = plumb_operand_scale(s->operand, outer + r, k + i);
            special |= load_block(j, s, outer + r, k + i, length,
                                  r * SLOTS + n * j->shape.block_slots);
        }
        s->special[r] = special;
    }
}

/* --- sums ------------------------------------------------------------------ */

/* Place of a block: rows of both panels, its number in the panel, first k and length. */
typedef struct place {
    size_t i, j, n, k, count;
    size_t row, col;
} place;

static plumb_terms terms_of(const side *s, size_t row, size_t slot)
{
    return (plumb_terms){s->m + row * SLOTS + slot, s->e + row * SLOTS + slot,
                         s->special[row]};
}

/* Significand of a ue4m3 value in eighths, and its exponent; subnormals have that of 2^-6. */
static plumb_parts ue4m3_parts(float d)
{
    const int field = (int)(bits_of(d) >> 23) - 127;
    const int e = field > -6 ? field : -6;

    return (plumb_parts){(int32_t)ldexpf(d, 3 - e), e};
}

/* c and one block of nvfp4 products with their scales. */
static float sum_chunks(const job *j, const place *at, float c)
{
    const size_t slot = at->n * j->shape.block_slots;
    const int16_t *a = j->a->m + at->i * SLOTS + slot, *b = j->b->m + at->j * SLOTS + slot;

    for (size_t k = 0; k < at->count; k += CHUNKS * CHUNK) {
        plumb_parts chunks[CHUNKS];
        size_t n = 0;

        for (size_t q = k; q < at->count && n < CHUNKS; q += CHUNK) {
            const float da = plumb_operand_scale(j->of->a, at->row, at->k + q);
            const float db = plumb_operand_scale(j->of->b, at->col, at->k + q);
            int32_t sum = 0;

            if (da != da || db != db)
                return float_of(j->ending.nan);
            for (size_t i = q; i < q + CHUNK; i++)
                sum += a[i] * b[i];
            const plumb_parts sa = ue4m3_parts(da), sb = ue4m3_parts(db);
            chunks[n++] = (plumb_parts){sum * sa.m * sb.m, sa.e + sb.e};
        }
        c = plumb_chain_chunks(&j->chain, chunks, n, c);
    }
    return c;
}

static bool has_nan(const side *s, size_t outer, const place *at)
{
    const size_t stride = s->operand->transposed ? s->operand->matrix->ld : 1;
    const void *codes = plumb_operand_element(s->operand, outer, at->k);
    bool nan = false;

    for (size_t i = 0; i < at->count; i++)
        nan |= plumb_code_is_nan(s->format, plumb_load_code(s->format, codes, i * stride));
    return nan;
}

/* c and one block of products. */
static float partial_sum(const job *j, const place *at, float c)
{
    const size_t slot = at->n * j->shape.block_slots;

    if (j->of->scaling.chunks) {
        if ((j->a->special[at->i] && has_nan(j->a, at->row, at)) ||
            (j->b->special[at->j] && has_nan(j->b, at->col, at)))
            return float_of(j->ending.nan);
        return sum_chunks(j, at, c);
    }
    return plumb_chain_run(&j->chain, terms_of(j->a, at->i, slot),
                           terms_of(j->b, at->j, slot),
                           plumb_round_up(at->count, j->chain.group), c);
}

static void advance(const job *j, const place *at)
{
    state *s = &j->states[at->i * TILE + at->j];

    if (j->ending.joined) {
        const float scale =
            j->of->scaling.at_join ? j->a->d[at->i][at->n] * j->b->d[at->j][at->n] : 1;
        s->main = fmaf(partial_sum(j, at, 0), scale, s->main);
    } else {
        s->c = partial_sum(j, at, s->c);
    }
}

static void advance_panel(const job *j, const plumb_tile *tile, size_t k)
{
    const size_t count = smaller(j->shape.panel_k, j->depth - k);
    place at;

    for (at.i = 0; at.i < tile->row_end - tile->row; at.i++) {
        for (at.j = 0; at.j < tile->col_end - tile->col; at.j++) {
            at.row = tile->row + at.i;
            at.col = tile->col + at.j;
            at.n = 0;
            for (size_t i = 0; i < count; i += j->shape.block_k, at.n++) {
                at.k = k + i;
                at.count = smaller(j->shape.block_k, count - i);
                advance(j, &at);
            }
        }
    }
}

/* The result from its sum and old C. */
static float finish(const job *j, size_t i, size_t k, float old)
{
    const state *s = &j->states[i * TILE + k];

    return plumb_ending_last(&j->ending, j->of, j->ending.joined ? s->main : s->c,
                             j->a->d[i][0], j->b->d[k][0], old);
}

static void multiply_tile(const job *j, const plumb_tile *tile)
{
    const plumb_product *of = j->of;
    const size_t rows = tile->row_end - tile->row, cols = tile->col_end - tile->col;
    float *c = of->c + tile->row * of->ldc + tile->col;

    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < cols; k++)
            j->states[i * TILE + k] =
                (state){plumb_ending_first(&j->ending, c[i * of->ldc + k]), 0};
    }
    for (size_t k = 0; k < j->depth; k += j->shape.panel_k) {
        load_panel(j, j->a, tile->row, rows, k);
        load_panel(j, j->b, tile->col, cols, k);
        advance_panel(j, tile, k);
    }
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < cols; k++)
            c[i * of->ldc + k] = finish(j, i, k, c[i * of->ldc + k]);
    }
}

void plumb_emulated_product(const plumb_product *of)
{
    job j = make_job(of);
    const plumb_tile *all = &of->tile;

    deal_workspace(&j);
    const unsigned before = plumb_mode_enter(false);
    for (size_t row = all->row; row < all->row_end; row += TILE) {
        for (size_t col = all->col; col < all->col_end; col += TILE) {
            const plumb_tile tile = {row, smaller(row + TILE, all->row_end), col,
                                     smaller(col + TILE, all->col_end)};
            multiply_tile(&j, &tile);
        }
    }
    plumb_mode_leave(before);
}
