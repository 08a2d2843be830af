/* Casts to the small formats by fused multiply-add, with counts and spectrum in the same pass.
 *
 * Counts are lazy and exact.  A piece of which all values are finite and in range, as one look at
 * its amax tells, has nothing to count but zeros; any other is done again by a slower step that
 * counts everything.  Where a caller knows the amax of each block, that look comes first, and no
 * step need look for the largest.  What this file does not do (other roundings, scales that are negative or
 * not finite) goes to the plain kernel.  A piece is what is looked at together; blocks are those
 * of the caller, each with a scale.
 */
#include "kernel/exponents.h"
#include "kernel/fused_careful.h"

#include "base/size.h"

/* --- pieces without trouble ----------------------------------------------------------- */

/* What a quick piece leaves: the largest magnitudes by lane, as bits, so that infinity is larger
 * than all numbers and NaN than infinity.
 */
typedef struct quick {
    __m512i amax[2];         /* of the source, where there is one scale */
    uint64_t zeros, clipped; /* clipped: if looked for */
    sums energy;
} quick;

/* n elements, or STEP of more, from number `at` of the row. */
INLINE void quick_step(const work *w, mode m, size_t at, size_t n, quick *q)
{
    const four from = load_at(w, m, at, n);
    const factors by = factors_at(w, m, at, n);
    const four y = scaled(m.divide, n, from, by.scale);
    four values;
    const __m512i c = codes_in_range(&w->f, y, &values);
    const uint64_t zeros = _mm512_testn_epi8_mask(c, w->f.magnitude);

#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        if (m.scales == ONE)
            q->amax[v & 1] = _mm512_max_epu32(
                q->amax[v & 1], _mm512_castps_si512(_mm512_abs_ps(from.v[v])));
        if (m.measured) {
            add_signal(&q->energy, from.v[v]);
            add_error(&q->energy, from.v[v], values.v[v], by.decode[v]);
        }
    }
    if (m.scales != ONE && w->clipping)
        q->clipped += above_largest_of(w, sizes_of(y));
    q->zeros += (uint64_t)__builtin_popcountll(zeros) - (n < STEP ? STEP - n : 0);
    store(w->codes + at, c, n);
}

/* True if the magnitudes of a piece are finite and in range; they are counted then. */
INLINE bool take_range(work *w, mode m, const quick *q)
{
    const float scale = w->job->how->scale;
    const uint32_t largest =
        _mm512_reduce_max_epu32(_mm512_max_epu32(q->amax[0], q->amax[1]));
    const float amax = float_of(largest), product = m.divide ? amax / scale : amax * scale;

    /* As bits, where infinity and NaN are larger than any number. */
    if (bits_of(product) > w->f.largest_bits)
        return false;
    raise(&w->job->counts->amax, amax);
    raise(&w->largest, product);
    return true;
}

/* False, and nothing counted, if something is not in range. */
INLINE bool quick_piece(work *w, mode m, size_t at, size_t n)
{
    const size_t whole = n - n % STEP;
    plumb_counts *counts = w->job->counts;
    quick q = {.zeros = 0, .clipped = 0, .energy = w->energy};

    q.amax[0] = q.amax[1] = _mm512_setzero_si512();
    for (size_t i = 0; i < whole; i += STEP) {
        prefetch(w, m, at + i);
        quick_step(w, m, at + i, STEP, &q);
    }
    if (whole < n)
        quick_step(w, m, at + whole, n - whole, &q);
    if (m.scales == ONE && !take_range(w, m, &q))
        return false;
    const uint64_t zeros = q.zeros == 0 ? 0 : count_zeros(w, m, at, n);

    counts->zero += zeros;
    counts->flushed += q.zeros - zeros;
    counts->clipped += q.clipped;
    w->energy = q.energy;
    return true;
}

/* --- blocks whose amax is known ---------------------------------------------------------- */

/* Of all rows of a block. */
static uint64_t clipped_in(const work *w, mode m, size_t block)
{
    const plumb_encode_job *job = w->job;
    const size_t each = m.half ? 2 : 4, first = block << w->block_shift;
    const size_t end = smaller(first + job->block, job->n);
    work row = *w;
    uint64_t clipped = 0;

    for (size_t r = 0; r == 0 || r < job->rows; r++, row.x += job->ld * each) {
        for (size_t at = first; at < end; at += STEP) {
            const size_t n = end - at;
            const four by = factors_at(w, m, at, n).scale;

            clipped += above_largest_of(
                w, scaled(m.divide, n, sizes_of(load_at(&row, m, at, n)), by));
        }
    }
    return clipped;
}

/* True if all products are in range, of which the blocks tell: a scale of its own takes an amax to
 * the largest or, rounded up, a little past it.  What is clipped so is counted here if it is in few
 * blocks.
 */
INLINE bool in_range(work *w, mode m)
{
    const plumb_encode_job *job = w->job;
    const size_t blocks = (job->n + job->block - 1) >> w->block_shift;
    __m512i amax = _mm512_setzero_si512(), most = amax;
    size_t clipped = 0;

    if (job->amax == NULL)
        return false;
    for (size_t b = 0; b < blocks; b += WIDTH) {
        const __mmask16 mask = (__mmask16)first_of(smaller(blocks - b, WIDTH));
        const __m512 a = _mm512_maskz_loadu_ps(mask, job->amax + b);
        const __m512 s = _mm512_mask_loadu_ps(_mm512_set1_ps(1), mask, job->scales + b);
        const __m512 product = m.divide ? _mm512_div_ps(a, s) : _mm512_mul_ps(a, s);

        amax = _mm512_max_epu32(amax, _mm512_castps_si512(a));
        most = _mm512_max_epu32(most, _mm512_castps_si512(product));
        clipped += above_largest(w, product);
    }
    const uint32_t largest = _mm512_reduce_max_epu32(most);

    if (largest >= w->f.beyond_bits)
        return false;
    raise(&job->counts->amax, float_of(_mm512_reduce_max_epu32(amax)));
    raise(&w->largest, float_of(largest));
    w->clipping = clipped > 0 && (m.scales == COLUMNS || clipped > blocks / FEW);
    for (size_t b = 0; !w->clipping && clipped > 0 && b < blocks; b++) {
        const float s = job->scales[b],
                    product = m.divide ? job->amax[b] / s : job->amax[b] * s;

        if (bits_of(product) > w->f.largest_bits)
            job->counts->clipped += clipped_in(w, m, b);
    }
    return true;
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

/* One row. */
INLINE void run_row(work *w, mode m, exponents *h)
{
    const size_t all = w->job->n;
    bool wary = !m.known && m.scales != ONE;

    for (size_t at = 0, n; at < all; at += n) {
        n = smaller(all - at, PIECE);
        if (wary || !quick_piece(w, m, at, n))
            wary = careful_piece(w, m, at, n) || m.scales != ONE;
        if (m.measured)
            count_exponents(h, m.half, w->x + at * (m.half ? 2 : 4), n);
    }
}

INLINE void run_rows(work *w, mode m, exponents *h)
{
    const plumb_encode_job *job = w->job;
    const size_t rows = job->rows > 1 ? job->rows : 1;

    for (size_t row = 0; row < rows; row++) {
        run_row(w, m, h);
        w->x += job->ld * (m.half ? 2 : 4);
        w->codes += job->code_ld;
    }
    job->counts->total += rows * job->n;
}

INLINE void run(const plumb_encode_job *job, mode m, double decode)
{
    work w = {.job = job,
              .x = job->x,
              .codes = job->codes,
              .f = shape_of(job->how->format),
              .scale = _mm512_set1_ps(job->how->scale),
              .decode = _mm512_set1_pd(decode),
              .code_largest = _mm512_setzero_si512()};
    exponents h;

    if (m.scales != ONE)
        w.block_shift = (unsigned)__builtin_ctzll(job->block);
    w.energy.signal[0] = w.energy.signal[1] = _mm512_setzero_pd();
    w.energy.error[0] = w.energy.error[1] = _mm512_setzero_pd();
    if (m.measured)
        start_exponents(&h, job, job->spectrum->exponent);
    m.known = m.scales != ONE && in_range(&w, m);
    if (m.known) {
        m.known = true;
        run_rows(&w, m, &h);
    } else {
        m.known = false;
        run_rows(&w, m, &h);
    }
    if (m.measured)
        end_spectrum(&w, &h, job->spectrum);
    raise(&job->counts->code_amax, code_amax(&w));
}

/* The constants make a loop of their own of each case. */
INLINE void run_blocks(const plumb_encode_job *job, mode m, double decode)
{
    if (job->block == 0) {
        m.scales = ONE;
        run(job, m, decode);
    } else if (job->block == 1) {
        m.scales = COLUMNS;
        run(job, m, decode);
    } else {
        m.scales = BLOCKS;
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
