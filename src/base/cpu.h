/* base/cpu.h - the choice among variants of one kernel.
 *
 * A table of variants lists the slowest first, which every machine can run, and keeps the
 * PLUMB_CPU_* that a variant needs in its member `cpu`.
 */
#ifndef PLUMB_BASE_CPU_H
#define PLUMB_BASE_CPU_H

#include "plumb/base.h"

/* How many rows of `stride` bytes one must go back from the one whose member is *cpu, to one that
 * may run here.
 */
static inline size_t plumb_cpu_back(const void *cpu, size_t stride)
{
    const unsigned have = plumb_cpu_flags();
    size_t back = 0;

    while ((*(const unsigned *)cpu & ~have) != 0) {
        cpu = (const char *)cpu - stride;
        back++;
    }
    return back;
}

/* The row at `last`, or the nearest above it that may run here. */
#define PLUMB_CPU_BEST(last) ((last)-plumb_cpu_back(&(last)->cpu, sizeof *(last)))

/* Whether works(what) was true when first asked about this level in this process; if not,
 * plumb_cpu_flags leaves the level out from then on.  Several threads may ask at once: until one
 * has the answer, each finds it by itself.
 */
bool plumb_cpu_trust(unsigned level, bool (*works)(const void *what), const void *what);

#endif
