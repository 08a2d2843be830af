/* plumb/tensor.h - a tensor as seen through a pointer, a type and a shape.
 *
 * A view never owns memory and never touches a file.  Views are contiguous and
 * row-major.  Pure functions; call from anywhere.
 */
#ifndef PLUMB_TENSOR_H
#define PLUMB_TENSOR_H

#include "plumb/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PLUMB_MAX_DIMS = 8 };

/* Element types as they lie in memory and in safetensors files. */
typedef enum plumb_type {
    PLUMB_TYPE_F32 = 0,
    PLUMB_TYPE_BF16,
    PLUMB_TYPE_F8_E4M3,
    PLUMB_TYPE_F8_E5M2,
    PLUMB_TYPE_U8,
    PLUMB_TYPE_I32,
    PLUMB_TYPE_I64,
    PLUMB_TYPE_F64,
    PLUMB_TYPE_COUNT
} plumb_type;

typedef struct plumb_view {
    void *data;
    plumb_type type;
    int ndim; /* 0 is a scalar of one element */
    size_t shape[PLUMB_MAX_DIMS];
} plumb_view;

/* Bytes of one element; 0 if type is out of range. */
size_t plumb_type_bytes(plumb_type type);

/* safetensors' names: "F32", "BF16", "F8_E4M3", "F8_E5M2", "U8", "I32", "I64", "F64". */
const char *plumb_type_name(plumb_type type);
bool plumb_type_parse(const char *name, plumb_type *type);

/* Product of the shape; false when it or the span in bytes overflows. */
bool plumb_view_size(const plumb_view *view, size_t *elements, size_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
