/* seen.h - a run directory as it is read while it grows: its lines, its declaration, its end, and
 * whether it fails by the predicates that need no twin.
 */
#ifndef REPORT_SEEN_H
#define REPORT_SEEN_H

#include "plumb/study.h"

typedef struct report_seen {
    const char *run_dir;
    plumb_history history;
    plumb_declaration declared;
    bool has_declaration;
    char reason[16]; /* "": no end.json */
    int64_t end_step;
    plumb_failure failure;
} report_seen;

/* Reads what is new; *seen starts with run_dir and zeros.  final: half a line at the end counts. */
plumb_status report_seen_refresh(report_seen *seen, bool final, plumb_error *why);
void report_seen_free(report_seen *seen);

int64_t report_seen_last_step(const report_seen *seen);
bool report_seen_failed(const report_seen *seen);
bool report_seen_reached(const report_seen *seen);

/* "The run fails at step 28: a value is not finite." */
enum { REPORT_SEEN_WORDS = 400 };
void report_seen_headline(const report_seen *seen, char text[REPORT_SEEN_WORDS]);

/* Exit status of a verb that shows it: 1 fails, 0 reached its goal, else 2. */
int report_seen_exit(const report_seen *seen);

#endif
