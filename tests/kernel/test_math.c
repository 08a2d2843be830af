/* exp, log, sin, cos against the C library in double, all variants against each other.
 *
 * The bounds are those that src/kernel/math_body.h states.  Without an argument the test goes
 * through fp32 in prime strides and visits the ends of ranges; with "all" it takes
 * every float and prints the worst.
 */
#include "bits.h"
#include "check.h"
#include "kernel/math.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { CHUNK = 4096 + 7, FUNCTIONS = 4 };

typedef struct function {
    const char *name;
    double (*reference)(double x);
    double bound;  /* of the error, in units of the last place of the result */
    size_t at;     /* offset of the entry in plumb_math_kernel */
    uint64_t hash; /* of the results of the quick walk: a new one is a new state hash of
                      every run, so it changes on purpose or not at all */
} function;

static const function functions[FUNCTIONS] = {
    {"exp", exp, 0.988, offsetof(plumb_math_kernel, exp), 0xa8cbe3e0c9b003b6u},
    {"log", log, 0.841, offsetof(plumb_math_kernel, log), 0xf6369085b87ed1e0u},
    {"sin", sin, 0.783, offsetof(plumb_math_kernel, sin), 0xd57542a5d713eff6u},
    {"cos", cos, 0.783, offsetof(plumb_math_kernel, cos), 0x12e29be0fc243817u},
};

static plumb_math_fn *entry(const plumb_math_kernel *k, const function *f)
{
    plumb_math_fn *run;

    memcpy(&run, (const char *)k + f->at, sizeof run);
    return run;
}

/* What the header says outside the ordinary range, where it says something else than the
 * mathematics.
 */
static double wanted(const function *f, float x)
{
    const bool is_exp = f->reference == exp, is_log = f->reference == log;

    if (is_exp && x < 0 && f->reference((double)x) < 0x1p-126)
        return 0;
    if (is_log && fabsf(x) < 0x1p-126f)
        return -(double)INFINITY;
    if (!is_exp && !is_log && !(fabsf(x) <= 32768))
        return (double)NAN;
    return f->reference((double)x);
}

static double error_in_ulp(float got, double want)
{
    int exponent;

    frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

typedef struct worst {
    double error;
    float x;
    uint64_t hash;
} worst;

static void check_value(const function *f, float x, float got, worst *w)
{
    const double want = wanted(f, x);

    if (isnan(want)) {
        if (bits_from(got) != 0x7fc00000)
            CHECK(false, "%s(%a) = %a, want the NaN", f->name, (double)x, (double)got);
        return;
    }
    if (isinf((float)want) || want == 0) {
        if (bits_from(got) != bits_from((float)want))
            CHECK(false, "%s(%a) = %a, want %a", f->name, (double)x, (double)got, want);
        return;
    }
    const double error = error_in_ulp(got, want);

    if (!(error <= w->error)) {
        w->error = error;
        w->x = x;
    }
    if (!(error <= f->bound))
        CHECK(false, "%s(%a) = %a, want %a: %.4f ulp", f->name, (double)x, (double)got,
              want, error);
}

static void check_chunk(const function *f, const float *x, size_t n, worst *w)
{
    static float first[CHUNK + 1], other[CHUNK + 1];
    const unsigned cpu = plumb_cpu_flags();

    for (size_t i = 0; i < plumb_math_kernel_count; i++) {
        const plumb_math_kernel *k = &plumb_math_kernels[i];
        float *y = i == 0 ? first : other;

        if ((k->cpu & ~cpu) != 0)
            continue;
        y[n] = 99;
        entry(k, f)(x, n, y);
        CHECK(y[n] == 99, "%s %s wrote past the end", k->name, f->name);
        CHECK(memcmp(first, y, n * sizeof *y) == 0,
              "%s %s differs in the %zu values from %a", k->name, f->name, n, (double)x[0]);
    }
    for (size_t i = 0; i < n; i++) {
        w->hash = (w->hash ^ bits_from(first[i])) * 0x100000001b3u;
        check_value(f, x[i], first[i], w);
    }
}

static void stride(const function *f, uint32_t by, worst *w)
{
    static float x[CHUNK];
    size_t n = 0;

    for (uint64_t bits = 0; bits <= 0xffffffffu; bits += by) {
        x[n++] = float_from((uint32_t)bits);
        if (n == CHUNK) {
            check_chunk(f, x, n, w);
            n = 0;
        }
    }
    check_chunk(f, x, n, w);
}

/* Both signs of everything within 40 floats of where something changes. */
static void ends(const function *f, worst *w)
{
    static const float list[] = {
        0.0f,           0x1p-126f,      0x1p-64f,      1.0f,
        0x1.555556p-1f, 0x1.555556p0f,  0x1.62e43p-2f, 87.33654f,
        88.72283f,      32768.0f,       0.7853982f,    1.5707964f,
        3.1415927f,     6.2831855f,     355.0f,        33.0f * 3.1415927f,
        FLT_MAX,        0x1.6ac5b2p13f, 0x1.7p12f};
    enum { AROUND = 40 };

    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        float x[2 * (2 * AROUND + 1)];

        for (int j = 0; j <= 2 * AROUND; j++) {
            const uint32_t bits =
                (bits_from(list[i]) + (uint32_t)(j - AROUND)) & 0x7fffffff;

            x[2 * j] = float_from(bits);
            x[2 * j + 1] = float_from(bits | 0x80000000u);
        }
        check_chunk(f, x, sizeof x / sizeof x[0], w);
    }
}

/* Bits that must be exact. */
static void named(void)
{
    static const struct {
        void (*run)(const float *x, size_t n, float *y);
        float x;
        uint32_t want;
        const char *text;
    } list[] = {
        {plumb_exp, 0.0f, 0x3f800000, "exp(0)"},
        {plumb_exp, -0.0f, 0x3f800000, "exp(-0)"},
        {plumb_exp, INFINITY, 0x7f800000, "exp(inf)"},
        {plumb_exp, -INFINITY, 0, "exp(-inf)"},
        {plumb_exp, 0x1.62e43p6f, 0x7f800000, "exp past the end"},
        {plumb_exp, -0x1.5d58ap6f, 0, "exp below the end"},
        {plumb_exp, FLT_MAX, 0x7f800000, "exp of the largest"},
        {plumb_exp, -FLT_MAX, 0, "exp of the least"},
        {plumb_log, 1.0f, 0, "log(1)"},
        {plumb_log, 0.0f, 0xff800000, "log(0)"},
        {plumb_log, -0.0f, 0xff800000, "log(-0)"},
        {plumb_log, 0x1p-127f, 0xff800000, "log of a subnormal"},
        {plumb_log, -0x1p-149f, 0xff800000, "log of a negative subnormal"},
        {plumb_log, -0x1p-126f, 0x7fc00000, "log(-2^-126)"},
        {plumb_log, INFINITY, 0x7f800000, "log(inf)"},
        {plumb_log, -INFINITY, 0x7fc00000, "log(-inf)"},
        {plumb_sin, 0.0f, 0, "sin(0)"},
        {plumb_sin, -0.0f, 0x80000000, "sin(-0)"},
        {plumb_sin, -0x1p-149f, 0x80000001, "sin of a subnormal"},
        {plumb_sin, INFINITY, 0x7fc00000, "sin(inf)"},
        {plumb_sin, 0x1.000002p15f, 0x7fc00000, "sin past 32768"},
        {plumb_sin, -0x1.000002p15f, 0x7fc00000, "sin past -32768"},
        {plumb_cos, 0.0f, 0x3f800000, "cos(0)"},
        {plumb_cos, -0.0f, 0x3f800000, "cos(-0)"},
        {plumb_cos, -INFINITY, 0x7fc00000, "cos(-inf)"},
    };

    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        const float nan = float_from(0xffc12345);
        float y;

        list[i].run(&list[i].x, 1, &y);
        CHECK(bits_from(y) == list[i].want, "%s = %08x", list[i].text, bits_from(y));
        list[i].run(&nan, 1, &y);
        CHECK(bits_from(y) == 0x7fc00000, "of NaN: %08x", bits_from(y));
    }
    check_done("named values");
}

/* In place, and every size. */
static void sizes(void)
{
    enum { MOST = 150 };

    for (size_t j = 0; j < FUNCTIONS * plumb_math_kernel_count; j++) {
        const plumb_math_kernel *k = &plumb_math_kernels[j / FUNCTIONS];
        plumb_math_fn *run = entry(k, &functions[j % FUNCTIONS]);

        if ((k->cpu & ~plumb_cpu_flags()) != 0)
            continue;
        for (size_t n = 0; n < MOST; n++) {
            float x[MOST], y[MOST], want[MOST];

            for (size_t i = 0; i < MOST; i++)
                x[i] = y[i] = 0.1f + (float)i;
            for (size_t i = 0; i < n; i++)
                run(&x[i], 1, &want[i]);
            run(y, n, y);
            CHECK(memcmp(y, want, n * sizeof *y) == 0, "%s in place, n=%zu", k->name, n);
            CHECK(memcmp(y + n, x + n, (MOST - n) * sizeof *y) == 0, "%s wrote past %zu",
                  k->name, n);
        }
    }
    check_done("sizes, in place");
}

int main(int argc, char **argv)
{
    const bool all = argc > 1 && strcmp(argv[1], "all") == 0;

    named();
    sizes();
    for (int i = 0; i < FUNCTIONS; i++) {
        worst w = {0, 0, 0};

        ends(&functions[i], &w);
        stride(&functions[i], all ? 1 : 4099, &w);
        printf("# %s: at most %.4f ulp, at %a\n", functions[i].name, w.error, (double)w.x);
        CHECK(all || w.hash == functions[i].hash, "%s has other bits: hash 0x%016llx",
              functions[i].name, (unsigned long long)w.hash);
        check_done(functions[i].name);
    }
    return check_exit();
}
