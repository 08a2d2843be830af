/* The screen: reviewed golden texts, members missing or of the wrong type, hostile text, many
 * runs.  `test_report_terminal --write` writes the golden files anew for review.
 */
#include "plumb/report.h"

#include "check.h"
#include "fixture.h"
#include "report/fold.h"

#include <stdlib.h>

static const char hostile[] =
    "\x1b[2J\x1b]0;owned\x07<script>alert(1)</script>\r\n\t\xe2\x80\xae";

/* The screen as text; NULL when it was refused.  free() it. */
static char *show(const json_t *verdict, plumb_screen screen, plumb_error *why)
{
    char *text = NULL;
    size_t size = 0;

    screen.out = open_memstream(&text, &size);
    if (screen.out == NULL)
        return NULL;
    const plumb_status status = plumb_report_terminal(&screen, verdict, why);
    fclose(screen.out);
    if (status == PLUMB_OK)
        return text;
    CHECK(size == 0, "%zu bytes were written before the refusal", size);
    free(text);
    return NULL;
}

static size_t count_lines(const char *text)
{
    size_t lines = 0;

    for (; *text != 0; text++)
        lines += *text == '\n';
    return lines;
}

/* Bytes of the longest line but the one to paste (ASCII text). */
static size_t longest_line(const char *text)
{
    size_t longest = 0;

    while (*text != 0) {
        const size_t size = strcspn(text, "\n");

        if (strncmp(text, "next: ", 6) != 0 && size > longest)
            longest = size;
        text += size + (text[size] == '\n');
    }
    return longest;
}

static void golden(const char *fixture, int width, bool write)
{
    json_t *verdict = fixture_verdict(fixture);
    plumb_error why = {0};
    char path[4096], name[64];
    const char *source = getenv("PLUMB_SOURCE_DIR");

    snprintf(name, sizeof name, "%.*s-%d.txt", (int)strcspn(fixture, "."), fixture, width);
    snprintf(path, sizeof path, "%s/tests/report/%s", source != NULL ? source : ".", name);
    char *text = show(verdict, (plumb_screen){.width = width}, &why);
    if (CHECK(text != NULL, "%s: %s", fixture, why.message)) {
        FILE *file = write ? fopen(path, "w") : NULL;

        if (file != NULL) {
            fputs(text, file);
            fclose(file);
        }
        char *want = fixture_read(path);
        CHECK(want != NULL && strcmp(text, want) == 0, "%s differs; it now reads\n%s", name,
              text);
        CHECK(longest_line(text) <= (size_t)width, "%s: a line of %zu", name,
              longest_line(text));
        free(want);
    }
    free(text);
    json_decref(verdict);
}

static void goldens(bool write)
{
    golden("numerics.json", 100, write);
    golden("numerics.json", 80, write);
    golden("not_numerics.json", 100, write);
    check_done("golden screens");
}

/* --- members ---------------------------------------------------------------------- */

/* Calls visit for every object below json, with the object and each key in it. */
typedef void visitor(json_t *top, json_t *object, const char *key);

static void walk(json_t *top, json_t *json, visitor *visit)
{
    json_t *value;
    size_t i;

    if (json_is_array(json)) {
        json_array_foreach(json, i, value) walk(top, value, visit);
        return;
    }
    for (void *at = json_object_iter(json); at != NULL;
         at = json_object_iter_next(json, at)) {
        char key[100];

        snprintf(key, sizeof key, "%s", json_object_iter_key(at));
        if (strcmp(key, "rules") == 0 || strcmp(key, "seeds") == 0)
            continue;
        visit(top, json, key);
        walk(top, json_object_get(json, key), visit);
    }
}

/* Takes the member out (null reads as missing; the order of members stays). */
static void without(json_t *top, json_t *object, const char *key)
{
    plumb_error why = {0};
    json_t *old = json_incref(json_object_get(object, key));

    json_object_set_new(object, key, json_null());
    char *text = show(top, (plumb_screen){0}, &why);
    CHECK(text != NULL, "without %s: %s", key, why.message);
    CHECK(text == NULL || (strstr(text, "null") == NULL && strstr(text, "(nil)") == NULL &&
                           strstr(text, "-92233720368547758") == NULL),
          "without %s:\n%s", key, text);
    free(text);
    json_object_set_new(object, key, old);
}

/* No member may be an array that holds an array. */
static void of_wrong_type(json_t *top, json_t *object, const char *key)
{
    plumb_error why = {0};
    json_t *old = json_incref(json_object_get(object, key));

    json_object_set_new(object, key, json_pack("[[i]]", 7));
    char *text = show(top, (plumb_screen){0}, &why);
    CHECK(text == NULL && why.status == PLUMB_BAD_INPUT, "%s of the wrong type was taken",
          key);
    CHECK(strstr(why.message, key) != NULL, "the message does not name %s: %s", key,
          why.message);
    free(text);
    json_object_set_new(object, key, old);
}

static void members(void)
{
    static const char *const odd[] = {"{}", "{\"runs\":[]}", "{\"runs\":[{}],\"cost\":{}}",
                                      "{\"fix\":{},\"mask\":{},\"mechanism\":{}}",
                                      "{\"failure\":{},\"first_moved\":{},\"band\":{}}"};
    json_t *verdict = fixture_verdict("numerics.json");
    plumb_error why = {0};

    walk(verdict, verdict, without);
    walk(verdict, verdict, of_wrong_type);
    json_decref(verdict);
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        verdict = json_loads(odd[i], 0, NULL);
        char *text = show(verdict, (plumb_screen){0}, &why);

        if (CHECK(text != NULL, "%s: %s", odd[i], why.message)) {
            CHECK(count_lines(text) >= 1 && count_lines(text) < 12, "%s:\n%s", odd[i],
                  text);
            CHECK(strstr(text, "MASK") == NULL && strstr(text, "FIX") == NULL,
                  "%s says something:\n%s", odd[i], text);
        }
        free(text);
        json_decref(verdict);
    }
    verdict = json_loads("[]", 0, NULL);
    CHECK(show(verdict, (plumb_screen){0}, &why) == NULL, "an array is no verdict");
    json_decref(verdict);
    check_done("missing and mistyped members");
}

/* --- hostile text, many runs, colours -------------------------------------------------- */

static void replace_strings(json_t *top, json_t *object, const char *key)
{
    (void)top;
    if (json_is_string(json_object_get(object, key)) && strcmp(key, "value") != 0)
        json_object_set_new(object, key, json_string(hostile));
}

static void hostile_text(void)
{
    json_t *verdict = fixture_verdict("numerics.json");
    plumb_error why = {0};

    json_object_set_new(verdict, "sites", json_pack("[s]", hostile));
    json_object_set_new(verdict, "limits", json_pack("[s]", hostile));
    walk(verdict, verdict, replace_strings);
    for (int unicode = 0; unicode < 2; unicode++) {
        char *text = show(verdict, (plumb_screen){.unicode = unicode == 1}, &why);

        if (!CHECK(text != NULL, "%s", why.message))
            continue;
        for (const char *c = text; *c != 0; c++)
            CHECK((*c & 0xff) >= 0x20 || *c == '\n', "byte %02x", *c & 0xff);
        CHECK(strstr(text, "\xe2\x80\xae") == NULL, "a direction mark got through");
        CHECK(strstr(text, "alert(1)") != NULL, "the text itself is gone");
        CHECK(count_lines(text) <= 52, "%zu lines", count_lines(text));
        free(text);
    }
    json_decref(verdict);
    check_done("hostile text");
}

static void folds_to(const report_run *runs, size_t count, const char *want)
{
    const bool shown[8] = {false};
    report_text words = {0};

    report_folded_words(&words, runs, shown, 0, count);
    CHECK(strcmp(words.at, want) == 0, "'%s', want '%s'", words.at, want);
    report_text_free(&words);
}

static void folding(void)
{
    const report_run arms[] = {{.phase = "layer", .outcome = REPORT_FAILED},
                               {.phase = "class", .outcome = REPORT_FAILED},
                               {.phase = "layer", .outcome = REPORT_HELD},
                               {.phase = "operand", .outcome = REPORT_HELD},
                               {.phase = "proof", .outcome = REPORT_HELD},
                               {.phase = "band", .outcome = REPORT_BROKEN}};

    folds_to(arms, 2, "2 more arms, none heals");
    folds_to(arms, 1, "1 more arm, does not heal");
    folds_to(arms, 3, "3 more arms: 1 heal, 2 fail");
    folds_to(arms + 2, 2, "2 more arms, all heal");
    folds_to(arms + 4, 1, "1 more run, holds");
    folds_to(arms + 3, 2, "2 more runs, all hold");
    folds_to(arms, 6, "6 more runs: 3 hold, 2 fail, 1 without a result");
    check_done("what is said of folded runs");
}

static json_t *huge_verdict(size_t runs)
{
    json_t *verdict = fixture_verdict("numerics.json");
    json_t *list = json_object_get(verdict, "runs");
    char *word = calloc(10001, 1);

    memset(word, 'w', 10000);
    for (size_t i = json_array_size(list); i < runs; i++) {
        json_t *run = json_deep_copy(json_array_get(list, i % 19));

        json_object_set_new(run, "label", json_string(word));
        json_object_set_new(run, "command", json_string(word));
        json_array_append_new(list, run);
    }
    for (int i = 0; i < 1000; i++) {
        json_array_append_new(json_object_get(verdict, "sites"), json_string(word));
        json_array_append_new(json_object_get(verdict, "limits"), json_string(word));
    }
    json_object_set_new(json_object_get(verdict, "mechanism"), "text", json_string(word));
    json_object_set_new(verdict, "headline", json_string(word));
    json_object_set_new(verdict, "question", json_string(word));
    free(word);
    return verdict;
}

/* A number is written whole or with a power of ten, never cut in its middle. */
static void wide_gaps(void)
{
    static const double gaps[] = {9.4e6, -94123.5, 1e300, 9999.5};
    static const char *const want[] = {" 9.4e6 ", " -9.41e4 ", " 1e300 ", "+9999.500"};

    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
        json_t *verdict = fixture_verdict("numerics.json");
        plumb_error why = {0};

        json_object_set_new(json_array_get(json_object_get(verdict, "runs"), 1), "gap",
                            json_real(gaps[i]));
        char *text = show(verdict, (plumb_screen){.width = 100}, &why);

        if (CHECK(text != NULL, "%s", why.message))
            CHECK(strstr(text, want[i]) != NULL, "no '%s' in:\n%s", want[i], text);
        free(text);
        json_decref(verdict);
    }
    check_done("gaps of many digits");
}

static void many_runs(void)
{
    json_t *verdict = huge_verdict(1000);
    plumb_error why = {0};
    static const int widths[] = {1, 40, 80, 100, 200, 1000};

    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        char *text = show(verdict, (plumb_screen){.width = widths[i]}, &why);
        const size_t most = widths[i] < 40 ? 40 : widths[i] > 200 ? 200 : (size_t)widths[i];

        if (!CHECK(text != NULL, "%s", why.message))
            continue;
        CHECK(count_lines(text) <= 52, "width %d: %zu lines", widths[i], count_lines(text));
        CHECK(longest_line(text) <= most, "width %d: a line of %zu", widths[i],
              longest_line(text));
        CHECK(strstr(text, " more") != NULL, "nothing was counted");
        CHECK(widths[i] < 80 || strstr(text, "the fix, from the start") != NULL,
              "the proof was folded away:\n%s", text);
        free(text);
    }
    json_decref(verdict);
    check_done("1000 runs stay on a screen");
}

/* Takes ESC [ ... m out. */
static void strip(char *text)
{
    char *to = text;

    for (const char *from = text; *from != 0;) {
        if (*from == '\x1b')
            from += strcspn(from, "m") + 1;
        else
            *to++ = *from++;
    }
    *to = 0;
}

static void colours(void)
{
    json_t *verdict = fixture_verdict("numerics.json");
    plumb_error why = {0};
    char *plain = show(verdict, (plumb_screen){0}, &why);
    char *coloured = show(verdict, (plumb_screen){.color = true}, &why);

    if (CHECK(plain != NULL && coloured != NULL, "%s", why.message)) {
        CHECK(strchr(plain, '\x1b') == NULL, "colours where none were asked for");
        CHECK(strstr(coloured, "\x1b[1;31m") != NULL, "no red headline");
        strip(coloured);
        CHECK(strcmp(plain, coloured) == 0, "colours move the text:\n%s", coloured);
    }
    free(plain);
    free(coloured);
    json_decref(verdict);
    check_done("colours");
}

static void streams(void)
{
    FILE *file = tmpfile();

    if (!CHECK(file != NULL, "no temporary file"))
        return;
    unsetenv("COLUMNS");
    plumb_screen screen = plumb_screen_for(file);
    CHECK(screen.out == file && screen.width == 100, "width %d", screen.width);
    CHECK(!screen.color && !screen.progress, "a file is no terminal");
    setenv("COLUMNS", "72", 1);
    CHECK(plumb_screen_for(file).width == 72, "COLUMNS is not honoured");
    static const char *const bad[] = {"-5", "0", "7x", "", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("COLUMNS", bad[i], 1);
        CHECK(plumb_screen_for(file).width == 100, "COLUMNS=%s gave %d", bad[i],
              plumb_screen_for(file).width);
    }
    setenv("LC_ALL", "C", 1);
    CHECK(!plumb_screen_for(file).unicode, "the C locale is not UTF-8");
    fclose(file);
    check_done("what a stream wants");
}

int main(int count, char **arguments)
{
    goldens(count > 1 && strcmp(arguments[1], "--write") == 0);
    members();
    hostile_text();
    folding();
    many_runs();
    wide_gaps();
    colours();
    streams();
    return check_exit();
}
