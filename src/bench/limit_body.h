/* The limits, once for each instruction set.  The includer defines ISA, BYTES (of a vector),
 * reals, splat(x) and fma_of(a, b, c).
 */
#include "bench/limit.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define ENTRY(name) JOIN(name, ISA)

typedef uint64_t words __attribute__((vector_size(BYTES), may_alias));

uint64_t ENTRY(bench_read_)(const void *from, size_t bytes)
{
    const words *in = from;
    words a = in[0], b = in[1], c = in[2], d = in[3];
    uint64_t sum = 0;

    for (size_t i = 4; i < bytes / BYTES; i += 4) {
        a ^= in[i];
        b ^= in[i + 1];
        c ^= in[i + 2];
        d ^= in[i + 3];
    }
    a ^= b ^ c ^ d;
    for (size_t i = 0; i < BYTES / 8; i++)
        sum ^= a[i];
    return sum;
}

void ENTRY(bench_copy_4_1_)(const void *from, size_t bytes, void *to)
{
    const words *in = from;
    words *out = to;

    for (size_t i = 0; i < bytes / (4 * BYTES); i++)
        out[i] = in[4 * i] | in[4 * i + 1] | in[4 * i + 2] | in[4 * i + 3];
}

void ENTRY(bench_copy_2_1_)(const void *from, size_t bytes, void *to)
{
    const words *in = from;
    words *out = to;

    for (size_t i = 0; i < bytes / (2 * BYTES); i++)
        out[i] = in[2 * i] | in[2 * i + 1];
}

/* Neighbours change places, or the compiler would call memcpy, which chooses other stores. */
void ENTRY(bench_copy_1_1_)(const void *from, size_t bytes, void *to)
{
    const words *in = from;
    words *out = to;

    for (size_t i = 0; i < bytes / BYTES; i += 2) {
        const words a = in[i], b = in[i + 1];

        out[i] = b;
        out[i + 1] = a;
    }
}

void ENTRY(bench_copy_1_2_)(const void *from, size_t bytes, void *to)
{
    const words *in = from;
    words *out = to;

    for (size_t i = 0; i < bytes / BYTES; i++) {
        out[2 * i] = in[i];
        out[2 * i + 1] = in[i];
    }
}

void ENTRY(bench_copy_1_4_)(const void *from, size_t bytes, void *to)
{
    const words *in = from;
    words *out = to;

    for (size_t i = 0; i < bytes / BYTES; i++) {
        out[4 * i] = in[i];
        out[4 * i + 1] = in[i];
        out[4 * i + 2] = in[i];
        out[4 * i + 3] = in[i];
    }
}

float ENTRY(bench_multiply_add_)(size_t rounds)
{
    const reals x = splat(0.9999f), y = splat(1e-3f);
    reals chain[BENCH_CHAINS];
    float sum = 0;

    for (int k = 0; k < BENCH_CHAINS; k++)
        chain[k] = splat(0.01f * (float)k);
    for (size_t i = 0; i < rounds; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < BENCH_CHAINS; k++)
            chain[k] = fma_of(chain[k], x, y);
    }
    for (int k = 0; k < BENCH_CHAINS; k++)
        sum += ((const float *)&chain[k])[0];
    return sum;
}
