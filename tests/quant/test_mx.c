/* E8M0 scales: every rounding and element format at every power of two and 64 steps around it, the
 * values where a logarithm in fp32 goes wrong, the edges by hand, and NVFP4's two scales.
 */
#include "oracle.h"
#include "quant/scale.h"

#include "bits.h"
#include "check.h"

static const plumb_mx_rounding roundings[] = {PLUMB_MX_FLOOR, PLUMB_MX_CEIL, PLUMB_MX_EVEN,
                                              PLUMB_MX_RCEIL};

static void check_amax(float amax)
{
    for (size_t f = 0; f < ORACLE_FORMATS; f++) {
        for (size_t r = 0; r < 4; r++) {
            const int want = oracle_mx_code(roundings[r], &oracle_formats[f], amax);
            const int got = plumb_mx_scale(roundings[r], oracle_formats[f].format, amax);

            CHECK(got == want, "%s, rounding %zu: amax %a has code %d, want %d",
                  oracle_formats[f].name, r, (double)amax, got, want);
        }
    }
}

/* Around every power of two, and around every largest value times one. */
static void boundaries(void)
{
    for (int e = -149; e <= 127; e++) {
        for (int step = -64; step <= 64; step++) {
            const int64_t bits = (int64_t)bits_from((float)ldexp(1, e)) + step;

            if (bits >= 0)
                check_amax(float_from((uint32_t)bits));
        }
    }
    for (size_t f = 0; f < ORACLE_FORMATS; f++) {
        for (int e = -130; e <= 110; e++) {
            const float top = (float)ldexp((double)oracle_formats[f].largest, e);

            for (int step = -16; step <= 16; step++)
                check_amax(float_from((uint32_t)((int64_t)bits_from(top) + step)));
        }
    }
    check_done("scales around every boundary");
}

static void random_amaxes(void)
{
    uint64_t state = 5;

    for (int i = 0; i < 60000; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint32_t bits = (uint32_t)(state >> 33);

        if (bits < 0x7f800000u)
            check_amax(float_from(bits));
    }
    check_done("scales of random amaxes");
}

/* Below 2^k the fp32 logarithm rounds to k, so floor(log2f(x)) is one too large. */
static void logarithm_trap(void)
{
    unsigned wrong = 0;

    for (int k = 3; k <= 110; k++) {
        for (uint32_t below = 1; below <= 40; below++) {
            const float x = float_from(bits_from((float)ldexp(1, k)) - below);
            const int code = plumb_mx_scale(PLUMB_MX_FLOOR, PLUMB_E4M3, x);

            if ((int)floorf(log2f(x)) == k)
                wrong++;
            CHECK(code == k - 1 - 8 + 127, "2^%d less %u ulp has code %d", k, below, code);
        }
    }
    CHECK(wrong > 500, "the trap sprang %u times only: these values test nothing", wrong);
    check_done("where log2f is wrong");
}

static void edges(void)
{
    static const struct {
        plumb_mx_rounding rounding;
        plumb_format element;
        float amax;
        int code;
    } cases[] = {
        {PLUMB_MX_FLOOR, PLUMB_E4M3, 0, 0},
        {PLUMB_MX_RCEIL, PLUMB_E4M3, 0, 0},
        {PLUMB_MX_RCEIL, PLUMB_E4M3, -0.0f, 0},
        {PLUMB_MX_FLOOR, PLUMB_E4M3, INFINITY, 254},
        {PLUMB_MX_CEIL, PLUMB_E2M1, INFINITY, 254},
        {PLUMB_MX_EVEN, PLUMB_E4M3, INFINITY, 254},
        {PLUMB_MX_RCEIL, PLUMB_E4M3, INFINITY, 254},
        {PLUMB_MX_FLOOR, PLUMB_E4M3, NAN, 255},
        {PLUMB_MX_CEIL, PLUMB_E4M3, NAN, 255},
        {PLUMB_MX_EVEN, PLUMB_E4M3, NAN, 255},
        {PLUMB_MX_RCEIL, PLUMB_E4M3, NAN, 255},
        {PLUMB_MX_FLOOR, PLUMB_E4M3, 448, 127},
        {PLUMB_MX_FLOOR, PLUMB_E4M3, 511, 127}, /* clips: 511 > 448 */
        {PLUMB_MX_FLOOR, PLUMB_E4M3, 512, 128},
        {PLUMB_MX_CEIL, PLUMB_E4M3, 256, 127},
        {PLUMB_MX_CEIL, PLUMB_E4M3, 0x1.000002p8f, 128},
        {PLUMB_MX_EVEN, PLUMB_E4M3, 495, 127}, /* 495 rounds to 480, 496 to 512 */
        {PLUMB_MX_EVEN, PLUMB_E4M3, 496, 128},
        {PLUMB_MX_EVEN, PLUMB_E2M1, 6, 127},
        {PLUMB_MX_EVEN, PLUMB_E2M1, 7, 128},
        {PLUMB_MX_RCEIL, PLUMB_E4M3, 448, 127},
        {PLUMB_MX_RCEIL, PLUMB_E4M3, 0x1.c00002p8f, 128},
        {PLUMB_MX_RCEIL, PLUMB_E2M1, 6, 127},
        {PLUMB_MX_RCEIL, PLUMB_E4M3FNUZ, 240, 127},
        {PLUMB_MX_FLOOR, PLUMB_E4M3FNUZ, 240, 127},
        {PLUMB_MX_RCEIL, PLUMB_E4M3, 448 * 0x1p-127f, 0},
        {PLUMB_MX_RCEIL, PLUMB_E4M3, 449 * 0x1p-127f, 1},
        {PLUMB_MX_RCEIL, PLUMB_E4M3, 448 * 0x1p-126f, 1},
        {PLUMB_MX_CEIL, PLUMB_E4M3, 0x1p-149f, 0},
        {PLUMB_MX_FLOOR, PLUMB_E4M3, FLT_MAX, 246},
        {PLUMB_MX_EVEN, PLUMB_E2M1, FLT_MAX, 253},
        {PLUMB_MX_FLOOR, PLUMB_FP32, 1, 255},
        {PLUMB_MX_FLOOR, PLUMB_E8M0, 1, 255},
        {PLUMB_MX_FLOOR, (plumb_format)99, 1, 255},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int code = plumb_mx_scale(cases[i].rounding, cases[i].element, cases[i].amax);

        CHECK(code == cases[i].code, "case %zu, amax %a: code %d, want %d", i,
              (double)cases[i].amax, code, cases[i].code);
    }
    check_done("edges");
}

/* Codes 0, 254 and what lies between as multipliers: where shipped kernels went wrong. */
static void multipliers(void)
{
    const plumb_spec spec = {.format = PLUMB_E4M3,
                             .grain = PLUMB_GRAIN_MX32,
                             .rule = PLUMB_SCALE_CURRENT,
                             .mx = PLUMB_MX_RCEIL};
    static const struct {
        float amax;
        uint32_t factor, d;
    } cases[] = {{0, 0x7f000000, 0x00400000},
                 {INFINITY, 0x00400000, 0x7f000000},
                 {448, 0x3f800000, 0x3f800000},
                 {449 * 0x1p-127f, 0x7e800000, 0x00800000},
                 {NAN, 0x7fc00000, 0x7fc00000}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float factor, d;

        plumb_block_scales_mx(&spec, &cases[i].amax, 1, &factor, &d);
        CHECK(bits_from(factor) == cases[i].factor && bits_from(d) == cases[i].d,
              "amax %a: factor %08x, d %08x", (double)cases[i].amax, bits_from(factor),
              bits_from(d));
    }
    check_done("multipliers");
}

/* An infinity keeps its block's finite values at zero and comes back as itself. */
static void infinite_block(void)
{
    float x[32] = {1, -3, INFINITY, NAN}, back[32], d;
    uint8_t codes[32];
    plumb_quantized q = {.codes = codes, .d = &d};
    plumb_spec spec;
    plumb_error why = {0};

    CHECK_OK(plumb_spec_parse("e4m3:mx32", NULL, &spec, &why), why);
    CHECK_OK(plumb_quantize(&spec, x, 1, 32, false, NULL, true, &q, NULL, &why), why);
    CHECK(codes[0] == 0 && codes[1] == 0x80 && codes[2] == 0x7e && codes[3] == 0x7f,
          "codes %02x %02x %02x %02x", codes[0], codes[1], codes[2], codes[3]);
    CHECK_OK(plumb_dequantize(&q, back, &why), why);
    CHECK(d == 0x1p127f && isinf(back[2]) && back[0] == 0 && isnan(back[3]),
          "d %a, 448 d = %a", (double)d, (double)back[2]);
    check_done("a block with an infinity");
}

static void nvfp4(void)
{
    static const struct {
        float of_tensor, amax, factor, d;
    } cases[] = {
        {1, 6, 1, 1},
        {1, 12, 0.5f, 2},
        {1, 0, FLT_MAX, 0},
        {1, 6 * 448, 0x1.24924ap-9f, 448},
        {1, FLT_MAX, 0x1.24924ap-9f, 448},
        {1, INFINITY, 0x1.24924ap-9f, 448},
        {1, 6 * 0x1p-10f, FLT_MAX, 0}, /* b a tie between 0 and 2^-9, to even */
        {1, 6 * 0x1.2p-10f, 0x1p9f, 0x1p-9f},
        {4, 6, 1, 4},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float factor, d;

        plumb_block_scales_nvfp4(cases[i].of_tensor, &cases[i].amax, 1, &factor, &d);
        CHECK(factor == cases[i].factor && d == cases[i].d, "case %zu: factor %a, d %a", i,
              (double)factor, (double)d);
    }
    CHECK(plumb_nvfp4_scale(2688) == 1 && plumb_nvfp4_scale(1344) == 2, "S of 2688, 1344");
    CHECK(plumb_nvfp4_scale(0) == 1 && plumb_nvfp4_scale(INFINITY) == 1,
          "S of 0, infinity");
    CHECK(plumb_nvfp4_scale(0x1p-140f) == FLT_MAX, "S of a subnormal");
    /* The multiplier is that of the rounded b: 6.4 / 6 rounds to 1.125. */
    static const float amax = 6.4f;
    float factor, d;

    plumb_block_scales_nvfp4(1, &amax, 1, &factor, &d);
    CHECK(factor == 1 / 1.125f, "from amax, not from b");
    check_done("the two scales of NVFP4");
}

/* A block whose scale rounds to 0 decodes to 0, so all of its energy is error.  S is 2^112. */
static void lost_block(void)
{
    float x[32] = {2688 * 0x1p-112f}, back[32], d[2];
    uint8_t codes[32];
    plumb_quantized q = {.codes = codes, .d = d};
    plumb_spectrum spectrum = {0};
    const plumb_copies copies = {.along_columns = &q, .spectrum = &spectrum};
    const plumb_source source = {PLUMB_FP32, x, 1, 32, 32};
    plumb_spec spec;
    plumb_error why = {0};

    x[16] = 0x1p-126f;
    CHECK_OK(plumb_spec_parse("e2m1:nvfp4", NULL, &spec, &why), why);
    CHECK_OK(plumb_quantize_copies(&spec, &source, NULL, NULL, true, &copies, &why), why);
    CHECK_OK(plumb_dequantize(&q, back, &why), why);
    CHECK(d[0] == 448 && d[1] == 0 && q.d_tensor == 0x1p-112f, "d %a %a, d_tensor %a",
          (double)d[0], (double)d[1], (double)q.d_tensor);
    CHECK(codes[0] == 7 && codes[16] == 6 && back[0] == x[0] && back[16] == 0,
          "codes %x %x decode to %a %a", codes[0], codes[16], (double)back[0],
          (double)back[16]);
    CHECK(fabs(spectrum.error / 0x1p-252 - 1) < 1e-6, "error energy %a, want 2^-252",
          spectrum.error);
    check_done("a block that NVFP4 loses");
}

/* Whatever was done to the scales, a NaN that is decoded is the one pattern. */
static void one_nan(void)
{
    uint8_t codes[4] = {0x7c, 0xfc, 0x7f, 0xff}; /* E5M2: both infinities, two NaNs */
    static const float wild[] = {0, -0.0f, NAN, -NAN, INFINITY, -1};
    static const plumb_grain grains[] = {PLUMB_GRAIN_TENSOR, PLUMB_GRAIN_MX32,
                                         PLUMB_GRAIN_ROW};

    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        for (size_t j = 0; j < 6; j++) {
            float d[4] = {wild[i], wild[i], wild[i], wild[i]}, back[4];
            const plumb_quantized q = {.format = PLUMB_E5M2,
                                       .grain = grains[j % 3],
                                       .along_rows = j < 3,
                                       .rows = 1,
                                       .cols = 4,
                                       .ld = 4,
                                       .codes = codes,
                                       .d = d};

            CHECK(plumb_dequantize(&q, back, NULL) == PLUMB_OK, "dequantize");
            for (size_t k = 0; k < 4; k++)
                CHECK(!isnan(back[k]) || bits_from(back[k]) == 0x7fc00000,
                      "code %02x times %g is NaN %08x", codes[k], (double)wild[i],
                      bits_from(back[k]));
        }
    }
    check_done("one NaN");
}

int main(void)
{
    boundaries();
    random_amaxes();
    logarithm_trap();
    edges();
    multipliers();
    infinite_block();
    nvfp4();
    lost_block();
    one_nan();
    return check_exit();
}
