/* Element types and the sizes of views. */
#include "plumb/tensor.h"

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} types[PLUMB_TYPE_COUNT] = {
    [PLUMB_TYPE_F32] = {"F32", 4},         [PLUMB_TYPE_BF16] = {"BF16", 2},
    [PLUMB_TYPE_F8_E4M3] = {"F8_E4M3", 1}, [PLUMB_TYPE_F8_E5M2] = {"F8_E5M2", 1},
    [PLUMB_TYPE_U8] = {"U8", 1},           [PLUMB_TYPE_I32] = {"I32", 4},
    [PLUMB_TYPE_I64] = {"I64", 8},         [PLUMB_TYPE_F64] = {"F64", 8},
};

size_t plumb_type_bytes(plumb_type type)
{
    return (unsigned)type < PLUMB_TYPE_COUNT ? types[type].bytes : 0;
}

const char *plumb_type_name(plumb_type type)
{
    return (unsigned)type < PLUMB_TYPE_COUNT ? types[type].name : NULL;
}

bool plumb_type_parse(const char *name, plumb_type *type)
{
    for (unsigned i = 0; i < PLUMB_TYPE_COUNT; i++) {
        if (strcmp(name, types[i].name) == 0) {
            *type = (plumb_type)i;
            return true;
        }
    }
    return false;
}

bool plumb_view_size(const plumb_view *view, size_t *elements, size_t *bytes)
{
    const size_t each = plumb_type_bytes(view->type);
    size_t product = 1, span;

    if (each == 0 || view->ndim < 0 || view->ndim > PLUMB_MAX_DIMS)
        return false;
    for (int i = 0; i < view->ndim; i++)
        if (!plumb_mul_size(product, view->shape[i], &product))
            return false;
    if (!plumb_mul_size(product, each, &span))
        return false;
    *elements = product;
    *bytes = span;
    return true;
}
