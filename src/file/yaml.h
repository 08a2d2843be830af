/* file/yaml.h - a YAML 1.2 document as a plain tree, without YAML's surprises.
 *
 * Refused: anchors, aliases, tags, several documents, duplicate keys, keys that are not
 * scalars, nesting deeper than 16.  Everything is text; what a word means is the reader's.
 */
#ifndef PLUMB_FILE_YAML_H
#define PLUMB_FILE_YAML_H

#include "plumb/file.h"

typedef enum plumb_yaml_kind {
    PLUMB_YAML_SCALAR,
    PLUMB_YAML_SEQUENCE,
    PLUMB_YAML_MAPPING,
} plumb_yaml_kind;

typedef struct plumb_yaml {
    plumb_yaml_kind kind;
    int line;   /* from 1 */
    bool plain; /* SCALAR: not quoted, so 1 may be a number and null nothing */
    char *key;  /* in a mapping, else NULL */
    int key_line;
    char *text;                         /* SCALAR, else NULL */
    struct plumb_yaml *children, *last; /* first and last, in order */
    struct plumb_yaml *next;
    size_t count;
} plumb_yaml;

enum { PLUMB_YAML_LIMIT = 1 << 20, PLUMB_YAML_DEEPEST = 16 };

/* *tree is NULL for a document with nothing in it.  what names the text in messages, which
 * read "what:line: ..." (with_line) or "what: ...".
 */
plumb_status plumb_yaml_parse(const char *text, size_t size, const char *what,
                              bool with_line, plumb_yaml **tree, plumb_error *why);
void plumb_yaml_free(plumb_yaml *tree);

/* True for an empty plain scalar, ~ and null: a key without a value. */
bool plumb_yaml_is_null(const plumb_yaml *node);

/* Plain scalars that are numbers, true, false or null become such, quoted ones strings. */
json_t *plumb_yaml_to_json(const plumb_yaml *tree);

#endif
