/* Random operands for products: all formats, grains and orientations, in several moods.
 *
 * Codes and scales are allocated to the byte, so that a sanitizer sees a read past the last.
 */
#ifndef TESTS_MATMUL_DRAW_H
#define TESTS_MATMUL_DRAW_H

#include "plumb/matmul.h"

uint32_t draw_bits(void);
size_t draw_below(size_t n);

float draw_float(uint32_t bits); /* the fp32 with these bits */
uint32_t draw_float_bits(float x);

/* Plain numbers; infinities, NaN, subnormals and huge ones; products about 2^-126; signs and
 * equal magnitudes that cancel.
 */
enum mood { PLAIN, HOSTILE, EDGE, CANCEL, MOODS };

/* [outer, depth] of the format, stored either way, with or without scales of the grain. */
plumb_operand draw_operand(plumb_format format, bool scaled, plumb_grain grain,
                           size_t outer, size_t depth, enum mood mood, plumb_quantized *q);
void draw_free(plumb_quantized *q);

/* Part of [m, n], or everything. */
plumb_tile draw_tile(size_t m, size_t n);

/* What was drawn, for messages. */
enum { DRAW_TEXT = 200 };
void draw_describe(char text[DRAW_TEXT], const plumb_operand *a, const plumb_operand *b,
                   enum mood mood);

#endif
