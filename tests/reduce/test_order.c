/* Every order for 1 to 9 values against brackets that were worked out by hand, in every wire
 * format; the ring piece by piece for sizes that its pieces do not divide.
 */
#include "plumb/reduce.h"

#include "oracle.h"

#include <stdlib.h>

enum { MOST = 9 };

static const char *const in_sequence[MOST + 1] = {
    "",          "0",           "0+1",           "0+1+2",           "0+1+2+3",
    "0+1+2+3+4", "0+1+2+3+4+5", "0+1+2+3+4+5+6", "0+1+2+3+4+5+6+7", "0+1+2+3+4+5+6+7+8",
};

static const char *const as_tree[MOST + 1] = {
    "",
    "0",
    "0+1",
    "(0+1)+2",
    "(0+1)+(2+3)",
    "((0+1)+(2+3))+4",
    "((0+1)+(2+3))+(4+5)",
    "((0+1)+(2+3))+((4+5)+6)",
    "((0+1)+(2+3))+((4+5)+(6+7))",
    "(((0+1)+(2+3))+((4+5)+(6+7)))+8",
};

static const char *const in_pairs[MOST + 1] = {
    "",
    "0",
    "0+1",
    "0+(1+2)",
    "(0+1)+(2+3)",
    "(0+1)+(2+(3+4))",
    "(0+(1+2))+(3+(4+5))",
    "(0+(1+2))+((3+4)+(5+6))",
    "((0+1)+(2+3))+((4+5)+(6+7))",
    "((0+1)+(2+3))+((4+5)+(6+(7+8)))",
};

/* Piece c begins with rank c + 1.  [ranks][piece] */
static const char *const round_ring[5][4] = {
    {""},
    {"0"},
    {"1+0", "0+1"},
    {"1+2+0", "2+0+1", "0+1+2"},
    {"1+2+3+0", "2+3+0+1", "3+0+1+2", "0+1+2+3"},
};

static const oracle_format *const formats[] = {&oracle_fp32, &oracle_bf16, &oracle_fp16,
                                               &oracle_e4m3, &oracle_e5m2};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static plumb_reduction reduction(const oracle_format *f, plumb_order order)
{
    plumb_reduction how = {.order = order};
    plumb_error why = {0};

    CHECK_OK(plumb_spec_parse(f->spec, NULL, &how.wire, &why), why);
    how.wire.saturate = true;
    return how;
}

static plumb_summation summation(const oracle_format *f, plumb_order order)
{
    const plumb_reduction how = reduction(f, order);

    return (plumb_summation){
        .order = order,
        .cast = {.format = how.wire.format, .saturate = how.wire.saturate, .scale = 1}};
}

/* One element for each of `ranks`, as an all-reduce and as the sum of a vector. */
static void one(const oracle_format *f, plumb_order order, const char *brackets,
                const float *x, size_t ranks, double *want)
{
    const plumb_reduction how = reduction(f, order);
    const plumb_summation of_vector = summation(f, order);
    const float *shares[MOST];
    plumb_error why = {0};
    float got = -1;
    double sum = -1;

    *want = oracle_brackets(brackets, f, x, ranks);
    for (size_t r = 0; r < ranks; r++)
        shares[r] = x + r;
    CHECK_OK(plumb_allreduce(&how, shares, ranks, 1, &got, NULL, NULL, NULL, &why), why);
    CHECK((double)got == *want, "%s %s: %a, want %a", f->spec, brackets, (double)got,
          *want);
    CHECK_OK(plumb_sum_ordered(&of_vector, x, ranks, &sum, NULL, NULL, &why), why);
    CHECK(sum == *want, "%s %s of a vector: %a, want %a", f->spec, brackets, sum, *want);
}

static void brackets(void)
{
    unsigned told_apart[MOST + 1] = {0};
    uint64_t state = 1;

    for (int round = 0; round < 400; round++) {
        const oracle_format *f = formats[round % FORMATS];
        float x[MOST];

        for (size_t i = 0; i < MOST; i++)
            x[i] = oracle_float(&state, -3, 8);
        for (size_t ranks = 1; ranks <= MOST; ranks++) {
            double a, b, c;

            one(f, PLUMB_ORDER_SEQUENTIAL, in_sequence[ranks], x, ranks, &a);
            one(f, PLUMB_ORDER_TREE, as_tree[ranks], x, ranks, &b);
            one(f, PLUMB_ORDER_PAIRWISE, in_pairs[ranks], x, ranks, &c);
            told_apart[ranks] += (unsigned)(a != b) + (unsigned)(b != c);
        }
    }
    for (size_t ranks = 3; ranks <= MOST; ranks++)
        CHECK(told_apart[ranks] > 50, "%zu ranks: orders differ %u times", ranks,
              told_apart[ranks]);
    check_done("brackets worked by hand");
}

/* Which order a piece of the ring has, by the values of its elements. */
static void ring_of(const oracle_format *f, size_t ranks, size_t n, uint64_t *state)
{
    const plumb_reduction how = reduction(f, PLUMB_ORDER_RING);
    const size_t length = (n + ranks - 1) / ranks;
    float x[4][14], got[14];
    const float *const shares[4] = {x[0], x[1], x[2], x[3]};
    plumb_error why = {0};

    for (size_t r = 0; r < ranks; r++)
        for (size_t i = 0; i < n; i++)
            x[r][i] = oracle_float(state, -3, 8);
    CHECK_OK(plumb_allreduce(&how, shares, ranks, n, got, NULL, NULL, NULL, &why), why);
    for (size_t i = 0; i < n; i++) {
        float of_rank[4];

        for (size_t r = 0; r < ranks; r++)
            of_rank[r] = x[r][i];
        const double want =
            oracle_brackets(round_ring[ranks][i / length], f, of_rank, ranks);

        CHECK((double)got[i] == want, "%s, %zu ranks, element %zu of %zu: %a, want %a",
              f->spec, ranks, i, n, (double)got[i], want);
    }
}

static void ring(void)
{
    uint64_t state = 2;

    for (int round = 0; round < 60; round++)
        for (size_t ranks = 1; ranks <= 4; ranks++)
            for (size_t n = 0; n <= 14; n++)
                ring_of(formats[round % FORMATS], ranks, n, &state);
    check_done("ring");
}

/* A ring whose pieces are longer than what is reduced at a time, in place. */
static void long_ring(void)
{
    enum { N = 4001, RANKS = 3, LENGTH = 1334 };
    float *x[RANKS], *want = malloc(N * sizeof *want);
    const plumb_reduction how = reduction(&oracle_e5m2, PLUMB_ORDER_RING);
    plumb_error why = {0};
    uint64_t state = 3;

    for (size_t r = 0; r < RANKS; r++) {
        x[r] = malloc(N * sizeof(float));
        for (size_t i = 0; i < N; i++)
            x[r][i] = oracle_float(&state, -3, 8);
    }
    for (size_t i = 0; i < N; i++) {
        const float of_rank[RANKS] = {x[0][i], x[1][i], x[2][i]};

        want[i] = (float)oracle_brackets(round_ring[RANKS][i / LENGTH], &oracle_e5m2,
                                         of_rank, RANKS);
    }
    CHECK_OK(plumb_allreduce(&how, (const float *const *)x, RANKS, N, x[0], NULL, NULL,
                             NULL, &why),
             why);
    for (size_t i = 0; i < N; i++)
        CHECK(x[0][i] == want[i], "element %zu: %a, want %a", i, (double)x[0][i],
              (double)want[i]);
    for (size_t r = 0; r < RANKS; r++)
        free(x[r]);
    free(want);
    check_done("ring with long pieces, in place");
}

/* A big value in place i, its negative in place j and ones elsewhere: the sum counts the ones that
 * join above both (FPRev, Sun et al. 2025).  Pairwise joins i and j in the least half of a half
 * that holds both.
 */
static size_t beside(size_t first, size_t n, size_t i, size_t j)
{
    const size_t middle = first + n / 2;

    if (i < middle && j < middle)
        return n - n / 2 + beside(first, n / 2, i, j);
    if (i >= middle && j >= middle)
        return n / 2 + beside(middle, n - n / 2, i, j);
    return 0;
}

static void probes(void)
{
    enum { N = 300 };
    const plumb_summation how = summation(&oracle_fp32, PLUMB_ORDER_PAIRWISE);
    float x[N];
    double sum;

    for (size_t i = 0; i < N; i += 7) {
        for (size_t j = i + 1; j < N; j += 11) {
            for (size_t k = 0; k < N; k++)
                x[k] = k == i ? 0x1p40f : k == j ? -0x1p40f : 1;
            plumb_sum_ordered(&how, x, N, &sum, NULL, NULL, NULL);
            CHECK(sum == (double)beside(0, N, i, j), "%zu, %zu: %g", i, j, sum);
        }
    }
    check_done("pairwise, probed");
}

/* fp32 lanes are plumb_sum; fp64 by index is a plain loop. */
static void vectors(void)
{
    enum { N = 1100 };
    float x[N];
    uint64_t state = 4;

    for (size_t i = 0; i < N; i++)
        x[i] = oracle_float(&state, -20, 20);
    for (size_t n = 0; n <= N; n += n < 40 ? 1 : 53) {
        const plumb_summation lanes = summation(&oracle_fp32, PLUMB_ORDER_LANES);
        const plumb_summation wide = {.wide = true};
        double got = -1, plain = 0;

        plumb_sum_ordered(&lanes, x, n, &got, NULL, NULL, NULL);
        CHECK(got == (double)plumb_sum(x, n), "lanes of %zu: %a", n, got);
        for (size_t i = 0; i < n; i++)
            plain += (double)x[i];
        plumb_sum_ordered(&wide, x, n, &got, NULL, NULL, NULL);
        CHECK(got == plain, "fp64 of %zu: %a, want %a", n, got, plain);
    }
    check_done("lanes and fp64");
}

int main(void)
{
    brackets();
    ring();
    long_ring();
    probes();
    vectors();
    return check_exit();
}
