/* JSON of the contract: non-finite values both ways, wide integers, hostile documents. */
#include "plumb/file.h"

#include <locale.h>
#include <math.h>

#include "check.h"
#include "file/scratch.h"
#include "file/text.h"

/* What a document becomes; NULL: refused. */
static const struct {
    const char *in, *out;
} documents[] = {
    {"{\"loss\": NaN}", "{\"loss\":\"NaN\"}"},
    {"[Infinity,-Infinity, NaN ]", "[\"Infinity\",\"-Infinity\",\"NaN\"]"},
    {"{\"a\":\"NaN, Infinity\"}", "{\"a\":\"NaN, Infinity\"}"},
    {"{\"NaN\":1}", "{\"NaN\":1}"},
    {"[\"\\\"\",NaN]", "[\"\\\"\",\"NaN\"]"},
    {"[\"\\\\\",NaN,\"x\"]", "[\"\\\\\",\"NaN\",\"x\"]"},
    {"NaN", "\"NaN\""},
    {"[xNaN]", NULL},
    {"[NaNx]", NULL},
    {"[nan]", NULL},
    {"[+Infinity]", NULL},
    {"[- Infinity]", NULL},
    {"[9223372036854775807,-9223372036854775808]",
     "[9223372036854775807,-9223372036854775808]"},
    {"[9223372036854775808]", "[\"9223372036854775808\"]"},
    {"[18446744073709551615]", "[\"18446744073709551615\"]"},
    {"[-9223372036854775809]", "[\"-9223372036854775809\"]"},
    {"[0.123456789012345678901234567890]", "[0.12345678901234568]"},
    {"[12345678901234567890.0]", "[1.2345678901234567e19]"},
    {"[\"18446744073709551615\"]", "[\"18446744073709551615\"]"},
    {"[1e400]", NULL},
    {"{\"a\":1,\"a\":2}", NULL},
    {"[1", NULL},
    {"[1]x", NULL},
    {"", NULL},
    {"\"abc", NULL},
    {"\"abc\\", NULL},
    {"[\"\\u0000\"]", NULL},
    {"[\"\xff\xfe\"]", NULL},
};

static void parsing(void)
{
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
        plumb_error why = {0};
        json_t *json;
        const plumb_status status =
            plumb_json_parse(documents[i].in, strlen(documents[i].in), "doc", &json, &why);
        char *text =
            json != NULL
                ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17))
                : NULL;

        if (documents[i].out == NULL)
            CHECK(status == PLUMB_BAD_INPUT && json == NULL &&
                      strncmp(why.message, "doc: line 1", 11) == 0,
                  "%s: status %d, '%s'", documents[i].in, (int)status, why.message);
        else
            CHECK(text != NULL && strcmp(text, documents[i].out) == 0,
                  "%s gave %s, want %s", documents[i].in, text != NULL ? text : why.message,
                  documents[i].out);
        free(text);
        json_decref(json);
    }
    check_done("documents");
}

/* Every prefix of a document is refused without reading past its end (under a sanitizer). */
static void prefixes(void)
{
    static const char text[] = "{\"a\\\"b\":[NaN,-Infinity,18446744073709551615,1.5e3]}";

    for (size_t n = 0; n < sizeof text - 1; n++) {
        char *copy = malloc(n + 1);
        json_t *json;
        memcpy(copy, text, n);
        char *exact = realloc(copy, n > 0 ? n : 1);
        CHECK(plumb_json_parse(exact, n, "cut", &json, NULL) == PLUMB_BAD_INPUT,
              "%zu bytes were enough", n);
        free(exact);
    }
    check_done("cut documents");
}

static void deep(void)
{
    enum { DEPTH = 1000000 };
    char *text = malloc(DEPTH);
    json_t *json;
    plumb_error why;

    memset(text, '[', DEPTH);
    CHECK(plumb_json_parse(text, DEPTH, "deep", &json, &why) == PLUMB_BAD_INPUT,
          "accepted");
    free(text);
    check_done("deep nesting");
}

static void reals(void)
{
    static const struct {
        double value;
        const char *text;
    } table[] = {{0.5, "0.5"},
                 {-0.0, "-0.0"},
                 {0.1, "0.10000000000000001"},
                 {(double)INFINITY, "\"Infinity\""},
                 {-(double)INFINITY, "\"-Infinity\""},
                 {(double)NAN, "\"NaN\""}};

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        json_t *json = plumb_json_real(table[i].value);
        char *text = json_dumps(json, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
        double back = 99;

        CHECK(strcmp(text, table[i].text) == 0, "%g gave %s", table[i].value, text);
        CHECK(plumb_json_to_real(json, &back) &&
                  (back == table[i].value || (isnan(back) && isnan(table[i].value))),
              "%s came back as %g", text, back);
        free(text);
        json_decref(json);
    }
    double value = 7;
    CHECK(plumb_json_to_real(json_null(), &value) && isnan(value), "null is %g", value);
    json_t *wrong = json_string("nan");
    value = 7;
    CHECK(!plumb_json_to_real(wrong, &value) && value == 7, "'nan' was taken");
    CHECK(!plumb_json_to_real(json_true(), &value) && !plumb_json_to_real(NULL, &value),
          "true or nothing was taken");
    json_decref(wrong);
    check_done("reals");
}

static void save_and_load(void)
{
    plumb_error why = {0};
    json_t *json = json_pack("{s:i,s:f,s:[s]}", "z", 1, "a", 0.1, "m", "x"), *back;
    size_t size;

    CHECK_OK(plumb_json_save(scratch_at("a.json"), json, &why), why);
    char *text = scratch_get("a.json", &size);
    CHECK(strcmp(
              text,
              "{\n \"z\": 1,\n \"a\": 0.10000000000000001,\n \"m\": [\n  \"x\"\n ]\n}\n") ==
              0,
          "saved as %s", text);
    CHECK_OK(plumb_json_load(scratch_at("a.json"), 1000, &back, &why), why);
    CHECK(json_equal(json, back), "came back different");
    json_decref(back);
    CHECK(plumb_json_load(scratch_at("a.json"), 10, &back, &why) == PLUMB_BAD_INPUT,
          "limit");
    scratch_text("b.json", "{\n\"a\": }\n");
    CHECK(plumb_json_load(scratch_at("b.json"), 100, &back, &why) == PLUMB_BAD_INPUT &&
              strstr(why.message, "b.json: line 2, column") != NULL,
          "message: %s", why.message);
    free(text);
    json_decref(json);
    check_done("save and load");
}

/* Numbers read and written the same under a locale with a decimal comma, where there is one. */
static void comma(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8",
                                        "fr_FR.utf8"};
    const char *found = NULL;
    double value = 0;
    char text[PLUMB_REAL_TEXT];

    for (size_t i = 0; found == NULL && i < sizeof names / sizeof names[0]; i++)
        found = setlocale(LC_ALL, names[i]);
    CHECK(plumb_text_to_real("1.5", &value) && value == 1.5, "1.5 read as %g", value);
    CHECK(!plumb_text_to_real("1,5", &value), "1,5 was taken");
    plumb_text_from_real(1.5, text);
    CHECK(strcmp(text, "1.5") == 0, "1.5 written as %s", text);
    setlocale(LC_ALL, "C");
    check_done(found != NULL ? "decimal comma" : "numbers in the C locale");
}

static void words(void)
{
    static const char *const not_whole[] = {"",    " 1",  "1 ",  "+",
                                            "-",   "1.0", "1e3", "0x1",
                                            "1_0", "--1", "abc", "9223372036854775808"};
    static const char *const not_real[] = {"",     ".",     "e5",    "1e",   "1e+",
                                           "inf",  "nan",   "0x1",   "1.5 ", " 1",
                                           "1..2", "1e5.0", "1e999", "1,5"};
    int64_t whole;
    uint64_t natural = 0;
    double real;

    for (size_t i = 0; i < sizeof not_whole / sizeof not_whole[0]; i++)
        CHECK(!plumb_text_to_int(not_whole[i], &whole), "'%s' is whole", not_whole[i]);
    for (size_t i = 0; i < sizeof not_real / sizeof not_real[0]; i++)
        CHECK(!plumb_text_to_real(not_real[i], &real), "'%s' is real", not_real[i]);
    CHECK(plumb_text_to_int("-9223372036854775808", &whole) && whole == INT64_MIN, "least");
    CHECK(plumb_text_to_uint("18446744073709551615", &natural) && natural == UINT64_MAX,
          "most");
    CHECK(!plumb_text_to_uint("-1", &natural), "-1 is natural");
    CHECK(!plumb_text_to_uint("18446744073709551616", &natural), "2^64 fits");
    CHECK(plumb_text_to_real("-.5e-3", &real) && real == -0.0005, "%g", real);
    CHECK(plumb_text_to_real("1.", &real) && real == 1, "%g", real);
    char text[PLUMB_REAL_TEXT];
    plumb_text_from_real(0.1, text);
    CHECK(strcmp(text, "0.1") == 0, "0.1 as %s", text);
    plumb_text_from_real(0.1 + 0.2, text);
    CHECK(strcmp(text, "0.30000000000000004") == 0, "0.1 + 0.2 as %s", text);
    char shown[8];
    CHECK(strcmp(plumb_text_clean("a\n\x1b\xc3", 4, shown, sizeof shown), "a???") == 0 &&
              strcmp(plumb_text_clean("abcdefghij", 10, shown, sizeof shown), "abcd...") ==
                  0,
          "shown as '%s'", shown);
    check_done("words");
}

static void utf8(void)
{
    static const struct {
        const char *text;
        size_t good;
    } table[] = {{"abc", 3},
                 {"\xc3\xa9x", 3},
                 {"\xe2\x82\xac", 3},
                 {"\xf0\x9f\x98\x80", 4},
                 {"a\xff", 1},
                 {"\xc0\x80", 0},
                 {"\xc1\xbf", 0},
                 {"\xe0\x9f\xbf", 0},
                 {"\xed\xa0\x80", 0},
                 {"\xed\x9f\xbf", 3},
                 {"\xf0\x8f\xbf\xbf", 0},
                 {"\xf4\x8f\xbf\xbf", 4},
                 {"\xf4\x90\x80\x80", 0},
                 {"\xf5\x80\x80\x80", 0},
                 {"ab\xe2\x82", 2},
                 {"\xe2\x82"
                  "a",
                  0},
                 {"\x80", 0}};

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const size_t got = plumb_text_utf8(table[i].text, strlen(table[i].text));
        CHECK(got == table[i].good, "case %zu: %zu of %zu bytes", i, got, table[i].good);
    }
    check_done("UTF-8");
}

int main(void)
{
    scratch_make();
    parsing();
    prefixes();
    deep();
    reals();
    save_and_load();
    comma();
    words();
    utf8();
    scratch_remove();
    return check_exit();
}
