/* text.h - text that grows, and foreign text made harmless.
 *
 * Labels, site names and messages come from runs of other people.  Nothing of them reaches a
 * terminal or a page except through report_clean or report_html, which leave valid UTF-8 (or
 * ASCII) without control, escape, direction or invisible characters.
 */
#ifndef REPORT_TEXT_H
#define REPORT_TEXT_H

#include "plumb/base.h"

/* Zero-initialise; free at.  Running out of memory is remembered in failed, and later calls
 * do nothing, so that callers check once, at the end.
 */
typedef struct report_text {
    char *at; /* ends with 0 once something was added */
    size_t size, room;
    bool failed;
} report_text;

void report_text_free(report_text *text);
void report_bytes(report_text *text, const char *bytes, size_t size);
void report_add(report_text *text, const char *trusted);
void report_print(report_text *text, const char *format, ...) PLUMB_PRINTF(2, 3);
void report_spaces(report_text *text, size_t count);

/* Appends value as printf's %.*g, with '.' whatever the locale, "1e5" rather than "1e+05",
 * and "NaN", "Infinity", "-Infinity".
 */
void report_real(report_text *text, double value, int digits);
/* The same with a fixed number of decimals, for columns that are aligned. */
void report_fixed(report_text *text, double value, int decimals, bool sign);
/* "4.1 s", "2 min 10 s", "1 h 05 min". */
void report_seconds(report_text *text, double seconds);

/* Appends foreign text as one line of at most limit columns.  What is cut is marked; with
 * middle the cut is in the middle, where names are least telling.  foreign may be NULL.
 */
typedef enum report_cut { REPORT_CUT_END, REPORT_CUT_MIDDLE } report_cut;
void report_clean(report_text *text, const char *foreign, size_t limit, report_cut cut,
                  bool ascii);

/* The same for HTML text and attribute values in double quotes: & < > " ' are escaped. */
void report_html(report_text *text, const char *foreign, size_t limit);

/* Columns of clean text on a terminal. */
size_t report_columns(const char *clean);

/* Bytes of clean text that fill at most columns, broken at the last space where there is one;
 * at least one character.
 */
size_t report_line_break(const char *clean, size_t columns);

#endif
