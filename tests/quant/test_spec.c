/* Specs as text: every combination of attributes there and back, defaults and inheritance
 * word by word, and what is refused.
 */
#include "plumb/quant.h"
#include "quant/decimal.h"

#include "check.h"

#include <float.h>
#include <locale.h>
#include <math.h>

static bool same_fields(const plumb_spec *a, const plumb_spec *b)
{
    return a->format == b->format && a->grain == b->grain && a->rule == b->rule &&
           a->static_scale == b->static_scale && a->history == b->history &&
           a->margin == b->margin && a->most_recent == b->most_recent &&
           a->saturate == b->saturate && a->power_of_two == b->power_of_two &&
           a->divide == b->divide && a->amax_floor == b->amax_floor;
}

static void there_and_back(const char *text)
{
    plumb_spec spec, again;
    plumb_error why = {0};
    char printed[PLUMB_SPEC_TEXT], twice[PLUMB_SPEC_TEXT];

    if (!CHECK(plumb_spec_parse(text, NULL, &spec, &why) == PLUMB_OK, "\"%s\": %s", text,
               why.message))
        return;
    plumb_spec_print(&spec, printed);
    if (!CHECK(plumb_spec_parse(printed, NULL, &again, &why) == PLUMB_OK,
               "\"%s\" was printed as \"%s\": %s", text, printed, why.message))
        return;
    CHECK(same_fields(&spec, &again), "\"%s\" came back from \"%s\" as another", text,
          printed);
    CHECK(plumb_spec_equal(&spec, &again), "\"%s\" is not equal to itself", text);
    plumb_spec_print(&again, twice);
    CHECK(strcmp(printed, twice) == 0, "\"%s\" is printed as \"%s\" too", printed, twice);
}

/* Each digit of `choice` picks an alternative; the empty one leaves the attribute out. */
static void combinations(void)
{
    static const char *const parts[][5] = {
        {"e4m3", "e5m2"},
        {"", ":tensor", ":1x128", ":128x128"},
        {"", ":none", ":static=0.0123456789", ":current", ":delayed"},
        {"", ":history=1", ":history=1024"},
        {"", ":margin=32"},
        {"", ":max", ":recent"},
        {"", ":saturate", ":overflow"},
        {"", ":pow2", ":nopow2"},
        {"", ":divide", ":multiply"},
        {"", ":floor=1e-12", ":floor=1.17549435e-38"},
    };
    static const int sizes[] = {2, 4, 5, 3, 2, 3, 3, 3, 3, 3};
    enum { PARTS = sizeof sizes / sizeof *sizes };
    int total = 1, legal = 0;

    for (int p = 0; p < PARTS; p++)
        total *= sizes[p];
    for (int choice = 0; choice < total; choice++) {
        char text[4 * PLUMB_SPEC_TEXT] = "";
        plumb_spec spec = {.margin = 77};
        const plumb_spec before = spec;

        for (int p = 0, left = choice; p < PARTS; left /= sizes[p++])
            strcat(text, parts[p][left % sizes[p]]);
        if (plumb_spec_parse(text, NULL, &spec, NULL) == PLUMB_OK) {
            there_and_back(text);
            legal++;
        } else {
            CHECK(memcmp(&spec, &before, sizeof spec) == 0,
                  "\"%s\" was refused, yet written", text);
        }
    }
    CHECK(legal > 5000, "only %d combinations were accepted", legal);
    there_and_back("fp32");
    there_and_back("bf16");
    check_done("every combination there and back");
}

static void expect(const char *text, const plumb_spec *base, plumb_spec want)
{
    plumb_spec spec = {0};
    plumb_error why = {0};

    CHECK_OK(plumb_spec_parse(text, base, &spec, &why), why);
    CHECK(same_fields(&spec, &want), "\"%s\" has unexpected fields", text);
}

static void meaning(void)
{
    const plumb_spec plain = {.format = PLUMB_E4M3,
                              .rule = PLUMB_SCALE_CURRENT,
                              .static_scale = 1,
                              .history = 16,
                              .saturate = true};
    plumb_spec want = plain;
    plumb_spec own = {.format = PLUMB_E4M3,
                      .rule = PLUMB_SCALE_DELAYED,
                      .history = 7,
                      .margin = 2,
                      .most_recent = true,
                      .power_of_two = true,
                      .static_scale = 1};

    expect("e4m3", NULL, plain);
    want.rule = PLUMB_SCALE_STATIC;
    want.static_scale = 0.125f;
    want.saturate = false;
    expect("e4m3:static=0.125:overflow", NULL, want);
    want = plain;
    want.grain = PLUMB_GRAIN_1X128;
    want.divide = true;
    want.amax_floor = 1e-4f;
    expect("e4m3:1x128:divide:floor=1e-4", NULL, want);

    /* Inherited: all of it, unless said otherwise or meaningless under the new rule. */
    want = own;
    want.format = PLUMB_E5M2;
    expect("e5m2", &own, want);
    want = own;
    want.rule = PLUMB_SCALE_CURRENT;
    want.history = 16;
    want.most_recent = false;
    expect("e4m3:current", &own, want);
    want = plain;
    want.saturate = false;
    want.rule = PLUMB_SCALE_NONE;
    expect("e4m3:none", &own, want);
    expect("e4m3", &(plumb_spec){.format = PLUMB_BF16, .margin = 9}, plain);
    own = plain;
    own.divide = true;
    own.amax_floor = 1;
    want = plain;
    want.rule = PLUMB_SCALE_STATIC;
    want.static_scale = 2;
    expect("e4m3:static=2", &own, want);
    expect("bf16", &own, (plumb_spec){.format = PLUMB_BF16, .static_scale = 1});
    check_done("defaults and inheritance");
}

static void canonical_text(void)
{
    plumb_spec spec = {.format = PLUMB_BF16, .margin = 3};
    char text[PLUMB_SPEC_TEXT];

    plumb_spec_print(&spec, text);
    CHECK(strcmp(text, "bf16") == 0, "bf16 is printed as %s", text);
    spec = (plumb_spec){.format = PLUMB_E5M2,
                        .rule = PLUMB_SCALE_DELAYED,
                        .history = 1024,
                        .margin = 1,
                        .most_recent = true};
    plumb_spec_print(&spec, text);
    CHECK(strcmp(text, "e5m2:tensor:delayed:history=1024:margin=1:recent:overflow") == 0,
          "printed as %s", text);
    spec = (plumb_spec){.format = PLUMB_E4M3,
                        .grain = PLUMB_GRAIN_1X128,
                        .rule = PLUMB_SCALE_CURRENT,
                        .saturate = true,
                        .divide = true,
                        .amax_floor = 1e-4f};
    plumb_spec_print(&spec, text);
    CHECK(strcmp(text, "e4m3:1x128:current:divide:floor=0.0001") == 0, "printed as %s",
          text);
    spec.format = (plumb_format)99;
    plumb_spec_print(&spec, text);
    CHECK(text[0] != 0, "an unknown format is printed as nothing");
    check_done("canonical text");
}

static void equality(void)
{
    const plumb_spec a = {.format = PLUMB_E4M3, .rule = PLUMB_SCALE_CURRENT, .history = 3};
    plumb_spec b = a;

    b.history = 9;
    b.static_scale = 4;
    CHECK(plumb_spec_equal(&a, &b), "fields that current does not use were compared");
    b = a;
    b.saturate = true;
    CHECK(!plumb_spec_equal(&a, &b), "saturate was not compared");
    b = a;
    b.margin = 1;
    CHECK(!plumb_spec_equal(&a, &b), "margin was not compared");
    b = a;
    b.amax_floor = 1;
    CHECK(!plumb_spec_equal(&a, &b), "floor was not compared");
    b = a;
    b.divide = true;
    CHECK(!plumb_spec_equal(&a, &b), "divide was not compared");
    b.format = PLUMB_BF16;
    CHECK(plumb_spec_equal(&b, &(plumb_spec){.format = PLUMB_BF16}), "bf16 is bf16");
    check_done("equality");
}

static const char *const bad[] = {
    "",
    ":",
    "e4m3:",
    "e4m3::tensor",
    "E4M3",
    "e4m4",
    "fp8",
    "bf16:tensor",
    "fp32:",
    "e4m3:tensors",
    "e4m3:Tensor",
    "e4m3:history",
    "e4m3:delayed:history=",
    "e4m3:delayed:history=0",
    "e4m3:delayed:history=1025",
    "e4m3:delayed:history=-1",
    "e4m3:delayed:history=1x",
    "e4m3:delayed:history=00016",
    "e4m3:margin=33",
    "e4m3:static=",
    "e4m3:static=0",
    "e4m3:static=-1",
    "e4m3:static=nan",
    "e4m3:static=inf",
    "e4m3:static=1e39",
    "e4m3:static=1e-39",
    "e4m3:static=1,5",
    "e4m3:static=1e",
    "e4m3:static=.",
    "e4m3:static=0x10",
    "e4m3:static=1 ",
    "e4m3:static=1:current",
    "e4m3:tensor:tensor",
    "e4m3:saturate:overflow",
    "e4m3:1x128:delayed",
    "e4m3:delayed:divide",
    "e4m3:history=8",
    "e4m3:static=2:margin=1",
    "e4m3:none:pow2",
    "e4m3:floor=-1",
    "e4m3 ",
    " e4m3",
    "e4m3:static=1234567890123456",
};

static void refusals(void)
{
    char longer[2 * PLUMB_SPEC_TEXT];
    plumb_spec spec;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        plumb_error why = {0};

        CHECK(plumb_spec_parse(bad[i], NULL, &spec, &why) == PLUMB_BAD_INPUT &&
                  why.status == PLUMB_BAD_INPUT && why.message[0] != 0,
              "\"%s\" was not refused with a sentence", bad[i]);
    }
    plumb_error why = {0};
    CHECK(plumb_spec_parse("e4m3:histroy=4", NULL, &spec, &why) == PLUMB_BAD_INPUT &&
              strstr(why.message, "histroy=4") != NULL &&
              strstr(why.message, "history=N") != NULL,
          "the word and what is allowed are not in \"%s\"", why.message);
    memset(longer, ':', sizeof longer);
    memcpy(longer, "e4m3", 4);
    longer[sizeof longer - 1] = 0;
    CHECK(plumb_spec_parse(longer, NULL, &spec, NULL) == PLUMB_BAD_INPUT,
          "a text too long");
    longer[PLUMB_SPEC_TEXT - 1] = 0;
    CHECK(plumb_spec_parse(longer, NULL, &spec, NULL) == PLUMB_BAD_INPUT,
          "the longest text");
    check_done("refusals");
}

/* fp32 to text and back over the whole range, and texts with a known nearest fp32. */
static void decimals(void)
{
    static const struct {
        const char *text;
        float value;
    } known[] = {{"1", 1},
                 {"0.1", 0.1f},
                 {"1e-4", 1e-4f},
                 {"448", 448},
                 {"3.4028235e38", FLT_MAX},
                 {"1.17549435e-38", FLT_MIN},
                 {"00012.50", 12.5f},
                 {"5.", 5},
                 {".5", 0.5f},
                 {"16777217", 16777216.0f},
                 {"16777219e0", 16777220.0f},
                 {"0", 0},
                 {"1E+2", 100},
                 {"0.000", 0}};
    uint64_t state = 7;

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        float got = -1;

        CHECK(plumb_decimal_parse(known[i].text, strlen(known[i].text), &got) &&
                  got == known[i].value,
              "\"%s\" was read as %a", known[i].text, (double)got);
    }
    for (int i = 0; i < 50000; i++) {
        char text[PLUMB_DECIMAL_TEXT];
        float value, back = -1;

        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint32_t bits =
            (uint32_t)(state >> 33) % (0x7f800000u - 0x00800000u) + 0x00800000u;
        memcpy(&value, &bits, sizeof value);
        plumb_decimal_print(value, text);
        CHECK(strlen(text) <= 15, "%a is printed as \"%s\"", (double)value, text);
        CHECK(plumb_decimal_parse(text, strlen(text), &back) && back == value,
              "%a came back from \"%s\" as %a", (double)value, text, (double)back);
    }
    check_done("decimal numbers");
}

static void locale(void)
{
    plumb_spec spec = {
        .format = PLUMB_E4M3, .rule = PLUMB_SCALE_STATIC, .static_scale = 1.5f};
    char text[PLUMB_SPEC_TEXT];

    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL &&
        setlocale(LC_ALL, "fr_FR.UTF-8") == NULL) {
        check_skip("decimal comma", "no locale with a decimal comma is installed");
        return;
    }
    plumb_spec_print(&spec, text);
    CHECK(strcmp(text, "e4m3:tensor:static=1.5:overflow") == 0, "printed as %s", text);
    CHECK(plumb_spec_parse(text, NULL, &spec, NULL) == PLUMB_OK &&
              spec.static_scale == 1.5f,
          "read as %g", (double)spec.static_scale);
    setlocale(LC_ALL, "C");
    check_done("decimal comma");
}

int main(void)
{
    combinations();
    meaning();
    canonical_text();
    equality();
    refusals();
    decimals();
    locale();
    return check_exit();
}
