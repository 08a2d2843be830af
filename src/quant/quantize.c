/* Quantising and decoding matrices, one scale block at a time.
 *
 * The casts want contiguous elements.  Rows give them; blocks that run down the rows are
 * turned, a few columns at a time, in a buffer that fits the first-level cache.
 */
#include "plumb/quant.h"
#include "quant/scale.h"
#include "quant/spec.h"

#include <math.h>

enum { BLOCK = PLUMB_BLOCK, TURNED = 16 /* columns in the buffer at once */ };

static size_t blocks(size_t n)
{
    return n / BLOCK + (n % BLOCK != 0);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t code_bytes(plumb_format format)
{
    return (size_t)plumb_format_get(format)->bits / 8;
}

static size_t scale_total(plumb_grain grain, bool along_rows, size_t rows, size_t cols)
{
    if (grain == PLUMB_GRAIN_TENSOR)
        return 1;
    if (grain == PLUMB_GRAIN_128X128)
        return blocks(rows) * blocks(cols);
    return along_rows ? blocks(rows) * cols : rows * blocks(cols);
}

static bool has_scales(const plumb_spec *spec)
{
    return plumb_spec_is_scaled(spec) && spec->rule != PLUMB_SCALE_NONE;
}

plumb_status plumb_quantized_need(const plumb_spec *spec, size_t rows, size_t cols,
                                  bool along_rows, size_t *code_total, size_t *scale_count,
                                  plumb_error *why)
{
    const plumb_status status = plumb_spec_check(spec, why);
    size_t elements, bytes, scale_bytes;

    if (status != PLUMB_OK)
        return status;
    /* There are never more scales than elements, so their count cannot wrap. */
    if (!plumb_mul_size(rows, cols, &elements) ||
        !plumb_mul_size(elements, code_bytes(spec->format), &bytes) ||
        !plumb_mul_size(elements, sizeof(float), &scale_bytes))
        return plumb_fail(why, PLUMB_BAD_SHAPE,
                          "a matrix of %zu x %zu does not fit in memory", rows, cols);
    *code_total = bytes;
    *scale_count = has_scales(spec) ? scale_total(spec->grain, along_rows, rows, cols) : 0;
    return PLUMB_OK;
}

/* One call: the source, and what it becomes. */
struct job {
    const plumb_spec *spec;
    const float *x;
    size_t rows, cols;
    unsigned char *codes;
    float *d;
    plumb_block_scale fixed; /* of every rule but CURRENT */
    plumb_counts *counts;
};

static plumb_block_scale choose_scale(const struct job *job, float amax)
{
    return job->spec->rule == PLUMB_SCALE_CURRENT
               ? plumb_block_scale_current(job->spec, amax)
               : job->fixed;
}

static void encode(const struct job *job, plumb_block_scale scale, const float *x, size_t n,
                   void *codes)
{
    const plumb_cast how = {.format = job->spec->format,
                            .saturate = job->spec->saturate,
                            .divide = scale.divide,
                            .scale = scale.factor};

    plumb_cast_encode(&how, x, n, codes, job->counts);
}

static void quantize_tensor(const struct job *job)
{
    const size_t n = job->rows * job->cols;
    const bool current = job->spec->rule == PLUMB_SCALE_CURRENT;
    const plumb_block_scale scale =
        choose_scale(job, current ? plumb_cast_amax(job->x, n) : 0);

    encode(job, scale, job->x, n, job->codes);
    if (job->d != NULL)
        job->d[0] = scale.d;
}

static void quantize_row_blocks(const struct job *job)
{
    const size_t across = blocks(job->cols);

    for (size_t row = 0; row < job->rows; row++) {
        for (size_t col = 0; col < job->cols; col += BLOCK) {
            const size_t at = row * job->cols + col, n = smaller(BLOCK, job->cols - col);
            const plumb_block_scale scale =
                choose_scale(job, plumb_cast_amax(job->x + at, n));

            encode(job, scale, job->x + at, n, job->codes + at);
            if (job->d != NULL)
                job->d[row * across + col / BLOCK] = scale.d;
        }
    }
}

static void quantize_square(const struct job *job, size_t row, size_t col, float *d)
{
    const size_t height = smaller(BLOCK, job->rows - row),
                 width = smaller(BLOCK, job->cols - col);
    const size_t at = row * job->cols + col;
    float amax = 0;

    for (size_t r = 0; r < height; r++) {
        const float of_row = plumb_cast_amax(job->x + at + r * job->cols, width);

        amax = of_row > amax ? of_row : amax;
    }
    const plumb_block_scale scale = choose_scale(job, amax);
    for (size_t r = 0; r < height; r++)
        encode(job, scale, job->x + at + r * job->cols, width,
               job->codes + at + r * job->cols);
    if (d != NULL)
        *d = scale.d;
}

static void quantize_squares(const struct job *job)
{
    float *d = job->d;

    for (size_t row = 0; row < job->rows; row += BLOCK) {
        for (size_t col = 0; col < job->cols; col += BLOCK) {
            quantize_square(job, row, col, d);
            d += d != NULL;
        }
    }
}

/* `width` columns of up to 128 rows, each with its own scale. */
static void quantize_columns(const struct job *job, size_t row, size_t col, size_t width)
{
    const size_t height = smaller(BLOCK, job->rows - row), at = row * job->cols + col;
    float x[TURNED][BLOCK];
    unsigned char codes[TURNED][BLOCK];

    for (size_t r = 0; r < height; r++) {
        for (size_t c = 0; c < width; c++)
            x[c][r] = job->x[at + r * job->cols + c];
    }
    for (size_t c = 0; c < width; c++) {
        const plumb_block_scale scale = choose_scale(job, plumb_cast_amax(x[c], height));

        encode(job, scale, x[c], height, codes[c]);
        if (job->d != NULL)
            job->d[row / BLOCK * job->cols + col + c] = scale.d;
    }
    for (size_t r = 0; r < height; r++) {
        for (size_t c = 0; c < width; c++)
            job->codes[at + r * job->cols + c] = codes[c][r];
    }
}

static void quantize_column_blocks(const struct job *job)
{
    for (size_t row = 0; row < job->rows; row += BLOCK) {
        for (size_t col = 0; col < job->cols; col += TURNED)
            quantize_columns(job, row, col, smaller(TURNED, job->cols - col));
    }
}

static void quantize_blocks(const struct job *job, bool along_rows)
{
    if (job->spec->grain == PLUMB_GRAIN_TENSOR)
        quantize_tensor(job);
    else if (job->spec->grain == PLUMB_GRAIN_128X128)
        quantize_squares(job);
    else if (along_rows)
        quantize_column_blocks(job);
    else
        quantize_row_blocks(job);
}

/* s of the rules that know it beforehand.  A state is taken as it is, wild values too: a
 * planted or restored scale must act as it would on a GPU.
 */
static float fixed_scale(const plumb_spec *spec, const plumb_scale_state *state)
{
    if (spec->rule == PLUMB_SCALE_STATIC)
        return spec->static_scale;
    return spec->rule == PLUMB_SCALE_DELAYED && state != NULL ? state->scale : 1;
}

static void raise_pending(plumb_scale_state *state, float amax)
{
    if (!(state->pending >= amax))
        state->pending = amax;
}

plumb_status plumb_quantize(const plumb_spec *spec, const float *x, size_t rows,
                            size_t cols, bool along_rows, plumb_scale_state *state,
                            bool update, plumb_quantized *out, plumb_counts *counts,
                            plumb_error *why)
{
    const plumb_spec usual = plumb_spec_normal(spec);
    plumb_counts seen = {0};
    size_t code_total, scale_count;
    plumb_status status =
        plumb_quantized_need(spec, rows, cols, along_rows, &code_total, &scale_count, why);
    struct job job = {.spec = &usual, .x = x, .rows = rows, .cols = cols, .counts = &seen};

    if (status == PLUMB_OK && usual.rule == PLUMB_SCALE_DELAYED && state == NULL && update)
        status =
            plumb_fail(why, PLUMB_BAD_ARGUMENT, "delayed scaling needs a state to update");
    if (status != PLUMB_OK)
        return status;

    out->format = usual.format;
    out->grain = usual.grain;
    out->along_rows = along_rows;
    out->rows = rows;
    out->cols = out->ld = cols;
    if (!has_scales(&usual))
        out->d = NULL;
    job.fixed = plumb_block_scale_fixed(fixed_scale(&usual, state));
    job.codes = out->codes;
    job.d = out->d;
    quantize_blocks(&job, along_rows);
    if (usual.rule == PLUMB_SCALE_DELAYED && update)
        raise_pending(state, seen.amax);
    if (counts != NULL)
        plumb_counts_add(counts, &seen);
    return PLUMB_OK;
}

static const unsigned char *code_at(const plumb_quantized *q, size_t row, size_t col)
{
    return (const unsigned char *)q->codes + (row * q->ld + col) * code_bytes(q->format);
}

/* x *= d; a NaN is the one pattern, also that of infinity times 0. */
static void scale_each(float *x, const float *d, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float scaled = x[i] * d[i];

        x[i] = isnan(scaled) ? (float)NAN : scaled;
    }
}

/* One row: segments that share a scale, or a scale for each element. */
static void dequantize_row(const plumb_quantized *q, size_t row, float *x)
{
    const size_t across = blocks(q->cols), band = row / BLOCK;

    if (q->d == NULL || q->grain == PLUMB_GRAIN_TENSOR) {
        plumb_cast_decode(q->format, q->d == NULL ? 1 : q->d[0], code_at(q, row, 0),
                          q->cols, x);
        return;
    }
    if (q->grain == PLUMB_GRAIN_1X128 && q->along_rows) {
        plumb_cast_decode(q->format, 1, code_at(q, row, 0), q->cols, x);
        scale_each(x, q->d + band * q->cols, q->cols);
        return;
    }
    const float *d = q->d + (q->grain == PLUMB_GRAIN_1X128 ? row : band) * across;
    for (size_t col = 0; col < q->cols; col += BLOCK)
        plumb_cast_decode(q->format, d[col / BLOCK], code_at(q, row, col),
                          smaller(BLOCK, q->cols - col), x + col);
}

plumb_status plumb_dequantize(const plumb_quantized *q, float *x, plumb_error *why)
{
    if (plumb_format_get(q->format) == NULL)
        return plumb_fail(why, PLUMB_BAD_FORMAT, "format %d does not exist",
                          (int)q->format);
    if (q->ld < q->cols)
        return plumb_fail(why, PLUMB_BAD_SHAPE, "ld=%zu is below cols=%zu", q->ld, q->cols);
    for (size_t row = 0; row < q->rows; row++)
        dequantize_row(q, row, x + row * q->cols);
    return PLUMB_OK;
}

size_t plumb_quantized_scale_count(const plumb_quantized *q)
{
    return q->d == NULL ? 0 : scale_total(q->grain, q->along_rows, q->rows, q->cols);
}

void plumb_quantized_scale_range(const plumb_quantized *q, float *least, float *largest)
{
    const size_t n = plumb_quantized_scale_count(q);

    *least = *largest = n == 0 ? 1 : 1 / q->d[0];
    for (size_t i = 1; i < n; i++) {
        const float s = 1 / q->d[i];

        *least = s < *least ? s : *least;
        *largest = s > *largest ? s : *largest;
    }
}
