/* file/settings.h - one setting from one word or node; shared by the files of settings. */
#ifndef PLUMB_FILE_SETTINGS_H
#define PLUMB_FILE_SETTINGS_H

#include "file/yaml.h"

/* Where a value comes from: "run.yaml:9" or "--set model.width=0". */
enum { PLUMB_WHERE = 256 };

/* Stores the value of node or of a word, freeing what was there.  where begins messages. */
plumb_status plumb_setting_from_node(const plumb_setting *setting, const plumb_yaml *node,
                                     const char *where, void *object, plumb_error *why);
plumb_status plumb_setting_from_word(const plumb_setting *setting, const char *word,
                                     const char *where, void *object, plumb_error *why);

/* Frees and zeroes one value. */
void plumb_setting_clear(const plumb_setting *setting, void *object);

/* "1 to 64", "0.5 to 1", "true, false", "a, b, c": the end of `allowed:`; "" if anything. */
void plumb_setting_allowed(const plumb_setting *setting, char *text, size_t size);

#endif
