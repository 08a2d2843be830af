/* The casts at their named edges: the rules of formats one by one in every variant, scales that
 * multiply and divide, refusals, dispatch.
 */
#include "check.h"
#include "kernel/cast_edges.h"
#include "kernel/cast_kit.h"

static float a_nan(void)
{
    return float_from(0xffc12345); /* negative, with a payload */
}

/* One value alone, so that the counts show its fate. */
static void check_edge(const plumb_encode_kernel *k, const edge *e, bool toward_zero,
                       bool saturate)
{
    const float x = isnan(e->x) ? a_nan() : (float)e->x;
    const uint32_t want = toward_zero ? (saturate ? e->zero : e->zero_open)
                                      : (saturate ? e->nearest : e->nearest_open);
    const enum fate fate = toward_zero ? e->zero_fate : e->fate;
    const bool out = fate == SATURATED || fate == LOW;
    const plumb_cast how = {.format = k->format,
                            .saturate = saturate,
                            .scale = 1.0f,
                            .rounding = toward_zero ? PLUMB_ROUND_TOWARD_ZERO
                                                    : PLUMB_ROUND_NEAREST_EVEN};
    const float value = fabsf(plumb_format_value(k->format, want));
    plumb_counts c = {0};
    uint32_t code = 0;

    encode(k, &how, &x, 1, &code, &c);
    CHECK(code == want, "%s%s%s: %s: %a = %x, want %x", k->name,
          toward_zero ? " toward zero" : "", saturate ? " saturating" : "", e->rule,
          (double)x, code, want);
    CHECK(c.total == 1 && c.saturated == out && c.clipped == (out || fate == CLIPPED) &&
              c.flushed == (fate == FLUSHED) && c.zero == (fate == ZERO) &&
              c.nonfinite == (fate == NONFINITE),
          "%s: %s: counts %d %d %d %d %d", k->name, e->rule, (int)c.saturated,
          (int)c.clipped, (int)c.flushed, (int)c.zero, (int)c.nonfinite);
    CHECK(c.amax == (isnan(x) ? 0 : fabsf(x)), "%s: %s: amax %a", k->name, e->rule,
          (double)c.amax);
    CHECK(c.code_amax == (isfinite(value) ? value : 0), "%s: %s: code amax %a", k->name,
          e->rule, (double)c.code_amax);
}

static void edges_of(plumb_format format)
{
    for (size_t i = 0; i < plumb_encode_kernel_count; i++) {
        const plumb_encode_kernel *k = &plumb_encode_kernels[i];

        if (k->format != format || !can_run(k->cpu))
            continue;
        for (size_t j = 0; j < 4 * EDGES; j++)
            if (edges[j / 4].format == format)
                check_edge(k, &edges[j / 4], j & 1, j & 2);
    }
    check_done(plumb_format_get(format)->name);
}

/* --- scales ----------------------------------------------------------------- */

/* The magnitude of a code; the one past the largest as if exponents had no end. */
static double line_value(plumb_format format, uint32_t code)
{
    const plumb_format_info *f = plumb_format_get(format);
    const double top = (double)f->largest;

    if (code <= f->largest_code)
        return (double)plumb_format_value(format, code);
    return format == PLUMB_E8M0
               ? 2 * top
               : 2 * top - (double)plumb_format_value(format, f->largest_code - 1);
}

/* The nearest code by halving the number line: slow, but it rounds nothing. */
static uint32_t nearest_code(plumb_format format, double magnitude)
{
    uint32_t low = 0, high = plumb_format_get(format)->largest_code + 1;

    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        const double tie =
            (line_value(format, middle) + line_value(format, middle + 1)) / 2;

        if (magnitude > tie || (magnitude == tie && middle % 2 != 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* What an 8-bit format or a smaller one makes of a product. */
static uint32_t slow_code(plumb_format format, bool saturate, float product)
{
    const plumb_format_info *f = plumb_format_get(format);
    const bool none = f->special == PLUMB_SPECIAL_NONE;
    const uint32_t nan = none ? f->largest_code : f->nan_code;
    const uint32_t infinity = f->has_infinity ? f->largest_code + 1 : nan;
    const uint32_t sign = signbit(product) ? 1u << (f->bits - 1) : 0;
    uint32_t code = nearest_code(format, fabs((double)product));

    if (isnan(product))
        return nan;
    if (!f->is_signed && ((sign != 0 && (code != 0 || format == PLUMB_E8M0)) ||
                          (product == 0 && format == PLUMB_E8M0)))
        return saturate ? 0 : nan;
    if (code > f->largest_code)
        code = saturate ? f->largest_code : infinity;
    if (!f->is_signed || (code == nan && !none))
        return code;
    return f->special == PLUMB_SPECIAL_FNUZ && code == 0 ? 0 : code | sign;
}

static void scaled(const plumb_encode_kernel *k, float scale)
{
    enum { N = 257 };
    static float x[N];
    static uint8_t codes[N];

    for (int mode = 0; mode < 4; mode++) {
        const plumb_cast how = {
            .format = k->format, .saturate = mode & 1, .divide = mode & 2, .scale = scale};
        plumb_counts counts = {0};

        for (int i = 0; i < N; i++)
            x[i] = any_float();
        encode(k, &how, x, N, codes, &counts);
        for (int i = 0; i < N; i++) {
            const volatile float product = how.divide ? x[i] / scale : x[i] * scale;
            const uint32_t want = slow_code(k->format, how.saturate, product);

            CHECK(codes[i] == want, "%s: %a %c %a = %02x, want %02x", k->name, (double)x[i],
                  how.divide ? '/' : '*', (double)scale, codes[i], want);
        }
    }
}

static void scales(void)
{
    static const float list[] = {1.0f,      3.7f,    1.0f / 3, 448.0f, 0x1p-20f, 0x1p60f,
                                 0x1p-149f, FLT_MAX, 0.0f,     -2.0f,  INFINITY, NAN};

    for (size_t i = 0; i < plumb_encode_kernel_count; i++)
        for (size_t s = 0; s < sizeof list / sizeof list[0]; s++)
            if (plumb_format_get(plumb_encode_kernels[i].format)->bytes == 1 &&
                can_run(plumb_encode_kernels[i].cpu))
                scaled(&plumb_encode_kernels[i], list[s]);
    check_done("scales, multiplied and divided by");
}

/* Ties times an odd number, divided by it: a division that multiplies by the reciprocal
 * misses some of the ties.
 */
static void divided_ties(const plumb_encode_kernel *k)
{
    const uint32_t n = plumb_format_get(k->format)->largest_code;

    for (int odd = 3; odd < 64; odd += 2) {
        const plumb_cast how = {
            .format = k->format, .saturate = true, .divide = true, .scale = (float)odd};
        float x[0x7f];
        uint8_t codes[0x7f];
        plumb_counts counts = {0};

        for (uint32_t c = 0; c < n; c++)
            x[c] = (float)((line_value(k->format, c) + line_value(k->format, c + 1)) / 2 *
                           odd);
        encode(k, &how, x, n, codes, &counts);
        for (uint32_t c = 0; c < n; c++)
            CHECK(codes[c] == c + c % 2, "%s: %a / %d = %02x, want %02x", k->name,
                  (double)x[c], odd, codes[c], c + c % 2);
    }
}

static void divisions(void)
{
    for (size_t i = 0; i < plumb_encode_kernel_count; i++) {
        const plumb_encode_kernel *k = &plumb_encode_kernels[i];

        /* Products of e8m0 leave fp32. */
        if (plumb_format_get(k->format)->bytes == 1 && k->format != PLUMB_E8M0 &&
            can_run(k->cpu))
            divided_ties(k);
    }
    check_done("a division divides");
}

/* What counts say when the scale does it: 2^127 * 4 is infinite, but its source is not. */
static void scaled_counts(void)
{
    static const float x[] = {0x1p127f, 0x1p-120f, 0.0f, 448.0f, -3.0f, 115.0f};
    const plumb_cast how = {.format = PLUMB_E4M3, .scale = 4.0f};
    plumb_counts c = {0};
    uint8_t codes[6];

    plumb_cast_encode(&how, x, 6, codes, &c);
    CHECK(codes[0] == 0x7f && codes[1] == 0 && codes[3] == 0x7f && codes[4] == 0xd4 &&
              codes[5] == 0x7e,
          "codes %02x %02x %02x %02x %02x", codes[0], codes[1], codes[3], codes[4],
          codes[5]);
    CHECK(c.total == 6 && c.saturated == 2 && c.clipped == 3 && c.flushed == 1 &&
              c.zero == 1 && c.nonfinite == 0,
          "counts %d %d %d %d %d", (int)c.saturated, (int)c.clipped, (int)c.flushed,
          (int)c.zero, (int)c.nonfinite);
    CHECK(c.amax == 0x1p127f && c.code_amax == 448.0f, "amax %a, code amax %a",
          (double)c.amax, (double)c.code_amax);
    check_done("counts under a scale");
}

/* Toward zero, a product that overflows fp32 is an infinity and obeys saturate. */
static void overflowing_product(void)
{
    const float x = 0x1p127f;
    plumb_cast how = {
        .format = PLUMB_E5M2, .scale = 4.0f, .rounding = PLUMB_ROUND_TOWARD_ZERO};
    plumb_counts c = {0};
    uint8_t code = 0;

    plumb_cast_encode(&how, &x, 1, &code, &c);
    CHECK(code == 0x7c && c.saturated == 1 && c.clipped == 1, "%02x", code);
    how.saturate = true;
    plumb_cast_encode(&how, &x, 1, &code, &c);
    CHECK(code == 0x7b && c.saturated == 2 && c.nonfinite == 0, "%02x", code);
    check_done("a product that overflows, toward zero");
}

/* Scales that a failing run may come to. */
static void broken_scales(void)
{
    static const float x[] = {0.0f, 1.0f, -1.0f};

    for (size_t i = 0; i < plumb_encode_kernel_count; i++) {
        const plumb_encode_kernel *k = &plumb_encode_kernels[i];
        plumb_cast how = {.format = k->format, .saturate = true, .scale = INFINITY};
        plumb_counts c = {0}, d = {0}, e = {0};
        uint8_t codes[3];

        if ((k->format != PLUMB_E4M3 && k->format != PLUMB_E5M2) || !can_run(k->cpu))
            continue;
        encode(k, &how, x, 3, codes, &c); /* NaN, infinity, -infinity */
        CHECK(codes[0] == 0x7f && c.saturated == 2 && c.clipped == 2 && c.zero == 1 &&
                  c.nonfinite == 0,
              "%s times infinity: code %02x, saturated %d", k->name, codes[0],
              (int)c.saturated);
        how.scale = NAN;
        encode(k, &how, x, 3, codes, &d);
        CHECK(codes[1] == 0x7f && codes[2] == 0x7f && d.saturated == 0 && d.clipped == 0 &&
                  d.flushed == 0 && d.code_amax == 0 && d.amax == 1,
              "%s times NaN: saturated %d", k->name, (int)d.saturated);
        how.scale = 0;
        encode(k, &how, x, 3, codes, &e);
        CHECK(codes[1] == 0 && codes[2] == 0x80 && e.flushed == 2 && e.zero == 1,
              "%s times zero: flushed %d", k->name, (int)e.flushed);
    }
    check_done("scales zero, infinite and NaN");
}

/* --- refusals, the tables -------------------------------------------------------- */

static void refusals(void)
{
    static const plumb_format wide[] = {PLUMB_FP32, PLUMB_BF16, PLUMB_FP16, PLUMB_TF32};
    const float x[2] = {1, 2};
    uint32_t codes[2] = {7, 7};
    plumb_counts c = {0};
    plumb_cast how = {.format = PLUMB_FORMAT_COUNT, .saturate = true, .scale = 1.0f};
    float back = 5;

    CHECK(plumb_cast_encode(&how, x, 2, codes, &c) == PLUMB_BAD_FORMAT, "a bad format");
    for (size_t i = 0; i < 4; i++) {
        how = (plumb_cast){.format = wide[i], .scale = 2.0f};
        CHECK(plumb_cast_encode(&how, x, 2, codes, &c) == PLUMB_BAD_ARGUMENT, "%s times 2",
              plumb_format_get(wide[i])->name);
        how.scale = NAN;
        CHECK(plumb_cast_encode(&how, x, 2, codes, &c) == PLUMB_BAD_ARGUMENT, "%s by NaN",
              plumb_format_get(wide[i])->name);
    }
    how = (plumb_cast){.format = PLUMB_E4M3, .scale = 1, .rounding = (plumb_rounding)3};
    CHECK(plumb_cast_encode(&how, x, 2, codes, &c) == PLUMB_BAD_ARGUMENT, "a rounding");
    how = (plumb_cast){.format = PLUMB_E4M3, .scale = 1, .dither = (plumb_dither)-1};
    CHECK(plumb_cast_encode(&how, x, 2, codes, &c) == PLUMB_BAD_ARGUMENT, "a dither");
    how = (plumb_cast){.format = PLUMB_E4M3, .scale = 1};
    CHECK(plumb_cast_encode_measured(&how, PLUMB_FP16, x, 2, codes, &c, NULL) ==
              PLUMB_BAD_FORMAT,
          "an fp16 source");
    CHECK(codes[0] == 7 && codes[1] == 7 && c.total == 0, "something was written");
    CHECK(plumb_cast_decode((plumb_format)-1, 1, codes, 1, &back) == PLUMB_BAD_FORMAT &&
              back == 5,
          "decoding a bad format");
    check_done("refusals");
}

/* What dispatch relies on: formats in order, of each the reference first, needs that grow. */
static plumb_format row_after(plumb_format before, unsigned cpu_before, plumb_format format,
                              unsigned cpu, const char *name)
{
    const char *const of = plumb_format_get(format)->name;
    const size_t length = strlen(of);
    const bool first = cpu == PLUMB_CPU_BASELINE;

    CHECK((int)format == (int)before + (first ? 1 : 0), "row %s", name);
    CHECK(first || cpu >= cpu_before, "row %s needs less than the one before", name);
    CHECK(strncmp(name, of, length) == 0 && name[length] == '/', "a row of %s is named %s",
          of, name);
    return format;
}

static void tables(void)
{
    plumb_format format = (plumb_format)-1;

    for (size_t i = 0; i < plumb_encode_kernel_count; i++) {
        const plumb_encode_kernel *k = &plumb_encode_kernels[i];

        format = row_after(format, i > 0 ? k[-1].cpu : 0, k->format, k->cpu, k->name);
    }
    CHECK((int)format == PLUMB_FORMAT_COUNT - 1, "encoding ends with %d", (int)format);
    format = (plumb_format)-1;
    for (size_t i = 0; i < plumb_decode_kernel_count; i++) {
        const plumb_decode_kernel *k = &plumb_decode_kernels[i];

        format = row_after(format, i > 0 ? k[-1].cpu : 0, k->format, k->cpu, k->name);
    }
    CHECK((int)format == PLUMB_FORMAT_COUNT - 1, "decoding ends with %d", (int)format);
    check_done("the tables are in order");
}

/* Dispatch under each CPU level reaches kernels that agree. */
static void levels(void)
{
    static const char *const names[] = {"baseline", "avx2", "avx512"};
    float x[100], y[100];
    uint8_t codes[100], first[100];
    const plumb_cast how = {.format = PLUMB_E4M3, .saturate = true, .scale = 100.0f};

    for (int i = 0; i < 100; i++)
        x[i] = any_float();
    for (int l = 0; l < 3; l++) {
        unsigned mask = 0;

        plumb_cpu_parse(names[l], &mask);
        plumb_cpu_limit(mask);
        CHECK(plumb_cast_encode(&how, x, 100, l == 0 ? first : codes, NULL) == PLUMB_OK,
              "%s", names[l]);
        CHECK(l == 0 || memcmp(first, codes, sizeof codes) == 0, "%s differs", names[l]);
        CHECK(plumb_cast_decode(PLUMB_E4M3, 1.0f, first, 100, y) == PLUMB_OK, "%s",
              names[l]);
        CHECK(bits_from(y[9]) == bits_from(plumb_format_decode_table(PLUMB_E4M3)[first[9]]),
              "decoded %a", (double)y[9]);
        CHECK(isinf(plumb_cast_amax(x, 100)) || plumb_cast_amax(x, 100) > 0, "amax");
    }
    check_done("dispatch");
}

int main(void)
{
    for (int f = 0; f < PLUMB_FORMAT_COUNT; f++)
        edges_of((plumb_format)f);
    scales();
    divisions();
    scaled_counts();
    overflowing_product();
    broken_scales();
    refusals();
    tables();
    levels();
    return check_exit();
}
