/* Numbers as text.  Arithmetic in fp64 with at most three roundings: far below the half
 * step of fp32 except beside a tie, and what is printed has been read back.
 */
#include "quant/decimal.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX_DIGITS = 15, MAX_EXPONENT = 99 };

/* x * 10^e; the powers up to 10^22 are exact in fp64. */
static double scale10(double x, int e)
{
    static const double exact[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

    for (; e > 22; e -= 22)
        x *= exact[22];
    for (; e < -22; e += 22)
        x /= exact[22];
    return e >= 0 ? x * exact[e] : x / exact[-e];
}

/* Reads up to `most` digits; returns how many. */
static size_t digits(const char *text, size_t n, int most, int *value)
{
    size_t i = 0;

    *value = 0;
    for (; i < n && i < (size_t)most && text[i] >= '0' && text[i] <= '9'; i++)
        *value = 10 * *value + (text[i] - '0');
    return i;
}

/* "e-12": false unless it is an exponent to the end. */
static bool exponent_part(const char *text, size_t n, int *exponent)
{
    const bool sign = n > 1 && (text[1] == '-' || text[1] == '+');
    const size_t start = sign ? 2 : 1;
    int value;

    if (n <= start || (text[0] != 'e' && text[0] != 'E') ||
        digits(text + start, n - start, 2, &value) != n - start)
        return false;
    *exponent += sign && text[1] == '-' ? -value : value;
    return true;
}

bool plumb_decimal_parse(const char *text, size_t n, float *value)
{
    int64_t significand = 0;
    int exponent = 0, significant = 0, seen = 0;
    bool point = false;
    size_t i = 0;

    for (; i < n; i++) {
        if (text[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (text[i] < '0' || text[i] > '9')
            break;
        significand = 10 * significand + (text[i] - '0');
        significant += significand != 0;
        exponent -= point;
        seen++;
        if (significant > MAX_DIGITS)
            return false;
    }
    if (seen == 0 || seen > MAX_EXPONENT ||
        (i < n && !exponent_part(text + i, n - i, &exponent)))
        return false;
    const double x = scale10((double)significand, exponent);
    if (x != 0 &&
        (x > (double)FLT_MAX * (1 + 0x1p-26) || x < (double)FLT_MIN * (1 - 0x1p-26)))
        return false;
    const float nearest = (float)x;
    *value = nearest > FLT_MAX ? FLT_MAX : x != 0 && nearest < FLT_MIN ? FLT_MIN : nearest;
    return true;
}

static int exponent10(double x)
{
    int e = 0;

    while (scale10(1, e + 1) <= x)
        e++;
    while (scale10(1, e) > x)
        e--;
    return e;
}

/* significand * 10^exponent, with a point where that is short and as "12e-20" elsewhere. */
static void write(uint64_t significand, int exponent, char text[PLUMB_DECIMAL_TEXT])
{
    char all[PLUMB_DECIMAL_TEXT];

    plumb_print(all, sizeof all, "%llu", (unsigned long long)significand);
    const int count = (int)strlen(all);

    if (exponent >= 0 && exponent <= 4)
        plumb_print(text, PLUMB_DECIMAL_TEXT, "%s%.*s", all, exponent, "0000");
    else if (exponent < 0 && -exponent < count)
        plumb_print(text, PLUMB_DECIMAL_TEXT, "%.*s.%s", count + exponent, all,
                    all + count + exponent);
    else if (exponent < 0 && -exponent < count + 4)
        plumb_print(text, PLUMB_DECIMAL_TEXT, "0.%.*s%s", -exponent - count, "000", all);
    else
        plumb_print(text, PLUMB_DECIMAL_TEXT, "%se%d", all, exponent);
}

void plumb_decimal_print(float value, char text[PLUMB_DECIMAL_TEXT])
{
    const double x = (double)value;

    if (value == 0) {
        plumb_print(text, PLUMB_DECIMAL_TEXT, "0");
        return;
    }
    const int top = exponent10(x);
    for (int count = 1; count <= MAX_DIGITS; count++) {
        uint64_t significand = (uint64_t)rint(scale10(x, count - 1 - top));
        int exponent = top - (count - 1);
        float back = 0;

        for (; significand % 10 == 0; significand /= 10)
            exponent++;
        write(significand, exponent, text);
        if (plumb_decimal_parse(text, strlen(text), &back) && back == value)
            return;
    }
}
