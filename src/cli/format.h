/* cli/format.h - what the files of `plumb format` share: facts of a format, roundings. */
#ifndef PLUMB_CLI_FORMAT_H
#define PLUMB_CLI_FORMAT_H

#include "cli/cli.h"

#include "plumb/cast.h"

/* What follows from a row of the table of formats. */
typedef struct format_facts {
    plumb_format format;
    const plumb_format_info *info;
    uint64_t all, normal, subnormal, zero, infinite, nan; /* codes */
    int shift;        /* unused low bits of a code: 13 for tf32, else 0 */
    int lowest;       /* exponent of the least value */
    double binades;   /* log2 of largest over least */
    double border;    /* halfway from the largest value to where the next would be */
    bool border_in;   /* the border itself rounds to the largest value */
    float past;       /* what the next number past the border becomes without saturation */
    float under;      /* what least / 2 becomes */
    bool has_borders; /* false: fp32, whose borders are no fp32 numbers */
} format_facts;

format_facts format_facts_of(plumb_format format);

/* Codes with a value of 2^exponent to below 2^(exponent + 1), without the sign. */
uint64_t format_binade(const format_facts *facts, int exponent);

/* One value through plumb_cast_encode: its code, and what was counted (added to *counts). */
uint32_t format_cast(plumb_format format, float x, plumb_rounding rounding, bool saturate,
                     plumb_counts *counts);

/* A value and, for powers of two and the like, its significand and exponent:
 * "0.015625", "2^-6", "1.75 x 2^8".
 */
enum { FORMAT_NUMBER = 40 };
void format_decimal(float value, char text[FORMAT_NUMBER]);
void format_binary(float value, char text[FORMAT_NUMBER]);
void format_code(const format_facts *facts, uint32_t code, char text[FORMAT_NUMBER]);

enum { FORMAT_MOST_NUMBERS = 64 };

/* How `words` round (the first is the format's name): prints it, or adds "values" to *json when
 * that is not NULL.
 */
int format_show_values(const format_facts *facts, const cli_words *words, json_t *json);

#endif
