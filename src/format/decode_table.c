/* The values of all codes of E4M3 and E5M2, written as the formats define them: a row for
 * each exponent, its significands times a power of two.  Constant expressions, so the
 * tables need no set-up and no lock.
 */
#include "plumb/format.h"

#include <math.h>

/* clang-format off */
#define E4M3_SUBNORMAL(s) \
    (s) * 0x0p-9f, (s) * 0x1p-9f, (s) * 0x2p-9f, (s) * 0x3p-9f, \
    (s) * 0x4p-9f, (s) * 0x5p-9f, (s) * 0x6p-9f, (s) * 0x7p-9f
#define E4M3_SEVEN(u) \
    (u) * 1.000f, (u) * 1.125f, (u) * 1.250f, (u) * 1.375f, (u) * 1.500f, (u) * 1.625f, (u) * 1.750f
#define E4M3_ROW(u) E4M3_SEVEN(u), (u) * 1.875f
#define E4M3_HALF(s) \
    E4M3_SUBNORMAL(s), E4M3_ROW((s) * 0x1p-6f), \
    E4M3_ROW((s) * 0x1p-5f), E4M3_ROW((s) * 0x1p-4f), \
    E4M3_ROW((s) * 0x1p-3f), E4M3_ROW((s) * 0x1p-2f), \
    E4M3_ROW((s) * 0x1p-1f), E4M3_ROW((s) * 0x1p0f), \
    E4M3_ROW((s) * 0x1p1f), E4M3_ROW((s) * 0x1p2f), \
    E4M3_ROW((s) * 0x1p3f), E4M3_ROW((s) * 0x1p4f), \
    E4M3_ROW((s) * 0x1p5f), E4M3_ROW((s) * 0x1p6f), \
    E4M3_ROW((s) * 0x1p7f), E4M3_SEVEN((s) * 0x1p8f), NAN

#define E5M2_ROW(u) (u) * 1.00f, (u) * 1.25f, (u) * 1.50f, (u) * 1.75f
#define E5M2_HALF(s) \
    (s) * 0x0p-16f, (s) * 0x1p-16f, (s) * 0x2p-16f, (s) * 0x3p-16f, \
    E5M2_ROW((s) * 0x1p-14f), E5M2_ROW((s) * 0x1p-13f), E5M2_ROW((s) * 0x1p-12f), \
    E5M2_ROW((s) * 0x1p-11f), E5M2_ROW((s) * 0x1p-10f), E5M2_ROW((s) * 0x1p-9f), \
    E5M2_ROW((s) * 0x1p-8f), E5M2_ROW((s) * 0x1p-7f), E5M2_ROW((s) * 0x1p-6f), \
    E5M2_ROW((s) * 0x1p-5f), E5M2_ROW((s) * 0x1p-4f), E5M2_ROW((s) * 0x1p-3f), \
    E5M2_ROW((s) * 0x1p-2f), E5M2_ROW((s) * 0x1p-1f), E5M2_ROW((s) * 0x1p0f), \
    E5M2_ROW((s) * 0x1p1f), E5M2_ROW((s) * 0x1p2f), E5M2_ROW((s) * 0x1p3f), \
    E5M2_ROW((s) * 0x1p4f), E5M2_ROW((s) * 0x1p5f), E5M2_ROW((s) * 0x1p6f), \
    E5M2_ROW((s) * 0x1p7f), E5M2_ROW((s) * 0x1p8f), E5M2_ROW((s) * 0x1p9f), \
    E5M2_ROW((s) * 0x1p10f), E5M2_ROW((s) * 0x1p11f), E5M2_ROW((s) * 0x1p12f), \
    E5M2_ROW((s) * 0x1p13f), E5M2_ROW((s) * 0x1p14f), E5M2_ROW((s) * 0x1p15f), \
    (s) * INFINITY, NAN, NAN, NAN

static const float e4m3[256] = {E4M3_HALF(1.0f), E4M3_HALF(-1.0f)};
static const float e5m2[256] = {E5M2_HALF(1.0f), E5M2_HALF(-1.0f)};
/* clang-format on */

const float *plumb_format_decode_table(plumb_format format)
{
    if (format == PLUMB_E4M3)
        return e4m3;
    return format == PLUMB_E5M2 ? e5m2 : NULL;
}
