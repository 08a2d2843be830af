/* plumb/random.h - random bits that depend on nothing but their name.
 *
 * Counter-based: the 128 bits of a draw are a pure function of (seed, stream,
 * index), so they do not depend on threads, ranks, instruction sets or on what
 * was drawn before.  Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random
 * Numbers: As Easy as 1, 2, 3; SC'11), key = seed, counter = (index, stream).
 * Pure functions; call from anywhere.
 */
#ifndef PLUMB_RANDOM_H
#define PLUMB_RANDOM_H

#include "plumb/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Four words of 32 random bits. */
void plumb_random_bits(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4]);

/* A stream number from a name (a site, "data", "init/head"): FNV-1a, 64 bits. */
uint64_t plumb_random_stream(const char *name);

/* The stream of one step of a stream: output number `step` of SplitMix64 with seed `stream`.
 * For a given stream no two steps share one, and for a given step no two streams.
 */
uint64_t plumb_random_stream_at(uint64_t stream, uint64_t step);

/* Uniform in [0, n), n >= 1, without modulo bias (128-bit multiply-shift of 64 bits:
 * bias below n / 2^64).
 */
uint64_t plumb_random_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t n);

/* out[0..n): standard normal times deviation.  Box-Muller on our own log, sin and cos
 * (plumb/math.h), so the bits are the same on every machine.  out[i] does not depend on n.
 * Nothing lies beyond 5.9 deviations (the uniform under the logarithm has 24 bits).
 */
void plumb_random_normal(uint64_t seed, uint64_t stream, float deviation, size_t n,
                         float *out);

/* Fisher-Yates permutation of 0..n-1. */
void plumb_random_permutation(uint64_t seed, uint64_t stream, size_t n, size_t *out);

#ifdef __cplusplus
}
#endif
#endif
