/* quant/spec.h - which specs make sense, and which of their fields mean anything. */
#ifndef PLUMB_QUANT_SPEC_H
#define PLUMB_QUANT_SPEC_H

#include "plumb/quant.h"

/* The formats that take attributes: with a sign and of at most 8 bits. */
bool plumb_format_is_scaled(plumb_format format);
bool plumb_spec_is_scaled(const plumb_spec *spec);

/* Scales with a rule of their own, MX32 and NVFP4: no margin, power of two, divide or floor. */
bool plumb_grain_has_own_rule(plumb_grain grain);

/* The i-th word that may follow a format and a colon ("current", "history="); NULL past the last. */
const char *plumb_spec_word(size_t i);

/* "e4m3" with nothing else said. */
plumb_spec plumb_spec_default(plumb_format format);

/* spec with every field that its format and rule do not use at its default. */
plumb_spec plumb_spec_normal(const plumb_spec *spec);

/* PLUMB_BAD_FORMAT or PLUMB_BAD_ARGUMENT with a sentence when fields contradict each other
 * or are out of range.
 */
plumb_status plumb_spec_check(const plumb_spec *spec, plumb_error *why);

#endif
