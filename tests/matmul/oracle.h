/* The canonical product from the text of plumb/matmul.h, in integers.
 *
 * Shares no code with the library: values come from the codes by the definition of the
 * format, and every fused multiply-add is exact in 128-bit integers before it is rounded to
 * 24 bits with unbounded exponent, flushed below 2^-126 and cut to infinity.
 */
#ifndef TESTS_MATMUL_ORACLE_H
#define TESTS_MATMUL_ORACLE_H

#include "plumb/matmul.h"

/* round(a * b + c) with everything below 2^-126 as zero of its sign. */
float oracle_fma(float a, float b, float c);

/* One element of the canonical product, before any accumulation. */
float oracle_element(const plumb_operand *a, const plumb_operand *b, size_t i, size_t j,
                     bool promote128);

/* Value of a code; exponent of the least normal value of its format. */
float oracle_value(plumb_format format, const void *codes, size_t at);
int oracle_emin(plumb_format format);

/* Element (outer, k), 0 past the end of K; its scales; the length of its scale blocks along K
 * (0: none), and the shorter one of two operands.
 */
float oracle_at(const plumb_operand *o, size_t outer, size_t k);
float oracle_scale(const plumb_operand *o, size_t outer, size_t k);
float oracle_tensor_scale(const plumb_operand *o);
size_t oracle_block(const plumb_operand *o);
size_t oracle_joint(const plumb_operand *a, const plumb_operand *b);

/* One element of the product with any other accumulator, from C = old (accumulate) or nothing:
 * the bits, NaN pattern included.  Exact sums need MPFR: oracle_has_exact.
 */
float oracle_emulated(const plumb_accumulator *how, const plumb_operand *a,
                      const plumb_operand *b, size_t i, size_t j, bool accumulate,
                      float old);
bool oracle_has_exact(void);

/* x, exact in fp64, to the nearest fp16. */
float oracle_fp16(double x);

#endif
