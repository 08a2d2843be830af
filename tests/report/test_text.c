/* Foreign text: whatever bytes come in, what goes out is printable, valid, bounded; and numbers
 * as people write them.  The UTF-8 checker below is the table of RFC 3629, section 4, not the
 * decoder under test.
 */
#include "report/text.h"

#include "check.h"

#include <math.h>
#include <stdlib.h>

static uint64_t state = 88172645463325252u;

static uint32_t draw(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % below;
}

static bool is_tail(unsigned char c)
{
    return c >= 0x80 && c <= 0xbf;
}

/* Length of the well-formed sequence at s, 0 if there is none (RFC 3629). */
static size_t sequence(const unsigned char *s)
{
    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xc2 && s[0] <= 0xdf)
        return is_tail(s[1]) ? 2 : 0;
    if (s[0] == 0xe0)
        return s[1] >= 0xa0 && s[1] <= 0xbf && is_tail(s[2]) ? 3 : 0;
    if (s[0] == 0xed)
        return s[1] >= 0x80 && s[1] <= 0x9f && is_tail(s[2]) ? 3 : 0;
    if (s[0] >= 0xe1 && s[0] <= 0xef)
        return is_tail(s[1]) && is_tail(s[2]) ? 3 : 0;
    if (s[0] == 0xf0 && !(s[1] >= 0x90 && s[1] <= 0xbf))
        return 0;
    if (s[0] == 0xf4 && !(s[1] >= 0x80 && s[1] <= 0x8f))
        return 0;
    if (s[0] >= 0xf0 && s[0] <= 0xf4)
        return is_tail(s[1]) && is_tail(s[2]) && is_tail(s[3]) ? 4 : 0;
    return 0;
}

/* Printable, and no C1 control (U+0080 ... U+009F are 0xc2 0x80 ... 0x9f). */
static bool is_harmless(const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s != 0;) {
        const size_t size = sequence(s);

        if (size == 0 || *s < 0x20 || *s == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0))
            return false;
        s += size;
    }
    return true;
}

static size_t count_points(const char *text)
{
    size_t points = 0;

    for (; *text != 0; text++)
        points += ((unsigned char)*text & 0xc0) != 0x80;
    return points;
}

static void random_bytes(char *bytes, size_t size)
{
    static const char *const pieces[] = {
        "\x1b[2J",  "\xe2\x80\xae",     "<b>",          "&amp",    "\xc3\xa9",
        "layer.3/", "\xf0\x9f\x98\x80", "\xed\xa0\x80", "\xc0\xaf"};
    size_t at = 0;

    while (at + 8 < size) {
        if (draw(3) == 0) {
            const char *piece = pieces[draw(sizeof pieces / sizeof pieces[0])];

            memcpy(bytes + at, piece, strlen(piece));
            at += strlen(piece);
        } else {
            bytes[at++] = (char)(1 + draw(255));
        }
    }
    bytes[at] = 0;
}

static void hostile(void)
{
    char bytes[400];

    for (int round = 0; round < 4000; round++) {
        random_bytes(bytes, 10 + draw(380));
        const size_t limit = 1 + draw(120);
        const report_cut cut = draw(2) ? REPORT_CUT_END : REPORT_CUT_MIDDLE;
        report_text out = {0}, ascii = {0}, html = {0};

        report_clean(&out, bytes, limit, cut, false);
        report_clean(&ascii, bytes, limit, cut, true);
        report_html(&html, bytes, limit);
        CHECK(out.at != NULL && is_harmless(out.at), "round %d: harmful bytes", round);
        CHECK(count_points(out.at) <= limit, "round %d: %zu characters, limit %zu", round,
              count_points(out.at), limit);
        CHECK(report_columns(out.at) <= limit, "round %d: too wide", round);
        for (const char *c = ascii.at; *c != 0; c++)
            CHECK(*c >= 0x20 && *c < 0x7f, "round %d: byte %02x in ASCII", round,
                  *c & 0xff);
        CHECK(is_harmless(html.at), "round %d: harmful bytes in HTML", round);
        CHECK(strpbrk(html.at, "<>\"'") == NULL, "round %d: raw markup: %s", round,
              html.at);
        report_text_free(&out);
        report_text_free(&ascii);
        report_text_free(&html);
    }
    check_done("hostile bytes are harmless");
}

static void becomes(const char *from, size_t limit, report_cut cut, bool ascii,
                    const char *want)
{
    report_text out = {0};

    report_clean(&out, from, limit, cut, ascii);
    CHECK(strcmp(out.at != NULL ? out.at : "", want) == 0, "got '%s', want '%s'", out.at,
          want);
    report_text_free(&out);
}

static void cutting(void)
{
    becomes("layer.2/mlp.down/dgrad/dy", 25, REPORT_CUT_MIDDLE, false,
            "layer.2/mlp.down/dgrad/dy");
    becomes("layer.2/mlp.down/dgrad/dy", 16, REPORT_CUT_MIDDLE, false, "layer....grad/dy");
    becomes("layer.2/mlp.down/dgrad/dy", 10, REPORT_CUT_END, false, "layer.2...");
    becomes("abc", 2, REPORT_CUT_END, true, "..");
    becomes("a\nb\tc", 9, REPORT_CUT_END, true, "a b c");
    becomes("\x1b[31mred", 20, REPORT_CUT_END, true, "?[31mred");
    becomes("\x1b]0;x\x07", 20, REPORT_CUT_END, false, "\xef\xbf\xbd]0;x\xef\xbf\xbd");
    becomes("a\xe2\x80\xae"
            "b",
            20, REPORT_CUT_END, false,
            "a\xef\xbf\xbd"
            "b");
    becomes("\xe2\x80\x9cx\xe2\x80\x9d \xe2\x80\x93 y", 20, REPORT_CUT_END, true,
            "\"x\" - y");
    becomes("\xe6\xbc\xa2\xe5\xad\x97", 3, REPORT_CUT_END, false, "...");
    becomes("\xc3(", 20, REPORT_CUT_END, true, "?(");
    becomes("\xe2\x82", 20, REPORT_CUT_END, true, "??");
    becomes("\xe0\x80\xaf", 20, REPORT_CUT_END, true, "???");
    becomes(NULL, 9, REPORT_CUT_END, false, "");
    CHECK(report_columns("\xe6\xbc\xa2") == 2, "a wide character is two columns");
    CHECK(report_line_break("one two", 5) == 3, "break at the space");
    CHECK(report_line_break("onetwo", 3) == 3, "break of a long word");
    CHECK(report_line_break("one", 3) == 3, "what fits is not broken");
    CHECK(report_line_break("\xe6\xbc\xa2", 1) == 3, "at least one character");
    check_done("cutting and breaking");
}

typedef void number(report_text *text, double value);

static void real3(report_text *text, double value)
{
    report_real(text, value, 3);
}

static void fixed3(report_text *text, double value)
{
    report_fixed(text, value, 3, true);
}

static void reads(number *write, double value, const char *want)
{
    report_text out = {0};

    write(&out, value);
    CHECK(strcmp(out.at, want) == 0, "%a is '%s', want '%s'", value, out.at, want);
    report_text_free(&out);
}

static void numbers(void)
{
    reads(real3, 100000, "1e5");
    reads(real3, 1e-12, "1e-12");
    reads(real3, 0.25, "0.25");
    reads(real3, -3e38, "-3e38");
    reads(real3, (double)NAN, "NaN");
    reads(real3, (double)-INFINITY, "-Infinity");
    reads(fixed3, 0.0062, "+0.006");
    reads(fixed3, -0.0001, "0.000");
    reads(fixed3, -1.5, "-1.500");
    reads(fixed3, 1e300, "1e300");
    reads(report_seconds, 3.14, "3.1 s");
    reads(report_seconds, 9.96, "10 s");
    reads(report_seconds, 118.4, "118 s");
    reads(report_seconds, 179.9, "3 min 00 s");
    reads(report_seconds, 4012.6, "1 h 07 min");
    reads(report_seconds, -1, "?");
    reads(report_seconds, (double)NAN, "?");
    check_done("numbers");
}

int main(void)
{
    hostile();
    cutting();
    numbers();
    return check_exit();
}
