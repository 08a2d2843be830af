/* What the bodies of kernels share: bits of floats, choice without branches, the lanes of a sum,
 * the names of entry points.
 *
 * A body is compiled once for each instruction set; the includer defines ISA, the suffix
 * of its entry points.  Everything here is static and always inlined: code compiled for
 * AVX-512 must never be the copy that a baseline caller gets.
 */
#ifndef PLUMB_KERNEL_BODY_H
#define PLUMB_KERNEL_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bits.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define ENTRY(name) JOIN(name, ISA)
#define INLINE      static inline __attribute__((always_inline))

enum { MAGNITUDE = 0x7fffffff, INF = 0x7f800000, NAN_BITS = 0x7fc00000 };

/* a where the condition holds, else b; written without a branch, because gcc threads
 * branches into each other until it can no longer vectorise the loop.
 */
INLINE uint32_t choose(bool condition, uint32_t a, uint32_t b)
{
    const uint32_t mask = 0u - (uint32_t)condition;

    return (a & mask) | (b & ~mask);
}

enum { LANES = 16 };

/* Lanes of plumb/reduce.h, joined as a tree: 16 to 8 (l and l + 8), 8 to 4, 4 to 2, 2 to 1. */
INLINE double join_lanes(double lane[LANES])
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

#endif
