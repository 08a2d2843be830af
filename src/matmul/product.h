/* matmul/product.h - one call of plumb_matmul, checked: what, how and where to.
 *
 * The face (matmul.c) checks and chooses; canonical.c, direct.c, sliced.c, lanes.c and emulated.c compute.
 */
#ifndef PLUMB_MATMUL_PRODUCT_H
#define PLUMB_MATMUL_PRODUCT_H

#include "matmul/pack.h"

typedef struct plumb_product {
    const plumb_accumulator *how;
    const plumb_operand *a, *b;
    plumb_scaling scaling;
    plumb_tile tile; /* not empty, inside */
    float *c;
    size_t ldc;
    bool accumulate;
    plumb_extras extras;
    void *workspace;
} plumb_product;

/* K > 0 in both. */
void plumb_canonical_product(const plumb_product *of, const plumb_micro *micro);
void plumb_emulated_product(const plumb_product *of); /* units */

size_t plumb_canonical_workspace(size_t m, size_t n, size_t k);
size_t plumb_emulated_workspace(void);

#endif
