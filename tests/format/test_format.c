/* The table of formats against itself, and the decode tables against the formula. */
#include "plumb/format.h"

#include <float.h>
#include <math.h>

#include "check.h"

static void rows(void)
{
    static const char *const names[PLUMB_FORMAT_COUNT] = {"fp32", "bf16", "e4m3", "e5m2"};

    for (int i = 0; i < PLUMB_FORMAT_COUNT; i++) {
        const plumb_format_info *f = plumb_format_get((plumb_format)i);
        plumb_format parsed = PLUMB_FORMAT_COUNT;

        if (!CHECK(f != NULL, "no row %d", i))
            continue;
        CHECK(strcmp(f->name, names[i]) == 0, "row %d is %s", i, f->name);
        CHECK(plumb_format_parse(names[i], &parsed) && (int)parsed == i, "parsed %s as %d",
              names[i], (int)parsed);
        CHECK(f->bits == 1 + f->exponent_bits + f->fraction_bits, "%s has %d bits", f->name,
              f->bits);
        CHECK(f->bias == (1 << (f->exponent_bits - 1)) - 1, "%s: bias %d", f->name,
              f->bias);
        CHECK(f->emin == 1 - f->bias, "%s: emin %d", f->name, f->emin);
        CHECK((double)f->least_normal == ldexp(1, f->emin), "%s: least normal", f->name);
        CHECK((double)f->least == ldexp(1, f->emin - f->fraction_bits), "%s: least",
              f->name);
        CHECK(ilogb((double)f->largest) == f->emax, "%s: emax %d", f->name, f->emax);
    }
    check_done("rows are consistent");
}

static void largest(void)
{
    CHECK(plumb_format_get(PLUMB_FP32)->largest == FLT_MAX, "fp32");
    CHECK(plumb_format_get(PLUMB_BF16)->largest == 0x1.fep127f, "bf16");
    CHECK(plumb_format_get(PLUMB_E4M3)->largest == 448.0f, "e4m3");
    CHECK(plumb_format_get(PLUMB_E5M2)->largest == 57344.0f, "e5m2");
    CHECK(!plumb_format_get(PLUMB_E4M3)->has_infinity, "e4m3 has no infinity");
    CHECK(plumb_format_get(PLUMB_E5M2)->has_infinity, "e5m2 has infinities");
    check_done("largest values");
}

static void refusals(void)
{
    static const char *const wrong[] = {"",    "E4M3", "e4m3 ", "e4m3fn",
                                        "e4m", "fp8",  "bf16x"};
    plumb_format format = PLUMB_E5M2;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(!plumb_format_parse(wrong[i], &format) && format == PLUMB_E5M2,
              "'%s' was accepted", wrong[i]);
    CHECK(plumb_format_get(PLUMB_FORMAT_COUNT) == NULL, "a row past the end");
    CHECK(plumb_format_get((plumb_format)-1) == NULL, "a row before the start");
    CHECK(plumb_format_decode_table(PLUMB_BF16) == NULL, "a table for bf16");
    CHECK(plumb_format_decode_table((plumb_format)77) == NULL, "a table for nothing");
    check_done("refusals");
}

/* OFP8 1.0, table 1: the value of a code by its exponent and fraction fields. */
static double value_of(unsigned code, int fraction_bits, int bias)
{
    const int exponent = (int)(code & 0x7fu) >> fraction_bits;
    const int fraction = (int)code & ((1 << fraction_bits) - 1);
    const double magnitude = exponent == 0 ? ldexp(fraction, 1 - bias - fraction_bits)
                                           : ldexp((1 << fraction_bits) + fraction,
                                                   exponent - bias - fraction_bits);

    return code & 0x80u ? -magnitude : magnitude;
}

static bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static void table(plumb_format format, int fraction_bits, int bias, unsigned first_special)
{
    const float *values = plumb_format_decode_table(format);

    for (unsigned code = 0; code < 256; code++) {
        const unsigned magnitude = code & 0x7fu;
        float want = (float)value_of(code, fraction_bits, bias);

        if (magnitude >= first_special) {
            const bool infinite = format == PLUMB_E5M2 && magnitude == first_special;
            const uint32_t nan = 0x7fc00000u;

            memcpy(&want, &nan, sizeof want);
            if (infinite)
                want = code & 0x80u ? -INFINITY : INFINITY;
        }
        CHECK(same_bits(values[code], want), "code %02x: %a, want %a", code,
              (double)values[code], (double)want);
    }
}

int main(void)
{
    rows();
    largest();
    refusals();
    table(PLUMB_E4M3, 3, 7, 0x7f);
    check_done("decode table of e4m3");
    table(PLUMB_E5M2, 2, 15, 0x7c);
    check_done("decode table of e5m2");
    return check_exit();
}
