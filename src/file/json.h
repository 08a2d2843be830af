/* file/json.h - plumb_json_parse with a limit of the caller's choice. */
#ifndef PLUMB_FILE_JSON_H
#define PLUMB_FILE_JSON_H

#include "file/whole.h"
#include "plumb/file.h"

plumb_status plumb_json_parse_limit(const char *text, size_t size, size_t limit,
                                    const char *what, json_t **json, plumb_error *why);

#endif
