/* Philox4x32-10: ten rounds of two 32 x 32 -> 64 bit products, keys raised by Weyl
 * constants between rounds (Salmon, Moraes, Dror, Shaw, SC'11).
 *
 * In a header, so that the bodies of kernels get a copy for their own instruction set and
 * their loops over counters become vector code; always inlined for the same reason.
 */
#ifndef PLUMB_KERNEL_PHILOX_H
#define PLUMB_KERNEL_PHILOX_H

#include <stdint.h>

#define PHILOX_INLINE static inline __attribute__((always_inline))

typedef struct philox_block {
    uint32_t word[4];
} philox_block;

PHILOX_INLINE philox_block philox_round(philox_block c, uint32_t k0, uint32_t k1)
{
    const uint64_t a = (uint64_t)0xd2511f53u * c.word[0];
    const uint64_t b = (uint64_t)0xcd9e8d57u * c.word[2];

    return (philox_block){{(uint32_t)(b >> 32) ^ c.word[1] ^ k0, (uint32_t)b,
                           (uint32_t)(a >> 32) ^ c.word[3] ^ k1, (uint32_t)a}};
}

/* Written out, since a loop within a loop is not vectorised. */
#define PHILOX_ROUND(i) c = philox_round(c, k0 + (i)*0x9e3779b9u, k1 + (i)*0xbb67ae85u)

/* Block `index` of a stream: key = seed, counter = (index, stream), low words first. */
PHILOX_INLINE philox_block philox(uint64_t seed, uint64_t stream, uint64_t index)
{
    const uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    philox_block c = {{(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream,
                       (uint32_t)(stream >> 32)}};

    PHILOX_ROUND(0);
    PHILOX_ROUND(1);
    PHILOX_ROUND(2);
    PHILOX_ROUND(3);
    PHILOX_ROUND(4);
    PHILOX_ROUND(5);
    PHILOX_ROUND(6);
    PHILOX_ROUND(7);
    PHILOX_ROUND(8);
    PHILOX_ROUND(9);
    return c;
}

#endif
