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
#include "log/ranks.h"

enum { MOST_COLUMNS = 256 };

/* What is being read. */
typedef struct table {
    const plumb_pls *pls;
    char **site_names;
    size_t site_count;
    char *rows;
    size_t count;
    bool torn;
} table;

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

static plumb_status no_memory(plumb_error *why)
{
    return plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
}

static plumb_sample *row_at(const table *t, size_t i)
{
    return (void *)(t->rows + i * t->pls->row_size);
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

static plumb_status read_column(const table *t, const json_t *json, row_layout *layout,
                                plumb_error *why)
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
    for (size_t i = 0; i < t->pls->column_count; i++) {
        const plumb_column *const column = &t->pls->columns[i];

        if (strcmp(name, column->name) != 0)
            continue;
        if (strcmp(type, column->type) != 0)
            return plumb_fail(why, PLUMB_BAD_INPUT, "column %s must be %s", column->name,
                              column->type);
        layout->known[index] = column;
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

static plumb_status read_columns(const table *t, const json_t *columns, row_layout *layout,
                                 plumb_error *why)
{
    const size_t count = json_array_size(columns);

    *layout = (row_layout){0};
    for (size_t i = 0; i < count; i++) {
        const plumb_status status = read_column(t, json_array_get(columns, i), layout, why);
        if (status != PLUMB_OK)
            return status;
    }
    if (!has_column(layout, "step") || !has_column(layout, "site"))
        return bad(why, "no columns step and site");
    return PLUMB_OK;
}

static plumb_status read_sites(const json_t *sites, table *t, plumb_error *why)
{
    const size_t count = json_array_size(sites);

    if (count == 0 || count > PLS_MOST_SITES)
        return bad(why, "not 1 to 100000 sites");
    t->site_names = calloc(count, sizeof *t->site_names);
    if (t->site_names == NULL)
        return no_memory(why);
    t->site_count = count;
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(sites, i));

        if (name == NULL || strlen(name) >= PLUMB_SITE_NAME || !plumb_text_is_name(name))
            return bad(why, "a site's name is not 1 to 127 printable characters");
        t->site_names[i] = strdup(name);
        if (t->site_names[i] == NULL)
            return no_memory(why);
    }
    return PLUMB_OK;
}

/* *used: bytes of the header; 0 when the file ends inside it. */
static plumb_status read_header(const unsigned char *bytes, size_t size, table *t,
                                row_layout *layout, size_t *used, plumb_error *why)
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
        status = read_columns(t, json_object_get(json, "columns"), layout, why);
    if (status == PLUMB_OK)
        status = read_sites(json_object_get(json, "sites"), t, why);
    json_decref(json);
    *used = PLS_HEADER + length;
    return status;
}

/* The columns of the chunk at `at`, into the rows behind those that are there. */
static void get_columns(const unsigned char *at, const row_layout *layout, const table *t,
                        size_t count)
{
    for (size_t c = 0; c < layout->count; c++) {
        const plumb_column *const column = layout->known[c];
        const size_t width = layout->width[c];

        for (size_t i = 0; column != NULL && i < count; i++) {
            char *field = (char *)row_at(t, t->count + i) + column->offset;
            const uint64_t wide = width == 8 ? plumb_get_u64(at + i * width) : 0;
            const uint32_t narrow = plumb_get_u32(at + i * width);

            memcpy(field, width == 8 ? (const void *)&wide : (const void *)&narrow, width);
        }
        at += width * count;
    }
}

static plumb_status add_rows(table *t, size_t count, plumb_error *why)
{
    if (count > PLS_MOST_ROWS - t->count)
        return bad(why, "over 50000000 rows");
    char *grown = realloc(t->rows, (t->count + count + 1) * t->pls->row_size);
    if (grown == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu rows", t->count + count);
    t->rows = grown;
    memset(row_at(t, t->count), 0, count * t->pls->row_size);
    return PLUMB_OK;
}

static plumb_status check_rows(const table *t, size_t count, uint64_t first, uint64_t last,
                               plumb_error *why)
{
    for (size_t i = t->count; i < t->count + count; i++) {
        const plumb_sample *row = row_at(t, i);

        if (row->site >= t->site_count)
            return plumb_fail(why, PLUMB_BAD_INPUT, "a row of site %u of %zu", row->site,
                              t->site_count);
        if (row->step < first || row->step > last)
            return bad(why, "a row outside the step range of its chunk");
    }
    return PLUMB_OK;
}

/* One chunk.  *used 0: it is torn. */
static plumb_status read_chunk(const unsigned char *bytes, size_t size,
                               const row_layout *layout, table *t, size_t *used,
                               plumb_error *why)
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
    plumb_status status = add_rows(t, rows, why);
    if (status != PLUMB_OK)
        return status;
    get_columns(bytes + PLS_CHUNK, layout, t, rows);
    status = check_rows(t, rows, plumb_get_u64(bytes + 16), plumb_get_u64(bytes + 24), why);
    if (status == PLUMB_OK) {
        t->count += rows;
        *used = PLS_CHUNK + length;
    }
    return status;
}

static plumb_status read_bytes(const unsigned char *bytes, size_t size, table *t,
                               plumb_error *why)
{
    row_layout layout = {0};
    size_t used;
    plumb_status status = read_header(bytes, size, t, &layout, &used, why);

    while (status == PLUMB_OK && used > 0 && size > used) {
        bytes += used;
        size -= used;
        status = read_chunk(bytes, size, &layout, t, &used, why);
    }
    t->torn = used == 0;
    return status;
}

static void free_table(char **site_names, size_t site_count, void *rows)
{
    for (size_t i = 0; i < site_count; i++)
        free(site_names[i]);
    free(site_names);
    free(rows);
}

static plumb_status read_file(const char *path, table *t, plumb_error *why,
                              plumb_error *inside)
{
    char *data = NULL;
    size_t size;
    plumb_status status = plumb_file_read(path, PLS_MOST_FILE, &data, &size, why);

    if (status == PLUMB_OK) {
        status = read_bytes((const unsigned char *)data, size, t, inside);
        if (status != PLUMB_OK)
            free_table(t->site_names, t->site_count, t->rows);
    }
    free(data);
    return status;
}

plumb_status plumb_pls_read(const char *run_dir, const plumb_pls *pls, uint32_t rank,
                            plumb_pls_table *read, plumb_error *why)
{
    char *path = plumb_rank_path(run_dir, pls->prefix, rank, PLS_SUFFIX);
    plumb_error inside = {0};
    table t = {.pls = pls};
    const plumb_status status =
        path != NULL ? read_file(path, &t, why, &inside) : no_memory(why);

    *read = (plumb_pls_table){0};
    if (status == PLUMB_OK)
        *read = (plumb_pls_table){t.site_names, t.site_count, t.rows, t.count, t.torn};
    else if (inside.message[0] != 0)
        plumb_fail(why, status, "%s%05u" PLS_SUFFIX ": %s", pls->prefix, (unsigned)rank,
                   inside.message);
    free(path);
    return status;
}

void plumb_samples_free(plumb_samples *samples)
{
    if (samples == NULL)
        return;
    free_table(samples->site_names, samples->site_count, samples->at);
    *samples = (plumb_samples){0};
}

void plumb_histograms_free(plumb_histograms *histograms)
{
    if (histograms == NULL)
        return;
    free_table(histograms->site_names, histograms->site_count, histograms->at);
    *histograms = (plumb_histograms){0};
}
