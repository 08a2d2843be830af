/* base/bits.h - the 32 bits of an fp32 number, and the number of 32 bits.
 *
 * Always inlined, so that kernels of every instruction set can have them: a copy compiled for
 * AVX-512 must never be the one that a baseline caller gets.
 */
#ifndef PLUMB_BASE_BITS_H
#define PLUMB_BASE_BITS_H

#include <stdint.h>
#include <string.h>

static inline __attribute__((always_inline)) uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline __attribute__((always_inline)) float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
