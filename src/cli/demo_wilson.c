/* Wilson's score interval of a proportion at 95 %. */
#include "cli/demo.h"

#include <math.h>

/* The 0.975 quantile of the standard normal distribution. */
static const double quantile = 1.959963984540054;

void demo_wilson(size_t k, size_t n, double *least, double *most)
{
    const double z2 = quantile * quantile, count = (double)n, part = (double)k;

    *least = 0;
    *most = 1;
    if (n == 0)
        return;
    /* Roots of (n + z^2) p^2 - (2 k + z^2) p + k^2 / n = 0. */
    const double middle = (2 * part + z2) / (2 * (count + z2));
    const double reach =
        quantile * sqrt(part * (count - part) / count + z2 / 4) / (count + z2);

    if (k > 0)
        *least = middle - reach;
    if (k < n)
        *most = middle + reach;
}
