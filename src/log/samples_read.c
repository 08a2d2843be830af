/* Site statistics of one file, read back with every length checked before it is used.
 *
 * What the file calls its columns decides: known names of the right type are taken, others
 * are passed over, missing ones stay 0.
 */
#include "plumb/log.h"

#include <stdlib.h>
#include <string.h>

#include "file/json.h"
#include "file/text.h"
#include "log/crc32c.h"
#include "log/pls.h"

enum { MOST_COLUMNS = 256 };

/* Where the columns of the file go. */
typedef struct row_layout {
    const plumb_column *known[MOST_COLUMNS]; /* NULL: passed over */
    size_t width[MOST_COLUMNS];
    size_t count, row_bytes;
} row_layout;

static plumb_status bad(plumb_error *why, const char *sentence)
{
    return plumb_fail(why, PLUMB_BAD_INPUT, "%s", sentence);
}

static size_t type_width(const char *type)
{
    static const char *const wide[] = {"u64", "i64", "f64"}, *const narrow[] = {
                                                                 "u32", "i32", "f32"};

    for (size_t i = 0; type != NULL && i < 3; i++) {
        if (strcmp(type, wide[i]) == 0)
            return 8;
        if (strcmp(type, narrow[i]) == 0)
            return 4;
    }
    return 0;
}

static plumb_status read_column(const json_t *json, row_layout *layout, plumb_error *why)
{
    const char *name = json_string_value(json_array_get(json, 0));
    const char *type = json_string_value(json_array_get(json, 1));
    const size_t width = type_width(type), index = layout->count;

    if (name == NULL || width == 0 || index >= MOST_COLUMNS)
        return bad(why,
                   "a column is not [name, type] with u32, i32, f32, u64, i64 or f64, or "
                   "there are over 256");
    layout->width[index] = width;
    layout->known[index] = NULL;
    for (size_t i = 0; i < plumb_column_count; i++)
        if (strcmp(name, plumb_columns[i].name) == 0) {
            if (strcmp(type, plumb_columns[i].type) != 0)
                return plumb_fail(why, PLUMB_BAD_INPUT, "column %s must be %s",
                                  plumb_columns[i].name, plumb_columns[i].type);
            layout->known[index] = &plumb_columns[i];
        }
    layout->row_bytes += width;
    layout->count++;
    return PLUMB_OK;
}

static bool has_column(const row_layout *layout, const char *name)
{
    for (size_t i = 0; i < layout->count; i++)
        if (layout->known[i] != NULL && strcmp(layout->known[i]->name, name) == 0)
            return true;
    return false;
}

static plumb_status read_columns(const json_t *columns, row_layout *layout,
                                 plumb_error *why)
{
    const size_t count = json_array_size(columns);

    *layout = (row_layout){0};
    for (size_t i = 0; i < count; i++) {
        const plumb_status status = read_column(json_array_get(columns, i), layout, why);
        if (status != PLUMB_OK)
            return status;
    }
    if (!has_column(layout, "step") || !has_column(layout, "site"))
        return bad(why, "no columns step and site");
    return PLUMB_OK;
}

static plumb_status read_sites(const json_t *sites, plumb_samples *samples,
                               plumb_error *why)
{
    const size_t count = json_array_size(sites);

    if (count == 0 || count > PLS_MOST_SITES)
        return bad(why, "not 1 to 100000 sites");
    samples->site_names = calloc(count, sizeof *samples->site_names);
    if (samples->site_names == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
    samples->site_count = count;
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(sites, i));

        if (name == NULL || strlen(name) >= PLUMB_SITE_NAME || !plumb_text_is_name(name))
            return bad(why, "a site's name is not 1 to 127 printable characters");
        samples->site_names[i] = strdup(name);
        if (samples->site_names[i] == NULL)
            return plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
    }
    return PLUMB_OK;
}

/* *used: bytes of the header; 0 when the file ends inside it. */
static plumb_status read_header(const unsigned char *bytes, size_t size,
                                plumb_samples *samples, row_layout *layout, size_t *used,
                                plumb_error *why)
{
    json_t *json;
    plumb_status status;

    *used = 0;
    if (memcmp(bytes, PLS_MAGIC, size < 8 ? size : 8) != 0)
        return bad(why, "not a .pls file");
    if (size < PLS_HEADER)
        return PLUMB_OK;
    if (plumb_get_u32(bytes + 8) != PLS_VERSION)
        return bad(why, "a version other than 1");
    const size_t length = plumb_get_u32(bytes + 12);
    if (length > PLS_MOST_HEADER)
        return bad(why, "a header of over 64 MB");
    if (length > size - PLS_HEADER)
        return PLUMB_OK;
    if (plumb_crc32c(0, bytes + PLS_HEADER, length) != plumb_get_u32(bytes + 16))
        return bad(why, "the header is damaged (CRC)");
    status =
        plumb_json_parse((const char *)bytes + PLS_HEADER, length, "header", &json, why);
    if (status == PLUMB_OK)
        status = read_columns(json_object_get(json, "columns"), layout, why);
    if (status == PLUMB_OK)
        status = read_sites(json_object_get(json, "sites"), samples, why);
    json_decref(json);
    *used = PLS_HEADER + length;
    return status;
}

static void get_columns(const unsigned char *at, const row_layout *layout,
                        plumb_sample *samples, size_t count)
{
    for (size_t c = 0; c < layout->count; c++) {
        const plumb_column *const column = layout->known[c];
        const size_t width = layout->width[c];

        for (size_t i = 0; column != NULL && i < count; i++) {
            char *field = (char *)&samples[i] + column->offset;
            const uint64_t wide = width == 8 ? plumb_get_u64(at + i * width) : 0;
            const uint32_t narrow = plumb_get_u32(at + i * width);

            memcpy(field, width == 8 ? (const void *)&wide : (const void *)&narrow, width);
        }
        at += width * count;
    }
}

static plumb_status add_rows(plumb_samples *samples, size_t count, plumb_error *why)
{
    if (count > PLS_MOST_ROWS - samples->count)
        return bad(why, "over 50000000 rows");
    plumb_sample *grown =
        realloc(samples->at, (samples->count + count + 1) * sizeof *samples->at);
    if (grown == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu rows",
                          samples->count + count);
    samples->at = grown;
    memset(samples->at + samples->count, 0, count * sizeof *samples->at);
    return PLUMB_OK;
}

static plumb_status check_rows(const plumb_samples *samples, size_t count, uint64_t first,
                               uint64_t last, plumb_error *why)
{
    for (size_t i = samples->count; i < samples->count + count; i++) {
        if (samples->at[i].site >= samples->site_count)
            return plumb_fail(why, PLUMB_BAD_INPUT, "a row of site %u of %zu",
                              samples->at[i].site, samples->site_count);
        if (samples->at[i].step < first || samples->at[i].step > last)
            return bad(why, "a row outside the step range of its chunk");
    }
    return PLUMB_OK;
}

/* One chunk.  *used 0: it is torn. */
static plumb_status read_chunk(const unsigned char *bytes, size_t size,
                               const row_layout *layout, plumb_samples *samples,
                               size_t *used, plumb_error *why)
{
    *used = 0;
    if (size < PLS_CHUNK)
        return PLUMB_OK;
    const size_t length = plumb_get_u32(bytes), rows = plumb_get_u32(bytes + 8);
    const bool fits = length <= size - PLS_CHUNK;
    if (fits &&
        plumb_crc32c(0, bytes + 8, PLS_CHUNK - 8 + length) != plumb_get_u32(bytes + 4))
        return length == size - PLS_CHUNK ? PLUMB_OK : bad(why, "a chunk is damaged (CRC)");
    if (!fits)
        return PLUMB_OK;
    if (rows == 0 || length / rows != layout->row_bytes || length % rows != 0)
        return bad(why, "a chunk whose length is not rows times row size");
    plumb_status status = add_rows(samples, rows, why);
    if (status != PLUMB_OK)
        return status;
    get_columns(bytes + PLS_CHUNK, layout, samples->at + samples->count, rows);
    status = check_rows(samples, rows, plumb_get_u64(bytes + 16), plumb_get_u64(bytes + 24),
                        why);
    if (status == PLUMB_OK) {
        samples->count += rows;
        *used = PLS_CHUNK + length;
    }
    return status;
}

static plumb_status read_bytes(const unsigned char *bytes, size_t size,
                               plumb_samples *samples, plumb_error *why)
{
    row_layout layout = {0};
    size_t used;
    plumb_status status = read_header(bytes, size, samples, &layout, &used, why);

    while (status == PLUMB_OK && used > 0 && size > used) {
        bytes += used;
        size -= used;
        status = read_chunk(bytes, size, &layout, samples, &used, why);
    }
    if (status != PLUMB_OK)
        return status;
    samples->torn = used == 0;
    return PLUMB_OK;
}

plumb_status plumb_pls_read(const char *path, uint32_t rank, plumb_samples *samples,
                            plumb_error *why)
{
    plumb_error inner = {0};
    char *data = NULL;
    size_t size;
    plumb_status status = plumb_file_read(path, PLS_MOST_FILE, &data, &size, why);

    *samples = (plumb_samples){0};
    if (status != PLUMB_OK)
        return status;
    status = read_bytes((const unsigned char *)data, size, samples, &inner);
    free(data);
    if (status == PLUMB_OK)
        return PLUMB_OK;
    plumb_samples_free(samples);
    return plumb_fail(why, status, PLS_PREFIX "%05u" PLS_SUFFIX ": %s", (unsigned)rank,
                      inner.message);
}

void plumb_samples_free(plumb_samples *samples)
{
    if (samples == NULL)
        return;
    for (size_t i = 0; i < samples->site_count; i++)
        free(samples->site_names[i]);
    free(samples->site_names);
    free(samples->at);
    *samples = (plumb_samples){0};
}
