/* matmul/lanes.h - matrix units on many results at once, one row for each instruction set.
 *
 * A row advances 64 neighbouring results by one fused addition.  Results that its arithmetic
 * does not cover (infinities, NaN, exponents far apart or near the ends of fp32) it leaves as
 * they were and names; they are then computed by the definition in chain.c.  Dispatch and tests
 * walk the same table.
 */
#ifndef PLUMB_MATMUL_LANES_H
#define PLUMB_MATMUL_LANES_H

#include "matmul/chain.h"
#include "matmul/micro.h"
#include "matmul/narrow.h"
#include "matmul/product.h"
#include "matmul/sliced.h"

enum {
    PLUMB_LANES = 64,
    PLUMB_LANES_ZERO = -128, /* e of a zero: adding to it saturates */
    PLUMB_LANES_LEAST = -62, /* e of what is as small as that, or smaller */
    /* Largest e of a product that may have been cut off: that of the other operand is 1 at most. */
    PLUMB_LANES_FAR = PLUMB_LANES_LEAST + 2,
    /* Largest exponents that are aligned in fp32: every power of two is then a normal number. */
    PLUMB_LANES_RANGE = 90
};

typedef struct plumb_lane_unit {
    size_t terms; /* even */
    int fraction_bits, floor, result_bits;
    int emin;  /* of the results */
    bool half; /* fp16 results to nearest, else fp32 toward zero */
    bool wide; /* sums need more than 24 bits; fp64 holds them */
} plumb_lane_unit;

/* Terms of one fused addition of 64 rows of an operand: value = x * 2^top, exponent e + top. */
typedef struct plumb_lane_terms {
    const float *x;     /* [terms][64], below 4 in magnitude */
    const int8_t *e;    /* [terms][64] */
    const int32_t *top; /* [64] */
} plumb_lane_terms;

/* c[i] = the unit's sum of c[i] and the products of row `row` of a and row i of b, for i below
 * width, a multiple of 16, unless bit i of `leave` is set.  Returns the bits of those that are
 * left to be done; a NaN in c stays and is done.
 */
typedef uint64_t plumb_lane_add(const plumb_lane_unit *unit, plumb_lane_terms a, size_t row,
                                plumb_lane_terms b, size_t width, uint64_t leave, float *c);

/* from[order[i]][0 .. rows - 1], rows a multiple of 16, values of a format whose least normal exponent is emin, to term i, as above;
 * an infinity or NaN to 0.  Returns the bits of the rows that had one.
 */
typedef uint64_t plumb_lane_prepare(size_t terms, size_t rows, int emin, const float *from,
                                    const uint8_t *order, float *x, int8_t *e,
                                    int32_t *top);

/* main[64] = fma(c, da * db, main). */
typedef void plumb_lane_join(float da, const float *db, const float *c, float *main);

/* Elements of one row of a panel of A, or column of B, from PLUMB_NARROW_SLOTS codes; sets bit
 * `row` of special[] for each fused addition with an infinity or NaN among its terms.
 */
typedef void plumb_narrow_row(const plumb_narrow_table *table, size_t terms,
                              const uint8_t *codes, size_t row, plumb_narrow_rows *to,
                              uint64_t *special);
typedef void plumb_narrow_column(const plumb_narrow_table *table, size_t terms,
                                 const uint8_t *codes, size_t column,
                                 plumb_narrow_columns *to, uint64_t *special);

/* plumb_lane_add for rows `row` and `row` + 1, and fused addition `step` of both panels. */
typedef void plumb_narrow_add(const plumb_lane_unit *unit, const plumb_narrow_rows *a,
                              size_t row, const plumb_narrow_columns *b, size_t step,
                              size_t width, const uint64_t *leave, float (*c)[PLUMB_LANES],
                              uint64_t *left);

/* add NULL: every result of a unit by the definition.  narrow_add NULL: all units by add. */
typedef struct plumb_lanes {
    const char *name;
    unsigned cpu; /* PLUMB_CPU_* it needs */
    plumb_lane_add *add;
    plumb_lane_prepare *prepare;
    plumb_lane_join *join;
    plumb_sliced_cut *cut;
    plumb_sliced_add *sum;
    plumb_micro_unpack *copy, *turn; /* that flush nothing while MXCSR does not say so */
    plumb_narrow_row *narrow_row;
    plumb_narrow_column *narrow_column;
    plumb_narrow_add *narrow_add;
} plumb_lanes;

/* The reference comes first and the fastest last. */
extern const plumb_lanes plumb_lanes_rows[];
extern const size_t plumb_lanes_count;

/* The product by lanes; false, with nothing done, when it has a form that they do not cover. */
bool plumb_lanes_product(const plumb_product *of, const plumb_lanes *lanes);

size_t plumb_lanes_workspace(void);

/* The exact product by one sum in fp64; false, with nothing done, where that might not hold it. */
bool plumb_direct_product(const plumb_product *of, const plumb_lanes *lanes);
size_t plumb_direct_workspace(void);

/* Any exact product (sliced.c). */
void plumb_sliced_product(const plumb_product *of, const plumb_lanes *lanes);
size_t plumb_sliced_workspace(void);

plumb_lane_add plumb_lane_add_avx2, plumb_lane_add_avx512;
plumb_lane_prepare plumb_lane_prepare_avx2, plumb_lane_prepare_avx512;
plumb_lane_join plumb_lane_join_avx2, plumb_lane_join_avx512;
plumb_narrow_row plumb_narrow_row_avx512bf16;
plumb_narrow_column plumb_narrow_column_avx512bf16;
plumb_narrow_add plumb_narrow_add_avx512bf16;

/* The body of every prepare, for the compiler to vectorise. */
static inline uint64_t plumb_lane_prepare_any(size_t terms, size_t rows, int emin,
                                              const float *from, const uint8_t *order,
                                              float *x, int8_t *e, int32_t *top)
{
    int32_t special[PLUMB_LANES] = {0}, any = 0;
    float down[PLUMB_LANES];
    uint64_t specials = 0;

    for (size_t i = 0; i < rows; i++)
        top[i] = PLUMB_E_ZERO;
    for (size_t t = 0; t < terms; t++) {
        const float *row = from + order[t] * PLUMB_LANES;

        for (size_t i = 0; i < rows; i++) {
            const int32_t magnitude = (int32_t)(bits_of(row[i]) & 0x7fffffffu);
            const bool number = magnitude < 0x7f800000, zero = magnitude == 0 || !number;
            const int32_t exponent = zero ? PLUMB_E_ZERO : (magnitude >> 23) - 127;

            special[i] |= !number;
            top[i] = exponent > top[i] ? exponent : top[i];
        }
    }
    for (size_t i = 0; i < rows; i++) {
        const int32_t least = top[i] == PLUMB_E_ZERO ? 0 : top[i] < emin ? emin : top[i];

        top[i] = least > 126 ? 126 : least;
        down[i] = float_of((uint32_t)(127 - top[i]) << 23);
        any |= special[i];
    }
    for (size_t t = 0; t < terms; t++) {
        const float *row = from + order[t] * PLUMB_LANES;

        for (size_t i = 0; i < rows; i++) {
            const int32_t magnitude = (int32_t)(bits_of(row[i]) & 0x7fffffffu);
            const bool zero = magnitude == 0 || magnitude >= 0x7f800000;
            const int32_t own = (magnitude >> 23) - 127, coded = own > emin ? own : emin;
            const int32_t below = coded - top[i];
            const int32_t kept = below > PLUMB_LANES_LEAST ? below : PLUMB_LANES_LEAST;

            x[t * PLUMB_LANES + i] = zero ? 0 : row[i] * down[i];
            e[t * PLUMB_LANES + i] = (int8_t)(zero ? PLUMB_LANES_ZERO : kept);
        }
    }
    for (size_t i = 0; any != 0 && i < rows; i++)
        specials |= (uint64_t)special[i] << i;
    return specials;
}

/* main = fma(c, da * db[i], main). */
static inline void plumb_lane_join_any(float da, const float *db, const float *c,
                                       float *main)
{
    for (size_t i = 0; i < PLUMB_LANES; i++)
        main[i] = fmaf(c[i], da * db[i], main[i]);
}

#endif
