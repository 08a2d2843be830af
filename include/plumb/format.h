/* plumb/format.h - number formats as data.
 *
 * Pure functions and constant tables; call from anywhere.  Sources of the rules:
 *
 *   e4m3 e5m2            OCP 8-bit Floating Point Specification (OFP8) 1.0
 *   e4m3fnuz e5m2fnuz    Noune et al., 8-bit Numerical Formats for Deep Neural Networks,
 *                        arXiv 2206.02915 (AMD CDNA3, Graphcore)
 *   e3m2 e2m3 e2m1 e8m0  OCP Microscaling Formats (MX) Specification 1.0
 *   ue4m3                e4m3 without its sign: block scales of NVFP4 (PTX ISA, "ue4m3")
 *   fp16 fp32            IEEE 754-2019 binary16, binary32
 *   bf16 tf32            fp32 with 7 and 10 fraction bits
 */
#ifndef PLUMB_FORMAT_H
#define PLUMB_FORMAT_H

#include "plumb/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers are pinned: append only. */
typedef enum plumb_format {
    PLUMB_FP32 = 0,
    PLUMB_BF16,
    PLUMB_E4M3,
    PLUMB_E5M2,
    PLUMB_FP16,
    PLUMB_TF32,
    PLUMB_E4M3FNUZ,
    PLUMB_E5M2FNUZ,
    PLUMB_E3M2,
    PLUMB_E2M3,
    PLUMB_E2M1,
    PLUMB_E8M0,
    PLUMB_UE4M3,
    PLUMB_FORMAT_COUNT
} plumb_format;

/* Which codes are not finite numbers. */
typedef enum plumb_special {
    PLUMB_SPECIAL_IEEE = 0, /* top exponent: infinity and NaNs (fp32 fp16 bf16 tf32 e5m2) */
    PLUMB_SPECIAL_NAN,      /* all ones below the sign is NaN (e4m3 ue4m3 e8m0) */
    PLUMB_SPECIAL_FNUZ,     /* the code of -0 is the only NaN: no -0, no infinity */
    PLUMB_SPECIAL_NONE,     /* every code is a finite number (e3m2 e2m3 e2m1) */
} plumb_special;

/* One row per format.  A finite non-zero value is (-1)^s * m * 2^e with a significand of
 * fraction_bits + 1 bits; exponents below emin are subnormal.  e8m0 is 2^(code - 127): it
 * has no sign, no zero and no subnormals.
 */
typedef struct plumb_format_info {
    const char *name;   /* "fp32", "bf16", "e4m3", ...: as in the enumeration */
    int bits;           /* of a code: 32, 16, 19 (tf32), 8, 7 (ue4m3), 6, 4 */
    int bytes;          /* that one code takes in memory: 4, 2 or 1 (never packed) */
    int exponent_bits;  /* 8, 8, 4, 5, ... */
    int fraction_bits;  /* 23, 7, 3, 2, ... */
    int bias;           /* 127, 127, 7, 15, ... */
    int emin;           /* exponent of the least normal value: 1 - bias (e8m0: -127) */
    int emax;           /* exponent of the largest finite value */
    float largest;      /* largest finite value: FLT_MAX, 0x1.fep127, 448, 57344, ... */
    float least_normal; /* 2^emin */
    float least;        /* least positive value: 2^(emin - fraction_bits) (e8m0: 2^-127) */
    plumb_special special;
    bool has_infinity;     /* special is PLUMB_SPECIAL_IEEE */
    bool is_signed;        /* false for e8m0 and ue4m3 */
    uint32_t largest_code; /* code of largest */
    uint32_t nan_code;     /* the one NaN that plumb stores; 0 where there is none */
} plumb_format_info;

/* The row of a format, or NULL if format is out of range. */
const plumb_format_info *plumb_format_get(plumb_format format);

/* Format by name, exactly as in the table.  False if there is none. */
bool plumb_format_parse(const char *name, plumb_format *format);

/* The value of each of the 256 codes of a format of at most 8 bits, NaNs as 0x7FC00000 with
 * the code's sign dropped.  Formats of fewer than 8 bits lie in the low bits of a byte; a
 * byte with higher bits set is no code and reads as NaN.  NULL for wider formats.
 */
const float *plumb_format_decode_table(plumb_format format);

/* The value of one code of any format: what the table says; bf16 and fp16 in the low 16 bits
 * (higher bits set: NaN); fp32 its bits; tf32 the bits of an fp32 whose low 13 are ignored, as
 * the matrix units do.  Every NaN is 0x7FC00000.
 */
float plumb_format_value(plumb_format format, uint32_t code);

#ifdef __cplusplus
}
#endif
#endif
