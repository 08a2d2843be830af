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
           a->divide == b->divide && a->amax_floor == b->amax_floor && a->mx == b->mx &&
           a->rounding == b->rounding && a->dither == b->dither;
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

enum { MOST = 10 };

/* Each digit of `choice` picks an alternative; the empty one leaves the attribute out.  Returns
 * how many were accepted.
 */
static int try_all(const char *const parts[][MOST], const int *sizes, int count)
{
    int total = 1, legal = 0;

    for (int p = 0; p < count; p++)
        total *= sizes[p];
    for (int choice = 0; choice < total; choice++) {
        char text[4 * PLUMB_SPEC_TEXT] = "";
        plumb_spec spec = {.margin = 77};
        const plumb_spec before = spec;

        for (int p = 0, left = choice; p < count; left /= sizes[p++])
            strcat(text, parts[p][left % sizes[p]]);
        if (plumb_spec_parse(text, NULL, &spec, NULL) == PLUMB_OK) {
            there_and_back(text);
            legal++;
        } else {
            CHECK(memcmp(&spec, &before, sizeof spec) == 0,
                  "\"%s\" was refused, yet written", text);
        }
    }
    return legal;
}

static void combinations(void)
{
    static const char *const scales[][MOST] = {
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
    static const int scale_sizes[] = {2, 4, 5, 3, 2, 3, 3, 3, 3, 3};
    static const char *const formats[][MOST] = {
        {"e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "e3m2", "e2m3", "e2m1"},
        {"", ":row", ":mx32", ":nvfp4", ":128x128"},
        {"", ":none", ":current", ":delayed"},
        {"", ":mx-floor", ":mx-ceil", ":mx-even", ":mx-rceil"},
        {"", ":rne", ":toward-zero", ":stochastic", ":stochastic8", ":stochastic8-centred"},
        {"", ":pow2", ":divide", ":margin=1", ":floor=1"},
        {"", ":overflow"},
    };
    static const int format_sizes[] = {7, 5, 4, 5, 6, 5, 2};
    const int scaled = try_all(scales, scale_sizes, 10),
              wide = try_all(formats, format_sizes, 7);

    CHECK(scaled > 5000, "only %d combinations of scale attributes were accepted", scaled);
    CHECK(wide > 5000, "only %d combinations of formats were accepted", wide);
    there_and_back("fp32");
    there_and_back("tf32");
    there_and_back("bf16");
    there_and_back("fp16");
    /* Nothing canonical is longer. */
    there_and_back("e5m2fnuz:tensor:delayed:history=1024:margin=32:recent:overflow:pow2:"
                   "floor=1.17549435e-38:stochastic8-centred");
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
                              .saturate = true,
                              .mx = PLUMB_MX_RCEIL};
    plumb_spec want = plain;
    plumb_spec own = {.format = PLUMB_E4M3,
                      .rule = PLUMB_SCALE_DELAYED,
                      .history = 7,
                      .margin = 2,
                      .most_recent = true,
                      .power_of_two = true,
                      .static_scale = 1,
                      .mx = PLUMB_MX_RCEIL};

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

/* The grains and roundings of their own. */
static void meaning_of_micro_scales(void)
{
    const plumb_spec mx = {.format = PLUMB_E2M3,
                           .grain = PLUMB_GRAIN_MX32,
                           .rule = PLUMB_SCALE_CURRENT,
                           .static_scale = 1,
                           .history = 16,
                           .saturate = true,
                           .mx = PLUMB_MX_FLOOR};
    plumb_spec nv = mx, want = mx, own, plain = {.format = PLUMB_BF16, .static_scale = 1};

    expect("e2m3:mx32:mx-floor", NULL, mx);
    nv.format = PLUMB_E2M1;
    nv.grain = PLUMB_GRAIN_NVFP4;
    nv.mx = PLUMB_MX_RCEIL;
    nv.rounding = PLUMB_ROUND_STOCHASTIC;
    nv.dither = PLUMB_DITHER_8;
    expect("e2m1:nvfp4:stochastic8", NULL, nv);
    /* Formats without scales have a rounding of their own, and inherit none. */
    plain.rounding = PLUMB_ROUND_STOCHASTIC;
    expect("bf16:stochastic", NULL, plain);
    plain.dither = PLUMB_DITHER_8;
    expect("bf16:stochastic8", &nv, plain);
    expect("bf16", &plain, (plumb_spec){.format = PLUMB_BF16, .static_scale = 1});
    plain.dither = PLUMB_DITHER_32;
    plain.rounding = PLUMB_ROUND_TOWARD_ZERO;
    expect("bf16:toward-zero", &plain, plain);
    /* What is inherited and means nothing is forgotten. */
    want.format = PLUMB_E4M3;
    expect("e4m3", &mx, want);
    want.grain = PLUMB_GRAIN_ROW;
    want.mx = PLUMB_MX_RCEIL;
    want.rounding = PLUMB_ROUND_TOWARD_ZERO;
    expect("e4m3:row:toward-zero", &mx, want);
    want = nv;
    want.format = PLUMB_E4M3;
    want.grain = PLUMB_GRAIN_TENSOR;
    expect("e4m3", &nv, want);
    want.rounding = PLUMB_ROUND_NEAREST_EVEN;
    want.dither = PLUMB_DITHER_32;
    expect("e4m3:rne", &nv, want);
    own = want;
    own.margin = 3;
    own.power_of_two = own.divide = true;
    own.amax_floor = 1;
    want.grain = PLUMB_GRAIN_MX32;
    expect("e4m3:mx32", &own, want);
    expect("bf16", &mx, (plumb_spec){.format = PLUMB_BF16, .static_scale = 1});
    check_done("mx32, nvfp4 and roundings");
}

/* What earlier runs wrote must read as it was written. */
static void texts_of_presets(void)
{
    static const char *const texts[][2] = {
        {"bf16", "bf16"},
        {"e4m3:128x128:current:divide:floor=1e-4",
         "e4m3:128x128:current:divide:floor=0.0001"},
        {"e4m3:1x128:current:divide:floor=1e-12", "e4m3:1x128:current:divide:floor=1e-12"},
        {"e4m3:1x128:current:divide:floor=1e-4", "e4m3:1x128:current:divide:floor=0.0001"},
        {"e4m3:tensor:current", "e4m3:tensor:current"},
        {"e4m3:tensor:delayed:history=1024:max", "e4m3:tensor:delayed:history=1024"},
        {"e5m2:tensor:current", "e5m2:tensor:current"},
        {"e5m2:tensor:delayed:history=1024:max", "e5m2:tensor:delayed:history=1024"},
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[PLUMB_SPEC_TEXT];
        plumb_spec spec = {0};

        CHECK(plumb_spec_parse(texts[i][0], NULL, &spec, NULL) == PLUMB_OK, "%s",
              texts[i][0]);
        plumb_spec_print(&spec, text);
        CHECK(strcmp(text, texts[i][1]) == 0, "%s is printed as %s", texts[i][0], text);
    }
    check_done("texts of presets");
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
    spec = (plumb_spec){.format = PLUMB_E3M2,
                        .grain = PLUMB_GRAIN_MX32,
                        .rule = PLUMB_SCALE_CURRENT,
                        .saturate = true,
                        .margin = 4,
                        .mx = PLUMB_MX_EVEN,
                        .rounding = PLUMB_ROUND_STOCHASTIC,
                        .dither = PLUMB_DITHER_8_CENTRED};
    plumb_spec_print(&spec, text);
    CHECK(strcmp(text, "e3m2:mx32:current:mx-even:stochastic8-centred") == 0,
          "printed as %s", text);
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
    b = a;
    b.mx = PLUMB_MX_EVEN;
    b.dither = PLUMB_DITHER_8;
    CHECK(plumb_spec_equal(&a, &b), "what neither grain nor rounding uses was compared");
    b.rounding = PLUMB_ROUND_TOWARD_ZERO;
    CHECK(!plumb_spec_equal(&a, &b), "toward zero was not compared");
    b.rounding = PLUMB_ROUND_STOCHASTIC;
    CHECK(!plumb_spec_equal(&a, &b), "rounding was not compared");
    plumb_spec c = b;
    c.dither = PLUMB_DITHER_32;
    CHECK(!plumb_spec_equal(&b, &c), "dither was not compared");
    b = c = a;
    b.grain = c.grain = PLUMB_GRAIN_MX32;
    c.mx = PLUMB_MX_EVEN;
    CHECK(!plumb_spec_equal(&b, &c), "the rounding of mx32 was not compared");
    c.mx = b.mx;
    c.margin = 3;
    c.power_of_two = c.divide = true;
    CHECK(plumb_spec_equal(&b, &c), "fields that mx32 does not use were compared");
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
    "bf16:saturate",
    "bf16:stochastic:tensor",
    "fp32:stochastic",
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
    "e8m0",
    "ue4m3",
    "ue4m3:row",
    "fp16:row",
    "tf32:current",
    "e4m3:nvfp4",
    "e2m1:nvfp4:none",
    "e2m1:nvfp4:static=2",
    "e2m1:nvfp4:delayed",
    "e4m3:mx32:none",
    "e4m3:mx32:delayed",
    "e4m3:mx32:static=2",
    "e4m3:mx32:pow2",
    "e4m3:mx32:divide",
    "e4m3:mx32:margin=1",
    "e4m3:mx32:floor=1",
    "e2m1:nvfp4:pow2",
    "e4m3:row:delayed",
    "e4m3:mx-floor",
    "e4m3:1x128:mx-even",
    "e2m1:nvfp4:mx-ceil",
    "e4m3:mx32:row",
    "e4m3:mx32:mx-ceil:mx-rceil",
    "e4m3:rne:stochastic",
    "e4m3:stochastic:stochastic8",
    "e4m3:stochastic16",
    "e4m3:mx",
    "e4m3:mx64",
    "e4m3:floor",
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
              strstr(why.message, "did you mean 'history='") != NULL,
          "the word and the nearest are not in \"%s\"", why.message);
    CHECK(plumb_spec_parse("e4m3:zzzzzzzz", NULL, &spec, &why) == PLUMB_BAD_INPUT &&
              strstr(why.message, "zzzzzzzz") != NULL &&
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

/* Texts with a few characters changed, dropped or doubled: refused with a sentence, or right. */
static void mutated_texts(void)
{
    static const char *const seeds[] = {
        "e5m2fnuz:tensor:delayed:history=1024:margin=32:recent:overflow:pow2",
        "e2m1:nvfp4:stochastic8-centred",
        "e3m2:mx32:mx-floor:toward-zero",
        "e4m3:row:divide:floor=1e-12:stochastic",
        "e4m3:static=0.5",
        "bf16"};
    static const char letters[] = ":=-.0123456789abcdefmnopqrstuxz\xff\n %n";
    uint64_t state = 11;

    for (int i = 0; i < 60000; i++) {
        char text[2 * PLUMB_SPEC_TEXT];
        plumb_spec spec;
        plumb_error why = {0};

        strcpy(text, seeds[i % 6]);
        for (int edit = 0; edit <= i % 4; edit++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            const size_t length = strlen(text), at = (size_t)(state >> 33) % (length + 1);

            if (state >> 62 == 0 && at < length)
                memmove(text + at, text + at + 1, length - at);
            else if (state >> 62 == 1)
                memmove(text + at + 1, text + at, length - at + 1);
            else if (at < length)
                text[at] = letters[(state >> 20) % (sizeof letters - 1)];
        }
        if (plumb_spec_parse(text, NULL, &spec, &why) == PLUMB_OK)
            there_and_back(text);
        else
            CHECK(why.message[0] != 0, "refused without a word");
    }
    check_done("mutated texts");
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
    meaning_of_micro_scales();
    texts_of_presets();
    canonical_text();
    equality();
    refusals();
    mutated_texts();
    decimals();
    locale();
    return check_exit();
}
