/* Every variant of the row loops against the formulas of rows.h, one element at a time, bit by bit:
 * all lengths up to past three vectors, then longer ones, with numbers of every size, and with what
 * is not finite, where a NaN is any NaN or, in what reaches gradients, the one.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "check.h"
#include "model/rows.h"

enum { MOST = 1100, ARRAYS = 5 };

static float in[ARRAYS][MOST], got[2][MOST], want[2][MOST];
static uint32_t state = 5;

static uint32_t bits_from(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void fill(bool wild)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0, -0.0f, 0x1p-149f, -0x1p127f};
    const uint32_t other_nan = 0xffc12345u;

    for (size_t a = 0; a < ARRAYS; a++) {
        for (size_t i = 0; i < MOST; i++) {
            state = state * 1664525u + 1013904223u;
            in[a][i] = ldexpf((float)(state >> 8) / 8388608.0f - 1, (int)(state % 37) - 18);
            if (wild && state % 61 == 0)
                in[a][i] = odd[(state >> 9) % 7];
            if (wild && state % 127 == 0)
                memcpy(&in[a][i], &other_nan, sizeof other_nan);
        }
    }
}

static bool same(float a, float b, bool one_nan)
{
    if (isnan(b))
        return one_nan ? bits_from(a) == 0x7fc00000u : isnan(a) != 0;
    return bits_from(a) == bits_from(b);
}

static void compare(const rows_kernel *k, const char *what, size_t n, bool one_nan)
{
    for (size_t a = 0; a < 2; a++) {
        for (size_t i = 0; i < n; i++)
            CHECK(same(got[a][i], want[a][i], one_nan), "%s %s, n %zu: [%zu] %a, want %a",
                  k->name, what, n, i, (double)got[a][i], (double)want[a][i]);
        CHECK(bits_from(got[a][n]) == bits_from(want[a][n]), "%s %s, n %zu: wrote past it",
              k->name, what, n);
    }
}

/* Both results begin as arrays 3 and 4. */
static void reset(void)
{
    memcpy(got, in[3], sizeof got);
    memcpy(want, in[3], sizeof want);
}

static void softmax(const rows_kernel *k, size_t n)
{
    const float *p = in[0], scale = in[1][0], sum = in[1][1];
    volatile float most = in[3][0], t;

    reset();
    for (size_t i = 1; i < n; i++)
        most = in[3][i] > most ? in[3][i] : most;
    for (size_t i = 0; i < n; i++) {
        t = want[0][i] - most;
        want[0][i] = t * scale;
    }
    /* With a NaN among them the largest depends on the order, and so may any result. */
    bool nan = false;

    for (size_t i = 0; i < n; i++)
        nan = nan || isnan(in[3][i]);
    k->shift(got[0], n, scale);
    if (!nan && most != 0)
        compare(k, "shift", n, false);
    reset();
    for (size_t i = 0; i < n; i++) {
        want[0][i] = want[0][i] / sum;
        t = want[1][i] - sum;
        t = p[i] * t;
        want[1][i] = t * scale;
    }
    k->divide(got[0], n, sum);
    k->softmax_backward(p, n, sum, scale, got[1]);
    compare(k, "divide, softmax_backward", n, false);
}

static void rope(const rows_kernel *k, size_t n, bool back)
{
    const size_t half = n / 2;
    volatile float s, first, second;

    reset();
    for (size_t i = 0; i < half; i++) {
        const float a = in[3][i], b = in[3][i + half], c = in[0][i];

        s = back ? -in[1][i] : in[1][i];
        first = a * c;
        second = b * s;
        want[0][i] = first - second;
        first = a * s;
        second = b * c;
        want[0][i + half] = first + second;
    }
    (back ? k->rotate_back : k->rotate)(got[0], in[0], in[1], half);
    compare(k, back ? "rotate_back" : "rotate", 2 * half, false);
}

static void swiglu(const rows_kernel *k, size_t n)
{
    volatile float s, t, u;

    reset();
    for (size_t i = 0; i < n; i++) {
        t = 1 + in[2][i];
        s = 1 / t;
        t = in[0][i] * s;
        want[0][i] = t * in[1][i];
        want[1][i] = -in[0][i];
    }
    k->swiglu(in[0], in[1], in[2], n, got[0]);
    k->negate(in[0], n, got[1]);
    compare(k, "swiglu, negate", n, false);
    reset();
    for (size_t i = 0; i < n; i++) {
        t = 1 + in[2][i];
        s = 1 / t;
        t = 1 - s;
        t = in[0][i] * t;
        t = 1 + t;
        t = s * t;
        u = in[3][i] * in[1][i];
        want[0][i] = u * t;
        t = in[0][i] * s;
        want[1][i] = in[3][i] * t;
    }
    k->swiglu_backward(in[0], in[1], in[3], in[2], n, got[0], got[1]);
    compare(k, "swiglu_backward", n, false);
}

static void norm(const rows_kernel *k, size_t n)
{
    const float r = in[2][0], along = in[2][1];
    volatile float s, t;

    reset();
    for (size_t i = 0; i < n; i++) {
        t = in[0][i] * r;
        want[0][i] = t * in[1][i];
        want[1][i] = in[0][i] * in[1][i];
    }
    k->normalise(in[0], r, in[1], n, got[0]);
    k->multiply(in[0], in[1], n, got[1]);
    compare(k, "normalise, multiply", n, false);
    reset();
    for (size_t i = 0; i < n; i++) {
        s = in[0][i] * r;
        t = in[1][i] * along;
        t = s - t;
        want[0][i] = t;
        want[1][i] = want[1][i] + t;
    }
    k->norm_set(in[0], in[1], r, along, n, got[0]);
    k->norm_add(in[0], in[1], r, along, n, got[1]);
    compare(k, "norm_set, norm_add", n, true);
    reset();
    for (size_t i = 0; i < n; i++) {
        t = in[0][i] * in[1][i];
        t = t * r;
        want[0][i] = want[0][i] + t;
    }
    memcpy(got[1], want[1], sizeof got[1]);
    k->add_products(in[0], in[1], r, n, got[0]);
    for (size_t i = 0; i < n; i++) /* untouched: any NaN */
        got[1][i] = want[1][i] = 0;
    compare(k, "add_products", n, true);
}

/* One element that is not finite, at every place of a matrix with a gap between its rows. */
static void finite(const rows_kernel *k)
{
    static float x[6 * 50];
    static const float bad[] = {NAN, INFINITY, -INFINITY};

    for (size_t cols = 1; cols <= 40; cols += 13) {
        for (size_t i = 0; i < sizeof x / sizeof *x; i++)
            x[i] = i % 2 == 0 ? 3e38f : -3e38f;
        CHECK(k->finite(x, 6, cols, 50), "%s: large numbers are finite", k->name);
        for (size_t at = 0; at < 6 * 50; at++) {
            const float before = x[at];

            x[at] = bad[at % 3];
            CHECK(k->finite(x, 6, cols, 50) == (at % 50 >= cols),
                  "%s: finite of %zu columns with %g at %zu", k->name, cols, (double)x[at],
                  at);
            x[at] = before;
        }
    }
}

static void variant(const rows_kernel *k)
{
    for (int wild = 0; wild < 2; wild++) {
        fill(wild == 1);
        for (size_t n = 1; n < MOST; n += n < 60 ? 1 : 173) {
            softmax(k, n);
            rope(k, n, false);
            rope(k, n, true);
            swiglu(k, n);
            norm(k, n);
        }
    }
    finite(k);
    check_done(k->name);
}

int main(void)
{
    for (size_t i = 0; i < rows_kernel_count; i++) {
        if ((rows_kernels[i]->cpu & ~plumb_cpu_flags()) != 0)
            check_skip(rows_kernels[i]->name, "this CPU does not have it");
        else
            variant(rows_kernels[i]);
    }
    return check_exit();
}
