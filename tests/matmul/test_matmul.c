/* Every micro-kernel against the oracle, bit for bit.
 *
 * Random products of all formats, orientations, grains and awkward sizes, with operands
 * that are plain, or hostile (infinities, NaN, subnormals, huge), or such that products and
 * sums lie at the edge of flushing, 2^-126.
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

static bool may_run(const plumb_micro *micro)
{
    return (micro->cpu & ~plumb_cpu_flags()) == 0;
}

static uint32_t canonical(float x)
{
    return isnan(x) ? 0x7fc00000u : draw_float_bits(x);
}

static const float untouched = 12345.0f;

/* What becomes of a result whose sum is `want`, in a matrix that held `untouched`. */
static float due_of(const plumb_accumulator *how, size_t k, bool accumulate, float want)
{
    const float sum = accumulate ? oracle_fma(untouched, 1, want) : want;

    if (k == 0)
        return accumulate ? untouched : 0;
    return how->output == PLUMB_FP16 ? oracle_fp16((double)sum) : sum;
}

/* One product on one micro-kernel: the tile has the expected bits, all else is untouched. */
static void compare(const plumb_micro *micro, const plumb_accumulator *how,
                    const plumb_operand *a, const plumb_operand *b, size_t m, size_t n,
                    size_t k, const plumb_tile *tile, bool accumulate, const float *want,
                    const char *what)
{
    const size_t ldc = n + 3, bytes = plumb_matmul_workspace_bytes(how, m, n, k);
    unsigned char *workspace = aligned_alloc(64, (bytes + 127) / 64 * 64);
    float *c = malloc((m * ldc + 1) * sizeof *c);
    plumb_error why = {0};
    const plumb_tile all = {0, m, 0, n};
    const plumb_tile *in = tile->row_end > 0 || tile->col_end > 0 ? tile : &all;

    memset(workspace, 0xff, bytes);
    workspace[bytes] = 0x5a;
    for (size_t i = 0; i < m * ldc; i++)
        c[i] = untouched;
    CHECK_OK(plumb_matmul_with(micro, &plumb_lanes_rows[0], how, a, b, c, ldc, accumulate,
                               *tile, workspace, &why),
             why);
    CHECK(workspace[bytes] == 0x5a, "%s wrote past its workspace", micro->name);
    for (size_t i = 0; i < m * ldc; i++) {
        const size_t row = i / ldc, col = i % ldc;
        const bool inside =
            row >= in->row && row < in->row_end && col >= in->col && col < in->col_end;
        const float due =
            inside ? due_of(how, k, accumulate, want[row * n + col]) : untouched;

        CHECK(draw_float_bits(c[i]) == canonical(due),
              "%s %s m=%zu n=%zu k=%zu: c[%zu, %zu] = %a (%08x), want %a", micro->name,
              what, m, n, k, row, col, (double)c[i], draw_float_bits(c[i]), (double)due);
    }
    free(c);
    free(workspace);
}

/* Any signed format and any grain, or no scales. */
static plumb_operand any_operand(size_t outer, size_t depth, enum mood mood,
                                 plumb_quantized *q)
{
    const plumb_format format = (plumb_format)draw_below(PLUMB_E8M0);
    const size_t grain = draw_below(7);

    return draw_operand(format, grain < 6, (plumb_grain)(grain % 6), outer, depth, mood, q);
}

/* One product on every micro-kernel. */
static void compare_all(const plumb_accumulator *how, const plumb_operand *a,
                        const plumb_operand *b, size_t m, size_t n, size_t k,
                        const plumb_tile *tile, bool accumulate, enum mood mood)
{
    float *want = malloc(m * n * sizeof *want);
    char what[DRAW_TEXT];

    for (size_t i = 0; i < m * n; i++)
        want[i] = oracle_element(a, b, i / n, i % n, how->promote128);
    draw_describe(what, a, b, mood);
    for (size_t i = 0; i < plumb_micro_count; i++) {
        if (may_run(&plumb_micros[i]))
            compare(&plumb_micros[i], how, a, b, m, n, k, tile, accumulate, want, what);
    }
    free(want);
}

static void one_product(size_t m, size_t n, size_t k)
{
    const enum mood mood = (enum mood)draw_below(MOODS);
    const bool accumulate = draw_below(3) == 0;
    plumb_quantized qa, qb;
    const plumb_accumulator how = {PLUMB_SUM_FP32, draw_below(4) == 0,
                                   draw_below(4) == 0 ? PLUMB_FP16 : PLUMB_FP32};
    const plumb_operand a = any_operand(m, k, mood, &qa), b = any_operand(n, k, mood, &qb);
    const plumb_tile tile = draw_tile(m, n);

    compare_all(&how, &a, &b, m, n, k, &tile, accumulate, mood);
    draw_free(&qa);
    draw_free(&qb);
}

static void random_products(void)
{
    static const size_t depths[] = {0, 1, 2, 31, 32, 33, 64, 127, 128, 129, 255, 257, 300};
    static const size_t widths[] = {1, 2, 5, 15, 16, 17, 31, 33, 40};

    for (int i = 0; i < 450; i++) {
        const size_t m = 1 + draw_below(14);
        const size_t n = widths[draw_below(sizeof widths / sizeof *widths)];

        one_product(m, n, depths[draw_below(sizeof depths / sizeof *depths)]);
    }
    check_done("random products against the oracle");
}

/* The least or the largest codes of a narrow format, with the MX scale 2^exponent.  The first block
 * of K is half as large and negative if it falls, so that a sum that is too large by itself comes
 * back into range where it is joined.
 */
static plumb_operand extreme_operand(bool large, bool falls, int exponent, size_t outer,
                                     size_t depth, plumb_quantized *q)
{
    const plumb_format_info *info = plumb_format_get(q->format);
    const plumb_operand operand =
        draw_operand(q->format, true, PLUMB_GRAIN_MX32, outer, depth, PLAIN, q);
    unsigned char *codes = q->codes;

    for (size_t i = 0; i < plumb_quantized_scale_count(q); i++)
        q->d[i] = ldexpf(1, exponent < -127 ? -127 : exponent > 127 ? 127 : exponent);
    for (size_t i = 0; i < (q->rows - 1) * q->ld + q->cols; i++) {
        const size_t k = q->along_rows ? i / q->ld : i % q->ld;
        const uint32_t sign = 1u << (info->bits - 1);

        codes[i] = (unsigned char)(large ? info->largest_code - draw_below(2)
                                         : draw_below(4) | draw_below(2) * sign);
        if (large && falls && k < 32)
            codes[i] = k < 16 ? (unsigned char)(codes[i] | sign) : 0;
    }
    return operand;
}

/* MX scales about which the least or the largest operand, product or sum is just inside the normal
 * range of fp32, or just outside.
 */
static void scales_at_limits(void)
{
    static const plumb_format formats[] = {PLUMB_E4M3, PLUMB_E5M2, PLUMB_E2M1,
                                           PLUMB_E4M3FNUZ};
    enum { FORMATS = sizeof formats / sizeof *formats };
    const plumb_accumulator how = {PLUMB_SUM_FP32, false, PLUMB_FP32};

    for (int i = 0; i < 400; i++) {
        plumb_quantized qa = {.format = formats[draw_below(FORMATS)]};
        plumb_quantized qb = {.format = formats[draw_below(FORMATS)]};
        const plumb_format_info *x = plumb_format_get(qa.format),
                                *y = plumb_format_get(qb.format);
        const bool large = draw_below(2) == 0, one_side = draw_below(2) == 0;
        const int limit = large ? 127 - x->emax : -126 - x->emin + x->fraction_bits;
        const int rest = large ? -y->emax : y->fraction_bits - y->emin;
        const int near = (int)draw_below(12) - (large ? 9 : 5);
        const int by_a = one_side ? limit + near : (int)draw_below(255) - 127;
        const int by_b =
            one_side ? rest + (int)draw_below(9) - 4 : limit + rest + near - by_a;
        const plumb_operand a = extreme_operand(large, true, by_a, 5, 70, &qa);
        const plumb_operand b = extreme_operand(large, false, by_b, 33, 70, &qb);
        const plumb_tile all = {0};

        compare_all(&how, &a, &b, 5, 33, 70, &all, false, EDGE);
        draw_free(&qa);
        draw_free(&qb);
    }
    check_done("MX scales at the limits of fp32");
}

/* Rows past a blocking limit whose scales cannot be multiplied in, under others whose can. */
static void uneven_scales(void)
{
    const plumb_accumulator how = {PLUMB_SUM_FP32, false, PLUMB_FP32};
    const plumb_tile all = {0};
    plumb_quantized qa, qb;
    const plumb_operand a =
        draw_operand(PLUMB_E4M3, true, PLUMB_GRAIN_MX32, 205, 64, PLAIN, &qa);
    const plumb_operand b =
        draw_operand(PLUMB_E4M3, true, PLUMB_GRAIN_MX32, 33, 64, PLAIN, &qb);

    qa.d[plumb_quantized_scale_count(&qa) - 1] = 0x1p-127f;
    compare_all(&how, &a, &b, 205, 33, 64, &all, false, PLAIN);
    draw_free(&qa);
    draw_free(&qb);
    check_done("MX scales of which some are folded");
}

/* Sizes past every blocking limit: fast kernels against the reference kernel everywhere,
 * the reference against the oracle here and there.
 */
static void large_product(plumb_grain grain, plumb_format b_format, size_t m, size_t n,
                          size_t k)
{
    plumb_quantized qa, qb;
    const plumb_tile everything = {0};
    float *ref = malloc(m * n * sizeof *ref), *c = malloc(m * n * sizeof *c);
    void *workspace = aligned_alloc(64, plumb_matmul_workspace_bytes(NULL, m, n, k));
    plumb_error why = {0};

    const plumb_operand a = draw_operand(PLUMB_E4M3, true, grain, m, k, PLAIN, &qa);
    const plumb_operand b = draw_operand(b_format, true, grain, n, k, PLAIN, &qb);

    for (size_t i = 0; i < plumb_micro_count; i++) {
        float *to = i == 0 ? ref : c;

        if (!may_run(&plumb_micros[i]))
            continue;
        CHECK_OK(plumb_matmul_with(&plumb_micros[i], &plumb_lanes_rows[0], NULL, &a, &b, to,
                                   n, false, everything, workspace, &why),
                 why);
        CHECK(memcmp(ref, to, m * n * sizeof *ref) == 0, "%s differs from the reference",
              plumb_micros[i].name);
    }
    for (int i = 0; i < 300; i++) {
        const size_t row = draw_below(m), col = draw_below(n);
        const float due = oracle_element(&a, &b, row, col, false);

        CHECK(draw_float_bits(ref[row * n + col]) == draw_float_bits(due),
              "c[%zu, %zu] = %a, want %a", row, col, (double)ref[row * n + col],
              (double)due);
    }
    draw_free(&qa), draw_free(&qb);
    free(ref), free(c), free(workspace);
}

/* a * b + c of one element, through the whole function: K = 3 with c = c * 1 first. */
static float element_of(const plumb_micro *micro, const float *x, const float *y, size_t k)
{
    plumb_quantized qx = {PLUMB_FP32, PLUMB_GRAIN_TENSOR, false, 1, k,
                          k,          (void *)x,          NULL,  0};
    plumb_quantized qy = {PLUMB_FP32, PLUMB_GRAIN_TENSOR, false, 1, k,
                          k,          (void *)y,          NULL,  0};
    const plumb_operand a = {&qx, false}, b = {&qy, false};
    void *workspace = aligned_alloc(64, plumb_matmul_workspace_bytes(NULL, 1, 1, k));
    float c = untouched;

    CHECK(plumb_matmul_with(micro, &plumb_lanes_rows[0], NULL, &a, &b, &c, 1, false,
                            (plumb_tile){0}, workspace, NULL) == PLUMB_OK,
          "%s failed", micro->name);
    free(workspace);
    return c;
}

typedef struct worked {
    const char *what;
    size_t k;
    float x[4], y[4];
    float want;
} worked;

/* Worked by hand.  u = 2^-23. */
static const worked cases[] = {
    {"just above 2^-126, rounds to it", 1, {0x1.000002p-63f}, {0x1.fffffep-64f}, 0x1p-126f},
    {"(1 - u/2)^2 2^-126 rounds to (1 - u) 2^-126: flushed",
     1,
     {0x1.fffffep-64f},
     {0x1.fffffep-64f},
     0.0f},
    {"(1 - u^2) 2^-126 is above the tie: stays",
     1,
     {0x1.000002p-63f},
     {0x1.fffffcp-64f},
     0x1p-126f},
    {"2^-126 - 2^-151 is the tie, goes to even: stays",
     3,
     {0x1p-126f, 0, 0x1p-75f},
     {1, 0, -0x1p-76f},
     0x1p-126f},
    {"2^-161 below the tie: flushed",
     3,
     {0x1p-126f, 0, 0x1.004p-75f},
     {1, 0, -0x1p-76f},
     0.0f},
    {"the same below zero", 3, {-0x1p-126f, 0, 0x1.004p-75f}, {1, 0, 0x1p-76f}, 0.0f},
    /* (1 + 2^-12)(1 - 2^-12 + 2^-24) = 1 + 2^-36: too little for fp64 to tell from the tie. */
    {"2^-187 below the tie: flushed",
     3,
     {0x1p-126f, 0, 0x1.001p-75f},
     {1, 0, -0x1.ffe002p-77f},
     0.0f},
    {"2^-187 below the tie, negative",
     3,
     {-0x1p-126f, 0, 0x1.001p-75f},
     {1, 0, 0x1.ffe002p-77f},
     0.0f},
    {"2^-191 above the tie: stays",
     3,
     {0x1p-126f, 0, 0x1.00001p-75f},
     {1, 0, -0x1.ffffep-77f},
     0x1p-126f},
    {"2^-191 above the tie, negative",
     3,
     {-0x1p-126f, 0, 0x1.00001p-75f},
     {1, 0, 0x1.ffffep-77f},
     -0x1p-126f},
    {"an operand below 2^-126 is zero", 1, {0x1.fffffcp-127f}, {0x1p100f}, 0.0f},
    {"2^24 + 1 loses the 1 in the even chain, the odd chain keeps its own",
     4,
     {0x1p24f, 1, 1, 1},
     {1, 1, 1, 1},
     0x1p24f + 2},
    {"fused: 2^24 + 2 + (1 + 2^-20)(1 - 2^-20) is below the tie",
     3,
     {0x1.000002p24f, 0, 0x1.00001p0f},
     {1, 0, 0x1.ffffep-1f},
     0x1.000002p24f},
    {"infinity minus infinity", 3, {INFINITY, 0, INFINITY}, {1, 0, -1}, NAN},
    {"zero times infinity", 1, {0}, {-INFINITY}, NAN},
    {"overflow", 3, {0x1p127f, 0, 0x1p127f}, {1, 0, 1}, INFINITY},
    {"a sum starts from +0, so -0 alone becomes +0", 1, {-0.0f}, {1}, 0.0f},
};

static void worked_cases(void)
{
    for (size_t i = 0; i < plumb_micro_count; i++) {
        for (size_t j = 0; may_run(&plumb_micros[i]) && j < sizeof cases / sizeof *cases;
             j++) {
            const worked *w = &cases[j];
            const float got = element_of(&plumb_micros[i], w->x, w->y, w->k);

            CHECK(draw_float_bits(got) == canonical(w->want), "%s, %s: %a (%08x), want %a",
                  plumb_micros[i].name, w->what, (double)got, draw_float_bits(got),
                  (double)w->want);
        }
    }
    check_done("cases worked by hand");
}

/* E4M3 products are multiples of 2^-18: whole numbers in the sum below, which stays exact
 * as long as it has no more than 24 bits, whatever the order.
 */
static void exact_sums(void)
{
    enum { K = 40 };
    uint8_t x[K], y[K];
    plumb_quantized qx = {PLUMB_E4M3, PLUMB_GRAIN_TENSOR, false, 1, K, K, x, NULL, 0};
    plumb_quantized qy = {PLUMB_E4M3, PLUMB_GRAIN_TENSOR, false, 1, K, K, y, NULL, 0};
    const plumb_operand a = {&qx, false}, b = {&qy, false};
    void *workspace = aligned_alloc(64, plumb_matmul_workspace_bytes(NULL, 1, 1, K));

    for (int trial = 0; trial < 200; trial++) {
        int64_t sum = 0;
        float c = 0;

        for (size_t k = 0; k < K; k++) {
            const int p = (int)draw_below(15),
                      q = (int)draw_below(15); /* p * 2^-9, exactly a code */
            const int sx = draw_below(2) == 0 ? 1 : -1;

            x[k] = (uint8_t)((p < 8 ? p : 8 + p - 8) | (sx < 0 ? 0x80 : 0));
            y[k] = (uint8_t)q;
            sum += (int64_t)sx * p * q;
        }
        CHECK(plumb_matmul(NULL, &a, &b, &c, 1, false, (plumb_tile){0}, workspace, NULL) ==
                  PLUMB_OK,
              "failed");
        CHECK((double)c == ldexp((double)sum, -18), "sum %a, want %lld * 2^-18", (double)c,
              (long long)sum);
    }
    free(workspace);
    check_done("E4M3 sums against integers");
}

static void refusals(void)
{
    float x[6] = {0}, d[6] = {1, 1, 1, 1, 1, 1}, c[4] = {untouched, untouched};
    plumb_quantized q23 = {PLUMB_FP32, PLUMB_GRAIN_TENSOR, false, 2, 3, 3, x, NULL, 0};
    plumb_quantized q22 = {PLUMB_FP32, PLUMB_GRAIN_TENSOR, false, 2, 2, 2, x, NULL, 0};
    plumb_quantized rows = {PLUMB_FP32, PLUMB_GRAIN_1X128, true, 2, 2, 2, x, d, 0};
    plumb_quantized narrow = {PLUMB_FP32, PLUMB_GRAIN_TENSOR, false, 2, 2, 1, x, NULL, 0};
    plumb_quantized odd = {
        (plumb_format)77, PLUMB_GRAIN_TENSOR, false, 2, 2, 2, x, NULL, 0};
    const plumb_operand a = {&q22, false}, differs = {&q23, false}, along = {&rows, false},
                        thin = {&narrow, false}, unknown = {&odd, false};
    const plumb_tile all = {0}, outside = {0, 3, 0, 2}, backwards = {1, 0, 0, 2};
    _Alignas(64) static unsigned char workspace[1 << 16];

    CHECK(plumb_matmul(NULL, &a, &differs, c, 2, false, all, workspace, NULL) ==
              PLUMB_BAD_SHAPE,
          "K");
    CHECK(plumb_matmul(NULL, &along, &a, c, 2, false, all, workspace, NULL) ==
              PLUMB_BAD_SHAPE,
          "blocks across K");
    CHECK(plumb_matmul(NULL, &a, &thin, c, 2, false, all, workspace, NULL) ==
              PLUMB_BAD_SHAPE,
          "ld");
    CHECK(plumb_matmul(NULL, &a, &a, c, 1, false, all, workspace, NULL) == PLUMB_BAD_SHAPE,
          "ldc");
    CHECK(plumb_matmul(NULL, &a, &a, c, 2, false, outside, workspace, NULL) ==
              PLUMB_BAD_SHAPE,
          "tile outside");
    CHECK(plumb_matmul(NULL, &a, &a, c, 2, false, backwards, workspace, NULL) ==
              PLUMB_BAD_SHAPE,
          "tile backwards");
    CHECK(plumb_matmul(NULL, &unknown, &a, c, 2, false, all, workspace, NULL) ==
              PLUMB_BAD_FORMAT,
          "format");
    CHECK(c[0] == untouched && c[1] == untouched, "C touched by a refused product");
    check_done("refusals");
}

/* The caller's rounding and flushing modes neither matter nor change. */
static void caller_mode(void)
{
#if defined(__x86_64__)
    const unsigned before = _mm_getcsr();

    for (size_t i = 0; i < plumb_micro_count; i++) {
        const float x[3] = {0x1p24f, 0, 1}, y[3] = {1, 0, 1.5f};

        if (!may_run(&plumb_micros[i]))
            continue;
        _mm_setcsr(0xffc0 & ~0x1000u); /* toward zero, FTZ, DAZ; one exception unmasked */
        const float c = element_of(&plumb_micros[i], x, y, 3);
        const unsigned after = _mm_getcsr();
        _mm_setcsr(before);
        CHECK(after == (0xffc0 & ~0x1000u), "%s left MXCSR %04x", plumb_micros[i].name,
              after);
        CHECK(c == 0x1p24f + 2, "%s in the caller's rounding: %a", plumb_micros[i].name,
              (double)c);
    }
    check_done("the caller's modes");
#else
    check_skip("the caller's modes", "no MXCSR here");
#endif
}

int main(void)
{
    for (size_t i = 0; i < plumb_micro_count; i++) {
        if (!may_run(&plumb_micros[i]))
            check_skip(plumb_micros[i].name, "this CPU cannot run it");
    }
    worked_cases();
    exact_sums();
    random_products();
    scales_at_limits();
    uneven_scales();
    for (int grain = 0; grain <= PLUMB_GRAIN_NVFP4; grain++)
        large_product((plumb_grain)grain, PLUMB_BF16, 205, 397, 289);
    /* Two whole panels of one whole sliver: what is packed past it lies among the sums. */
    for (int i = 0; i < 8; i++)
        large_product(PLUMB_GRAIN_TENSOR, PLUMB_E4M3, 7, 32, 512);
    check_done("sizes past the blocking limits");
    refusals();
    caller_mode();
    return check_exit();
}
