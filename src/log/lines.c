/* Lines of a growing file, in a window of bounded size.
 *
 * The window starts at the cursor.  It is filled, its complete lines are handed out, and the
 * cursor moves behind them.  A line that fills the whole window is too long: it is reported
 * once, and its bytes are dropped as they come.
 */
#include "log/lines.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file/whole.h"

enum { WINDOW = PLUMB_LONGEST_LINE + 2 /* room for its end */ };

/* Hands out one line; text without newline. */
static plumb_status hand_out(plumb_cursor *cursor, const char *text, size_t length,
                             plumb_line *line, void *context, plumb_error *why)
{
    if (cursor->skipping) {
        cursor->skipping = false;
        return PLUMB_OK;
    }
    if (length > 0 && text[length - 1] == '\r')
        length--;
    return line(context, length <= PLUMB_LONGEST_LINE ? text : NULL, length, why);
}

/* The complete lines in window[0..got); *used gets the bytes they take. */
static plumb_status hand_out_all(plumb_cursor *cursor, const char *window, size_t got,
                                 size_t *used, plumb_line *line, void *context,
                                 plumb_error *why)
{
    const char *end;
    plumb_status status = PLUMB_OK;

    *used = 0;
    while (status == PLUMB_OK &&
           (end = memchr(window + *used, '\n', got - *used)) != NULL) {
        const char *start = window + *used;
        *used = (size_t)(end - window) + 1;
        status = hand_out(cursor, start, (size_t)(end - start), line, context, why);
    }
    return status;
}

static plumb_status read_open(int fd, const char *path, char *window, plumb_cursor *cursor,
                              bool final, plumb_line *line, void *context, plumb_error *why)
{
    for (;;) {
        size_t got, used;
        plumb_status status =
            plumb_file_pread(fd, path, window, WINDOW, (size_t)cursor->offset, &got, why);
        if (status == PLUMB_OK)
            status = hand_out_all(cursor, window, got, &used, line, context, why);
        if (status != PLUMB_OK)
            return status;
        if (used == 0 && got == WINDOW) {
            if (!cursor->skipping)
                status = line(context, NULL, got, why);
            cursor->skipping = true;
            used = got;
        } else if (cursor->skipping) {
            used = got; /* the middle of a long line */
        } else if (final && got < WINDOW && used < got) {
            status = hand_out(cursor, window + used, got - used, line, context, why);
            used = got;
        }
        cursor->offset += (int64_t)used;
        if (status != PLUMB_OK || got < WINDOW)
            return status;
    }
}

plumb_status plumb_lines_read(const char *path, plumb_cursor *cursor, bool final,
                              int64_t *number, plumb_line *line, void *context,
                              plumb_error *why)
{
    char *window;
    size_t size;
    int fd;
    plumb_status status = plumb_file_open(path, &fd, &size, why);

    if (status == PLUMB_NOT_FOUND)
        return PLUMB_OK;
    if (status != PLUMB_OK)
        return status;
    if ((uint64_t)size < (uint64_t)cursor->offset) {
        *cursor = (plumb_cursor){0};
        if (number != NULL)
            *number = 0;
    }
    window = malloc(WINDOW);
    if (window == NULL)
        status = plumb_fail(why, PLUMB_NO_MEMORY, "%s: out of memory", path);
    else
        status = read_open(fd, path, window, cursor, final, line, context, why);
    free(window);
    close(fd);
    return status;
}
