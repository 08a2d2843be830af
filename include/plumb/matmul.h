/* plumb/matmul.h - matrix products with a stated accumulator.
 *
 * The accumulator here is `fp32`, the canonical order, chosen because every machine
 * can reproduce it (it is what one AMX TDPBF16PS step computes):
 *
 *   K is cut into blocks of 32, the last padded with +0.  In each block
 *     even = fma(a[30],b[30], ... fma(a[2],b[2], fma(a[0],b[0], +0)))
 *     odd  = fma(a[31],b[31], ... fma(a[3],b[3], fma(a[1],b[1], +0)))
 *     c    = c + (even + odd)
 *   starting from c = +0.  Operands and intermediate results below 2^-126 in
 *   magnitude (tininess after rounding) count as zero of the same sign.
 *
 * With block scales the sum above runs inside each 128 of K, and
 *     C = fma(c, da * db, C)      in order of K, from C = +0
 * joins them (one block over all of K for per-tensor scales; no multiplication at all
 * when neither operand has scales; an operand without has d = 1).  Scales and their product
 * flush below 2^-126 like everything else.  Every NaN that is stored is 0x7FC00000.
 *
 * Single-threaded, no allocation, no state: several threads may compute disjoint tiles
 * of one product, and the bits do not depend on the tiling.  The caller's MXCSR is saved,
 * set to round-to-nearest with flush-to-zero, and restored, its exception flags too.
 */
#ifndef PLUMB_MATMUL_H
#define PLUMB_MATMUL_H

#include "plumb/quant.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What adds up the products of one result.  Names are those of instructions, not of chips; what
 * each does is in plumb_unit_get and, with its evidence, in docs/accumulators.md.  Append only.
 */
typedef enum plumb_sum_kind {
    PLUMB_SUM_FP32 = 0,          /* the canonical order above */
    PLUMB_SUM_EXACT,             /* sum of the decoded operands without error, rounded once */
    PLUMB_SUM_HOPPER_WGMMA,      /* wgmma, E4M3 and E5M2 */
    PLUMB_SUM_HOPPER_MMA,        /* mma.sync with FP8 operands on Hopper: two fp16 additions */
    PLUMB_SUM_ADA_MMA,           /* mma.sync, E4M3 and E5M2 */
    PLUMB_SUM_BLACKWELL_TCGEN05, /* tcgen05, 8-, 6- and 4-bit operands, MX scales */
    PLUMB_SUM_HOPPER_16,         /* wgmma and mma.sync, bf16 and fp16 */
    PLUMB_SUM_AMPERE_16,         /* mma.sync, bf16 and fp16 (Ada too) */
    PLUMB_SUM_VOLTA_16,          /* mma.sync, fp16 */
    PLUMB_SUM_COUNT
} plumb_sum_kind;

/* Zero-initialised it is the canonical one with fp32 results. */
typedef struct plumb_accumulator {
    plumb_sum_kind kind;
    bool promote128;     /* every 128 of K the partial sum is added to an fp32 one and begins
                            again at +0 (CUTLASS, DeepGEMM: "split accumulation") */
    plumb_format output; /* PLUMB_FP32 or PLUMB_FP16: format of the results, which are stored as
                            float in either case */
} plumb_accumulator;

/* "hopper-wgmma", "fp32", "exact", with "+promote128" and "+fp16" behind, in that order.
 * PLUMB_BAD_INPUT with a sentence that lists what is allowed; *how is untouched then.
 */
plumb_status plumb_accumulator_parse(const char *text, plumb_accumulator *how,
                                     plumb_error *why);
enum { PLUMB_ACCUMULATOR_TEXT = 48 };
void plumb_accumulator_print(const plumb_accumulator *how,
                             char text[PLUMB_ACCUMULATOR_TEXT]);

/* One side of a product, seen as [outer, K]: the stored matrix itself, or its transpose. */
typedef struct plumb_operand {
    const plumb_quantized *matrix;
    bool transposed; /* stored as [K, outer] */
} plumb_operand;

/* Part of the result to compute: rows [row, row_end) of A, columns [col, col_end) of B.
 * Zero-initialised means everything.
 */
typedef struct plumb_tile {
    size_t row, row_end, col, col_end;
} plumb_tile;

/* Bytes of scratch that one call needs for a product of this shape or any tile of it, the
 * same for every instruction set; below 1 MiB.  Align it to 64 bytes.
 */
size_t plumb_matmul_workspace_bytes(size_t m, size_t n, size_t k); /* takes `how` first soon */

/* C[m, n] = sum over k of A[m, k] * B[n, k], or C += that sum with accumulate.
 *
 * C is row-major fp32 with leading dimension ldc.  Layouts of the three GEMMs of a linear
 * layer y[M,N] = x[M,K] w[N,K]^T: fprop (x, w); dgrad (dy, w transposed); wgrad (dy
 * transposed, x transposed).  K = 0 gives +0 (or leaves C with accumulate).  A 1x128
 * operand must have its blocks along K.  With accumulate, old C + sum is one rounded
 * addition (with subnormals flushed as above).
 *
 * PLUMB_BAD_SHAPE when the inner sizes differ, blocks do not lie along K, or the tile
 * leaves the matrix; C is then untouched.
 */
plumb_status plumb_matmul(const plumb_operand *a, const plumb_operand *b, float *c,
                          size_t ldc, bool accumulate, plumb_tile tile, void *workspace,
                          plumb_error *why);

#ifdef __cplusplus
}
#endif
#endif
