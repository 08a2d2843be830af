/* plumb/format.h - number formats as data.
 *
 * Pure functions and constant tables; call from anywhere.  Rules of E4M3 and E5M2:
 * OCP 8-bit Floating Point Specification (OFP8) 1.0.  E4M3 is the variant without
 * infinities ("E4M3FN" elsewhere): S.1111.111 is NaN and the largest finite value
 * is 448.  E5M2 follows IEEE 754: largest finite value 57344, infinities, NaNs.
 */
#ifndef PLUMB_FORMAT_H
#define PLUMB_FORMAT_H

#include "plumb/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum plumb_format {
    PLUMB_FP32 = 0,
    PLUMB_BF16,
    PLUMB_E4M3,
    PLUMB_E5M2,
    PLUMB_FORMAT_COUNT
} plumb_format;

/* One row per format.  A finite non-zero value is (-1)^s * m * 2^(e) with a
 * significand of fraction_bits + 1 bits; exponents below emin are subnormal.
 */
typedef struct plumb_format_info {
    const char *name;   /* "fp32", "bf16", "e4m3", "e5m2" */
    int bits;           /* of a code: 32, 16, 8, 8 */
    int exponent_bits;  /* 8, 8, 4, 5 */
    int fraction_bits;  /* 23, 7, 3, 2 */
    int bias;           /* 127, 127, 7, 15 */
    int emin;           /* exponent of the least normal value: -126, -126, -6, -14 */
    int emax;           /* exponent of the largest finite value: 127, 127, 8, 15 */
    float largest;      /* largest finite value: FLT_MAX, 0x1.fep127, 448, 57344 */
    float least_normal; /* 2^emin */
    float least;        /* least subnormal: 2^(emin - fraction_bits) */
    bool has_infinity;  /* false for e4m3 */
} plumb_format_info;

/* The row of a format, or NULL if format is out of range. */
const plumb_format_info *plumb_format_get(plumb_format format);

/* Format by name, exactly as in the table.  False if there is none. */
bool plumb_format_parse(const char *name, plumb_format *format);

/* The value of each of the 256 codes of E4M3 or E5M2, NaNs as 0x7FC00000 with the
 * code's sign dropped.  NULL for other formats.
 */
const float *plumb_format_decode_table(plumb_format format);

#ifdef __cplusplus
}
#endif
#endif
