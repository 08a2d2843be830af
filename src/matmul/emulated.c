/* Products added up by a matrix unit or exactly, one result at a time from decoded panels.
 *
 * Each result is carried through K from first to last, so that neither tiling nor panels show
 * in the bits.
 */
#include "matmul/chain.h"
#include "matmul/exact.h"
#include "matmul/finish.h"
#include "matmul/mode.h"
#include "matmul/product.h"

__extension__ typedef __int128 wide;

enum {
    TILE = 32,   /* results along each side */
    SLOTS = 512, /* terms of a panel */
    BLOCKS = 32, /* blocks of K in a panel, at most */
    CHUNK = 16,  /* products under one pair of nvfp4 scales */
    CHUNKS = 4   /* of them in one fused addition */
};

typedef enum method { UNIT, EXACT_NARROW, EXACT_WIDE, EXACT_PARTS } method;

/* One operand's panel: TILE rows of SLOTS terms, as the method wants them. */
typedef struct side {
    const plumb_operand *operand;
    const plumb_format_info *format;
    int16_t *m, *e; /* UNIT */
    int64_t *whole; /* EXACT_NARROW, EXACT_WIDE: multiples of 2^(emin - fraction_bits) */
    plumb_parts *parts; /* EXACT_PARTS */
    float tensor;       /* scale */
    float d[TILE][BLOCKS];
    bool special[TILE]; /* an infinity or NaN among codes or scales */
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
    method method;
    plumb_ending ending;
    plumb_chain chain; /* UNIT */
    shape shape;
    size_t depth;
    side *a, *b;
    plumb_exact *exact; /* of each result, unless joined */
    state *states;
} job;

/* --- choice ---------------------------------------------------------------- */

/* Bits of the largest finite value as a multiple of the least. */
static int whole_bits(const plumb_format_info *format)
{
    return format->emax - format->emin + format->fraction_bits + 1;
}

static method choose_method(const plumb_unit *unit, const plumb_format_info *a,
                            const plumb_format_info *b)
{
    const int bits = whole_bits(a) + whole_bits(b) + 10; /* of SLOTS products */

    if (unit != NULL)
        return UNIT;
    if (whole_bits(a) > 63 || whole_bits(b) > 63)
        return EXACT_PARTS;
    return bits < 63 ? EXACT_NARROW : EXACT_WIDE;
}

static shape choose_shape(const job *j)
{
    const size_t group = j->method == UNIT ? j->chain.group : 1;
    const size_t block = j->of->scaling.block;
    const size_t slots = block > 0 ? plumb_round_up(block, group) : SLOTS / group * group;
    const size_t blocks = block > 0 ? SLOTS / slots : 1;

    return (shape){.block_k = block > 0 ? block : slots,
                   .block_slots = slots,
                   .panel_k = blocks * (block > 0 ? block : slots)};
}

static job make_job(const plumb_product *of)
{
    const plumb_unit *unit = plumb_unit_get(of->how->kind);
    const plumb_format a = of->a->matrix->format, b = of->b->matrix->format;
    job j = {.of = of,
             .method = choose_method(unit, plumb_format_get(a), plumb_format_get(b)),
             .depth = plumb_operand_depth(of->a),
             .ending = plumb_ending_of(of)};

    if (unit != NULL) {
        j.chain = plumb_chain_make(unit, of->how->output, a, b);
        if (of->scaling.chunks)
            j.chain.group = CHUNKS * CHUNK;
    }
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

enum { PANEL_BYTES = TILE * SLOTS * sizeof(int64_t) };

typedef struct pieces {
    size_t a, b, a_panel, b_panel, states, exact, all;
} pieces;

static pieces workspace_pieces(bool exact)
{
    pieces p;

    p.all = 0;
    p.a = add_piece(&p.all, sizeof(side));
    p.b = add_piece(&p.all, sizeof(side));
    p.a_panel = add_piece(&p.all, PANEL_BYTES);
    p.b_panel = add_piece(&p.all, PANEL_BYTES);
    p.states = add_piece(&p.all, TILE * TILE * sizeof(state));
    p.exact = add_piece(&p.all, exact ? TILE * TILE * sizeof(plumb_exact) : 0);
    return p;
}

size_t plumb_emulated_workspace(const plumb_accumulator *how)
{
    return workspace_pieces(how->kind == PLUMB_SUM_EXACT).all;
}

static side *deal_side(unsigned char *workspace, size_t at, size_t panel,
                       const plumb_operand *operand)
{
    side *s = (side *)(void *)(workspace + at);
    void *terms = workspace + panel;

    s->operand = operand;
    s->format = plumb_format_get(operand->matrix->format);
    s->tensor = plumb_operand_tensor_scale(operand);
    s->whole = terms;
    s->parts = terms;
    s->m = terms;
    s->e = s->m + TILE * SLOTS;
    return s;
}

static void deal_workspace(job *j)
{
    const pieces p = workspace_pieces(j->method != UNIT);
    unsigned char *workspace = j->of->workspace;

    j->a = deal_side(workspace, p.a, p.a_panel, j->of->a);
    j->b = deal_side(workspace, p.b, p.b_panel, j->of->b);
    j->states = (state *)(void *)(workspace + p.states);
    j->exact = (plumb_exact *)(void *)(workspace + p.exact);
}

/* --- panels ---------------------------------------------------------------- */

static void put(const job *j, side *s, size_t at, plumb_parts parts)
{
    const bool number = parts.m != 0 && !plumb_parts_special(parts);

    if (j->of->scaling.chunks && j->method == UNIT) {
        s->m[at] = (int16_t)(number ? parts.m * (1 << parts.e) : 0); /* in halves */
    } else if (j->method == UNIT) {
        s->m[at] = (int16_t)parts.m;
        s->e[at] = (int16_t)parts.e;
    } else if (j->method == EXACT_PARTS) {
        s->parts[at] = number ? parts : (plumb_parts){0, 0};
    } else {
        s->whole[at] = number ? parts.m * (INT64_C(1) << (parts.e - s->format->emin)) : 0;
    }
}

/* `count` elements from k on of one row, as terms from slot `at` on, padded with zeros. */
static bool load_block(const job *j, side *s, size_t outer, size_t k, size_t count,
                       size_t at)
{
    const void *codes = plumb_operand_element(s->operand, outer, k);
    const size_t stride = s->operand->transposed ? s->operand->matrix->ld : 1;
    const bool inside = j->of->scaling.inside && !j->of->scaling.chunks;
    const size_t group = j->method == UNIT ? j->chain.group : 1;
    const size_t slots = plumb_round_up(count, group);
    bool special = false;
    float d = 1;

    for (size_t i = 0; i < slots; i++) {
        const size_t slot = j->method == UNIT ? plumb_chain_slot(&j->chain, i) : i;
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

static bool finite(float x)
{
    return x - x == 0;
}

static void load_panel(const job *j, side *s, size_t outer, size_t rows, size_t k)
{
    const size_t count = smaller(j->shape.panel_k, j->depth - k);

    for (size_t r = 0; r < rows; r++) {
        bool special = !finite(s->tensor);

        for (size_t i = 0, n = 0; i < count; i += j->shape.block_k, n++) {
            const size_t length = smaller(j->shape.block_k, count - i);

            s->d[r][n] = plumb_operand_scale(s->operand, outer + r, k + i);
            special |= !finite(s->d[r][n]);
            special |= load_block(j, s, outer + r, k + i, length,
                                  r * SLOTS + n * j->shape.block_slots);
        }
        s->special[r] = special;
    }
}

/* --- exact sums ------------------------------------------------------------ */

/* 0, 1 or infinity with the sign of x, or NaN: enough to see what decides a sum. */
static float class_of(float x)
{
    return x == 0 || !finite(x) ? x : copysignf(1, x);
}

static float class_at(const side *s, size_t outer, size_t k)
{
    const void *codes = plumb_operand_element(s->operand, outer, k);
    const plumb_format_info *format = s->format;
    const uint32_t code = plumb_load_code(format, codes, 0);
    const plumb_parts parts = plumb_code_parts(format, code);

    if (parts.e == PLUMB_E_NAN)
        return NAN;
    return parts.e == PLUMB_E_INFINITY ? (float)parts.m * INFINITY
                                       : class_of((float)parts.m);
}

/* Place of a block: rows of both panels, its number in the panel, first k and length. */
typedef struct place {
    size_t i, j, n, k, count;
    size_t row, col;
} place;

/* Scales of a product in a block that are part of its exact sum. */
static void find_scales(const job *j, const place *at, float scales[4])
{
    const bool inside = !j->ending.joined;

    scales[0] = inside ? j->a->d[at->i][at->n] : 1;
    scales[1] = inside ? j->b->d[at->j][at->n] : 1;
    scales[2] = inside ? j->ending.a_tensor : 1;
    scales[3] = inside ? j->ending.b_tensor : 1;
}

static void see_specials(const job *j, const place *at, const float scales[4],
                         plumb_exact *sum)
{
    const float scale = class_of(scales[0]) * class_of(scales[1]) * class_of(scales[2]) *
                        class_of(scales[3]);

    for (size_t i = 0; i < at->count; i++) {
        const float x =
            class_at(j->a, at->row, at->k + i) * class_at(j->b, at->col, at->k + i) * scale;

        sum->nan |= x != x;
        sum->up |= x == INFINITY;
        sum->down |= x == -INFINITY;
    }
}

static void add_scaled(plumb_exact *sum, plumb_whole x, const float scales[4])
{
    for (int i = 0; i < 4; i++)
        plumb_whole_scale(&x, scales[i]);
    plumb_exact_add(sum, &x);
}

static int least_exponent(const plumb_format_info *format)
{
    return format->emin - format->fraction_bits;
}

static void add_whole(const job *j, const int64_t *a, const int64_t *b, size_t count,
                      const float scales[4], plumb_exact *sum)
{
    wide total = 0;

    if (j->method == EXACT_NARROW) {
        int64_t narrow = 0;
        for (size_t i = 0; i < count; i++)
            narrow += a[i] * b[i];
        total = narrow;
    } else {
        for (size_t i = 0; i < count; i++)
            total += (wide)a[i] * b[i];
    }
    const wide magnitude = total < 0 ? -total : total;
    add_scaled(
        sum,
        plumb_whole_from(total < 0, (uint64_t)(magnitude >> 64), (uint64_t)magnitude,
                         least_exponent(j->a->format) + least_exponent(j->b->format)),
        scales);
}

static void add_parts(const job *j, const plumb_parts *a, const plumb_parts *b,
                      size_t count, const float scales[4], plumb_exact *sum)
{
    const int fraction_bits = j->a->format->fraction_bits + j->b->format->fraction_bits;

    for (size_t i = 0; i < count; i++) {
        const int64_t m = (int64_t)a[i].m * b[i].m;

        if (m != 0)
            add_scaled(sum,
                       plumb_whole_from(m < 0, 0, (uint64_t)(m < 0 ? -m : m),
                                        a[i].e + b[i].e - fraction_bits),
                       scales);
    }
}

static void add_exactly(const job *j, const place *at, plumb_exact *sum)
{
    const size_t slot = at->n * j->shape.block_slots;
    const size_t a = at->i * SLOTS + slot, b = at->j * SLOTS + slot;
    float scales[4];

    find_scales(j, at, scales);
    if (j->a->special[at->i] || j->b->special[at->j])
        see_specials(j, at, scales, sum);
    if (sum->nan || sum->up || sum->down)
        return;
    if (j->method == EXACT_PARTS)
        add_parts(j, j->a->parts + a, j->b->parts + b, at->count, scales, sum);
    else
        add_whole(j, j->a->whole + a, j->b->whole + b, at->count, scales, sum);
}

/* --- sums ------------------------------------------------------------------ */

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
    bool nan = false;

    for (size_t i = 0; i < at->count; i++) {
        const float x = class_at(s, outer, at->k + i);
        nan |= x != x;
    }
    return nan;
}

/* c and one block of products. */
static float partial_sum(const job *j, const place *at, float c)
{
    const size_t slot = at->n * j->shape.block_slots;

    if (j->of->scaling.chunks && j->method == UNIT) {
        if ((j->a->special[at->i] && has_nan(j->a, at->row, at)) ||
            (j->b->special[at->j] && has_nan(j->b, at->col, at)))
            return float_of(j->ending.nan);
        return sum_chunks(j, at, c);
    }
    if (j->method == UNIT)
        return plumb_chain_run(&j->chain, terms_of(j->a, at->i, slot),
                               terms_of(j->b, at->j, slot),
                               plumb_round_up(at->count, j->chain.group), c);

    plumb_exact sum = {.added = 0};
    add_exactly(j, at, &sum);
    return plumb_exact_round(&sum, &j->ending.result);
}

static void advance(const job *j, const place *at)
{
    state *s = &j->states[at->i * TILE + at->j];

    if (j->method != UNIT && !j->ending.joined) {
        add_exactly(j, at, &j->exact[at->i * TILE + at->j]);
    } else if (j->ending.joined) {
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

static void begin(const job *j, size_t i, size_t k, float old)
{
    const size_t at = i * TILE + k;

    j->states[at] = (state){0, 0};
    if (j->method != UNIT && !j->ending.joined)
        j->exact[at] = (plumb_exact){.added = 0};
    if (j->method == UNIT)
        j->states[at].c = plumb_ending_first(&j->ending, old);
    else if (j->ending.entered)
        plumb_exact_add_float(&j->exact[at], old);
}

static float finish(const job *j, size_t i, size_t k, float old)
{
    const size_t at = i * TILE + k;
    const float x = j->ending.joined ? j->states[at].main : j->states[at].c;

    if (j->method != UNIT && !j->ending.joined)
        return plumb_exact_round(&j->exact[at], &j->ending.result);
    return plumb_ending_last(&j->ending, j->of, x, j->a->d[i][0], j->b->d[k][0], old);
}

static void multiply_tile(const job *j, const plumb_tile *tile)
{
    const plumb_product *of = j->of;
    const size_t rows = tile->row_end - tile->row, cols = tile->col_end - tile->col;
    float *c = of->c + tile->row * of->ldc + tile->col;

    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < cols; k++)
            begin(j, i, k, c[i * of->ldc + k]);
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
