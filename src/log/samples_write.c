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
#include "log/ranks.h"
#include "plumb/file.h"

/* Fields of a row, or of the sample that a row begins with. */
#define COLUMN(name, type, width)                                                          \
    {                                                                                      \
#name, type, offsetof(plumb_sample, name), width                                   \
    }
#define BIN(k)                                                                             \
    {                                                                                      \
        "bin_" #k, "f32", offsetof(plumb_histogram, bin) + (k) * sizeof(float),            \
            sizeof(float)                                                                  \
    }

#define SAMPLE_COLUMNS                                                                     \
    COLUMN(step, "u64", 8), COLUMN(site, "u32", 4), COLUMN(scale, "f32", 4),               \
        COLUMN(least_scale, "f32", 4), COLUMN(amax, "f32", 4),                             \
        COLUMN(decoded_amax, "f32", 4), COLUMN(headroom, "f32", 4),                        \
        COLUMN(total, "u64", 8), COLUMN(saturated, "u64", 8), COLUMN(flushed, "u64", 8),   \
        COLUMN(zero, "u64", 8), COLUMN(nonfinite, "u64", 8)

static const plumb_column sample_columns[] = {SAMPLE_COLUMNS};

static const plumb_column histogram_columns[] = {
    SAMPLE_COLUMNS, {"first", "i32", offsetof(plumb_histogram, first), sizeof(int32_t)},
    BIN(0),         BIN(1),
    BIN(2),         BIN(3),
    BIN(4),         BIN(5),
    BIN(6),         BIN(7),
    BIN(8),         BIN(9),
    BIN(10),        BIN(11),
    BIN(12),        BIN(13),
    BIN(14),        BIN(15),
    BIN(16),        BIN(17),
    BIN(18),        BIN(19),
    BIN(20),        BIN(21),
    BIN(22),        BIN(23),
    BIN(24),        BIN(25),
    BIN(26),        BIN(27),
    BIN(28),        BIN(29),
    BIN(30),        BIN(31),
    BIN(32),        BIN(33),
    BIN(34),        BIN(35),
    BIN(36),        BIN(37),
    BIN(38),        BIN(39),
    BIN(40),        BIN(41),
    BIN(42),        BIN(43),
    BIN(44),        BIN(45),
    BIN(46),        BIN(47),
};
_Static_assert(PLUMB_BINS == 48, "a column for each bin");
_Static_assert(offsetof(plumb_histogram, sample) == 0, "a row begins with its sample");

const plumb_pls plumb_pls_samples = {"sites-rank", sample_columns,
                                     sizeof sample_columns / sizeof sample_columns[0],
                                     sizeof(plumb_sample)};
const plumb_pls plumb_pls_histograms = {
    "spectra-rank", histogram_columns,
    sizeof histogram_columns / sizeof histogram_columns[0], sizeof(plumb_histogram)};

static size_t row_bytes(const plumb_pls *pls)
{
    size_t bytes = 0;

    for (size_t i = 0; i < pls->column_count; i++)
        bytes += pls->columns[i].width;
    return bytes;
}

/* {"sites": [...], "columns": [["step", "u64"], ...]} */
static char *header_text(const plumb_pls *pls, const char *const *site_names,
                         size_t site_count)
{
    json_t *sites = json_array(), *columns = json_array();

    for (size_t i = 0; i < site_count; i++)
        json_array_append_new(sites, json_string(site_names[i]));
    for (size_t i = 0; i < pls->column_count; i++)
        json_array_append_new(
            columns, json_pack("[ss]", pls->columns[i].name, pls->columns[i].type));
    json_t *json = json_pack("{soso}", "sites", sites, "columns", columns);
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return text;
}

static plumb_status write_header(const plumb_pls *pls, int fd,
                                 const char *const *site_names, size_t site_count,
                                 plumb_error *why)
{
    char *text = header_text(pls, site_names, site_count);
    const size_t length = text != NULL ? strlen(text) : 0;
    unsigned char *bytes = malloc(PLS_HEADER + length);
    plumb_status status = PLUMB_OK;

    if (text == NULL || bytes == NULL || length > PLS_MOST_HEADER) {
        status = plumb_fail(why, PLUMB_NO_MEMORY, "%s00000.pls: no memory for %zu sites",
                            pls->prefix, site_count);
    } else {
        memcpy(bytes, PLS_MAGIC, 8);
        plumb_put_u32(bytes + 8, PLS_VERSION);
        plumb_put_u32(bytes + 12, (uint32_t)length);
        plumb_put_u32(bytes + 16, plumb_crc32c(0, text, length));
        memcpy(bytes + PLS_HEADER, text, length);
        if (!plumb_file_put(fd, bytes, PLS_HEADER + length))
            status = plumb_fail(why, PLUMB_IO, "cannot write %s00000.pls: %s", pls->prefix,
                                strerror(errno));
    }
    free(bytes);
    free(text);
    return status;
}

static plumb_status open_file(const plumb_pls *pls, plumb_pls_out *out,
                              const char *directory, const char *const *site_names,
                              size_t site_count, plumb_error *why)
{
    char *path = plumb_rank_path(directory, pls->prefix, 0, PLS_SUFFIX);
    plumb_status status;

    if (path == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
    out->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (out->fd < 0)
        status = plumb_fail(why, PLUMB_IO, "cannot create %s: %s", path, strerror(errno));
    else
        status = write_header(pls, out->fd, site_names, site_count, why);
    out->site_count = site_count;
    free(path);
    return status;
}

static const plumb_sample *row_at(const plumb_pls *pls, const void *rows, size_t i)
{
    return (const void *)((const char *)rows + i * pls->row_size);
}

/* The fields of all rows, column by column. */
static void put_columns(const plumb_pls *pls, unsigned char *at, const void *rows,
                        size_t count)
{
    for (size_t c = 0; c < pls->column_count; c++) {
        const plumb_column *const column = &pls->columns[c];

        for (size_t i = 0; i < count; i++, at += column->width) {
            const char *field = (const char *)row_at(pls, rows, i) + column->offset;
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

static plumb_status write_chunk(const plumb_pls *pls, int fd, const void *rows,
                                size_t count, plumb_error *why)
{
    const size_t length = count * row_bytes(pls);
    unsigned char *bytes = malloc(PLS_CHUNK + length);
    uint64_t first = UINT64_MAX, last = 0;
    plumb_status status = PLUMB_OK;

    if (bytes == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu rows of %s00000.pls",
                          count, pls->prefix);
    for (size_t i = 0; i < count; i++) {
        const uint64_t step = row_at(pls, rows, i)->step;

        first = step < first ? step : first;
        last = step > last ? step : last;
    }
    plumb_put_u32(bytes, (uint32_t)length);
    plumb_put_u32(bytes + 8, (uint32_t)count);
    plumb_put_u32(bytes + 12, 0);
    plumb_put_u64(bytes + 16, first);
    plumb_put_u64(bytes + 24, last);
    put_columns(pls, bytes + PLS_CHUNK, rows, count);
    plumb_put_u32(bytes + 4, plumb_crc32c(0, bytes + 8, PLS_CHUNK - 8 + length));
    if (!plumb_file_put(fd, bytes, PLS_CHUNK + length))
        status = plumb_fail(why, PLUMB_IO, "cannot write %s00000.pls: %s", pls->prefix,
                            strerror(errno));
    free(bytes);
    return status;
}

static plumb_status write_rows(const plumb_pls *pls, plumb_pls_out *out,
                               const char *directory, const char *const *site_names,
                               size_t site_count, const void *rows, size_t count,
                               plumb_error *why)
{
    const size_t most = PLS_MOST_CHUNK / row_bytes(pls);
    plumb_status status = PLUMB_OK;

    if (site_count == 0 || site_count > PLS_MOST_SITES)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "%zu sites; allowed: 1 to %d",
                          site_count, PLS_MOST_SITES);
    if (out->fd >= 0 && site_count != out->site_count)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "%zu sites; the file has %zu",
                          site_count, out->site_count);
    for (size_t i = 0; i < count; i++)
        if (row_at(pls, rows, i)->site >= site_count)
            return plumb_fail(why, PLUMB_BAD_ARGUMENT, "a sample of site %u of %zu",
                              row_at(pls, rows, i)->site, site_count);
    if (out->fd < 0)
        status = open_file(pls, out, directory, site_names, site_count, why);
    for (size_t i = 0; status == PLUMB_OK && i < count; i += most)
        status = write_chunk(pls, out->fd, row_at(pls, rows, i),
                             count - i < most ? count - i : most, why);
    return status;
}

plumb_status plumb_run_samples(plumb_run *run, const char *const *site_names,
                               size_t site_count, const plumb_sample *samples, size_t count,
                               plumb_error *why)
{
    return write_rows(&plumb_pls_samples, &run->samples, run->directory, site_names,
                      site_count, samples, count, why);
}

plumb_status plumb_run_histograms(plumb_run *run, const char *const *site_names,
                                  size_t site_count, const plumb_histogram *histograms,
                                  size_t count, plumb_error *why)
{
    return write_rows(&plumb_pls_histograms, &run->histograms, run->directory, site_names,
                      site_count, histograms, count, why);
}
