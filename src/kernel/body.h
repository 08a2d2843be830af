/* What the bodies of kernels share: bits of floats, choice without branches, the names of
 * entry points.
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

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define ENTRY(name) JOIN(name, ISA)
#define INLINE      static inline __attribute__((always_inline))

enum { MAGNITUDE = 0x7fffffff, INF = 0x7f800000, NAN_BITS = 0x7fc00000 };

INLINE uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* a where the condition holds, else b; written without a branch, because gcc threads
 * branches into each other until it can no longer vectorise the loop.
 */
INLINE uint32_t choose(bool condition, uint32_t a, uint32_t b)
{
    const uint32_t mask = 0u - (uint32_t)condition;

    return (a & mask) | (b & ~mask);
}

#endif
