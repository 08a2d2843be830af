/* Packing: where a panel lies in the stored matrix, which way it must be turned, and which
 * scale belongs to which of its rows.  The decoding itself is the micro-kernel's.
 */
#include "matmul/pack.h"

#include <string.h>

enum { TURN = 16 /* rows that are turned at once */ };

size_t plumb_operand_outer(const plumb_operand *operand)
{
    return operand->transposed ? operand->matrix->cols : operand->matrix->rows;
}

size_t plumb_operand_depth(const plumb_operand *operand)
{
    return operand->transposed ? operand->matrix->rows : operand->matrix->cols;
}

bool plumb_operand_blocked(const plumb_operand *operand)
{
    return operand->matrix->d != NULL && operand->matrix->grain != PLUMB_GRAIN_TENSOR;
}

static const void *code_at(const plumb_quantized *q, size_t row, size_t col)
{
    const size_t bytes = (size_t)plumb_format_get(q->format)->bits / 8;

    return (const unsigned char *)q->codes + (row * q->ld + col) * bytes;
}

/* Codes of the element (outer, k) of an operand. */
static const void *element(const plumb_operand *operand, size_t outer, size_t k)
{
    return operand->transposed ? code_at(operand->matrix, k, outer)
                               : code_at(operand->matrix, outer, k);
}

void plumb_pack_rows(const plumb_micro *micro, const plumb_operand *operand,
                     const plumb_panel *panel, float *rows)
{
    const plumb_quantized *q = operand->matrix;
    const size_t padding =
        plumb_round_up(panel->k_count, PLUMB_MICRO_CHAIN) - panel->k_count;

    if (!operand->transposed)
        micro->copy(q->format, element(operand, panel->outer, panel->k), q->ld,
                    panel->outer_count, panel->k_count, rows, PLUMB_MICRO_LD);
    for (size_t k = 0; operand->transposed && k < panel->k_count; k += TURN) {
        const size_t left = panel->k_count - k;

        micro->turn(q->format, element(operand, panel->outer, panel->k + k), q->ld,
                    left < TURN ? left : TURN, panel->outer_count, rows + k,
                    PLUMB_MICRO_LD);
    }
    for (size_t i = 0; padding > 0 && i < panel->outer_count; i++)
        memset(rows + i * PLUMB_MICRO_LD + panel->k_count, 0, padding * sizeof *rows);
}

static void pack_sliver(const plumb_micro *micro, const plumb_operand *operand,
                        size_t outer, size_t count, const plumb_panel *panel, float *sliver)
{
    const plumb_quantized *q = operand->matrix;
    const size_t padding =
        plumb_round_up(panel->k_count, PLUMB_MICRO_CHAIN) - panel->k_count;

    if (operand->transposed)
        micro->copy(q->format, element(operand, outer, panel->k), q->ld, panel->k_count,
                    count, sliver, micro->nr);
    for (size_t j = 0; !operand->transposed && j < count; j += TURN) {
        const size_t left = count - j;

        micro->turn(q->format, element(operand, outer + j, panel->k), q->ld,
                    left < TURN ? left : TURN, panel->k_count, sliver + j, micro->nr);
    }
    memset(sliver + panel->k_count * micro->nr, 0, padding * micro->nr * sizeof *sliver);
}

void plumb_pack_slivers(const plumb_micro *micro, const plumb_operand *operand,
                        const plumb_panel *panel, float *slivers)
{
    const size_t sliver = plumb_round_up(panel->k_count, PLUMB_MICRO_CHAIN) * micro->nr;

    for (size_t j = 0; j < panel->outer_count; j += micro->nr) {
        const size_t left = panel->outer_count - j;

        pack_sliver(micro, operand, panel->outer + j, left < micro->nr ? left : micro->nr,
                    panel, slivers + j / micro->nr * sliver);
    }
}

/* Decode scale of the stored element (row, col). */
static float scale_at(const plumb_quantized *q, size_t row, size_t col)
{
    const size_t across = (q->cols + PLUMB_BLOCK - 1) / PLUMB_BLOCK;

    if (q->d == NULL)
        return 1;
    if (q->grain == PLUMB_GRAIN_TENSOR)
        return q->d[0];
    if (q->grain == PLUMB_GRAIN_128X128)
        return q->d[row / PLUMB_BLOCK * across + col / PLUMB_BLOCK];
    if (q->along_rows)
        return q->d[row / PLUMB_BLOCK * q->cols + col];
    return q->d[row * across + col / PLUMB_BLOCK];
}

void plumb_pack_scales(const plumb_operand *operand, const plumb_panel *panel, float *d)
{
    for (size_t i = 0; i < panel->outer_count; i++) {
        const size_t outer = panel->outer + i;

        d[i] = operand->transposed ? scale_at(operand->matrix, panel->k, outer)
                                   : scale_at(operand->matrix, outer, panel->k);
    }
}
