/* plumb/cast.h - fp32 values to the codes of a format and back, counting on the way.
 *
 * Pure functions of their arguments; call from anywhere.  They keep no state,
 * allocate nothing and start no threads.  Integer arithmetic decides every
 * rounding, so the results do not depend on the host's rounding or
 * flush-to-zero modes; only the multiplication by the scale is floating point and
 * expects round-to-nearest with subnormals (the default).  Every variant (baseline,
 * AVX2, AVX-512) gives the same bytes, the same counts and the same energies.
 */
#ifndef PLUMB_CAST_H
#define PLUMB_CAST_H

#include "plumb/format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a cast did to the values.  Fields are added to (amax: maximum), never reset,
 * so one block can follow a tensor over many calls.  Zero it before first use.
 */
typedef struct plumb_counts {
    uint64_t total; /* elements */

    /* Finite, but past the largest finite value after rounding, or below what a format
     * without sign has; whatever became of them: largest, infinity or NaN.  A zero in the
     * source is never counted here (e8m0).
     */
    uint64_t saturated;

    /* Finite, and |x * scale| above the largest finite value before rounding, or below as
     * above: clipped by the scale.  (E4M3: above 448; up to 464 they round back and are not
     * saturated.)
     */
    uint64_t clipped;

    uint64_t flushed;   /* not zero, but rounded to zero; never of e8m0, never saturated */
    uint64_t zero;      /* zero in the source (so never counted as flushed) */
    uint64_t nonfinite; /* infinity or NaN in the source, before the scale */
    float amax;         /* largest |x| before the scale; NaN is ignored, infinity is not
                           (TransformerEngine's rule) */
    float code_amax; /* largest finite |value| of the codes stored, before decoding scale */
} plumb_counts;

/* counts_into += counts (amax and code_amax: maximum). */
void plumb_counts_add(plumb_counts *into, const plumb_counts *counts);

/* Where the values of a source lie and what the cast cost, in the same pass.  Added to, never
 * reset, like plumb_counts; the energies are fp64 sums in a fixed order within a call (element
 * i in lane i mod 16, joined as in plumb/reduce.h) and in the order of the calls.
 */
typedef struct plumb_spectrum {
    /* Elements by exponent field of the fp32 source: [e] holds 2^(e-127) <= |x| < 2^(e-126),
     * [0] zeros and subnormals, [255] infinities and NaNs.
     */
    uint64_t exponent[256];

    double signal; /* sum of x^2 over finite x */

    /* Sum of (x - value(code) * decode)^2 where all three are finite: the product exact, the
     * difference and its square in fp64.
     */
    double error;
} plumb_spectrum;

/* into += spectrum. */
void plumb_spectrum_add(plumb_spectrum *into, const plumb_spectrum *spectrum);

typedef enum plumb_rounding {
    PLUMB_ROUND_NEAREST_EVEN = 0,
    PLUMB_ROUND_TOWARD_ZERO,
    PLUMB_ROUND_STOCHASTIC, /* up with the probability of the distance; see plumb_dither */
} plumb_rounding;

/* How many random bits decide a stochastic rounding.  f is the distance from the neighbour
 * nearer to zero in steps, r an integer of that many bits: the element's word of Philox, or its
 * high byte.
 */
typedef enum plumb_dither {
    /* Up if r < floor(f 2^32): probability f, short by less than 2^-32. */
    PLUMB_DITHER_32 = 0,

    /* Up if f + r/256 >= 1: TransformerEngine's emulation of e2m1 (stochastic_round_fp4_e2m1).
     * Probability floor(256 f)/256: toward zero by 1/512 step on average.
     */
    PLUMB_DITHER_8,

    /* Up if f + (r + 1/2)/256 >= 1: the same bits without that bias. */
    PLUMB_DITHER_8_CENTRED,
} plumb_dither;

/* How to cast.  Fields after `scale` may be left zero. */
typedef struct plumb_cast {
    plumb_format format;

    /* Past the largest finite value: to it; else to infinity, or NaN where the format has none,
     * or the largest where it has neither.  Infinities in the source likewise.
     */
    bool saturate;

    bool divide; /* x / scale instead of x * scale */
    float scale; /* must be 1 for fp32, tf32, bf16 and fp16 */

    /* What a code will be multiplied with, for plumb_spectrum.error alone.  0 stands for
     * 1 / scale, divided in fp32 (with divide: for scale).
     */
    float decode;

    plumb_rounding rounding;

    /* Of a stochastic rounding: how, and with which bits.  Seed and stream are those of
     * plumb/random.h; a stream names site and step (plumb_random_stream_at).  Element i uses
     * word (first + i) mod 4 of block (first + i) / 4, so pieces of a tensor get the bits of
     * the whole.
     */
    plumb_dither dither;
    uint64_t seed, stream;
    uint64_t first;
} plumb_cast;

/* codes[i] = round(x[i] * scale), subnormals kept.
 *
 * Two roundings by contract: the product to fp32 (nearest), then to the format as `rounding`
 * says.  codes holds n elements of format_info.bytes each, and must not overlap x; both may be
 * NULL if n is 0.  A tf32 code
 * is stored as the fp32 of the same value.  counts may be NULL.  Any scale is allowed for the
 * formats of at most 8 bits: a run that fails may come to zero, infinity or NaN.  A product that
 * is NaN becomes the NaN code and is counted as zero or nonfinite if its source was, else nowhere
 * but in total.
 *
 * NaN becomes the format's nan_code, one pattern without sign, or, where the format has none
 * (e3m2, e2m3, e2m1), +largest (NVIDIA cvt...satfinite).  Nothing else does, but what is out of
 * range of a format with NaN and without infinity.  -0 stays -0 where the format has it; the
 * fnuz formats have +0 alone, and every negative value that rounds to zero becomes it.
 *
 * The order is: round as if exponents had no end, then look whether the result is in range.
 * So E4M3 takes up to 464 (a tie) for 448, and a stochastic rounding of 460 comes out as 448, or
 * with probability 3/8 as what is past it.  What is at most `largest` never exceeds it.  Toward
 * zero, no finite value leaves the range: it becomes the largest whatever saturate says, which
 * only infinities obey (a product that overflows fp32 is one).
 *
 * Formats without sign: below their least value lies everything negative that does not round
 * to zero, and for e8m0, which has no zero, also zero.  It becomes code 0 with saturate and
 * toward zero, else NaN.  Positive values below 2^-127 become code 0 of e8m0, which is 2^-127.
 * The ties of e8m0 are at 1.5 times a power of two and go to the even code.  (Block scales have
 * rules of their own: plumb_mx_scale.)
 *
 * PLUMB_BAD_FORMAT if format is out of range, PLUMB_BAD_ARGUMENT if scale, rounding or dither
 * is not allowed; nothing is written then.
 */
plumb_status plumb_cast_encode(const plumb_cast *how, const float *x, size_t n, void *codes,
                               plumb_counts *counts);

/* The same from a source of fp32 (float) or bf16 (uint16_t), and with the spectrum of what
 * was read; counts and spectrum may be NULL.  PLUMB_BAD_FORMAT for other sources.
 */
plumb_status plumb_cast_encode_measured(const plumb_cast *how, plumb_format source,
                                        const void *x, size_t n, void *codes,
                                        plumb_counts *counts, plumb_spectrum *spectrum);

/* x[i] = value of codes[i] * scale (one fp32 rounding; exact when scale is 1), the value being
 * that of plumb_format_value; every NaN is 0x7FC00000.  codes and x may be NULL if n is 0 and
 * must not overlap.  PLUMB_BAD_FORMAT if format is out of range; x is untouched then.
 */
plumb_status plumb_cast_decode(plumb_format format, float scale, const void *codes,
                               size_t n, float *x);

/* Largest |x[i]|, ignoring NaN; infinity if there is one; 0 for n = 0. */
float plumb_cast_amax(const float *x, size_t n);
float plumb_cast_amax_bf16(const uint16_t *x, size_t n);

#ifdef __cplusplus
}
#endif
#endif
