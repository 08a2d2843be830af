/* Quantising a patch of a matrix, one scale block or piece of a block at a time.
 *
 * The casts want contiguous elements.  Rows give them; blocks that run down the rows are
 * turned, a few columns at a time, in a buffer that fits the first-level cache.
 */
#include "kernel/cast.h"
#include "quant/patch.h"

#include "base/bits.h"
#include "base/size.h"

#include <float.h>
#include <math.h>

enum { TURNED = 16 /* columns in the buffer at once */ };

static float larger(float a, float b)
{
    return b > a ? b : a;
}

static const float *floats_at(const plumb_source *s, size_t row, size_t col)
{
    return (const float *)s->x + row * s->ld + col;
}

static const uint16_t *halves_at(const plumb_source *s, size_t row, size_t col)
{
    return (const uint16_t *)s->x + row * s->ld + col;
}

static float value_of_bf16(uint16_t code)
{
    return float_of((uint32_t)code << 16);
}

float plumb_source_amax(const plumb_source *source, size_t row, size_t col, size_t n)
{
    return source->format == PLUMB_FP32
               ? plumb_cast_amax(floats_at(source, row, col), n)
               : plumb_cast_amax_bf16(halves_at(source, row, col), n);
}

static plumb_block_scale choose_scale(const plumb_copy *copy, float amax)
{
    return copy->spec->rule == PLUMB_SCALE_CURRENT
               ? plumb_block_scale_current(copy->spec, amax)
               : copy->fixed;
}

/* n elements of the source's format, or fp32 ones that were gathered. */
static void encode(plumb_copy *copy, plumb_block_scale scale, uint64_t first,
                   plumb_format format, const void *x, size_t n, void *codes)
{
    plumb_cast *how = &copy->how;

    how->divide = scale.divide;
    how->scale = scale.factor;
    how->decode = scale.d == 0 ? FLT_TRUE_MIN : scale.d; /* 0 would ask for 1 / scale */
    how->first = first;
    plumb_cast_encode_measured(how, format, x, n, codes, &copy->counts, copy->spectrum);
}

/* --- lines of blocks ---------------------------------------------------------------------- */

enum { LINE = TURNED * PLUMB_PATCH /* elements */, LEAST = 16 /* elements of a block */ };

/* True of the grains whose blocks lie one after the other, each with the scale of its amax. */
static bool has_lines(const plumb_copy *copy)
{
    return copy->spec->rule == PLUMB_SCALE_CURRENT &&
           plumb_grain_turns(copy->spec->grain) &&
           plumb_grain_length(copy->spec->grain) != 0;
}

/* At most LINE elements in blocks of the grain's length, from the first of a block; d of each. */
static void quantize_line(plumb_copy *copy, uint64_t first, plumb_format format,
                          const void *x, size_t n, void *codes, float *d)
{
    const size_t block = plumb_grain_length(copy->spec->grain);
    const size_t count = (n + block - 1) / block;
    const float back = 1 / copy->tensor_scale;
    float amax[LINE / LEAST], factor[LINE / LEAST], decode[LINE / LEAST];
    const plumb_encode_job job = {.how = &copy->how,
                                  .source = format,
                                  .x = x,
                                  .n = n,
                                  .codes = codes,
                                  .counts = &copy->counts,
                                  .spectrum = copy->spectrum,
                                  .block = block,
                                  .scales = factor,
                                  .decodes = decode};

    plumb_cast_amax_blocks(format, x, n, block, amax);
    plumb_block_scales(copy->spec, copy->tensor_scale, amax, count, factor, d);
    for (size_t i = 0; copy->spectrum != NULL && i < count; i++)
        decode[i] = d[i] * back;
    copy->how.divide = copy->spec->divide;
    copy->how.first = first;
    plumb_cast_run(&job);
}

/* --- blocks that hold pieces of rows ------------------------------------------------------ */

static void encode_row(plumb_copy *copy, plumb_block_scale scale, size_t row, size_t col,
                       size_t n)
{
    const plumb_source *s = copy->source;
    const size_t at = row * s->cols + col;
    const void *x = s->format == PLUMB_FP32 ? (const void *)floats_at(s, row, col)
                                            : (const void *)halves_at(s, row, col);

    encode(copy, scale, at, s->format, x, n,
           copy->codes + at * (size_t)plumb_format_get(copy->how.format)->bytes);
}

/* One block, or what the patch has of it. */
static void quantize_piece(plumb_copy *copy, const plumb_patch *piece)
{
    const size_t n = piece->col_end - piece->col;
    const size_t index = piece->row / copy->blocks.height * copy->blocks.across +
                         piece->col / copy->blocks.width;
    const bool measure = copy->spec->rule == PLUMB_SCALE_CURRENT && !copy->early;
    float amax = copy->early ? copy->d[index] : 0;

    for (size_t row = piece->row; measure && row < piece->row_end; row++)
        amax = larger(amax, plumb_source_amax(copy->source, row, piece->col, n));
    const plumb_block_scale scale = choose_scale(copy, amax);
    for (size_t row = piece->row; row < piece->row_end; row++)
        encode_row(copy, scale, row, piece->col, n);
    if (copy->d != NULL && !copy->early)
        copy->d[index] = scale.d;
}

static void quantize_lines(plumb_copy *copy, const plumb_patch *t)
{
    const plumb_source *s = copy->source;

    for (size_t row = t->row; row < t->row_end; row++) {
        for (size_t col = t->col; col < t->col_end; col += LINE) {
            const size_t at = row * s->cols + col;
            const void *x = s->format == PLUMB_FP32 ? (const void *)floats_at(s, row, col)
                                                    : (const void *)halves_at(s, row, col);

            quantize_line(copy, at, s->format, x, smaller(LINE, t->col_end - col),
                          copy->codes + at,
                          copy->d + row * copy->blocks.across + col / copy->blocks.width);
        }
    }
}

static void quantize_rows(plumb_copy *copy, const plumb_patch *t)
{
    const size_t height = smaller(copy->blocks.height, PLUMB_PATCH);
    const size_t width = smaller(copy->blocks.width, t->col_end - t->col);

    for (size_t row = t->row; row < t->row_end; row += height) {
        for (size_t col = t->col; col < t->col_end; col += width) {
            const plumb_patch piece = {row, smaller(row + height, t->row_end), col,
                                       smaller(col + width, t->col_end)};

            quantize_piece(copy, &piece);
        }
    }
}

/* --- blocks that run down columns ----------------------------------------------------------- */

static void gather(const plumb_source *s, size_t row, size_t height, size_t col,
                   size_t width, float x[TURNED][PLUMB_PATCH])
{
    for (size_t r = 0; s->format == PLUMB_FP32 && r < height; r++) {
        const float *from = floats_at(s, row + r, col);

        for (size_t c = 0; c < width; c++)
            x[c][r] = from[c];
    }
    for (size_t r = 0; s->format != PLUMB_FP32 && r < height; r++) {
        const uint16_t *from = halves_at(s, row + r, col);

        for (size_t c = 0; c < width; c++)
            x[c][r] = value_of_bf16(from[c]);
    }
}

/* One column of a patch: every block in it, or the part of a block that the patch has. */
static void quantize_column(plumb_copy *copy, const float *x, size_t row, size_t height,
                            size_t col, unsigned char *codes)
{
    const size_t length = smaller(copy->blocks.height, PLUMB_PATCH);

    for (size_t r = 0; r < height; r += length) {
        const size_t n = smaller(length, height - r);
        float *d = copy->d + (row + r) / copy->blocks.height * copy->blocks.across + col;
        const plumb_block_scale scale =
            choose_scale(copy, copy->early ? *d : plumb_cast_amax(x + r, n));

        encode(copy, scale, (uint64_t)col * copy->source->rows + row + r, PLUMB_FP32, x + r,
               n, codes + r);
        if (!copy->early)
            *d = scale.d;
    }
}

/* The same of all columns in the buffer, whose blocks are lines: of all at once, if they lie one
 * behind the other and no random bits are counted out.
 */
static void quantize_buffer(plumb_copy *copy, const plumb_patch *t, size_t width,
                            float x[TURNED][PLUMB_PATCH],
                            unsigned char codes[TURNED][PLUMB_PATCH])
{
    const size_t block = copy->blocks.height, height = t->row_end - t->row;
    const size_t in_column = (height + block - 1) / block;
    const bool dithered = copy->how.rounding == PLUMB_ROUND_STOCHASTIC;
    const size_t step = height == PLUMB_PATCH && !dithered ? width : 1;
    float d[LINE / LEAST];

    for (size_t c = 0; c < width; c += step) {
        float *to = copy->d + t->row / block * copy->blocks.across + t->col + c;

        quantize_line(copy, (uint64_t)(t->col + c) * copy->source->rows + t->row,
                      PLUMB_FP32, x[c], step * height, codes[c], d);
        for (size_t i = 0; i < step * in_column; i++)
            to[i % in_column * copy->blocks.across + i / in_column] = d[i];
    }
}

static void quantize_columns(plumb_copy *copy, const plumb_patch *t)
{
    const size_t height = t->row_end - t->row, ld = copy->source->cols;
    float x[TURNED][PLUMB_PATCH];
    unsigned char codes[TURNED][PLUMB_PATCH];

    for (size_t col = t->col; col < t->col_end; col += TURNED) {
        const size_t width = smaller(TURNED, t->col_end - col);
        unsigned char *to = copy->codes + t->row * ld + col;

        gather(copy->source, t->row, height, col, width, x);
        if (has_lines(copy)) {
            const plumb_patch buffer = {t->row, t->row_end, col, col + width};

            quantize_buffer(copy, &buffer, width, x, codes);
        }
        for (size_t c = 0; c < width && !has_lines(copy); c++)
            quantize_column(copy, x[c], t->row, height, col + c, codes[c]);
        for (size_t r = 0; r < height; r++) {
            for (size_t c = 0; c < width; c++)
                to[r * ld + c] = codes[c][r];
        }
    }
}

/* --- a copy ----------------------------------------------------------------------------------- */

void plumb_copy_begin(plumb_copy *copy, size_t patch_width)
{
    const plumb_source *s = copy->source;

    copy->early = copy->spec->rule == PLUMB_SCALE_CURRENT && copy->d != NULL &&
                  (smaller(copy->blocks.height, s->rows) > PLUMB_PATCH ||
                   smaller(copy->blocks.width, s->cols) > patch_width);
    for (size_t i = 0; copy->early && i < copy->blocks.down * copy->blocks.across; i++)
        copy->d[i] = 0;
}

/* The amax of each column, a row at a time. */
static void measure_columns(const plumb_source *s, size_t row, float *amax)
{
    if (s->format == PLUMB_FP32) {
        const float *x = floats_at(s, row, 0);

        for (size_t col = 0; col < s->cols; col++)
            amax[col] = larger(amax[col], fabsf(x[col]));
        return;
    }
    const uint16_t *x = halves_at(s, row, 0);

    for (size_t col = 0; col < s->cols; col++)
        amax[col] = larger(amax[col], fabsf(value_of_bf16(x[col])));
}

void plumb_copy_measure(const plumb_copy *copy, size_t row, size_t row_end)
{
    for (; copy->early && row < row_end; row++) {
        float *amax = copy->d + row / copy->blocks.height * copy->blocks.across;

        if (copy->turned)
            measure_columns(copy->source, row, amax);
        else
            *amax =
                larger(*amax, plumb_source_amax(copy->source, row, 0, copy->source->cols));
    }
}

void plumb_copy_patch(plumb_copy *copy, const plumb_patch *patch)
{
    if (copy->turned)
        quantize_columns(copy, patch);
    else if (has_lines(copy))
        quantize_lines(copy, patch);
    else
        quantize_rows(copy, patch);
}

void plumb_copy_end(const plumb_copy *copy)
{
    const size_t scales = copy->blocks.down * copy->blocks.across;
    const bool empty = copy->source->rows == 0 || copy->source->cols == 0;

    for (size_t i = 0; copy->d != NULL && (copy->early || empty) && i < scales; i++)
        copy->d[i] = choose_scale(copy, empty ? 0 : copy->d[i]).d;
}
