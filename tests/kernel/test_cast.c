/* The casts at their named edges: the rules of formats one by one, scales, sizes and
 * alignment, equality of variants in bytes and counts, decoding of every code, refusals.
 */
#include "check.h"
#include "kernel/cast.h"
#include "kernel/number_line.h"

static bool can_run(unsigned needs)
{
    return (needs & ~plumb_cpu_flags()) == 0;
}

static void encode(const plumb_encode_kernel *k, const plumb_cast *how, const float *x,
                   size_t n, void *codes, plumb_counts *counts)
{
    const plumb_encode_job job = {
        .how = how, .source = PLUMB_FP32, .x = x, .n = n, .codes = codes, .counts = counts};

    k->run(&job);
}

static float infinite(void)
{
    return float_from(0x7f800000);
}

static float a_nan(void)
{
    return float_from(0xffc12345); /* negative, with a payload */
}

enum fate { PLAIN = 0, SATURATED, FLUSHED, ZERO, NONFINITE };

typedef struct edge {
    double x;                         /* a float, or for NaN anything */
    uint32_t saturating, overflowing; /* the two codes */
    enum fate fate;
} edge;

static const edge edges_e4m3[] = {
    {448, 0x7e, 0x7e, PLAIN},
    {464, 0x7e, 0x7e, PLAIN}, /* tie with the absent 480: 448 is even */
    {0x1.d00002p8, 0x7e, 0x7f, SATURATED},
    {-0x1.d00002p8, 0xfe, 0x7f, SATURATED}, /* one NaN, without sign */
    {480, 0x7e, 0x7f, SATURATED},
    {(double)FLT_MAX, 0x7e, 0x7f, SATURATED},
    {-(double)FLT_MAX, 0xfe, 0x7f, SATURATED},
    {0x1p-6, 0x08, 0x08, PLAIN},   /* least normal */
    {0x1.ep-7, 0x08, 0x08, PLAIN}, /* tie of the largest subnormal with it */
    {0x1.dffffep-7, 0x07, 0x07, PLAIN},
    {0x1p-9, 0x01, 0x01, PLAIN},    /* least subnormal */
    {0x1p-10, 0x00, 0x00, FLUSHED}, /* tie with zero */
    {-0x1p-10, 0x80, 0x80, FLUSHED},
    {0x1.000002p-10, 0x01, 0x01, PLAIN},
    {0x1.8p-9, 0x02, 0x02, PLAIN}, /* ties to even */
    {0x1.4p-8, 0x02, 0x02, PLAIN},
    {1.0625, 0x38, 0x38, PLAIN}, /* tie, down to even */
    {1.1875, 0x3a, 0x3a, PLAIN}, /* tie, up to even */
    {0x1p-149, 0x00, 0x00, FLUSHED},
    {-0x1p-149, 0x80, 0x80, FLUSHED},
    {0x1.fffffcp-127, 0x00, 0x00, FLUSHED},
    {0.0, 0x00, 0x00, ZERO},
    {-0.0, 0x80, 0x80, ZERO},
    {(double)INFINITY, 0x7e, 0x7f, NONFINITE},
    {-(double)INFINITY, 0xfe, 0x7f, NONFINITE},
    {(double)NAN, 0x7f, 0x7f, NONFINITE},
};

static const edge edges_e5m2[] = {
    {57344, 0x7b, 0x7b, PLAIN},
    {0x1.dffffep15, 0x7b, 0x7b, PLAIN}, /* just below 61440 */
    {61440, 0x7b, 0x7c, SATURATED},     /* tie with the absent 65536: 57344 is odd */
    {-61440, 0xfb, 0xfc, SATURATED},
    {(double)FLT_MAX, 0x7b, 0x7c, SATURATED},
    {0x1p-14, 0x04, 0x04, PLAIN},
    {0x1.cp-15, 0x04, 0x04, PLAIN},
    {0x1.bffffep-15, 0x03, 0x03, PLAIN},
    {0x1p-16, 0x01, 0x01, PLAIN},
    {0x1p-17, 0x00, 0x00, FLUSHED},
    {0x1.000002p-17, 0x01, 0x01, PLAIN},
    {0x1.8p-16, 0x02, 0x02, PLAIN},
    {0x1.4p-15, 0x02, 0x02, PLAIN},
    {1.125, 0x3c, 0x3c, PLAIN},
    {1.375, 0x3e, 0x3e, PLAIN},
    {-0x1p-149, 0x80, 0x80, FLUSHED},
    {0.0, 0x00, 0x00, ZERO},
    {-0.0, 0x80, 0x80, ZERO},
    {(double)INFINITY, 0x7b, 0x7c, NONFINITE},
    {-(double)INFINITY, 0xfb, 0xfc, NONFINITE},
    {(double)NAN, 0x7f, 0x7f, NONFINITE},
};

static const edge edges_bf16[] = {
    {1.0, 0x3f80, 0x3f80, PLAIN},
    {0x1.01p0, 0x3f80, 0x3f80, PLAIN}, /* tie, down to even */
    {0x1.03p0, 0x3f82, 0x3f82, PLAIN}, /* tie, up to even */
    {0x1.fep127, 0x7f7f, 0x7f7f, PLAIN},
    {0x1.fefffep127, 0x7f7f, 0x7f7f, PLAIN},
    {0x1.ffp127, 0x7f7f, 0x7f80, SATURATED},
    {-(double)FLT_MAX, 0xff7f, 0xff80, SATURATED},
    {0x1p-133, 0x0001, 0x0001, PLAIN},
    {0x1p-134, 0x0000, 0x0000, FLUSHED},
    {-0x1p-134, 0x8000, 0x8000, FLUSHED},
    {0x1.0002p-134, 0x0001, 0x0001, PLAIN},
    {0.0, 0x0000, 0x0000, ZERO},
    {-0.0, 0x8000, 0x8000, ZERO},
    {(double)INFINITY, 0x7f7f, 0x7f80, NONFINITE},
    {-(double)INFINITY, 0xff7f, 0xff80, NONFINITE},
    {(double)NAN, 0x7fc0, 0x7fc0, NONFINITE},
};

static const edge edges_fp32[] = {
    {1.0, 0x3f800000, 0x3f800000, PLAIN},
    {-0x1p-149, 0x80000001, 0x80000001, PLAIN},
    {(double)FLT_MAX, 0x7f7fffff, 0x7f7fffff, PLAIN},
    {0.0, 0, 0, ZERO},
    {-0.0, 0x80000000, 0x80000000, ZERO},
    {(double)INFINITY, 0x7f7fffff, 0x7f800000, NONFINITE},
    {-(double)INFINITY, 0xff7fffff, 0xff800000, NONFINITE},
    {(double)NAN, 0x7fc00000, 0x7fc00000, NONFINITE},
};

/* One value alone, so that the counts show its fate. */
static void check_edge(const plumb_encode_kernel *k, const edge *e, bool saturate)
{
    const float x = isnan(e->x) ? a_nan() : (float)e->x;
    const uint32_t want = saturate ? e->saturating : e->overflowing;
    const plumb_cast how = {.format = k->format, .saturate = saturate, .scale = 1.0f};
    plumb_counts c = {0};
    uint32_t code = 0;

    encode(k, &how, &x, 1, &code, &c);
    CHECK(code == want, "%s%s(%a) = %x, want %x", k->name, saturate ? " saturating" : "",
          (double)x, code, want);
    CHECK(c.total == 1 && c.saturated == (e->fate == SATURATED) &&
              c.flushed == (e->fate == FLUSHED) && c.zero == (e->fate == ZERO) &&
              c.nonfinite == (e->fate == NONFINITE),
          "%s(%a): counts %d %d %d %d", k->name, (double)x, (int)c.saturated,
          (int)c.flushed, (int)c.zero, (int)c.nonfinite);
    CHECK(c.amax == (isnan(x) ? 0 : fabsf(x)), "%s(%a): amax %a", k->name, (double)x,
          (double)c.amax);
}

static void edges(plumb_format format, const edge *edge_list, size_t n)
{
    for (size_t i = 0; i < plumb_encode_kernel_count; i++) {
        const plumb_encode_kernel *k = &plumb_encode_kernels[i];

        if (k->format != format || !can_run(k->cpu))
            continue;
        for (size_t j = 0; j < 2 * n; j++)
            check_edge(k, &edge_list[j / 2], j % 2 == 0);
    }
    check_done(plumb_format_get(format)->name);
}

/* --- scales ----------------------------------------------------------------- */

static uint32_t state = 1;

static uint32_t next_random(void) /* xorshift32 */
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

/* Floats of all kinds: any bits, and many near 1. */
static float any_float(void)
{
    const uint32_t bits = next_random();

    return float_from(bits % 3 == 0 ? bits : (bits & 0x87ffffff) | 0x38000000);
}

/* The code of a float by halving the number line: slow, but it rounds nothing. */
static uint32_t slow_code(const line_format *f, bool saturate, float product)
{
    const double magnitude = fabs((double)product);
    uint32_t low = 0, high = f->largest + 1; /* low <= code <= high */

    if (isnan(product))
        return f->nan;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;

        if (magnitude >= line_boundary(f, middle))
            low = middle + 1;
        else
            high = middle;
    }
    if (low > f->largest)
        low = saturate ? f->largest : f->past;
    return low != f->nan && signbit(product) ? low | f->sign : low;
}

static void scaled(const plumb_encode_kernel *k, const line_format *f, float scale)
{
    enum { N = 257 };
    static float x[N];
    static uint8_t codes[N];

    for (int mode = 0; mode < 4; mode++) {
        const plumb_cast how = {
            .format = f->format, .saturate = mode & 1, .divide = mode & 2, .scale = scale};
        plumb_counts counts = {0};

        for (int i = 0; i < N; i++)
            x[i] = any_float();
        encode(k, &how, x, N, codes, &counts);
        for (int i = 0; i < N; i++) {
            const volatile float product = how.divide ? x[i] / scale : x[i] * scale;
            const uint32_t want = slow_code(f, how.saturate, product);

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
        for (size_t j = 0; j < LINE_FORMATS; j++)
            for (size_t s = 0; s < sizeof list / sizeof list[0]; s++)
                if (line_formats[j].format == plumb_encode_kernels[i].format &&
                    line_formats[j].bytes == 1 && can_run(plumb_encode_kernels[i].cpu))
                    scaled(&plumb_encode_kernels[i], &line_formats[j], list[s]);
    check_done("scales, multiplied and divided by");
}

/* Ties times an odd number, divided by it: a division that multiplies by the reciprocal
 * misses some of the ties.
 */
static void divided_ties(const plumb_encode_kernel *k, const line_format *f)
{
    for (int odd = 3; odd < 64; odd += 2) {
        const plumb_cast how = {
            .format = f->format, .saturate = true, .divide = true, .scale = (float)odd};
        float x[0x7f];
        uint8_t codes[0x7f];
        plumb_counts counts = {0};

        for (uint32_t c = 0; c <= f->largest; c++)
            x[c] = (float)((line_value(f, c) + line_value(f, c + 1)) / 2 * odd);
        encode(k, &how, x, f->largest + 1, codes, &counts);
        for (uint32_t c = 0; c < f->largest; c++)
            CHECK(codes[c] == c + c % 2, "%s: %a / %d = %02x, want %02x", k->name,
                  (double)x[c], odd, codes[c], c + c % 2);
    }
}

static void divisions(void)
{
    for (size_t i = 0; i < plumb_encode_kernel_count; i++)
        for (size_t j = 0; j < LINE_FORMATS; j++)
            if (line_formats[j].format == plumb_encode_kernels[i].format &&
                line_formats[j].bytes == 1 && can_run(plumb_encode_kernels[i].cpu))
                divided_ties(&plumb_encode_kernels[i], &line_formats[j]);
    check_done("a division divides");
}

/* What counts say when the scale does it: 2^127 * 4 is infinite, but its source is not. */
static void scaled_counts(void)
{
    static const float x[] = {0x1p127f, 0x1p-120f, 0.0f, 448.0f, -3.0f};
    const plumb_cast how = {.format = PLUMB_E4M3, .scale = 4.0f};
    plumb_counts c = {0};
    uint8_t codes[5];

    plumb_cast_encode(&how, x, 5, codes, &c);
    CHECK(codes[0] == 0x7f && codes[1] == 0 && codes[3] == 0x7f && codes[4] == 0xd4,
          "codes %02x %02x %02x %02x", codes[0], codes[1], codes[3], codes[4]);
    CHECK(c.total == 5 && c.saturated == 2 && c.flushed == 1 && c.zero == 1 &&
              c.nonfinite == 0,
          "counts %d %d %d %d", (int)c.saturated, (int)c.flushed, (int)c.zero,
          (int)c.nonfinite);
    CHECK(c.amax == 0x1p127f && c.code_amax == 12.0f, "amax %a, code amax %a",
          (double)c.amax, (double)c.code_amax);
    check_done("counts under a scale");
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
        CHECK(codes[0] == 0x7f && c.saturated == 2 && c.zero == 1 && c.nonfinite == 0,
              "%s times infinity: code %02x, saturated %d", k->name, codes[0],
              (int)c.saturated);
        how.scale = NAN;
        encode(k, &how, x, 3, codes, &d);
        CHECK(codes[1] == 0x7f && codes[2] == 0x7f && d.saturated == 0 && d.flushed == 0 &&
                  d.code_amax == 0 && d.amax == 1,
              "%s times NaN: saturated %d", k->name, (int)d.saturated);
        how.scale = 0;
        encode(k, &how, x, 3, codes, &e);
        CHECK(codes[1] == 0 && codes[2] == 0x80 && e.flushed == 2 && e.zero == 1,
              "%s times zero: flushed %d", k->name, (int)e.flushed);
    }
    check_done("scales zero, infinite and NaN");
}

/* --- sizes, alignment, variants ------------------------------------------------ */

static bool same_counts(const plumb_counts *a, const plumb_counts *b)
{
    return a->total == b->total && a->saturated == b->saturated &&
           a->clipped == b->clipped && a->clipped == b->clipped &&
           a->flushed == b->flushed && a->zero == b->zero && a->nonfinite == b->nonfinite &&
           a->amax == b->amax && a->code_amax == b->code_amax;
}

enum { MOST = 300, PAD = 32 };

static const plumb_encode_kernel *reference_of(plumb_format format)
{
    for (size_t i = 0; i < plumb_encode_kernel_count; i++)
        if (plumb_encode_kernels[i].format == format)
            return &plumb_encode_kernels[i];
    return NULL;
}

static void one_size(const plumb_encode_kernel *k, const float *x, size_t n, size_t offset)
{
    static union {
        uint8_t bytes[4 * MOST + 2 * PAD];
        float align;
    } want, got;
    const size_t each = (size_t)plumb_format_get(k->format)->bytes;
    const float scale = each == 1 ? 1.7f : 1.0f;
    const plumb_cast how = {.format = k->format, .saturate = n % 2 == 0, .scale = scale};
    plumb_counts c = {.amax = 0.5f}, d = {.amax = 0.5f};
    const size_t start = PAD + offset * each;

    memset(&want, 0x5a, sizeof want);
    memset(&got, 0x5a, sizeof got);
    encode(reference_of(k->format), &how, x, n, want.bytes + start, &c);
    encode(k, &how, x, n, got.bytes + start, &d);
    CHECK(memcmp(&want, &got, sizeof want) == 0, "%s: bytes differ at n=%zu", k->name, n);
    CHECK(same_counts(&c, &d), "%s: counts differ at n=%zu", k->name, n);
    for (size_t i = 0; i < PAD; i++)
        CHECK(got.bytes[i] == 0x5a && got.bytes[start + n * each + i] == 0x5a,
              "%s wrote outside, n=%zu", k->name, n);
}

static void sizes(void)
{
    static float x[MOST + 8];

    for (size_t i = 0; i < MOST + 8; i++)
        x[i] = any_float();
    for (size_t i = 0; i < plumb_encode_kernel_count; i++) {
        if (!can_run(plumb_encode_kernels[i].cpu))
            continue;
        for (size_t n = 0; n < MOST - 4; n++)
            one_size(&plumb_encode_kernels[i], x + n % 5, n, n % 4);
    }
    check_done("every size, unaligned, all variants equal");
}

/* Counts go past what a piece of the loop holds, and add up over calls. */
static void many(void)
{
    enum { N = (1 << 20) + 5 };
    static float x[N];
    static uint8_t codes[N];
    const plumb_cast how = {.format = PLUMB_E5M2, .saturate = true, .scale = 1.0f};
    plumb_counts c = {0};

    for (size_t i = 0; i < N; i++)
        x[i] = i % 2 ? 1e-20f : 1e20f;
    x[N - 1] = 2e20f;
    for (int call = 0; call < 2; call++)
        plumb_cast_encode(&how, x, N, codes, &c);
    CHECK(c.total == 2 * N && c.saturated == N + 1 && c.flushed == N - 1, "%llu %llu %llu",
          (unsigned long long)c.total, (unsigned long long)c.saturated,
          (unsigned long long)c.flushed);
    CHECK(c.amax == 2e20f && c.code_amax == 57344.0f, "amax %a", (double)c.amax);
    plumb_cast_encode(&how, x, N, codes, NULL);
    check_done("long calls");
}

static void adding(void)
{
    plumb_counts a = {1, 2, 8, 3, 4, 5, 6.0f, 7.0f};
    const plumb_counts b = {10, 20, 80, 30, 40, 50, 5.0f, 70.0f};
    const plumb_counts want = {11, 22, 88, 33, 44, 55, 6.0f, 70.0f};

    plumb_counts_add(&a, &b);
    CHECK(same_counts(&a, &want), "sums differ");
    check_done("adding counts");
}

/* --- decoding, amax, refusals -------------------------------------------------- */

static uint32_t want_decoded(const line_format *f, uint32_t code, float scale)
{
    const uint32_t magnitude = code & ~f->sign;
    double value = line_value(f, magnitude);

    if (magnitude > f->largest)
        value = magnitude == f->past && f->past != f->nan ? (double)INFINITY : (double)NAN;
    /* Exact in double, then one rounding to fp32. */
    const float product = (float)((code & f->sign ? -value : value) * (double)scale);

    return isnan(product) ? 0x7fc00000u : bits_from(product);
}

static void decode_all(const plumb_decode_kernel *k, const line_format *f, float scale)
{
    static uint8_t codes8[256];
    static uint16_t codes16[65536];
    static float x[65536 + 1];
    const uint32_t n = f->bytes == 1 ? 256 : 65536;

    for (uint32_t c = 0; c < n; c++) {
        codes8[c & 0xff] = (uint8_t)c;
        codes16[c] = (uint16_t)c;
    }
    x[n] = 99;
    k->run(f->format, scale, f->bytes == 1 ? (void *)codes8 : (void *)codes16, n, x);
    CHECK(x[n] == 99, "%s wrote past the end", k->name);
    for (uint32_t c = 0; c < n; c++)
        CHECK(bits_from(x[c]) == want_decoded(f, c, scale), "%s: %x * %a = %a", k->name, c,
              (double)scale, (double)x[c]);
}

static void decoding(void)
{
    static const float scales_list[] = {1.0f,     3.7f, -1.0f,   0x1p-140f,
                                        0x1p125f, 0.0f, INFINITY};

    for (size_t i = 0; i < plumb_decode_kernel_count; i++)
        for (size_t j = 0; j < LINE_FORMATS; j++)
            for (size_t s = 0; s < sizeof scales_list / sizeof scales_list[0]; s++)
                if (line_formats[j].format == plumb_decode_kernels[i].format &&
                    can_run(plumb_decode_kernels[i].cpu))
                    decode_all(&plumb_decode_kernels[i], &line_formats[j], scales_list[s]);
    check_done("every code decoded");
}

static void decode_sizes(void)
{
    static uint8_t codes[MOST * 4];
    static float x[MOST + 1], all[MOST];

    for (size_t i = 0; i < sizeof codes; i++)
        codes[i] = (uint8_t)next_random();
    for (size_t i = 0; i < plumb_decode_kernel_count; i++) {
        const plumb_decode_kernel *k = &plumb_decode_kernels[i];

        if (!can_run(k->cpu))
            continue;
        if (k->cpu == PLUMB_CPU_BASELINE)
            k->run(k->format, 1.7f, codes, MOST, all);
        for (size_t n = 0; n <= MOST; n += 1 + n / 20) {
            x[n] = 99;
            k->run(k->format, 1.7f, codes, n, x);
            CHECK(memcmp(x, all, n * sizeof *x) == 0, "%s differs at n=%zu", k->name, n);
            CHECK(x[n] == 99, "%s wrote past the end at n=%zu", k->name, n);
        }
    }
    check_done("decoding in every size");
}

static void amaxima(void)
{
    static float x[MOST];

    for (size_t i = 0; i < plumb_amax_kernel_count; i++) {
        const plumb_amax_kernel *k = &plumb_amax_kernels[i];

        if (!can_run(k->cpu))
            continue;
        CHECK(k->run(NULL, 0) == 0, "%s of nothing", k->name);
        for (size_t n = 1; n <= MOST; n++) {
            const size_t at = next_random() % n;

            for (size_t j = 0; j < n; j++)
                x[j] = j % 2 ? 1.0f : -0x1p-140f;
            x[at] = n % 2 ? -3.5f : 3.5f;
            CHECK(k->run(x, n) == 3.5f, "%s, n=%zu", k->name, n);
            x[n / 2] = a_nan();
            x[n - 1] = -4.5f;
            CHECK(k->run(x, n) == 4.5f, "%s does not ignore NaN, n=%zu", k->name, n);
            x[n / 3] = -infinite();
            CHECK(n < 3 || isinf(k->run(x, n)), "%s ignores infinity, n=%zu", k->name, n);
        }
        x[0] = a_nan();
        CHECK(bits_from(k->run(x, 1)) == 0, "%s of a NaN alone", k->name);
        x[0] = -0x1p-149f;
        CHECK(k->run(x, 1) == 0x1p-149f, "%s flushes", k->name);
    }
    check_done("amax");
}

static void refusals(void)
{
    const float x[2] = {1, 2};
    uint32_t codes[2] = {7, 7};
    plumb_counts c = {0};
    plumb_cast how = {.format = PLUMB_FORMAT_COUNT, .saturate = true, .scale = 1.0f};
    float back = 5;

    CHECK(plumb_cast_encode(&how, x, 2, codes, &c) == PLUMB_BAD_FORMAT, "a bad format");
    how = (plumb_cast){.format = PLUMB_BF16, .saturate = true, .scale = 2.0f};
    CHECK(plumb_cast_encode(&how, x, 2, codes, &c) == PLUMB_BAD_ARGUMENT, "bf16 times 2");
    how =
        (plumb_cast){.format = PLUMB_FP32, .saturate = true, .divide = true, .scale = NAN};
    CHECK(plumb_cast_encode(&how, x, 2, codes, &c) == PLUMB_BAD_ARGUMENT, "fp32 by NaN");
    CHECK(codes[0] == 7 && codes[1] == 7 && c.total == 0, "something was written");
    CHECK(plumb_cast_decode((plumb_format)-1, 1, codes, 1, &back) == PLUMB_BAD_FORMAT &&
              back == 5,
          "decoding a bad format");
    check_done("refusals");
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
    edges(PLUMB_E4M3, edges_e4m3, sizeof edges_e4m3 / sizeof edges_e4m3[0]);
    edges(PLUMB_E5M2, edges_e5m2, sizeof edges_e5m2 / sizeof edges_e5m2[0]);
    edges(PLUMB_BF16, edges_bf16, sizeof edges_bf16 / sizeof edges_bf16[0]);
    edges(PLUMB_FP32, edges_fp32, sizeof edges_fp32 / sizeof edges_fp32[0]);
    scales();
    divisions();
    scaled_counts();
    broken_scales();
    sizes();
    many();
    adding();
    decoding();
    decode_sizes();
    amaxima();
    refusals();
    levels();
    return check_exit();
}
