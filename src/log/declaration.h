/* log/declaration.h - run.json between JSON and struct, and the closed list of features. */
#ifndef PLUMB_LOG_DECLARATION_H
#define PLUMB_LOG_DECLARATION_H

#include "plumb/log.h"

extern const char *const plumb_features[];
extern const size_t plumb_feature_count;

/* what names the document in messages. */
plumb_status plumb_declaration_from_json(const json_t *json, const char *what,
                                         plumb_declaration *declaration, plumb_error *why);

/* Fresh; NULL when out of memory or when a string is not UTF-8. */
json_t *plumb_declaration_to_json(const plumb_declaration *declaration);

#endif
