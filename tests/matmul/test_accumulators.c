/* Every accumulator but the canonical one against an independent oracle, bit for bit: kinds,
 * promotion, fp16 results, formats, grains, layouts, tiles, accumulation, hostile operands.
 */
#include "draw.h"
#include "oracle.h"

#include "check.h"

#include <math.h>
#include <stdlib.h>

static const float untouched = 12345.0f;

/* A format that the kind takes, by the text of plumb/matmul.h. */
static plumb_format draw_format(plumb_sum_kind kind)
{
    static const plumb_format sixteen[] = {PLUMB_BF16, PLUMB_FP16, PLUMB_TF32};
    static const plumb_format narrow[] = {PLUMB_E4M3, PLUMB_E5M2, PLUMB_E3M2, PLUMB_E2M3,
                                          PLUMB_E2M1};

    switch (kind) {
    case PLUMB_SUM_HOPPER_WGMMA:
    case PLUMB_SUM_HOPPER_MMA:
    case PLUMB_SUM_ADA_MMA:
        return narrow[draw_below(2)];
    case PLUMB_SUM_BLACKWELL_TCGEN05:
        return draw_below(6) == 0 ? sixteen[draw_below(2)] : narrow[draw_below(5)];
    case PLUMB_SUM_HOPPER_16:
    case PLUMB_SUM_AMPERE_16:
        return sixteen[draw_below(3)];
    case PLUMB_SUM_VOLTA_16:
        return PLUMB_FP16;
    default:
        return (plumb_format)draw_below(PLUMB_E8M0);
    }
}

static bool is_narrow(plumb_format format)
{
    return format != PLUMB_FP32 && format != PLUMB_BF16 && format != PLUMB_FP16 &&
           format != PLUMB_TF32;
}

static plumb_format draw_partner(plumb_sum_kind kind, plumb_format format)
{
    plumb_format other = draw_format(kind);

    while (kind != PLUMB_SUM_EXACT && other != format &&
           !(is_narrow(other) && is_narrow(format)))
        other = draw_format(kind);
    return other;
}

/* Any product of the kind, with what it should be. */
typedef struct product {
    plumb_accumulator how;
    plumb_quantized qa, qb;
    plumb_operand a, b;
    size_t m, n, k;
    enum mood mood;
    bool accumulate;
} product;

static product draw_product(plumb_sum_kind kind, size_t m, size_t n, size_t k)
{
    product p = {.m = m, .n = n, .k = k, .mood = (enum mood)draw_below(MOODS)};
    const plumb_format format = draw_format(kind);
    const size_t ga = draw_below(9), gb = draw_below(9); /* no scales for 6 and more */
    const bool mx = draw_below(5) == 0;

    p.how = (plumb_accumulator){kind, draw_below(3) == 0,
                                draw_below(3) == 0 ? PLUMB_FP16 : PLUMB_FP32};
    p.accumulate = draw_below(3) == 0;
    p.a = draw_operand(format, mx || ga < 6, mx ? PLUMB_GRAIN_MX32 : (plumb_grain)(ga % 6),
                       m, k, p.mood, &p.qa);
    p.b = draw_operand(draw_partner(kind, format), (mx && gb < 8) || gb < 6,
                       mx ? PLUMB_GRAIN_MX32 : (plumb_grain)(gb % 6), n, k, p.mood, &p.qb);
    p.a.matrix = NULL;
    p.b.matrix = NULL;
    return p;
}

static float draw_old(enum mood mood)
{
    const uint32_t bits = draw_bits();

    if (mood == HOSTILE && bits % 4 == 0)
        return draw_float(bits % 3 == 0 ? 0x7f800000u : draw_bits());
    if (mood == EDGE)
        return ldexpf(draw_float((bits & 0x807fffffu) | 0x3f800000u), -126);
    return bits % 3 == 0 ? 0 : draw_float((bits & 0x807fffffu) | (124 + bits % 9) << 23);
}

/* The product in one go, and its tile: same bits, nothing else touched. */
static void check_product(product *p)
{
    const plumb_operand a = {&p->qa, p->a.transposed}, b = {&p->qb, p->b.transposed};
    const size_t ldc = p->n + 2,
                 bytes = plumb_matmul_workspace_bytes(&p->how, p->m, p->n, p->k);
    const plumb_tile tile = draw_tile(p->m, p->n), all = {0, p->m, 0, p->n};
    const plumb_tile in = tile.row_end > 0 ? tile : all;
    unsigned char *workspace = aligned_alloc(64, (bytes + 127) / 64 * 64);
    float *c = malloc(p->m * ldc * sizeof *c);
    float *old = malloc(p->m * ldc * sizeof *old);
    plumb_error why = {0};
    char what[DRAW_TEXT], text[PLUMB_ACCUMULATOR_TEXT];

    CHECK(bytes < 1 << 20, "%zu bytes of workspace", bytes);
    memset(workspace, 0xff, bytes);
    workspace[bytes] = 0x5a;
    for (size_t i = 0; i < p->m * ldc; i++)
        c[i] = old[i] = i % ldc < p->n ? draw_old(p->mood) : untouched;
    draw_describe(what, &a, &b, p->mood);
    plumb_accumulator_print(&p->how, text);
    CHECK_OK(plumb_matmul(&p->how, &a, &b, c, ldc, p->accumulate, tile, workspace, &why),
             why);
    CHECK(workspace[bytes] == 0x5a, "wrote past the workspace");
    for (size_t i = 0; i < p->m * ldc; i++) {
        const size_t row = i / ldc, col = i % ldc;
        const bool inside =
            row >= in.row && row < in.row_end && col >= in.col && col < in.col_end;
        const float due =
            !inside || (p->k == 0 && p->accumulate) ? old[i]
            : p->k == 0                             ? 0
                        : oracle_emulated(&p->how, &a, &b, row, col, p->accumulate, old[i]);

        CHECK(draw_float_bits(c[i]) == draw_float_bits(due),
              "%s %s m=%zu n=%zu k=%zu%s: c[%zu, %zu] = %a (%08x), want %a (%08x)", text,
              what, p->m, p->n, p->k, p->accumulate ? " accumulated" : "", row, col,
              (double)c[i], draw_float_bits(c[i]), (double)due, draw_float_bits(due));
    }
    draw_free(&p->qa);
    draw_free(&p->qb);
    free(workspace);
    free(c);
    free(old);
}

static void random_products(plumb_sum_kind kind)
{
    static const size_t depths[] = {0, 1, 15, 16, 17, 31, 32, 33, 63, 127, 128, 129, 300};
    static const size_t widths[] = {1, 2, 5, 9, 33};

    for (int i = 0; i < 150; i++) {
        product p = draw_product(kind, 1 + draw_below(5),
                                 widths[draw_below(sizeof widths / sizeof *widths)],
                                 depths[draw_below(sizeof depths / sizeof *depths)]);
        check_product(&p);
    }
    /* Past the limits of tiles and panels. */
    for (int i = 0; i < 4; i++) {
        product p = draw_product(kind, 1 + draw_below(2), 1 + draw_below(2), 4097);

        check_product(&p);
    }
    product wide = draw_product(kind, 65, 34, 40);
    check_product(&wide);
    check_done(plumb_sum_kind_name(kind));
}

int main(void)
{
    for (int kind = PLUMB_SUM_EXACT; kind < PLUMB_SUM_COUNT; kind++) {
        if (kind == PLUMB_SUM_EXACT && !oracle_has_exact())
            check_skip("exact", "no MPFR in this build");
        else
            random_products((plumb_sum_kind)kind);
    }
    return check_exit();
}
