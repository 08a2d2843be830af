/* The casts as plain loops: the definition, compiled once for each instruction set.
 *
 * All sums of the loops are local, so that the compiler turns each into vector code; integer
 * sums and maxima do not depend on the order in which it takes them.
 */
#include "kernel/body.h"
#include "kernel/cast.h"
#include "kernel/decode_body.h"
#include "kernel/encode_one.h"
#include "kernel/philox.h"
#include "kernel/spectrum_body.h"

#include "base/size.h"

enum {
    PIECE = 1 << 20, /* elements counted in 32 bits before they are added to the 64 */
};

/* One loop.  addend is read for stochastic rounding only; wide formats have no scale; scales is
 * NULL where all elements have that of *how.
 */
INLINE tally piece(const rule r, plumb_rounding rounding, int bytes, bool divide,
                   const plumb_cast *how, const float *restrict scales,
                   const float *restrict x, const uint32_t *restrict addend, size_t n,
                   void *restrict codes)
{
    const float one = how->scale;
    const bool dithered = rounding == PLUMB_ROUND_STOCHASTIC;
    const ends given = {how->saturate ? r.largest : r.past, how->saturate ? 0 : r.nan};
    uint8_t *restrict to8 = codes;
    uint16_t *restrict to16 = codes;
    uint32_t *restrict to32 = codes;
    tally t = {0};

    for (size_t i = 0; i < n; i++) {
        const float scale = scales == NULL ? one : scales[i];
        const float product = bytes > 1 ? x[i] : divide ? x[i] / scale : x[i] * scale;
        const uint32_t code =
            encode_one(r, rounding, given, x[i], product, dithered ? addend[i] : 0, &t);

        if (bytes == 1)
            to8[i] = (uint8_t)code;
        else if (bytes == 2)
            to16[i] = (uint16_t)code;
        else
            to32[i] = code << r.place;
    }
    return t;
}

static void add_tally(plumb_counts *counts, const rule r, plumb_format format, size_t n,
                      tally t)
{
    const float amax = float_of(t.amax);
    const uint32_t none = r.has_zero ? 0 : 1; /* of its codes was a number */

    counts->total += n;
    counts->saturated += t.saturated;
    counts->clipped += t.clipped;
    counts->flushed += t.flushed;
    counts->zero += t.zero;
    counts->nonfinite += t.nonfinite;
    if (amax > counts->amax)
        counts->amax = amax;
    if (t.code_amax < none)
        return;
    const float code_amax = plumb_format_value(format, (t.code_amax - none) << r.place);

    if (code_amax > counts->code_amax)
        counts->code_amax = code_amax;
}

static void widen(const uint16_t *restrict x, size_t n, float *restrict wide)
{
    for (size_t i = 0; i < n; i++)
        wide[i] = float_of((uint32_t)x[i] << 16);
}

/* Random words of one block of the loop, in the order of the elements, with room for the
 * start and the end of the Philox blocks that it cuts.
 */
enum { DRAWS = BLOCK / 4 + 1 };
typedef struct dither {
    uint32_t words[4 * DRAWS];
} dither;

/* What a word w adds to the 32 bits of a distance f, so that a carry rounds up: ~w > 2^32 - f;
 * or its 8 high bits; or these and a half.
 */
INLINE uint32_t addend_of(plumb_dither kind, uint32_t w)
{
    if (kind == PLUMB_DITHER_32)
        return ~w;
    return (w & 0xff000000u) | (kind == PLUMB_DITHER_8_CENTRED ? 0x00800000u : 0);
}

INLINE void draw(const plumb_cast *how, plumb_dither kind, uint64_t index, dither *d)
{
    for (uint64_t i = 0; i < DRAWS; i++) {
        const philox_block b = philox(how->seed, how->stream, index + i);

        for (size_t j = 0; j < 4; j++)
            d->words[4 * i + j] = addend_of(kind, b.word[j]);
    }
}

/* The addend of element `at` and of those behind it. */
static const uint32_t *addends(const plumb_cast *how, uint64_t at, dither *d)
{
    if (how->dither == PLUMB_DITHER_32)
        draw(how, PLUMB_DITHER_32, at / 4, d);
    else if (how->dither == PLUMB_DITHER_8)
        draw(how, PLUMB_DITHER_8, at / 4, d);
    else
        draw(how, PLUMB_DITHER_8_CENTRED, at / 4, d);
    return d->words + at % 4;
}

/* The values for elements at, at + 1, ... of what is given for blocks. */
INLINE void spread(const float *of_blocks, size_t block, size_t at, size_t n, float *each)
{
    if (block == 1) {
        memcpy(each, of_blocks + at, n * sizeof *each);
        return;
    }
    for (size_t i = 0, m; i < n; i += m) {
        const float value = of_blocks[(at + i) / block];

        m = smaller(block - (at + i) % block, n - i);
        for (size_t l = 0; l < m; l++)
            each[i + l] = value;
    }
}

/* Piece by piece: long ones where x can be read as it is, else blocks that stay in the cache
 * between the steps.
 */
INLINE void run_row(const rule r, plumb_rounding rounding, int bytes,
                    const plumb_encode_job *j, size_t row, energy *e)
{
    const bool dithered = rounding == PLUMB_ROUND_STOCHASTIC;
    const bool wide = j->source == PLUMB_FP32, divide = bytes == 1 && j->how->divide;
    const bool varied = bytes == 1 && j->block != 0;
    const size_t most = wide && !dithered && j->spectrum == NULL && !varied ? PIECE : BLOCK;
    const uint32_t *addend = NULL;
    float widened[BLOCK], scales[BLOCK];
    dither d;

    for (size_t at = 0, m; at < j->n; at += m) {
        const size_t from = row * j->ld + at, to = row * j->code_ld + at;
        const float *x = wide ? (const float *)j->x + from : widened;
        unsigned char *codes = (unsigned char *)j->codes + to * (size_t)bytes;

        m = smaller(most, j->n - at);
        if (varied)
            spread(j->scales, j->block, at, m, scales);
        if (j->spectrum != NULL && j->block != 0)
            spread(j->decodes, j->block, at, m, e->decode);
        if (!wide)
            widen((const uint16_t *)j->x + from, m, widened);
        if (dithered)
            addend = addends(j->how, j->how->first + to, &d);
        const tally t =
            divide && varied
                ? piece(r, rounding, bytes, true, j->how, scales, x, addend, m, codes)
            : divide ? piece(r, rounding, bytes, true, j->how, NULL, x, addend, m, codes)
            : varied ? piece(r, rounding, bytes, false, j->how, scales, x, addend, m, codes)
                     : piece(r, rounding, bytes, false, j->how, NULL, x, addend, m, codes);

        add_tally(j->counts, r, j->how->format, m, t);
        if (j->spectrum != NULL)
            measure(j->how->format, x, codes, m, e, j->spectrum);
    }
}

INLINE void run(const rule r, plumb_rounding rounding, int bytes, const plumb_encode_job *j)
{
    energy e;

    if (j->spectrum != NULL)
        energy_start(j->how, &e);
    for (size_t row = 0; row == 0 || row < j->rows; row++)
        run_row(r, rounding, bytes, j, row, &e);
    if (j->spectrum != NULL)
        energy_end(&e, j->spectrum);
}

INLINE void run_rounding(const rule r, int bytes, const plumb_encode_job *j)
{
    if (j->how->rounding == PLUMB_ROUND_NEAREST_EVEN)
        run(r, PLUMB_ROUND_NEAREST_EVEN, bytes, j);
    else if (j->how->rounding == PLUMB_ROUND_TOWARD_ZERO)
        run(r, PLUMB_ROUND_TOWARD_ZERO, bytes, j);
    else
        run(r, PLUMB_ROUND_STOCHASTIC, bytes, j);
}

/* A rule read at run time, of a format with sign and zero. */
INLINE rule signed_rule(plumb_format format)
{
    rule r = rules[format];

    r.has_sign = r.has_zero = true;
    r.is_fp32 = false;
    return r;
}

void ENTRY(plumb_encode_signed8_)(const plumb_encode_job *job)
{
    run_rounding(signed_rule(job->how->format), 1, job);
}

/* bf16 and fp16 */
static void signed16(const plumb_encode_job *job)
{
    run_rounding(signed_rule(job->how->format), 2, job);
}

#define ENCODE_NEAREST(name, NAME, bytes, others)                                          \
    void ENTRY(plumb_encode_##name##_)(const plumb_encode_job *job)                        \
    {                                                                                      \
        if (job->how->rounding == PLUMB_ROUND_NEAREST_EVEN)                                \
            run(rules[PLUMB_##NAME], PLUMB_ROUND_NEAREST_EVEN, bytes, job);                \
        else                                                                               \
            others(job);                                                                   \
    }

ENCODE_NEAREST(e4m3, E4M3, 1, ENTRY(plumb_encode_signed8_))
ENCODE_NEAREST(e5m2, E5M2, 1, ENTRY(plumb_encode_signed8_))
ENCODE_NEAREST(bf16, BF16, 2, signed16)
ENCODE_NEAREST(fp16, FP16, 2, signed16)

void ENTRY(plumb_encode_tf32_)(const plumb_encode_job *job)
{
    run_rounding(rules[PLUMB_TF32], 4, job);
}

/* Nothing is dropped, so every rounding is the one that needs no shift. */
void ENTRY(plumb_encode_fp32_)(const plumb_encode_job *job)
{
    run(rules[PLUMB_FP32], PLUMB_ROUND_TOWARD_ZERO, 4, job);
}

void ENTRY(plumb_encode_e8m0_)(const plumb_encode_job *job)
{
    run_rounding(rules[PLUMB_E8M0], 1, job);
}

void ENTRY(plumb_encode_ue4m3_)(const plumb_encode_job *job)
{
    run_rounding(rules[PLUMB_UE4M3], 1, job);
}

float ENTRY(plumb_amax_)(const float *x, size_t n)
{
    uint32_t amax = 0;

    for (size_t i = 0; i < n; i++)
        amax = larger(amax, below(bits_of(x[i]) & MAGNITUDE, INF));
    return float_of(amax);
}

float ENTRY(plumb_amax_bf16_)(const uint16_t *x, size_t n)
{
    uint32_t amax = 0;

    for (size_t i = 0; i < n; i++)
        amax = larger(amax, below(x[i] & 0x7fffu, INF >> 16));
    return float_of(amax << 16);
}

/* Magnitudes, and whether all of them are numbers. */
INLINE bool fold_row(const float *restrict x, size_t n, float *restrict amax)
{
    uint32_t worst = 0;

    for (size_t i = 0; i < n; i++) {
        const uint32_t magnitude = bits_of(x[i]) & MAGNITUDE;

        worst = larger(worst, magnitude);
        amax[i] = float_of(larger(bits_of(amax[i]), below(magnitude, INF)));
    }
    return !above(worst, INF);
}

/* A piece of a row into the blocks that begin with it. */
INLINE bool fold_piece(const float *x, size_t n, size_t block, float *amax)
{
    uint32_t most = bits_of(*amax), worst = 0;

    if (block == 1)
        return fold_row(x, n, amax);
    for (size_t i = 0; i < n; i++) {
        const uint32_t magnitude = bits_of(x[i]) & MAGNITUDE;

        worst = larger(worst, magnitude);
        most = larger(most, below(magnitude, INF));
    }
    *amax = float_of(most);
    return !above(worst, INF);
}

bool ENTRY(plumb_amax_blocks_)(plumb_format source, const void *x, size_t rows, size_t ld,
                               size_t n, size_t block, float *amax)
{
    float widened[BLOCK];
    bool numbers = true;

    for (size_t at = 0; at < n; at += block)
        amax[at / block] = 0;
    for (size_t row = 0; row < rows; row++) {
        for (size_t at = 0, m; at < n; at += m) {
            const size_t left = block == 1 ? n - at : smaller(block - at % block, n - at);
            const float *from = (const float *)x + row * ld + at;

            m = smaller(left, BLOCK);
            if (source != PLUMB_FP32) {
                widen((const uint16_t *)x + row * ld + at, m, widened);
                from = widened;
            }
            numbers &= fold_piece(from, m, block, amax + at / block);
        }
    }
    return numbers;
}
