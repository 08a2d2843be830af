/* The table of formats; everything that is true of a format by its parameters alone is
 * read from here.
 */
#include "plumb/format.h"

#include <float.h>
#include <string.h>

/* name, bits, bytes, exponent and fraction bits, bias, emin, emax, largest, least normal, least,
 * special codes, signed, code of the largest value, code of NaN
 */
#define ROW(n, b, by, e, f, bi, lo, hi, la, ln, le, sp, si, lc, nc)                        \
    {                                                                                      \
        .name = (n), .bits = (b), .bytes = (by), .exponent_bits = (e),                     \
        .fraction_bits = (f), .bias = (bi), .emin = (lo), .emax = (hi), .largest = (la),   \
        .least_normal = (ln), .least = (le), .special = PLUMB_SPECIAL_##sp,                \
        .has_infinity = PLUMB_SPECIAL_##sp == PLUMB_SPECIAL_IEEE, .is_signed = (si),       \
        .largest_code = (lc), .nan_code = (nc)                                             \
    }

/* clang-format off */
static const plumb_format_info formats[PLUMB_FORMAT_COUNT] = {
    [PLUMB_FP32] = ROW("fp32", 32, 4, 8, 23, 127, -126, 127,
        FLT_MAX, 0x1p-126f, 0x1p-149f, IEEE, true, 0x7f7fffff, 0x7fc00000),
    [PLUMB_BF16] = ROW("bf16", 16, 2, 8, 7, 127, -126, 127,
        0x1.fep127f, 0x1p-126f, 0x1p-133f, IEEE, true, 0x7f7f, 0x7fc0),
    [PLUMB_E4M3] = ROW("e4m3", 8, 1, 4, 3, 7, -6, 8,
        448.0f, 0x1p-6f, 0x1p-9f, NAN, true, 0x7e, 0x7f),
    [PLUMB_E5M2] = ROW("e5m2", 8, 1, 5, 2, 15, -14, 15,
        57344.0f, 0x1p-14f, 0x1p-16f, IEEE, true, 0x7b, 0x7f),
    [PLUMB_FP16] = ROW("fp16", 16, 2, 5, 10, 15, -14, 15,
        65504.0f, 0x1p-14f, 0x1p-24f, IEEE, true, 0x7bff, 0x7e00),
    [PLUMB_TF32] = ROW("tf32", 19, 4, 8, 10, 127, -126, 127,
        0x1.ffcp127f, 0x1p-126f, 0x1p-136f, IEEE, true, 0x7f7fe000, 0x7fc00000),
    [PLUMB_E4M3FNUZ] = ROW("e4m3fnuz", 8, 1, 4, 3, 8, -7, 7,
        240.0f, 0x1p-7f, 0x1p-10f, FNUZ, true, 0x7f, 0x80),
    [PLUMB_E5M2FNUZ] = ROW("e5m2fnuz", 8, 1, 5, 2, 16, -15, 15,
        57344.0f, 0x1p-15f, 0x1p-17f, FNUZ, true, 0x7f, 0x80),
    [PLUMB_E3M2] = ROW("e3m2", 6, 1, 3, 2, 3, -2, 4,
        28.0f, 0x1p-2f, 0x1p-4f, NONE, true, 0x1f, 0),
    [PLUMB_E2M3] = ROW("e2m3", 6, 1, 2, 3, 1, 0, 2,
        7.5f, 1.0f, 0x1p-3f, NONE, true, 0x1f, 0),
    [PLUMB_E2M1] = ROW("e2m1", 4, 1, 2, 1, 1, 0, 2,
        6.0f, 1.0f, 0x1p-1f, NONE, true, 0x7, 0),
    [PLUMB_E8M0] = ROW("e8m0", 8, 1, 8, 0, 127, -127, 127,
        0x1p127f, 0x1p-127f, 0x1p-127f, NAN, false, 0xfe, 0xff),
    [PLUMB_UE4M3] = ROW("ue4m3", 7, 1, 4, 3, 7, -6, 8,
        448.0f, 0x1p-6f, 0x1p-9f, NAN, false, 0x7e, 0x7f),
};
/* clang-format on */

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
