/* plumb/cast.h - fp32 values to the codes of a format and back, counting on the way.
 *
 * Pure functions of their arguments; call from anywhere.  They keep no state,
 * allocate nothing and start no threads.  Integer arithmetic decides every
 * rounding, so the results do not depend on the host's rounding or
 * flush-to-zero modes; only the multiplication by the scale is floating point and
 * expects round-to-nearest with subnormals (the default).  Every variant (baseline,
 * AVX2, AVX-512) gives the same bytes and the same counts.
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
    uint64_t total;     /* elements */
    uint64_t saturated; /* finite, but past the largest finite value after rounding
                           (whatever became of them: largest, infinity or NaN) */
    uint64_t flushed;   /* not zero, but rounded to zero */
    uint64_t zero;      /* zero in the source (so never counted as flushed) */
    uint64_t nonfinite; /* infinity or NaN in the source, before the scale */
    float amax;         /* largest |x| before the scale; NaN is ignored, infinity is not
                           (TransformerEngine's rule; see recipes 1.3) */
    float code_amax; /* largest finite |value| of the codes stored, before decoding scale */
} plumb_counts;

/* counts_into += counts (amax and code_amax: maximum). */
void plumb_counts_add(plumb_counts *into, const plumb_counts *counts);

/* How to cast. */
typedef struct plumb_cast {
    plumb_format format;
    bool saturate; /* past the largest finite value: to it; else infinity (NaN for E4M3,
                      which has none).  Infinities in the source likewise. */
    bool divide;   /* x / scale instead of x * scale */
    float scale;   /* must be 1 for bf16 and fp32 */
} plumb_cast;

/* codes[i] = round(x[i] * scale) to nearest, ties to even, subnormals kept.
 *
 * Two roundings by contract: the product to fp32, then to the format.  codes holds
 * n elements of uint8_t (E4M3, E5M2), uint16_t (bf16) or float (fp32), and must not
 * overlap x.  NaN gives 0x7F (E4M3), 0x7F (E5M2), 0x7FC0, 0x7FC00000: one pattern.
 * -0 stays -0.  counts may be NULL.  Any scale is allowed for the 8-bit formats: a run
 * that fails may come to zero, infinity or NaN.  A product that is NaN becomes the NaN code
 * and is counted as zero or nonfinite if its source was, else nowhere but in total.
 *
 * PLUMB_BAD_FORMAT if format is out of range, PLUMB_BAD_ARGUMENT if scale is not
 * allowed; nothing is written then.
 */
plumb_status plumb_cast_encode(const plumb_cast *how, const float *x, size_t n, void *codes,
                               plumb_counts *counts);

/* x[i] = value of codes[i] * scale (one fp32 rounding; exact when scale is 1). */
plumb_status plumb_cast_decode(plumb_format format, float scale, const void *codes,
                               size_t n, float *x);

/* Largest |x[i]|, ignoring NaN; infinity if there is one; 0 for n = 0. */
float plumb_cast_amax(const float *x, size_t n);

#ifdef __cplusplus
}
#endif
#endif
