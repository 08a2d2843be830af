/* Numbers as text for people: fp32 with one rounding, said to be exact or not, and the shortest
 * text back.  Expected bits are literals, most of them beside ties where rounding twice fails.
 */
#include "file/text.h"

#include <fenv.h>
#include <math.h>

#include "bits.h"
#include "check.h"

static void reading(void)
{
    static const struct {
        const char *text;
        uint32_t bits;
        bool exact;
    } table[] = {
        {"0", 0, true},
        {"-0", 0x80000000, true},
        {"1", 0x3f800000, true},
        {"+.5", 0x3f000000, true},
        {"0.1", 0x3dcccccd, false},
        {"16777217", 0x4b800000, false}, /* tie, to even */
        {"16777219", 0x4b800002, false}, /* tie, to even */
        {"16777217.000000000000000000001", 0x4b800001, false},
        {"1.00000005960464477539062500000000000001", 0x3f800001, false}, /* past the tie */
        {"1.000000059604644775390625", 0x3f800000, false},               /* the tie */
        {"0x1.000001p0", 0x3f800000, false},
        {"0x1.00000100000000000001p0", 0x3f800001, false},
        {"0x1.000002p0", 0x3f800001, true},
        {"-0X.8P1", 0xbf800000, true},
        {"0x10", 0x41800000, true},
        {"3.4028235e38", 0x7f7fffff, false},
        {"340282346638528859811704183484516925440", 0x7f7fffff, true},
        {"3.5e38", 0x7f800000, false},
        {"1e99999", 0x7f800000, false},
        {"1e-45", 1, false},
        {"0x1p-149", 1, true},
        {"0x1p-150", 0, false},
        {"-1e-99999", 0x80000000, false},
        {"inf", 0x7f800000, true},
        {"-Infinity", 0xff800000, true},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        float x = 7;
        bool exact = !table[i].exact;

        CHECK(plumb_text_to_float(table[i].text, &x, &exact), "%s: refused", table[i].text);
        CHECK(bits_from(x) == table[i].bits && exact == table[i].exact, "%s: %08x, %s",
              table[i].text, bits_from(x), exact ? "exact" : "not exact");
    }
    check_done("fp32 from text");
}

static void refused(void)
{
    static const char *const table[] = {
        "",  " 1",  "1 ", "1,5",    "0x", "0x.", "0xg",   "0x1p", "1e",    "e1",
        ".", "--1", "1f", "nan(1)", "in", "0b1", "1_000", "+",    "0x1p+", "1e1.5"};

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        float x = 7;
        bool exact = true;

        CHECK(!plumb_text_to_float(table[i], &x, &exact) && x == 7, "'%s' is %a", table[i],
              (double)x);
    }
    float x = 7;
    bool exact = false;

    CHECK(plumb_text_to_float("NaN", &x, &exact) && isnan(x) && exact, "NaN");
    check_done("no numbers");
}

static void rounding_mode(void)
{
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST};

    for (size_t i = 0; i < 4; i++) {
        float x = 0;
        bool exact = true;

        fesetround(modes[i]);
        plumb_text_to_float("0.1", &x, &exact);
        const int after = fegetround();

        fesetround(FE_TONEAREST);
        CHECK(after == modes[i], "mode %d became %d", modes[i], after);
        CHECK(bits_from(x) == 0x3dcccccd && !exact, "%08x", bits_from(x));
    }
    check_done("the caller's rounding mode plays no part and stays");
}

static void writing(void)
{
    static const struct {
        uint32_t bits;
        const char *text;
    } table[] = {
        {0, "0"},
        {0x80000000, "-0"},
        {0x3dcccccd, "0.1"},
        {0x43700000, "240"},
        {0x43e00000, "448"},
        {0x47600000, "57344"},
        {0x4e6e6b28, "1e+09"},
        {0x4cbebc20, "100000000"},
        {0x3b000000, "0.001953125"},
        {0x7f7fffff, "3.4028235e+38"},
        {1, "1e-45"},
        {0x7f800000, "inf"},
        {0xff800000, "-inf"},
        {0x7fc00000, "nan"},
        {0xffc00000, "nan"},
    };
    char text[PLUMB_REAL_TEXT];

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        float x;

        memcpy(&x, &table[i].bits, sizeof x);
        plumb_text_from_float(x, text);
        CHECK(strcmp(text, table[i].text) == 0, "%08x is '%s', not '%s'", table[i].bits,
              text, table[i].text);
    }
    for (uint32_t bits = 1; bits < 0x7f800000u; bits += 99991) {
        float x, back = 0;
        bool exact;

        memcpy(&x, &bits, sizeof x);
        plumb_text_from_float(x, text);
        plumb_text_to_float(text, &back, &exact);
        CHECK(bits_from(back) == bits, "%08x came back from '%s' as %08x", bits, text,
              bits_from(back));
    }
    check_done("fp32 to text and back");
}

static void limits(void)
{
    static const struct {
        double value;
        const char *text;
    } table[] = {{0, "0"},
                 {10, "10"},
                 {-3, "-3"},
                 {1000000, "1000000"},
                 {1e9, "1e9"},
                 {9e15, "9e15"},
                 {1e-6, "1e-6"},
                 {0.999999, "0.999999"},
                 {12345678, "12345678"},
                 {0.1, "0.1"},
                 {2.5e-10, "2.5e-10"}};
    char text[PLUMB_REAL_TEXT];

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        plumb_text_from_limit(table[i].value, text);
        CHECK(strcmp(text, table[i].text) == 0, "%g is '%s', not '%s'", table[i].value,
              text, table[i].text);
    }
    check_done("bounds of ranges as people write them");
}

int main(void)
{
    limits();
    reading();
    refused();
    rounding_mode();
    writing();
    return check_exit();
}
