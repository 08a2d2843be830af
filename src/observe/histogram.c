/* Exponents of values, and the bins of a row: a stretch of them that ends at the largest, so that a
 * row is short and what matters is in it.
 */
#include "plumb/observe.h"

#include "base/bits.h"

enum { BIAS = 127, LEAST = 1, LARGEST = 254 }; /* exponent fields of finite normal values */

/* Values that follow each other often have the same exponent: four tables, so that no addition waits
 * for the one before.
 */
enum { TABLES = 4 };

static unsigned field(float x)
{
    return bits_of(x) >> 23 & 0xff;
}

void plumb_exponents_add(plumb_exponents *into, const float *x, size_t rows, size_t cols,
                         size_t ld)
{
    uint64_t counts[TABLES][256] = {{0}};

    for (size_t row = 0; row < rows; row++, x += ld) {
        size_t i = 0;

        for (; i + TABLES <= cols; i += TABLES) {
            counts[0][field(x[i])]++;
            counts[1][field(x[i + 1])]++;
            counts[2][field(x[i + 2])]++;
            counts[3][field(x[i + 3])]++;
        }
        for (; i < cols; i++)
            counts[0][field(x[i])]++;
    }
    for (int e = 0; e < 256; e++)
        into->at[e] += counts[0][e] + counts[1][e] + counts[2][e] + counts[3][e];
}

void plumb_exponents_join(plumb_exponents *into, const plumb_exponents *exponents)
{
    for (int e = 0; e < 256; e++)
        into->at[e] += exponents->at[e];
}

bool plumb_histogram_fill(plumb_histogram *histogram, const plumb_exponents *exponents)
{
    const uint64_t *const exponent = exponents->at;
    uint64_t counts[PLUMB_BINS] = {0};
    int top = LARGEST;

    while (top > LEAST && exponent[top] == 0)
        top--;
    const int first = top - PLUMB_BINS + 1 > LEAST ? top - PLUMB_BINS + 1 : LEAST;

    for (int e = LEAST; e <= top; e++)
        counts[e > first ? e - first : 0] += exponent[e];
    histogram->first = first - BIAS;
    for (int k = 0; k < PLUMB_BINS; k++)
        histogram->bin[k] = (float)counts[k];
    return exponent[top] != 0;
}
