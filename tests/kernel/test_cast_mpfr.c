/* Casts against MPFR: a third opinion, which shares nothing with the number line either.
 *
 *   test_kernel_cast_mpfr [POINTS]     random points for each format and rounding (100,000)
 *
 * MPFR rounds to the precision of the format and then, below its normal range, to its subnormals;
 * codes are compared by their value.  All boundaries +-1 ulp (every 64th of tf32) come first.  e8m0,
 * whose precision of one bit has no even neighbour in MPFR, is left to the number line.
 */
#include "check.h"
#include "kernel/axis.h"

#include <mpfr.h>
#include <stdlib.h>
#include <time.h>

enum { CHUNK = 1024 };

typedef struct trial {
    axis a;
    const plumb_format_info *info;
    plumb_cast how;
    mpfr_t y;
    mpfr_rnd_t round;
    uint32_t n;
    float x[CHUNK];
} trial;

static uint64_t state = 5;

/* splitmix64 */
static uint64_t random64(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* The finite value that a saturating cast of x must store. */
static double rounded(trial *t, float x)
{
    int inexact = mpfr_set_flt(t->y, x, t->round);

    inexact = mpfr_check_range(t->y, inexact, t->round);
    mpfr_subnormalize(t->y, inexact, t->round);
    const double y = mpfr_get_d(t->y, MPFR_RNDN); /* exact */
    const double largest = (double)t->info->largest;

    return fabs(y) > largest ? copysign(largest, y) : y;
}

static void check_chunk(trial *t)
{
    static uint32_t codes[CHUNK];

    CHECK(plumb_cast_encode(&t->how, t->x, t->n, codes, NULL) == PLUMB_OK, "refused");
    for (uint32_t i = 0; i < t->n; i++) {
        const uint32_t code = axis_code_at(&t->a, codes, i);
        const double magnitude = axis_value(&t->a, (code & ~t->a.sign) >> t->a.shift);
        const double got = code & t->a.sign ? -magnitude : magnitude;
        const double want = rounded(t, t->x[i]);

        if (got != want)
            CHECK(false, "%s, rounding %d: %a becomes %a (code %x), MPFR says %a",
                  t->info->name, (int)t->how.rounding, (double)t->x[i], got, code, want);
    }
    t->n = 0;
}

static void try_bits(trial *t, uint32_t bits)
{
    const float x = float_from(bits);

    if (bits < AXIS_INFINITY)
        t->x[t->n++] = t->a.is_signed && random64() % 2 ? -x : x;
    if (t->n == CHUNK)
        check_chunk(t);
}

static void boundaries(trial *t, uint32_t each)
{
    for (uint32_t code = 0; code <= t->a.largest; code += each)
        for (int r = 0; r < 2; r++) {
            const uint32_t bits = axis_step(&t->a, (plumb_rounding)r, code);

            for (uint32_t near = bits - 1; near <= bits + 1; near++)
                try_bits(t, near);
        }
}

/* From a quarter of the least value to four times the largest, exponents alike. */
static void points(trial *t, unsigned long count)
{
    const uint32_t low = bits_from(t->info->least / 4);
    const double above = 4.0 * (double)t->info->largest;
    const uint32_t high = above > (double)FLT_MAX ? AXIS_INFINITY : bits_from((float)above);

    for (unsigned long i = 0; i < count; i++)
        try_bits(t, low + (uint32_t)(random64() % (high - low)));
    check_chunk(t);
}

static void one(plumb_format format, plumb_rounding rounding, unsigned long count)
{
    static trial t;

    t.n = 0;
    t.info = plumb_format_get(format);
    axis_of(format, &t.a);
    t.how = (plumb_cast){
        .format = format, .saturate = true, .scale = 1.0f, .rounding = rounding};
    t.round = rounding == PLUMB_ROUND_NEAREST_EVEN ? MPFR_RNDN : MPFR_RNDZ;
    mpfr_set_emax(1000);
    /* MPFR's significands lie in [1/2, 1). */
    mpfr_set_emin(1 - t.info->bias - t.info->fraction_bits + 1);
    mpfr_init2(t.y, t.info->fraction_bits + 1);
    if (format != PLUMB_FP32)
        boundaries(&t, format == PLUMB_TF32 ? 64 : 1);
    points(&t, count);
    mpfr_clear(t.y);
}

int main(int argc, char **argv)
{
    const unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;

    for (int f = 0; f < PLUMB_FORMAT_COUNT; f++) {
        if (f == PLUMB_E8M0)
            continue;
        one((plumb_format)f, PLUMB_ROUND_NEAREST_EVEN, count);
        one((plumb_format)f, PLUMB_ROUND_TOWARD_ZERO, count);
        check_done(plumb_format_get((plumb_format)f)->name);
        printf("# mpfr %-8s nearest and zero, all boundaries (tf32: 1/64) and %lu random "
               "points "
               "each\n",
               plumb_format_get((plumb_format)f)->name, count);
    }
    printf("# cpu cast_mpfr %lu %.0f s\n", count, (double)clock() / CLOCKS_PER_SEC);
    return check_exit();
}
