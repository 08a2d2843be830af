/* The Wilson interval against values worked out by bisection of the definition,
 * (k / n - p)^2 <= z^2 p (1 - p) / n, in decimals of 60 digits, z by bisection of the series of the
 * normal distribution.
 */
#include "check.h"
#include "cli/demo.h"

#include <math.h>

static const struct row {
    size_t k, n;
    double least, most;
} rows[] = {
    {0, 1, 0.0, 0.7934506856227627},
    {1, 1, 0.2065493143772374, 1.0},
    {0, 10, 0.0, 0.27753279986288926},
    {8, 10, 0.4901624715366417, 0.9433178485456247},
    {10, 10, 0.7224672001371107, 1.0},
    {1, 2, 0.09453120573423071, 0.9054687942657693},
    {57, 60, 0.8629948352365148, 0.9828504978356043},
    {95, 100, 0.8882495307680809, 0.978456320845632},
    {60, 60, 0.9398281478579101, 1.0},
    {3, 7, 0.1582198552514697, 0.7495416354723428},
    {499, 1000, 0.4680734887507241, 0.5299341647662471},
};

static void table(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        double least, most;

        demo_wilson(r->k, r->n, &least, &most);
        /* A dozen operations on numbers of about 1: far less than 1e-14. */
        CHECK(fabs(least - r->least) < 1e-14 && fabs(most - r->most) < 1e-14,
              "%zu of %zu: %.17g to %.17g, want %.17g to %.17g", r->k, r->n, least, most,
              r->least, r->most);
    }
    check_done("values worked out independently");
}

static void of_nothing(void)
{
    double least = -1, most = -1;

    demo_wilson(0, 0, &least, &most);
    CHECK(least == 0 && most == 1, "0 of 0: %g to %g, want 0 to 1", least, most);
    check_done("nothing seen says nothing");
}

/* What is counted as right and as wrong exchanged: the interval is the mirror image. */
static void mirror(void)
{
    for (size_t n = 1; n <= 40; n++) {
        for (size_t k = 0; k <= n; k++) {
            double least, most, other_least, other_most;

            demo_wilson(k, n, &least, &most);
            demo_wilson(n - k, n, &other_least, &other_most);
            CHECK(fabs(least - (1 - other_most)) < 1e-14 &&
                      fabs(most - (1 - other_least)) < 1e-14 &&
                      least <= (double)k / (double)n && (double)k / (double)n <= most &&
                      least >= 0 && most <= 1,
                  "%zu of %zu: %g to %g against %g to %g", k, n, least, most, other_least,
                  other_most);
        }
    }
    check_done("k of n and n - k of n mirror each other, around k / n");
}

int main(void)
{
    table();
    of_nothing();
    mirror();
    return check_exit();
}
