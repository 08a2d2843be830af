/* plumb/matmul.h - matrix products with a stated accumulator.
 *
 * The canonical accumulator is `fp32`, in an order that every machine can reproduce (it is what
 * one AMX TDPBF16PS step computes):
 *
 *   K is cut into blocks of 32, the last padded with +0.  In each block
 *     even = fma(a[30],b[30], ... fma(a[2],b[2], fma(a[0],b[0], +0)))
 *     odd  = fma(a[31],b[31], ... fma(a[3],b[3], fma(a[1],b[1], +0)))
 *     c    = c + (even + odd)
 *   starting from c = +0.  Operands and intermediate results below 2^-126 in
 *   magnitude (tininess after rounding) count as zero of the same sign.
 *
 * Scales, for every accumulator but `exact`.  Let L be the least length along K of a block of
 * either operand (1x128 and 128x128: 128; mx32: 32; nvfp4: 16).  The sum runs inside each L of
 * K, from +0, on the codes alone, and
 *     C = fma(sum, da * db, C)      in order of K, from C = +0
 * joins the blocks in fp32, d being the scale of tensor, row or block; an operand without has
 * d = 1.  With no scale for a part of K (tensor and row only) all of K is one block; with no
 * scales at all nothing is multiplied.  The scale d_tensor of nvfp4 comes last, once:
 * C = fma(C, da_tensor * db_tensor, +0).
 *   The canonical product flushes scales, their products and every join below 2^-126 like
 * everything else: an MX scale of 2^-127 is a zero there.  The other accumulators join in IEEE
 * fp32 with subnormals.
 *
 * Every NaN that is stored is 0x7FC00000; those of GPU units are in plumb_unit.
 *
 * Single-threaded, no allocation, no state: several threads may compute disjoint tiles
 * of one product, and the bits depend neither on the tiling nor on the instruction set.  The
 * caller's MXCSR is saved, set to round-to-nearest, and restored, its exception flags too.
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
    PLUMB_SUM_FP32 = 0,     /* the canonical order above */
    PLUMB_SUM_EXACT,        /* sum of the decoded operands without error, rounded once */
    PLUMB_SUM_HOPPER_WGMMA, /* wgmma, E4M3 and E5M2 */
    PLUMB_SUM_HOPPER_MMA,   /* mma.sync with FP8 operands on Hopper: two fp16 additions */
    PLUMB_SUM_ADA_MMA,      /* mma.sync, E4M3 and E5M2 */
    PLUMB_SUM_BLACKWELL_TCGEN05, /* tcgen05, 8-, 6- and 4-bit operands, MX scales */
    PLUMB_SUM_HOPPER_16,         /* wgmma and mma.sync, bf16 and fp16 (and tf32) */
    PLUMB_SUM_AMPERE_16,         /* mma.sync, bf16 and fp16 (and tf32); Ada too */
    PLUMB_SUM_VOLTA_16,          /* mma.sync, fp16 */
    PLUMB_SUM_COUNT
} plumb_sum_kind;

/* Zero-initialised it is the canonical one with fp32 results. */
typedef struct plumb_accumulator {
    plumb_sum_kind kind;

    /* Every 128 of K the partial sum is added to an fp32 one and begins again at +0 (CUTLASS,
     * DeepGEMM: "split accumulation"; DeepSeek-V3, arXiv 2412.19437, section 3.3.2).
     */
    bool promote128;

    /* PLUMB_FP32 or PLUMB_FP16: format of the results, stored as float in either case. */
    plumb_format output;
} plumb_accumulator;

/* "hopper-wgmma", "fp32", "exact", with "+promote128" and "+fp16" behind, in that order.
 * PLUMB_BAD_INPUT with a sentence that lists what is allowed; *how is untouched then.
 */
plumb_status plumb_accumulator_parse(const char *text, plumb_accumulator *how,
                                     plumb_error *why);

/* What parse reads back as the same.  NULL is the canonical one, "fp32". */
enum { PLUMB_ACCUMULATOR_TEXT = 48 };
void plumb_accumulator_print(const plumb_accumulator *how,
                             char text[PLUMB_ACCUMULATOR_TEXT]);

/* "hopper-wgmma", ...: the first word of the text.  NULL if kind is out of range. */
const char *plumb_sum_kind_name(plumb_sum_kind kind);

/* --- GPU matrix units ------------------------------------------------------ */

/* What a row of the table rests on. */
typedef enum plumb_evidence {
    PLUMB_EVIDENCE_HARDWARE = 0, /* outputs of the chip, no mismatch */
    PLUMB_EVIDENCE_TWO_SOURCES,  /* two independent models agree; no outputs */
    PLUMB_EVIDENCE_ONE_SOURCE,   /* one published model */
} plumb_evidence;

/* "hardware vectors", "two sources", "one source". */
const char *plumb_evidence_name(plumb_evidence evidence);

enum { PLUMB_UNIT_MAX_TERMS = 64, PLUMB_UNIT_MAX_FRACTION = 32, PLUMB_UNIT_MAX_NVFP4 = 36 };

/* A matrix unit, by one rule with parameters (Khattak and Mikaitis, arXiv 2512.07004; Xie et
 * al., MMA-Sim, arXiv 2511.10909).  One fused addition of products P_i = a_i b_i and C:
 *
 *   1  The exponent of a product is ea + eb, that of its operands as they are coded: neither
 *      the product (1 <= significand < 4) nor a subnormal (exponent emin) is normalised.  C has
 *      its own, at least emin of the results.  Zeros have none.
 *   2  E = the largest of these, at least floor.  Every P_i and C is truncated toward zero to
 *      a multiple of 2^(E - fraction_bits).
 *   3  The terms are added without error.  The sum is rounded once: fp32 results as `rounding`
 *      says to result_bits fraction bits (the bits below are 0), fp16 results to nearest even;
 *      with subnormals, infinity from 2^128 (fp16: what rounds to 2^16) on.  What is zero, or
 *      rounds to it, is +0.
 *
 * NaN when an operand, or C, is NaN, for 0 * infinity, and for infinities of both signs, else
 * the infinity if there is one; products that are finite do not overflow.  K longer than one
 * fused addition: result by result in order of K, each being C of the next.
 */
typedef struct plumb_unit {
    const char *name;

    /* Bit 1 << format for each format of operands it takes.  Formats of at most 8 bits may be
     * mixed, wider ones not.
     */
    uint32_t formats;

    /* Products of one fused addition, 1 to PLUMB_UNIT_MAX_TERMS, with operands of at most 8
     * bits, of bf16 and fp16, and of tf32.
     */
    int terms_8, terms_16, terms_tf32;

    int fraction_bits;       /* kept of every term, 1 to PLUMB_UNIT_MAX_FRACTION */
    int result_bits;         /* of an fp32 result, 1 to 23 */
    plumb_rounding rounding; /* of an fp32 result: toward zero or nearest even */
    int floor_fp32;          /* least E for fp32 results; -1024: none */
    int floor_fp16;          /* for fp16 results */

    /* 0: C is a term of every fused addition.  Else C is no term: each so many products are
     * summed from +0, and C is added to that sum by one IEEE addition in the format of the
     * results.  With interleaved, products with k mod 4 in {0, 1} then come first and those in
     * {2, 3} after them, in each addend_every; otherwise they come in order of k.
     */
    int addend_every;
    bool interleaved;

    /* Operands are widened to fp16 first: an E4M3 subnormal, which is a normal fp16, then has
     * its own exponent (2^-9: -9, not -6).
     */
    bool as_fp16;

    /* MX scales (mx32) are part of the unit: their exponents are added to those of the
     * products, and nothing is joined.
     */
    bool block_scales;

    /* nvfp4 by nvfp4 (e2m1) is part of the unit, if not 0: 64 products are four exact sums of
     * 16; each is one term together with its two scales, with the sum of their exponents (even
     * when it is zero), C is another, and this many fraction bits are kept, at most
     * PLUMB_UNIT_MAX_NVFP4.
     */
    int nvfp4_bits;

    uint32_t nan_fp32, nan_fp16; /* bits of a NaN result as stored, the fp16 one widened */
    plumb_evidence evidence;
    const char *source; /* of the evidence, one line */
} plumb_unit;

/* The row of a kind; NULL for fp32, exact and what is out of range. */
const plumb_unit *plumb_unit_get(plumb_sum_kind kind);

/* PLUMB_UNSUPPORTED with a sentence that names unit, formats and what it takes, unless it
 * multiplies a by b; PLUMB_BAD_ARGUMENT for a row with fields outside their ranges.
 */
plumb_status plumb_unit_takes(const plumb_unit *unit, plumb_format a, plumb_format b,
                              plumb_error *why);

/* One result: *d = c + sum over k of a[k] * b[k], as `unit` (a row of the table, or any other,
 * from a probe for example) computes it.  Codes are contiguous, in memory as in
 * plumb_quantized.  This is the definition of all units; plumb_matmul gives the same bits.
 *
 * output is PLUMB_FP32 or PLUMB_FP16; c is rounded to it first (nearest even), as the unit
 * can hold nothing else.  K = 0 gives c.  The caller's rounding mode plays no part.
 */
plumb_status plumb_unit_dot(const plumb_unit *unit, plumb_format output,
                            plumb_format a_format, const void *a, plumb_format b_format,
                            const void *b, size_t k, float c, float *d, plumb_error *why);

/* --- products --------------------------------------------------------------- */

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
 * same for every instruction set; below 1 MiB.  Align it to 64 bytes.  how NULL: canonical.
 */
size_t plumb_matmul_workspace_bytes(const plumb_accumulator *how, size_t m, size_t n,
                                    size_t k);

/* C[m, n] = sum over k of A[m, k] * B[n, k], or C += that sum with accumulate.
 *
 * how: NULL is the canonical accumulator with fp32 results.
 *   fp32          any two formats but e8m0 and ue4m3.  fp16 results: the fp32 ones, rounded.
 *   exact         the same formats.  The real sum of (code * d)(code * d), all scales included,
 *                 rounded once to the nearest result, ties to even, with subnormals; infinities
 *                 and NaN as IEEE; a zero sum is +0.
 *   GPU units     formats as plumb_unit says, scales as above, or inside where block_scales
 *                 (both operands mx32, or one of them and the other without scales) and
 *                 nvfp4_bits say so (both nvfp4; d_tensor comes last all the same).
 *   +promote128   the same with L at most 128, joined with da * db where a scale belongs to a
 *                 part of K, else with 1 (and scales of tensor and row once, at the end).  Exact
 *                 sums are then those of the codes in a block, rounded to the result format.
 *
 * C is row-major fp32 with leading dimension ldc.  Layouts of the three GEMMs of a linear
 * layer y[M,N] = x[M,K] w[N,K]^T: fprop (x, w); dgrad (dy, w transposed); wgrad (dy
 * transposed, x transposed).  K = 0 gives +0 (or leaves C with accumulate).  Scales of row,
 * 1x128, mx32 and nvfp4 must have their blocks along K.
 *
 * accumulate: old C is part of the exact sum, and C of the first fused addition, where nothing
 * is joined or scaled afterwards; else old C + sum is one rounded fp32 addition (canonical:
 * with subnormals flushed as above).  With fp16 results old C is rounded to fp16 first where
 * it enters a unit, and every result is rounded to fp16 at the end.
 *
 * PLUMB_BAD_SHAPE when the inner sizes differ, blocks do not lie along K, the tile leaves the
 * matrix, or sizes overflow; PLUMB_BAD_ARGUMENT for a *how out of range, or for scales
 * inside a unit that are no values of E8M0 or UE4M3; PLUMB_UNSUPPORTED for formats that the kind
 * does not take.  C is then untouched.
 */
plumb_status plumb_matmul(const plumb_accumulator *how, const plumb_operand *a,
                          const plumb_operand *b, float *c, size_t ldc, bool accumulate,
                          plumb_tile tile, void *workspace, plumb_error *why);

/* --- what a product may be given besides ------------------------------------ */

/* B as the micro-kernels of this machine read it: decoded, turned and padded, once for many
 * products.  The bytes are good in the process that wrote them and for as long as
 * plumb_cpu_limit is left alone; they hold copies of codes and MX scales, which must be the same
 * in every product that gets them.  Plain data; threads may share one.
 */
typedef struct plumb_packed {
    const void *kernel; /* whose layout it is */
    const float *x;     /* the memory given to plumb_pack */
    size_t n, k;
    bool folded; /* MX scales are multiplied in */
} plumb_packed;

/* Bytes that B takes when packed for the canonical accumulator: two or four for each code, in whole
 * slivers.  PLUMB_BAD_SHAPE when that is no size; what plumb_matmul says about B itself.
 */
plumb_status plumb_packed_need(const plumb_operand *b, size_t *bytes, plumb_error *why);

/* Packs B into memory of so many bytes, aligned to 64. */
plumb_status plumb_pack(const plumb_operand *b, void *memory, plumb_packed *packed,
                        plumb_error *why);

/* What is done with results while they are in the cache, in the pass that stores them: the same bytes
 * and counts as by plumb_cast_encode on the stored C, row by row.
 *
 * Each call adds to counts and raises *amax: give every thread its own and add them up
 * (plumb_counts_add, the larger amax), in any order.
 */
typedef struct plumb_epilogue {
    float *amax; /* largest |C|, ignoring NaN (plumb_cast_amax); NULL: not wanted */

    /* NULL: C is not cast.  The scale is known before the product (delayed and static scaling).
     * C[i, j] is element i * n + j, whatever ldc, for the bits of a stochastic rounding.
     */
    const plumb_cast *cast;
    void *codes; /* of C[i, j] at i * ld + j */
    size_t ld;
    plumb_counts *counts; /* NULL: not wanted */
} plumb_epilogue;

/* Zero-initialised: nothing. */
typedef struct plumb_extras {
    /* Of this B.  The product reads it if it can, and packs B itself if it cannot: for other
     * accumulators, formats of A that another kernel takes, tiles whose first column is no multiple
     * of 32, blocks of nvfp4, MX scales near the limits of fp32.  The bits are the same.
     */
    const plumb_packed *packed;

    const plumb_epilogue *epilogue;
} plumb_extras;

/* plumb_matmul with extras (which may be NULL).  With a cast and the canonical accumulator c may be
 * NULL, unless it accumulates: then there are codes alone.
 *
 * Besides what plumb_matmul says: PLUMB_BAD_SHAPE for a packed B of another shape and for ld
 * below n, PLUMB_BAD_ARGUMENT for a missing c, what plumb_cast_encode says about the cast.  Nothing
 * is written then.
 */
plumb_status plumb_matmul_extended(const plumb_accumulator *how, const plumb_operand *a,
                                   const plumb_operand *b, float *c, size_t ldc,
                                   bool accumulate, plumb_tile tile,
                                   const plumb_extras *extras, void *workspace,
                                   plumb_error *why);

#ifdef __cplusplus
}
#endif
#endif
