/* Sums without any error: values as 128-bit integers in units of 2^-60, for |x| < 2^40.  From them
 * the account of an addition, in long double.
 */
#ifndef TEST_REDUCE_EXACT_H
#define TEST_REDUCE_EXACT_H

#include "oracle.h"
#include "plumb/reduce.h"

__extension__ typedef __int128 exact;

static inline exact exact_of(double x)
{
    const int low = 60 - 40;

    /* 40 bits before the point and 20 behind it fit into 64; the other 40 are taken apart. */
    const double high = floor(ldexp(x, low));

    return (exact)(int64_t)high * ((exact)1 << 40) +
           (exact)(int64_t)ldexp(ldexp(x, low) - high, 40);
}

static inline long double exact_value(exact x)
{
    return ldexpl((long double)x, -60);
}

typedef struct exact_account {
    uint64_t additions, swamped, replaced;
    long double energy, lost, missing;
} exact_account;

static inline void exact_error(exact_account *a, exact error)
{
    a->lost += exact_value(error) * exact_value(error);
    a->missing += exact_value(error);
}

/* What becomes of scaled + x, where old is in the sum; scaled is decay * old without error. */
static inline void exact_addition(exact_account *a, exact scaled, double old, double x,
                                  double result)
{
    const exact sum = scaled + exact_of(x);

    a->additions++;
    a->swamped += sum != exact_of(old) && result == old;
    a->replaced += scaled != 0 && result == x;
    exact_error(a, sum - exact_of(result));
}

static inline void exact_leaf(exact_account *a, double x, double value)
{
    a->energy += (long double)x * (long double)x;
    exact_error(a, exact_of(x) - exact_of(value));
}

/* fp64 sums of n terms, each right to 2^-52, against sums that are exact to 2^-64; m is the sum of
 * the magnitudes of the signed one.
 */
static inline bool exact_near(double got, long double want, long double m)
{
    return fabsl((long double)got - want) <= m * 0x1p-52L * 1100;
}

static inline void exact_same(const char *what, const plumb_sum_counts *got,
                              const exact_account *want)
{
    CHECK(got->additions == want->additions && got->swamped == want->swamped &&
              got->replaced == want->replaced && got->nonfinite == 0,
          "%s: %llu additions, %llu swamped, %llu replaced, want %llu, %llu, %llu", what,
          (unsigned long long)got->additions, (unsigned long long)got->swamped,
          (unsigned long long)got->replaced, (unsigned long long)want->additions,
          (unsigned long long)want->swamped, (unsigned long long)want->replaced);
    CHECK(exact_near(got->energy, want->energy, want->energy), "%s: energy %a, want %La",
          what, got->energy, want->energy);
    CHECK(exact_near(got->lost, want->lost, want->lost), "%s: lost %a, want %La", what,
          got->lost, want->lost);
    /* |sum of e| <= sqrt(n * sum of e^2) */
    CHECK(exact_near(got->missing, want->missing,
                     sqrtl(want->lost * (long double)(want->additions + 1000))),
          "%s: missing %a, want %La", what, got->missing, want->missing);
}

#endif
