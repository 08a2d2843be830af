/* Exact products of narrow formats: one fp64 sum for all of K, rounded once.
 *
 * A product of two values is a whole multiple of the product of their least values.  Where that
 * of the largest, times K, stays within 53 bits, no fp64 sum in any order has an error: E4M3 by
 * E4M3 has 36 bits, which leaves K up to 2^17.
 */
#include "matmul/finish.h"
#include "matmul/lanes.h"
#include "matmul/mode.h"

#include <math.h>
#include <string.h>

/* A tile has 4 by 2 panels: each value of A is unpacked for every 64 columns, of B for 128 rows. */
enum {
    TILE = PLUMB_SLICED_TILE,
    DEPTH = PLUMB_SLICED_DEPTH,
    ROWS =
        4, /* panels of each side in a tile: A is packed again for each column of tiles */
    COLUMNS = 2,
    TURN = 16 /* rows that are turned at once */
};

typedef struct panel {
    double x[DEPTH * TILE];
    size_t outer, count;
} panel;

typedef struct workspace {
    panel a[ROWS], b[COLUMNS];
    double sums[ROWS][COLUMNS][TILE * TILE];
    float values[DEPTH * TILE];
} workspace;

typedef struct job {
    const plumb_product *of;
    const plumb_lanes *lanes;
    plumb_ending ending;
    int least; /* exponent of the product of the two least values */
    workspace *w;
} job;

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t plumb_direct_workspace(void)
{
    return plumb_round_up(sizeof(workspace), 64);
}

static int exponent_of_least(plumb_format format)
{
    const plumb_format_info *f = plumb_format_get(format);

    return f->emin - f->fraction_bits;
}

/* Bits of the largest value as a multiple of the least. */
static int width_of(plumb_format format)
{
    return plumb_format_get(format)->emax + 1 - exponent_of_least(format);
}

/* No scales, no old C, and sums of at most 53 bits. */
static bool is_covered(const plumb_product *of)
{
    int bits = width_of(of->a->matrix->format) + width_of(of->b->matrix->format);

    for (size_t k = plumb_operand_depth(of->a) - 1; k > 0; k /= 2)
        bits++;
    return of->a->matrix->d == NULL && of->b->matrix->d == NULL && !of->accumulate &&
           of->scaling.block == 0 && bits <= 53;
}

/* Panels from `outer` on; returns how many. */
static size_t place(size_t outer, size_t end, panel *p)
{
    size_t n = 0;

    for (; outer < end; outer += TILE, n++) {
        p[n].outer = outer;
        p[n].count = smaller(TILE, end - outer);
    }
    return n;
}

static void load(const job *j, const plumb_operand *operand, size_t k, size_t k_count,
                 panel *p)
{
    const plumb_quantized *q = operand->matrix;
    float *values = j->w->values;

    if (operand->transposed)
        j->lanes->copy(q->format, plumb_operand_element(operand, p->outer, k), q->ld,
                       k_count, p->count, values, TILE);
    for (size_t i = 0; !operand->transposed && i < p->count; i += TURN)
        j->lanes->turn(q->format, plumb_operand_element(operand, p->outer + i, k), q->ld,
                       smaller(TURN, p->count - i), k_count, values + i, TILE);
    for (size_t i = 0; i < k_count * TILE; i++)
        p->x[i] = (double)values[i];
}

/* A sum, which is a whole multiple of 2^least or not finite, as a result. */
static float result_of(const job *j, double sum)
{
    if (sum != sum)
        return float_of(j->ending.nan);
    if (j->ending.result.format == PLUMB_FP32 || sum - sum != 0)
        return (float)sum;
    const double whole = ldexp(sum < 0 ? -sum : sum, -j->least);

    return plumb_round(sum < 0, (uint64_t)whole, j->least, false, &j->ending.result);
}

static void store(const job *j, const panel *a, const panel *b, const double *sums)
{
    const plumb_product *of = j->of;

    for (size_t i = 0; i < a->count; i++) {
        float *c = of->c + (a->outer + i) * of->ldc + b->outer;

        for (size_t n = 0; n < b->count; n++)
            c[n] = result_of(j, sums[i * TILE + n]);
    }
}

static void multiply_tile(const job *j, const plumb_tile *tile)
{
    workspace *w = j->w;
    const size_t depth = plumb_operand_depth(j->of->a);
    const size_t rows = place(tile->row, tile->row_end, w->a);
    const size_t columns = place(tile->col, tile->col_end, w->b);

    memset(w->sums, 0, sizeof w->sums);
    memset(w->values, 0, sizeof w->values);
    for (size_t k = 0; k < depth; k += DEPTH) {
        const size_t k_count = smaller(DEPTH, depth - k);

        for (size_t n = 0; n < columns; n++)
            load(j, j->of->b, k, k_count, &w->b[n]);
        for (size_t i = 0; i < rows; i++) {
            load(j, j->of->a, k, k_count, &w->a[i]);
            for (size_t n = 0; n < columns; n++)
                j->lanes->sum(k_count, w->a[i].x, w->b[n].x, w->sums[i][n]);
        }
    }
    for (size_t i = 0; i < rows; i++) {
        for (size_t n = 0; n < columns; n++)
            store(j, &w->a[i], &w->b[n], w->sums[i][n]);
    }
}

bool plumb_direct_product(const plumb_product *of, const plumb_lanes *lanes)
{
    const job j = {.of = of,
                   .lanes = lanes,
                   .ending = plumb_ending_of(of),
                   .least = exponent_of_least(of->a->matrix->format) +
                            exponent_of_least(of->b->matrix->format),
                   .w = of->workspace};
    const plumb_tile *all = &of->tile;

    if (!is_covered(of))
        return false;
    const unsigned before = plumb_mode_enter(false);
    for (size_t row = all->row; row < all->row_end; row += ROWS * TILE) {
        for (size_t col = all->col; col < all->col_end; col += COLUMNS * TILE) {
            const plumb_tile tile = {row, smaller(row + ROWS * TILE, all->row_end), col,
                                     smaller(col + COLUMNS * TILE, all->col_end)};

            multiply_tile(&j, &tile);
        }
    }
    plumb_mode_leave(before);
    return true;
}
