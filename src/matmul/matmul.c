/* The face of a product: checks everything, then hands it to the canonical micro-kernels, to
 * exact sums or to a matrix unit.  C is untouched unless everything is right.
 */
#include "matmul/epilogue.h"
#include "matmul/lanes.h"
#include "matmul/packed.h"
#include "matmul/round.h"
#include "quant/grain.h"

#include <string.h>

static const plumb_accumulator canonical = {PLUMB_SUM_FP32, false, PLUMB_FP32};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t plumb_matmul_workspace_bytes(const plumb_accumulator *how, size_t m, size_t n,
                                    size_t k)
{
    if (how == NULL || how->kind == PLUMB_SUM_FP32)
        return plumb_canonical_workspace(m, n, k);
    if (how->kind == PLUMB_SUM_EXACT)
        return larger(plumb_sliced_workspace(), plumb_direct_workspace());
    return larger(plumb_emulated_workspace(), plumb_lanes_workspace());
}

/* rows * ld * bytes is a size. */
static bool fits(size_t rows, size_t ld, size_t bytes)
{
    size_t n;

    return plumb_mul_size(rows, ld, &n) && plumb_mul_size(n, bytes, &n);
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
    if (!fits(q->rows, q->ld, (size_t)plumb_format_get(q->format)->bytes))
        return plumb_fail(why, PLUMB_BAD_SHAPE, "operand %s: %zu rows of ld=%zu overflow",
                          name, q->rows, q->ld);
    if (q->d == NULL)
        return PLUMB_OK;
    if (!plumb_grain_exists(q->grain))
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "operand %s has the unknown grain %d",
                          name, (int)q->grain);
    if (plumb_grain_turns(q->grain) && q->along_rows != operand->transposed)
        return plumb_fail(why, PLUMB_BAD_SHAPE,
                          "operand %s: its scale blocks lie along the %s, the product "
                          "contracts the %s",
                          name, q->along_rows ? "rows" : "columns",
                          q->along_rows ? "columns" : "rows");
    return PLUMB_OK;
}

static plumb_status check_shapes(const plumb_operand *a, const plumb_operand *b,
                                 const float *c, size_t ldc, plumb_tile *tile,
                                 plumb_error *why)
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
    if (c != NULL && ldc < n)
        return plumb_fail(why, PLUMB_BAD_SHAPE, "ldc=%zu is below n=%zu", ldc, n);
    if (c != NULL && !fits(m, ldc, sizeof(float)))
        return plumb_fail(why, PLUMB_BAD_SHAPE, "C: %zu rows of ldc=%zu overflow", m, ldc);
    return PLUMB_OK;
}

static plumb_status check_formats(const plumb_accumulator *how, plumb_format a,
                                  plumb_format b, plumb_error *why)
{
    const plumb_unit *unit = plumb_unit_get(how->kind);

    if (unit != NULL)
        return plumb_unit_takes(unit, a, b, why);
    if (plumb_format_get(a)->is_signed && plumb_format_get(b)->is_signed)
        return PLUMB_OK;
    return plumb_fail(why, PLUMB_UNSUPPORTED,
                      "%s does not multiply %s by %s: e8m0 and ue4m3 are formats of scales",
                      plumb_sum_kind_name(how->kind), plumb_format_get(a)->name,
                      plumb_format_get(b)->name);
}

static plumb_status check_how(const plumb_accumulator *how, plumb_error *why)
{
    if (plumb_sum_kind_name(how->kind) == NULL)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "unknown accumulator %d",
                          (int)how->kind);
    if (how->output != PLUMB_FP32 && how->output != PLUMB_FP16)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "results are fp32 or fp16, not format %d", (int)how->output);
    return PLUMB_OK;
}

/* Powers of two of 2^-127, which is subnormal, to 2^127: values of E8M0. */
static bool is_e8m0(float d)
{
    const uint32_t bits = bits_of(d);

    return bits == 0x00400000u ||
           (bits >= 0x00800000u && bits < 0x7f800000u && (bits & 0x7fffffu) == 0);
}

/* Whole multiples of 2^-9 up to 448 with four bits. */
static bool is_ue4m3(float d)
{
    const bool within = d >= 0 && d <= 448 && !signbit(d);
    const float steps = within ? d * 512 : 0;
    const uint32_t whole = (uint32_t)steps;

    return within && (float)whole == steps &&
           (whole == 0 || whole >> __builtin_ctz(whole) < 16);
}

/* A unit whose scales are inside can hold nothing but their values and NaN. */
static plumb_status check_scales(const plumb_operand *operand, const char *name,
                                 plumb_error *why)
{
    const plumb_quantized *q = operand->matrix;
    const bool mx = q->grain == PLUMB_GRAIN_MX32;

    for (size_t i = 0; i < plumb_quantized_scale_count(q); i++) {
        if (q->d[i] == q->d[i] && !(mx ? is_e8m0(q->d[i]) : is_ue4m3(q->d[i])))
            return plumb_fail(why, PLUMB_BAD_ARGUMENT, "operand %s: scale %zu is %.9g, %s",
                              name, i, (double)q->d[i],
                              mx ? "an MX scale is a power of two from 2^-127 on"
                                 : "an NVFP4 scale is a value of ue4m3");
    }
    return PLUMB_OK;
}

static plumb_status check_packed(const plumb_product *p, plumb_error *why)
{
    const plumb_packed *packed = p->extras.packed;
    const size_t n = plumb_operand_outer(p->b), k = plumb_operand_depth(p->b);

    if (packed == NULL || (packed->n == n && packed->k == k))
        return PLUMB_OK;
    return plumb_fail(why, PLUMB_BAD_SHAPE, "B is [%zu, %zu], what is packed [%zu, %zu]", n,
                      k, packed->n, packed->k);
}

static plumb_status check(plumb_product *p, plumb_error *why)
{
    plumb_status status = check_how(p->how, why);

    if (status == PLUMB_OK)
        status = check_operand(p->a, "A", why);
    if (status == PLUMB_OK)
        status = check_operand(p->b, "B", why);
    if (status == PLUMB_OK)
        status = check_shapes(p->a, p->b, p->c, p->ldc, &p->tile, why);
    if (status == PLUMB_OK)
        status = check_formats(p->how, p->a->matrix->format, p->b->matrix->format, why);
    if (status == PLUMB_OK)
        status = check_packed(p, why);
    if (status == PLUMB_OK)
        status = plumb_epilogue_check(p, why);
    if (status != PLUMB_OK)
        return status;
    p->scaling = plumb_scaling_of(p->how, p->a, p->b);
    if (p->scaling.inside)
        status = check_scales(p->a, "A", why);
    if (p->scaling.inside && status == PLUMB_OK)
        status = check_scales(p->b, "B", why);
    return status;
}

plumb_status plumb_packed_need_with(const plumb_micro *micro, const plumb_operand *b,
                                    size_t *bytes, plumb_error *why)
{
    const plumb_status status = check_operand(b, "B", why);
    size_t cols, depth, count;

    if (status != PLUMB_OK)
        return status;
    micro = plumb_micro_for(micro, b);
    if (!plumb_add_size(plumb_operand_outer(b), micro->nr, &cols) ||
        !plumb_add_size(plumb_operand_depth(b), PLUMB_MICRO_CHAIN, &depth) ||
        !plumb_mul_size(cols, depth, &count) ||
        !plumb_mul_size(count, sizeof(float), &count))
        return plumb_fail(why, PLUMB_BAD_SHAPE, "B of [%zu, %zu] has no size when packed",
                          plumb_operand_outer(b), plumb_operand_depth(b));
    *bytes = plumb_packed_at(micro, plumb_operand_outer(b), 0,
                             plumb_round_up(plumb_operand_depth(b), PLUMB_MICRO_CHAIN), 0) *
             sizeof(float);
    return PLUMB_OK;
}

plumb_status plumb_packed_need(const plumb_operand *b, size_t *bytes, plumb_error *why)
{
    return plumb_packed_need_with(plumb_micro_best(), b, bytes, why);
}

plumb_status plumb_pack(const plumb_operand *b, void *memory, plumb_packed *packed,
                        plumb_error *why)
{
    size_t bytes;
    const plumb_status status = plumb_packed_need(b, &bytes, why);

    if (status == PLUMB_OK)
        plumb_pack_with(plumb_micro_best(), b, memory, packed);
    return status;
}

static void store_zeros(const plumb_tile *tile, float *c, size_t ldc)
{
    for (size_t i = tile->row; i < tile->row_end; i++)
        memset(c + i * ldc + tile->col, 0, (tile->col_end - tile->col) * sizeof *c);
}

static void add_exactly(const plumb_product *p, const plumb_lanes *lanes)
{
    if (!plumb_direct_product(p, lanes))
        plumb_sliced_product(p, lanes);
}

/* Everything that follows the checks. */
static void multiply(const plumb_product *p, const plumb_micro *micro,
                     const plumb_lanes *lanes)
{
    const size_t depth = plumb_operand_depth(p->a);
    const bool fp32 = p->how->kind == PLUMB_SUM_FP32;

    micro = plumb_micro_for(plumb_micro_for(micro, p->a), p->b);
    if (depth == 0 && !p->accumulate && p->c != NULL)
        store_zeros(&p->tile, p->c, p->ldc);
    else if (depth > 0 && fp32)
        plumb_canonical_product(p, micro);
    else if (depth > 0 && p->how->kind == PLUMB_SUM_EXACT)
        add_exactly(p, lanes);
    else if (depth > 0 && !plumb_lanes_product(p, lanes))
        plumb_emulated_product(p);
    if (p->extras.epilogue != NULL && (depth == 0 || !fp32))
        plumb_epilogue_tile(p);
}

plumb_status plumb_matmul_extended_with(const plumb_micro *micro, const plumb_lanes *lanes,
                                        const plumb_accumulator *how,
                                        const plumb_operand *a, const plumb_operand *b,
                                        float *c, size_t ldc, bool accumulate,
                                        plumb_tile tile, const plumb_extras *extras,
                                        void *workspace, plumb_error *why)
{
    plumb_product p = {.how = how != NULL ? how : &canonical,
                       .a = a,
                       .b = b,
                       .tile = tile,
                       .c = c,
                       .ldc = ldc,
                       .accumulate = accumulate,
                       .workspace = workspace};

    if (extras != NULL)
        p.extras = *extras;
    const plumb_status status = check(&p, why);

    if (status != PLUMB_OK || p.tile.row == p.tile.row_end || p.tile.col == p.tile.col_end)
        return status;
    multiply(&p, micro, lanes);
    return PLUMB_OK;
}

plumb_status plumb_matmul_with(const plumb_micro *micro, const plumb_lanes *lanes,
                               const plumb_accumulator *how, const plumb_operand *a,
                               const plumb_operand *b, float *c, size_t ldc,
                               bool accumulate, plumb_tile tile, void *workspace,
                               plumb_error *why)
{
    return plumb_matmul_extended_with(micro, lanes, how, a, b, c, ldc, accumulate, tile,
                                      NULL, workspace, why);
}
