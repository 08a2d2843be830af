/* Words from outside.  Syntax is checked here, so strtod is asked only for what C and JSON
 * agree on, and only in the C locale.
 */
#include "file/text.h"

#include <errno.h>
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *digits(const char *p)
{
    while (is_digit(*p))
        p++;
    return p;
}

/* [+-] digits [. digits] [e [+-] digits], with a digit on one side of the point at least. */
static bool is_real(const char *text)
{
    const char *p = text + (*text == '+' || *text == '-');
    const char *start = p;
    size_t count;

    p = digits(p);
    count = (size_t)(p - start);
    if (*p == '.') {
        start = p + 1;
        p = digits(start);
        count += (size_t)(p - start);
    }
    if (count == 0)
        return false;
    if (*p == 'e' || *p == 'E') {
        p += 1 + (p[1] == '+' || p[1] == '-');
        if (!is_digit(*p))
            return false;
        p = digits(p);
    }
    return *p == 0;
}

static bool is_whole(const char *text)
{
    const char *p = text + (*text == '+' || *text == '-');

    return is_digit(*p) && *digits(p) == 0;
}

bool plumb_text_to_int(const char *text, int64_t *value)
{
    if (!is_whole(text))
        return false;
    errno = 0;
    const long long got = strtoll(text, NULL, 10);
    if (errno != 0)
        return false;
    *value = got;
    return true;
}

bool plumb_text_to_uint(const char *text, uint64_t *value)
{
    if (!is_whole(text) || *text == '-')
        return false;
    errno = 0;
    const unsigned long long got = strtoull(text, NULL, 10);
    if (errno != 0)
        return false;
    *value = got;
    return true;
}

/* Switches this thread to the C locale; leave() puts the old one back. */
static locale_t enter(locale_t *made)
{
    *made = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return *made != (locale_t)0 ? uselocale(*made) : (locale_t)0;
}

static void leave(locale_t made, locale_t old)
{
    if (made == (locale_t)0)
        return;
    uselocale(old);
    freelocale(made);
}

bool plumb_text_to_real(const char *text, double *value)
{
    locale_t made;

    if (!is_real(text))
        return false;
    const locale_t old = enter(&made);
    const double got = strtod(text, NULL);
    leave(made, old);
    if (!isfinite(got))
        return false;
    *value = got;
    return true;
}

void plumb_text_from_real(double value, char text[PLUMB_REAL_TEXT])
{
    locale_t made;
    const locale_t old = enter(&made);

    for (int precision = 1; precision <= 17; precision++) {
        snprintf(text, PLUMB_REAL_TEXT, "%.*g", precision, value);
        if (strtod(text, NULL) == value)
            break;
    }
    leave(made, old);
}

/* "1e+09" and "1e-06" lose the sign and the zeros that only a program writes. */
static void shorten_exponent(char *text)
{
    char *e = strchr(text, 'e');

    if (e == NULL)
        return;
    char *to = e + 1, *from = e + 1;

    if (*from == '-')
        *to++ = *from++;
    else if (*from == '+')
        from++;
    from += strspn(from, "0");
    memmove(to, from, strlen(from) + 1);
}

void plumb_text_from_limit(double value, char text[PLUMB_REAL_TEXT])
{
    const double size = fabs(value);

    if (size < 1e7 && size == floor(size)) {
        plumb_print(text, PLUMB_REAL_TEXT, "%.0f", value);
        return;
    }
    plumb_text_from_real(value, text);
    shorten_exponent(text);
}

/* [+-] 0x digits [. digits] [p [+-] digits], hexadecimal but for the exponent. */
static bool is_hexadecimal(const char *text)
{
    static const char set[] = "0123456789abcdefABCDEF";
    const char *p = text + (*text == '+' || *text == '-');

    if (p[0] != '0' || (p[1] != 'x' && p[1] != 'X'))
        return false;
    p += 2;
    size_t count = strspn(p, set);

    p += count;
    if (*p == '.') {
        const size_t more = strspn(++p, set);

        p += more;
        count += more;
    }
    if (count == 0)
        return false;
    if (*p == 'p' || *p == 'P') {
        p += 1 + (p[1] == '+' || p[1] == '-');
        if (!is_digit(*p))
            return false;
        p = digits(p);
    }
    return *p == 0;
}

static bool is_special(const char *text)
{
    static const char *const words[] = {"inf", "infinity", "nan"};
    const char *p = text + (*text == '+' || *text == '-');

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(p, words[i]) == 0)
            return true;
    return false;
}

static float to_float_rounded(const char *text, int direction)
{
    fesetround(direction);
    return strtof(text, NULL);
}

/* strtof rounds as the thread does, so a number that is the same rounded up and rounded down is
 * exact.
 */
bool plumb_text_to_float(const char *text, float *value, bool *exact)
{
    const bool special = is_special(text);
    locale_t made;

    if (!special && !is_real(text) && !is_hexadecimal(text))
        return false;
    const int before = fegetround();
    const locale_t old = enter(&made);
    const float up = to_float_rounded(text, FE_UPWARD);
    const float down = to_float_rounded(text, FE_DOWNWARD);

    *value = to_float_rounded(text, FE_TONEAREST);
    leave(made, old);
    fesetround(before);
    *exact = special || up == down;
    return true;
}

void plumb_text_from_float(float value, char text[PLUMB_REAL_TEXT])
{
    locale_t made;
    const locale_t old = enter(&made);

    for (int precision = 1; precision <= 9; precision++) {
        snprintf(text, PLUMB_REAL_TEXT, "%.*g", precision, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    if (fabsf(value) >= 1 && fabsf(value) < 1e9f && strchr(text, 'e') != NULL)
        snprintf(text, PLUMB_REAL_TEXT, "%.0f", (double)value); /* 240, not 2.4e+02 */
    leave(made, old);
    if (isnan(value))
        memcpy(text, "nan", sizeof "nan");
}

const char *plumb_text_clean(const char *text, size_t length, char *out, size_t size)
{
    const bool cut = length > size - 1;
    const size_t n = cut ? size - 1 : length;

    for (size_t i = 0; i < n; i++)
        out[i] = text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?';
    out[n] = 0;
    if (cut && n >= 3)
        memcpy(out + n - 3, "...", 3);
    return out;
}

bool plumb_text_is_name(const char *text)
{
    if (*text == 0)
        return false;
    for (const char *p = text; *p != 0; p++)
        if (*p <= 0x20 || *p >= 0x7f)
            return false;
    return true;
}

/* Bytes of the character at p, 0 if it is none.  The second byte has a range of its own for
 * four of the first bytes.
 */
static size_t character(const unsigned char *p, size_t size)
{
    const unsigned char first = p[0];
    const size_t length = first < 0x80                    ? 1
                          : first >= 0xc2 && first < 0xe0 ? 2
                          : first >= 0xe0 && first < 0xf0 ? 3
                          : first >= 0xf0 && first < 0xf5 ? 4
                                                          : 0;
    if (length <= 1 || length > size)
        return length <= size ? length : 0;
    const unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < least || p[1] > most)
        return 0;
    for (size_t i = 2; i < length; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

size_t plumb_text_utf8(const char *text, size_t size)
{
    size_t at = 0, length;

    while (at < size &&
           (length = character((const unsigned char *)text + at, size - at)) > 0)
        at += length;
    return at;
}

char *plumb_text_copy(const char *text)
{
    return text != NULL ? strdup(text) : NULL;
}
