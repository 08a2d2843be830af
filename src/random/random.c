/* What is drawn from the bits: integers, normal deviates, permutations.  Element i of a
 * result depends on (seed, stream, i) and on nothing that was drawn before.
 */
#include "plumb/random.h"

#include "kernel/philox.h"
#include "plumb/math.h"

#include <math.h>
#include <string.h>

void plumb_random_bits(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4])
{
    const philox_block block = philox(seed, stream, index);

    memcpy(out, block.word, sizeof block.word);
}

uint64_t plumb_random_stream(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (; *name != 0; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}

/* The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA'14), mix variant 13 of Stafford:
 * each line is a bijection of the 64 bits.
 */
uint64_t plumb_random_stream_at(uint64_t stream, uint64_t step)
{
    uint64_t z = stream + step * 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* The high 64 bits of a * b, by halves (C11 has no 128-bit type). */
static uint64_t multiply_high(uint64_t a, uint64_t b)
{
    const uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    const uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
    const uint64_t carry = a0 * b1 + (uint32_t)middle;

    return a1 * b1 + (middle >> 32) + (carry >> 32);
}

uint64_t plumb_random_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t n)
{
    uint32_t words[4];

    plumb_random_bits(seed, stream, index, words);
    return multiply_high((uint64_t)words[1] << 32 | words[0], n);
}

/* A pair of deviates takes two words, so a draw of four gives elements 4k to 4k + 3. */
enum { DRAW = 4, BLOCK = 256 };

/* Two uniforms of each pair: u in (0, 1), never 0 so that its log is finite, and an angle
 * in [0, 2 pi).  Both have 24 bits, exact in fp32.
 */
static void draw_pairs(uint64_t seed, uint64_t stream, uint64_t index, float u[BLOCK / 2],
                       float angle[BLOCK / 2])
{
    for (uint64_t i = 0; i < BLOCK / DRAW; i++) {
        uint32_t words[4];

        plumb_random_bits(seed, stream, index + i, words);
        for (int j = 0; j < 2; j++) {
            u[2 * i + (uint64_t)j] = ((float)(words[2 * j] >> 9) + 0.5f) * 0x1p-23f;
            angle[2 * i + (uint64_t)j] =
                (float)(words[2 * j + 1] >> 8) * (6.28318530717958648f * 0x1p-24f);
        }
    }
}

/* Box-Muller: radius sqrt(-2 log u), times cosine and sine of the angle. */
static void normal_block(uint64_t seed, uint64_t stream, uint64_t index, float deviation,
                         float out[BLOCK])
{
    float u[BLOCK / 2], angle[BLOCK / 2], sine[BLOCK / 2];

    draw_pairs(seed, stream, index, u, angle);
    plumb_log(u, BLOCK / 2, u);
    plumb_sin(angle, BLOCK / 2, sine);
    plumb_cos(angle, BLOCK / 2, angle);
    for (int i = 0; i < BLOCK / 2; i++) {
        const float radius = sqrtf(-2.0f * u[i]);

        out[2 * i] = radius * angle[i] * deviation;
        out[2 * i + 1] = radius * sine[i] * deviation;
    }
}

void plumb_random_normal(uint64_t seed, uint64_t stream, float deviation, size_t n,
                         float *out)
{
    float block[BLOCK];

    for (size_t i = 0; i < n; i += BLOCK) {
        normal_block(seed, stream, i / DRAW, deviation, block);
        for (size_t j = 0; j < BLOCK && i + j < n; j++)
            out[i + j] = block[j];
    }
}

void plumb_random_permutation(uint64_t seed, uint64_t stream, size_t n, size_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = i;
    for (size_t i = n; i > 1; i--) {
        const size_t j = (size_t)plumb_random_below(seed, stream, i - 1, i);
        const size_t kept = out[i - 1];

        out[i - 1] = out[j];
        out[j] = kept;
    }
}
