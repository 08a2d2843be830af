/* Packing: where a panel lies in the stored matrix, which way it must be turned, and which
 * scale belongs to which of its rows.  The decoding itself is the micro-kernel's.
 */
#include "matmul/pack.h"
#include "base/size.h"
#include "quant/grain.h"

#include <string.h>

enum { TURN = 16 /* rows that are turned at once */ };
enum { AT_ONCE = 64 /* outer indices whose scales stay in the first cache */ };

size_t plumb_operand_outer(const plumb_operand *operand)
{
    return operand->transposed ? operand->matrix->cols : operand->matrix->rows;
}

size_t plumb_operand_depth(const plumb_operand *operand)
{
    return operand->transposed ? operand->matrix->rows : operand->matrix->cols;
}

size_t plumb_operand_block(const plumb_operand *operand)
{
    return operand->matrix->d != NULL ? plumb_grain_length(operand->matrix->grain) : 0;
}

const plumb_micro *plumb_micro_for(const plumb_micro *micro, const plumb_operand *operand)
{
    while (plumb_format_get(operand->matrix->format)->fraction_bits > micro->fraction_bits)
        micro--;
    return micro;
}

static const void *code_at(const plumb_quantized *q, size_t row, size_t col)
{
    const size_t bytes = (size_t)plumb_format_get(q->format)->bytes;

    return (const unsigned char *)q->codes + (row * q->ld + col) * bytes;
}

const void *plumb_operand_element(const plumb_operand *operand, size_t outer, size_t k)
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
        micro->copy(q->format, plumb_operand_element(operand, panel->outer, panel->k),
                    q->ld, panel->outer_count, panel->k_count, rows, PLUMB_MICRO_LD);
    for (size_t k = 0; operand->transposed && k < panel->k_count; k += TURN) {
        const size_t left = panel->k_count - k;

        micro->turn(q->format, plumb_operand_element(operand, panel->outer, panel->k + k),
                    q->ld, left < TURN ? left : TURN, panel->outer_count, rows + k,
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
        micro->copy(q->format, plumb_operand_element(operand, outer, panel->k), q->ld,
                    panel->k_count, count, sliver, micro->nr);
    for (size_t j = 0; !operand->transposed && j < count; j += TURN) {
        const size_t left = count - j;

        micro->turn(q->format, plumb_operand_element(operand, outer + j, panel->k), q->ld,
                    left < TURN ? left : TURN, panel->k_count, sliver + j, micro->nr);
    }
    memset(sliver + panel->k_count * micro->nr, 0, padding * micro->nr * sizeof *sliver);
}

void plumb_pack_slivers(const plumb_micro *micro, const plumb_operand *operand,
                        const plumb_panel *panel, float *slivers)
{
    const size_t sliver = plumb_round_up(panel->k_count, PLUMB_MICRO_CHAIN) * micro->nr;

    for (size_t j = 0; j < panel->outer_count; j += micro->nr) {
        pack_sliver(micro, operand, panel->outer + j,
                    smaller(micro->nr, panel->outer_count - j), panel,
                    slivers + j / micro->nr * sliver);
    }
}

/* Where the scales of an operand lie: d[outer / block * step + k / length * k_step]. */
typedef struct scale_layout {
    size_t block, step, length, k_step;
} scale_layout;

static scale_layout layout_of(const plumb_operand *operand)
{
    const plumb_blocks b = plumb_blocks_in(operand->matrix);

    if (operand->transposed)
        return (scale_layout){b.width, 1, b.height, b.across};
    return (scale_layout){b.height, b.across, b.width, 1};
}

float plumb_operand_scale(const plumb_operand *operand, size_t outer, size_t k)
{
    const scale_layout l = layout_of(operand);

    if (operand->matrix->d == NULL)
        return 1;
    return operand->matrix->d[outer / l.block * l.step + k / l.length * l.k_step];
}

static bool has_tensor_scale(const plumb_operand *operand)
{
    return operand->matrix->d != NULL && operand->matrix->grain == PLUMB_GRAIN_NVFP4;
}

float plumb_operand_tensor_scale(const plumb_operand *operand)
{
    return has_tensor_scale(operand) ? operand->matrix->d_tensor : 1;
}

/* d of some outer indices at k. */
static void copy_scales(const scale_layout *l, const float *scales, size_t outer,
                        size_t count, size_t k, float *d)
{
    scales += k / l->length * l->k_step;
    for (size_t i = 0; i < count && l->block == 1; i++)
        d[i] = scales[(outer + i) * l->step];
    for (size_t i = 0; i < count && l->block > 1; i++)
        d[i] = scales[(outer + i) / l->block * l->step];
}

static void fill(float *d, size_t count, float x)
{
    for (size_t i = 0; i < count; i++)
        d[i] = x;
}

void plumb_pack_scales(const plumb_operand *operand, const plumb_panel *panel, float *d)
{
    const scale_layout l = layout_of(operand);

    if (operand->matrix->d == NULL)
        fill(d, panel->outer_count, 1);
    else
        copy_scales(&l, operand->matrix->d, panel->outer, panel->outer_count, panel->k, d);
}

void plumb_pack_block_scales(const plumb_operand *operand, const plumb_panel *panel,
                             size_t block, plumb_scales *scales)
{
    const scale_layout l = layout_of(operand);
    const float *d = operand->matrix->d;

    scales->count = panel->outer_count;
    scales->blocks = (panel->k_count + block - 1) / block;
    for (size_t i = 0; i < scales->count; i += AT_ONCE) {
        const size_t count = smaller(AT_ONCE, scales->count - i);

        for (size_t n = 0; n < scales->blocks; n++) {
            float *to = scales->d + n * scales->stride + i;

            if (d == NULL)
                fill(to, count, 1);
            else
                copy_scales(&l, d, panel->outer + i, count, panel->k + n * block, to);
        }
    }
}

static bool is_mx_or_plain(const plumb_operand *operand)
{
    return operand->matrix->d == NULL || operand->matrix->grain == PLUMB_GRAIN_MX32;
}

static bool is_nvfp4(const plumb_operand *operand)
{
    return has_tensor_scale(operand) && operand->matrix->format == PLUMB_E2M1;
}

plumb_scaling plumb_scaling_of(const plumb_accumulator *how, const plumb_operand *a,
                               const plumb_operand *b)
{
    const plumb_unit *unit = plumb_unit_get(how->kind);
    const size_t of_a = plumb_operand_block(a), of_b = plumb_operand_block(b);
    size_t block = of_a == 0 || (of_b > 0 && of_b < of_a) ? of_b : of_a;
    const bool scaled = a->matrix->d != NULL || b->matrix->d != NULL;
    plumb_scaling s = {.block = block,
                       .at_join = block > 0,
                       .at_end = scaled && block == 0,
                       .tensor = has_tensor_scale(a) || has_tensor_scale(b)};

    if (unit != NULL && unit->block_scales && block > 0 && is_mx_or_plain(a) &&
        is_mx_or_plain(b))
        s = (plumb_scaling){.inside = true};
    if (unit != NULL && unit->nvfp4_bits > 0 && is_nvfp4(a) && is_nvfp4(b))
        s = (plumb_scaling){.tensor = true, .inside = true, .chunks = true};
    if (how->promote128 && s.block == 0)
        s.block = PLUMB_BLOCK;
    return s;
}
