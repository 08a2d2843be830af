/* The all-reduce against its recurrence with values worked by hand, in a wire format whose
 * codes can be written down; lane sums against the order in the header.
 */
#include "plumb/reduce.h"

#include "check.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static plumb_spec parse(const char *text)
{
    plumb_spec spec = {0};
    plumb_error why = {0};

    CHECK_OK(plumb_spec_parse(text, NULL, &spec, &why), why);
    return spec;
}

static void reduce(const char *wire, const float *const *shares, size_t ranks, size_t n,
                   float *out, plumb_counts *counts, float *scale)
{
    const plumb_reduction how = {.wire = parse(wire)};
    plumb_error why = {0};

    CHECK_OK(plumb_allreduce(&how, shares, ranks, n, out, counts, NULL, scale, &why), why);
}

/* Element order and joining written out once more, in the plainest way. */
static void lane_order(void)
{
    enum { N = 53 };
    float x[N], y[N];

    for (size_t i = 0; i < N; i++) {
        x[i] = (float)((i * 7919 + 13) % 1009) * (i % 3 == 0 ? -1e6f : 1.7f);
        y[i] = 1.0f / (float)(i + 3);
    }
    for (size_t n = 0; n <= N; n++) {
        float sum[16] = {0}, dot[16] = {0};
        double squares[16] = {0}, wide[16] = {0};

        for (size_t i = 0; i < n; i++) {
            sum[i % 16] += x[i];
            dot[i % 16] = fmaf(x[i], y[i], dot[i % 16]);
            squares[i % 16] += (double)x[i] * (double)x[i];
            wide[i % 16] += (double)x[i] * (double)y[i];
        }
        for (size_t half = 8; half > 0; half /= 2) {
            for (size_t l = 0; l < half; l++) {
                sum[l] += sum[l + half];
                dot[l] += dot[l + half];
                squares[l] += squares[l + half];
                wide[l] += wide[l + half];
            }
        }
        CHECK(plumb_sum(x, n) == sum[0], "sum of %zu: %a, want %a", n,
              (double)plumb_sum(x, n), (double)sum[0]);
        CHECK(plumb_dot(x, y, n) == dot[0], "dot of %zu", n);
        CHECK(plumb_sum_squares(x, n) == squares[0], "sum of squares of %zu", n);
        CHECK(plumb_dot_f64(x, y, n) == wide[0], "dot in fp64 of %zu", n);
    }
    check_done("lane order");
}

/* E4M3 without a scale has steps of 1 from 8 to 16 and of 2 from 16 to 32. */
static void worked(void)
{
    const float a[3] = {9.4f, 15, 400}, b[3] = {1.4f, 2, 100}, c[3] = {6.6f, 1, -100};
    const float *const shares[3] = {a, b, c};
    plumb_counts counts = {0};
    float out[3], scale = 0;

    reduce("e4m3:none", shares, 3, 3, out, &counts, &scale);
    /* 9.4 -> 9; 1.4 -> 1.375; 10.375 -> 10; 6.6 -> 6.5; 16.5 -> 16 */
    CHECK(out[0] == 16, "out[0] = %g", (double)out[0]);
    /* 15; 15 + 2 = 17 -> 16 (tie, to even); 16 + 1 = 17 -> 16 */
    CHECK(out[1] == 16, "out[1] = %g", (double)out[1]);
    /* 400 -> 384 (tie, to even); 100 -> 96; 480 -> 448, saturated; -96; 352 */
    CHECK(out[2] == 352, "out[2] = %g", (double)out[2]);
    CHECK(scale == 1, "scale %g", (double)scale);
    CHECK(counts.total == 15 && counts.saturated == 1, "%llu casts, %llu saturated",
          (unsigned long long)counts.total, (unsigned long long)counts.saturated);
    CHECK(counts.amax == 480, "amax %g of all that was cast", (double)counts.amax);

    reduce("e4m3:none:overflow", shares, 3, 3, out, NULL, NULL);
    CHECK(out[0] == 16 && isnan(out[2]), "overflow: %g", (double)out[2]);
    reduce("e4m3:none", shares, 1, 3, out, NULL, NULL);
    CHECK(out[0] == 9 && out[1] == 15 && out[2] == 384, "one rank: %g %g %g",
          (double)out[0], (double)out[1], (double)out[2]);
    reduce("bf16", shares, 2, 3, out, NULL, NULL);
    /* 9.4 -> 9.375; 1.4 -> 1.3984375; 10.7734375 -> 10.75 */
    CHECK(out[0] == 10.75f, "bf16: %a", (double)out[0]);
    reduce("fp32", shares, 3, 3, out, &counts, &scale);
    CHECK(out[0] == (9.4f + 1.4f) + 6.6f && scale == 1 && counts.total == 15,
          "fp32: %a, %llu casts", (double)out[0], (unsigned long long)counts.total);
    check_done("worked by hand");
}

static void scales(void)
{
    const float a[2] = {3.5f, 1}, b[2] = {-7, 1};
    const float *const shares[2] = {a, b};
    float out[2], scale = 0;

    reduce("e4m3:current", shares, 2, 2, out, NULL, &scale);
    CHECK(scale == 32, "448 / (2 * 7) is %g", (double)scale);
    CHECK(out[0] == -3.5f && out[1] == 2, "%g %g", (double)out[0], (double)out[1]);
    reduce("e4m3:static=0.5", shares, 2, 2, out, NULL, &scale);
    CHECK(scale == 0.5f && out[0] == -3.5f, "static: %g %g", (double)scale, (double)out[0]);
    reduce("e4m3:divide", shares, 2, 2, out, NULL, &scale);
    CHECK(scale == 32 && out[0] == -3.5f, "divide: %g %g", (double)scale, (double)out[0]);

    /* 56 56 56 ... in codes: 112, 160, 224, 288, 352, 416, and 472 is past 448 */
    const float one = 1;
    const float *const eight[8] = {&one, &one, &one, &one, &one, &one, &one, &one};
    plumb_counts counts = {0};

    reduce("e4m3:current", eight, 8, 1, out, &counts, &scale);
    CHECK(scale == 56 && out[0] == 8 && counts.saturated == 1, "%g at %g, %llu saturated",
          (double)out[0], (double)scale, (unsigned long long)counts.saturated);
    reduce("e4m3:current:overflow", eight, 8, 1, out, NULL, NULL);
    CHECK(isnan(out[0]), "overflow: %g", (double)out[0]);
    check_done("scales");
}

static float shared_scale(plumb_reduce_headroom headroom, const char *wire, size_t ranks)
{
    const float a[2] = {3.5f, 1}, b[2] = {-7, 1};
    const float *const shares[4] = {a, b, a, a};
    const plumb_reduction how = {.headroom = headroom, .wire = parse(wire)};
    plumb_error why = {0};
    float out[2], scale = 0;

    CHECK_OK(plumb_allreduce(&how, shares, ranks, 2, out, NULL, NULL, &scale, &why), why);
    return scale;
}

/* 448 / 7 = 64, less the room for four ranks. */
static void headroom(void)
{
    CHECK(shared_scale(PLUMB_REDUCE_HEADROOM_RANKS, "e4m3", 4) == 16, "ranks");
    CHECK(shared_scale(PLUMB_REDUCE_HEADROOM_SQRT, "e4m3", 4) == 32, "sqrt");
    CHECK(shared_scale(PLUMB_REDUCE_HEADROOM_NONE, "e4m3", 4) == 64, "none");
    CHECK(shared_scale(PLUMB_REDUCE_HEADROOM_SQRT, "e4m3", 2) == 448 / (1.41421356f * 7),
          "the root of two");
    CHECK(shared_scale(PLUMB_REDUCE_HEADROOM_SQRT, "e4m3:margin=1", 4) == 16, "margin");
    CHECK(shared_scale(PLUMB_REDUCE_HEADROOM_NONE, "e4m3:static=3", 4) == 3, "static");
    CHECK(shared_scale(PLUMB_REDUCE_HEADROOM_RANKS, "bf16", 4) == 1, "bf16 has no scale");

    /* Without room the sum of 3.5 + 3.5 saturates at 448 / 128. */
    const float a = 3.5f;
    const float *const shares[2] = {&a, &a};
    const plumb_reduction tight = {.headroom = PLUMB_REDUCE_HEADROOM_NONE,
                                   .wire = parse("e4m3")};
    plumb_counts casts = {0};
    plumb_sum_counts sums = {0};
    float out;

    plumb_allreduce(&tight, shares, 2, 1, &out, &casts, &sums, NULL, NULL);
    CHECK(out == 3.5f && casts.saturated == 1 && sums.swamped == 1 && sums.replaced == 1 &&
              sums.lost == 3.5 * 3.5,
          "%g, lost %g", (double)out, sums.lost);
    check_done("headroom");
}

/* 1.03 + 1.03, and 3 + 100: the code of each, of their sum, by hand. */
static void formats(void)
{
    static const struct {
        const char *wire;
        float sum[2];
    } cases[] = {
        {"fp16", {0x1.07cp1f, 103}}, /* 1.03 -> 1 + 31/1024 = 1.0302734375 */
        {"e4m3fnuz:none", {2, 96}},  /* 1; 100 -> 96 (tie of 96 and 104); 99 -> 96 */
        {"e5m2fnuz:none", {2, 96}},  /* 3; 96; 99 -> 96 */
        {"e5m2:none", {2, 96}},      /* 3; 96 of 96, 112; 99 -> 96 */
        {"e3m2:none", {2, 28}},      /* largest 28 */
        {"e2m3:none", {2, 7.5f}},    /* largest 7.5 */
        {"e2m1:none", {2, 6}},       /* largest 6 */
    };
    const float a[2] = {1.03f, 3}, b[2] = {1.03f, 100};
    const float *const shares[2] = {a, b};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float out[2];

        reduce(cases[i].wire, shares, 2, 2, out, NULL, NULL);
        CHECK(out[0] == cases[i].sum[0] && out[1] == cases[i].sum[1], "%s: %a %g",
              cases[i].wire, (double)out[0], (double)out[1]);
    }
    check_done("formats of the wire");
}

/* Cast number h draws from stream + h, element i word i: by hand, for two ranks in a ring.  Piece
 * 0 is share 1, share 0, sum; piece 1 is share 0, share 1, sum.
 */
static void stochastic_ring(plumb_dither dither)
{
    enum { N = 700, HALF = 350 };
    float x[2][N], out[N], want[N], travels[2][N];
    const float *const shares[2] = {x[0], x[1]};
    plumb_reduction how = {
        .order = PLUMB_ORDER_RING, .wire = parse("e4m3:none"), .seed = 7, .stream = 99};
    plumb_error why = {0};
    uint8_t codes[N];
    unsigned other = 0;

    how.wire.rounding = PLUMB_ROUND_STOCHASTIC;
    how.wire.dither = dither;
    for (size_t i = 0; i < N; i++) {
        x[0][i] = 1 + (float)i / 512;
        x[1][i] = 3 - (float)(i % 171) / 64;
    }
    plumb_cast cast = {.format = PLUMB_E4M3,
                       .saturate = true,
                       .scale = 1,
                       .rounding = PLUMB_ROUND_STOCHASTIC,
                       .dither = dither,
                       .seed = 7};

    for (size_t rank = 0; rank < 2; rank++) {
        for (size_t i = 0; i < N; i++) {
            cast.stream = 99 + (i < HALF ? 1 - rank : rank);
            cast.first = i;
            plumb_cast_encode(&cast, &x[rank][i], 1, &codes[i], NULL);
        }
        plumb_cast_decode(PLUMB_E4M3, 1, codes, N, travels[rank]);
    }
    for (size_t i = 0; i < N; i++)
        want[i] = travels[0][i] + travels[1][i];
    cast.stream = 101;
    cast.first = 0;
    plumb_cast_encode(&cast, want, N, codes, NULL);
    plumb_cast_decode(PLUMB_E4M3, 1, codes, N, want);
    CHECK_OK(plumb_allreduce(&how, shares, 2, N, out, NULL, NULL, NULL, &why), why);
    CHECK(memcmp(out, want, sizeof out) == 0, "other random bits");
    how.stream = 100;
    plumb_allreduce(&how, shares, 2, N, out, NULL, NULL, NULL, NULL);
    for (size_t i = 0; i < N; i++)
        other += out[i] != want[i];
    CHECK(other > 100, "another stream differs in %u of 700", other);
}

/* Elements cast, then sums: 0, 1, 2 = 0 + 1, 3, 4 = 2 + 3, ... */
static void stochastic_vector(void)
{
    enum { N = 40 };
    plumb_summation how = {.cast = {.format = PLUMB_BF16,
                                    .scale = 1,
                                    .rounding = PLUMB_ROUND_STOCHASTIC,
                                    .seed = 3,
                                    .stream = 1000,
                                    .first = 5}};
    plumb_cast cast = how.cast;
    float x[N], value, sum = 0;
    double got = 0;
    uint16_t code;

    for (size_t i = 0; i < N; i++) {
        x[i] = 1 + (float)(i * i) / 3000;
        plumb_cast_encode(&cast, &x[i], 1, &code, NULL);
        cast.stream++;
        plumb_cast_decode(PLUMB_BF16, 1, &code, 1, &value);
        sum += value;
        if (i == 0)
            continue;
        plumb_cast_encode(&cast, &sum, 1, &code, NULL);
        cast.stream++;
        plumb_cast_decode(PLUMB_BF16, 1, &code, 1, &sum);
    }
    plumb_sum_ordered(&how, x, N, &got, NULL, NULL, NULL);
    CHECK(got == (double)sum, "%a, want %a", got, (double)sum);
}

/* Element i of a state draws word first + i, beyond a piece, too. */
static void stochastic_state(void)
{
    enum { N = 700 };
    const plumb_cast cast = {.format = PLUMB_E5M2,
                             .scale = 3,
                             .divide = true,
                             .rounding = PLUMB_ROUND_STOCHASTIC,
                             .seed = 3,
                             .stream = 1000,
                             .first = 5};
    float state[N], x[N], want[N];
    uint8_t codes[N];

    for (size_t i = 0; i < N; i++) {
        state[i] = 1 + (float)i / 100;
        x[i] = 1 / (float)(i + 1);
        want[i] = state[i] * 0.5f + x[i];
    }
    plumb_cast_encode(&cast, want, N, codes, NULL);
    plumb_cast_decode(PLUMB_E5M2, 3, codes, N, want);
    plumb_accumulate(&cast, 0.5f, state, x, N, NULL, NULL, NULL);
    CHECK(memcmp(state, want, sizeof state) == 0, "another state");
}

static void stochastic(void)
{
    stochastic_ring(PLUMB_DITHER_32);
    stochastic_ring(PLUMB_DITHER_8);
    stochastic_vector();
    stochastic_state();
    check_done("stochastic");
}

/* In bf16 nothing comes of an update of 1/1000 step; rounded stochastically it does on average. */
static void accumulated(void)
{
    enum { N = 2000, STEPS = 500 };
    plumb_cast cast = {
        .format = PLUMB_BF16, .scale = 1, .rounding = PLUMB_ROUND_STOCHASTIC, .seed = 5};
    float state[N], x[N];
    double mean = 0;
    plumb_counts casts = {0};
    plumb_sum_counts sums = {0};

    for (size_t i = 0; i < N; i++) {
        state[i] = 1;
        x[i] = 0x1p-7f / 1000;
    }
    for (int step = 0; step < STEPS; step++) {
        cast.stream = (uint64_t)step;
        plumb_accumulate(&cast, 1, state, x, N, &casts, &sums, NULL);
    }
    for (size_t i = 0; i < N; i++)
        mean += ((double)state[i] - 1) / 0x1p-7 / N;
    /* Expected 0.5; 10^6 draws of probability 1/1000: deviation sqrt(1000) / 2000 = 0.016. */
    CHECK(fabs(mean - 0.5) < 5 * 0.016, "%g of a step on average", mean);
    CHECK(casts.total == (uint64_t)N * STEPS && sums.additions == casts.total, "%llu casts",
          (unsigned long long)casts.total);
    CHECK(sums.swamped > casts.total * 995 / 1000 && sums.swamped < casts.total,
          "%llu swamped", (unsigned long long)sums.swamped);
    plumb_sum_counts twice = sums;

    plumb_sum_counts_add(&twice, &sums);
    CHECK(twice.additions == 2 * sums.additions && twice.swamped == 2 * sums.swamped &&
              twice.replaced == 2 * sums.replaced &&
              twice.nonfinite == 2 * sums.nonfinite && twice.energy == 2 * sums.energy &&
              twice.lost == 2 * sums.lost && twice.missing == 2 * sums.missing,
          "counts do not add up");
    check_done("accumulated");
}

/* More than one piece, in place, the same as element by element. */
static void pieces(void)
{
    enum { N = 2500, RANKS = 3 };
    float *share[RANKS], *want = malloc(N * sizeof *want);

    for (size_t r = 0; r < RANKS; r++) {
        share[r] = malloc(N * sizeof(float));
        for (size_t i = 0; i < N; i++)
            share[r][i] = (float)((i * 37 + r * 11) % 401) - 200;
    }
    for (size_t i = 0; i < N; i++) {
        const float *const one[RANKS] = {share[0] + i, share[1] + i, share[2] + i};

        reduce("e5m2:static=0.3", one, RANKS, 1, &want[i], NULL, NULL);
    }
    reduce("e5m2:static=0.3", (const float *const *)share, RANKS, N, share[0], NULL, NULL);
    CHECK(memcmp(share[0], want, N * sizeof *want) == 0, "pieces or in place differ");
    for (size_t r = 0; r < RANKS; r++)
        free(share[r]);
    free(want);
    check_done("pieces and in place");
}

static void specials(void)
{
    const float a[3] = {INFINITY, 1, FLT_MAX}, b[3] = {-INFINITY, NAN, FLT_MAX};
    const float *const shares[2] = {a, b};
    float out[3], scale = 0;
    uint32_t bits[3];

    reduce("fp32", shares, 2, 3, out, NULL, NULL);
    memcpy(bits, out, sizeof bits);
    CHECK(bits[0] == 0x7fc00000 && bits[1] == 0x7fc00000 && bits[2] == 0x7f800000,
          "%08x %08x %08x", bits[0], bits[1], bits[2]);
    reduce("e4m3:current", shares, 2, 3, out, NULL, &scale);
    CHECK(scale == 1, "an infinite amax gives scale %g", (double)scale);
    reduce("e4m3", shares, 2, 0, out, NULL, NULL);

    const float odd[1] = {-NAN}, *const alone[1] = {odd};
    reduce("fp32", alone, 1, 1, out, NULL, NULL);
    memcpy(bits, out, sizeof bits);
    CHECK(bits[0] == 0x7fc00000, "a NaN of one rank: %08x", bits[0]);
    check_done("specials");
}

static plumb_status refused(const char *wire, plumb_order order, size_t ranks, size_t n,
                            const char *says)
{
    const float a[1] = {1};
    const float *const shares[1] = {a};
    const plumb_reduction how = {.order = order, .wire = parse(wire)};
    plumb_error why = {0};
    float out[1] = {7};
    const plumb_status status =
        plumb_allreduce(&how, shares, ranks, n, out, NULL, NULL, NULL, &why);

    CHECK(strstr(why.message, says) != NULL, "\"%s\" does not say \"%s\"", why.message,
          says);
    CHECK(out[0] == 7, "out was written by a refused call");
    return status;
}

static void refusals(void)
{
    const plumb_order by_rank = PLUMB_ORDER_SEQUENTIAL;
    const plumb_reduction odd = {.wire = {.format = (plumb_format)50}};
    const plumb_reduction roomy = {.headroom = (plumb_reduce_headroom)3};
    const float a[1] = {1};
    const float *const shares[1] = {a};
    float out[1] = {7};

    CHECK(refused("e4m3:delayed", by_rank, 1, 1, "rule") == PLUMB_UNSUPPORTED, "delayed");
    CHECK(refused("e4m3:1x128", by_rank, 1, 1, "grain") == PLUMB_UNSUPPORTED, "blocks");
    CHECK(refused("e4m3", by_rank, 0, 1, "0 ranks") == PLUMB_BAD_ARGUMENT, "no ranks");
    CHECK(refused("e4m3", by_rank, (1u << 20) + 1, 1, "1048577") == PLUMB_BAD_ARGUMENT,
          "too many ranks");
    CHECK(refused("fp32", PLUMB_ORDER_LANES, 1, 1, "order 4") == PLUMB_BAD_ARGUMENT,
          "lanes");
    CHECK(refused("fp32", PLUMB_ORDER_COUNT, 1, 1, "order 5") == PLUMB_BAD_ARGUMENT,
          "order 5");
    CHECK(refused("fp32", by_rank, 1, SIZE_MAX / 4 + 1, "memory") == PLUMB_BAD_SHAPE,
          "a size that overflows");
    CHECK(refused("fp32", by_rank, 1, SIZE_MAX / 8 + 1, "memory") == PLUMB_BAD_SHAPE,
          "more than a pointer can span");
    CHECK(plumb_allreduce(&odd, shares, 1, 1, out, NULL, NULL, NULL, NULL) ==
              PLUMB_BAD_FORMAT,
          "format 50");
    CHECK(plumb_allreduce(&roomy, shares, 1, 1, out, NULL, NULL, NULL, NULL) ==
              PLUMB_BAD_ARGUMENT,
          "headroom 3");
    CHECK(out[0] == 7, "out was written by a refused call");
    check_done("refusals");
}

static void refused_sums(void)
{
    const plumb_summation by_index = {.cast = {.scale = 1}};
    plumb_summation odd = by_index;
    plumb_cast bad = {.format = PLUMB_BF16, .scale = 2};
    plumb_error why = {0};
    float state[1] = {7};
    const float x[1] = {1};
    double sum = 7;

    odd.order = PLUMB_ORDER_RING;
    CHECK(plumb_sum_ordered(&odd, x, 1, &sum, NULL, NULL, &why) == PLUMB_BAD_ARGUMENT &&
              strstr(why.message, "order 1") != NULL,
          "a ring: %s", why.message);
    odd.order = (plumb_order)-1;
    CHECK(plumb_sum_ordered(&odd, x, 1, &sum, NULL, NULL, NULL) == PLUMB_BAD_ARGUMENT,
          "order -1");
    odd = (plumb_summation){.cast = bad};
    CHECK(plumb_sum_ordered(&odd, x, 1, &sum, NULL, NULL, NULL) == PLUMB_BAD_ARGUMENT,
          "bf16 with a scale");
    CHECK(plumb_sum_ordered(&by_index, x, SIZE_MAX, &sum, NULL, NULL, NULL) ==
              PLUMB_BAD_SHAPE,
          "a size that overflows");
    CHECK(plumb_accumulate(&bad, 1, state, x, 1, NULL, NULL, NULL) == PLUMB_BAD_ARGUMENT,
          "a state in bf16 with a scale");
    bad.format = (plumb_format)99;
    CHECK(plumb_accumulate(&bad, 1, state, x, 1, NULL, NULL, NULL) == PLUMB_BAD_FORMAT,
          "format 99");
    CHECK(plumb_accumulate(NULL, INFINITY, state, x, 1, NULL, NULL, NULL) ==
              PLUMB_BAD_ARGUMENT,
          "a decay that is infinite");
    CHECK(plumb_accumulate(NULL, 1, state, x, SIZE_MAX / 2, NULL, NULL, NULL) ==
              PLUMB_BAD_SHAPE,
          "a state that is too long");
    CHECK(sum == 7 && state[0] == 7, "a refused call wrote something");
    CHECK(plumb_sum_ordered(&by_index, NULL, 0, &sum, NULL, NULL, NULL) == PLUMB_OK &&
              sum == 0 && !signbit(sum),
          "nothing sums to %g", sum);
    const float minus_zero[1] = {-0.0f};

    plumb_sum_ordered(&by_index, minus_zero, 1, &sum, NULL, NULL, NULL);
    CHECK(sum == 0 && signbit(sum), "-0 alone becomes %g", sum);
    check_done("refused sums, and none");
}

int main(void)
{
    lane_order();
    worked();
    scales();
    headroom();
    formats();
    stochastic();
    accumulated();
    pieces();
    specials();
    refusals();
    refused_sums();
    return check_exit();
}
