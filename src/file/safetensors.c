/* Reading safetensors: map, check everything, hand out views.
 *
 * The spans of the tensors must cover the data exactly, in some order, without gap or
 * overlap, and the data must end where the file ends: so a file that was cut short, anywhere,
 * never opens.
 */
#define _DEFAULT_SOURCE /* madvise */
#include "file/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file/text.h"

enum { HEADER_LIMIT = 100000000, MOST_TENSORS = 1000000 };

/* One tensor as the header has it. */
typedef struct tensor_entry {
    plumb_named_view named; /* first: who has its address has the entry's */
    size_t begin, end;      /* in the data */
    void *copy;             /* data that do not lie aligned in the file; else NULL */
} tensor_entry;

struct plumb_safetensors {
    void *map;
    size_t map_size, data_size; /* the data are at the end */
    json_t *header;             /* owns the names */
    tensor_entry *entries;
    size_t count;
};

static plumb_status bad(const char *path, const char *name, const char *sentence,
                        plumb_error *why)
{
    char shown[80];

    if (name == NULL)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: %s", path, sentence);
    return plumb_fail(why, PLUMB_BAD_INPUT, "%s: tensor '%s': %s", path,
                      plumb_text_clean(name, strlen(name), shown, sizeof shown), sentence);
}

static bool read_size(const json_t *json, size_t *value)
{
    if (!json_is_integer(json) || json_integer_value(json) < 0)
        return false;
    *value = (size_t)json_integer_value(json);
    return true;
}

static plumb_status read_shape(const char *path, const char *name, const json_t *json,
                               plumb_view *view, plumb_error *why)
{
    const json_t *shape = json_object_get(json, "shape");
    const size_t ndim = json_array_size(shape);

    if (!json_is_array(shape) || ndim > PLUMB_MAX_DIMS)
        return bad(path, name, "'shape' must be a list of at most 8 sizes", why);
    view->ndim = (int)ndim;
    for (size_t i = 0; i < ndim; i++)
        if (!read_size(json_array_get(shape, i), &view->shape[i]))
            return bad(path, name, "'shape' holds something other than sizes", why);
    return PLUMB_OK;
}

static plumb_status read_entry(const char *path, const char *name, const json_t *json,
                               size_t data_size, tensor_entry *entry, plumb_error *why)
{
    const char *type = json_string_value(json_object_get(json, "dtype"));
    const json_t *offsets = json_object_get(json, "data_offsets");
    plumb_view *const view = &entry->named.view;
    size_t elements, bytes;

    entry->named.name = name;
    if (type == NULL || !plumb_type_parse(type, &view->type))
        return bad(
            path, name,
            "'dtype' is not known here; allowed: F32 BF16 F8_E4M3 F8_E5M2 U8 I32 I64 F64",
            why);
    const plumb_status status = read_shape(path, name, json, view, why);
    if (status != PLUMB_OK)
        return status;
    if (json_array_size(offsets) != 2 ||
        !read_size(json_array_get(offsets, 0), &entry->begin) ||
        !read_size(json_array_get(offsets, 1), &entry->end) || entry->begin > entry->end ||
        entry->end > data_size)
        return bad(path, name, "'data_offsets' are not two places inside the file", why);
    if (!plumb_view_size(view, &elements, &bytes) || bytes != entry->end - entry->begin)
        return bad(path, name, "the span is not what type and shape need", why);
    return PLUMB_OK;
}

static plumb_status check_metadata(const char *path, const json_t *metadata,
                                   plumb_error *why)
{
    const char *key;
    json_t *value;

    if (!json_is_object(metadata))
        return bad(path, NULL, "__metadata__ must be an object", why);
    json_object_foreach((json_t *)metadata, key, value)
    {
        if (!json_is_string(value))
            return bad(path, NULL, "__metadata__ must map strings to strings", why);
    }
    return PLUMB_OK;
}

static int by_place(const void *a, const void *b)
{
    const tensor_entry *const x = *(tensor_entry *const *)a, *const y =
                                                                 *(tensor_entry *const *)b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* The spans in order of place must follow each other from 0 to the end. */
static plumb_status check_cover(const char *path, tensor_entry *entries, size_t count,
                                size_t data_size, plumb_error *why)
{
    tensor_entry **order = malloc((count + 1) * sizeof *order);
    size_t place = 0, i = 0;

    if (order == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "%s: out of memory", path);
    for (i = 0; i < count; i++)
        order[i] = &entries[i];
    qsort(order, count, sizeof *order, by_place);
    for (i = 0; i < count && order[i]->begin == place; i++)
        place = order[i]->end;
    const char *name = i < count ? order[i]->named.name : NULL;
    free(order);
    if (name != NULL)
        return bad(path, name, "its data overlap others, or there is a gap before them",
                   why);
    if (place != data_size)
        return bad(path, NULL, "there are bytes that belong to no tensor", why);
    return PLUMB_OK;
}

/* Points the views into the mapping; data that lie askew there are copied. */
static plumb_status place_views(const char *path, plumb_safetensors *file,
                                const unsigned char *data, plumb_error *why)
{
    for (size_t i = 0; i < file->count; i++) {
        tensor_entry *const entry = &file->entries[i];
        const unsigned char *at = data + entry->begin;
        const size_t bytes = entry->end - entry->begin;
        const size_t align = plumb_type_bytes(entry->named.view.type);

        if ((uintptr_t)at % align != 0) {
            entry->copy = malloc(bytes + 1);
            if (entry->copy == NULL)
                return plumb_fail(why, PLUMB_NO_MEMORY, "%s: no memory for %zu bytes", path,
                                  bytes);
            memcpy(entry->copy, at, bytes);
        }
        entry->named.view.data = entry->copy != NULL ? entry->copy : (void *)at;
    }
    return PLUMB_OK;
}

static plumb_status read_header(const char *path, plumb_safetensors *file,
                                const unsigned char *data, size_t data_size,
                                plumb_error *why)
{
    const size_t most = json_object_size(file->header);
    const char *name;
    json_t *json;
    plumb_status status = PLUMB_OK;

    if (!json_is_object(file->header) || most > MOST_TENSORS)
        return bad(path, NULL, "the header is not an object of at most 1000000 tensors",
                   why);
    file->entries = calloc(most + 1, sizeof *file->entries);
    if (file->entries == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "%s: out of memory", path);
    json_object_foreach(file->header, name, json)
    {
        if (strcmp(name, "__metadata__") == 0)
            status = check_metadata(path, json, why);
        else
            status =
                read_entry(path, name, json, data_size, &file->entries[file->count++], why);
        if (status != PLUMB_OK)
            return status;
    }
    status = check_cover(path, file->entries, file->count, data_size, why);
    return status == PLUMB_OK ? place_views(path, file, data, why) : status;
}

static plumb_status read_mapped(const char *path, plumb_safetensors *file, plumb_error *why)
{
    const unsigned char *bytes = file->map;
    uint64_t length = 0;
    plumb_status status;

    for (int i = 0; i < 8; i++)
        length |= (uint64_t)bytes[i] << (8 * i);
    if (length > HEADER_LIMIT)
        return bad(path, NULL, "the header is longer than 100 MB", why);
    if (length > file->map_size - 8)
        return bad(path, NULL, "the file ends inside its header", why);
    status = plumb_json_parse_limit((const char *)bytes + 8, (size_t)length, HEADER_LIMIT,
                                    path, &file->header, why);
    if (status != PLUMB_OK)
        return status;
    file->data_size = file->map_size - 8 - (size_t)length;
    return read_header(path, file, bytes + 8 + length, file->data_size, why);
}

static plumb_status map_file(const char *path, plumb_safetensors *file, plumb_error *why)
{
    int fd;
    plumb_status status = plumb_file_open(path, &fd, &file->map_size, why);

    if (status != PLUMB_OK)
        return status;
    if (file->map_size < 8) {
        status = bad(path, NULL, "too short for a safetensors file", why);
    } else {
        void *map = mmap(NULL, file->map_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED)
            status = plumb_fail(why, PLUMB_IO, "%s: %s", path, strerror(errno));
        else
            file->map = map;
    }
    close(fd);
    return status;
}

plumb_status plumb_safetensors_open(const char *path, plumb_safetensors **file,
                                    plumb_error *why)
{
    plumb_safetensors *made = calloc(1, sizeof *made);
    plumb_status status;

    *file = NULL;
    if (made == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "%s: out of memory", path);
    status = map_file(path, made, why);
    if (status == PLUMB_OK)
        status = read_mapped(path, made, why);
    if (status != PLUMB_OK)
        plumb_safetensors_close(&made);
    *file = made;
    return status;
}

size_t plumb_safetensors_count(const plumb_safetensors *file)
{
    return file->count;
}

const plumb_named_view *plumb_safetensors_at(const plumb_safetensors *file, size_t index)
{
    return index < file->count ? &file->entries[index].named : NULL;
}

const plumb_named_view *plumb_safetensors_find(const plumb_safetensors *file,
                                               const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->entries[i].named.name, name) == 0)
            return &file->entries[i].named;
    return NULL;
}

/* Whole pages inside the tensor: those at its ends are others' too. */
void plumb_safetensors_forget(const plumb_safetensors *file, const plumb_named_view *tensor)
{
    const tensor_entry *const entry = (const tensor_entry *)(const void *)tensor;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t data = file->map_size - file->data_size;
    const size_t begin = (data + entry->begin + page - 1) / page * page;
    const size_t end = (data + entry->end) / page * page;

    if (begin < end)
        madvise((unsigned char *)file->map + begin, end - begin, MADV_DONTNEED);
}

const json_t *plumb_safetensors_metadata(const plumb_safetensors *file)
{
    return json_object_get(file->header, "__metadata__");
}

void plumb_safetensors_close(plumb_safetensors **file)
{
    plumb_safetensors *const old = file != NULL ? *file : NULL;

    if (old == NULL)
        return;
    for (size_t i = 0; i < old->count; i++)
        free(old->entries[i].copy);
    free(old->entries);
    json_decref(old->header);
    if (old->map != NULL)
        munmap(old->map, old->map_size);
    free(old);
    *file = NULL;
}
