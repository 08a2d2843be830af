/* The formats, one row each: what their specifications fix.
 *
 * format.c makes the public table of it and kernel/rule.h the constants of the casts, so a fact
 * stands here and nowhere else.  What follows from a row (bits, exponents, what lies past the
 * largest value) is derived by those two.
 */
#ifndef PLUMB_FORMAT_ROWS_H
#define PLUMB_FORMAT_ROWS_H

/* In the order of plumb_format:
 *
 * ROW(FORMAT, name, sign bits, exponent bits, fraction bits, bias, special codes,
 *     largest, least normal, least, code of the largest value, code that a NaN becomes)
 *
 * fraction bits 0 (e8m0) also says that there is no zero.
 */
/* clang-format off */
#define PLUMB_FORMAT_ROWS(ROW) \
    ROW(FP32, "fp32", 1, 8, 23, 127, IEEE, \
        FLT_MAX, 0x1p-126f, 0x1p-149f, 0x7f7fffffu, 0x7fc00000u) \
    ROW(BF16, "bf16", 1, 8, 7, 127, IEEE, \
        0x1.fep127f, 0x1p-126f, 0x1p-133f, 0x7f7fu, 0x7fc0u) \
    ROW(E4M3, "e4m3", 1, 4, 3, 7, NAN, \
        448.0f, 0x1p-6f, 0x1p-9f, 0x7eu, 0x7fu) \
    ROW(E5M2, "e5m2", 1, 5, 2, 15, IEEE, \
        57344.0f, 0x1p-14f, 0x1p-16f, 0x7bu, 0x7fu) \
    ROW(FP16, "fp16", 1, 5, 10, 15, IEEE, \
        65504.0f, 0x1p-14f, 0x1p-24f, 0x7bffu, 0x7e00u) \
    ROW(TF32, "tf32", 1, 8, 10, 127, IEEE, \
        0x1.ffcp127f, 0x1p-126f, 0x1p-136f, 0x3fbffu, 0x3fe00u) \
    ROW(E4M3FNUZ, "e4m3fnuz", 1, 4, 3, 8, FNUZ, \
        240.0f, 0x1p-7f, 0x1p-10f, 0x7fu, 0x80u) \
    ROW(E5M2FNUZ, "e5m2fnuz", 1, 5, 2, 16, FNUZ, \
        57344.0f, 0x1p-15f, 0x1p-17f, 0x7fu, 0x80u) \
    ROW(E3M2, "e3m2", 1, 3, 2, 3, NONE, \
        28.0f, 0x1p-2f, 0x1p-4f, 0x1fu, 0x1fu) \
    ROW(E2M3, "e2m3", 1, 2, 3, 1, NONE, \
        7.5f, 1.0f, 0x1p-3f, 0x1fu, 0x1fu) \
    ROW(E2M1, "e2m1", 1, 2, 1, 1, NONE, \
        6.0f, 1.0f, 0x1p-1f, 0x7u, 0x7u) \
    ROW(E8M0, "e8m0", 0, 8, 0, 127, NAN, \
        0x1p127f, 0x1p-127f, 0x1p-127f, 0xfeu, 0xffu) \
    ROW(UE4M3, "ue4m3", 0, 4, 3, 7, NAN, \
        448.0f, 0x1p-6f, 0x1p-9f, 0x7eu, 0x7fu)
/* clang-format on */

/* Zero bits below a code of `bits` bits in memory: a tf32 lies in the upper bits of an fp32. */
#define PLUMB_FORMAT_PLACE(bits) ((bits) > 16 ? 32 - (bits) : 0)

#endif
