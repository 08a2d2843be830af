/* The double reference of test_math.c is the C library's; here MPFR judges instead, on
 * random arguments and where results cross a power of two or an argument is hard to reduce.
 */
#include "bits.h"
#include "check.h"
#include "plumb/math.h"

#include <float.h>
#include <math.h>
#include <mpfr.h>

typedef int mpfr_function(mpfr_t y, const mpfr_t x, mpfr_rnd_t round);
typedef void our_function(const float *x, size_t n, float *y);

/* |got - f(x)| in units of the last place of f(x). */
static double error_in_ulp(mpfr_function *f, float x, float got)
{
    mpfr_t y;

    mpfr_init2(y, 120);
    mpfr_set_flt(y, x, MPFR_RNDN);
    f(y, y, MPFR_RNDN);
    const mpfr_exp_t exponent = mpfr_get_exp(y);

    mpfr_sub_d(y, y, (double)got, MPFR_RNDN);
    mpfr_mul_2si(y, y, 24 - (long)exponent, MPFR_RNDN);
    const double error = fabs(mpfr_get_d(y, MPFR_RNDN));

    mpfr_clear(y);
    return error;
}

static void one(our_function *run, mpfr_function *f, const char *name, double bound,
                float x)
{
    float y;

    run(&x, 1, &y);
    const double error = error_in_ulp(f, x, y);

    CHECK(error <= bound, "%s(%a) = %a: %.4f ulp", name, (double)x, (double)y, error);
}

static uint32_t state = 7;

static float between(float low, float high)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return low + (high - low) * ((float)(state >> 8) * 0x1p-24f);
}

static void random_points(void)
{
    for (int i = 0; i < 20000; i++) {
        one(plumb_exp, mpfr_exp, "exp", 0.988, between(-87, 88));
        one(plumb_exp, mpfr_exp, "exp", 0.988, between(-1, 1));
        one(plumb_log, mpfr_log, "log", 0.841, between(0, 2));
        one(plumb_log, mpfr_log, "log", 0.841, between(0, 1e9f));
        one(plumb_sin, mpfr_sin, "sin", 0.783, between(-32768, 32768));
        one(plumb_cos, mpfr_cos, "cos", 0.783, between(-32768, 32768));
    }
    check_done("random arguments");
}

/* The float nearest to each multiple of pi/2: where reduction cancels most. */
static void multiples_of_half_pi(void)
{
    for (int k = 1; k * 1.5707963267948966 < 32768; k++) {
        const float x = (float)(k * 1.5707963267948966);

        one(plumb_sin, mpfr_sin, "sin", 0.783, x);
        one(plumb_cos, mpfr_cos, "cos", 0.783, -x);
    }
    check_done("multiples of pi/2");
}

static void powers_of_two(void)
{
    for (int k = -125; k < 128; k++) {
        const float x = (float)(k * 0.6931471805599453);
        const float power = ldexpf(1, k);

        one(plumb_exp, mpfr_exp, "exp", 0.988, x);
        one(plumb_exp, mpfr_exp, "exp", 0.988, nextafterf(x, 0));
        if (k != 0)
            one(plumb_log, mpfr_log, "log", 0.841, power);
        one(plumb_log, mpfr_log, "log", 0.841, nextafterf(power, 0));
        one(plumb_log, mpfr_log, "log", 0.841, nextafterf(power, FLT_MAX));
    }
    check_done("powers of two");
}

int main(void)
{
    random_points();
    multiples_of_half_pi();
    powers_of_two();
    mpfr_free_cache();
    return check_exit();
}
