/* Counts and energies of many additions at once, in the order that plumb/reduce.h states: element
 * i in lane i mod 16, lanes joined as a tree.  What is left of a multiple of 16 is filled up with
 * 0 + 0 = 0, which counts as nothing.  Compiled once for each instruction set.
 */
#include "kernel/body.h"
#include "reduce/tally.h"

typedef struct lanes {
    double energy[LANES], lost[LANES], missing[LANES];
    uint64_t swamped[LANES], replaced[LANES], nonfinite[LANES];
} lanes;

/* Not inlined: gcc 12 turns this loop into vector code by itself, but not inside of another. */
static __attribute__((noinline)) void additions_of_16(double decay, const float *old,
                                                      const float *x, const float *result,
                                                      lanes *sum)
{
    for (int l = 0; l < LANES; l++) {
        const plumb_outcome o = plumb_outcome_of(decay * (double)old[l], (double)old[l],
                                                 (double)x[l], (double)result[l]);

        sum->energy[l] += o.update * o.update;
        sum->lost[l] += o.error * o.error;
        sum->missing[l] += o.error;
        sum->swamped[l] += o.swamped;
        sum->replaced[l] += o.replaced;
        sum->nonfinite[l] += o.nonfinite;
    }
}

INLINE void leaves_of_16(const float *x, const float *value, lanes *sum)
{
    for (int l = 0; l < LANES; l++) {
        const double in = (double)x[l], out = (double)value[l];
        const double error = (in - in) + (out - out) == 0 ? in - out : 0;

        sum->energy[l] += in - in == 0 ? in * in : 0;
        sum->lost[l] += error * error;
        sum->missing[l] += error;
    }
}

INLINE uint64_t total(const uint64_t lane[LANES])
{
    uint64_t sum = 0;

    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

INLINE void add_lanes(lanes *of, bool energy, plumb_sum_counts *sums)
{
    sums->swamped += total(of->swamped);
    sums->replaced += total(of->replaced);
    sums->nonfinite += total(of->nonfinite);
    if (energy)
        sums->energy += join_lanes(of->energy);
    sums->lost += join_lanes(of->lost);
    sums->missing += join_lanes(of->missing);
}

void ENTRY(plumb_tally_additions_)(float decay, const float *old, const float *x,
                                   const float *result, size_t n, bool updates,
                                   plumb_sum_counts *sums)
{
    const size_t whole = n - n % LANES, bytes = (n - whole) * sizeof(float);
    float last[3][LANES] = {{0}};
    lanes sum = {0};

    for (size_t i = 0; i < whole; i += LANES)
        additions_of_16((double)decay, old + i, x + i, result + i, &sum);
    if (bytes > 0) {
        memcpy(last[0], old + whole, bytes);
        memcpy(last[1], x + whole, bytes);
        memcpy(last[2], result + whole, bytes);
        additions_of_16((double)decay, last[0], last[1], last[2], &sum);
    }
    sums->additions += n;
    add_lanes(&sum, updates, sums);
}

void ENTRY(plumb_tally_leaves_)(const float *x, const float *value, size_t n,
                                plumb_sum_counts *sums)
{
    const size_t whole = n - n % LANES, bytes = (n - whole) * sizeof(float);
    float last[2][LANES] = {{0}};
    lanes sum = {0};

    for (size_t i = 0; i < whole; i += LANES)
        leaves_of_16(x + i, value + i, &sum);
    if (bytes > 0) {
        memcpy(last[0], x + whole, bytes);
        memcpy(last[1], value + whole, bytes);
        leaves_of_16(last[0], last[1], &sum);
    }
    add_lanes(&sum, true, sums);
}
