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

/* One element of the product, before any accumulation. */
float oracle_element(const plumb_operand *a, const plumb_operand *b, size_t i, size_t j);

#endif
