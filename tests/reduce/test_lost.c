/* Swamped addends and lost energy against integers that hold every sum without error; cases made
 * so that an addend vanishes; a second moment in bf16 that can never decrease.
 */
#include "plumb/reduce.h"

#include "exact.h"

#include <float.h>
#include <stdlib.h>

static const struct {
    const oracle_format *format;
    plumb_format name;
} formats[] = {
    {&oracle_fp32, PLUMB_FP32}, {&oracle_bf16, PLUMB_BF16}, {&oracle_fp16, PLUMB_FP16},
    {&oracle_e4m3, PLUMB_E4M3}, {&oracle_e5m2, PLUMB_E5M2},
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static plumb_cast cast_of(int f)
{
    return (plumb_cast){.format = formats[f].name, .saturate = true, .scale = 1};
}

/* --- random sums ------------------------------------------------------------------------- */

static double by_index(const oracle_format *f, const float *x, size_t n, exact_account *a)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        const double value = oracle_round(f, (double)x[i]), old = sum;

        exact_leaf(a, (double)x[i], value);
        sum = i == 0 ? value : oracle_add(f, old, value);
        if (i > 0)
            exact_addition(a, exact_of(old), old, value, sum);
    }
    return sum;
}

static void vector_of(int f, size_t n, uint64_t *state)
{
    float x[1000] = {0};
    exact_account want = {0};
    plumb_sum_counts got = {0};
    plumb_summation how = {.cast = cast_of(f)};
    plumb_error why = {0};
    double sum;
    exact total = 0;

    for (size_t i = 0; i < n; i++) {
        x[i] = oracle_float(state, -12, 6);
        total += exact_of((double)x[i]);
    }
    const double right = by_index(formats[f].format, x, n, &want);

    CHECK_OK(plumb_sum_ordered(&how, x, n, &sum, NULL, &got, &why), why);
    CHECK(sum == right, "%s, n = %zu: %a, want %a", formats[f].format->spec, n, sum, right);
    exact_same(formats[f].format->spec, &got, &want);
    for (int order = 0; order < PLUMB_ORDER_COUNT; order++) {
        how.order = (plumb_order)order;
        got = (plumb_sum_counts){0};
        if (order == PLUMB_ORDER_RING)
            continue;
        plumb_sum_ordered(&how, x, n, &sum, NULL, &got, NULL);
        CHECK(exact_near(sum + got.missing, exact_value(total), want.energy + 1000),
              "order %d: %a and %a missing, but the exact sum is %La", order, sum,
              got.missing, exact_value(total));
        CHECK(got.additions == (order == PLUMB_ORDER_LANES ? n + 15 : n - 1),
              "order %d: %llu additions", order, (unsigned long long)got.additions);
        CHECK(exact_near(got.energy, want.energy, want.energy), "order %d: energy", order);
    }
}

static void vectors(void)
{
    uint64_t state = 1;

    for (int f = 0; f < FORMATS; f++)
        for (size_t n = 1; n <= 1000; n += n < 20 ? 1 : 98)
            vector_of(f, n, &state);
    check_done("sums of vectors");
}

static void reduction_of(int f, size_t ranks, size_t n, uint64_t *state)
{
    float x[5][600] = {{0}}, out[600];
    const float *const shares[5] = {x[0], x[1], x[2], x[3], x[4]};
    exact_account want = {0};
    plumb_sum_counts got = {0};
    plumb_reduction how = {0};
    plumb_error why = {0};

    plumb_spec_parse(formats[f].format->spec, NULL, &how.wire, NULL);
    for (size_t i = 0; i < n; i++) {
        float of_rank[5];

        for (size_t r = 0; r < ranks; r++)
            of_rank[r] = x[r][i] = oracle_float(state, -12, 6);
        by_index(formats[f].format, of_rank, ranks, &want);
    }
    CHECK_OK(plumb_allreduce(&how, shares, ranks, n, out, NULL, &got, NULL, &why), why);
    exact_same(formats[f].format->spec, &got, &want);
}

static void reductions(void)
{
    static const size_t sizes[] = {1, 15, 16, 17, 31, 32, 33, 511, 512, 513, 600};
    uint64_t state = 2;

    for (int f = 0; f < FORMATS; f++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (size_t ranks = 1; ranks <= 5; ranks++)
                reduction_of(f, ranks, sizes[i], &state);
    check_done("all-reduces");
}

/* decay * old, without error: 24 bits behind the point times 36. */
static exact product(float decay, float old)
{
    return (exact)(int64_t)ldexp((double)decay, 24) *
           (exact)(int64_t)ldexp((double)old, 36);
}

static void accumulation_of(int f, float decay, size_t n, uint64_t *state)
{
    const oracle_format *format = formats[f].format;
    const plumb_cast cast = cast_of(f);
    float old[600] = {0}, x[600] = {0}, sum[600] = {0};
    exact_account want = {0};
    plumb_sum_counts got = {0}, again = {0};
    plumb_error why = {0};

    for (size_t i = 0; i < n; i++) {
        old[i] = sum[i] = (float)oracle_round(format, (double)oracle_float(state, -3, 6));
        x[i] = oracle_float(state, -12, 6);
    }
    CHECK_OK(plumb_accumulate(&cast, decay, sum, x, n, NULL, &got, &why), why);
    for (size_t i = 0; i < n; i++) {
        const double scaled =
            oracle_round(&oracle_fp32, (double)decay * (double)old[i]); /* exact in fp64 */
        const double right = oracle_add(format, scaled, (double)x[i]);
        const exact update =
            product(decay, old[i]) + exact_of((double)x[i]) - exact_of((double)old[i]);

        CHECK((double)sum[i] == right, "%s: %g * %a + %a = %a, want %a", format->spec,
              (double)decay, (double)old[i], (double)x[i], (double)sum[i], right);
        exact_addition(&want, product(decay, old[i]), (double)old[i], (double)x[i], right);
        want.energy += exact_value(update) * exact_value(update);
    }
    exact_same(format->spec, &got, &want);
    plumb_accumulate_count(decay, old, x, sum, n, &again);
    CHECK(memcmp(&got, &again, sizeof got) == 0,
          "counted afterwards it is another account");
}

static void accumulations(void)
{
    static const float decays[] = {1, 0.9f, 0.999f, 0.5f, 0};
    static const size_t sizes[] = {1, 15, 16, 17, 100, 511, 512, 513, 600};
    uint64_t state = 3;

    for (int f = 0; f < FORMATS; f++)
        for (size_t d = 0; d < sizeof decays / sizeof decays[0]; d++)
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
                accumulation_of(f, decays[d], sizes[i], &state);
    check_done("accumulations");
}

/* The order of the energies: 512 at a time, 16 lanes, a tree.  Errors are exact in fp64 here. */
static void order_of_energies(void)
{
    enum { N = 1000 };
    const plumb_cast cast = cast_of(1);
    float sum[N], x[N];
    plumb_sum_counts got = {0};
    double lost = 0, missing = 0, exact_sum[N];
    uint64_t state = 4;

    for (size_t i = 0; i < N; i++) {
        sum[i] = (float)oracle_round(&oracle_bf16, (double)oracle_float(&state, 0, 12));
        x[i] = oracle_float(&state, -2, 2);
        exact_sum[i] = (double)sum[i] + (double)x[i];
    }
    plumb_accumulate(&cast, 1, sum, x, N, NULL, &got, NULL);
    for (size_t first = 0; first < N; first += 512) {
        double square[16] = {0}, error[16] = {0};

        for (size_t i = first; i < N && i < first + 512; i++) {
            const double e = exact_sum[i] - (double)sum[i];

            square[i % 16] += e * e;
            error[i % 16] += e;
        }
        for (size_t half = 8; half > 0; half /= 2) {
            for (size_t l = 0; l < half; l++) {
                square[l] += square[l + half];
                error[l] += error[l + half];
            }
        }
        lost += square[0];
        missing += error[0];
    }
    CHECK(got.lost == lost && got.missing == missing, "%a and %a, want %a and %a", got.lost,
          got.missing, lost, missing);
    check_done("order of the energies");
}

/* --- cases -------------------------------------------------------------------------------- */

typedef struct pair_case {
    int format;
    float old, x;
    double sum;
    unsigned swamped, replaced;
    double lost;
} pair_case;

static const pair_case cases[] = {
    {0, 0x1p24f, 1, 0x1p24, 1, 0, 1}, /* a tie, to even */
    {0, 0x1p24f, 2, 0x1p24 + 2, 0, 0, 0},
    {0, 0x1.000002p24f, 1, 0x1.000004p24, 0, 0, 1}, /* a tie, up */
    {0, 1, 0x1p-149f, 1, 1, 0, 0x1p-298},           /* nothing is too small to be counted */
    {0, 1, 0x1p24f, 0x1p24, 0, 1, 1},               /* what was there is gone */
    {0, 0, 5, 5, 0, 0, 0},
    {0, 5, 0, 5, 0, 0, 0},
    {0, 5, -0.0f, 5, 0, 0, 0},
    {0, -5, 5, 0, 0, 0, 0},
    {1, 256, 1, 256, 1, 0, 1},
    {1, 258, 1, 260, 0, 0, 1},
    {1, 256, 2, 258, 0, 0, 0},
    {1, 256, -1, 255, 0, 0, 0},
    {1, 1, 512, 512, 0, 1, 1},
    {2, 2048, 1, 2048, 1, 0, 1},
    {2, 65504, 16, 65504, 1, 0, 256}, /* saturates */
    {3, 16, 1, 16, 1, 0, 1},
    {3, 448, 448, 448, 1, 1, 448.0 * 448}, /* twice the largest: either one vanishes */
    {3, 448, 15, 448, 1, 0, 225},
    {3, 0x1p-6f, 0x1p-9f, 0x1.2p-6, 0, 0, 0},
    {4, 8, 1, 8, 1, 0, 1},
    {4, 57344, 4096, 57344, 1, 0, 4096.0 * 4096},
};

static void case_of(const pair_case *c)
{
    const plumb_summation how = {.cast = cast_of(c->format)};
    const float pair[2] = {c->old, c->x};
    const float *const shares[2] = {&pair[0], &pair[1]};
    const char *name = formats[c->format].format->spec;
    plumb_sum_counts s = {0}, r = {0};
    plumb_reduction by_rank = {0};
    plumb_error why = {0};
    double sum = -1;
    float out;

    CHECK_OK(plumb_sum_ordered(&how, pair, 2, &sum, NULL, &s, &why), why);
    CHECK(sum == c->sum && s.swamped == c->swamped && s.replaced == c->replaced &&
              s.lost == c->lost && s.nonfinite == 0 && s.additions == 1,
          "%s: %g + %g = %g, %llu swamped, %llu replaced, lost %g", name, (double)c->old,
          (double)c->x, sum, (unsigned long long)s.swamped, (unsigned long long)s.replaced,
          s.lost);
    plumb_spec_parse(name, NULL, &by_rank.wire, NULL);
    if (c->format == 2)
        return; /* an fp16 wire does not saturate */
    CHECK_OK(plumb_allreduce(&by_rank, shares, 2, 1, &out, NULL, &r, NULL, &why), why);
    CHECK((double)out == c->sum && memcmp(&s, &r, sizeof s) == 0, "%s: two ranks: %g", name,
          (double)out);
}

static void pairs(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        case_of(&cases[i]);
    check_done("pairs");
}

static void specials(void)
{
    const float x[5] = {1, INFINITY, -INFINITY, NAN, 2};
    const plumb_cast e4m3 = {.format = PLUMB_E4M3, .scale = 1}; /* past 464: NaN */
    const plumb_summation how = {.cast = cast_of(0)}, narrow = {.cast = e4m3};
    const plumb_summation wide = {.wide = true};
    const float two[2] = {448, 448};
    plumb_sum_counts s = {0};
    double sum;

    plumb_sum_ordered(&how, x, 5, &sum, NULL, &s, NULL);
    CHECK(isnan(sum) && s.nonfinite == 4 && s.additions == 4 && s.lost == 0 &&
              s.missing == 0 && s.energy == 5 && s.swamped == 0 && s.replaced == 0,
          "%g, %llu of %llu not finite, energy %g", sum, (unsigned long long)s.nonfinite,
          (unsigned long long)s.additions, s.energy);
    s = (plumb_sum_counts){0};
    plumb_sum_ordered(&narrow, two, 2, &sum, NULL, &s, NULL);
    CHECK(isnan(sum) && s.nonfinite == 1 && s.lost == 0 && s.energy == 2 * 448.0 * 448,
          "overflow: %g, %llu", sum, (unsigned long long)s.nonfinite);
    plumb_sum_ordered(&wide, x + 1, 2, &sum, NULL, NULL, NULL);
    uint64_t bits;

    memcpy(&bits, &sum, sizeof bits);
    CHECK(bits == 0x7ff8000000000000, "a NaN in fp64: %llx", (unsigned long long)bits);
    plumb_sum_ordered(&wide, &(const float){-NAN}, 1, &sum, NULL, NULL, NULL);
    memcpy(&bits, &sum, sizeof bits);
    CHECK(bits == 0x7ff8000000000000, "a NaN alone: %llx", (unsigned long long)bits);
    const float *const shares[2] = {x, x + 2}; /* 1 - inf, inf + NaN, -inf + 2 */
    const plumb_reduction plain = {0};
    float out[3];

    s = (plumb_sum_counts){0};
    plumb_allreduce(&plain, shares, 2, 3, out, NULL, &s, NULL, NULL);
    CHECK(s.nonfinite == 3 && s.energy == 5 && s.lost == 0, "%llu not finite, energy %g",
          (unsigned long long)s.nonfinite, s.energy);
    float state[3] = {NAN, INFINITY, -0.0f};
    const float add[3] = {1, -INFINITY, -0.0f};
    uint32_t stored[3];

    s = (plumb_sum_counts){0};
    plumb_accumulate(NULL, 1, state, add, 3, NULL, &s, NULL);
    memcpy(stored, state, sizeof stored);
    CHECK(stored[0] == 0x7fc00000 && stored[1] == 0x7fc00000 && stored[2] == 0x80000000,
          "%08x %08x %08x", stored[0], stored[1], stored[2]);
    CHECK(s.nonfinite == 2 && s.additions == 3, "%llu", (unsigned long long)s.nonfinite);
    check_done("infinities and NaN");
}

/* --- the second moment of Adam in bf16 ------------------------------------------------------- */

/* Whatever the gradient, as long as g^2 <= v: every value that bf16 has. */
static void never_decreases(void)
{
    static const float g2_over_v[] = {0, 0x1p-10f, 0.5f, 0.999f};
    const plumb_cast bf16 = cast_of(1);
    uint64_t lower = 0, finite = 0;
    plumb_sum_counts s = {0};

    for (uint32_t code = 1; code < 0x7f80; code++) {
        for (int i = 0; i < 4; i++) {
            const uint32_t bits = code << 16;
            float v, x;

            memcpy(&v, &bits, sizeof v);
            const float old = v;

            x = (1.0f - 0.999f) * (v * g2_over_v[i]);
            plumb_accumulate(&bf16, 0.999f, &v, &x, 1, NULL, &s, NULL);
            lower += v < old;
            finite++;
        }
    }
    CHECK(lower == 0, "%llu of %llu values decreased", (unsigned long long)lower,
          (unsigned long long)finite);
    CHECK(s.swamped == finite && s.additions == finite, "%llu of %llu swamped",
          (unsigned long long)s.swamped, (unsigned long long)finite);
    check_done("bf16: v never decreases");
}

/* Gradients ten times smaller than before: v should fall from 1 to 0.01. */
static void frozen(void)
{
    const plumb_cast bf16 = cast_of(1);
    const float x = (1.0f - 0.999f) * 0.01f;
    plumb_sum_counts narrow = {0}, single = {0};
    float v = 1, right = 1;

    for (int step = 0; step < 20000; step++) {
        plumb_accumulate(&bf16, 0.999f, &v, &x, 1, NULL, &narrow, NULL);
        plumb_accumulate(NULL, 0.999f, &right, &x, 1, NULL, &single, NULL);
    }
    CHECK(v == 1 && narrow.swamped == 20000, "v = %g, %llu swamped", (double)v,
          (unsigned long long)narrow.swamped);
    CHECK(fabsf(right - 0.01f) < 1e-5f && single.swamped < 20000, "in fp32 v = %g",
          (double)right);
    /* Nothing of what should have been added arrived. */
    CHECK(narrow.lost == narrow.energy, "lost %g of %g", narrow.lost, narrow.energy);
    check_done("bf16: v stands still");
}

int main(void)
{
    vectors();
    reductions();
    accumulations();
    order_of_energies();
    pairs();
    specials();
    never_decreases();
    frozen();
    return check_exit();
}
