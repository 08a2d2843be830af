/* Site statistics, appended chunk by chunk; one write per chunk. */
#include "log/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file/whole.h"
#include "log/crc32c.h"
#include "log/pls.h"
#include "plumb/file.h"

#define COLUMN(name, type, width)                                                          \
    {                                                                                      \
#name, type, offsetof(plumb_sample, name), width                                   \
    }

const plumb_column plumb_columns[] = {
    COLUMN(step, "u64", 8),  COLUMN(site, "u32", 4),         COLUMN(scale, "f32", 4),
    COLUMN(amax, "f32", 4),  COLUMN(decoded_amax, "f32", 4), COLUMN(headroom, "f32", 4),
    COLUMN(total, "u64", 8), COLUMN(saturated, "u64", 8),    COLUMN(flushed, "u64", 8),
    COLUMN(zero, "u64", 8),  COLUMN(nonfinite, "u64", 8),
};
const size_t plumb_column_count = sizeof plumb_columns / sizeof plumb_columns[0];

static size_t row_bytes(void)
{
    size_t bytes = 0;

    for (size_t i = 0; i < plumb_column_count; i++)
        bytes += plumb_columns[i].width;
    return bytes;
}

/* {"sites": [...], "columns": [["step", "u64"], ...]} */
static char *header_text(const char *const *site_names, size_t site_count)
{
    json_t *sites = json_array(), *columns = json_array();

    for (size_t i = 0; i < site_count; i++)
        json_array_append_new(sites, json_string(site_names[i]));
    for (size_t i = 0; i < plumb_column_count; i++)
        json_array_append_new(
            columns, json_pack("[ss]", plumb_columns[i].name, plumb_columns[i].type));
    json_t *json = json_pack("{soso}", "sites", sites, "columns", columns);
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return text;
}

static plumb_status write_header(int fd, const char *const *site_names, size_t site_count,
                                 plumb_error *why)
{
    char *text = header_text(site_names, site_count);
    const size_t length = text != NULL ? strlen(text) : 0;
    unsigned char *bytes = malloc(PLS_HEADER + length);
    plumb_status status = PLUMB_OK;

    if (text == NULL || bytes == NULL || length > PLS_MOST_HEADER) {
        status = plumb_fail(why, PLUMB_NO_MEMORY, "%s: no memory for %zu sites", PLS_FILE,
                            site_count);
    } else {
        memcpy(bytes, PLS_MAGIC, 8);
        plumb_put_u32(bytes + 8, PLS_VERSION);
        plumb_put_u32(bytes + 12, (uint32_t)length);
        plumb_put_u32(bytes + 16, plumb_crc32c(0, text, length));
        memcpy(bytes + PLS_HEADER, text, length);
        if (!plumb_file_put(fd, bytes, PLS_HEADER + length))
            status =
                plumb_fail(why, PLUMB_IO, "cannot write %s: %s", PLS_FILE, strerror(errno));
    }
    free(bytes);
    free(text);
    return status;
}

static plumb_status open_samples(plumb_run *run, const char *const *site_names,
                                 size_t site_count, plumb_error *why)
{
    char *path = plumb_path_join(run->directory, PLS_FILE);
    plumb_status status;

    if (path == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
    run->samples = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (run->samples < 0)
        status = plumb_fail(why, PLUMB_IO, "cannot create %s: %s", path, strerror(errno));
    else
        status = write_header(run->samples, site_names, site_count, why);
    run->site_count = site_count;
    free(path);
    return status;
}

/* The fields of all samples, column by column. */
static void put_columns(unsigned char *at, const plumb_sample *samples, size_t count)
{
    for (size_t c = 0; c < plumb_column_count; c++) {
        const plumb_column *const column = &plumb_columns[c];

        for (size_t i = 0; i < count; i++, at += column->width) {
            const char *field = (const char *)&samples[i] + column->offset;
            uint64_t wide;
            uint32_t narrow;

            if (column->width == 8) {
                memcpy(&wide, field, 8);
                plumb_put_u64(at, wide);
            } else {
                memcpy(&narrow, field, 4);
                plumb_put_u32(at, narrow);
            }
        }
    }
}

static plumb_status write_chunk(int fd, const plumb_sample *samples, size_t count,
                                plumb_error *why)
{
    const size_t length = count * row_bytes();
    unsigned char *bytes = malloc(PLS_CHUNK + length);
    uint64_t first = UINT64_MAX, last = 0;
    plumb_status status = PLUMB_OK;

    if (bytes == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu samples", count);
    for (size_t i = 0; i < count; i++) {
        first = samples[i].step < first ? samples[i].step : first;
        last = samples[i].step > last ? samples[i].step : last;
    }
    plumb_put_u32(bytes, (uint32_t)length);
    plumb_put_u32(bytes + 8, (uint32_t)count);
    plumb_put_u32(bytes + 12, 0);
    plumb_put_u64(bytes + 16, first);
    plumb_put_u64(bytes + 24, last);
    put_columns(bytes + PLS_CHUNK, samples, count);
    plumb_put_u32(bytes + 4, plumb_crc32c(0, bytes + 8, PLS_CHUNK - 8 + length));
    if (!plumb_file_put(fd, bytes, PLS_CHUNK + length))
        status =
            plumb_fail(why, PLUMB_IO, "cannot write %s: %s", PLS_FILE, strerror(errno));
    free(bytes);
    return status;
}

plumb_status plumb_run_samples(plumb_run *run, const char *const *site_names,
                               size_t site_count, const plumb_sample *samples, size_t count,
                               plumb_error *why)
{
    const size_t most = PLS_MOST_CHUNK / row_bytes();
    plumb_status status = PLUMB_OK;

    if (site_count == 0 || site_count > PLS_MOST_SITES)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "%zu sites; allowed: 1 to %d",
                          site_count, PLS_MOST_SITES);
    if (run->samples >= 0 && site_count != run->site_count)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "%zu sites; the file has %zu",
                          site_count, run->site_count);
    for (size_t i = 0; i < count; i++)
        if (samples[i].site >= site_count)
            return plumb_fail(why, PLUMB_BAD_ARGUMENT, "a sample of site %u of %zu",
                              samples[i].site, site_count);
    if (run->samples < 0)
        status = open_samples(run, site_names, site_count, why);
    for (size_t i = 0; status == PLUMB_OK && i < count; i += most)
        status = write_chunk(run->samples, samples + i, count - i < most ? count - i : most,
                             why);
    return status;
}
