/* quant/decimal.h - positive numbers as text, without the locale that strtod and printf
 * obey.
 */
#ifndef PLUMB_QUANT_DECIMAL_H
#define PLUMB_QUANT_DECIMAL_H

#include "plumb/base.h"

enum { PLUMB_DECIMAL_TEXT = 24 };

/* Reads all n characters: digits with an optional point and exponent, at most 15
 * significant digits and three of the exponent.  False if the text is anything else; 0 or
 * a value of 2^-126 to FLT_MAX otherwise.
 */
bool plumb_decimal_parse(const char *text, size_t n, float *value);

/* The shortest text that plumb_decimal_parse reads back as value, which is 0 or 2^-126 to
 * FLT_MAX.
 */
void plumb_decimal_print(float value, char text[PLUMB_DECIMAL_TEXT]);

#endif
