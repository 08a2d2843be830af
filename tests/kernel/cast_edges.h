/* cast_edges.h - the edges of every format, each with the rule that it shows.
 *
 * Worked out by hand from the specifications: OFP8 1.0, MX 1.0, IEEE 754, PTX for the formats
 * without NaN, arXiv 2206.02915 for fnuz; plumb/cast.h where they say nothing.  The vectors of
 * NVIDIA's and of other libraries' casts that are published are among them.
 */
#ifndef CAST_EDGES_H
#define CAST_EDGES_H

#include "plumb/cast.h"

#include <float.h>
#include <math.h>

/* What the counts say of one value.  Saturated is clipped too; `low` is saturated, below the least
 * value of a format without sign.
 */
enum fate { PLAIN = 0, CLIPPED, SATURATED, LOW, FLUSHED, ZERO, NONFINITE };

typedef struct edge {
    plumb_format format;
    const char *rule;
    double x; /* a float */

    /* Codes: to nearest, saturating and not; toward zero, saturating and not. */
    uint32_t nearest, nearest_open, zero, zero_open;
    enum fate fate, zero_fate;
} edge;

#define INF_  ((double)INFINITY)
#define NAN_  ((double)NAN)
#define MOST_ ((double)FLT_MAX)

/* clang-format off */
static const edge edges[] = {
    {PLUMB_E4M3, "the largest", 448, 0x7e, 0x7e, 0x7e, 0x7e, PLAIN, PLAIN},
    {PLUMB_E4M3, "above 448, back to it", 0x1.c00002p8, 0x7e, 0x7e, 0x7e, 0x7e, CLIPPED, CLIPPED},
    {PLUMB_E4M3, "464, a tie with the absent 480: 448 is even", 464, 0x7e, 0x7e, 0x7e, 0x7e, CLIPPED, CLIPPED},
    {PLUMB_E4M3, "past 464", 0x1.d00002p8, 0x7e, 0x7f, 0x7e, 0x7e, SATURATED, CLIPPED},
    {PLUMB_E4M3, "past -464: the NaN has no sign", -0x1.d00002p8, 0xfe, 0x7f, 0xfe, 0xfe, SATURATED, CLIPPED},
    {PLUMB_E4M3, "465", 465, 0x7e, 0x7f, 0x7e, 0x7e, SATURATED, CLIPPED},
    {PLUMB_E4M3, "480, the first that no truncation brings back", 480, 0x7e, 0x7f, 0x7e, 0x7e, SATURATED, SATURATED},
    {PLUMB_E4M3, "the largest float", MOST_, 0x7e, 0x7f, 0x7e, 0x7e, SATURATED, SATURATED},
    {PLUMB_E4M3, "the least float", -MOST_, 0xfe, 0x7f, 0xfe, 0xfe, SATURATED, SATURATED},
    {PLUMB_E4M3, "least normal", 0x1p-6, 0x08, 0x08, 0x08, 0x08, PLAIN, PLAIN},
    {PLUMB_E4M3, "tie of the largest subnormal with it", 0x1.ep-7, 0x08, 0x08, 0x07, 0x07, PLAIN, PLAIN},
    {PLUMB_E4M3, "below that tie", 0x1.dffffep-7, 0x07, 0x07, 0x07, 0x07, PLAIN, PLAIN},
    {PLUMB_E4M3, "least subnormal", 0x1p-9, 0x01, 0x01, 0x01, 0x01, PLAIN, PLAIN},
    {PLUMB_E4M3, "below the least subnormal", 0x1.fffffep-10, 0x01, 0x01, 0x00, 0x00, PLAIN, FLUSHED},
    {PLUMB_E4M3, "tie with zero", 0x1p-10, 0x00, 0x00, 0x00, 0x00, FLUSHED, FLUSHED},
    {PLUMB_E4M3, "tie with -0", -0x1p-10, 0x80, 0x80, 0x80, 0x80, FLUSHED, FLUSHED},
    {PLUMB_E4M3, "above the tie with zero", 0x1.000002p-10, 0x01, 0x01, 0x00, 0x00, PLAIN, FLUSHED},
    {PLUMB_E4M3, "subnormal tie, up to even", 0x1.8p-9, 0x02, 0x02, 0x01, 0x01, PLAIN, PLAIN},
    {PLUMB_E4M3, "subnormal tie, down to even", 0x1.4p-8, 0x02, 0x02, 0x02, 0x02, PLAIN, PLAIN},
    {PLUMB_E4M3, "tie, down to even", 1.0625, 0x38, 0x38, 0x38, 0x38, PLAIN, PLAIN},
    {PLUMB_E4M3, "tie, up to even", 1.1875, 0x3a, 0x3a, 0x39, 0x39, PLAIN, PLAIN},
    {PLUMB_E4M3, "tie, down to even, negative", -1.0625, 0xb8, 0xb8, 0xb8, 0xb8, PLAIN, PLAIN},
    {PLUMB_E4M3, "tie that carries into the exponent", 1.9375, 0x40, 0x40, 0x3f, 0x3f, PLAIN, PLAIN},
    {PLUMB_E4M3, "least subnormal float", 0x1p-149, 0x00, 0x00, 0x00, 0x00, FLUSHED, FLUSHED},
    {PLUMB_E4M3, "its negative", -0x1p-149, 0x80, 0x80, 0x80, 0x80, FLUSHED, FLUSHED},
    {PLUMB_E4M3, "largest subnormal float", 0x1.fffffcp-127, 0x00, 0x00, 0x00, 0x00, FLUSHED, FLUSHED},
    {PLUMB_E4M3, "zero", 0.0, 0x00, 0x00, 0x00, 0x00, ZERO, ZERO},
    {PLUMB_E4M3, "-0", -0.0, 0x80, 0x80, 0x80, 0x80, ZERO, ZERO},
    {PLUMB_E4M3, "infinity: NaN where there is none", INF_, 0x7e, 0x7f, 0x7e, 0x7f, NONFINITE, NONFINITE},
    {PLUMB_E4M3, "-infinity", -INF_, 0xfe, 0x7f, 0xfe, 0x7f, NONFINITE, NONFINITE},
    {PLUMB_E4M3, "NaN", NAN_, 0x7f, 0x7f, 0x7f, 0x7f, NONFINITE, NONFINITE},

    {PLUMB_E5M2, "the largest", 57344, 0x7b, 0x7b, 0x7b, 0x7b, PLAIN, PLAIN},
    {PLUMB_E5M2, "61439", 61439, 0x7b, 0x7b, 0x7b, 0x7b, CLIPPED, CLIPPED},
    {PLUMB_E5M2, "just below 61440", 0x1.dffffep15, 0x7b, 0x7b, 0x7b, 0x7b, CLIPPED, CLIPPED},
    {PLUMB_E5M2, "61440, a tie with the absent 65536: 57344 is odd", 61440, 0x7b, 0x7c, 0x7b, 0x7b, SATURATED, CLIPPED},
    {PLUMB_E5M2, "-61440", -61440, 0xfb, 0xfc, 0xfb, 0xfb, SATURATED, CLIPPED},
    {PLUMB_E5M2, "65536", 65536, 0x7b, 0x7c, 0x7b, 0x7b, SATURATED, SATURATED},
    {PLUMB_E5M2, "the largest float", MOST_, 0x7b, 0x7c, 0x7b, 0x7b, SATURATED, SATURATED},
    {PLUMB_E5M2, "least normal", 0x1p-14, 0x04, 0x04, 0x04, 0x04, PLAIN, PLAIN},
    {PLUMB_E5M2, "tie of the largest subnormal with it", 0x1.cp-15, 0x04, 0x04, 0x03, 0x03, PLAIN, PLAIN},
    {PLUMB_E5M2, "below that tie", 0x1.bffffep-15, 0x03, 0x03, 0x03, 0x03, PLAIN, PLAIN},
    {PLUMB_E5M2, "least subnormal", 0x1p-16, 0x01, 0x01, 0x01, 0x01, PLAIN, PLAIN},
    {PLUMB_E5M2, "tie with zero", 0x1p-17, 0x00, 0x00, 0x00, 0x00, FLUSHED, FLUSHED},
    {PLUMB_E5M2, "above it", 0x1.000002p-17, 0x01, 0x01, 0x00, 0x00, PLAIN, FLUSHED},
    {PLUMB_E5M2, "subnormal tie, up to even", 0x1.8p-16, 0x02, 0x02, 0x01, 0x01, PLAIN, PLAIN},
    {PLUMB_E5M2, "subnormal tie, down to even", 0x1.4p-15, 0x02, 0x02, 0x02, 0x02, PLAIN, PLAIN},
    {PLUMB_E5M2, "tie, down to even", 1.125, 0x3c, 0x3c, 0x3c, 0x3c, PLAIN, PLAIN},
    {PLUMB_E5M2, "tie, up to even", 1.375, 0x3e, 0x3e, 0x3d, 0x3d, PLAIN, PLAIN},
    {PLUMB_E5M2, "least subnormal float", -0x1p-149, 0x80, 0x80, 0x80, 0x80, FLUSHED, FLUSHED},
    {PLUMB_E5M2, "zero", 0.0, 0x00, 0x00, 0x00, 0x00, ZERO, ZERO},
    {PLUMB_E5M2, "-0", -0.0, 0x80, 0x80, 0x80, 0x80, ZERO, ZERO},
    {PLUMB_E5M2, "infinity", INF_, 0x7b, 0x7c, 0x7b, 0x7c, NONFINITE, NONFINITE},
    {PLUMB_E5M2, "-infinity", -INF_, 0xfb, 0xfc, 0xfb, 0xfc, NONFINITE, NONFINITE},
    {PLUMB_E5M2, "NaN", NAN_, 0x7f, 0x7f, 0x7f, 0x7f, NONFINITE, NONFINITE},

    {PLUMB_BF16, "one", 1.0, 0x3f80, 0x3f80, 0x3f80, 0x3f80, PLAIN, PLAIN},
    {PLUMB_BF16, "tie, down to even", 0x1.01p0, 0x3f80, 0x3f80, 0x3f80, 0x3f80, PLAIN, PLAIN},
    {PLUMB_BF16, "tie, up to even", 0x1.03p0, 0x3f82, 0x3f82, 0x3f81, 0x3f81, PLAIN, PLAIN},
    {PLUMB_BF16, "the largest", 0x1.fep127, 0x7f7f, 0x7f7f, 0x7f7f, 0x7f7f, PLAIN, PLAIN},
    {PLUMB_BF16, "back to it", 0x1.fefffep127, 0x7f7f, 0x7f7f, 0x7f7f, 0x7f7f, CLIPPED, CLIPPED},
    {PLUMB_BF16, "tie with 2^128", 0x1.ffp127, 0x7f7f, 0x7f80, 0x7f7f, 0x7f7f, SATURATED, CLIPPED},
    {PLUMB_BF16, "the least float", -MOST_, 0xff7f, 0xff80, 0xff7f, 0xff7f, SATURATED, CLIPPED},
    {PLUMB_BF16, "least subnormal", 0x1p-133, 0x0001, 0x0001, 0x0001, 0x0001, PLAIN, PLAIN},
    {PLUMB_BF16, "largest subnormal", 0x1.fcp-127, 0x007f, 0x007f, 0x007f, 0x007f, PLAIN, PLAIN},
    {PLUMB_BF16, "tie with zero", 0x1p-134, 0x0000, 0x0000, 0x0000, 0x0000, FLUSHED, FLUSHED},
    {PLUMB_BF16, "tie with -0", -0x1p-134, 0x8000, 0x8000, 0x8000, 0x8000, FLUSHED, FLUSHED},
    {PLUMB_BF16, "above it", 0x1.0002p-134, 0x0001, 0x0001, 0x0000, 0x0000, PLAIN, FLUSHED},
    {PLUMB_BF16, "zero", 0.0, 0x0000, 0x0000, 0x0000, 0x0000, ZERO, ZERO},
    {PLUMB_BF16, "-0", -0.0, 0x8000, 0x8000, 0x8000, 0x8000, ZERO, ZERO},
    {PLUMB_BF16, "infinity", INF_, 0x7f7f, 0x7f80, 0x7f7f, 0x7f80, NONFINITE, NONFINITE},
    {PLUMB_BF16, "-infinity", -INF_, 0xff7f, 0xff80, 0xff7f, 0xff80, NONFINITE, NONFINITE},
    {PLUMB_BF16, "NaN", NAN_, 0x7fc0, 0x7fc0, 0x7fc0, 0x7fc0, NONFINITE, NONFINITE},

    {PLUMB_FP16, "the largest", 65504, 0x7bff, 0x7bff, 0x7bff, 0x7bff, PLAIN, PLAIN},
    {PLUMB_FP16, "below 65520, back to it", 65519, 0x7bff, 0x7bff, 0x7bff, 0x7bff, CLIPPED, CLIPPED},
    {PLUMB_FP16, "65520, a tie with the absent 65536: 65504 is odd", 65520, 0x7bff, 0x7c00, 0x7bff, 0x7bff, SATURATED, CLIPPED},
    {PLUMB_FP16, "-65536", -65536, 0xfbff, 0xfc00, 0xfbff, 0xfbff, SATURATED, SATURATED},
    {PLUMB_FP16, "tie, down to even", 0x1.002p0, 0x3c00, 0x3c00, 0x3c00, 0x3c00, PLAIN, PLAIN},
    {PLUMB_FP16, "tie, up to even", 0x1.006p0, 0x3c02, 0x3c02, 0x3c01, 0x3c01, PLAIN, PLAIN},
    {PLUMB_FP16, "least normal", 0x1p-14, 0x0400, 0x0400, 0x0400, 0x0400, PLAIN, PLAIN},
    {PLUMB_FP16, "tie of the largest subnormal with it", 0x1.ffcp-15, 0x0400, 0x0400, 0x03ff, 0x03ff, PLAIN, PLAIN},
    {PLUMB_FP16, "least subnormal", 0x1p-24, 0x0001, 0x0001, 0x0001, 0x0001, PLAIN, PLAIN},
    {PLUMB_FP16, "tie with zero", 0x1p-25, 0x0000, 0x0000, 0x0000, 0x0000, FLUSHED, FLUSHED},
    {PLUMB_FP16, "above it", 0x1.000002p-25, 0x0001, 0x0001, 0x0000, 0x0000, PLAIN, FLUSHED},
    {PLUMB_FP16, "-0", -0.0, 0x8000, 0x8000, 0x8000, 0x8000, ZERO, ZERO},
    {PLUMB_FP16, "infinity", INF_, 0x7bff, 0x7c00, 0x7bff, 0x7c00, NONFINITE, NONFINITE},
    {PLUMB_FP16, "NaN", NAN_, 0x7e00, 0x7e00, 0x7e00, 0x7e00, NONFINITE, NONFINITE},

    {PLUMB_TF32, "13 bits are dropped, to nearest", 0x1.000002p0, 0x3f800000, 0x3f800000, 0x3f800000, 0x3f800000, PLAIN, PLAIN},
    {PLUMB_TF32, "tie, down to even", 0x1.002p0, 0x3f800000, 0x3f800000, 0x3f800000, 0x3f800000, PLAIN, PLAIN},
    {PLUMB_TF32, "tie, up to even", 0x1.006p0, 0x3f804000, 0x3f804000, 0x3f802000, 0x3f802000, PLAIN, PLAIN},
    {PLUMB_TF32, "the largest", 0x1.ffcp127, 0x7f7fe000, 0x7f7fe000, 0x7f7fe000, 0x7f7fe000, PLAIN, PLAIN},
    {PLUMB_TF32, "tie with 2^128", 0x1.ffep127, 0x7f7fe000, 0x7f800000, 0x7f7fe000, 0x7f7fe000, SATURATED, CLIPPED},
    {PLUMB_TF32, "the least float", -MOST_, 0xff7fe000, 0xff800000, 0xff7fe000, 0xff7fe000, SATURATED, CLIPPED},
    {PLUMB_TF32, "least subnormal", 0x1p-136, 0x00002000, 0x00002000, 0x00002000, 0x00002000, PLAIN, PLAIN},
    {PLUMB_TF32, "tie with -0", -0x1p-137, 0x80000000, 0x80000000, 0x80000000, 0x80000000, FLUSHED, FLUSHED},
    {PLUMB_TF32, "-0", -0.0, 0x80000000, 0x80000000, 0x80000000, 0x80000000, ZERO, ZERO},
    {PLUMB_TF32, "-infinity", -INF_, 0xff7fe000, 0xff800000, 0xff7fe000, 0xff800000, NONFINITE, NONFINITE},
    {PLUMB_TF32, "NaN", NAN_, 0x7fc00000, 0x7fc00000, 0x7fc00000, 0x7fc00000, NONFINITE, NONFINITE},

    {PLUMB_FP32, "one", 1.0, 0x3f800000, 0x3f800000, 0x3f800000, 0x3f800000, PLAIN, PLAIN},
    {PLUMB_FP32, "least subnormal", -0x1p-149, 0x80000001, 0x80000001, 0x80000001, 0x80000001, PLAIN, PLAIN},
    {PLUMB_FP32, "the largest", MOST_, 0x7f7fffff, 0x7f7fffff, 0x7f7fffff, 0x7f7fffff, PLAIN, PLAIN},
    {PLUMB_FP32, "zero", 0.0, 0, 0, 0, 0, ZERO, ZERO},
    {PLUMB_FP32, "-0", -0.0, 0x80000000, 0x80000000, 0x80000000, 0x80000000, ZERO, ZERO},
    {PLUMB_FP32, "infinity", INF_, 0x7f7fffff, 0x7f800000, 0x7f7fffff, 0x7f800000, NONFINITE, NONFINITE},
    {PLUMB_FP32, "-infinity", -INF_, 0xff7fffff, 0xff800000, 0xff7fffff, 0xff800000, NONFINITE, NONFINITE},
    {PLUMB_FP32, "NaN", NAN_, 0x7fc00000, 0x7fc00000, 0x7fc00000, 0x7fc00000, NONFINITE, NONFINITE},

    {PLUMB_E4M3FNUZ, "the largest", 240, 0x7f, 0x7f, 0x7f, 0x7f, PLAIN, PLAIN},
    {PLUMB_E4M3FNUZ, "below 248, back to it", 0x1.effffep7, 0x7f, 0x7f, 0x7f, 0x7f, CLIPPED, CLIPPED},
    {PLUMB_E4M3FNUZ, "248, a tie with the absent 256: 240 is odd", 248, 0x7f, 0x80, 0x7f, 0x7f, SATURATED, CLIPPED},
    {PLUMB_E4M3FNUZ, "-256", -256, 0xff, 0x80, 0xff, 0xff, SATURATED, SATURATED},
    {PLUMB_E4M3FNUZ, "bias 8: one", 1.0, 0x40, 0x40, 0x40, 0x40, PLAIN, PLAIN},
    {PLUMB_E4M3FNUZ, "least normal", -0x1p-7, 0x88, 0x88, 0x88, 0x88, PLAIN, PLAIN},
    {PLUMB_E4M3FNUZ, "least subnormal", -0x1p-10, 0x81, 0x81, 0x81, 0x81, PLAIN, PLAIN},
    {PLUMB_E4M3FNUZ, "tie with -0, which there is not", -0x1p-11, 0x00, 0x00, 0x00, 0x00, FLUSHED, FLUSHED},
    {PLUMB_E4M3FNUZ, "a negative that truncates to zero", -0x1.8p-11, 0x81, 0x81, 0x00, 0x00, PLAIN, FLUSHED},
    {PLUMB_E4M3FNUZ, "-0 becomes +0", -0.0, 0x00, 0x00, 0x00, 0x00, ZERO, ZERO},
    {PLUMB_E4M3FNUZ, "infinity", INF_, 0x7f, 0x80, 0x7f, 0x80, NONFINITE, NONFINITE},
    {PLUMB_E4M3FNUZ, "-infinity", -INF_, 0xff, 0x80, 0xff, 0x80, NONFINITE, NONFINITE},
    {PLUMB_E4M3FNUZ, "NaN", NAN_, 0x80, 0x80, 0x80, 0x80, NONFINITE, NONFINITE},

    {PLUMB_E5M2FNUZ, "the largest", -57344, 0xff, 0xff, 0xff, 0xff, PLAIN, PLAIN},
    {PLUMB_E5M2FNUZ, "61440, a tie with the absent 65536: 57344 is odd", 61440, 0x7f, 0x80, 0x7f, 0x7f, SATURATED, CLIPPED},
    {PLUMB_E5M2FNUZ, "bias 16: one", 1.0, 0x40, 0x40, 0x40, 0x40, PLAIN, PLAIN},
    {PLUMB_E5M2FNUZ, "least subnormal", 0x1p-17, 0x01, 0x01, 0x01, 0x01, PLAIN, PLAIN},
    {PLUMB_E5M2FNUZ, "tie with -0, which there is not", -0x1p-18, 0x00, 0x00, 0x00, 0x00, FLUSHED, FLUSHED},
    {PLUMB_E5M2FNUZ, "-0 becomes +0", -0.0, 0x00, 0x00, 0x00, 0x00, ZERO, ZERO},
    {PLUMB_E5M2FNUZ, "-infinity", -INF_, 0xff, 0x80, 0xff, 0x80, NONFINITE, NONFINITE},
    {PLUMB_E5M2FNUZ, "NaN", NAN_, 0x80, 0x80, 0x80, 0x80, NONFINITE, NONFINITE},

    {PLUMB_E3M2, "the largest", 28, 0x1f, 0x1f, 0x1f, 0x1f, PLAIN, PLAIN},
    {PLUMB_E3M2, "below 30, back to it", 0x1.dffffep4, 0x1f, 0x1f, 0x1f, 0x1f, CLIPPED, CLIPPED},
    {PLUMB_E3M2, "30: always the largest, but counted", 30, 0x1f, 0x1f, 0x1f, 0x1f, SATURATED, CLIPPED},
    {PLUMB_E3M2, "-1000", -1000, 0x3f, 0x3f, 0x3f, 0x3f, SATURATED, SATURATED},
    {PLUMB_E3M2, "largest subnormal", 0.1875, 0x03, 0x03, 0x03, 0x03, PLAIN, PLAIN},
    {PLUMB_E3M2, "tie with zero", 0x1p-5, 0x00, 0x00, 0x00, 0x00, FLUSHED, FLUSHED},
    {PLUMB_E3M2, "-0", -0.0, 0x20, 0x20, 0x20, 0x20, ZERO, ZERO},
    {PLUMB_E3M2, "-infinity: there is none, nor NaN", -INF_, 0x3f, 0x3f, 0x3f, 0x3f, NONFINITE, NONFINITE},
    {PLUMB_E3M2, "NaN is the largest, positive", NAN_, 0x1f, 0x1f, 0x1f, 0x1f, NONFINITE, NONFINITE},

    {PLUMB_E2M3, "the largest", 7.5, 0x1f, 0x1f, 0x1f, 0x1f, PLAIN, PLAIN},
    {PLUMB_E2M3, "7.75: always the largest, but counted", 7.75, 0x1f, 0x1f, 0x1f, 0x1f, SATURATED, CLIPPED},
    {PLUMB_E2M3, "least subnormal", -0.125, 0x21, 0x21, 0x21, 0x21, PLAIN, PLAIN},
    {PLUMB_E2M3, "subnormal tie, up to even", 0.1875, 0x02, 0x02, 0x01, 0x01, PLAIN, PLAIN},
    {PLUMB_E2M3, "tie with -0", -0.0625, 0x20, 0x20, 0x20, 0x20, FLUSHED, FLUSHED},
    {PLUMB_E2M3, "infinity", INF_, 0x1f, 0x1f, 0x1f, 0x1f, NONFINITE, NONFINITE},
    {PLUMB_E2M3, "NaN is the largest, positive", NAN_, 0x1f, 0x1f, 0x1f, 0x1f, NONFINITE, NONFINITE},

    {PLUMB_E2M1, "0.25, tie with zero", 0.25, 0x0, 0x0, 0x0, 0x0, FLUSHED, FLUSHED},
    {PLUMB_E2M1, "0.2500001", 0x1.000002p-2, 0x1, 0x1, 0x0, 0x0, PLAIN, FLUSHED},
    {PLUMB_E2M1, "0.75, up to even", 0.75, 0x2, 0x2, 0x1, 0x1, PLAIN, PLAIN},
    {PLUMB_E2M1, "1.25, down to even", 1.25, 0x2, 0x2, 0x2, 0x2, PLAIN, PLAIN},
    {PLUMB_E2M1, "1.75, up to even", 1.75, 0x4, 0x4, 0x3, 0x3, PLAIN, PLAIN},
    {PLUMB_E2M1, "2.5, down to even", 2.5, 0x4, 0x4, 0x4, 0x4, PLAIN, PLAIN},
    {PLUMB_E2M1, "3.5, up to even", 3.5, 0x6, 0x6, 0x5, 0x5, PLAIN, PLAIN},
    {PLUMB_E2M1, "5, down to even", 5.0, 0x6, 0x6, 0x6, 0x6, PLAIN, PLAIN},
    {PLUMB_E2M1, "-5", -5.0, 0xe, 0xe, 0xe, 0xe, PLAIN, PLAIN},
    {PLUMB_E2M1, "the largest", 6.0, 0x7, 0x7, 0x7, 0x7, PLAIN, PLAIN},
    {PLUMB_E2M1, "below 7, back to it", 0x1.bffffep2, 0x7, 0x7, 0x7, 0x7, CLIPPED, CLIPPED},
    {PLUMB_E2M1, "7, a tie with the absent 8: always the largest, but counted", 7.0, 0x7, 0x7, 0x7, 0x7, SATURATED, CLIPPED},
    {PLUMB_E2M1, "-0", -0.0, 0x8, 0x8, 0x8, 0x8, ZERO, ZERO},
    {PLUMB_E2M1, "-infinity", -INF_, 0xf, 0xf, 0xf, 0xf, NONFINITE, NONFINITE},
    {PLUMB_E2M1, "NaN is the largest, positive", NAN_, 0x7, 0x7, 0x7, 0x7, NONFINITE, NONFINITE},

    {PLUMB_E8M0, "code 127 is one", 1.0, 127, 127, 127, 127, PLAIN, PLAIN},
    {PLUMB_E8M0, "tie at 1.5, up to even", 1.5, 128, 128, 127, 127, PLAIN, PLAIN},
    {PLUMB_E8M0, "below it", 0x1.7ffffep0, 127, 127, 127, 127, PLAIN, PLAIN},
    {PLUMB_E8M0, "tie at 3, down to even", 3.0, 128, 128, 128, 128, PLAIN, PLAIN},
    {PLUMB_E8M0, "above it", 0x1.800002p1, 129, 129, 128, 128, PLAIN, PLAIN},
    {PLUMB_E8M0, "code 1 is the least normal float", 0x1p-126, 1, 1, 1, 1, PLAIN, PLAIN},
    {PLUMB_E8M0, "code 0 is a subnormal float", 0x1p-127, 0, 0, 0, 0, PLAIN, PLAIN},
    {PLUMB_E8M0, "tie of codes 0 and 1, to even", 0x1.8p-127, 0, 0, 0, 0, PLAIN, PLAIN},
    {PLUMB_E8M0, "above it", 0x1.800004p-127, 1, 1, 0, 0, PLAIN, PLAIN},
    {PLUMB_E8M0, "below the least: the least", 0x1.fffff8p-128, 0, 0, 0, 0, PLAIN, PLAIN},
    {PLUMB_E8M0, "the least float: the least", 0x1p-149, 0, 0, 0, 0, PLAIN, PLAIN},
    {PLUMB_E8M0, "code 254 is the largest", 0x1p127, 254, 254, 254, 254, PLAIN, PLAIN},
    {PLUMB_E8M0, "tie with the absent 2^128: 254 is even", 0x1.8p127, 254, 254, 254, 254, CLIPPED, CLIPPED},
    {PLUMB_E8M0, "past it: 255 is NaN", 0x1.800002p127, 254, 255, 254, 254, SATURATED, CLIPPED},
    {PLUMB_E8M0, "the largest float", MOST_, 254, 255, 254, 254, SATURATED, CLIPPED},
    {PLUMB_E8M0, "zero has no code", 0.0, 0, 255, 0, 0, ZERO, ZERO},
    {PLUMB_E8M0, "nor has -0", -0.0, 0, 255, 0, 0, ZERO, ZERO},
    {PLUMB_E8M0, "a negative", -1.0, 0, 255, 0, 0, LOW, LOW},
    {PLUMB_E8M0, "a negative next to zero", -0x1p-149, 0, 255, 0, 0, LOW, LOW},
    {PLUMB_E8M0, "a negative out of range", -MOST_, 0, 255, 0, 0, LOW, LOW},
    {PLUMB_E8M0, "infinity", INF_, 254, 255, 254, 255, NONFINITE, NONFINITE},
    {PLUMB_E8M0, "-infinity", -INF_, 0, 255, 0, 255, NONFINITE, NONFINITE},
    {PLUMB_E8M0, "NaN", NAN_, 255, 255, 255, 255, NONFINITE, NONFINITE},

    {PLUMB_UE4M3, "the largest", 448, 0x7e, 0x7e, 0x7e, 0x7e, PLAIN, PLAIN},
    {PLUMB_UE4M3, "464", 464, 0x7e, 0x7e, 0x7e, 0x7e, CLIPPED, CLIPPED},
    {PLUMB_UE4M3, "past 464", 0x1.d00002p8, 0x7e, 0x7f, 0x7e, 0x7e, SATURATED, CLIPPED},
    {PLUMB_UE4M3, "least subnormal", 0x1p-9, 0x01, 0x01, 0x01, 0x01, PLAIN, PLAIN},
    {PLUMB_UE4M3, "tie with zero", 0x1p-10, 0x00, 0x00, 0x00, 0x00, FLUSHED, FLUSHED},
    {PLUMB_UE4M3, "a negative that rounds to zero", -0x1p-10, 0x00, 0x00, 0x00, 0x00, FLUSHED, FLUSHED},
    {PLUMB_UE4M3, "a negative that does not, to nearest", -0x1.000002p-10, 0x00, 0x7f, 0x00, 0x00, LOW, FLUSHED},
    {PLUMB_UE4M3, "a negative", -1.0, 0x00, 0x7f, 0x00, 0x00, LOW, LOW},
    {PLUMB_UE4M3, "a negative out of range", -1000, 0x00, 0x7f, 0x00, 0x00, LOW, LOW},
    {PLUMB_UE4M3, "-0", -0.0, 0x00, 0x00, 0x00, 0x00, ZERO, ZERO},
    {PLUMB_UE4M3, "infinity", INF_, 0x7e, 0x7f, 0x7e, 0x7f, NONFINITE, NONFINITE},
    {PLUMB_UE4M3, "-infinity", -INF_, 0x00, 0x7f, 0x00, 0x7f, NONFINITE, NONFINITE},
    {PLUMB_UE4M3, "NaN", NAN_, 0x7f, 0x7f, 0x7f, 0x7f, NONFINITE, NONFINITE},
};
/* clang-format on */
enum { EDGES = sizeof edges / sizeof edges[0] };

#endif
