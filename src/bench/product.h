/* product.h - square products of random codes, for the rows that multiply. */
#ifndef BENCH_PRODUCT_H
#define BENCH_PRODUCT_H

#include "bench/peer.h"
#include "matmul/micro.h"

/* What a product row multiplies: C[n, n] = A[n, n] B[n, n]^T, transposed in storage or not. */
typedef struct bench_shape {
    const char *name;  /* "", "dgrad", ... */
    const char *a, *b; /* specs of the operands, as plumb_spec_parse reads them */
    bool a_turned, b_turned;
} bench_shape;

/* Operands and a result. */
typedef struct bench_product {
    const char *name; /* of the variant: first, see bench_enter_variants */
    const plumb_micro *micro;
    size_t n;
    plumb_quantized qa, qb;
    plumb_operand a, b; /* matrix is set by bench_multiply */
    plumb_tile tile;    /* zero: all */
    float *c;
    plumb_packed packed; /* of B, if bench_product_pack was called */
    void *workspace;
} bench_product;

/* Quantised normal operands, room for the result, the fastest variant. */
plumb_status bench_product_take(bench *b, const bench_shape *shape, size_t n,
                                bench_product *product, plumb_error *why);

/* From then on B is packed already. */
plumb_status bench_product_pack(bench *b, bench_product *product, plumb_error *why);

/* All variants that this CPU may run, slowest first; returns how many. */
size_t bench_product_variants(const bench_product *base,
                              bench_product each[BENCH_VARIANTS]);

void bench_multiply(void *product);

/* Outputs that compare C with what the reference variant gives: all of a small product, three
 * bands of rows of a large one.  want has room for C.
 */
enum { BENCH_WHOLE = 512, BENCH_BAND = 4 };
size_t bench_product_outputs(const bench_product *product, float *want,
                             bench_output outputs[BENCH_OUTPUTS]);

/* What the peers need, for codes of 8 bits without scales: the operands as numbers, the
 * canonical product, and the product of the magnitudes.  NULL for want of memory.
 */
const bench_peer_product *bench_product_for_peers(bench *b, const bench_product *ours,
                                                  plumb_error *why);

#endif
