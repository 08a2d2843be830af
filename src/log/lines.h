/* log/lines.h - the lines of a file that may still be growing, and may be anything. */
#ifndef PLUMB_LOG_LINES_H
#define PLUMB_LOG_LINES_H

#include "plumb/base.h"

enum { PLUMB_LONGEST_LINE = 1 << 20 };

/* Called for each line, without its newline and a carriage return before that.  text is NULL
 * for a line of more than PLUMB_LONGEST_LINE bytes.
 */
typedef plumb_status plumb_line(void *context, const char *text, size_t length,
                                plumb_error *why);

/* Where reading stands. */
typedef struct plumb_cursor {
    int64_t offset; /* bytes consumed */
    bool skipping;  /* inside a line that is too long and has been reported */
} plumb_cursor;

/* Calls line for every complete line from the cursor on; with final, also for a last one that
 * has no newline.  Memory stays bounded whatever the file holds.  A file shorter than the
 * cursor has been replaced: it is read from the start and *restarted (may be NULL) is set.
 * An absent file has no lines.
 */
plumb_status plumb_lines_read(const char *path, plumb_cursor *cursor, bool final,
                              int64_t *number, plumb_line *line, void *context,
                              plumb_error *why);

#endif
