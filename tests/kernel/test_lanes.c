/* Lane sums against the stated order, one addition at a time. */
#include "bits.h"
#include "check.h"
#include "kernel/lanes.h"

#include <math.h>

enum { MOST = 1100 };

static float x[MOST + 1], y[MOST + 1];

/* The order of plumb/reduce.h in its own words; volatile keeps every rounding apart. */
static float join(const volatile float lane[16])
{
    volatile float eight[8], four[4], two[2];

    for (int l = 0; l < 8; l++)
        eight[l] = lane[l] + lane[l + 8];
    for (int l = 0; l < 4; l++)
        four[l] = eight[l] + eight[l + 4];
    for (int l = 0; l < 2; l++)
        two[l] = four[l] + four[l + 2];
    return two[0] + two[1];
}

static double join_f64(const volatile double lane[16])
{
    volatile double eight[8], four[4];

    for (int l = 0; l < 8; l++)
        eight[l] = lane[l] + lane[l + 8];
    for (int l = 0; l < 4; l++)
        four[l] = eight[l] + eight[l + 4];
    const volatile double even = four[0] + four[2], odd = four[1] + four[3];

    return even + odd;
}

typedef struct sums {
    float sum, dot;
    double squares, dot_f64;
} sums;

static sums stated(const float *a, const float *b, size_t n)
{
    volatile float sum[16] = {0}, dot[16] = {0};
    volatile double squares[16] = {0}, dot_f64[16] = {0};

    for (size_t i = 0; i < n; i++) {
        sum[i % 16] = sum[i % 16] + a[i];
        dot[i % 16] = fmaf(a[i], b[i], dot[i % 16]);
        squares[i % 16] = squares[i % 16] + (double)a[i] * (double)a[i];
        dot_f64[i % 16] = dot_f64[i % 16] + (double)a[i] * (double)b[i];
    }
    return (sums){join(sum), join(dot), join_f64(squares), join_f64(dot_f64)};
}

static bool same(float got, float want)
{
    return isnan(want) ? bits_from(got) == 0x7fc00000 : bits_from(got) == bits_from(want);
}

static bool same_f64(double got, double want)
{
    uint64_t a, b;

    memcpy(&a, &got, sizeof a);
    memcpy(&b, &want, sizeof b);
    return isnan(want) ? a == 0x7ff8000000000000u : a == b;
}

static void compare(const plumb_lanes_kernel *k, const float *a, const float *b, size_t n)
{
    const sums want = stated(a, b, n);

    CHECK(same(k->sum(a, n), want.sum), "%s: sum of %zu is %a, want %a", k->name, n,
          (double)k->sum(a, n), (double)want.sum);
    CHECK(same(k->dot(a, b, n), want.dot), "%s: dot of %zu is %a, want %a", k->name, n,
          (double)k->dot(a, b, n), (double)want.dot);
    CHECK(same_f64(k->sum_squares(a, n), want.squares), "%s: squares of %zu", k->name, n);
    CHECK(same_f64(k->dot_f64(a, b, n), want.dot_f64), "%s: fp64 dot of %zu", k->name, n);
}

static uint32_t state = 1;

static float any_float(uint32_t mask, uint32_t set)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return float_from((state & mask) | set);
}

static void fill(uint32_t mask, uint32_t set)
{
    for (size_t i = 0; i <= MOST; i++) {
        x[i] = any_float(mask, set);
        y[i] = any_float(mask, set);
    }
}

static void all_sizes(const plumb_lanes_kernel *k)
{
    for (size_t n = 0; n < MOST; n += 1 + n / 40)
        compare(k, x + n % 2, y, n);
}

static void specials(const plumb_lanes_kernel *k)
{
    fill(0x80000000, 0);
    all_sizes(k); /* zeros of both signs */
    for (size_t i = 0; i <= MOST; i++)
        x[i] = -0.0f;
    all_sizes(k); /* all -0: the lanes start at +0 */
    fill(0x83ffffff, 0);
    all_sizes(k); /* subnormals */
    fill(0xffffffff, 0);
    all_sizes(k); /* any bits, infinities and NaNs among them */
    fill(0x80ffffff, 0x7e000000);
    all_sizes(k); /* sums that overflow, and infinity less infinity */
    x[3] = float_from(0xffc12345);
    all_sizes(k); /* a NaN with a payload */
}

/* A known sum by hand: lane 0 gets 2^24, 1, 1 and loses both ones; lane order is not
 * left to right.
 */
static void by_hand(const plumb_lanes_kernel *k)
{
    float a[33] = {0};

    a[0] = 0x1p24f;
    a[16] = a[32] = 1;
    CHECK(k->sum(a, 33) == 0x1p24f, "%s: %a", k->name, (double)k->sum(a, 33));
    a[32] = 0;
    a[17] = 1; /* joins last: 2^24 + 2 + 1 is a tie, and goes up to even */
    a[24] = 2; /* lane 8 joins lane 0 before lane 1 does */
    CHECK(k->sum(a, 33) == 0x1.000004p24f, "%s: %a", k->name, (double)k->sum(a, 33));
    CHECK(k->sum_squares(a, 33) == 0x1p48 + 6, "%s: %a", k->name, k->sum_squares(a, 33));
}

int main(void)
{
    for (size_t i = 0; i < plumb_lanes_kernel_count; i++) {
        const plumb_lanes_kernel *k = &plumb_lanes_kernels[i];

        if ((k->cpu & ~plumb_cpu_flags()) != 0) {
            check_skip(k->name, "this CPU cannot run it");
            continue;
        }
        fill(0x87ffffff, 0x38000000);
        all_sizes(k); /* values near 1 */
        specials(k);
        by_hand(k);
        check_done(k->name);
    }
    fill(0x87ffffff, 0x38000000);
    const sums want = stated(x, y, 77);
    CHECK(plumb_lanes_sum(x, 77) == want.sum && plumb_lanes_dot(x, y, 77) == want.dot &&
              plumb_lanes_sum_squares(x, 77) == want.squares &&
              plumb_lanes_dot_f64(x, y, 77) == want.dot_f64,
          "dispatch reaches another sum");
    check_done("dispatch");
    return check_exit();
}
