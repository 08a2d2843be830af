/* The table of formats against the specifications, and the value of every code against the
 * definition (-1)^s m 2^e, worked out here with ldexp and long double, and against codes that
 * the specifications print.
 */
#include "plumb/format.h"

#include <float.h>
#include <math.h>

#include "bits.h"
#include "check.h"

/* What the specifications say of a format, typed from them and not from the table. */
typedef struct spec {
    const char *name;
    int sign, exponent, fraction, bias;
    uint32_t largest;           /* code */
    uint32_t infinity;          /* code, 0 where there is none */
    uint32_t nan_low, nan_high; /* magnitudes that are NaN: none if low > high */
    uint32_t one;               /* code of 1 */
} spec;

static const spec specs[PLUMB_FORMAT_COUNT] = {
    [PLUMB_FP32] = {"fp32", 1, 8, 23, 127, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fffffff,
                    0x3f800000},
    [PLUMB_BF16] = {"bf16", 1, 8, 7, 127, 0x7f7f, 0x7f80, 0x7f81, 0x7fff, 0x3f80},
    [PLUMB_E4M3] = {"e4m3", 1, 4, 3, 7, 0x7e, 0, 0x7f, 0x7f, 0x38},
    [PLUMB_E5M2] = {"e5m2", 1, 5, 2, 15, 0x7b, 0x7c, 0x7d, 0x7f, 0x3c},
    [PLUMB_FP16] = {"fp16", 1, 5, 10, 15, 0x7bff, 0x7c00, 0x7c01, 0x7fff, 0x3c00},
    [PLUMB_TF32] = {"tf32", 1, 8, 10, 127, 0x3fbff, 0x3fc00, 0x3fc01, 0x3ffff, 0x1fc00},
    [PLUMB_E4M3FNUZ] = {"e4m3fnuz", 1, 4, 3, 8, 0x7f, 0, 1, 0, 0x40},
    [PLUMB_E5M2FNUZ] = {"e5m2fnuz", 1, 5, 2, 16, 0x7f, 0, 1, 0, 0x40},
    [PLUMB_E3M2] = {"e3m2", 1, 3, 2, 3, 0x1f, 0, 1, 0, 0x0c},
    [PLUMB_E2M3] = {"e2m3", 1, 2, 3, 1, 0x1f, 0, 1, 0, 0x08},
    [PLUMB_E2M1] = {"e2m1", 1, 2, 1, 1, 0x07, 0, 1, 0, 0x02},
    [PLUMB_E8M0] = {"e8m0", 0, 8, 0, 127, 0xfe, 0, 0xff, 0xff, 0x7f},
    [PLUMB_UE4M3] = {"ue4m3", 0, 4, 3, 7, 0x7e, 0, 0x7f, 0x7f, 0x38},
};

static bool is_fnuz(plumb_format format)
{
    return format == PLUMB_E4M3FNUZ || format == PLUMB_E5M2FNUZ;
}

/* The value of a magnitude by its fields.  e8m0 alone has no subnormals. */
static long double magnitude_of(plumb_format format, uint32_t magnitude)
{
    const spec *s = &specs[format];
    const int exponent = (int)(magnitude >> s->fraction);
    const uint32_t fraction = magnitude & ((1u << s->fraction) - 1u);
    const long double m = ldexpl((long double)fraction, -s->fraction);

    if (exponent == 0 && format != PLUMB_E8M0)
        return ldexpl(m, 1 - s->bias);
    return ldexpl(1.0L + m, exponent - s->bias);
}

static float wanted(plumb_format format, uint32_t code)
{
    const spec *s = &specs[format];
    const int bits = s->sign + s->exponent + s->fraction;
    const uint32_t sign = s->sign != 0 ? 1u << (bits - 1) : 0;
    const uint32_t magnitude = code & ~sign;

    if (bits < 32 && code >> bits != 0)
        return NAN;
    if (is_fnuz(format) && code == sign)
        return NAN;
    if (magnitude >= s->nan_low && magnitude <= s->nan_high)
        return NAN;
    const bool infinite = s->infinity != 0 && magnitude == s->infinity;
    const float value = infinite ? INFINITY : (float)magnitude_of(format, magnitude);

    return (code & sign) != 0 ? -value : value;
}

static bool same(float got, float want)
{
    return bits_from(got) == (isnan(want) ? 0x7fc00000u : bits_from(want));
}

/* tf32 is stored as an fp32 whose 13 low bits are zero. */
static uint32_t stored(plumb_format format, uint32_t code)
{
    return format == PLUMB_TF32 ? code << 13 : code;
}

static void row(plumb_format format)
{
    const plumb_format_info *f = plumb_format_get(format);
    const spec *s = &specs[format];
    const bool e8m0 = format == PLUMB_E8M0;
    plumb_format parsed = PLUMB_FORMAT_COUNT;

    if (!CHECK(f != NULL, "no row %d", (int)format))
        return;
    CHECK(strcmp(f->name, s->name) == 0, "row %d is %s", (int)format, f->name);
    CHECK(plumb_format_parse(s->name, &parsed) && parsed == format, "parsed %s as %d",
          s->name, (int)parsed);
    CHECK(f->bits == s->sign + s->exponent + s->fraction, "%s: %d bits", s->name, f->bits);
    CHECK(f->bytes == (f->bits > 16 ? 4 : f->bits > 8 ? 2 : 1), "%s: bytes", s->name);
    CHECK(f->exponent_bits == s->exponent && f->fraction_bits == s->fraction &&
              f->bias == s->bias && f->is_signed == (s->sign != 0),
          "%s: fields", s->name);
    CHECK(f->emin == (e8m0 ? -127 : 1 - s->bias), "%s: emin %d", s->name, f->emin);
    CHECK((double)f->least_normal == ldexp(1, f->emin), "%s: least normal", s->name);
    CHECK((double)f->least == ldexp(1, f->emin - s->fraction), "%s: least", s->name);
    CHECK(f->largest_code == stored(format, s->largest), "%s: largest code", s->name);
    CHECK((long double)f->largest == magnitude_of(format, s->largest), "%s: largest %a",
          s->name, (double)f->largest);
    CHECK(ilogb((double)f->largest) == f->emax, "%s: emax %d", s->name, f->emax);
    CHECK(same(plumb_format_value(format, f->largest_code), f->largest), "%s: its value",
          s->name);
    CHECK(same(plumb_format_value(format, stored(format, s->one)), 1.0f), "%s: one",
          s->name);
}

/* What kind of codes there are beyond the numbers, and which NaN is stored. */
static void specials(plumb_format format)
{
    const plumb_format_info *f = plumb_format_get(format);
    const spec *s = &specs[format];
    const bool has_nan = s->nan_low <= s->nan_high || is_fnuz(format);
    const plumb_special kind = is_fnuz(format)    ? PLUMB_SPECIAL_FNUZ
                               : s->infinity != 0 ? PLUMB_SPECIAL_IEEE
                               : has_nan          ? PLUMB_SPECIAL_NAN
                                                  : PLUMB_SPECIAL_NONE;

    CHECK(f->special == kind, "%s: special %d", s->name, (int)f->special);
    CHECK(f->has_infinity == (s->infinity != 0), "%s: has_infinity", s->name);
    CHECK((f->nan_code != 0) == has_nan, "%s: nan_code %x", s->name, f->nan_code);
    CHECK(!has_nan || isnan(plumb_format_value(format, f->nan_code)),
          "%s: its NaN is a number", s->name);
}

static void rows(void)
{
    for (int i = 0; i < PLUMB_FORMAT_COUNT; i++) {
        row((plumb_format)i);
        specials((plumb_format)i);
    }
    check_done("rows are as specified");
}

static void refusals(void)
{
    static const char *const wrong[] = {"",    "E4M3",  "e4m3 ",   "e4m3fn", "e4m",
                                        "fp8", "bf16x", "e8m0fnu", "half"};
    plumb_format format = PLUMB_E5M2;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(!plumb_format_parse(wrong[i], &format) && format == PLUMB_E5M2,
              "'%s' was accepted", wrong[i]);
    CHECK(plumb_format_get(PLUMB_FORMAT_COUNT) == NULL, "a row past the end");
    CHECK(plumb_format_get((plumb_format)-1) == NULL, "a row before the start");
    CHECK(plumb_format_decode_table((plumb_format)77) == NULL, "a table for nothing");
    CHECK(isnan(plumb_format_value((plumb_format)77, 0)), "a value of nothing");
    CHECK(isnan(plumb_format_value((plumb_format)-1, 0)), "a value before the start");
    check_done("refusals");
}

static void codes(plumb_format format)
{
    const float *table = plumb_format_decode_table(format);
    const plumb_format_info *f = plumb_format_get(format);
    const uint32_t n = f->bytes == 1 ? 256 : 65536;

    CHECK((table != NULL) == (f->bytes == 1), "%s: table", f->name);
    for (uint32_t c = 0; c < n; c++) {
        const float want = wanted(format, c), got = plumb_format_value(format, c);

        CHECK(same(got, want), "%s %x: %a, want %a", f->name, c, (double)got, (double)want);
        if (table != NULL)
            CHECK(same(table[c], want), "%s %x: table %a", f->name, c, (double)table[c]);
    }
    CHECK(isnan(plumb_format_value(format, n)) && isnan(plumb_format_value(format, n | 1)),
          "%s: a code of too many bits", f->name);
    check_done(f->name);
}

static void wide_codes(void)
{
    for (uint64_t i = 0; i < 0x100000000u; i += 65521) { /* prime */
        const uint32_t c = (uint32_t)i;

        CHECK(same(plumb_format_value(PLUMB_FP32, c), wanted(PLUMB_FP32, c)), "fp32 %x", c);
        CHECK(same(plumb_format_value(PLUMB_TF32, c), wanted(PLUMB_TF32, c >> 13)),
              "tf32 %x", c);
    }
    CHECK(same(plumb_format_value(PLUMB_FP32, 0xffc12345), NAN), "a NaN with a payload");
    CHECK(same(plumb_format_value(PLUMB_TF32, 0x7f800001), INFINITY), "low bits of tf32");
    check_done("fp32 and tf32");
}

/* OFP8 1.0 table 1, MX 1.0 tables 1 to 4, IEEE 754; fnuz: arXiv 2206.02915. */
static void printed_codes(void)
{
    static const struct {
        plumb_format format;
        uint32_t code;
        float value;
    } printed[] = {
        {PLUMB_E4M3, 0x7e, 448.0f},
        {PLUMB_E4M3, 0x08, 0.015625f},
        {PLUMB_E4M3, 0x07, 0.013671875f},
        {PLUMB_E4M3, 0x81, -0.001953125f},
        {PLUMB_E4M3, 0x80, -0.0f},
        {PLUMB_E5M2, 0x7b, 57344.0f},
        {PLUMB_E5M2, 0xfc, -INFINITY},
        {PLUMB_E5M2, 0x01, 1.52587890625e-5f},
        {PLUMB_E4M3FNUZ, 0x7f, 240.0f},
        {PLUMB_E4M3FNUZ, 0x80, NAN},
        {PLUMB_E4M3FNUZ, 0x81, -0x1p-10f},
        {PLUMB_E5M2FNUZ, 0x7f, 57344.0f},
        {PLUMB_E5M2FNUZ, 0x80, NAN},
        {PLUMB_E3M2, 0x1f, 28.0f},
        {PLUMB_E3M2, 0x01, 0.0625f},
        {PLUMB_E3M2, 0x03, 0.1875f},
        {PLUMB_E2M3, 0x3f, -7.5f},
        {PLUMB_E2M3, 0x07, 0.875f},
        {PLUMB_E2M1, 0x1, 0.5f},
        {PLUMB_E2M1, 0x3, 1.5f},
        {PLUMB_E2M1, 0xf, -6.0f},
        {PLUMB_E8M0, 0, 0x1p-127f},
        {PLUMB_E8M0, 127, 1.0f},
        {PLUMB_E8M0, 254, 0x1p127f},
        {PLUMB_E8M0, 255, NAN},
        {PLUMB_UE4M3, 0x7f, NAN},
        {PLUMB_UE4M3, 0x80, NAN},
        {PLUMB_FP16, 0x7bff, 65504.0f},
        {PLUMB_FP16, 0x0001, 5.960464477539063e-8f},
        {PLUMB_BF16, 0x7f7f, 3.3895313892515355e38f},
    };

    for (size_t i = 0; i < sizeof printed / sizeof printed[0]; i++)
        CHECK(
            same(plumb_format_value(printed[i].format, printed[i].code), printed[i].value),
            "%s %x", plumb_format_get(printed[i].format)->name, printed[i].code);
    check_done("codes that the specifications print");
}

int main(void)
{
    rows();
    refusals();
    for (int i = 0; i < PLUMB_FORMAT_COUNT; i++)
        if (plumb_format_get((plumb_format)i)->bytes < 4)
            codes((plumb_format)i);
    wide_codes();
    printed_codes();
    return check_exit();
}
