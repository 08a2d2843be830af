/* matmul/exact.h - a sum without error: one fixed-point number wide enough for everything.
 *
 * 1,792 bits from 2^-896 on hold the sum of up to 2^64 products of two fp32 and four fp32
 * scales.  Addition is associative, so no result depends on an order.
 */
#ifndef PLUMB_MATMUL_EXACT_H
#define PLUMB_MATMUL_EXACT_H

#include "matmul/round.h"

enum { PLUMB_EXACT_LIMBS = 56, PLUMB_EXACT_LOWEST = -896 };

/* Limb i counts 2^(32 i - 896); carries wait in its upper half.  Zero-initialise. */
typedef struct plumb_exact {
    int64_t limb[PLUMB_EXACT_LIMBS];
    uint32_t added;     /* since the carries were last propagated */
    uint8_t below;      /* limbs from the lowest one in use up to the top */
    uint8_t last;       /* the highest one in use, before carries */
    bool nan, up, down; /* NaN seen; an infinity of either sign seen */
} plumb_exact;

/* (-1)^negative * sum over limbs of limb[i] * 2^(32 i + e): a product of whole numbers. */
enum { PLUMB_WHOLE_LIMBS = 8 };
typedef struct plumb_whole {
    uint32_t limb[PLUMB_WHOLE_LIMBS];
    int count; /* limbs in use */
    int e;
    bool negative;
} plumb_whole;

plumb_whole plumb_whole_from(bool negative, uint64_t high, uint64_t low, int e);

/* x *= d, exactly.  d is finite; at most four of them after `from`. */
void plumb_whole_scale(plumb_whole *x, float d);

/* |x| = *m * 2^(what it returns), x normal. */
int plumb_double_parts(double x, uint64_t *m);

void plumb_exact_add(plumb_exact *sum, const plumb_whole *x);
void plumb_exact_add_double(plumb_exact *sum, double x, int e); /* x * 2^e, x normal */
void plumb_exact_add_float(plumb_exact *sum, float x);          /* infinities and NaN too */

/* The sum, rounded once; every NaN is 0x7FC00000. */
float plumb_exact_round(plumb_exact *sum, const plumb_result *to);

#endif
