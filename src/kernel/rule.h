/* The formats as casts see them: the fp32 bit patterns at which their rule changes.
 *
 * One rule serves all: a code is an fp32 magnitude with another bias and fewer fraction bits.
 * Kernels for the formats of the hot path take a row of this table as a constant, and the
 * compiler folds it; the others read it at run time.
 */
#ifndef PLUMB_KERNEL_RULE_H
#define PLUMB_KERNEL_RULE_H

#include "format/rows.h"
#include "plumb/format.h"

typedef struct rule {
    uint32_t shift;        /* fp32 fraction bits that a code drops */
    uint32_t rebias;       /* difference of the biases, in fp32's exponent field */
    uint32_t least_normal; /* fp32 bits of 2^emin; 0 where the exponents are fp32's own: its
                              subnormals then lie on the same grid */
    uint32_t step_shift; /* less the exponent field of fp32: the shift that counts steps */
    uint32_t largest;    /* codes: of the largest value, */
    uint32_t past;       /* beyond it without saturation, */
    uint32_t nan;        /* of NaN (the largest where there is none), */
    uint32_t signless;   /* of what has no negative: NaN, or the zero of fnuz */
    uint32_t sign;       /* the sign bit of a code, 0 if it has none, */
    uint32_t sign_shift; /* and how far it lies below fp32's */
    uint32_t place;      /* zeros stored below a code (tf32) */
    bool has_sign;
    bool has_zero;
    bool is_fp32; /* nothing is lost, no value is past it */
} rule;

enum { NEVER = 0x7fffffff }; /* no code */

#define IS(special, other)  (PLUMB_SPECIAL_##special == PLUMB_SPECIAL_##other)
#define SIGNLESS(s, sp, nc) ((s) == 0 || IS(sp, NONE) ? NEVER : IS(sp, FNUZ) ? 0 : (nc))

#define RULE(F, n, s, e, f, b, sp, la, ln, le, lc, nc)                                     \
    [PLUMB_##F] = {                                                                        \
        .shift = 23 - (f),                                                                 \
        .rebias = (127u - (b)) << 23,                                                      \
        .least_normal = (b) == 127 ? 0u : (128u - (b)) << 23,                              \
        .step_shift = 151u - (b) - (f),                                                    \
        .largest = (lc),                                                                   \
        .past = IS(sp, IEEE) ? (lc) + 1 : (nc),                                            \
        .nan = (nc),                                                                       \
        .signless = SIGNLESS(s, sp, nc),                                                   \
        .sign = (uint32_t)(s) << ((e) + (f)),                                              \
        .sign_shift = 31 - (e) - (f),                                                      \
        .place = PLUMB_FORMAT_PLACE((s) + (e) + (f)),                                      \
        .has_sign = (s) != 0,                                                              \
        .has_zero = (f) != 0,                                                              \
        .is_fp32 = (f) == 23,                                                              \
    },

static const rule rules[PLUMB_FORMAT_COUNT] = {PLUMB_FORMAT_ROWS(RULE)};

#endif
