/* The table of formats; everything that is true of a format by its parameters alone is
 * read from here.
 */
#include "plumb/format.h"

#include <float.h>
#include <string.h>

static const plumb_format_info formats[PLUMB_FORMAT_COUNT] = {
    [PLUMB_FP32] = {.name = "fp32",
                    .bits = 32,
                    .exponent_bits = 8,
                    .fraction_bits = 23,
                    .bias = 127,
                    .emin = -126,
                    .emax = 127,
                    .largest = FLT_MAX,
                    .least_normal = 0x1p-126f,
                    .least = 0x1p-149f,
                    .has_infinity = true},
    [PLUMB_BF16] = {.name = "bf16",
                    .bits = 16,
                    .exponent_bits = 8,
                    .fraction_bits = 7,
                    .bias = 127,
                    .emin = -126,
                    .emax = 127,
                    .largest = 0x1.fep127f,
                    .least_normal = 0x1p-126f,
                    .least = 0x1p-133f,
                    .has_infinity = true},
    [PLUMB_E4M3] = {.name = "e4m3",
                    .bits = 8,
                    .exponent_bits = 4,
                    .fraction_bits = 3,
                    .bias = 7,
                    .emin = -6,
                    .emax = 8,
                    .largest = 448.0f,
                    .least_normal = 0x1p-6f,
                    .least = 0x1p-9f,
                    .has_infinity = false},
    [PLUMB_E5M2] = {.name = "e5m2",
                    .bits = 8,
                    .exponent_bits = 5,
                    .fraction_bits = 2,
                    .bias = 15,
                    .emin = -14,
                    .emax = 15,
                    .largest = 57344.0f,
                    .least_normal = 0x1p-14f,
                    .least = 0x1p-16f,
                    .has_infinity = true},
};

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
