/* bits.h - the 32 bits of an fp32 number and back, for tests: shares nothing with src/. */
#ifndef PLUMB_TEST_BITS_H
#define PLUMB_TEST_BITS_H

#include <stdint.h>
#include <string.h>

static inline float float_from(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t bits_from(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

#endif
