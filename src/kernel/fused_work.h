/* kernel/fused_work.h - what the steps of the fused casts share: a call on its way, the loads, the
 * scale of each vector, zeros.
 */
#ifndef PLUMB_KERNEL_FUSED_WORK_H
#define PLUMB_KERNEL_FUSED_WORK_H

#include "kernel/fused.h"

enum {
    PIECE = 1024,
    FEW = 8, /* this part of the blocks is done again to count what is clipped */
    AHEAD = 1536 /* bytes of prefetch */,
    AHEAD_OF_BLOCKS = 2048 /* elements */,
    FAR_AHEAD = 16384 /* bytes */
};

/* How many scales there are: one, one for each block of at least a vector, one for each column. */
typedef enum spread { ONE, BLOCKS, COLUMNS } spread;

/* What a loop is compiled for: a source of bf16, division, a spectrum, scales; and known: all
 * values are finite and in range.
 */
typedef struct mode {
    bool half, divide, measured, known;
    spread scales;
} mode;

typedef struct work {
    const plumb_encode_job *job;
    const char *x; /* the row */
    uint8_t *codes;
    shape f;
    __m512 scale;
    __m512d decode;
    unsigned block_shift; /* a block has 2^block_shift elements */
    sums energy;
    bool clipping; /* many blocks have products above the largest: they are looked for */
    float largest; /* |product| of the pieces without trouble */
    __m512i code_largest; /* magnitudes of the codes of the others, */
    bool trouble;         /* if there were any */
} work;

INLINE four load_at(const work *w, mode m, size_t at, size_t n)
{
    return load(m.half, w->x + at * (m.half ? 2 : 4), n);
}

/* Scales of the vectors of a step. */
typedef struct factors {
    four scale;
    __m512d decode[4][2];
} factors;

INLINE factors factors_of_columns(const work *w, mode m, size_t at, size_t n)
{
    const four decode = m.measured ? load(false, w->job->decodes + at, n) : (four){0};
    factors f = {.scale = load(false, w->job->scales + at, n)};

#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        f.decode[v][0] = wide(decode.v[v], 0);
        f.decode[v][1] = wide(decode.v[v], 1);
    }
    return f;
}

INLINE factors factors_at(const work *w, mode m, size_t at, size_t n)
{
    factors f;

    if (m.scales == COLUMNS)
        return factors_of_columns(w, m, at, n);
#pragma GCC unroll 4
    for (size_t v = 0; v < 4; v++) {
        const bool blocks = m.scales == BLOCKS;
        const size_t first = n > WIDTH * v ? at + WIDTH * v : at;
        const size_t block = first >> w->block_shift;

        f.scale.v[v] = blocks ? _mm512_set1_ps(w->job->scales[block]) : w->scale;
        f.decode[v][0] = f.decode[v][1] =
            blocks && m.measured ? _mm512_set1_pd((double)w->job->decodes[block])
                                 : w->decode;
    }
    return f;
}

/* Products above the largest. */
INLINE uint64_t above_largest(const work *w, __m512 y)
{
    const __mmask16 above = _mm512_cmpgt_epu32_mask(_mm512_castps_si512(y), w->f.largest);

    return (uint64_t)__builtin_popcount(above);
}

INLINE uint64_t above_largest_of(const work *w, four y)
{
    return above_largest(w, y.v[0]) + above_largest(w, y.v[1]) + above_largest(w, y.v[2]) +
           above_largest(w, y.v[3]);
}

static uint64_t count_zeros(const work *w, mode m, size_t at, size_t n)
{
    const __m512i magnitude = _mm512_set1_epi32(MAGNITUDE);
    uint64_t zeros = 0;

    for (size_t i = 0; i < n; i += STEP) {
        const four from = load_at(w, m, at + i, n - i);

        for (int v = 0; v < 4; v++)
            zeros += (uint64_t)__builtin_popcount(
                _mm512_testn_epi32_mask(_mm512_castps_si512(from.v[v]), magnitude));
    }
    return zeros - (0 - n) % STEP;
}

/* Of blocks, what the caller has looked at is in the cache, so the next of its lines is read, and
 * one farther away brought near: the second cache has more misses under way than the first, and
 * a line that comes from memory in two steps does not stall the cast (1x128: 0.24 ns a value in
 * memory, 0.36 without).
 */
INLINE void prefetch(const work *w, mode m, size_t at)
{
    const size_t each = m.half ? 2 : 4;
    const size_t ahead = m.scales == BLOCKS ? AHEAD_OF_BLOCKS * each : AHEAD;
    const char *x = w->x + at * each;

    for (size_t i = 0; i < STEP * each && m.scales != COLUMNS; i += 64)
        _mm_prefetch(x + ahead + i, _MM_HINT_T0);
    for (size_t i = 0; i < STEP * each && m.scales == BLOCKS; i += 64)
        _mm_prefetch(x + FAR_AHEAD + i, _MM_HINT_T1);
}

static void raise(float *maximum, float x)
{
    if (x > *maximum)
        *maximum = x;
}

#endif
