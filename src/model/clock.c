/* What products, casts and the rest of a call cost, when setup.times asks.
 *
 * Processor time, not the time of day: a busy machine does not change it much.
 */
#include "model/model.h"

#include <time.h>

double clock_now(const plumb_model *m)
{
    struct timespec now;

    if (!m->timed)
        return 0;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* rest is kept as everything until the end, and products and casts are then taken off. */
double clock_begin(plumb_model *m, plumb_seconds *part)
{
    m->part = part;
    part->rest += part->gemm + part->cast;
    return clock_now(m);
}

void clock_end(plumb_model *m, double begin)
{
    m->part->rest += clock_now(m) - begin - m->part->gemm - m->part->cast;
}
