/* log/run.h - the writer's state, shared by the files of this room that write. */
#ifndef PLUMB_LOG_RUN_H
#define PLUMB_LOG_RUN_H

#include "plumb/log.h"

/* A .pls file that is written. */
typedef struct plumb_pls_out {
    int fd;            /* -1 until the first call */
    size_t site_count; /* of its header */
} plumb_pls_out;

struct plumb_run {
    char *directory;
    char *stop_path;
    int metrics, events; /* descriptors, O_APPEND; one write per line */
    plumb_pls_out samples, histograms;
};

#endif
