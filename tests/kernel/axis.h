/* axis.h - what a cast must give, read off the number line of a format.
 *
 * Nothing here rounds.  A format is laid out as the magnitudes of its codes in ascending order;
 * rounding is monotone, so all that a rounding mode adds is the place at which each code gives way
 * to the next.  Only bits, fraction_bits, bias, special and is_signed are taken from
 * plumb_format_info: values, the largest code, infinity and NaN are derived here, in arithmetic
 * that is exact in double.  No line is shared with src/.
 */
#ifndef PLUMB_TEST_AXIS_H
#define PLUMB_TEST_AXIS_H

#include "bits.h"
#include "plumb/cast.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define AXIS_INFINITY 0x7f800000u /* bits of an fp32 infinity */

typedef struct axis {
    plumb_format format;
    int fraction_bits, bias, bytes;
    int shift; /* a code is stored times 2^shift: 13 for tf32, else 0 */
    bool
        is_signed; /* else what is negative lies below the line, unless it rounds to zero */
    bool zero;     /* there is a zero, and subnormals follow it: not in e8m0 */
    bool negative_zero;
    uint32_t largest;  /* code of the largest finite magnitude */
    uint32_t infinite; /* what an infinity becomes that is not saturated, as code */
    uint32_t nan;      /* what a NaN becomes, as stored */
    uint32_t sign;     /* as stored */
    double largest_value;
} axis;

/* The axis of a format.  False if there is no such format. */
bool axis_of(plumb_format format, axis *a);

/* The magnitude of a code; codes past the largest go on as if exponents had no end. */
double axis_value(const axis *a, uint32_t code);

/* The bits of the least fp32 magnitude that `rounding` puts above code (stochastic: as toward
 * zero); AXIS_INFINITY if there is none among the finite ones.
 */
uint32_t axis_step(const axis *a, plumb_rounding rounding, uint32_t code);

/* --- a walk up the line -------------------------------------------------------- */

/* One way to cast, walked along ascending magnitudes of one sign. */
typedef struct axis_walk {
    const axis *a;
    const plumb_cast *how;
    uint32_t sign;  /* of the fp32 inputs: 0 or 0x80000000 */
    uint32_t code;  /* where on the line we are */
    uint32_t next;  /* axis_step of it */
    uint64_t drawn; /* stochastic: elements so far */
} axis_walk;

void axis_walk_start(axis_walk *w, const axis *a, const plumb_cast *how, uint32_t sign);

/* The codes of the n inputs first, first + stride, ... (magnitudes as fp32 bits; none below those
 * of the call before), and what they add to the counts.
 */
void axis_walk_expect(axis_walk *w, uint32_t first, uint32_t stride, size_t n, void *codes,
                      plumb_counts *counts);

/* The code of any one product v = x * scale of a source x, as element number `index` of a call:
 * for inputs in no order.
 */
uint32_t axis_code(const axis *a, const plumb_cast *how, float x, float v, size_t index,
                   plumb_counts *counts);

/* --- odds and ends ------------------------------------------------------------- */

uint32_t axis_code_at(const axis *a, const void *codes, size_t i);
void axis_store(const axis *a, void *codes, size_t i, uint32_t code);

/* Field by field; amax and code_amax by their bits. */
bool axis_same_counts(const plumb_counts *a, const plumb_counts *b);

#endif
