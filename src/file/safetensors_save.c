/* Writing safetensors: views in, one atomic file out.
 *
 * Data follow the header in the caller's order, each tensor padded by nothing: the format
 * allows no gaps.  The header is padded with spaces to a multiple of 8, so that tensors of
 * wide types that come first lie aligned.
 */
#include "file/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_LIMIT = 100000000 };

static json_t *entry_json(const plumb_view *view, size_t begin, size_t end)
{
    json_t *shape = json_array(), *offsets = json_array(), *entry = json_object();

    for (int i = 0; i < view->ndim; i++)
        json_array_append_new(shape, json_integer((json_int_t)view->shape[i]));
    json_array_append_new(offsets, json_integer((json_int_t)begin));
    json_array_append_new(offsets, json_integer((json_int_t)end));
    json_object_set_new(entry, "dtype", json_string(plumb_type_name(view->type)));
    json_object_set_new(entry, "shape", shape);
    json_object_set_new(entry, "data_offsets", offsets);
    return entry;
}

static plumb_status check_tensor(const plumb_named_view *tensor, const json_t *header,
                                 size_t *bytes, plumb_error *why)
{
    size_t elements;

    if (tensor->name == NULL || json_object_get(header, tensor->name) != NULL ||
        strcmp(tensor->name, "__metadata__") == 0)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "two tensors named '%s', or no name",
                          tensor->name != NULL ? tensor->name : "");
    if (tensor->view.ndim < 0 || tensor->view.ndim > PLUMB_MAX_DIMS ||
        !plumb_view_size(&tensor->view, &elements, bytes))
        return plumb_fail(why, PLUMB_BAD_SHAPE, "tensor '%s' has an impossible shape",
                          tensor->name);
    return PLUMB_OK;
}

static plumb_status build_header(const plumb_named_view *tensors, size_t count,
                                 const json_t *metadata, json_t *header, plumb_part *parts,
                                 plumb_error *why)
{
    size_t begin = 0;

    if (metadata != NULL &&
        json_object_set(header, "__metadata__", (json_t *)metadata) != 0)
        return plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < count; i++) {
        const plumb_view *const view = &tensors[i].view;
        size_t bytes, end;
        const plumb_status status = check_tensor(&tensors[i], header, &bytes, why);

        if (status != PLUMB_OK)
            return status;
        if (!plumb_add_size(begin, bytes, &end) || end > (size_t)INT64_MAX)
            return plumb_fail(why, PLUMB_BAD_SHAPE, "the tensors are too large together");
        if (json_object_set_new(header, tensors[i].name, entry_json(view, begin, end)) != 0)
            return plumb_fail(why, PLUMB_BAD_ARGUMENT, "a tensor's name is not UTF-8");
        parts[i] = (plumb_part){view->data, bytes};
        begin = end;
    }
    return PLUMB_OK;
}

/* 8 bytes of length, the JSON text, spaces up to a multiple of 8. */
static plumb_status header_bytes(const json_t *header, plumb_part *part, plumb_error *why)
{
    char *text = json_dumps(header, JSON_COMPACT);
    const size_t length = text != NULL ? strlen(text) : 0;
    const size_t padded = (length + 7) & ~(size_t)7;
    unsigned char *bytes = text != NULL ? malloc(8 + padded) : NULL;

    if (bytes == NULL || padded > HEADER_LIMIT) {
        free(text);
        free(bytes);
        return plumb_fail(why, PLUMB_NO_MEMORY, "a header of %zu bytes; allowed: %d",
                          padded, HEADER_LIMIT);
    }
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    memset(bytes + 8, ' ', padded);
    memcpy(bytes + 8, text, length);
    free(text);
    *part = (plumb_part){bytes, 8 + padded};
    return PLUMB_OK;
}

plumb_status plumb_safetensors_save(const char *path, const plumb_named_view *tensors,
                                    size_t count, const json_t *metadata, plumb_error *why)
{
    json_t *header = json_object();
    plumb_part *parts = calloc(count + 1, sizeof *parts);
    plumb_status status;

    if (header == NULL || parts == NULL)
        status = plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
    else
        status = build_header(tensors, count, metadata, header, parts + 1, why);
    if (status == PLUMB_OK)
        status = header_bytes(header, &parts[0], why);
    if (status == PLUMB_OK)
        status = plumb_file_write_parts(path, parts, count + 1, why);
    if (parts != NULL)
        free((void *)parts[0].data);
    free(parts);
    json_decref(header);
    return status;
}
