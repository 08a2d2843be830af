/* Casts to the small formats by fused multiply-add, with counts and spectrum in the same pass.
 *
 * Counts are lazy and exact.  A piece of which all values are finite and in range, as one look at
 * its amax tells, has nothing to count but zeros; any other is done again by a slower step that
 * counts everything.  What this file does not do (other roundings, scales that are negative or
 * not finite) goes to the plain kernel.  A piece is what is looked at together; blocks are those
 * of the caller, each with a scale.
 */
#include "kernel/exponents.h"

enum {
    PIECE = 1024,
    AHEAD = 1536 /* bytes of prefetch */,
    AHEAD_OF_BLOCKS = 2048 /* elements */
};

/* What a loop is compiled for: a source of bf16, division, a spectrum, a scale for each block. */
typedef struct mode {
    bool half, divide, measured, blocks;
} mode;

typedef struct work {
    const plumb_encode_job *job;
    shape f;
    __m512 scale;
    __m512d decode;
    unsigned block_shift; /* a block has 2^block_shift elements */
    sums energy;
    float largest;        /* |product| of the pieces without trouble */
    __m512i code_largest; /* magnitudes of the codes of the others, */
    bool trouble;         /* if there were any */
} work;

/* --- pieces without trouble ----------------------------------------------------------- */

/* What a quick piece leaves: the largest magnitudes by lane, as bits, so that infinity is larger
 * than all numbers and NaN than infinity.
 */
typedef struct quick {
    __m512i amax[2], product[2]; /* of the source; of the products, where scales differ */
    uint64_t zeros, clipped;     /* clipped: where scales differ */
    sums energy;
} quick;

INLINE four load_at(const plumb_encode_job *job, mode m, size_t at, size_t n)
{
    return load(m.half, (const char *)job->x + at * (m.half ? 2 : 4), n);
}

/* Scales of the vectors of a step. */
typedef struct factors {
    four scale;
    __m512d decode[4];
} factors;

INLINE factors factors_at(const work *w, mode m, size_t at, size_t n)
{
    factors f;

#pragma GCC unroll 4
    for (size_t v = 0; v < 4; v++) {
        const size_t first = n > WIDTH * v ? at + WIDTH * v : at;
        const size_t block = first >> w->block_shift;

        f.scale.v[v] = m.blocks ? _mm512_set1_ps(w->job->scales[block]) : w->scale;
        f.decode[v] = m.blocks && m.measured
                          ? _mm512_set1_pd((double)w->job->decodes[block])
                          : w->decode;
    }
    return f;
}

/* n elements, or STEP of more, from number `at` of the job. */
INLINE void quick_step(const work *w, mode m, size_t at, size_t n, quick *q)
{
    const four from = load_at(w->job, m, at, n), size = sizes_of(from);
    const factors by = factors_at(w, m, at, n);
    const four y = scaled(m.divide, size, by.scale);
    four values;
    const __m512i c = codes_of(&w->f, from, y, &values);
    const uint64_t zeros = _mm512_testn_epi8_mask(c, w->f.magnitude);

#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        q->amax[v & 1] = _mm512_max_epu32(q->amax[v & 1], _mm512_castps_si512(size.v[v]));
        if (m.blocks) {
            const __m512i bits = _mm512_castps_si512(y.v[v]);

            q->product[v & 1] = _mm512_max_epu32(q->product[v & 1], bits);
            q->clipped +=
                (uint64_t)__builtin_popcount(_mm512_cmpgt_epu32_mask(bits, w->f.largest));
        }
        if (m.measured) {
            add_signal(&q->energy, size.v[v]);
            add_error(&q->energy, size.v[v], values.v[v], by.decode[v]);
        }
    }
    q->zeros += (uint64_t)__builtin_popcountll(zeros) - (n < STEP ? STEP - n : 0);
    store((uint8_t *)w->job->codes + at, c, n);
}

static uint64_t count_zeros(const plumb_encode_job *job, mode m, size_t at, size_t n)
{
    const __m512i magnitude = _mm512_set1_epi32(MAGNITUDE);
    uint64_t zeros = 0;

    for (size_t i = 0; i < n; i += STEP) {
        const four from = load_at(job, m, at + i, n - i);

        for (int v = 0; v < 4; v++)
            zeros += (uint64_t)__builtin_popcount(
                _mm512_testn_epi32_mask(_mm512_castps_si512(from.v[v]), magnitude));
    }
    return zeros - (0 - n) % STEP;
}

/* Of blocks, what the caller has looked at is in the cache, so the next of its lines is read. */
INLINE void prefetch(const plumb_encode_job *job, mode m, size_t at)
{
    const size_t each = m.half ? 2 : 4, ahead = m.blocks ? AHEAD_OF_BLOCKS * each : AHEAD;

    for (size_t i = 0; i < STEP * each; i += 64)
        _mm_prefetch((const char *)job->x + at * each + ahead + i, _MM_HINT_T0);
}

static void raise(float *maximum, float x)
{
    if (x > *maximum)
        *maximum = x;
}

INLINE uint32_t most(const __m512i v[2])
{
    return _mm512_reduce_max_epu32(_mm512_max_epu32(v[0], v[1]));
}

/* False, and nothing counted, if something is not in range. */
INLINE bool quick_piece(work *w, mode m, size_t at, size_t n)
{
    const float scale = w->job->how->scale;
    const size_t whole = n - n % STEP;
    plumb_counts *counts = w->job->counts;
    quick q = {.zeros = 0, .clipped = 0, .energy = w->energy};

    q.amax[0] = q.amax[1] = q.product[0] = q.product[1] = _mm512_setzero_si512();
    for (size_t i = 0; i < whole; i += STEP) {
        prefetch(w->job, m, at + i);
        quick_step(w, m, at + i, STEP, &q);
    }
    if (whole < n)
        quick_step(w, m, at + whole, n - whole, &q);
    const uint32_t largest = most(q.amax);
    const float amax = float_of(largest), quotient = m.divide ? amax / scale : amax * scale;
    const uint32_t product = m.blocks ? most(q.product) : bits_of(quotient);

    /* As bits, where infinity and NaN are larger than any number.  A block's own scale takes its
     * amax to the largest or, rounded up, a little past it.
     */
    if (product >= (m.blocks ? w->f.beyond_bits : w->f.largest_bits + 1))
        return false;
    const uint64_t zeros = q.zeros == 0 ? 0 : count_zeros(w->job, m, at, n);

    counts->zero += zeros;
    counts->flushed += q.zeros - zeros;
    counts->clipped += q.clipped;
    raise(&counts->amax, amax);
    raise(&w->largest, float_of(product));
    w->energy = q.energy;
    return true;
}

/* --- pieces with trouble --------------------------------------------------------------- */

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
    const four from = load_at(w->job, m, at, n), size = sizes_of(from);
    const factors by = factors_at(w, m, at, n);
    const four y = scaled(m.divide, size, by.scale);
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
    store((uint8_t *)w->job->codes + at, c, n);
}

/* True if the piece after it is likely to have trouble too. */
INLINE bool careful_piece(work *w, mode m, size_t at, size_t n)
{
    plumb_counts *counts = w->job->counts;
    careful s = {.amax = _mm512_setzero_si512()};

    for (size_t i = 0; i < n; i += STEP) {
        prefetch(w->job, m, at + i);
        careful_step(w, m, at + i, n - i, &s);
    }
    const uint64_t zeros = s.zeros == 0 ? 0 : count_zeros(w->job, m, at, n);

    w->trouble = true;
    counts->saturated += s.saturated;
    counts->clipped += s.clipped;
    counts->nonfinite += s.nonfinite;
    counts->zero += zeros;
    counts->flushed += s.zeros - zeros;
    raise(&counts->amax, float_of(_mm512_reduce_max_epu32(s.amax)));
    return (s.clipped | s.nonfinite) != 0;
}

/* --- calls ----------------------------------------------------------------------------- */

/* The largest value of a code: of the pieces without trouble, where rounding is monotone, that
 * of the largest product.
 */
static float code_amax(const work *w)
{
    const __m512 y = _mm512_castps128_ps512(_mm_set_ss(w->largest));
    uint8_t magnitudes[STEP], largest = 0;
    __m512 value;

    rounded(&w->f, y, &value);
    const float in_range = _mm512_cvtss_f32(value);

    if (!w->trouble)
        return in_range;
    _mm512_storeu_si512(magnitudes, w->code_largest);
    for (int i = 0; i < STEP; i++)
        largest = magnitudes[i] > largest ? magnitudes[i] : largest;
    const float of_others = plumb_format_value(w->job->how->format, largest);

    return in_range > of_others ? in_range : of_others;
}

INLINE double join_vectors(const __m512d lane[2])
{
    const __m512d eight = _mm512_add_pd(lane[0], lane[1]);
    const __m256d four_lanes =
        _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four_lanes),
                                   _mm256_extractf128_pd(four_lanes, 1));

    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

static void end_spectrum(const work *w, exponents *h, plumb_spectrum *spectrum)
{
    flush_exponents(h);
    spectrum->signal += join_vectors(w->energy.signal);
    spectrum->error += join_vectors(w->energy.error);
}

INLINE void run(const plumb_encode_job *job, mode m, double decode)
{
    work w = {.job = job,
              .f = shape_of(job->how->format),
              .scale = _mm512_set1_ps(job->how->scale),
              .decode = _mm512_set1_pd(decode),
              .code_largest = _mm512_setzero_si512()};
    exponents h;
    bool wary = false;

    if (m.blocks)
        w.block_shift = (unsigned)__builtin_ctzll(job->block);
    w.energy.signal[0] = w.energy.signal[1] = _mm512_setzero_pd();
    w.energy.error[0] = w.energy.error[1] = _mm512_setzero_pd();
    if (m.measured)
        start_exponents(&h, job->n, job->spectrum->exponent);
    for (size_t at = 0, n; at < job->n; at += n) {
        n = job->n - at < PIECE ? job->n - at : PIECE;
        if (wary || !quick_piece(&w, m, at, n))
            wary = careful_piece(&w, m, at, n);
        if (m.measured)
            count_exponents(&h, m.half, (const char *)job->x + at * (m.half ? 2 : 4), n);
    }
    if (m.measured)
        end_spectrum(&w, &h, job->spectrum);
    job->counts->total += job->n;
    raise(&job->counts->code_amax, code_amax(&w));
}

/* The constants make a loop of their own of each case. */
INLINE void run_blocks(const plumb_encode_job *job, mode m, double decode)
{
    if (job->block != 0) {
        m.blocks = true;
        run(job, m, decode);
    } else {
        m.blocks = false;
        run(job, m, decode);
    }
}

INLINE void run_source(const plumb_encode_job *job, mode m, double decode)
{
    if (job->how->divide) {
        m.divide = true;
        run_blocks(job, m, decode);
    } else {
        m.divide = false;
        run_blocks(job, m, decode);
    }
}

static void run_plain(const plumb_encode_job *job)
{
    if (job->how->format == PLUMB_E4M3)
        plumb_encode_e4m3_avx512(job);
    else if (job->how->format == PLUMB_E5M2)
        plumb_encode_e5m2_avx512(job);
    else
        plumb_encode_signed8_avx512(job);
}

/* Finite and with no sign; for a division not zero either. */
static bool usual_scales(const plumb_cast *how, const float *scales, size_t n)
{
    uint32_t most = 0, least = INF;

    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = bits_of(scales[i]);

        most = bits > most ? bits : most;
        least = bits < least ? bits : least;
    }
    return most < INF && !(how->divide && least == 0);
}

static bool finite(const float *x, size_t n)
{
    uint32_t most = 0;

    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = bits_of(x[i]) & MAGNITUDE;

        most = bits > most ? bits : most;
    }
    return most < INF;
}

static bool usual_blocks(const plumb_encode_job *job)
{
    const size_t blocks = (job->n + job->block - 1) / job->block;

    return (job->block & (job->block - 1)) == 0 &&
           usual_scales(job->how, job->scales, blocks) &&
           (job->spectrum == NULL || finite(job->decodes, blocks));
}

void plumb_encode_fused_avx512(const plumb_encode_job *job)
{
    const plumb_cast *how = job->how;
    const float own = how->divide ? how->scale : 1.0f / how->scale;
    const float decode = how->decode != 0 ? how->decode : own;
    const bool measured = job->spectrum != NULL;
    const bool usual = job->block != 0 ? usual_blocks(job)
                                       : usual_scales(how, &how->scale, 1) &&
                                             (!measured || finite(&decode, 1));

    if (!usual || how->rounding != PLUMB_ROUND_NEAREST_EVEN)
        run_plain(job);
    else if (job->source != PLUMB_FP32 && measured)
        run_source(job, (mode){.half = true, .measured = true}, (double)decode);
    else if (job->source != PLUMB_FP32)
        run_source(job, (mode){.half = true}, 0);
    else if (measured)
        run_source(job, (mode){.measured = true}, (double)decode);
    else
        run_source(job, (mode){.half = false}, 0);
}
