/* Every accumulator but the canonical one against an independent oracle, bit for bit: kinds,
 * promotion, fp16 results, formats, grains, layouts, tiles, accumulation, hostile operands.
 */
#include "matmul/lanes.h"
#include "matmul/micro.h"
#include "draw.h"
#include "oracle.h"

#include "check.h"

#include <math.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

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
        return draw_below(2) == 0 ? narrow[draw_below(5)]
                                  : (plumb_format)draw_below(PLUMB_E8M0);
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
    const bool bare = draw_below(3) == 0;
    const size_t ga = bare ? 6 : draw_below(9); /* no scales for 6 and more */
    const size_t gb = bare ? 6 : draw_below(9);
    const bool mx = !bare && draw_below(5) == 0;

    const bool nvfp4 = !bare && kind == PLUMB_SUM_BLACKWELL_TCGEN05 && draw_below(5) == 0;
    const plumb_format left = nvfp4 ? PLUMB_E2M1 : format;
    const plumb_format right = nvfp4 ? PLUMB_E2M1 : draw_partner(kind, format);
    const plumb_grain both = nvfp4 ? PLUMB_GRAIN_NVFP4 : PLUMB_GRAIN_MX32;

    p.how = (plumb_accumulator){kind, draw_below(3) == 0,
                                draw_below(3) == 0 ? PLUMB_FP16 : PLUMB_FP32};
    p.accumulate = draw_below(3) == 0;
    p.a = draw_operand(left, mx || nvfp4 || ga < 6,
                       mx || nvfp4 ? both : (plumb_grain)(ga % 6), m, k, p.mood, &p.qa);
    p.b = draw_operand(right, nvfp4 || (mx && gb < 8) || gb < 6,
                       mx || nvfp4 ? both : (plumb_grain)(gb % 6), n, k, p.mood, &p.qb);
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

/* The product by every row of lanes that this CPU has: the same bits. */
static void check_rows(const product *p, const plumb_operand *a, const plumb_operand *b,
                       const float *old, size_t ldc, plumb_tile tile, void *workspace,
                       const float *first, const char *what)
{
    const unsigned cpu = plumb_cpu_flags();
    float *c = malloc(p->m * ldc * sizeof *c);
    plumb_error why = {0};

    for (size_t r = 0; r < plumb_lanes_count; r++) {
        const plumb_lanes *lanes = &plumb_lanes_rows[r];

        if ((lanes->cpu & ~cpu) != 0)
            continue;
        memcpy(c, old, p->m * ldc * sizeof *c);
        CHECK_OK(plumb_matmul_with(&plumb_micros[0], lanes, &p->how, a, b, c, ldc,
                                   p->accumulate, tile, workspace, &why),
                 why);
        for (size_t i = 0; i < p->m * ldc; i++)
            CHECK(draw_float_bits(c[i]) == draw_float_bits(first[i]),
                  "%s, %s: c[%zu, %zu] = %a, the best row gives %a", lanes->name, what,
                  i / ldc, i % ldc, (double)c[i], (double)first[i]);
    }
    free(c);
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
    check_rows(p, &a, &b, old, ldc, tile, workspace, c, what);
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

    for (int i = 0; i < 300; i++) {
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
    for (int i = 0; i < 6; i++) {
        product wide = draw_product(kind, 65, 34, 40);
        product tall = draw_product(kind, 259, 2, 290);
        product broad = draw_product(kind, 2, 131, 40);

        check_product(&wide);
        check_product(&tall);
        check_product(&broad);
    }
    check_done(plumb_sum_kind_name(kind));
}

/* --- worked cases ------------------------------------------------------------ */

_Alignas(64) static unsigned char scratch[1 << 20];

static float one_by_one(const plumb_accumulator *how, plumb_format format, const void *x,
                        const void *y, size_t k, float old)
{
    const plumb_quantized qx = {
        .format = format, .rows = 1, .cols = k, .ld = k, .codes = (void *)x};
    const plumb_quantized qy = {
        .format = format, .rows = 1, .cols = k, .ld = k, .codes = (void *)y};
    const plumb_operand a = {&qx, false}, b = {&qy, false};
    plumb_error why = {0};
    float c = old;

    CHECK_OK(plumb_matmul(how, &a, &b, &c, 1, old != 0, (plumb_tile){0}, scratch, &why),
             why);
    return c;
}

typedef struct worked {
    const char *what;
    bool half;
    float x[4], y[4], old, want;
} worked;

static const worked exact_cases[] = {
    {"2^254 cancels, 2^-149 stays",
     false,
     {0x1p127f, 0x1p127f, 0x1p-149f},
     {0x1p127f, -0x1p127f, 1},
     0,
     0x1p-149f},
    {"a tie goes to even", false, {1, 0x1p-24f}, {1, 1}, 0, 1},
    {"2^-298 above the tie",
     false,
     {1, 0x1p-24f, 0x1p-149f},
     {1, 1, 0x1p-149f},
     0,
     0x1.000002p0f},
    {"2^-298 below the tie",
     false,
     {1, 0x1.8p-23f, -0x1p-149f},
     {1, 1, 0x1p-149f},
     0,
     0x1.000002p0f},
    {"the same, negative",
     false,
     {-1, -0x1p-24f, -0x1p-149f},
     {1, 1, 0x1p-149f},
     0,
     -0x1.000002p0f},
    {"half a step past the largest is infinity",
     false,
     {0x1.fffffep127f, 0x1p103f},
     {1, 1},
     0,
     INFINITY},
    {"a little less is the largest",
     false,
     {0x1.fffffep127f, 0x1p103f, -0x1p-149f},
     {1, 1, 0x1p-149f},
     0,
     0x1.fffffep127f},
    {"half of the least is zero", false, {0x1p-149f}, {0.5f}, 0, 0},
    {"three halves of it are two", false, {0x1p-149f}, {1.5f}, 0, 0x1p-148f},
    {"old C is part of the sum",
     false,
     {0x1p-24f, 0x1p-149f},
     {1, 0x1p-149f},
     1,
     0x1.000002p0f},
    {"nothing left is +0", false, {-1}, {1}, 1, 0},
    {"65519.99 is 65504", true, {65504, 16, -0x1p-40f}, {1, 1, 1}, 0, 65504},
    {"65520 is infinity", true, {65504, 16}, {1, 1}, 0, INFINITY},
    {"fp16 subnormals", true, {0x1p-25f, 0x1p-149f}, {1, 1}, 0, 0x1p-24f},
};

static void exact_worked(void)
{
    for (size_t i = 0; i < sizeof exact_cases / sizeof *exact_cases; i++) {
        const worked *w = &exact_cases[i];
        const plumb_accumulator how = {PLUMB_SUM_EXACT, false,
                                       w->half ? PLUMB_FP16 : PLUMB_FP32};
        const float c = one_by_one(&how, PLUMB_FP32, w->x, w->y, 4, w->old);

        CHECK(draw_float_bits(c) == draw_float_bits(w->want), "%s: %a, want %a", w->what,
              (double)c, (double)w->want);
    }
    check_done("exact sums worked by hand");
}

/* Narrow codes are whole multiples of their least value: int64 sums need no MPFR. */
static void exact_integers(plumb_format format, double least)
{
    enum { K = 900 };
    static uint8_t x[K], y[K];
    const plumb_accumulator how = {PLUMB_SUM_EXACT, false, PLUMB_FP32};

    for (int trial = 0; trial < 20; trial++) {
        int64_t sum = 0;

        for (size_t k = 0; k < K; k++) {
            x[k] = (uint8_t)(draw_below(0x78) | (draw_bits() & 0x80));
            y[k] = (uint8_t)(draw_below(0x48) | (draw_bits() & 0x80));
            sum += (int64_t)((double)oracle_value(format, x, k) / least) *
                   (int64_t)((double)oracle_value(format, y, k) / least);
        }
        const float want = (float)sum * (float)(least * least); /* a power of two */
        const float c = one_by_one(&how, format, x, y, K, 0);
        CHECK(c == want, "%a, want %a", (double)c, (double)want);
    }
}

/* bf16 with exponents down to `spread` below the largest: the first half adds up, the second takes
 * nearly all of it away, so that what is lost on the way shows.
 */
static void fill_spread(uint16_t *x, uint16_t *y, size_t k, size_t spread)
{
    for (size_t i = 0; i < k / 2; i++) {
        const size_t down = i == 0 ? 0 : i == 1 ? spread : draw_below(spread + 1);

        x[i] = (uint16_t)((draw_bits() & 0x7f) | (140 - down) << 7);
        y[i] = (uint16_t)((draw_bits() & 0x7f) | (140 - draw_below(spread + 1)) << 7);
        x[k / 2 + i] = x[i] ^ 0x8000;
        y[k / 2 + i] =
            i >= 2 && draw_below(16) == 0 && (y[i] & 0x7f80) < 134 << 7 ? y[i] ^ 1 : y[i];
    }
}

static void exact_spread(void)
{
    enum { K = 256 };
    static uint16_t x[K], y[K];
    product p = {.how = {PLUMB_SUM_EXACT, false, PLUMB_FP32}, .m = 1, .n = 1, .k = K};
    plumb_error why = {0};

    p.qa =
        (plumb_quantized){.format = PLUMB_BF16, .rows = 1, .cols = K, .ld = K, .codes = x};
    p.qb = p.qa;
    p.qb.codes = y;
    const plumb_operand a = {&p.qa, false}, b = {&p.qb, false};

    for (size_t spread = 8; spread < 80; spread++) {
        float c, old = 0;

        fill_spread(x, y, K, spread);
        CHECK_OK(plumb_matmul(&p.how, &a, &b, &c, 1, false, (plumb_tile){0}, scratch, &why),
                 why);
        const float due = oracle_emulated(&p.how, &a, &b, 0, 0, false, 0);
        CHECK(draw_float_bits(c) == draw_float_bits(due), "spread %zu: %a, want %a", spread,
              (double)c, (double)due);
        check_rows(&p, &a, &b, &old, 1, (plumb_tile){0}, scratch, &c, "spread");
    }
    check_done("exact sums of exponents far apart");
}

/* E4M3 up to more than 2^53 times the least product, which is 2^-18, one of those, and down. */
static void exact_long(void)
{
    enum { HALF = 175000, K = 2 * HALF + 1 };
    const plumb_accumulator how = {PLUMB_SUM_EXACT, false, PLUMB_FP32};
    uint8_t *x = malloc(K), *y = malloc(K);

    memset(x, 0x7e, K);
    memset(y, 0x7e, HALF);
    memset(y + HALF, 0xfe, K - HALF);
    x[HALF] = y[HALF] = 1;
    const float c = one_by_one(&how, PLUMB_E4M3, x, y, K, 0);
    CHECK(c == 0x1p-18f, "%a, want 2^-18", (double)c);
    free(x);
    free(y);
    check_done("an exact sum past 53 bits");
}

/* Without scales a sum could go on over all of K, but parts of 128 are rounded one by one. */
static void exact_joined(void)
{
    enum { M = 3, N = 5, K = 300 };

    for (int i = 0; i < 8; i++) {
        product p = {.how = {PLUMB_SUM_EXACT, true, PLUMB_FP32}, .m = M, .n = N, .k = K};

        p.a = draw_operand(PLUMB_E4M3, false, PLUMB_GRAIN_TENSOR, M, K, p.mood, &p.qa);
        p.b = draw_operand(PLUMB_E4M3, false, PLUMB_GRAIN_TENSOR, N, K, p.mood, &p.qb);
        check_product(&p);
    }
    check_done("exact sums of parts");
}

/* tcgen05 with nvfp4: 1 - 1 under scales of 448 * 448 has the exponent 16 though it is zero, so
 * that 35 fraction bits end at 2^-19 and 0.5 * 0.5 under 2^-9 * 2^-9 is lost.
 */
static void nvfp4_worked(void)
{
    uint8_t x[32] = {0x2, 0xa}, y[32] = {0x2, 0x2};
    float d[2] = {448, 0x1p-9f};
    plumb_quantized qx = {.format = PLUMB_E2M1,
                          .grain = PLUMB_GRAIN_NVFP4,
                          .rows = 1,
                          .cols = 32,
                          .ld = 32,
                          .codes = x,
                          .d = d,
                          .d_tensor = 4};
    plumb_quantized qy = qx;
    const plumb_operand a = {&qx, false}, b = {&qy, false};
    plumb_accumulator how = {PLUMB_SUM_BLACKWELL_TCGEN05, false, PLUMB_FP32};
    float c = 1;

    qy.codes = y;
    x[16] = y[16] = 0x1;
    CHECK(plumb_matmul(&how, &a, &b, &c, 1, false, (plumb_tile){0}, scratch, NULL) ==
                  PLUMB_OK &&
              c == 0,
          "below 2^-19: %a", (double)c);
    d[0] = 224; /* exponent 14: 2^-21 */
    CHECK(plumb_matmul(&how, &a, &b, &c, 1, false, (plumb_tile){0}, scratch, NULL) ==
                  PLUMB_OK &&
              c == 0x1p-16f,
          "above 2^-21, times 4 * 4: %a", (double)c);
    how.kind = PLUMB_SUM_HOPPER_WGMMA;
    CHECK(plumb_matmul(&how, &a, &b, &c, 1, false, (plumb_tile){0}, scratch, NULL) ==
              PLUMB_UNSUPPORTED,
          "wgmma takes no e2m1");
    check_done("nvfp4 inside tcgen05");
}

/* --- arguments --------------------------------------------------------------- */

static void names(void)
{
    static const char *const bad[] = {"",
                                      "fp",
                                      "fp32+",
                                      "fp32+fp16+promote128",
                                      "+fp16",
                                      "hopper-wgmma+promote",
                                      "Exact",
                                      "fp32 ",
                                      "hopper-wgmma+promote128+fp16+fp16"};
    plumb_accumulator read = {PLUMB_SUM_EXACT, true, PLUMB_FP16};
    char text[PLUMB_ACCUMULATOR_TEXT];
    plumb_error why;

    for (int kind = 0; kind < PLUMB_SUM_COUNT; kind++) {
        for (int more = 0; more < 4; more++) {
            const plumb_accumulator how = {(plumb_sum_kind)kind, more % 2 == 1,
                                           more / 2 == 1 ? PLUMB_FP16 : PLUMB_FP32};

            plumb_accumulator_print(&how, text);
            CHECK_OK(plumb_accumulator_parse(text, &read, &why), why);
            CHECK(read.kind == how.kind && read.promote128 == how.promote128 &&
                      read.output == how.output,
                  "%s reads back differently", text);
        }
    }
    CHECK(strcmp(text, "volta-16+promote128+fp16") == 0, "the last one is %s", text);
    plumb_accumulator_print(NULL, text);
    CHECK(strcmp(text, "fp32") == 0, "NULL is %s", text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(plumb_accumulator_parse(bad[i], &read, &why) == PLUMB_BAD_INPUT &&
                  (strstr(why.message, "hopper-wgmma") != NULL ||
                   strstr(why.message, "did you mean") != NULL) &&
                  read.kind == PLUMB_SUM_VOLTA_16,
              "\"%s\" was read", bad[i]);
    check_done("names");
}

static plumb_status refuse(const plumb_accumulator *how, const plumb_quantized *a,
                           const plumb_quantized *b, size_t ldc, plumb_error *why)
{
    const plumb_operand left = {a, false}, right = {b, false};
    float c[4] = {untouched, untouched, untouched, untouched};
    const plumb_status status =
        plumb_matmul(how, &left, &right, c, ldc, false, (plumb_tile){0}, scratch, why);

    CHECK(c[0] == untouched && c[1] == untouched, "C touched by a refused product");
    return status;
}

static void refusals(void)
{
    uint8_t codes[64] = {0};
    float d[4] = {1, 1, 1.5f, 1};
    const plumb_quantized e4m3 = {
        .format = PLUMB_E4M3, .rows = 1, .cols = 4, .ld = 4, .codes = codes};
    plumb_quantized bf16 = e4m3, scales = e4m3, mx = e4m3, tall = e4m3;
    const plumb_accumulator wgmma = {PLUMB_SUM_HOPPER_WGMMA, false, PLUMB_FP32},
                            exact = {PLUMB_SUM_EXACT, false, PLUMB_FP32},
                            unknown = {PLUMB_SUM_COUNT, false, PLUMB_FP32},
                            odd = {PLUMB_SUM_EXACT, false, PLUMB_BF16},
                            tcgen05 = {PLUMB_SUM_BLACKWELL_TCGEN05, false, PLUMB_FP32};
    plumb_error why;

    bf16.format = PLUMB_BF16;
    CHECK(refuse(&wgmma, &e4m3, &bf16, 1, &why) == PLUMB_UNSUPPORTED &&
              strstr(why.message, "hopper-wgmma does not multiply e4m3 by bf16") != NULL &&
              strstr(why.message, "it takes e4m3, e5m2") != NULL,
          "%s", why.message);
    scales.format = PLUMB_UE4M3;
    CHECK(refuse(&exact, &scales, &e4m3, 1, &why) == PLUMB_UNSUPPORTED, "ue4m3");
    CHECK(refuse(NULL, &e4m3, &scales, 1, &why) == PLUMB_UNSUPPORTED, "ue4m3, canonical");
    CHECK(refuse(&unknown, &e4m3, &e4m3, 1, &why) == PLUMB_BAD_ARGUMENT, "kind");
    CHECK(refuse(&odd, &e4m3, &e4m3, 1, &why) == PLUMB_BAD_ARGUMENT, "bf16 results");
    mx.grain = PLUMB_GRAIN_MX32;
    mx.rows = 4;
    mx.d = d;
    CHECK(refuse(&tcgen05, &e4m3, &mx, 4, &why) == PLUMB_BAD_ARGUMENT &&
              strstr(why.message, "scale 2 is 1.5") != NULL,
          "%s", why.message);
    d[2] = 0x1p-128f; /* a power of two below those of E8M0 */
    CHECK(refuse(&tcgen05, &e4m3, &mx, 4, &why) == PLUMB_BAD_ARGUMENT &&
              strstr(why.message, "scale 2 is 2.9") != NULL,
          "%s", why.message);
    mx.grain = PLUMB_GRAIN_NVFP4;
    mx.format = PLUMB_E2M1;
    d[2] = 0x1.1p0f;
    CHECK(refuse(&tcgen05, &mx, &mx, 4, &why) == PLUMB_BAD_ARGUMENT &&
              strstr(why.message, "ue4m3") != NULL,
          "%s", why.message);
    mx.grain = PLUMB_GRAIN_MX32;
    mx.format = PLUMB_E4M3;
    mx.along_rows = true;
    CHECK(refuse(&wgmma, &mx, &e4m3, 1, &why) == PLUMB_BAD_SHAPE, "MX blocks across K");
    mx.grain = (plumb_grain)77;
    CHECK(refuse(&wgmma, &mx, &e4m3, 1, &why) == PLUMB_BAD_ARGUMENT, "grain");
    tall.rows = SIZE_MAX / 4 + 2;
    CHECK(refuse(&exact, &tall, &e4m3, 1, &why) == PLUMB_BAD_SHAPE, "A overflows");
    CHECK(refuse(NULL, &e4m3, &tall, tall.rows, &why) == PLUMB_BAD_SHAPE, "B overflows");
    tall = e4m3;
    tall.cols = tall.ld = 0;
    tall.rows = SIZE_MAX / 8;
    const plumb_quantized empty = {.format = PLUMB_E4M3, .rows = 3};
    CHECK(refuse(&exact, &tall, &empty, 3, &why) == PLUMB_BAD_SHAPE, "C overflows");
    check_done("refusals");
}

/* The caller's rounding and flushing modes neither matter nor change. */
static void caller_mode(void)
{
#if defined(__x86_64__)
    const unsigned before = _mm_getcsr(), odd = 0xffc0 & ~0x1000u;
    const uint8_t x[2] = {0x38, 0x01}, y[2] = {0x38, 0x38};

    for (int kind = PLUMB_SUM_EXACT; kind <= PLUMB_SUM_BLACKWELL_TCGEN05; kind++) {
        const plumb_accumulator how = {(plumb_sum_kind)kind, true, PLUMB_FP32};
        const float want = one_by_one(&how, PLUMB_E4M3, x, y, 2, 0x1.8p-24f);

        _mm_setcsr(odd); /* toward zero, FTZ, DAZ; one exception unmasked */
        const float c = one_by_one(&how, PLUMB_E4M3, x, y, 2, 0x1.8p-24f);
        const unsigned after = _mm_getcsr();
        _mm_setcsr(before);
        CHECK(after == odd, "MXCSR is left %04x", after);
        CHECK(c == want && c == 0x1.008002p0f, "kind %d in the caller's mode: %a", kind,
              (double)c);
    }
    check_done("the caller's modes");
#else
    check_skip("the caller's modes", "no MXCSR here");
#endif
}

int main(void)
{
    names();
    refusals();
    caller_mode();
    exact_worked();
    nvfp4_worked();
    exact_integers(PLUMB_E4M3, 0x1p-9);
    exact_integers(PLUMB_E5M2, 0x1p-16);
    check_done("exact sums against integers");
    if (oracle_has_exact())
        exact_spread();
    exact_long();
    exact_joined();
    for (int kind = PLUMB_SUM_EXACT; kind < PLUMB_SUM_COUNT; kind++) {
        if (kind == PLUMB_SUM_EXACT && !oracle_has_exact())
            check_skip("exact", "no MPFR in this build");
        else
            random_products((plumb_sum_kind)kind);
    }
    return check_exit();
}
