/* How far a tensor is from its reference: one pass, sums in fp64 in the order of the
 * elements (four interleaved chains, joined at the end).
 */
#include "plumb/observe.h"

#include <math.h>

enum { CHAINS = 4 };

struct sums {
    double error[CHAINS], a[CHAINS], b[CHAINS], ab[CHAINS]; /* of squares and products */
    double largest;
    size_t index;
    bool finite;
};

static double join(const double chains[CHAINS])
{
    return (chains[0] + chains[2]) + (chains[1] + chains[3]);
}

static struct sums add_up(const float *a, const float *b, size_t n)
{
    struct sums s = {.finite = true};

    for (size_t i = 0; i < n; i++) {
        const double x = (double)a[i], y = (double)b[i], error = fabs(x - y);

        if (!isfinite(error)) {
            s.finite = false;
            s.index = i;
            return s;
        }
        if (error > s.largest) {
            s.largest = error;
            s.index = i;
        }
        s.error[i % CHAINS] += error * error;
        s.a[i % CHAINS] += x * x;
        s.b[i % CHAINS] += y * y;
        s.ab[i % CHAINS] += x * y;
    }
    return s;
}

/* error / size, with 0 / 0 = 0. */
static double ratio(double error, double size)
{
    if (error == 0)
        return 0;
    return size == 0 ? (double)INFINITY : error / size;
}

static double cosine(double a, double b, double ab)
{
    if (a == 0 && b == 0)
        return 1;
    if (a == 0 || b == 0)
        return 0;
    return ab / (sqrt(a) * sqrt(b));
}

plumb_deviation plumb_observe_deviation(const float *a, const float *b, size_t n)
{
    const struct sums s = add_up(a, b, n);
    const double error = join(s.error), b_squares = join(s.b);

    if (!s.finite)
        return (plumb_deviation){(double)INFINITY, s.index, (double)INFINITY, 0};
    return (plumb_deviation){
        .max_over_rms = ratio(s.largest, n == 0 ? 1 : sqrt(b_squares / (double)n)),
        .index = s.index,
        .relative = ratio(sqrt(error), sqrt(b_squares)),
        .cosine = cosine(join(s.a), b_squares, join(s.ab)),
    };
}
