/* The formats as casts see them: the fp32 bit patterns at which their rule changes.
 *
 * One rule serves all: a code is an fp32 magnitude with another bias and fewer fraction bits.
 * Kernels for the formats of the hot path take a row of this table as a constant, and the
 * compiler folds it; the others read it at run time.
 */
#ifndef PLUMB_KERNEL_RULE_H
#define PLUMB_KERNEL_RULE_H

#include "plumb/format.h"

typedef struct rule {
    uint32_t shift;        /* fp32 fraction bits that a code drops */
    uint32_t rebias;       /* difference of the biases, in fp32's exponent field */
    uint32_t least_normal; /* fp32 bits of 2^emin; 0 where the exponents are fp32's own: its
                              subnormals then lie on the same grid */
    uint32_t
        step_shift;    /* less the fp32 exponent field: shift that counts subnormal steps */
    uint32_t largest;  /* codes: of the largest value, */
    uint32_t past;     /* beyond it without saturation, */
    uint32_t nan;      /* of NaN (the largest where there is none), */
    uint32_t signless; /* of what has no negative: NaN, or the zero of fnuz */
    uint32_t sign;     /* the sign bit of a code, 0 if it has none, */
    uint32_t sign_shift; /* and how far it lies below fp32's */
    uint32_t place;      /* zeros stored below a code (tf32) */
    bool has_sign;
    bool has_zero;
    bool is_fp32; /* nothing is lost, no value is past it */
} rule;

/* exponent bits, fraction bits, bias, sign bits, largest, past, nan, signless, place */
#define RULE(e, f, b, s, large, beyond, none, bare, low)                                   \
    {                                                                                      \
        .shift = 23 - (f), .rebias = (127u - (b)) << 23,                                   \
        .least_normal = (b) == 127 ? 0u : (128u - (b)) << 23,                              \
        .step_shift = 151u - (b) - (f), .largest = (large), .past = (beyond),              \
        .nan = (none), .signless = (bare), .sign = (uint32_t)(s) << ((e) + (f)),           \
        .sign_shift = 31 - (e) - (f), .place = (low), .has_sign = (s) != 0,                \
        .has_zero = (f) != 0, .is_fp32 = (f) == 23                                         \
    }

enum { NEVER = 0x7fffffff }; /* no code */

/* clang-format off */
static const rule rules[PLUMB_FORMAT_COUNT] = {
    [PLUMB_FP32]     = RULE(8, 23, 127, 1, 0x7f7fffff, 0x7f800000, 0x7fc00000, 0x7fc00000, 0),
    [PLUMB_BF16]     = RULE(8,  7, 127, 1, 0x7f7f, 0x7f80, 0x7fc0, 0x7fc0, 0),
    [PLUMB_E4M3]     = RULE(4,  3,   7, 1, 0x7e, 0x7f, 0x7f, 0x7f, 0),
    [PLUMB_E5M2]     = RULE(5,  2,  15, 1, 0x7b, 0x7c, 0x7f, 0x7f, 0),
    [PLUMB_FP16]     = RULE(5, 10,  15, 1, 0x7bff, 0x7c00, 0x7e00, 0x7e00, 0),
    [PLUMB_TF32]     = RULE(8, 10, 127, 1, 0x3fbff, 0x3fc00, 0x3fe00, 0x3fe00, 13),
    [PLUMB_E4M3FNUZ] = RULE(4,  3,   8, 1, 0x7f, 0x80, 0x80, 0, 0),
    [PLUMB_E5M2FNUZ] = RULE(5,  2,  16, 1, 0x7f, 0x80, 0x80, 0, 0),
    [PLUMB_E3M2]     = RULE(3,  2,   3, 1, 0x1f, 0x1f, 0x1f, NEVER, 0),
    [PLUMB_E2M3]     = RULE(2,  3,   1, 1, 0x1f, 0x1f, 0x1f, NEVER, 0),
    [PLUMB_E2M1]     = RULE(2,  1,   1, 1, 0x07, 0x07, 0x07, NEVER, 0),
    [PLUMB_E8M0]     = RULE(8,  0, 127, 0, 0xfe, 0xff, 0xff, NEVER, 0),
    [PLUMB_UE4M3]    = RULE(4,  3,   7, 0, 0x7e, 0x7f, 0x7f, NEVER, 0),
};
/* clang-format on */

#endif
