/* Quantised matrices against the text of plumb/quant.h: codes by the number line, scales by
 * their formulas in plain arithmetic, counts by looking, for every grain and orientation.
 */
#include "plumb/quant.h"

#include "check.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "plumb/random.h"

/* Value of an 8-bit magnitude; the first code past the largest has the value it would have. */
static double line(plumb_format format, unsigned code)
{
    const int fraction_bits = format == PLUMB_E4M3 ? 3 : 2,
              bias = format == PLUMB_E4M3 ? 7 : 15;
    const int exponent = (int)(code >> fraction_bits);
    const int fraction = (int)(code & ((1u << fraction_bits) - 1u));

    return exponent == 0
               ? ldexp(fraction, 1 - bias - fraction_bits)
               : ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

static unsigned top(plumb_format format)
{
    return format == PLUMB_E4M3 ? 0x7e : 0x7b;
}

/* Nearest on the number line, ties to the even code; saturation after rounding. */
static unsigned cast(plumb_format format, bool saturate, float v, bool *over)
{
    const double x = fabs((double)v);
    unsigned code = 0;

    *over = false;
    if (isnan(v))
        return 0x7f;
    while (code <= top(format) && x >= line(format, code + 1))
        code++;
    if (code <= top(format)) {
        const double middle = (line(format, code) + line(format, code + 1)) / 2;

        if (x > middle || (x == middle && code % 2 == 1))
            code++;
    }
    if (code > top(format)) {
        *over = true;
        code = saturate ? top(format) : format == PLUMB_E4M3 ? 0x7f : 0x7c;
    }
    return code == 0x7f ? 0x7f : code | (signbit(v) ? 0x80u : 0);
}

static uint64_t state = 3;

static uint32_t bits32(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32) ^ (uint32_t)(state >> 13);
}

/* Values over some thirty binades; hostile ones have every kind of special. */
static float draw(bool hostile)
{
    static const float special[] = {0.0f,    -0.0f,  INFINITY, -INFINITY, NAN,
                                    FLT_MAX, 1e-45f, -1e-40f,  FLT_MIN,   448};
    const float x = ldexpf((float)(bits32() % 20001) - 10000, (int)(bits32() % 30) - 20);

    if (hostile && bits32() % 40 == 0)
        return special[bits32() % 10];
    return bits32() % 50 == 0 ? 0 : x;
}

struct block {
    size_t row, row_end, col, col_end, d;
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The k-th scale block of a matrix, straight from the table in the header. */
static bool nth_block(const plumb_spec *spec, size_t rows, size_t cols, bool along_rows,
                      size_t k, struct block *b)
{
    const size_t high = spec->grain == PLUMB_GRAIN_128X128 || along_rows ? 128 : 1;
    const size_t wide = spec->grain == PLUMB_GRAIN_128X128 || !along_rows ? 128 : 1;
    const size_t across = (cols + wide - 1) / wide, down = (rows + high - 1) / high;

    *b = (struct block){0, rows, 0, cols, 0};
    if (spec->grain == PLUMB_GRAIN_TENSOR || k >= across * down)
        return k == 0 && spec->grain == PLUMB_GRAIN_TENSOR;
    *b = (struct block){k / across * high, least((k / across + 1) * high, rows),
                        k % across * wide, least((k % across + 1) * wide, cols), k};
    return true;
}

static float block_amax(const float *x, size_t cols, const struct block *b)
{
    float amax = 0;

    for (size_t r = b->row; r < b->row_end; r++) {
        for (size_t c = b->col; c < b->col_end; c++) {
            const float a = fabsf(x[r * cols + c]);

            if (!isnan(a) && a > amax)
                amax = a;
        }
    }
    return amax;
}

static float power_down(float s)
{
    int e;

    frexpf(s, &e);
    return ldexpf(1, e - 1);
}

static float power_up(float d)
{
    return power_down(d) == d ? d : power_down(d) * 2;
}

/* s of a multiplying spec, d of a dividing one. */
static float factor(const plumb_spec *spec, float amax, float delayed)
{
    const float largest =
        ldexpf(spec->format == PLUMB_E4M3 ? 448.0f : 57344.0f, -spec->margin);

    if (spec->rule == PLUMB_SCALE_NONE)
        return 1;
    if (spec->rule == PLUMB_SCALE_STATIC)
        return spec->static_scale;
    if (spec->rule == PLUMB_SCALE_DELAYED)
        return delayed;
    if (amax < spec->amax_floor)
        amax = spec->amax_floor;
    if (amax == 0 || (isinf(amax) && !spec->divide))
        return 1;
    const float f = spec->divide ? amax / largest : largest / amax;
    if (spec->divide && spec->power_of_two)
        return f < FLT_MIN ? FLT_MIN : f > 0x1p127f ? 0x1p127f : power_up(f);
    if (isinf(f) && !spec->divide)
        return spec->power_of_two ? 0x1p127f : FLT_MAX;
    return spec->power_of_two ? power_down(f) : f;
}

struct outcome {
    uint8_t *codes;
    float *d;
    plumb_quantized q;
    plumb_counts counts;
};

static void expect_counts(const plumb_counts *got, const plumb_counts *want,
                          const char *text)
{
    CHECK(got->total == want->total && got->saturated == want->saturated &&
              got->flushed == want->flushed && got->zero == want->zero &&
              got->nonfinite == want->nonfinite && got->amax == want->amax &&
              got->code_amax == want->code_amax,
          "%s: counts %llu %llu %llu %llu %llu %a %a, want %llu %llu %llu %llu %llu %a %a",
          text, (unsigned long long)got->total, (unsigned long long)got->saturated,
          (unsigned long long)got->flushed, (unsigned long long)got->zero,
          (unsigned long long)got->nonfinite, (double)got->amax, (double)got->code_amax,
          (unsigned long long)want->total, (unsigned long long)want->saturated,
          (unsigned long long)want->flushed, (unsigned long long)want->zero,
          (unsigned long long)want->nonfinite, (double)want->amax, (double)want->code_amax);
}

static void count(plumb_counts *counts, plumb_format format, float x, float product,
                  unsigned code, bool over)
{
    const float magnitude = fabsf(x);

    counts->total++;
    counts->saturated += over && isfinite(x) && !isnan(product);
    counts->flushed += (uint64_t)((code & 0x7fu) == 0 && x != 0);
    counts->zero += x == 0;
    counts->nonfinite += isfinite(x) ? 0 : 1;
    if (!isnan(x) && magnitude > counts->amax)
        counts->amax = magnitude;
    if ((code & 0x7fu) <= top(format) &&
        (float)line(format, code & 0x7fu) > counts->code_amax)
        counts->code_amax = (float)line(format, code & 0x7fu);
}

static void check_block(const plumb_spec *spec, const float *x, size_t cols,
                        const struct block *b, float delayed, const struct outcome *got,
                        const float *decoded, plumb_counts *counts, const char *text)
{
    const float f = factor(spec, block_amax(x, cols, b), delayed);
    const float d = spec->divide ? f : 1 / f;

    if (spec->rule != PLUMB_SCALE_NONE)
        CHECK(memcmp(&got->d[b->d], &d, sizeof d) == 0, "%s: d[%zu] = %a, want %a", text,
              b->d, (double)got->d[b->d], (double)d);
    for (size_t r = b->row; r < b->row_end; r++) {
        for (size_t c = b->col; c < b->col_end; c++) {
            const size_t i = r * cols + c;
            const float product = spec->divide ? x[i] / f : x[i] * f;
            bool over;
            const unsigned code = cast(spec->format, spec->saturate, product, &over);
            const bool special = (code & 0x7fu) > top(spec->format);
            const float value =
                (float)line(spec->format, code & 0x7fu) * (code & 0x80u ? -1.0f : 1.0f) * d;

            count(counts, spec->format, x[i], product, code, over);
            CHECK(got->codes[i] == code, "%s: code[%zu, %zu] of %a is %02x, want %02x",
                  text, r, c, (double)x[i], got->codes[i], code);
            if (!special && !isnan(value))
                CHECK(memcmp(&decoded[i], &value, sizeof value) == 0,
                      "%s: [%zu, %zu] decodes to %a, want %a", text, r, c,
                      (double)decoded[i], (double)value);
            else
                CHECK(!isfinite(decoded[i]), "%s: [%zu, %zu] decodes to %a", text, r, c,
                      (double)decoded[i]);
        }
    }
}

static void one(const char *text, size_t rows, size_t cols, bool along_rows, bool hostile)
{
    plumb_spec spec = {0};
    plumb_error why = {0};
    struct outcome got = {0};
    plumb_counts want = {0};
    plumb_scale_state delayed;
    size_t bytes, scales, k = 0;
    struct block b;

    CHECK_OK(plumb_spec_parse(text, NULL, &spec, &why), why);
    CHECK_OK(plumb_quantized_need(&spec, rows, cols, along_rows, &bytes, &scales, &why),
             why);
    CHECK(bytes == rows * cols, "%s: %zu bytes", text, bytes);
    float *x = malloc((rows * cols + 1) * sizeof *x);
    float *decoded = malloc((rows * cols + 1) * sizeof *decoded);
    got.codes = malloc(bytes + 1);
    got.d = malloc((scales + 1) * sizeof *got.d);
    got.q.codes = got.codes;
    got.q.d = got.d;
    got.codes[bytes] = 0x5a;
    got.d[scales] = 12345;
    for (size_t i = 0; i < rows * cols; i++)
        x[i] = draw(hostile);
    plumb_scale_state_init(&delayed);
    delayed.scale = 0.75f;
    delayed.pending = 0.5f;

    CHECK_OK(plumb_quantize(&spec, x, rows, cols, along_rows, &delayed, true, &got.q,
                            &got.counts, &why),
             why);
    CHECK(got.codes[bytes] == 0x5a && got.d[scales] == 12345, "%s: written past the end",
          text);
    CHECK(got.q.rows == rows && got.q.cols == cols && got.q.ld == cols &&
              got.q.along_rows == along_rows && got.q.grain == spec.grain &&
              got.q.format == spec.format,
          "%s: fields", text);
    CHECK((got.q.d == NULL) == (spec.rule == PLUMB_SCALE_NONE), "%s: d", text);
    CHECK_OK(plumb_dequantize(&got.q, decoded, &why), why);
    while (nth_block(&spec, rows, cols, along_rows, k++, &b))
        check_block(&spec, x, cols, &b, delayed.scale, &got, decoded, &want, text);
    CHECK(spec.rule == PLUMB_SCALE_NONE || k - 1 == scales, "%s: %zu scales, want %zu",
          text, scales, k - 1);
    expect_counts(&got.counts, &want, text);
    if (spec.rule == PLUMB_SCALE_DELAYED)
        CHECK(delayed.pending == (want.amax > 0.5f ? want.amax : 0.5f) &&
                  delayed.scale == 0.75f,
              "%s: pending %a after amax %a", text, (double)delayed.pending,
              (double)want.amax);
    else
        CHECK(delayed.pending == 0.5f, "%s: the state of another rule was raised", text);
    free(x), free(decoded), free(got.codes), free(got.d);
}

static void matrices(void)
{
    static const char *const texts[] = {
        "e4m3",
        "e5m2:overflow",
        "e4m3:none",
        "e5m2:none:overflow",
        "e4m3:static=0.3",
        "e4m3:delayed",
        "e5m2:delayed:overflow",
        "e4m3:margin=2:pow2",
        "e4m3:1x128",
        "e4m3:1x128:pow2:overflow",
        "e5m2:1x128:static=3",
        "e4m3:1x128:divide:floor=1e-4",
        "e4m3:1x128:divide:pow2",
        "e4m3:128x128",
        "e4m3:128x128:divide:floor=1e-4:margin=1",
        "e5m2:128x128:floor=100",
        "e4m3:128x128:none",
    };
    static const size_t shapes[][2] = {{1, 1},     {3, 5},     {1, 300},   {300, 1},
                                       {130, 257}, {128, 128}, {127, 129}, {5, 0}};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j++) {
            one(texts[i], shapes[j][0], shapes[j][1], false, j % 2 == 1);
            one(texts[i], shapes[j][0], shapes[j][1], true, j % 2 == 0);
        }
    }
    check_done("every grain, rule and orientation");
}

/* bf16 and fp32: no scales, whatever the other fields say. */
static void wide_formats(void)
{
    const plumb_spec wide = {.format = PLUMB_BF16,
                             .grain = PLUMB_GRAIN_1X128,
                             .rule = PLUMB_SCALE_CURRENT,
                             .saturate = true};
    const plumb_spec single = {.format = PLUMB_FP32};
    const float x[4] = {1, 0x1.01p0f, FLT_MAX, -0.0f}; /* a tie, to even; past 0x1.fep127 */
    float d = 9, codes[4], back[4];
    plumb_quantized q = {.codes = codes, .d = &d};
    plumb_counts counts = {0};
    size_t bytes, scales;
    plumb_error why = {0};

    CHECK_OK(plumb_quantized_need(&wide, 2, 2, false, &bytes, &scales, &why), why);
    CHECK(bytes == 8 && scales == 0, "bf16 needs %zu bytes, %zu scales", bytes, scales);
    CHECK_OK(plumb_quantize(&wide, x, 2, 2, false, NULL, true, &q, &counts, &why), why);
    CHECK(q.d == NULL && q.grain == PLUMB_GRAIN_TENSOR, "bf16 has scales");
    CHECK_OK(plumb_dequantize(&q, back, &why), why);
    CHECK(back[0] == 1 && back[1] == 1 && isinf(back[2]) && signbit(back[3]),
          "bf16: %a %a %a %a", (double)back[0], (double)back[1], (double)back[2],
          (double)back[3]);
    CHECK(counts.saturated == 1 && counts.zero == 1, "bf16 counts");
    q = (plumb_quantized){.codes = codes, .d = &d};
    CHECK_OK(plumb_quantize(&single, x, 1, 4, true, NULL, true, &q, NULL, &why), why);
    CHECK(memcmp(codes, x, sizeof x) == 0 && q.d == NULL, "fp32 is not itself");
    check_done("bf16 and fp32");
}

/* 1 + 2^-9 lies a quarter of a step above 1: up where the element's word is below 2^30, whatever the
 * axis, and never without a draw.
 */
static void wide_stochastic(void)
{
    enum { ROWS = 37, COLS = 55, N = ROWS * COLS };
    const plumb_draw draw = {9, 12};
    float x[N], back[N];
    uint16_t codes[N];
    plumb_spec spec;
    plumb_error why = {0};

    CHECK_OK(plumb_spec_parse("bf16:stochastic", NULL, &spec, &why), why);
    for (size_t i = 0; i < N; i++)
        x[i] = 0x1.008p0f;
    for (int along_rows = 0; along_rows < 2; along_rows++) {
        const plumb_source source = {PLUMB_FP32, x, ROWS, COLS, COLS};
        plumb_quantized q = {.codes = codes};
        const plumb_copies copies = {.along_columns = along_rows ? NULL : &q,
                                     .along_rows = along_rows ? &q : NULL};

        CHECK_OK(plumb_quantize_copies(&spec, &source, &draw, NULL, true, &copies, &why),
                 why);
        CHECK_OK(plumb_dequantize(&q, back, &why), why);
        for (size_t i = 0; i < N; i++) {
            uint32_t words[4];

            plumb_random_bits(9, 12, i / 4, words);
            const float want = words[i % 4] < 1u << 30 ? 0x1.02p0f : 1;

            CHECK(back[i] == want, "element %zu is %a, want %a", i, (double)back[i],
                  (double)want);
        }
        CHECK(plumb_quantize_copies(&spec, &source, NULL, NULL, true, &copies, &why) ==
                  PLUMB_BAD_ARGUMENT,
              "stochastic without a draw");
    }
    check_done("bf16 with stochastic rounding");
}

static void delayed_state(void)
{
    plumb_spec spec;
    const float x[2] = {3, -5};
    uint8_t codes[2];
    float d, least, largest;
    plumb_quantized q = {.codes = codes, .d = &d};
    plumb_scale_state s, before;
    plumb_error why = {0};

    CHECK_OK(plumb_spec_parse("e4m3:delayed", NULL, &spec, &why), why);
    plumb_scale_state_init(&s);
    s.scale = 2;
    before = s;
    CHECK_OK(plumb_quantize(&spec, x, 1, 2, false, &s, false, &q, NULL, &why), why);
    CHECK(memcmp(&s, &before, sizeof s) == 0, "update = false changed the state");
    CHECK(codes[0] == 0x4c && codes[1] == 0xd2 && d == 0.5f, "6 and -10: %02x %02x, d %g",
          codes[0], codes[1], (double)d); /* 1.5 * 2^2, -1.25 * 2^3 */
    plumb_quantized_scale_range(&q, &least, &largest);
    CHECK(least == 2 && largest == 2, "range %g to %g", (double)least, (double)largest);
    CHECK_OK(plumb_quantize(&spec, x, 1, 1, false, &s, true, &q, NULL, &why), why);
    CHECK(s.pending == 3, "pending %g", (double)s.pending);
    CHECK_OK(plumb_quantize(&spec, x, 1, 2, false, &s, true, &q, NULL, &why), why);
    CHECK_OK(plumb_quantize(&spec, x, 1, 1, false, &s, true, &q, NULL, &why), why);
    CHECK(s.pending == 5, "pending %g is not the largest of all micro-batches",
          (double)s.pending);
    CHECK_OK(plumb_quantize(&spec, x, 1, 2, false, NULL, false, &q, NULL, &why), why);
    CHECK(d == 1, "without a state d = %g", (double)d);
    CHECK(plumb_quantize(&spec, x, 1, 2, false, NULL, true, &q, NULL, &why) ==
              PLUMB_BAD_ARGUMENT,
          "an update without a state");
    check_done("delayed state");
}

static void ranges_and_refusals(void)
{
    float d[4] = {0.5f, 2, 0.25f, 1}, least, largest;
    plumb_quantized q = {PLUMB_E4M3, PLUMB_GRAIN_1X128, true, 129, 2, 2, NULL, d, 0};
    plumb_spec spec = {.format = PLUMB_E4M3, .rule = PLUMB_SCALE_CURRENT};
    size_t bytes, scales;

    plumb_quantized_scale_range(&q, &least, &largest);
    CHECK(least == 0.5f && largest == 4, "range %g to %g", (double)least, (double)largest);
    q.d = NULL;
    plumb_quantized_scale_range(&q, &least, &largest);
    CHECK(least == 1 && largest == 1, "range %g to %g without d", (double)least,
          (double)largest);
    CHECK(plumb_quantized_need(&spec, SIZE_MAX / 2, 3, false, &bytes, &scales, NULL) ==
              PLUMB_BAD_SHAPE,
          "sizes that wrap");
    spec.margin = -1;
    CHECK(plumb_quantized_need(&spec, 1, 1, false, &bytes, &scales, NULL) ==
              PLUMB_BAD_ARGUMENT,
          "margin -1");
    spec.margin = 0;
    spec.format = PLUMB_FORMAT_COUNT;
    CHECK(plumb_quantized_need(&spec, 1, 1, false, &bytes, &scales, NULL) ==
              PLUMB_BAD_FORMAT,
          "a format that does not exist");
    check_done("scale range and refusals");
}

int main(void)
{
    matrices();
    wide_formats();
    wide_stochastic();
    delayed_state();
    ranges_and_refusals();
    return check_exit();
}
