/* plumb/file.h - files that are whole or absent, safetensors, npy, run files.
 *
 * Everything read here may be hostile: sizes are bounded and checked before memory is
 * taken, and nothing read is executed.  Functions are safe to call from several threads
 * on different files.
 */
#ifndef PLUMB_FILE_H
#define PLUMB_FILE_H

#include <jansson.h>

#include "plumb/format.h"
#include "plumb/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- whole files ----------------------------------------------------------- */

/* Reads a file of at most limit bytes into a fresh buffer with a 0 byte behind it; free()
 * it.  PLUMB_NOT_FOUND, PLUMB_IO, or PLUMB_BAD_INPUT when it is longer than limit.
 */
plumb_status plumb_file_read(const char *path, size_t limit, char **data, size_t *size,
                             plumb_error *why);

/* Writes path so that a reader, or a machine that loses power, sees the old file or the new
 * one, never a part: another name in the same directory, fsync, rename, fsync of the directory.
 * A path that is a device or a pipe is refused, as it would be replaced.
 */
plumb_status plumb_file_write(const char *path, const void *data, size_t size,
                              plumb_error *why);

/* As `mkdir -p`.  An existing directory is fine. */
plumb_status plumb_dir_make(const char *path, plumb_error *why);

/* As `rm -r`, without following links.  Absent is fine. */
plumb_status plumb_dir_remove(const char *path, plumb_error *why);

/* Joins directory and name into a fresh string, free() it.  NULL when out of memory. */
char *plumb_path_join(const char *directory, const char *name);

/* --- JSON ------------------------------------------------------------------ */

/* A real for JSON: non-finite values become "NaN", "Infinity", "-Infinity" (contract). */
json_t *plumb_json_real(double value);

/* The reverse: a number, or one of those strings, or null (as NaN).  False if none. */
bool plumb_json_to_real(const json_t *json, double *value);

/* Parses text of at most 64 MB; also accepts the bare tokens NaN, Infinity, -Infinity that
 * Python's json.dumps writes.  The message names what (a path, a line) and the position.
 */
plumb_status plumb_json_parse(const char *text, size_t size, const char *what,
                              json_t **json, plumb_error *why);

/* plumb_file_write of the document, indented by 1, keys in insertion order, newline last. */
plumb_status plumb_json_save(const char *path, const json_t *json, plumb_error *why);
plumb_status plumb_json_load(const char *path, size_t limit, json_t **json,
                             plumb_error *why);

/* --- safetensors ------------------------------------------------------------ */

/* https://github.com/huggingface/safetensors: 8 bytes little-endian header length, JSON
 * header, data.  Limits: header at most 100 MB; offsets inside the file, without gaps or
 * overlap; span equal to the product of the shape.
 */
typedef struct plumb_safetensors plumb_safetensors;

typedef struct plumb_named_view {
    const char *name;
    plumb_view view;
} plumb_named_view;

/* Atomic, as plumb_file_write.  metadata: string to string, or NULL. */
plumb_status plumb_safetensors_save(const char *path, const plumb_named_view *tensors,
                                    size_t count, const json_t *metadata, plumb_error *why);

/* Maps the file; views point into the mapping and are read-only. */
plumb_status plumb_safetensors_open(const char *path, plumb_safetensors **file,
                                    plumb_error *why);
size_t plumb_safetensors_count(const plumb_safetensors *file);
const plumb_named_view *plumb_safetensors_at(const plumb_safetensors *file, size_t index);
const plumb_named_view *plumb_safetensors_find(const plumb_safetensors *file,
                                               const char *name);
/* The memory that holds a tensor's data now is given back; who reads them again waits for the file. */
void plumb_safetensors_forget(const plumb_safetensors *file,
                              const plumb_named_view *tensor);
const json_t *plumb_safetensors_metadata(const plumb_safetensors *file); /* may be NULL */
void plumb_safetensors_close(plumb_safetensors **file);

/* --- npy ------------------------------------------------------------------- */

/* A matrix out of an npy file (NumPy's format, versions 1.0 to 3.0), as fp32, row-major
 * whatever the order in the file.  A vector is one row.
 */
typedef struct plumb_npy {
    size_t rows, cols;
    float *x;       /* plumb_npy_free */
    size_t inexact; /* fp64 elements that are no fp32 numbers and were rounded (nearest) */
    char type[16];  /* as the file has it: "<f4" */
} plumb_npy;

/* Floats of 2, 4 and 8 bytes in either byte order; and codes, which are unsigned integers, or
 * the bytes that numpy.save writes for arrays of ml_dtypes ('<V1', '<V2', for float8_e5m2
 * '<f1'): of the format *codes, with decode scale 1.  codes is NULL for files of numbers.
 *
 * PLUMB_UNSUPPORTED when codes is NULL and the file holds some; PLUMB_BAD_FORMAT when codes does
 * not fit the elements; PLUMB_NOT_FOUND; PLUMB_BAD_INPUT for everything else that is no such
 * file: at most 8 GiB, a header of at most 64 KiB, one or two dimensions, exactly as many bytes
 * as they need, and codes of fewer than 8 bits one to a byte, never packed, with 0 above them.
 * *array needs no free then.
 */
plumb_status plumb_npy_load(const char *path, const plumb_format *codes, plumb_npy *array,
                            plumb_error *why);
void plumb_npy_free(plumb_npy *array);

/* x[rows, cols], row-major, as '<f4' of version 1.0.  Atomic, as plumb_file_write. */
plumb_status plumb_npy_save(const char *path, const float *x, size_t rows, size_t cols,
                            plumb_error *why);

/* --- settings: one table gives names, types, bounds, defaults and help ------- */

typedef enum plumb_setting_type {
    PLUMB_SETTING_INT,    /* int64_t */
    PLUMB_SETTING_REAL,   /* double; whole-token numbers only, no inf, no nan */
    PLUMB_SETTING_BOOL,   /* bool; true, false */
    PLUMB_SETTING_STRING, /* char *, malloc'ed; at most 4096 bytes */
    PLUMB_SETTING_LIST,   /* plumb_strings; one string or a sequence of strings */
    PLUMB_SETTING_TABLE,  /* json_t *, an array of mappings, validated by its owner */
} plumb_setting_type;

typedef struct plumb_strings {
    char **at;
    size_t count;
} plumb_strings;

/* One setting.  offset is where the value lies in the owner's struct. */
typedef struct plumb_setting {
    const char *key; /* dotted: "model.width" is `model: {width: ...}` */
    plumb_setting_type type;
    size_t offset;
    double least, most;   /* INT, REAL: allowed range, both ends included */
    const char *fallback; /* default, as it would be written in the file; NULL: unset */
    const char *choices;  /* STRING: "a b c", or NULL for anything */
    const char *help;     /* one line */
} plumb_setting;

/* Fills *object from the table's defaults, then from the YAML 1.2 (so also JSON) file at
 * path (NULL: none), then from `key=value` overrides in order.  *object must be zeroed.
 *
 * Errors name file, line, key, the nearest known key and the allowed range, e.g.
 *   run.yaml:7: unknown key 'modle.width'; did you mean 'model.width'?
 *   run.yaml:9: model.heads is 0; allowed: 1 to 64
 * Duplicate keys, anchors, aliases, tags, several documents, files over 1 MB and nesting
 * deeper than 16 are refused.
 */
plumb_status plumb_settings_load(const plumb_setting *table, size_t count, const char *path,
                                 const char *const *overrides, size_t override_count,
                                 void *object, plumb_error *why);

/* Frees what load allocated (strings, lists, tables) and zeroes those fields. */
void plumb_settings_free(const plumb_setting *table, size_t count, void *object);

/* Every setting with its value, in table order: the fully resolved manifest. */
json_t *plumb_settings_to_json(const plumb_setting *table, size_t count,
                               const void *object);

/* Key, help, (range) and [default] of each setting, at most 79 columns wide; free(). */
char *plumb_settings_describe(const plumb_setting *table, size_t count);

#ifdef __cplusplus
}
#endif
#endif
