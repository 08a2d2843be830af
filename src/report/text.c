/* Text that grows, and foreign text made harmless: UTF-8 is decoded strictly, and what could
 * move a cursor, turn the direction of a line, or hide is replaced by one visible character.
 */
#include "report/text.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLACEMENT = 0xfffd };

void report_text_free(report_text *text)
{
    free(text->at);
    *text = (report_text){0};
}

void report_bytes(report_text *text, const char *bytes, size_t size)
{
    size_t need;

    if (text->failed || !plumb_add_size(text->size, size, &need) ||
        !plumb_add_size(need, 1, &need)) {
        text->failed = true;
        return;
    }
    if (need > text->room) {
        const size_t room = need < SIZE_MAX / 2 ? 2 * need : need;
        char *at = realloc(text->at, room);

        if (at == NULL) {
            text->failed = true;
            return;
        }
        text->at = at;
        text->room = room;
    }
    memcpy(text->at + text->size, bytes, size);
    text->size += size;
    text->at[text->size] = 0;
}

void report_add(report_text *text, const char *trusted)
{
    report_bytes(text, trusted, strlen(trusted));
}

void report_print(report_text *text, const char *format, ...)
{
    char line[2048];
    va_list arguments;

    va_start(arguments, format);
    const int size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (size < 0)
        text->failed = true;
    else
        report_bytes(text, line,
                     (size_t)size < sizeof line ? (size_t)size : sizeof line - 1);
}

void report_spaces(report_text *text, size_t count)
{
    while (count-- > 0)
        report_bytes(text, " ", 1);
}

/* --- numbers ------------------------------------------------------------------- */

static bool add_nonfinite(report_text *text, double value)
{
    if (isfinite(value))
        return false;
    report_add(text, isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
    return true;
}

/* printf uses the locale's decimal point; pages and golden files want a full stop. */
static void add_with_full_stop(report_text *text, const char *number)
{
    const char *point = localeconv()->decimal_point;
    const char *found = *point != 0 ? strstr(number, point) : NULL;

    if (found == NULL) {
        report_add(text, number);
        return;
    }
    report_bytes(text, number, (size_t)(found - number));
    report_add(text, ".");
    report_add(text, found + strlen(point));
}

void report_real(report_text *text, double value, int digits)
{
    char number[64];

    if (add_nonfinite(text, value))
        return;
    snprintf(number, sizeof number, "%.*g", digits, value);
    char *power = strchr(number, 'e');
    if (power != NULL) {
        char *from = power + 1, *to = power + 1;

        if (*from == '-')
            *to++ = *from++;
        while (*from == '+' || (*from == '0' && from[1] != 0))
            from++;
        memmove(to, from, strlen(from) + 1);
    }
    add_with_full_stop(text, number);
}

void report_fixed(report_text *text, double value, int decimals, bool sign)
{
    char number[400];

    if (fabs(value) >= 1e6 || !isfinite(value)) {
        report_real(text, value, 3);
        return;
    }
    /* Not "-0.000": a sign that carries nothing. */
    if (fabs(value) < 0.5 * pow(10, -decimals))
        value = 0;
    if (sign && value != 0)
        snprintf(number, sizeof number, "%+.*f", decimals, value);
    else
        snprintf(number, sizeof number, "%.*f", decimals, value);
    add_with_full_stop(text, number);
}

void report_seconds(report_text *text, double seconds)
{
    if (!(seconds >= 0) || seconds > 1e9) {
        report_add(text, "?");
    } else if (seconds < 9.95) {
        report_fixed(text, seconds, 1, false);
        report_add(text, " s");
    } else if (seconds < 119.5) {
        report_print(text, "%.0f s", seconds);
    } else if (seconds < 3600 - 0.5) {
        const long whole = lround(seconds);

        report_print(text, "%ld min %02ld s", whole / 60, whole % 60);
    } else {
        const long minutes = lround(seconds / 60);

        report_print(text, "%ld h %02ld min", minutes / 60, minutes % 60);
    }
}

/* --- characters ------------------------------------------------------------------ */

/* The code point at *at, and *at moved behind it.  A byte that starts no well-formed sequence
 * (Unicode 15, table 3-7) reads as U+FFFD.
 */
static uint32_t decode(const char **at)
{
    const unsigned char *s = (const unsigned char *)*at;
    const uint32_t lead = s[0];
    const int more = lead < 0x80 ? 0 : lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    uint32_t point = lead < 0x80 ? lead : lead & (0x3fu >> more);

    *at += 1;
    if (lead >= 0x80 && (lead < 0xc2 || lead > 0xf4))
        return REPLACEMENT;
    for (int i = 1; i <= more; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return REPLACEMENT;
        point = point << 6 | (s[i] & 0x3fu);
    }
    if (point < least[more] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
        return REPLACEMENT;
    *at += more;
    return point;
}

static size_t encode(uint32_t point, char out[4])
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (char)(0xc0 | point >> 6);
        out[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (char)(0xe0 | point >> 12);
        out[1] = (char)(0x80 | (point >> 6 & 0x3f));
        out[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | point >> 18);
    out[1] = (char)(0x80 | (point >> 12 & 0x3f));
    out[2] = (char)(0x80 | (point >> 6 & 0x3f));
    out[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}

typedef struct span {
    uint32_t first, last;
} span;

static bool is_in(const span *spans, size_t count, uint32_t point)
{
    for (size_t i = 0; i < count; i++)
        if (point >= spans[i].first && point <= spans[i].last)
            return true;
    return false;
}

/* Controls, direction marks, invisible and unassigned-by-design characters, private use, and
 * combining marks (stacks of them climb over the lines above).
 */
static bool is_harmful(uint32_t point)
{
    static const span harmful[] = {
        {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},       {0x300, 0x36f},
        {0x483, 0x489},   {0x591, 0x5c7},   {0x610, 0x61c},     {0x64b, 0x65f},
        {0x180b, 0x180f}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},   {0x200b, 0x200f},
        {0x2028, 0x202e}, {0x2060, 0x206f}, {0x20d0, 0x20ff},   {0x3164, 0x3164},
        {0xe000, 0xf8ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},   {0xfeff, 0xfeff},
        {0xfff0, 0xfffc}, {0xfffe, 0xffff}, {0x1d165, 0x1d1ad}, {0xe0000, 0x10ffff},
    };

    return is_in(harmful, sizeof harmful / sizeof harmful[0], point);
}

static size_t columns_of(uint32_t point)
{
    static const span wide[] = {
        {0x1100, 0x115f},   {0x2e80, 0xa4cf},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},
        {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f},
        {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
    };

    return is_in(wide, sizeof wide / sizeof wide[0], point) ? 2 : 1;
}

/* What an English sentence may hold, in ASCII. */
static uint32_t to_ascii(uint32_t point)
{
    static const struct {
        uint32_t from;
        char to;
    } table[] = {
        {0x2010, '-'}, {0x2011, '-'},  {0x2012, '-'},  {0x2013, '-'}, {0x2014, '-'},
        {0x2212, '-'}, {0x2018, '\''}, {0x2019, '\''}, {0x201c, '"'}, {0x201d, '"'},
        {0xd7, 'x'},   {0x2190, '<'},  {0x2192, '>'},  {0x2022, '*'}, {0xb7, '*'},
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].from == point)
            return (unsigned char)table[i].to;
    return '?';
}

/* The next character as it will be shown: white space is a space, harm is visible. */
static uint32_t next_shown(const char **at, bool ascii)
{
    const uint32_t point = decode(at);

    if (point == '\n' || point == '\t' || point == '\r' || point == 0xa0)
        return ' ';
    if (is_harmful(point))
        return ascii ? '?' : REPLACEMENT;
    return ascii && point >= 0x80 ? to_ascii(point) : point;
}

size_t report_columns(const char *clean)
{
    size_t columns = 0;

    while (*clean != 0)
        columns += columns_of(decode(&clean));
    return columns;
}

/* Columns of foreign text, counted no further than most. */
static size_t columns_up_to(const char *foreign, size_t most, bool ascii)
{
    size_t columns = 0;

    while (*foreign != 0 && columns <= most)
        columns += columns_of(next_shown(&foreign, ascii));
    return columns;
}

static void add_point(report_text *text, uint32_t point)
{
    char bytes[4];

    report_bytes(text, bytes, encode(point, bytes));
}

/* Appends characters while they fit; returns where it stopped. */
static const char *add_while_fits(report_text *text, const char *from, size_t columns,
                                  bool ascii)
{
    while (*from != 0) {
        const char *next = from;
        const uint32_t point = next_shown(&next, ascii);

        if (columns_of(point) > columns)
            break;
        columns -= columns_of(point);
        add_point(text, point);
        from = next;
    }
    return from;
}

/* Where the last `columns` columns of text start.  Looks at 64 kB of the end only. */
static const char *tail_start(const char *text, size_t columns, bool ascii)
{
    size_t left = strlen(text);
    const char *from = text + (left > 65536 ? left - 65536 : 0);

    for (left = columns_up_to(from, SIZE_MAX - 2, ascii); left > columns && *from != 0;)
        left -= columns_of(next_shown(&from, ascii));
    return from;
}

void report_clean(report_text *text, const char *foreign, size_t limit, report_cut cut,
                  bool ascii)
{
    if (foreign == NULL || limit == 0)
        return;
    if (columns_up_to(foreign, limit, ascii) <= limit) {
        add_while_fits(text, foreign, limit, ascii);
        return;
    }
    const size_t mark = limit < 3 ? limit : 3;
    const size_t keep = limit - mark;
    const size_t head = cut == REPORT_CUT_MIDDLE ? keep / 2 : keep;

    add_while_fits(text, foreign, head, ascii);
    report_bytes(text, "...", mark);
    if (cut == REPORT_CUT_MIDDLE)
        add_while_fits(text, tail_start(foreign, keep - head, ascii), keep - head, ascii);
}

void report_html(report_text *text, const char *foreign, size_t limit)
{
    report_text clean = {0};

    report_clean(&clean, foreign, limit, REPORT_CUT_END, false);
    for (const char *c = clean.at; c != NULL && *c != 0; c++) {
        switch (*c) {
        case '&':
            report_add(text, "&amp;");
            break;
        case '<':
            report_add(text, "&lt;");
            break;
        case '>':
            report_add(text, "&gt;");
            break;
        case '"':
            report_add(text, "&quot;");
            break;
        case '\'':
            report_add(text, "&#39;");
            break;
        default:
            report_bytes(text, c, 1);
        }
    }
    text->failed |= clean.failed;
    report_text_free(&clean);
}

size_t report_line_break(const char *clean, size_t columns)
{
    const char *at = clean, *space = NULL;

    while (*at != 0) {
        const char *next = at;
        const size_t wide = columns_of(decode(&next));

        if (*at == ' ')
            space = at;
        if (wide > columns)
            break;
        columns -= wide;
        at = next;
    }
    if (*at == 0)
        return (size_t)(at - clean);
    if (space != NULL && space > clean)
        return (size_t)(space - clean);
    if (at == clean)
        decode(&at);
    return (size_t)(at - clean);
}
