/* matmul/narrow.h - operands of 8 bits for units that keep 13 fraction bits.
 *
 * A product of two significands, moved to the place where the largest term begins, has 15 bits:
 * such units add in lanes of 16 bits (narrow_avx512bf16.c), four elements of K to a lane of 32.
 * With s and t the signs of a and b, -1 or 1, one byte times byte gives |a| b, less 1 where t is
 * -1: in that form, which is the complement of |a b|, a shift to the right truncates toward
 * zero.  The sums are of s times that, and too small by s for every b below zero.
 */
#ifndef PLUMB_MATMUL_NARROW_H
#define PLUMB_MATMUL_NARROW_H

#include "matmul/parts.h"

enum {
    PLUMB_NARROW_ROWS = 64,
    PLUMB_NARROW_SLOTS = 256, /* elements of K in a panel */
    PLUMB_NARROW_QUADS = PLUMB_NARROW_SLOTS / 4,
    PLUMB_NARROW_FRACTION = 13, /* bits kept; 7 of them with a, 6 with b */
    PLUMB_NARROW_ZERO = -128    /* exponent of a zero, and of what is no number */
};

/* Of an operand's format: exponent and significand of each code without its sign. */
typedef struct plumb_narrow_table {
    int8_t e[128];
    uint8_t m[128]; /* times a power of two: as a, below 2^8; as b, below 2^7 */
    uint8_t finite; /* the largest code of a number */
} plumb_narrow_table;

/* A panel of A.  Words of 16 bits are those of elements 0 and 2, or 1 and 3, of four. */
typedef struct plumb_narrow_rows {
    uint32_t e[PLUMB_NARROW_ROWS][PLUMB_NARROW_QUADS];       /* a byte an element */
    uint32_t m[2][PLUMB_NARROW_ROWS][PLUMB_NARROW_QUADS];    /* bytes: significand, 1 */
    uint32_t sign[2][PLUMB_NARROW_ROWS][PLUMB_NARROW_QUADS]; /* words: -1 or 1 */
    uint64_t negative[PLUMB_NARROW_ROWS][PLUMB_NARROW_QUADS / 16]; /* a bit an element */
} plumb_narrow_rows;

/* A panel of B. */
typedef struct plumb_narrow_columns {
    uint32_t e[PLUMB_NARROW_QUADS][PLUMB_NARROW_ROWS];
    uint32_t m[2][PLUMB_NARROW_QUADS]
              [PLUMB_NARROW_ROWS]; /* bytes: with sign; -1 if negative */
    uint32_t negative[PLUMB_NARROW_SLOTS / 16][PLUMB_NARROW_ROWS]; /* by fused addition */
} plumb_narrow_columns;

/* bits: 8 for a, 7 for b. */
static inline plumb_narrow_table plumb_narrow_table_of(const plumb_format_info *format,
                                                       int bits)
{
    plumb_narrow_table table = {.finite = 0};

    for (uint32_t code = 0; code < 128; code++) {
        const plumb_parts parts = plumb_code_parts(format, code);
        const bool number = parts.m != 0 && !plumb_parts_special(parts);

        table.e[code] = (int8_t)(number ? parts.e : PLUMB_NARROW_ZERO);
        table.m[code] =
            (uint8_t)(number ? parts.m << (bits - 1 - format->fraction_bits) : 0);
        if (!plumb_parts_special(parts))
            table.finite = (uint8_t)code;
    }
    return table;
}

#endif
