/* Products added up by a matrix unit, many results at a time: panels of terms, the walk over
 * them, and the definition for what the lanes leave.
 *
 * Each result is carried through K from first to last, so that neither tiling nor panels show
 * in the bits.
 */
#include "matmul/lanes.h"
#include "matmul/finish.h"
#include "matmul/mode.h"

#include <string.h>

enum {
    ROWS = 256,                  /* results along M in a tile; PLUMB_LANES along N */
    SLOTS = 256,                 /* terms of a panel */
    PANELS = ROWS / PLUMB_LANES, /* of A in a tile */
    STEPS = SLOTS / 4,           /* fused additions in a panel, at most */
    BATCH = 64,                  /* K that is decoded at once */
    TURN = 16                    /* rows that are turned at once */
};

/* SLOTS terms of 64 outer indices of an operand. */
typedef struct wide_panel {
    float x[SLOTS * PLUMB_LANES];
    int8_t e[SLOTS * PLUMB_LANES];
    int32_t top[STEPS * PLUMB_LANES];
} wide_panel;

typedef struct panel {
    union {
        wide_panel wide;
        plumb_narrow_rows rows; /* of A, in lanes of 16 bits */
        plumb_narrow_columns columns;
    } as;
    uint64_t special[STEPS]; /* outer indices with an infinity or NaN among their terms */
    float d[PLUMB_LANES];    /* scales of the block at hand */
    size_t outer, count;
} panel;

typedef struct workspace {
    panel a[PANELS], b;
    float c[ROWS][PLUMB_LANES];    /* C of the next fused addition */
    float sum[ROWS][PLUMB_LANES];  /* of the products alone, where C is added to them */
    float main[ROWS][PLUMB_LANES]; /* what blocks are joined into */
    union {
        float values[BATCH * PLUMB_LANES];
        uint8_t codes[PLUMB_LANES][SLOTS];
    } of;
    uint8_t order[BATCH]; /* element of K that is term i */
} workspace;

typedef struct job {
    const plumb_product *of;
    const plumb_lanes *lanes;
    plumb_chain chain;
    plumb_lane_unit unit;
    plumb_ending ending;
    size_t depth, block_k, block_slots, panel_k;
    bool narrow; /* in lanes of 16 bits */
    plumb_narrow_table of_a, of_b;
    workspace *w;
} job;

/* Part of a panel: fused addition `step`, which is one of `group` from k on, up to k_end. */
typedef struct place {
    size_t step, k, k_end, slot; /* slot of the step in the group */
} place;

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* --- choice ---------------------------------------------------------------- */

/* The largest significand, in multiples of 2^-fraction_bits. */
static uint64_t largest_significand(plumb_format format)
{
    return (UINT64_C(2) << plumb_format_get(format)->fraction_bits) - 1;
}

/* Bound of the sum of n products, in units of the last bit that is kept, with C. */
static uint64_t largest_sum(const plumb_chain *chain, const plumb_product *of, size_t n)
{
    const plumb_format a = of->a->matrix->format, b = of->b->matrix->format;
    const uint64_t product = largest_significand(a) * largest_significand(b);
    const uint64_t kept =
        chain->lift >= 0 ? product << chain->lift : (product >> -chain->lift) + 1;

    return n * kept + (UINT64_C(2) << chain->fraction_bits);
}

static bool is_covered(const plumb_product *of, const plumb_chain *chain)
{
    const bool whole_scales = !of->scaling.inside || chain->terms == 32;

    return !of->scaling.chunks && whole_scales && chain->terms % 4 == 0 &&
           chain->fraction_bits <= 25 &&
           largest_sum(chain, of, chain->terms / 2) < UINT64_C(1) << 31 &&
           (chain->result.format == PLUMB_FP16 || !chain->result.nearest);
}

/* The codes of one side are as matmul/narrow.h wants them: signs in bit 7. */
static bool is_narrow(const plumb_product *of, const plumb_lanes *lanes,
                      const plumb_chain *chain)
{
    return lanes->narrow_add != NULL && chain->fraction_bits == PLUMB_NARROW_FRACTION &&
           (chain->terms == 16 || chain->terms == 32) && chain->group == chain->terms &&
           !chain->as_fp16 && !of->scaling.inside &&
           plumb_format_get(of->a->matrix->format)->bits == 8 &&
           plumb_format_get(of->b->matrix->format)->bits == 8;
}

static job make_job(const plumb_product *of, const plumb_lanes *lanes,
                    const plumb_chain *chain)
{
    const size_t block = of->scaling.block, all = SLOTS / chain->group * chain->group;
    const size_t slots = block > 0 ? plumb_round_up(block, chain->group) : all;
    const bool half = chain->result.format == PLUMB_FP16;

    return (job){
        .of = of,
        .lanes = lanes,
        .chain = *chain,
        .unit = {.terms = chain->terms,
                 .fraction_bits = chain->fraction_bits,
                 .floor = chain->floor,
                 .result_bits = chain->result.fraction_bits,
                 .emin = plumb_emin(chain->result.format),
                 .half = half,
                 .wide = half || largest_sum(chain, of, chain->terms) >= 1 << 24},
        .ending = plumb_ending_of(of),
        .depth = plumb_operand_depth(of->a),
        .block_k = block > 0 ? block : slots,
        .block_slots = slots,
        .panel_k = block > 0 ? SLOTS / slots * block : slots,
        .narrow = is_narrow(of, lanes, chain),
        .w = of->workspace,
    };
}

size_t plumb_lanes_workspace(void)
{
    return plumb_round_up(sizeof(workspace), 64);
}

/* --- panels ---------------------------------------------------------------- */

/* k_count elements from k on of all outer indices of the panel, as values [k][64]. */
static void unpack(const job *j, const plumb_operand *operand, const panel *p, size_t k,
                   size_t k_count, float *x)
{
    const plumb_quantized *q = operand->matrix;

    if (operand->transposed)
        j->lanes->copy(q->format, plumb_operand_element(operand, p->outer, k), q->ld,
                       k_count, p->count, x, PLUMB_LANES);
    for (size_t i = 0; !operand->transposed && i < p->count; i += TURN)
        j->lanes->turn(q->format, plumb_operand_element(operand, p->outer + i, k), q->ld,
                       smaller(TURN, p->count - i), k_count, x + i, PLUMB_LANES);
}

/* A block of K that begins with fused addition `step`: whole groups, padded with zeros. */
static void load_block(const job *j, const plumb_operand *operand, size_t k, size_t k_count,
                       size_t step, panel *p)
{
    const size_t terms = j->chain.terms, group = j->chain.group;
    const size_t most = BATCH / group * group, rows = plumb_round_up(p->count, 16);
    const int own = plumb_format_get(operand->matrix->format)->emin;
    const int emin = j->chain.as_fp16 ? -14 : own; /* of E4M3 and E5M2 alike */

    for (size_t i = 0; i < k_count; i += most) {
        const size_t count = smaller(most, k_count - i);
        const size_t padded = plumb_round_up(count, group);

        memset(j->w->of.values + count * PLUMB_LANES, 0,
               (padded - count) * PLUMB_LANES * sizeof *j->w->of.values);
        unpack(j, operand, p, k + i, count, j->w->of.values);
        for (size_t t = 0; t < padded; t += terms, step++) {
            const size_t at = step * terms * PLUMB_LANES;

            p->special[step] = j->lanes->prepare(
                terms, rows, emin, j->w->of.values, j->w->order + t, p->as.wide.x + at,
                p->as.wide.e + at, p->as.wide.top + step * PLUMB_LANES);
        }
    }
}

/* Scales inside the unit: to the exponents of the fused addition at k. */
static void add_scales(const plumb_operand *operand, size_t k, size_t step, panel *p)
{
    for (size_t i = 0; i < p->count; i++) {
        const float d = plumb_operand_scale(operand, p->outer + i, k);

        if (d != d)
            p->special[step] |= UINT64_C(1) << i;
        else
            p->as.wide.top[step * PLUMB_LANES + i] += plumb_exponent_of(d);
    }
}

/* The codes of a block of K, from slot `slot` on. */
static void load_codes(const job *j, const plumb_operand *operand, const panel *p, size_t k,
                       size_t k_count, size_t slot)
{
    for (size_t i = 0; !operand->transposed && i < p->count; i++)
        memcpy(j->w->of.codes[i] + slot, plumb_operand_element(operand, p->outer + i, k),
               k_count);
    for (size_t t = 0; operand->transposed && t < k_count; t++) {
        const uint8_t *from = plumb_operand_element(operand, p->outer, k + t);

        for (size_t i = 0; i < p->count; i++)
            j->w->of.codes[i][slot + t] = from[i];
    }
}

/* A panel of either side for lanes of 16 bits; codes beyond K are zeros. */
static void load_narrow(const job *j, bool is_a, size_t k, panel *p)
{
    const plumb_operand *operand = is_a ? j->of->a : j->of->b;
    const size_t k_count = smaller(j->panel_k, j->depth - k);

    memset(j->w->of.codes, 0, sizeof j->w->of.codes);
    memset(p->special, 0, sizeof p->special);
    for (size_t i = 0, slot = 0; i < k_count; i += j->block_k, slot += j->block_slots)
        load_codes(j, operand, p, k + i, smaller(j->block_k, k_count - i), slot);
    for (size_t i = 0; i < plumb_round_up(p->count, 16); i++) {
        const uint8_t *codes = j->w->of.codes[i];

        if (is_a)
            j->lanes->narrow_row(&j->of_a, j->chain.terms, codes, i, &p->as.rows,
                                 p->special);
        else
            j->lanes->narrow_column(&j->of_b, j->chain.terms, codes, i, &p->as.columns,
                                    p->special);
    }
}

static void load_panel(const job *j, const plumb_operand *operand, size_t k, panel *p)
{
    const size_t k_count = smaller(j->panel_k, j->depth - k), terms = j->chain.terms;

    for (size_t i = 0, slot = 0; i < k_count; i += j->block_k, slot += j->block_slots)
        load_block(j, operand, k + i, smaller(j->block_k, k_count - i), slot / terms, p);
    for (size_t i = 0; j->of->scaling.inside && i < k_count; i += terms)
        add_scales(operand, k + i, i / terms, p);
}

static void load(const job *j, bool is_a, size_t k, panel *p)
{
    if (j->narrow)
        load_narrow(j, is_a, k, p);
    else
        load_panel(j, is_a ? j->of->a : j->of->b, k, p);
}

/* --- what lanes leave ------------------------------------------------------ */

typedef struct terms {
    int16_t m[PLUMB_UNIT_MAX_TERMS], e[PLUMB_UNIT_MAX_TERMS];
} terms;

static plumb_terms read_terms(const job *j, const plumb_operand *operand, size_t outer,
                              const place *at, terms *t)
{
    const plumb_format_info *format = plumb_format_get(operand->matrix->format);

    for (size_t i = 0; i < j->chain.group; i++) {
        const size_t slot = plumb_chain_slot(&j->chain, i), k = at->k + i;
        plumb_parts parts = {0, PLUMB_E_ZERO};

        if (slot < at->slot || slot >= at->slot + j->chain.terms)
            continue;
        if (k < at->k_end)
            parts = plumb_chain_operand(
                &j->chain, format,
                plumb_load_code(format, plumb_operand_element(operand, outer, k), 0));
        if (k < at->k_end && j->of->scaling.inside)
            parts = plumb_with_scale(parts, plumb_operand_scale(operand, outer, k));
        t->m[slot - at->slot] = (int16_t)parts.m;
        t->e[slot - at->slot] = (int16_t)parts.e;
    }
    return (plumb_terms){t->m, t->e, true};
}

static void define(const job *j, const panel *a, size_t row, const place *at, uint64_t left,
                   float *c)
{
    terms ta, tb;

    if (left == 0)
        return;
    const plumb_terms of_a = read_terms(j, j->of->a, a->outer + row, at, &ta);

    for (; left != 0; left &= left - 1) {
        const size_t i = (size_t)__builtin_ctzll(left);
        const plumb_terms of_b = read_terms(j, j->of->b, j->w->b.outer + i, at, &tb);

        c[i] = plumb_chain_step(&j->chain, of_a, of_b, c[i]);
    }
}

/* --- sums ------------------------------------------------------------------ */

static plumb_lane_terms terms_of(const job *j, const panel *p, size_t step)
{
    const size_t at = step * j->chain.terms * PLUMB_LANES;

    return (plumb_lane_terms){p->as.wide.x + at, p->as.wide.e + at,
                              p->as.wide.top + step * PLUMB_LANES};
}

/* One fused addition for all results of the tile. */
static void add_step(const job *j, size_t rows, const place *at, float (*c)[PLUMB_LANES])
{
    const panel *b = &j->w->b;
    const plumb_lane_terms of_b = terms_of(j, b, at->step);
    const size_t width = plumb_round_up(b->count, 16);
    const uint64_t all = ~UINT64_C(0) >> (64 - b->count);

    for (size_t i = 0; i < rows; i++) {
        const panel *a = &j->w->a[i / PLUMB_LANES];
        const size_t row = i % PLUMB_LANES;
        const bool special = (a->special[at->step] >> row & 1) != 0;
        const uint64_t left =
            j->lanes->add(&j->unit, terms_of(j, a, at->step), row, of_b, width,
                          special ? all : b->special[at->step], c[i]);

        define(j, a, row, at, left & all, c[i]);
    }
}

/* The same in lanes of 16 bits, two rows at a time. */
static void add_narrow(const job *j, size_t rows, const place *at)
{
    const panel *b = &j->w->b;
    const size_t width = plumb_round_up(b->count, 16);
    const uint64_t all = ~UINT64_C(0) >> (64 - b->count);

    for (size_t i = 0; i < rows; i += 2) {
        const panel *a = &j->w->a[i / PLUMB_LANES];
        const size_t row = i % PLUMB_LANES;
        const uint64_t special = a->special[at->step] >> row;
        const uint64_t leave[2] = {special & 1 ? all : b->special[at->step],
                                   special & 2 ? all : b->special[at->step]};
        uint64_t left[2];

        j->lanes->narrow_add(&j->unit, &a->as.rows, row, &b->as.columns, at->step, width,
                             leave, &j->w->c[i], left);
        for (size_t r = 0; r < 2 && i + r < rows; r++)
            define(j, a, row + r, at, left[r] & all, j->w->c[i + r]);
    }
}

/* c += sum in the format of the results; any NaN in fp32, since one is stored for all. */
static void add_sums(const job *j, size_t rows)
{
    float *c = j->w->c[0];
    const float *sum = j->w->sum[0];
    const size_t n = rows * PLUMB_LANES;

    if (j->unit.half) {
        for (size_t i = 0; i < n; i++)
            c[i] = plumb_chain_add(&j->chain, c[i], sum[i]);
    } else {
        for (size_t i = 0; i < n; i++)
            c[i] += sum[i];
    }
}

/* The products of one group, `step` being its first fused addition. */
static void add_group(const job *j, size_t rows, size_t step, size_t k, size_t k_end)
{
    place at = {step, k, k_end, 0};
    float(*c)[PLUMB_LANES] = j->chain.fused ? j->w->c : j->w->sum;

    if (j->narrow) {
        add_narrow(j, rows, &at);
        return;
    }
    if (!j->chain.fused)
        memset(j->w->sum, 0, rows * sizeof j->w->sum[0]);
    for (; at.slot < j->chain.group; at.slot += j->chain.terms, at.step++)
        add_step(j, rows, &at, c);
    if (!j->chain.fused)
        add_sums(j, rows);
}

static void load_scales(const job *j, const plumb_operand *operand, size_t k, panel *p)
{
    const plumb_panel at = {p->outer, p->count, k, smaller(j->block_k, j->depth - k)};

    plumb_pack_scales(operand, &at, p->d);
}

static void join(const job *j, size_t rows, size_t k)
{
    const bool scaled = j->of->scaling.at_join;

    for (size_t p = 0; scaled && p * PLUMB_LANES < rows; p++)
        load_scales(j, j->of->a, k, &j->w->a[p]);
    if (scaled)
        load_scales(j, j->of->b, k, &j->w->b);
    for (size_t n = scaled ? j->w->b.count : 0; n < PLUMB_LANES; n++)
        j->w->b.d[n] = 1;
    for (size_t i = 0; i < rows; i++) {
        const float da = scaled ? j->w->a[i / PLUMB_LANES].d[i % PLUMB_LANES] : 1;

        j->lanes->join(da, j->w->b.d, j->w->c[i], j->w->main[i]);
    }
}

static void advance_panel(const job *j, size_t rows, size_t k)
{
    const size_t count = smaller(j->panel_k, j->depth - k);
    const size_t steps = j->block_slots / j->chain.terms;

    for (size_t i = 0, first = 0; i < count; i += j->block_k, first += steps) {
        const size_t length = smaller(j->block_k, count - i);

        if (j->ending.joined)
            memset(j->w->c, 0, rows * sizeof j->w->c[0]);
        for (size_t g = 0; g < length; g += j->chain.group)
            add_group(j, rows, first + g / j->chain.terms, k + i + g, k + i + length);
        if (j->ending.joined)
            join(j, rows, k + i);
    }
}

/* c[0 .. cols - 1] = sums, every NaN being that of the unit. */
static void store_plain(const job *j, const float *sums, size_t cols, float *c)
{
    const float nan = float_of(j->ending.nan);

    for (size_t n = 0; n < cols; n++)
        c[n] = sums[n] != sums[n] ? nan : sums[n];
}

static void store(const job *j, size_t rows, size_t cols, float *c)
{
    const plumb_product *of = j->of;
    workspace *w = j->w;
    float(*sums)[PLUMB_LANES] = j->ending.joined ? w->main : w->c;
    const bool plain = plumb_ending_is_plain(&j->ending, of);

    load_scales(j, of->b, 0, &w->b);
    for (size_t i = 0; i < rows; i++, c += of->ldc) {
        panel *a = &w->a[i / PLUMB_LANES];

        if (i % PLUMB_LANES == 0)
            load_scales(j, of->a, 0, a);
        if (plain)
            store_plain(j, sums[i], cols, c);
        for (size_t n = 0; !plain && n < cols; n++)
            c[n] = plumb_ending_last(&j->ending, of, sums[i][n], a->d[i % PLUMB_LANES],
                                     w->b.d[n], c[n]);
    }
}

static void multiply_tile(const job *j, const plumb_tile *tile)
{
    const plumb_product *of = j->of;
    const size_t rows = tile->row_end - tile->row, cols = tile->col_end - tile->col;
    workspace *w = j->w;
    float *c = of->c + tile->row * of->ldc + tile->col;

    memset(w->of.values, 0, sizeof w->of.values);
    memset(w->c, 0, rows * sizeof w->c[0]);
    memset(w->main, 0, rows * sizeof w->main[0]);
    w->b.outer = tile->col;
    w->b.count = cols;
    for (size_t i = 0; j->ending.entered && i < rows; i++) {
        for (size_t n = 0; n < cols; n++)
            w->c[i][n] = plumb_ending_first(&j->ending, c[i * of->ldc + n]);
    }
    for (size_t k = 0; k < j->depth; k += j->panel_k) {
        load(j, false, k, &w->b);
        for (size_t i = 0; i < rows; i += PLUMB_LANES) {
            panel *a = &w->a[i / PLUMB_LANES];

            a->outer = tile->row + i;
            a->count = smaller(PLUMB_LANES, rows - i);
            load(j, true, k, a);
        }
        advance_panel(j, rows, k);
    }
    store(j, rows, cols, c);
}

bool plumb_lanes_product(const plumb_product *of, const plumb_lanes *lanes)
{
    const plumb_unit *unit = plumb_unit_get(of->how->kind);
    const plumb_tile *all = &of->tile;

    if (lanes->add == NULL || unit == NULL)
        return false;
    const plumb_chain chain = plumb_chain_make(unit, of->how->output, of->a->matrix->format,
                                               of->b->matrix->format);
    if (!is_covered(of, &chain))
        return false;
    job j = make_job(of, lanes, &chain);
    if (j.narrow) {
        j.of_a = plumb_narrow_table_of(plumb_format_get(of->a->matrix->format), 8);
        j.of_b = plumb_narrow_table_of(plumb_format_get(of->b->matrix->format), 7);
    }
    for (size_t i = 0; i < BATCH / chain.group * chain.group; i++)
        j.w->order[plumb_chain_slot(&chain, i)] = (uint8_t)i;
    const unsigned before = plumb_mode_enter(false);
    for (size_t col = all->col; col < all->col_end; col += PLUMB_LANES) {
        for (size_t row = all->row; row < all->row_end; row += ROWS) {
            const plumb_tile tile = {row, smaller(row + ROWS, all->row_end), col,
                                     smaller(col + PLUMB_LANES, all->col_end)};

            multiply_tile(&j, &tile);
        }
    }
    plumb_mode_leave(before);
    return true;
}
