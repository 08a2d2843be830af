/* How a product differs from its reference: one pass, sums in fp64 in the order of the elements. */
#include "plumb/observe.h"

#include <math.h>
#include <string.h>

static bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* How bad a pair is: a lost infinity or NaN more than any distance. */
static double badness(float c, float r)
{
    return isfinite(c) && isfinite(r) ? fabs((double)c - (double)r) : (double)INFINITY;
}

plumb_difference plumb_observe_difference(const float *c, const float *reference, size_t m,
                                          size_t n)
{
    plumb_difference found = {0};
    double error = 0, norm = 0, shift = 0, size = 0, worst = -1;
    bool lost = false; /* a pair of which one is not finite */

    for (size_t i = 0; i < m * n; i++) {
        const float x = c[i], r = reference[i];
        const bool finite = isfinite(x) && isfinite(r);
        const double gap = finite ? (double)x - (double)r : 0;

        found.nonfinite += isfinite(x) ? 0 : 1;
        found.nonfinite_reference += isfinite(r) ? 0 : 1;
        error += gap * gap;
        norm += finite ? (double)r * (double)r : 0;
        shift += r < 0 ? -gap : gap;
        size += finite ? fabs((double)r) : 0;
        if (same_bits(x, r)) {
            found.equal++;
        } else if (badness(x, r) > worst) {
            worst = badness(x, r);
            lost = lost || !finite;
            found.any = true;
            found.row = i / n;
            found.col = i % n;
            found.worst = x;
            found.worst_reference = r;
        }
    }
    if (lost || (norm == 0 && error > 0))
        found.frobenius = (double)INFINITY;
    else
        found.frobenius = norm > 0 ? sqrt(error / norm) : 0;
    found.bias = size > 0 ? shift / size : 0;
    return found;
}
