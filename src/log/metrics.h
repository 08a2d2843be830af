/* log/metrics.h - one line of metrics.jsonl. */
#ifndef PLUMB_LOG_METRICS_H
#define PLUMB_LOG_METRICS_H

#include "plumb/log.h"

/* False when text is no JSON object with a step from 1 on and a loss. */
bool plumb_metrics_parse(const char *text, size_t length, plumb_metrics *metrics);

#endif
