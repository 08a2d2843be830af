/* How a stream wants to be written to: width, colours, charset.  The only place of this room
 * that reads the environment.
 */
#include "plumb/report.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* COLUMNS, a whole number; 0 when unset or anything else. */
static int columns_asked(void)
{
    const char *columns = getenv("COLUMNS");
    char *end;

    if (columns == NULL || *columns < '0' || *columns > '9')
        return 0;
    const long value = strtol(columns, &end, 10);
    return *end == 0 && value > 0 && value <= 10000 ? (int)value : 0;
}

static int columns_of_terminal(int descriptor)
{
    struct winsize size;

    return ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* Of the environment's locale, whether or not the program has called setlocale. */
static bool charset_is_utf8(void)
{
    const locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);

    if (locale == (locale_t)0)
        return false;
    const bool utf8 = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    freelocale(locale);
    return utf8;
}

plumb_screen plumb_screen_for(FILE *out)
{
    const int descriptor = fileno(out);
    const bool terminal = descriptor >= 0 && isatty(descriptor) == 1;
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    const bool dumb = term == NULL || *term == 0 || strcmp(term, "dumb") == 0;
    plumb_screen screen = {.out = out, .width = columns_asked()};

    if (screen.width == 0 && terminal)
        screen.width = columns_of_terminal(descriptor);
    if (screen.width == 0)
        screen.width = 100;
    screen.color = terminal && !dumb && (no_color == NULL || *no_color == 0);
    screen.progress = terminal && !dumb;
    screen.unicode = charset_is_utf8();
    return screen;
}
