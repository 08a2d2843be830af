/* The table of formats; everything that is true of a format by its parameters alone is
 * read from here.
 */
#include "format/rows.h"
#include "plumb/format.h"

#include <float.h>
#include <string.h>

#define BYTES(bits) ((bits) <= 8 ? 1 : (bits) <= 16 ? 2 : 4)

#define INFO(F, n, s, e, f, b, sp, la, ln, le, lc, nc)                                     \
    [PLUMB_##F] = {                                                                        \
        .name = (n),                                                                       \
        .bits = (s) + (e) + (f),                                                           \
        .bytes = BYTES((s) + (e) + (f)),                                                   \
        .exponent_bits = (e),                                                              \
        .fraction_bits = (f),                                                              \
        .bias = (b),                                                                       \
        .emin = ((f) == 0 ? 0 : 1) - (b),                                                  \
        .emax = (int)((lc) >> (f)) - (b),                                                  \
        .largest = (la),                                                                   \
        .least_normal = (ln),                                                              \
        .least = (le),                                                                     \
        .special = PLUMB_SPECIAL_##sp,                                                     \
        .has_infinity = PLUMB_SPECIAL_##sp == PLUMB_SPECIAL_IEEE,                          \
        .is_signed = (s) != 0,                                                             \
        .largest_code = (lc) << PLUMB_FORMAT_PLACE((s) + (e) + (f)),                       \
        .nan_code = PLUMB_SPECIAL_##sp == PLUMB_SPECIAL_NONE                               \
                        ? 0                                                                \
                        : (nc) << PLUMB_FORMAT_PLACE((s) + (e) + (f)),                     \
    },

static const plumb_format_info formats[PLUMB_FORMAT_COUNT] = {PLUMB_FORMAT_ROWS(INFO)};

const plumb_format_info *plumb_format_get(plumb_format format)
{
    if ((unsigned)format >= PLUMB_FORMAT_COUNT)
        return NULL;
    return &formats[format];
}

bool plumb_format_parse(const char *name, plumb_format *format)
{
    for (unsigned i = 0; i < PLUMB_FORMAT_COUNT; i++) {
        if (strcmp(name, formats[i].name) == 0) {
            *format = (plumb_format)i;
            return true;
        }
    }
    return false;
}
