/* Stochastic rounding: which bits decide it, with what probability, and what happens at the ends
 * of a format.  Frequencies are held against the exact probability: seeds are fixed, and an
 * interval of 5 standard deviations of the binomial leaves a wrong rule no room at 2^17 draws.
 */
#include "check.h"
#include "kernel/cast_kit.h"
#include "plumb/random.h"

#include <float.h>
#include <stdlib.h>

static plumb_cast stochastic(plumb_format format, plumb_dither dither)
{
    return (plumb_cast){.format = format,
                        .saturate = true,
                        .scale = 1,
                        .rounding = PLUMB_ROUND_STOCHASTIC,
                        .dither = dither,
                        .seed = 77,
                        .stream = plumb_random_stream("stochastic")};
}

/* --- which bits -------------------------------------------------------------------- */

/* Whether the rule of plumb/cast.h goes up at a distance of f = numerator / 2^32. */
static bool goes_up(plumb_dither dither, uint64_t numerator, uint32_t word)
{
    const uint64_t r = word >> 24, one = (uint64_t)1 << 32;

    if (dither == PLUMB_DITHER_32)
        return word < numerator;
    if (dither == PLUMB_DITHER_8)
        return numerator + (r << 24) >= one;
    return numerator + (r << 24) + ((uint64_t)1 << 23) >= one;
}

/* 1 + f/8 in e4m3 and -f/512 there, the one normal and the other subnormal, each element with
 * another f; the words come from plumb_random_bits.
 */
static void words(void)
{
    enum { N = 5000 };
    static float x[N];
    static uint64_t f[N];
    static uint8_t codes[N];

    for (int d = 0; d < 3; d++) {
        plumb_cast how = stochastic(PLUMB_E4M3, (plumb_dither)d);

        for (uint32_t i = 0; i < N; i++) {
            const uint64_t steps = i * 0x9e3779b9u & 0xfffff; /* of 2^-20 */

            f[i] = steps << 12;
            x[i] = i % 2 ? 1 + (float)steps * 0x1p-23f : -(float)steps * 0x1p-29f;
        }
        how.first = 0xfffffffffdu; /* blocks are counted in 64 bits and cut */
        plumb_cast_encode(&how, x, N, codes, NULL);
        for (uint32_t i = 0; i < N; i++) {
            const uint64_t at = how.first + i;
            uint32_t word[4];

            plumb_random_bits(how.seed, how.stream, at / 4, word);
            const uint32_t up = goes_up(how.dither, f[i], word[at % 4]);
            const uint32_t want = i % 2 ? 0x38 + up : 0x80 + up;

            CHECK(codes[i] == want, "dither %d, element %u: %a = %02x, want %02x", d, i,
                  (double)x[i], codes[i], want);
        }
    }
    check_done("element i uses word i mod 4 of block i / 4");
}

/* Any part of a call, cast alone, gives the codes of the whole, at every level. */
static void pieces(void)
{
    enum { N = 4000 };
    static const char *const levels[] = {"baseline", "avx2", "avx512"};
    static float x[N];
    static uint8_t whole[N], part[N];

    for (size_t i = 0; i < N; i++)
        x[i] = any_float();
    for (size_t turn = 0; turn < 3 * 60; turn++) {
        const plumb_cast how = stochastic(PLUMB_E5M2, (plumb_dither)(turn % 3));
        const size_t start = turn * 37 % 1500, n = turn * 61 % (N - 1500);
        unsigned mask = 0;
        plumb_cast cut = how;

        plumb_cpu_parse(levels[turn / 60], &mask);
        plumb_cpu_limit(PLUMB_CPU_BASELINE);
        plumb_cast_encode(&how, x, N, whole, NULL);
        plumb_cpu_limit(mask);
        cut.first = start;
        plumb_cast_encode(&cut, x + start, n, part, NULL);
        CHECK(memcmp(whole + start, part, n) == 0, "%zu from %zu on at %s", n, start,
              levels[turn / 60]);
    }
    check_done("pieces get the bits of the whole");
}

/* Another seed, stream or step gives other codes. */
static void names(void)
{
    enum { N = 4096 };
    static float x[N];
    static uint8_t codes[4][N];
    plumb_cast how[4];

    for (size_t i = 0; i < N; i++)
        x[i] = 1.0625f;
    for (int j = 0; j < 4; j++)
        how[j] = stochastic(PLUMB_E4M3, PLUMB_DITHER_32);
    how[1].seed++;
    how[2].stream++;
    how[3].stream = plumb_random_stream_at(how[3].stream, 1);
    for (int j = 0; j < 4; j++)
        plumb_cast_encode(&how[j], x, N, codes[j], NULL);
    for (int j = 1; j < 4; j++) {
        int same = 0;

        for (size_t i = 0; i < N; i++)
            same += codes[0][i] == codes[j][i];
        CHECK(abs(same - N / 2) < 5 * 32, "%d of %d alike, name %d", same, N, j);
    }
    check_done("seed, stream and step name the bits");
}

/* --- with what probability ----------------------------------------------------------- */

enum { DRAWS = 1 << 17 };

/* How often x becomes `up` and not `down`. */
static unsigned ups(plumb_cast how, float x, uint32_t down, uint32_t up)
{
    static float many[DRAWS];
    static uint32_t codes[DRAWS];
    unsigned count = 0;

    for (size_t i = 0; i < DRAWS; i++)
        many[i] = x;
    plumb_cast_encode(&how, many, DRAWS, codes, NULL);
    for (size_t i = 0; i < DRAWS; i++) {
        const uint32_t code = code_at(how.format, codes, i);

        CHECK(code == down || code == up, "%s(%a) = %x", plumb_format_get(how.format)->name,
              (double)x, code);
        count += code == up;
    }
    return count;
}

static void frequency(plumb_format format, plumb_dither dither, float x, uint32_t down,
                      uint32_t up, double p)
{
    const double mean = DRAWS * p, deviation = sqrt(DRAWS * p * (1 - p));
    const unsigned got = ups(stochastic(format, dither), x, down, up);

    CHECK(fabs(got - mean) <= 5 * deviation, "%s(%a), dither %d: %u times up, want %.0f",
          plumb_format_get(format)->name, (double)x, (int)dither, got, mean);
}

static void frequencies(void)
{
    static const struct {
        plumb_format format;
        double x;
        uint32_t down, up;
        double p;
    } list[] = {
        {PLUMB_E4M3, 1.03125, 0x38, 0x39, 0.25},
        {PLUMB_E4M3, -1.09375, 0xb8, 0xb9, 0.75},
        {PLUMB_E4M3, 0x1p-10, 0x00, 0x01, 0.5},        /* half the least subnormal */
        {PLUMB_E4M3, -0x1p-12, 0x80, 0x81, 0.125},     /* below it */
        {PLUMB_E4M3, 0x1.8p-15, 0x00, 0x01, 0x1.8p-6}, /* far below it */
        {PLUMB_E4M3, 460, 0x7e, 0x7e, 1},              /* saturated either way */
        {PLUMB_E5M2, 5, 0x45, 0x45, 1},                /* exact */
        {PLUMB_E5M2, 5.25, 0x45, 0x46, 0.25},
        {PLUMB_BF16, 0x1.01p0, 0x3f80, 0x3f81, 0.5},
        {PLUMB_FP16, 0x1.001p0, 0x3c00, 0x3c01, 0.25},
        {PLUMB_TF32, 0x1.001p0, 0x3f800000, 0x3f802000, 0.25},
        {PLUMB_E4M3FNUZ, -0x1p-12, 0x00, 0x81, 0.25},
        {PLUMB_E5M2FNUZ, 0x1p-18, 0x00, 0x01, 0.5},
        {PLUMB_E3M2, 25, 0x1e, 0x1f, 0.25},
        {PLUMB_E2M3, -7.125, 0x3e, 0x3f, 0.25},
        {PLUMB_E2M1, 5.5, 0x6, 0x7, 0.75},
        {PLUMB_E8M0, 1.25, 127, 128, 0.25},
        {PLUMB_E8M0, 0x1.8p-127, 0, 1, 0.5},
        {PLUMB_UE4M3, 0x1p-11, 0x00, 0x01, 0.25},
    };

    /* All these probabilities are multiples of 1/256, so eight bits have them too. */
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        for (int d = 0; d < 3; d++)
            frequency(list[i].format, (plumb_dither)d, (float)list[i].x, list[i].down,
                      list[i].up, list[i].p);
    check_done("frequencies");
}

/* The stated bias: 8 bits go up floor(256 f) times of 256, and with the half added round
 * f to the nearest of these.
 */
static void biases(void)
{
    static const float steps[] = {0.25f, 0.5f, 0.75f, 1.5f, 77.25f, 255.75f};

    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const float x = 1 + steps[i] * 0x1p-9f; /* of e2m1, whose step is 1/2 */
        const double cut = floor((double)steps[i]) / 256;
        const double centred = floor((double)steps[i] + 0.5) / 256;

        frequency(PLUMB_E2M1, PLUMB_DITHER_32, x, 2, 3, (double)steps[i] / 256);
        frequency(PLUMB_E2M1, PLUMB_DITHER_8, x, 2, 3, cut);
        frequency(PLUMB_E2M1, PLUMB_DITHER_8_CENTRED, x, 2, 3, centred);
    }
    check_done("eight bits and their bias");
}

/* Neighbouring elements decide alone: of pairs at f = 1/2, a quarter goes up together. */
static void independence(void)
{
    static float x[DRAWS];
    static uint8_t codes[DRAWS];
    const plumb_cast how = stochastic(PLUMB_E4M3, PLUMB_DITHER_32);

    for (size_t i = 0; i < DRAWS; i++)
        x[i] = 1.0625f;
    plumb_cast_encode(&how, x, DRAWS, codes, NULL);
    for (size_t lag = 1; lag <= 9; lag++) {
        unsigned both = 0, n = 0;

        for (size_t i = 0; i + lag < DRAWS; i++, n++)
            both += codes[i] == 0x39 && codes[i + lag] == 0x39;
        CHECK(fabs(both - n / 4.0) < 5 * sqrt(n * 3 / 16.0), "lag %zu: %u of %u", lag, both,
              n);
    }
    check_done("elements decide alone");
}

/* --- the ends ------------------------------------------------------------------------ */

/* What is at most the largest never exceeds it; in between with the next code it does with the
 * probability of the distance, and is then past the end.
 */
static void next_to_the_top(void)
{
    plumb_cast how = stochastic(PLUMB_E4M3, PLUMB_DITHER_32);
    static float x[DRAWS];
    static uint8_t codes[DRAWS];
    plumb_counts c = {0};

    frequency(PLUMB_E4M3, PLUMB_DITHER_32, 0x1.bfp8f, 0x7d, 0x7e, 31.0 / 32);
    for (int d = 0; d < 3; d++) {
        const unsigned top = ups(stochastic(PLUMB_E4M3, (plumb_dither)d), 448, 0x7e, 0x7e);
        const float just = nextafterf(448, 0);

        CHECK(top == DRAWS, "448 moved, dither %d", d);
        ups(stochastic(PLUMB_E4M3, (plumb_dither)d), just, 0x7d, 0x7e);
    }
    how.saturate = false;
    const unsigned nans = ups(how, 460, 0x7e, 0x7f);
    const double mean = DRAWS * 0.375, deviation = sqrt(mean * 0.625);

    CHECK(fabs(nans - mean) < 5 * deviation, "460 became NaN %u times, want %.0f", nans,
          mean);
    for (size_t i = 0; i < DRAWS; i++)
        x[i] = 460;
    plumb_cast_encode(&how, x, DRAWS, codes, &c);
    CHECK(c.saturated == nans && c.clipped == DRAWS && c.code_amax == 448,
          "%llu saturated, %llu clipped", (unsigned long long)c.saturated,
          (unsigned long long)c.clipped);
    CHECK(ups(how, 480, 0x7f, 0x7f) == DRAWS, "480 stayed");
    how.format = PLUMB_E5M2;
    ups(how, 61440, 0x7b, 0x7c);
    how.format = PLUMB_E2M1;
    CHECK(ups(how, 7.5f, 0x7, 0x7) == DRAWS, "7.5 left e2m1");
    check_done("next to the top");
}

/* Exact values never move, whatever the bits: all codes of all narrow formats. */
static void exact(void)
{
    for (int f = 0; f < PLUMB_FORMAT_COUNT; f++) {
        const plumb_format_info *info = plumb_format_get((plumb_format)f);
        uint8_t codes[64];
        float x[64];

        if (info->bytes > 1)
            continue;
        for (uint32_t code = 0; code < 3 * (info->largest_code + 1); code++) {
            plumb_cast how = stochastic((plumb_format)f,
                                        (plumb_dither)(code / (info->largest_code + 1)));
            const uint32_t want = code % (info->largest_code + 1);

            for (int i = 0; i < 64; i++)
                x[i] = plumb_format_value((plumb_format)f, want);
            plumb_cast_encode(&how, x, 64, codes, NULL);
            for (int i = 0; i < 64; i++)
                CHECK(codes[i] == want, "%s %x became %x", info->name, want, codes[i]);
        }
    }
    check_done("exact values stay");
}

static void specials(void)
{
    static const float x[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX};
    plumb_cast how = stochastic(PLUMB_E5M2, PLUMB_DITHER_32);
    uint8_t codes[7];

    plumb_cast_encode(&how, x, 7, codes, NULL);
    CHECK(codes[0] == 0 && codes[1] == 0x80 && codes[2] == 0x7b && codes[3] == 0xfb &&
              codes[4] == 0x7f && codes[5] == 0x7b && codes[6] == 0xfb,
          "saturating");
    how.saturate = false;
    plumb_cast_encode(&how, x, 7, codes, NULL);
    CHECK(codes[2] == 0x7c && codes[3] == 0xfc && codes[4] == 0x7f && codes[5] == 0x7c &&
              codes[6] == 0xfc,
          "not saturating");
    check_done("zeros, infinities, NaN");
}

int main(void)
{
    words();
    pieces();
    names();
    frequencies();
    biases();
    independence();
    next_to_the_top();
    exact();
    specials();
    return check_exit();
}
