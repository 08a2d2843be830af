/* Philox4x32-10: ten rounds of two 32 x 32 -> 64 bit products, keys raised by Weyl
 * constants between rounds (Salmon, Moraes, Dror, Shaw, SC'11).
 */
#include "random/philox.h"

enum { ROUNDS = 10 };

static void round_once(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    const uint64_t a = (uint64_t)0xd2511f53u * c[0];
    const uint64_t b = (uint64_t)0xcd9e8d57u * c[2];
    const uint32_t c1 = c[1], c3 = c[3];

    c[0] = (uint32_t)(b >> 32) ^ c1 ^ k0;
    c[1] = (uint32_t)b;
    c[2] = (uint32_t)(a >> 32) ^ c3 ^ k1;
    c[3] = (uint32_t)a;
}

void plumb_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
    uint32_t k0 = key[0], k1 = key[1];

    for (int i = 0; i < ROUNDS; i++) {
        round_once(c, k0, k1);
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}
