/* log/run.h - the writer's state, shared by the files of this room that write. */
#ifndef PLUMB_LOG_RUN_H
#define PLUMB_LOG_RUN_H

#include "plumb/log.h"

struct plumb_run {
    char *directory;
    char *stop_path;
    int metrics, events; /* descriptors, O_APPEND; one write per line */
    int samples;         /* -1 until the first call */
    size_t site_count;   /* of the header of samples */
};

#endif
