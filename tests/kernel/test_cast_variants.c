/* Every variant of every cast against its reference: bytes, counts and spectrum, in every size,
 * unaligned, from both sources; the spectrum against its definition; decoding; amax.
 */
#include "check.h"
#include "kernel/cast_kit.h"

#include <stdlib.h>

enum { MOST = 300, PAD = 32, LONG = 3 * 1024 + 7 };

static const plumb_encode_kernel *reference_of(plumb_format format)
{
    for (size_t i = 0; i < plumb_encode_kernel_count; i++)
        if (plumb_encode_kernels[i].format == format)
            return &plumb_encode_kernels[i];
    return NULL;
}

/* Round robin through roundings, dithers, saturation, division, starts. */
static plumb_cast some_cast(plumb_format format, size_t turn)
{
    static const float scales[] = {1.7f, 0x1p-3f, 300.0f, 0x1p-140f, INFINITY};
    const bool narrow = plumb_format_get(format)->bytes == 1;

    return (plumb_cast){.format = format,
                        .saturate = turn % 2 == 0,
                        .divide = turn % 5 == 3,
                        .scale = narrow ? scales[turn % 16 < 12 ? 0 : turn % 5] : 1.0f,
                        .decode = turn % 7 == 0 ? 0.3f : 0,
                        .rounding = (plumb_rounding)(turn % 3),
                        .dither = (plumb_dither)(turn / 3 % 3),
                        .seed = 0x123456789abcdefu + turn,
                        .stream = ~(uint64_t)turn,
                        .first = turn % 4 == 3 ? 0xffffffffu * (uint64_t)4 : turn};
}

/* --- one against the other ------------------------------------------------------- */

typedef struct outcome {
    union {
        uint8_t bytes[4 * (LONG + 4) + 2 * PAD];
        float align;
    } codes;
    plumb_counts counts;
    plumb_spectrum spectrum;
} outcome;

static void run_one(const plumb_encode_kernel *k, plumb_encode_job job, size_t start,
                    bool measured, outcome *o)
{
    memset(o, 0, sizeof *o);
    memset(&o->codes, 0x5a, sizeof o->codes);
    o->counts.amax = 0.5f;
    o->spectrum.signal = 3;
    job.codes = o->codes.bytes + start;
    job.counts = &o->counts;
    job.spectrum = measured ? &o->spectrum : NULL;
    k->run(&job);
}

static void compare(const plumb_encode_kernel *k, plumb_encode_job job, size_t offset)
{
    static outcome want, plain, got;
    const size_t each = (size_t)plumb_format_get(k->format)->bytes;
    const size_t start = PAD + offset * each, n = job.n;

    run_one(reference_of(k->format), job, start, true, &want);
    run_one(k, job, start, true, &got);
    run_one(k, job, start, false, &plain);
    CHECK(memcmp(&want.codes, &got.codes, sizeof want.codes) == 0,
          "%s: bytes differ at n=%zu", k->name, n);
    CHECK(memcmp(&want.codes, &plain.codes, sizeof want.codes) == 0,
          "%s: bytes differ without a spectrum, n=%zu", k->name, n);
    CHECK(same_counts(&want.counts, &got.counts) &&
              same_counts(&want.counts, &plain.counts),
          "%s: counts differ at n=%zu", k->name, n);
    CHECK(same_spectrum(&want.spectrum, &got.spectrum),
          "%s: spectra differ at n=%zu: %a %a", k->name, n, want.spectrum.error,
          got.spectrum.error);
    for (size_t i = 0; i < PAD; i++)
        CHECK(got.codes.bytes[i] == 0x5a && got.codes.bytes[start + n * each + i] == 0x5a,
              "%s wrote outside, n=%zu", k->name, n);
}

/* Both sources; the bf16 one is the fp32 one cut. */
static void one_size(const plumb_encode_kernel *k, const float *x, const uint16_t *half,
                     size_t n, size_t turn)
{
    const plumb_cast how = some_cast(k->format, turn);
    plumb_encode_job job = {.how = &how, .source = PLUMB_FP32, .x = x + n % 5, .n = n};

    compare(k, job, n % 4);
    job.source = PLUMB_BF16;
    job.x = half + n % 3;
    compare(k, job, n % 4);
}

static void sizes(void)
{
    static float x[LONG + 8];
    static uint16_t half[LONG + 8];

    for (size_t i = 0; i < LONG + 8; i++) {
        x[i] = any_float();
        half[i] = (uint16_t)(bits_from(any_float()) >> 16);
    }
    for (size_t i = 0; i < plumb_encode_kernel_count; i++) {
        const plumb_encode_kernel *k = &plumb_encode_kernels[i];

        if (!can_run(k->cpu))
            continue;
        for (size_t n = 0; n < MOST; n += n < 70 ? 1 : 13)
            one_size(k, x, half, n, n);
        for (size_t turn = 0; turn < 36; turn++) {
            one_size(k, x, half, 64 + turn, turn);
            if (turn % 3 == i % 3)
                one_size(k, x, half, LONG - turn, turn);
        }
    }
    check_done("every size, unaligned, all variants equal");
}

/* A call of blocks against a call for each, by the reference: codes and counts; and against the
 * reference's own call of blocks: the spectrum.
 */
static void check_blocks(const plumb_encode_kernel *k, plumb_encode_job job)
{
    static outcome want, got;
    const size_t each = (size_t)plumb_format_get(k->format)->bytes;
    const size_t from = job.source == PLUMB_FP32 ? 4 : 2;
    plumb_counts counts = {.amax = 0.5f};
    static unsigned char codes[4 * LONG];

    run_one(reference_of(k->format), job, PAD, true, &want);
    run_one(k, job, PAD, true, &got);
    CHECK(memcmp(&want.codes, &got.codes, sizeof want.codes) == 0 &&
              same_counts(&want.counts, &got.counts) &&
              same_spectrum(&want.spectrum, &got.spectrum),
          "%s: blocks of %zu differ from the reference, n=%zu", k->name, job.block, job.n);
    run_one(k, job, PAD, false, &got);
    for (size_t at = 0; at < job.n; at += job.block) {
        plumb_cast how = *job.how;
        plumb_encode_job one = {.how = &how, .source = job.source, .counts = &counts};

        how.scale = job.scales[at / job.block];
        how.first += at;
        one.x = (const char *)job.x + at * from;
        one.n = job.n - at < job.block ? job.n - at : job.block;
        one.codes = codes + at * each;
        reference_of(k->format)->run(&one);
    }
    CHECK(memcmp(codes, got.codes.bytes + PAD, job.n * each) == 0 &&
              got.codes.bytes[PAD + job.n * each] == 0x5a,
          "%s: codes in blocks of %zu, n=%zu", k->name, job.block, job.n);
    CHECK(same_counts(&counts, &got.counts), "%s: counts in blocks of %zu, n=%zu", k->name,
          job.block, job.n);
}

/* Scales of the size that values have, and now and then one that no kernel likes. */
static float block_scale(size_t turn)
{
    static const float odd[] = {0, -2, 0x1p-140f, 0x1p120f, INFINITY, NAN};
    const uint32_t bits = next_random();

    if (turn % 3 == 0 && bits % 64 < 6)
        return odd[bits % 64];
    return float_from((bits & 0x03ffffff) | 0x3c000000);
}

static void blocks(void)
{
    static const size_t lengths[] = {16, 32, 48, 128, 1024, 4096};
    static float x[LONG], scales[LONG / 16 + 1], decodes[LONG / 16 + 1];
    static uint16_t half[LONG];

    for (size_t i = 0; i < plumb_encode_kernel_count; i++) {
        const plumb_encode_kernel *k = &plumb_encode_kernels[i];
        const bool narrow = plumb_format_get(k->format)->bytes == 1;

        for (size_t turn = 0; turn < 48 && narrow && can_run(k->cpu); turn++) {
            plumb_cast how = some_cast(k->format, turn);
            plumb_encode_job job = {.how = &how,
                                    .block = lengths[turn % 6],
                                    .scales = scales,
                                    .decodes = decodes};

            how.rounding = turn % 4 == 3 ? how.rounding : PLUMB_ROUND_NEAREST_EVEN;
            for (size_t j = 0; j < LONG; j++) {
                x[j] = turn % 2 ? any_float() : (float)(int32_t)next_random() * 0x1p-30f;
                half[j] = (uint16_t)(bits_from(x[j]) >> 16);
            }
            const float largest = plumb_format_get(k->format)->largest;

            for (size_t j = 0; j <= LONG / 16; j++) {
                /* x is at most 2: a little is clipped where the scale is rounded up. */
                scales[j] = turn % 4 == 2 ? largest * (0.5f + 0x1p-8f) : block_scale(turn);
                decodes[j] = turn % 5 ? 1 / scales[j] : block_scale(turn);
            }
            job.n = turn < 24 ? 11 * turn : LONG - turn;
            job.source = turn % 8 < 5 ? PLUMB_FP32 : PLUMB_BF16;
            job.x = job.source == PLUMB_FP32 ? (const void *)x : half;
            check_blocks(k, job);
        }
    }
    check_done("blocks with scales of their own");
}

/* bf16 values widened by hand give the same as the source of bf16. */
static void sources(void)
{
    enum { N = 1500 };
    static float x[N];
    static uint16_t half[N];
    static uint32_t a[N], b[N];

    for (size_t i = 0; i < N; i++) {
        half[i] = (uint16_t)(bits_from(any_float()) >> 16);
        x[i] = float_from((uint32_t)half[i] << 16);
    }
    for (size_t turn = 0; turn < 9 * PLUMB_FORMAT_COUNT; turn++) {
        const plumb_cast how = some_cast((plumb_format)(turn / 9), turn);
        plumb_counts c = {0}, d = {0};
        plumb_spectrum s = {.signal = 0}, t = {.signal = 0};

        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
        plumb_cast_encode_measured(&how, PLUMB_FP32, x, N, a, &c, &s);
        plumb_cast_encode_measured(&how, PLUMB_BF16, half, N, b, &d, &t);
        CHECK(memcmp(a, b, sizeof a) == 0 && same_counts(&c, &d) && same_spectrum(&s, &t),
              "turn %zu", turn);
    }
    check_done("both sources");
}

/* --- spectrum ------------------------------------------------------------------- */

/* Sixteen lanes joined as plumb/reduce.h says. */
static double joined(const double lane[16])
{
    double sum[16];

    memcpy(sum, lane, sizeof sum);
    for (int half = 8; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            sum[l] += sum[l + half];
    return sum[0];
}

static void define(const plumb_cast *how, const float *x, size_t n, const void *codes,
                   plumb_spectrum *s)
{
    const float own = how->divide ? how->scale : 1.0f / how->scale;
    const float decode = how->decode != 0 ? how->decode : own;
    double signal[16] = {0}, error[16] = {0};

    for (size_t i = 0; i < n; i++) {
        const double from = (double)x[i];
        const double value =
            (double)plumb_format_value(how->format, code_at(how->format, codes, i));
        const double lost = from - value * (double)decode;

        s->exponent[bits_from(x[i]) >> 23 & 255]++;
        if (isfinite(from))
            signal[i % 16] += from * from;
        if (isfinite(from) && isfinite(value) && isfinite(decode))
            error[i % 16] += lost * lost;
    }
    s->signal += joined(signal);
    s->error += joined(error);
}

static void spectra(void)
{
    static float x[LONG];
    static uint32_t codes[LONG];

    for (size_t turn = 0; turn < 30 * PLUMB_FORMAT_COUNT; turn++) {
        const plumb_cast how = some_cast((plumb_format)(turn / 30), turn);
        const size_t n = turn % 4 == 0 ? LONG - turn : turn;
        plumb_spectrum got = {.signal = 1, .error = 2}, want = got;

        for (size_t i = 0; i < n; i++)
            x[i] = any_float();
        plumb_cast_encode_measured(&how, PLUMB_FP32, x, n, codes, NULL, &got);
        define(&how, x, n, codes, &want);
        CHECK(same_spectrum(&got, &want), "turn %zu, n=%zu: signal %a %a, error %a %a",
              turn, n, got.signal, want.signal, got.error, want.error);
    }
    check_done("spectra against their definition");
}

/* Of three numbers, by hand: 3 is exact, 3.1 is cast to 3 (e2m1 has 2, 3, 4), -10 to -6. */
static void small_spectrum(void)
{
    static const float x[] = {3.0f, 3.125f, -10.0f, 0x1p-140f, INFINITY};
    const plumb_cast how = {.format = PLUMB_E2M1, .saturate = true, .scale = 1};
    plumb_spectrum s = {.signal = 0};
    uint8_t codes[5];

    plumb_cast_encode_measured(&how, PLUMB_FP32, x, 5, codes, NULL, &s);
    CHECK(s.exponent[128] == 2 && s.exponent[130] == 1 && s.exponent[0] == 1 &&
              s.exponent[255] == 1,
          "exponents");
    CHECK(s.signal == 9 + 9.765625 + 100 + 0x1p-280, "signal %a", s.signal);
    CHECK(s.error == 0.015625 + 16 + 0x1p-280, "error %a", s.error);
    check_done("a spectrum by hand");
}

/* Where what a code stands for is not finite, there is no error to measure. */
static void broken_decode(void)
{
    static const float x[] = {3.0f, -10.0f};
    static const plumb_cast how[] = {
        {.format = PLUMB_E4M3, .scale = 0},         /* 1 / 0 */
        {.format = PLUMB_E4M3, .scale = 0x1p-140f}, /* its inverse is beyond fp32 */
        {.format = PLUMB_E4M3, .scale = NAN},
        {.format = PLUMB_E4M3, .scale = 1, .decode = -INFINITY},
        {.format = PLUMB_E4M3, .scale = INFINITY, .divide = true},
    };

    for (size_t i = 0; i < sizeof how / sizeof how[0]; i++) {
        plumb_spectrum s = {.error = 1};
        uint8_t codes[2];

        plumb_cast_encode_measured(&how[i], PLUMB_FP32, x, 2, codes, NULL, &s);
        CHECK(s.signal == 109 && s.error == 1, "cast %zu: signal %a, error %a", i, s.signal,
              s.error);
    }
    check_done("no error of what is not finite");
}

/* --- adding up ------------------------------------------------------------------- */

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
    CHECK(c.total == 2 * N && c.saturated == N + 1 && c.clipped == N + 1 &&
              c.flushed == N - 1,
          "%llu %llu %llu", (unsigned long long)c.total, (unsigned long long)c.saturated,
          (unsigned long long)c.flushed);
    CHECK(c.amax == 2e20f && c.code_amax == 57344.0f, "amax %a", (double)c.amax);
    plumb_cast_encode(&how, x, N, codes, NULL);
    check_done("long calls");
}

/* Long enough for a histogram to be added up more than once, in the middle of a call too. */
static void long_spectrum(void)
{
    enum { N = 2 * 16384 + 3 * 1024 + 77 };
    static float x[N];
    static uint8_t want_codes[N], codes[N];
    static plumb_spectrum want, got;

    for (size_t i = 0; i < N; i++)
        x[i] = i < N / 2      ? 1.0f
               : i % 1000 < 5 ? any_float()
                              : (float)(int32_t)next_random() * 0x1p-31f;
    for (size_t i = 0; i < plumb_encode_kernel_count; i++) {
        const plumb_encode_kernel *k = &plumb_encode_kernels[i];
        const plumb_cast how = {.format = k->format, .saturate = true, .scale = 9};
        plumb_counts c = {0}, d = {0};
        plumb_encode_job job = {.how = &how, .source = PLUMB_FP32, .x = x, .n = N};

        if (plumb_format_get(k->format)->bytes > 1 || !can_run(k->cpu))
            continue;
        memset(&want, 0, sizeof want);
        memset(&got, 0, sizeof got);
        job.codes = want_codes;
        job.counts = &c;
        job.spectrum = &want;
        reference_of(k->format)->run(&job);
        job.codes = codes;
        job.counts = &d;
        job.spectrum = &got;
        k->run(&job);
        CHECK(memcmp(codes, want_codes, N) == 0 && same_counts(&c, &d) &&
                  same_spectrum(&want, &got),
              "%s differs from the reference in %d elements", k->name, (int)N);
    }
    check_done("long calls with a spectrum");
}

static void adding(void)
{
    plumb_counts a = {1, 2, 3, 4, 5, 6, 7.0f, 8.0f};
    const plumb_counts b = {10, 20, 30, 40, 50, 60, 5.0f, 70.0f};
    const plumb_counts want = {11, 22, 33, 44, 55, 66, 7.0f, 70.0f};
    plumb_spectrum s = {.exponent = {[3] = 5, [255] = 1}, .signal = 2, .error = 3}, t = s;

    plumb_counts_add(&a, &b);
    CHECK(same_counts(&a, &want), "sums differ");
    plumb_spectrum_add(&s, &t);
    CHECK(s.exponent[3] == 10 && s.exponent[255] == 2 && s.exponent[4] == 0 &&
              s.signal == 4 && s.error == 6,
          "spectra differ");
    check_done("adding counts and spectra");
}

/* --- decoding, amax -------------------------------------------------------------- */

static void decode_all(const plumb_decode_kernel *k, float scale)
{
    static uint32_t codes[65536];
    static uint8_t narrow[65536];
    static uint16_t half[65536];
    static float x[65536 + 1];
    const int bytes = plumb_format_get(k->format)->bytes;
    const uint32_t n = bytes == 1 ? 256 : 65536;
    const void *from[] = {NULL, narrow, half, NULL, codes};

    for (uint32_t i = 0; i < 65536; i++) {
        codes[i] = i * 65537u ^ 0x5u;
        half[i] = (uint16_t)i;
        narrow[i] = (uint8_t)i;
    }
    x[n] = 99;
    k->run(k->format, scale, from[bytes], n, x);
    CHECK(x[n] == 99, "%s wrote past the end", k->name);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t code = code_at(k->format, from[bytes], i);

        /* Exact in double, then one rounding to fp32. */
        const float product =
            (float)((double)plumb_format_value(k->format, code) * (double)scale);
        const uint32_t want = isnan(product) ? 0x7fc00000u : bits_from(product);

        CHECK(bits_from(x[i]) == want, "%s: %x * %a = %a", k->name, code, (double)scale,
              (double)x[i]);
    }
}

static void decoding(void)
{
    static const float scales[] = {1.0f,     3.7f, -1.0f,    0x1p-140f,
                                   0x1p125f, 0.0f, INFINITY, NAN};

    for (size_t i = 0; i < plumb_decode_kernel_count; i++)
        for (size_t s = 0; s < sizeof scales / sizeof scales[0]; s++)
            if (can_run(plumb_decode_kernels[i].cpu))
                decode_all(&plumb_decode_kernels[i], scales[s]);
    check_done("every code decoded");
}

static void decode_sizes(void)
{
    static uint32_t codes[MOST];
    static float x[MOST + 1], all[MOST];

    for (size_t i = 0; i < MOST; i++)
        codes[i] = next_random();
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

/* The amax of fp32 values that bf16 holds, from both. */
static float amax_of(const plumb_amax_kernel *k, const float *x, size_t n)
{
    uint16_t half[MOST];

    for (size_t i = 0; i < n; i++)
        half[i] = (uint16_t)(bits_from(x[i]) >> 16);
    const float amax = k->run(x, n), other = k->run_bf16(half, n);

    CHECK(bits_from(amax) == bits_from(other), "%s, n=%zu: %a of fp32, %a of bf16", k->name,
          n, (double)amax, (double)other);
    return amax;
}

static void amaxima(void)
{
    const float nan = float_from(0xffc10000), infinite = float_from(0x7f800000);
    static float x[MOST];

    for (size_t i = 0; i < plumb_amax_kernel_count; i++) {
        const plumb_amax_kernel *k = &plumb_amax_kernels[i];

        if (!can_run(k->cpu))
            continue;
        CHECK(k->run(NULL, 0) == 0 && k->run_bf16(NULL, 0) == 0, "%s of nothing", k->name);
        for (size_t n = 1; n <= MOST; n++) {
            const size_t at = next_random() % n;

            for (size_t j = 0; j < n; j++)
                x[j] = j % 2 ? 1.0f : -0x1p-130f;
            x[at] = n % 2 ? -3.5f : 3.5f;
            CHECK(amax_of(k, x, n) == 3.5f, "%s, n=%zu", k->name, n);
            x[n / 2] = nan;
            x[n - 1] = -4.5f;
            CHECK(amax_of(k, x, n) == 4.5f, "%s does not ignore NaN, n=%zu", k->name, n);
            x[n / 3] = -infinite;
            CHECK(n < 3 || isinf(amax_of(k, x, n)), "%s ignores infinity, n=%zu", k->name,
                  n);
        }
        x[0] = nan;
        CHECK(bits_from(amax_of(k, x, 1)) == 0, "%s of a NaN alone", k->name);
        x[0] = -0x1p-149f;
        CHECK(k->run(x, 1) == 0x1p-149f, "%s flushes", k->name);
    }
    check_done("amax");
}

int main(void)
{
    sizes();
    blocks();
    sources();
    spectra();
    small_spectrum();
    broken_decode();
    many();
    long_spectrum();
    adding();
    decoding();
    decode_sizes();
    amaxima();
    return check_exit();
}
