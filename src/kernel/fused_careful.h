/* kernel/fused_careful.h - the step of the fused casts that counts everything: for pieces where a
 * value is not finite or out of range.
 */
#ifndef PLUMB_KERNEL_FUSED_CAREFUL_H
#define PLUMB_KERNEL_FUSED_CAREFUL_H

#include "kernel/fused_work.h"

INLINE uint64_t joined(const __mmask16 part[4])
{
    return (uint64_t)part[0] | (uint64_t)part[1] << 16 | (uint64_t)part[2] << 32 |
           (uint64_t)part[3] << 48;
}

/* By element of a step. */
typedef struct trouble {
    uint64_t nonfinite, nan; /* of the source; of the product */
    uint64_t over, clipped;  /* of the product: rounds past the largest, is above it */
} trouble;

/* Finite scales make NaN only of what is not finite. */
INLINE trouble look(const shape *f, four x, four y)
{
    const __m512 beyond = _mm512_castsi512_ps(_mm512_set1_epi32((int)f->beyond_bits));
    const __m512 largest = _mm512_castsi512_ps(f->largest);
    __mmask16 nonfinite[4], nan[4], over[4], clipped[4];
    trouble t = {.nan = 0};

#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        nonfinite[v] = _mm512_fpclass_ps_mask(x.v[v], NOT_FINITE);
        over[v] = _mm512_cmp_ps_mask(y.v[v], beyond, _CMP_GE_OQ);
        clipped[v] = _mm512_cmp_ps_mask(y.v[v], largest, _CMP_GT_OQ);
    }
    t.nonfinite = joined(nonfinite);
    t.over = joined(over);
    t.clipped = joined(clipped);
    if (t.nonfinite == 0)
        return t;
    for (int v = 0; v < 4; v++)
        nan[v] = _mm512_cmp_ps_mask(y.v[v], y.v[v], _CMP_UNORD_Q);
    t.nan = joined(nan);
    return t;
}

/* Codes past the largest, and of NaN, which has no sign. */
INLINE __m512i mend(const shape *f, bool saturate, const trouble *t, __m512i codes)
{
    const __m512i past = _mm512_set1_epi8((char)f->rule->past);
    const __m512i nan = _mm512_set1_epi8((char)f->rule->nan);

    const __m512i keep =
        f->rule->past == f->rule->signless ? _mm512_set1_epi8(-1) : f->magnitude;

    if (!saturate)
        codes = _mm512_mask_mov_epi8(codes, t->over,
                                     _mm512_ternarylogic_epi32(past, codes, keep, PICK));
    return _mm512_mask_mov_epi8(codes, t->nan, nan);
}

/* Zero where there is nothing to measure. */
INLINE void add_energies(const work *w, const trouble *t, four x, four values,
                         const factors *by, sums *e)
{
    const bool infinite = !w->job->how->saturate && w->f.rule->past != w->f.rule->largest;
    const uint64_t none = t->nonfinite | t->nan | (infinite ? t->over : 0);

#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        const __mmask16 finite = (__mmask16)(~t->nonfinite >> WIDTH * v);
        const __mmask16 both = (__mmask16)(~none >> WIDTH * v);

        add_signal(e, _mm512_maskz_mov_ps(finite, x.v[v]));
        add_error(e, _mm512_maskz_mov_ps(both, x.v[v]),
                  _mm512_maskz_mov_ps(both, values.v[v]), by->decode[v]);
    }
}

INLINE uint64_t count(uint64_t mask)
{
    return (uint64_t)__builtin_popcountll(mask);
}

/* Sums of a careful piece. */
typedef struct careful {
    uint64_t saturated, clipped, nonfinite, zeros;
    __m512i amax;
} careful;

/* NaN is left out. */
INLINE void raise_lanes(__m512i *most, four size, bool all_finite)
{
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        const __m512i bits = _mm512_castps_si512(size.v[v]);

        if (all_finite)
            *most = _mm512_max_epu32(*most, bits);
        else
            *most = _mm512_mask_max_epu32(
                *most, _mm512_cmple_epu32_mask(bits, _mm512_set1_epi32(INF)), *most, bits);
    }
}

INLINE void careful_step(work *w, mode m, size_t at, size_t n, careful *s)
{
    const shape *f = &w->f;
    const four from = load_at(w, m, at, n), size = sizes_of(from);
    const factors by = factors_at(w, m, at, n);
    const four y = scaled(m.divide, n, size, by.scale);
    const trouble t = look(f, from, y);
    four values;
    const __m512i c = mend(f, w->job->how->saturate, &t, codes_of(f, from, y, &values));
    const __m512i magnitude = _mm512_and_si512(c, f->magnitude);
    const __m512i most = _mm512_set1_epi8((char)f->rule->largest);

    s->saturated += count(t.over & ~t.nonfinite);
    s->clipped += count(t.clipped & ~t.nonfinite);
    s->nonfinite += count(t.nonfinite);
    s->zeros += count(_mm512_testn_epi8_mask(c, f->magnitude)) - (n < STEP ? STEP - n : 0);
    w->code_largest =
        _mm512_mask_max_epu8(w->code_largest, _mm512_cmple_epu8_mask(magnitude, most),
                             w->code_largest, magnitude);
    raise_lanes(&s->amax, size, t.nonfinite == 0);
    if (m.measured)
        add_energies(w, &t, size, values, &by, &w->energy);
    store(w->codes + at, c, n);
}

/* True if the piece after it is likely to have trouble too. */
INLINE bool careful_piece(work *w, mode m, size_t at, size_t n)
{
    plumb_counts *counts = w->job->counts;
    careful s = {.amax = _mm512_setzero_si512()};

    for (size_t i = 0; i < n; i += STEP) {
        prefetch(w, m, at + i);
        careful_step(w, m, at + i, n - i, &s);
    }
    const uint64_t zeros = s.zeros == 0 ? 0 : count_zeros(w, m, at, n);

    w->trouble = true;
    counts->saturated += s.saturated;
    counts->clipped += s.clipped;
    counts->nonfinite += s.nonfinite;
    counts->zero += zeros;
    counts->flushed += s.zeros - zeros;
    raise(&counts->amax, float_of(_mm512_reduce_max_epu32(s.amax)));
    return (s.clipped | s.nonfinite) != 0;
}

#endif
