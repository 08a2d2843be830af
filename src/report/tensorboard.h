/* tensorboard.h - event files as TensorBoard reads them, encoded by hand: records with masked
 * CRC-32C around protocol buffers, of which four messages with six fields are needed.
 */
#ifndef REPORT_TENSORBOARD_H
#define REPORT_TENSORBOARD_H

#include "report/text.h"

/* A record that holds one event.  Wall time in seconds; bytes go to the end of *file. */
void report_event_version(report_text *file);

/* Values of one step, collected and then written as one event. */
typedef struct report_event {
    report_text values; /* encoded; zero-initialise */
} report_event;

void report_event_value(report_event *event, const char *tag, double value);
/* Appends the event and empties it; nothing where it has no values. */
void report_event_end(report_text *file, report_event *event, int64_t step, double wall);

#endif
