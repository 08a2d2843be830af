/* Matrices in NumPy's own file format: in as fp32, whatever was in the file; out as '<f4'.
 *
 * The file is read whole before anything of it is believed; its size must be exactly what
 * header, type and shape need, so a file that was cut short, anywhere, never loads.
 * Format: numpy.lib.format, versions 1.0, 2.0 and 3.0.
 */
#include "file/npy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "file/text.h"
#include "file/whole.h"
#include "plumb/cast.h"
#include "plumb/file.h"

enum { HEADER_LIMIT = 65536, HEADER_ALIGN = 64 };

/* What one element is: fp64, which is no format of plumb/format.h, or a number of a format. */
typedef struct element_type {
    bool fp64;
    plumb_format format;
} element_type;

static const size_t file_limit = (size_t)8 << 30;
static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

/* The bits of one element. */
static uint64_t load(const unsigned char *at, const npy_header *header)
{
    uint64_t bits = 0;

    for (size_t i = 0; i < header->item; i++)
        bits = bits << 8 | at[header->swapped ? i : header->item - 1 - i];
    return bits;
}

/* Where the dictionary begins and how long it is. */
static plumb_status find_header(const char *path, const unsigned char *data, size_t size,
                                size_t *start, size_t *length, plumb_error *why)
{
    if (size < 10 || memcmp(data, magic, sizeof magic) != 0)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%.200s: no npy file", path);
    if (data[6] < 1 || data[6] > 3 || data[7] != 0)
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "%.200s: npy version %d.%d; allowed: 1.0, 2.0, 3.0", path,
                          data[6], data[7]);
    *start = data[6] == 1 ? 10 : 12;
    *length = data[8] | (size_t)data[9] << 8;
    if (data[6] > 1 && size >= 12)
        *length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    if (*length > HEADER_LIMIT)
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "%.200s: npy header of %zu bytes; allowed: %d", path, *length,
                          HEADER_LIMIT);
    if (size < *start || *length > size - *start)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%.200s: the file ends inside its header",
                          path);
    return PLUMB_OK;
}

static plumb_status find_type(const char *path, const npy_header *header,
                              const plumb_format *codes, element_type *type,
                              plumb_error *why)
{
    const bool number = header->kind == 'f' && header->item != 1;
    const bool bytes = header->kind == 'u' || header->kind == 'V' || header->kind == 'f';

    if (number && codes != NULL)
        return plumb_fail(why, PLUMB_BAD_FORMAT,
                          "%.200s: '%s' are numbers, not codes of %s", path, header->descr,
                          plumb_format_get(*codes)->name);
    if (number && (header->item == 2 || header->item == 4 || header->item == 8)) {
        type->fp64 = header->item == 8;
        type->format = header->item == 2 ? PLUMB_FP16 : PLUMB_FP32;
        return PLUMB_OK;
    }
    if (number || !bytes || header->item == 0 || header->item > 4)
        return plumb_fail(
            why, PLUMB_BAD_INPUT,
            "%.200s: elements are '%s'; allowed: '<f4', '<f2', '<f8' and codes "
            "('|u1', '<V1', '<u2', '<V2'); in Python: "
            "numpy.save(path, a.astype('f4'))",
            path, header->descr);
    if (codes == NULL)
        return plumb_fail(
            why, PLUMB_UNSUPPORTED,
            "%.200s: elements are '%s' (codes, or an array of ml_dtypes, whose "
            "type NumPy does not write): their format must be named",
            path, header->descr);
    if (plumb_format_get(*codes) == NULL ||
        (size_t)plumb_format_get(*codes)->bytes != header->item)
        return plumb_fail(why, PLUMB_BAD_FORMAT,
                          "%.200s: elements are '%s' of %zu byte%s, no codes of the named "
                          "format",
                          path, header->descr, header->item, header->item == 1 ? "" : "s");
    *type = (element_type){.format = *codes};
    return PLUMB_OK;
}

/* Codes of fewer than 8 bits leave the upper bits of their byte 0. */
static plumb_status check_codes(const char *path, const unsigned char *data, size_t count,
                                plumb_format format, plumb_error *why)
{
    const plumb_format_info *info = plumb_format_get(format);

    for (size_t i = 0; info->bits < 8 && i < count; i++) {
        if (data[i] >> info->bits != 0)
            return plumb_fail(
                why, PLUMB_BAD_INPUT,
                "%.200s: byte %zu of the data is 0x%02x, no code of %s, which "
                "has %d bits; codes must lie one to a byte, not packed",
                path, i, data[i], info->name, info->bits);
    }
    return PLUMB_OK;
}

/* One element as fp32; *inexact counts fp64 values that are none. */
static float element(const unsigned char *at, const npy_header *header, element_type type,
                     size_t *inexact)
{
    const uint64_t bits = load(at, header);
    const uint32_t low = (uint32_t)bits;
    double wide;
    float x;

    if (!type.fp64 && type.format == PLUMB_FP32) { /* NaNs stay as they are */
        memcpy(&x, &low, sizeof x);
        return x;
    }
    if (!type.fp64)
        return plumb_format_value(type.format, low);
    memcpy(&wide, &bits, sizeof wide);
    x = (float)wide;
    *inexact += !isnan(wide) && (double)x != wide;
    return x;
}

static plumb_status convert(const char *path, const npy_header *header,
                            const unsigned char *data, size_t size,
                            const plumb_format *codes, plumb_npy *array, plumb_error *why)
{
    const size_t rows = header->ndim == 2 ? header->shape[0] : 1;
    const size_t cols = header->shape[header->ndim - 1];
    size_t count, bytes;
    element_type type = {0};
    plumb_status status = find_type(path, header, codes, &type, why);

    if (status != PLUMB_OK)
        return status;
    if (!plumb_mul_size(rows, cols, &count) || !plumb_mul_size(count, header->item, &bytes))
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "%.200s: a shape of %zu x %zu, which no file can hold", path,
                          rows, cols);
    if (bytes != size)
        return plumb_fail(
            why, PLUMB_BAD_INPUT,
            "%.200s: %zu bytes of data, but %zu x %zu elements of '%s' are %zu", path, size,
            rows, cols, header->descr, bytes);
    status = check_codes(path, data, count, type.format, why);
    if (status != PLUMB_OK)
        return status;
    array->x = plumb_mul_size(count, sizeof(float), &bytes) ? malloc(bytes + 1) : NULL;
    if (array->x == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "%.200s: no memory for %zu elements", path,
                          count);
    for (size_t i = 0; i < count; i++) {
        const size_t row = i / cols, col = i % cols;
        const size_t from = header->fortran ? col * rows + row : i;

        array->x[i] = element(data + from * header->item, header, type, &array->inexact);
    }
    array->rows = rows;
    array->cols = cols;
    memcpy(array->type, header->descr, sizeof array->type);
    return PLUMB_OK;
}

plumb_status plumb_npy_load(const char *path, const plumb_format *codes, plumb_npy *array,
                            plumb_error *why)
{
    size_t size, start = 0, length = 0;
    npy_header header;
    char *data;

    *array = (plumb_npy){0};
    plumb_status status = plumb_file_read(path, file_limit, &data, &size, why);

    if (status != PLUMB_OK)
        return status;
    status = find_header(path, (unsigned char *)data, size, &start, &length, why);
    if (status == PLUMB_OK)
        status = npy_header_read(path, data + start, length, &header, why);
    if (status == PLUMB_OK)
        status = convert(path, &header, (unsigned char *)data + start + length,
                         size - start - length, codes, array, why);
    free(data);
    return status;
}

void plumb_npy_free(plumb_npy *array)
{
    free(array->x);
    *array = (plumb_npy){0};
}

plumb_status plumb_npy_save(const char *path, const float *x, size_t rows, size_t cols,
                            plumb_error *why)
{
    char start[2 * HEADER_ALIGN] = {0};
    size_t count, bytes;

    if (!plumb_mul_size(rows, cols, &count) || !plumb_mul_size(count, sizeof *x, &bytes))
        return plumb_fail(why, PLUMB_BAD_SHAPE, "%zu x %zu elements are too many", rows,
                          cols);
    memcpy(start, magic, sizeof magic);
    start[6] = 1;
    start[8] = (char)(sizeof start - 10);
    plumb_print(start + 10, sizeof start - 10,
                "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }", rows,
                cols);
    const size_t used = 10 + strlen(start + 10);

    memset(start + used, ' ', sizeof start - 1 - used);
    start[sizeof start - 1] = '\n';
    return plumb_file_write_parts(path, (plumb_part[]){{start, sizeof start}, {x, bytes}},
                                  2, why);
}
