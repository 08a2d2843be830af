/* matmul/fold.h - MX scales multiplied into the packed operands, where that changes no bit.
 *
 * Where a block of K is one chain of 32, the contract joins C = fma(even + odd, da * db, C).  With
 * powers of two multiplied into the operands the chains give (even + odd) * da * db, and C is
 * added to: the same number rounded once, if nothing in the chains leaves the normal range either
 * way.  A panel whose scales do not promise that is joined as it is written.
 */
#ifndef PLUMB_MATMUL_FOLD_H
#define PLUMB_MATMUL_FOLD_H

#include "matmul/pack.h"

/* By the rule in fold.c: of both sides together; of one, whatever the other may be. */
bool plumb_can_fold(plumb_format a_format, const plumb_scales *a, plumb_format b_format,
                    const plumb_scales *b);
bool plumb_can_fold_one(plumb_format format, const plumb_scales *scales);

/* For micro-kernels whose packed operands are fp32. */
plumb_micro_fold plumb_fold_rows, plumb_fold_slivers;

#endif
