/* file/text.h - words from outside: whole-token numbers, printable excerpts.
 *
 * Numbers are read and written as in the C locale, whatever the locale of the process is.
 */
#ifndef PLUMB_FILE_TEXT_H
#define PLUMB_FILE_TEXT_H

#include "plumb/base.h"

enum { PLUMB_REAL_TEXT = 32 };

/* The whole of text as a number: optional sign, decimal digits; for reals also a point and
 * an exponent.  No spaces, hexadecimal, infinity or NaN.  False when text is no such number
 * or does not fit.
 */
bool plumb_text_to_int(const char *text, int64_t *value);
bool plumb_text_to_uint(const char *text, uint64_t *value);
bool plumb_text_to_real(const char *text, double *value);

/* The shortest of the decimal forms with 1 to 17 digits that reads back as value. */
void plumb_text_from_real(double value, char text[PLUMB_REAL_TEXT]);

/* A bound of a range as people write it: 10, 0.999999, 1000000, 1e9, 9e15, 1e-6. */
void plumb_text_from_limit(double value, char text[PLUMB_REAL_TEXT]);

/* plumb_text_to_real for fp32, with one rounding (to nearest), and with hexadecimal ("0x1.8p-3"), "inf"
 * and "nan" in any case.  What is too large becomes infinity.  *exact says whether text and
 * value are the same number.
 */
bool plumb_text_to_float(const char *text, float *value, bool *exact);

/* The shortest decimal form that plumb_text_to_float reads back as value; "inf", "nan". */
void plumb_text_from_float(float value, char text[PLUMB_REAL_TEXT]);

/* Copies at most size - 1 bytes, each control character or byte past ASCII as '?', "..." at
 * the end when something was cut.  For text from outside that goes into a message.
 */
const char *plumb_text_clean(const char *text, size_t length, char *out, size_t size);

/* True when every byte is printable ASCII other than the space, and there is one at least. */
bool plumb_text_is_name(const char *text);

/* The length of the valid UTF-8 at the start of text (RFC 3629: no surrogates, nothing
 * longer than needed); size when all of it is.
 */
size_t plumb_text_utf8(const char *text, size_t size);

/* strdup, and NULL for NULL. */
char *plumb_text_copy(const char *text);

#endif
