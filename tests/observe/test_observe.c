/* Headroom, samples of real quantisations, joining, and deviations worked by hand. */
#include "plumb/observe.h"

#include "check.h"

#include <float.h>
#include <math.h>

static void headroom(void)
{
    CHECK(plumb_headroom(PLUMB_E4M3, 7, 64) == 1, "just full");
    CHECK(plumb_headroom(PLUMB_E4M3, 14, 64) == 0.5f, "half of it saturates");
    CHECK(plumb_headroom(PLUMB_E5M2, 7, 1024) == 8, "E5M2");
    CHECK(isinf(plumb_headroom(PLUMB_E4M3, 0, 64)), "amax 0");
    CHECK(plumb_headroom(PLUMB_E4M3, INFINITY, 64) == 0, "amax infinite");
    CHECK(plumb_headroom(PLUMB_FP32, FLT_MAX, 1) == 1, "fp32");
    CHECK(plumb_headroom(PLUMB_BF16, 0x1.fep127f, 1) == 1, "bf16");
    CHECK(plumb_headroom(PLUMB_E4M3, 1e-30f, FLT_MAX) > 0, "large scale");
    check_done("headroom");
}

struct seen {
    plumb_quantized q;
    plumb_counts counts;
    uint8_t codes[600];
    float d[600];
};

static void quantize(struct seen *seen, const char *text, const float *x, size_t rows,
                     size_t cols, bool along_rows)
{
    plumb_spec spec = {0};
    plumb_error why = {0};

    memset(seen, 0, sizeof *seen);
    seen->q.codes = seen->codes;
    seen->q.d = seen->d;
    CHECK_OK(plumb_spec_parse(text, NULL, &spec, &why), why);
    CHECK_OK(plumb_quantize(&spec, x, rows, cols, along_rows, NULL, false, &seen->q,
                            &seen->counts, &why),
             why);
}

static void samples(void)
{
    const float x[6] = {7, -14, 0, 1e-9f, 3.5f, NAN};
    struct seen seen;
    plumb_sample s = {.step = 5, .site = 6};

    quantize(&seen, "e4m3:static=64", x, 2, 3, false);
    plumb_sample_fill(&s, &seen.q, &seen.counts);
    CHECK(s.step == 5 && s.site == 6, "step or site were written");
    CHECK(s.scale == 64 && s.amax == 14 && s.decoded_amax == 7 && s.headroom == 0.5f,
          "scale %g, amax %g, decoded %g, headroom %g", (double)s.scale, (double)s.amax,
          (double)s.decoded_amax, (double)s.headroom);
    CHECK(s.total == 6 && s.saturated == 1 && s.flushed == 1 && s.zero == 1 &&
              s.nonfinite == 1,
          "counts");
    /* A decode scale that was changed afterwards shows in the decoded amax. */
    seen.d[0] *= 16;
    plumb_sample_fill(&s, &seen.q, &seen.counts);
    CHECK(s.decoded_amax == 112 && s.amax == 14 && s.scale == 4,
          "stale: decoded %g, scale %g", (double)s.decoded_amax, (double)s.scale);
    quantize(&seen, "e4m3:none", x, 2, 3, false);
    plumb_sample_fill(&s, &seen.q, &seen.counts);
    CHECK(s.scale == 1 && s.headroom == 32 && s.decoded_amax == 14, "no scales: %g %g",
          (double)s.headroom, (double)s.decoded_amax);
    check_done("samples of one scale");
}

/* 2 x 140: the blocks' amaxes are 7, 14 | 3.5, 28; pow2 makes the scales 64, 32, 128, 16. */
static void block_samples(void)
{
    float x[280] = {0};
    struct seen seen;
    plumb_sample s = {0};

    x[5] = -7, x[130] = 14, x[140] = 3.5f, x[279] = 28;
    quantize(&seen, "e4m3:1x128:pow2", x, 2, 140, false);
    plumb_sample_fill(&s, &seen.q, &seen.counts);
    CHECK(s.scale == 128 && s.decoded_amax == 28 && s.headroom == 1,
          "row blocks: scale %g, decoded %g, headroom %g", (double)s.scale,
          (double)s.decoded_amax, (double)s.headroom);
    for (size_t i = 0; i < 4; i++) {
        const float before = seen.d[i];

        seen.d[i] = before * 1024;
        plumb_sample_fill(&s, &seen.q, &seen.counts);
        CHECK(s.decoded_amax == 1024 * (i == 0   ? 7.0f
                                        : i == 1 ? 14.0f
                                        : i == 2 ? 3.5f
                                                 : 28.0f),
              "block %zu stale: decoded %g", i, (double)s.decoded_amax);
        seen.d[i] = before;
    }
    quantize(&seen, "e4m3:1x128:pow2", x, 140, 2, true); /* the same numbers, 140 x 2 */
    plumb_sample_fill(&s, &seen.q, &seen.counts);
    CHECK(s.decoded_amax == 28, "column blocks: decoded %g", (double)s.decoded_amax);
    seen.d[1] *= 1024; /* rows 0 to 127, column 1: x[5] */
    plumb_sample_fill(&s, &seen.q, &seen.counts);
    CHECK(s.decoded_amax == 7168, "column block stale: decoded %g", (double)s.decoded_amax);
    quantize(&seen, "e4m3:128x128", x, 2, 140, false);
    plumb_sample_fill(&s, &seen.q, &seen.counts);
    CHECK(s.decoded_amax == 28 && s.scale == 64, "squares: decoded %g, scale %g",
          (double)s.decoded_amax, (double)s.scale);
    quantize(&seen, "e4m3:1x128:static=1", x, 2, 140, false);
    plumb_sample_fill(&s, &seen.q, &seen.counts);
    CHECK(s.headroom == 16, "static: headroom %g", (double)s.headroom);
    x[7] = INFINITY;
    quantize(&seen, "e4m3:1x128", x, 2, 140, false);
    plumb_sample_fill(&s, &seen.q, &seen.counts);
    CHECK(s.headroom == 0 && isinf(s.amax), "an infinity: headroom %g", (double)s.headroom);
    quantize(&seen, "e5m2:1x128:overflow", x, 1, 128, false); /* -7 and infinity */
    plumb_sample_fill(&s, &seen.q, &seen.counts);
    CHECK(s.decoded_amax == 7, "beside an infinite code: decoded %g",
          (double)s.decoded_amax);
    check_done("samples of block scales");
}

/* The grains in few bits: scales and largest values worked by hand. */
static void small_formats(void)
{
    float x[64] = {0};
    struct seen seen;
    plumb_sample s = {0};

    x[0] = -3, x[40] = 6, x[63] = 0.5f;
    quantize(&seen, "e2m1:mx32", x, 1, 64, false); /* amax 3, 6: scales 2, 1 */
    plumb_sample_fill(&s, &seen.q, &seen.counts);
    CHECK(s.decoded_amax == 6 && s.scale == 2 && s.headroom == 1,
          "mx32: decoded %g, scale %g, headroom %g", (double)s.decoded_amax,
          (double)s.scale, (double)s.headroom);
    seen.d[0] *= 64; /* -3 lies in a code whose sign is bit 3 */
    plumb_sample_fill(&s, &seen.q, &seen.counts);
    CHECK(s.decoded_amax == 192, "mx32 stale: decoded %g", (double)s.decoded_amax);
    quantize(&seen, "e3m2:row:static=1", x, 32, 2, true);
    seen.d[0] = 10, seen.d[1] = 1; /* column 0 has -3 and 6, column 1 has 0.5 */
    plumb_sample_fill(&s, &seen.q, &seen.counts);
    CHECK(s.decoded_amax == 60, "row along rows: decoded %g", (double)s.decoded_amax);
    seen.d[0] = 1, seen.d[1] = 100;
    plumb_sample_fill(&s, &seen.q, &seen.counts);
    CHECK(s.decoded_amax == 50, "row along rows: decoded %g", (double)s.decoded_amax);
    quantize(&seen, "e4m3fnuz:tensor:static=1", x, 1, 64, false);
    seen.codes[1] = 0x80; /* NaN */
    plumb_sample_fill(&s, &seen.q, &seen.counts);
    CHECK(s.decoded_amax == 6 && s.headroom == 40, "fnuz: decoded %g, headroom %g",
          (double)s.decoded_amax, (double)s.headroom);
    quantize(&seen, "e2m1:nvfp4", x, 1, 64, false); /* S = 448; b = 224, 448 */
    plumb_sample_fill(&s, &seen.q, &seen.counts);
    CHECK(fabsf(s.decoded_amax - 6) < 1e-5f && isinf(s.scale),
          "nvfp4: decoded %g, scale %g", (double)s.decoded_amax, (double)s.scale);
    seen.q.d_tensor *= 2;
    plumb_sample_fill(&s, &seen.q, &seen.counts);
    CHECK(fabsf(s.decoded_amax - 12) < 1e-5f, "nvfp4 stale: decoded %g",
          (double)s.decoded_amax);
    check_done("samples of small formats");
}

/* The decoded amax of any codes under any scales, element by element. */
static float by_element(const struct seen *seen, size_t height, size_t width, size_t ld)
{
    const plumb_quantized *q = &seen->q;
    const float *values = plumb_format_decode_table(q->format);
    const size_t across = (q->cols + width - 1) / width;
    const float second = q->grain == PLUMB_GRAIN_NVFP4 ? q->d_tensor : 1;
    float amax = 0;

    for (size_t i = 0; i < q->rows; i++) {
        for (size_t j = 0; j < q->cols; j++) {
            const float v = fabsf(values[seen->codes[i * ld + j]]);
            const float x = v * seen->d[i / height * across + j / width] * second;

            if (isfinite(v) && isfinite(x) && x > amax)
                amax = x;
        }
    }
    return amax;
}

/* Codes are random bits, scales lie close together, far apart, or are not numbers. */
static void any_blocks(void)
{
    static const struct {
        const char *spec;
        size_t rows, cols, height, width;
        bool along_rows;
        unsigned codes;
    } rows[] = {
        {"e4m3:1x128", 2, 300, 1, 128, false, 256},
        {"e4m3:1x128", 300, 2, 128, 1, true, 256},
        {"e5m2:128x128", 4, 150, 128, 128, false, 256},
        {"e5m2:row:static=1", 20, 30, 1, 30, false, 256},
        {"e3m2:row:static=1", 20, 30, 20, 1, true, 64},
        {"e4m3:mx32", 8, 75, 1, 32, false, 256},
        {"e2m1:nvfp4", 9, 66, 1, 16, false, 16},
    };
    static const float odd[] = {0, -2, INFINITY, NAN, 1, 1};
    uint32_t state = 1;
    float x[600];

    for (size_t i = 0; i < 600; i++)
        x[i] = (float)(i % 17) - 8;
    for (size_t turn = 0; turn < 2100; turn++) {
        const size_t at = turn % 7;
        struct seen seen;
        plumb_sample s;

        quantize(&seen, rows[at].spec, x, rows[at].rows, rows[at].cols,
                 rows[at].along_rows);
        for (size_t i = 0; i < 600; i++) {
            state = state * 1664525u + 1013904223u;
            seen.codes[i] = (uint8_t)((state >> 16) % rows[at].codes);
            if (turn % 3 == 0) /* few large ones */
                seen.codes[i] &= (state >> 28) == 0 ? 0xff : 0x9f;
            seen.d[i] = turn % 2 == 0 ? 1 + (float)(state >> 28) / 8
                                      : ldexpf(1, (int)(state >> 27) - 16);
            if (turn % 5 == 0 && (state >> 24) % 16 == 0)
                seen.d[i] = odd[(state >> 20) % 6];
        }
        plumb_sample_fill(&s, &seen.q, &seen.counts);
        const float want =
            by_element(&seen, rows[at].height, rows[at].width, rows[at].cols);

        CHECK(s.decoded_amax == want, "%s, turn %zu: %a, not %a", rows[at].spec, turn,
              (double)s.decoded_amax, (double)want);
    }
    check_done("the decoded amax of any blocks");
}

static void joining(void)
{
    plumb_sample a = {3, 4, 2, 2, 10, 9, 0.5f, 100, 1, 2, 3, 4};
    const plumb_sample b = {3, 4, 8, 1, 5, 11, 2, 10, 10, 20, 30, 40};
    const plumb_sample want = {3, 4, 8, 1, 10, 11, 0.5f, 110, 11, 22, 33, 44};
    plumb_sample c = b;

    plumb_sample_join(&c, &a);
    plumb_sample_join(&a, &b);
    for (int i = 0; i < 2; i++) {
        const plumb_sample *s = i == 0 ? &a : &c;

        CHECK(s->step == want.step && s->site == want.site && s->scale == want.scale &&
                  s->least_scale == want.least_scale && s->amax == want.amax &&
                  s->decoded_amax == want.decoded_amax && s->headroom == want.headroom &&
                  s->total == want.total && s->saturated == want.saturated &&
                  s->flushed == want.flushed && s->zero == want.zero &&
                  s->nonfinite == want.nonfinite,
              "join, way %d", i);
    }
    check_done("joining");
}

/* --- histograms ---------------------------------------------------------------------- */

static bool bins_are(const plumb_histogram *h, const float *want)
{
    return memcmp(h->bin, want, sizeof h->bin) == 0;
}

/* 5 columns of 9: one by one behind the fours, and nothing of what lies between the rows. */
static void exponents(void)
{
    float x[3][9];
    plumb_exponents got = {{[130] = 100}};
    uint64_t want[256] = {[130] = 100};

    for (int i = 0; i < 27; i++)
        x[i / 9][i % 9] = 0x1p100f;
    for (int row = 0; row < 3; row++) {
        x[row][0] = -8; /* exponent 3: field 130 */
        x[row][1] = row == 0 ? 0x1.fffffep3f : 0.75f;
        x[row][2] = row == 1 ? NAN : -INFINITY;
        x[row][3] = row == 2 ? 0x1p-127f : -0.0f;
        x[row][4] = 0x1p-126f;
    }
    want[130] += 4;
    want[126] = 2;
    want[255] = want[0] = want[1] = 3;
    plumb_exponents_add(&got, x[0], 3, 5, 9);
    CHECK(memcmp(got.at, want, sizeof want) == 0, "%d, %d, %d, %d, %d", (int)got.at[130],
          (int)got.at[126], (int)got.at[255], (int)got.at[0], (int)got.at[1]);
    plumb_exponents_join(&got, &got);
    CHECK(got.at[130] == 208 && got.at[1] == 6, "joined");
    check_done("exponents");
}

static void bins(void)
{
    plumb_exponents all = {{[0] = 7, [255] = 9}}; /* zeros and what is not finite */
    uint64_t *const exponent = all.at;
    plumb_histogram h = {.sample = {.step = 3}, .bin = {[4] = 5}};
    float want[PLUMB_BINS] = {0};

    CHECK(!plumb_histogram_fill(&h, &all) && bins_are(&h, want) && h.sample.step == 3,
          "nothing but zeros, infinities and NaN");

    exponent[130] = 3; /* 8 <= |x| < 16 is the last bin: the first is 8 * 2^-47 */
    exponent[100] = 2;
    exponent[83] = 1; /* in the first bin, and so is all below */
    exponent[82] = 10;
    exponent[1] = UINT64_C(1) << 40;
    want[47] = 3;
    want[17] = 2;
    want[0] = 11 + 0x1p40f;
    CHECK(plumb_histogram_fill(&h, &all) && bins_are(&h, want) && h.first == -44,
          "a long one: first %d, %g and %g", h.first, (double)h.bin[0], (double)h.bin[47]);

    memset(&all, 0, sizeof all);
    memset(want, 0, sizeof want);
    exponent[1] = 4; /* the least normal values; there is no room for 47 bins below */
    exponent[5] = 6;
    want[0] = 4;
    want[4] = 6;
    CHECK(plumb_histogram_fill(&h, &all) && bins_are(&h, want) && h.first == -126,
          "small values: first %d", h.first);

    memset(&all, 0, sizeof all);
    memset(want, 0, sizeof want);
    exponent[254] = 1;
    want[47] = 1;
    CHECK(plumb_histogram_fill(&h, &all) && bins_are(&h, want) && h.first == 80,
          "FLT_MAX: first %d", h.first);
    check_done("bins of a histogram");
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-15 * fabs(b);
}

static void deviations(void)
{
    const float b[4] = {1, -1, 1, -1}, a[4] = {1, -1, 3, -2}, zero[4] = {0};
    float bad[4] = {1, NAN, 1, INFINITY};
    plumb_deviation d = plumb_observe_deviation(a, b, 4);

    CHECK(d.max_over_rms == 2 && d.index == 2, "max %g at %zu", d.max_over_rms, d.index);
    CHECK(near(d.relative, sqrt(5.0) / 2), "relative %g", d.relative);
    CHECK(near(d.cosine, 7 / (sqrt(15.0) * 2)), "cosine %g", d.cosine);
    d = plumb_observe_deviation(b, b, 4);
    CHECK(d.max_over_rms == 0 && d.relative == 0 && d.cosine == 1, "equal: %g %g %g",
          d.max_over_rms, d.relative, d.cosine);
    d = plumb_observe_deviation(zero, zero, 4);
    CHECK(d.max_over_rms == 0 && d.relative == 0 && d.cosine == 1, "zeros");
    d = plumb_observe_deviation(a, zero, 4);
    CHECK(isinf(d.max_over_rms) && isinf(d.relative) && d.cosine == 0, "from zeros");
    d = plumb_observe_deviation(zero, b, 4);
    CHECK(d.max_over_rms == 1 && d.index == 0 && d.relative == 1 && d.cosine == 0,
          "of zeros");
    d = plumb_observe_deviation(bad, b, 4);
    CHECK(isinf(d.max_over_rms) && d.index == 1 && isinf(d.relative) && d.cosine == 0,
          "not finite: %g at %zu", d.max_over_rms, d.index);
    bad[1] = 1;
    d = plumb_observe_deviation(bad, bad, 4);
    CHECK(isinf(d.max_over_rms) && d.index == 3, "infinite in both: %g", d.max_over_rms);
    d = plumb_observe_deviation(a, b, 0);
    CHECK(d.max_over_rms == 0 && d.relative == 0 && d.cosine == 1, "nothing");
    const float large[2] = {FLT_MAX, FLT_MAX}, opposite[2] = {-FLT_MAX, -FLT_MAX};
    d = plumb_observe_deviation(large, opposite, 2);
    CHECK(near(d.max_over_rms, 2) && near(d.cosine, -1), "FLT_MAX: %g %g", d.max_over_rms,
          d.cosine);
    check_done("deviations");
}

static void differences(void)
{
    const float c[6] = {1, -2, 3, 4, NAN, 0}, r[6] = {1, -4, 3, 5, NAN, 0};
    const float zeros[2] = {0, 0}, ones[2] = {1, 1}, holes[2] = {1, INFINITY};
    plumb_difference d = plumb_observe_difference(c, r, 2, 3);

    /* Errors 2 and -1 of a norm sqrt(1 + 16 + 9 + 25); shifts -2 and -1 of a size 13. */
    CHECK(fabs(d.frobenius - sqrt(5.0 / 51)) < 1e-15 && fabs(d.bias + 3.0 / 13) < 1e-15,
          "%g %g", d.frobenius, d.bias);
    CHECK(d.equal == 4 && d.nonfinite == 1 && d.nonfinite_reference == 1, "%zu %zu %zu",
          d.equal, d.nonfinite, d.nonfinite_reference);
    CHECK(d.any && d.row == 0 && d.col == 1 && d.worst == -2 && d.worst_reference == -4,
          "the worst is %zu,%zu", d.row, d.col);
    d = plumb_observe_difference(holes, ones, 1, 2);
    CHECK(isinf(d.frobenius) && d.any && d.col == 1 && d.nonfinite == 1, "a lost infinity");
    d = plumb_observe_difference(ones, zeros, 2, 1);
    CHECK(isinf(d.frobenius) && d.bias == 0 && d.row == 0 && d.equal == 0,
          "nothing to hold");
    d = plumb_observe_difference(ones, ones, 2, 1);
    CHECK(d.frobenius == 0 && d.bias == 0 && !d.any && d.equal == 2, "equal");
    d = plumb_observe_difference(ones, ones, 0, 7);
    CHECK(d.frobenius == 0 && !d.any && d.equal == 0, "nothing at all");
    d = plumb_observe_difference((const float[1]){-0.0f}, zeros, 1, 1);
    CHECK(d.any && d.equal == 0 && d.frobenius == 0, "the sign of zero");
    check_done("differences of products");
}

int main(void)
{
    headroom();
    samples();
    block_samples();
    small_formats();
    any_blocks();
    joining();
    exponents();
    bins();
    deviations();
    differences();
    return check_exit();
}
