/* Exact products: fp64 sums of slices where they are exact, one product after another where
 * exponents lie too far apart, and one rounding at the end.
 */
#include "matmul/sliced.h"
#include "matmul/exact.h"
#include "matmul/finish.h"
#include "matmul/lanes.h"
#include "matmul/mode.h"

enum {
    TILE = PLUMB_SLICED_TILE,
    DEPTH = PLUMB_SLICED_DEPTH,
    SUMS = 2 * PLUMB_SLICES - 1, /* of pairs of slices, by the sum of their numbers */
    TURN = 16                    /* rows that are turned at once */
};

/* A piece of K of one operand. */
typedef struct side {
    const plumb_operand *operand;
    size_t outer, count;
    float values[DEPTH * TILE];
    plumb_sliced sliced;
    bool apart[TILE]; /* an infinity, NaN or exponents that the slices do not hold */
    size_t slices;    /* in use */
    float d[TILE];
} side;

typedef struct workspace {
    side a, b;
    double sums[SUMS][TILE * TILE];
    size_t pairs;            /* of sums in use */
    float main[TILE * TILE]; /* what blocks are joined into */
    plumb_exact exact[TILE * TILE];
} workspace;

typedef struct job {
    const plumb_product *of;
    const plumb_lanes *lanes;
    plumb_ending ending;
    size_t depth, piece; /* K, and K of a piece */
    int width;           /* of a slice; 0: too narrow for any use */
    workspace *w;
} job;

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Exponents in a slice: a product has 2 * width + the fraction bits of both operands, DEPTH of
 * them 8 more, and three pairs of slices 2 more.
 */
static int slice_width(const plumb_product *of)
{
    const int bits = plumb_format_get(of->a->matrix->format)->fraction_bits +
                     plumb_format_get(of->b->matrix->format)->fraction_bits;
    const int width = (53 - 8 - 2 - bits) / 2;

    return width >= 4 ? width : 0;
}

size_t plumb_sliced_workspace(void)
{
    return plumb_round_up(sizeof(workspace), 64);
}

/* --- pieces of K ----------------------------------------------------------- */

static bool finite(float x)
{
    return x - x == 0;
}

static void load(const job *j, side *s, size_t k, size_t k_count)
{
    const plumb_quantized *q = s->operand->matrix;
    const plumb_panel at = {s->outer, s->count, k, k_count};

    if (s->operand->transposed)
        j->lanes->copy(q->format, plumb_operand_element(s->operand, s->outer, k), q->ld,
                       k_count, s->count, s->values, TILE);
    for (size_t i = 0; !s->operand->transposed && i < s->count; i += TURN)
        j->lanes->turn(q->format, plumb_operand_element(s->operand, s->outer + i, k), q->ld,
                       smaller(TURN, s->count - i), k_count, s->values + i, TILE);
    plumb_pack_scales(s->operand, &at, s->d);
}

/* Cuts the piece, in as many slices as it needs; marks the rows that they do not hold. */
static void cut(const job *j, side *s, size_t k_count)
{
    int spread = 0;

    j->lanes->cut(k_count, s->values, j->width, 0, &s->sliced);
    s->slices = 0;
    for (size_t i = 0; i < s->count; i++) {
        const int below = s->sliced.top[i] - s->sliced.least[i];
        const bool zero = s->sliced.least[i] == PLUMB_SLICED_NONE;

        s->apart[i] = !finite(s->d[i]) || s->sliced.top[i] > 127 ||
                      (!zero && below >= PLUMB_SLICES * j->width);
        if (!zero && !s->apart[i]) {
            spread = below > spread ? below : spread;
            s->slices = 1;
        }
    }
    if (s->slices > 0)
        s->slices += (size_t)(spread / j->width);
    j->lanes->cut(k_count, s->values, j->width, s->slices, &s->sliced);
}

/* --- sums ------------------------------------------------------------------ */

/* 0, 1 or infinity with the sign of x, or NaN: enough to see what decides a sum. */
static float class_of(float x)
{
    return x == 0 || !finite(x) ? x : copysignf(1, x);
}

/* Scales of a result in a piece that are part of its exact sum. */
typedef struct scales {
    float d[4];
    bool plain; /* all are 1 */
} scales;

static scales scales_of(const job *j, size_t i, size_t k)
{
    scales s = {{1, 1, 1, 1}, true};

    if (!j->ending.joined)
        s = (scales){{j->w->a.d[i], j->w->b.d[k], j->ending.a_tensor, j->ending.b_tensor},
                     true};
    s.plain = s.d[0] == 1 && s.d[1] == 1 && s.d[2] == 1 && s.d[3] == 1;
    return s;
}

/* sum += x * 2^e and scales, all finite; x is not 0. */
static void add_scaled(plumb_exact *sum, double x, int e, const scales *s)
{
    uint64_t m;

    if (s->plain) {
        plumb_exact_add_double(sum, x, e);
        return;
    }
    e += plumb_double_parts(x, &m);
    plumb_whole whole = plumb_whole_from(x < 0, 0, m, e);
    for (int n = 0; n < 4; n++)
        plumb_whole_scale(&whole, s->d[n]);
    plumb_exact_add(sum, &whole);
}

/* One product after another: any values. */
static void add_products(const job *j, size_t i, size_t k, size_t k_count, plumb_exact *sum)
{
    const float *a = j->w->a.values + i, *b = j->w->b.values + k;
    const scales s = scales_of(j, i, k);
    const float scale =
        class_of(s.d[0]) * class_of(s.d[1]) * class_of(s.d[2]) * class_of(s.d[3]);

    for (size_t t = 0; t < k_count * TILE; t += TILE) {
        const float x = class_of(a[t]) * class_of(b[t]) * scale;

        if (!finite(x))
            plumb_exact_add_float(sum, x);
        else if (x != 0)
            add_scaled(sum, (double)a[t] * (double)b[t], 0, &s);
    }
}

static void add_slices(const job *j, size_t i, size_t k, plumb_exact *sum)
{
    const workspace *w = j->w;
    const scales s = scales_of(j, i, k);
    int e = w->a.sliced.top[i] + w->b.sliced.top[k];

    for (size_t n = 0; n < w->pairs; n++, e -= j->width) {
        const double x = w->sums[n][i * TILE + k];

        if (x != 0)
            add_scaled(sum, x, e, &s);
    }
}

static void add_piece(const job *j, size_t i, size_t k, size_t k_count, plumb_exact *sum)
{
    const workspace *w = j->w;
    const bool odd = !finite(j->ending.a_tensor) || !finite(j->ending.b_tensor);

    if (j->width == 0 || odd || w->a.apart[i] || w->b.apart[k])
        add_products(j, i, k, k_count, sum);
    else
        add_slices(j, i, k, sum);
}

static void multiply_slices(const job *j, size_t k_count)
{
    workspace *w = j->w;

    cut(j, &w->a, k_count);
    cut(j, &w->b, k_count);
    w->pairs = w->a.slices > 0 && w->b.slices > 0 ? w->a.slices + w->b.slices - 1 : 0;
    memset(w->sums, 0, w->pairs * sizeof w->sums[0]);
    for (size_t p = 0; p < w->a.slices; p++) {
        for (size_t q = 0; q < w->b.slices; q++)
            j->lanes->sum(k_count, w->a.sliced.x[p], w->b.sliced.x[q], w->sums[p + q]);
    }
}

static void advance(const job *j, size_t k)
{
    workspace *w = j->w;
    const size_t k_count = smaller(j->piece, j->depth - k);

    load(j, &w->a, k, k_count);
    load(j, &w->b, k, k_count);
    if (j->width > 0)
        multiply_slices(j, k_count);
    for (size_t i = 0; i < w->a.count; i++) {
        for (size_t n = 0; n < w->b.count; n++) {
            const size_t at = i * TILE + n;

            if (!j->ending.joined) {
                add_piece(j, i, n, k_count, &w->exact[at]);
                continue;
            }
            plumb_exact part = {.added = 0};
            const float scale = j->of->scaling.at_join ? w->a.d[i] * w->b.d[n] : 1;

            add_piece(j, i, n, k_count, &part);
            w->main[at] =
                fmaf(plumb_exact_round(&part, &j->ending.result), scale, w->main[at]);
        }
    }
}

static float finish(const job *j, size_t i, size_t n, float old)
{
    workspace *w = j->w;
    const size_t at = i * TILE + n;

    if (!j->ending.joined)
        return plumb_exact_round(&w->exact[at], &j->ending.result);
    return plumb_ending_last(&j->ending, j->of, w->main[at], w->a.d[i], w->b.d[n], old);
}

static void multiply_tile(const job *j, const plumb_tile *tile)
{
    workspace *w = j->w;
    const size_t ldc = j->of->ldc;
    float *c = j->of->c + tile->row * ldc + tile->col;

    w->a.operand = j->of->a;
    w->a.outer = tile->row;
    w->a.count = tile->row_end - tile->row;
    w->b.operand = j->of->b;
    w->b.outer = tile->col;
    w->b.count = tile->col_end - tile->col;
    memset(w->main, 0, sizeof w->main);
    memset(w->exact, 0, sizeof w->exact);
    memset(w->a.values, 0, sizeof w->a.values);
    memset(w->b.values, 0, sizeof w->b.values);
    for (size_t i = 0; j->ending.entered && i < w->a.count; i++) {
        for (size_t n = 0; n < w->b.count; n++)
            plumb_exact_add_float(&w->exact[i * TILE + n], c[i * ldc + n]);
    }
    for (size_t k = 0; k < j->depth; k += j->piece)
        advance(j, k);
    for (size_t i = 0; i < w->a.count; i++) {
        for (size_t n = 0; n < w->b.count; n++)
            c[i * ldc + n] = finish(j, i, n, c[i * ldc + n]);
    }
}

void plumb_sliced_product(const plumb_product *of, const plumb_lanes *lanes)
{
    const job j = {.of = of,
                   .lanes = lanes,
                   .ending = plumb_ending_of(of),
                   .depth = plumb_operand_depth(of->a),
                   .piece = of->scaling.block > 0 ? of->scaling.block : DEPTH,
                   .width = slice_width(of),
                   .w = of->workspace};
    const plumb_tile *all = &of->tile;
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

/* --- reference ------------------------------------------------------------- */

static float value_at(plumb_format format, const void *codes, size_t i)
{
    const size_t bytes = (size_t)plumb_format_get(format)->bytes;

    if (bytes == 4)
        return plumb_format_value(format, ((const uint32_t *)codes)[i]);
    return plumb_format_value(format, bytes == 2 ? ((const uint16_t *)codes)[i]
                                                 : ((const uint8_t *)codes)[i]);
}

void plumb_sliced_copy_ref(plumb_format format, const void *codes, size_t ld, size_t rows,
                           size_t cols, float *x, size_t stride)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c++)
            x[r * stride + c] = value_at(format, codes, r * ld + c);
    }
}

void plumb_sliced_turn_ref(plumb_format format, const void *codes, size_t ld, size_t rows,
                           size_t cols, float *x, size_t stride)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c++)
            x[c * stride + r] = value_at(format, codes, r * ld + c);
    }
}

void plumb_sliced_cut_ref(size_t k, const float *values, int width, size_t count,
                          plumb_sliced *to)
{
    plumb_sliced_cut_any(k, values, width, count, to);
}

void plumb_sliced_add_ref(size_t k, const double *a, const double *b, double *sum)
{
    for (size_t i = 0; i < TILE; i++) {
        double *row = sum + i * TILE;

        for (size_t t = 0; t < k; t++) {
            for (size_t n = 0; n < TILE; n++)
                row[n] += a[t * TILE + i] * b[t * TILE + n];
        }
    }
}
