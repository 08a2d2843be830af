/* log/request.h - the table of the request's variables. */
#ifndef PLUMB_LOG_REQUEST_H
#define PLUMB_LOG_REQUEST_H

#include "plumb/log.h"

typedef struct plumb_variable {
    const char *name;    /* of the environment */
    const char *key;     /* of request.json */
    const char *allowed; /* for messages */
    bool (*read)(const char *text, plumb_request *request);
} plumb_variable;

extern const plumb_variable plumb_variables[];
extern const size_t plumb_variable_count;

/* A seed past int64 is written as a string of digits; readers take both. */
json_t *plumb_seed_json(uint64_t seed);

#endif
