/* Quantising a patch of a matrix, by tiles that lie as they are in the source: a scale for each
 * block of a row or, where blocks run down, for each column, which needs no turning.  Only random
 * bits are counted down the columns, and these are turned in a buffer.
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

/* --- tiles ------------------------------------------------------------------------------- */

enum { LINE = 2048 /* elements */, LEAST = 16 /* of a block */, WIDE = 512 /* columns */ };

/* A rectangle of which each column of blocks, `width` wide and as high as the rectangle, has a scale
 * of its own.
 */
typedef struct tile {
    plumb_format format;
    const void *x;
    size_t rows, ld, cols, width;
    size_t number; /* of the first element in the copy, and of its code */
} tile;

static const void *source_at(const plumb_source *s, size_t row, size_t col)
{
    return s->format == PLUMB_FP32 ? (const void *)floats_at(s, row, col)
                                   : (const void *)halves_at(s, row, col);
}

/* Of n blocks: what the cast does and what decoding does, and d where it is not there yet. */
static void scales_of(plumb_copy *copy, const float *amax, size_t n, float *factor,
                      float *decode, float *d)
{
    const bool current = copy->spec->rule == PLUMB_SCALE_CURRENT;
    const float back = 1 / copy->tensor_scale;

    copy->how.divide = current && copy->spec->divide;
    if (current && !copy->early) {
        plumb_block_scales(copy->spec, copy->tensor_scale, amax, n, factor, d);
        for (size_t i = 0; i < n; i++)
            decode[i] = d[i] * back;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const plumb_block_scale scale = choose_scale(copy, d[i]);

        factor[i] = scale.factor;
        decode[i] = scale.d;
        if (!copy->early)
            d[i] = scale.d;
    }
}

/* At most LINE elements in blocks of LEAST at least, or WIDE columns. */
static void quantize_tile(plumb_copy *copy, const tile *t, unsigned char *codes, float *d)
{
    const size_t count = (t->cols + t->width - 1) / t->width;
    float amax[WIDE], factor[WIDE], decode[WIDE];
    const bool numbers =
        plumb_cast_amax_blocks(t->format, t->x, t->rows, t->ld, t->cols, t->width, amax);

    scales_of(copy, amax, count, factor, decode, d);
    copy->how.first = t->number;

    const plumb_encode_job job = {.how = &copy->how,
                                  .source = t->format,
                                  .x = t->x,
                                  .n = t->cols,
                                  .codes = codes,
                                  .counts = &copy->counts,
                                  .spectrum = copy->spectrum,
                                  .block = t->width,
                                  .scales = factor,
                                  .decodes = decode,
                                  .amax = numbers ? amax : NULL,
                                  .rows = t->rows,
                                  .ld = t->ld,
                                  .code_ld = copy->source->cols};

    plumb_cast_run(&job);
}

/* True where a patch is made of tiles: of blocks that lie one after the other in a row, each with
 * the scale of its amax, of square ones, or of columns.
 */
static bool has_tiles(const plumb_copy *copy)
{
    return copy->turned || (copy->spec->rule == PLUMB_SCALE_CURRENT && !copy->early &&
                            plumb_grain_length(copy->spec->grain) != 0);
}

/* A row or, where blocks lie behind each other from row to row, all rows as one, in lines. */
static void quantize_lines(plumb_copy *copy, size_t row, size_t col, size_t n)
{
    const plumb_source *s = copy->source;
    float *d = copy->d + row * copy->blocks.across + col / copy->blocks.width;

    for (size_t at = 0; at < n; at += LINE) {
        const size_t number = row * s->cols + col + at;
        const tile t = {.format = s->format,
                        .x = source_at(s, row, col + at),
                        .rows = 1,
                        .cols = smaller(LINE, n - at),
                        .width = copy->blocks.width,
                        .number = number};

        quantize_tile(copy, &t, copy->codes + number, d + at / copy->blocks.width);
    }
}

static void quantize_tiles(plumb_copy *copy, const plumb_patch *p)
{
    const plumb_source *s = copy->source;
    const size_t high = smaller(copy->blocks.height, PLUMB_PATCH);
    const size_t wide = copy->blocks.width;
    const bool whole = p->col == 0 && p->col_end == s->cols && s->ld == s->cols;

    if (high == 1 && whole && s->cols % wide == 0) {
        quantize_lines(copy, p->row, 0, (p->row_end - p->row) * s->cols);
        return;
    }
    for (size_t row = p->row; high == 1 && row < p->row_end; row++)
        quantize_lines(copy, row, p->col, p->col_end - p->col);
    for (size_t row = p->row; high > 1 && row < p->row_end; row += high) {
        for (size_t col = p->col; col < p->col_end; col += WIDE) {
            const size_t number = row * s->cols + col;
            const tile t = {.format = s->format,
                            .x = source_at(s, row, col),
                            .rows = smaller(high, p->row_end - row),
                            .ld = s->ld,
                            .cols = smaller(WIDE, p->col_end - col),
                            .width = wide,
                            .number = number};

            quantize_tile(copy, &t, copy->codes + number,
                          copy->d + row / copy->blocks.height * copy->blocks.across +
                              col / wide);
        }
    }
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

/* --- blocks that run down columns, with random bits ------------------------------------------ */

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

/* One column of a patch: every block in it, or the part of a block that the patch has.  The random
 * bits are counted down the columns.
 */
static void quantize_column(plumb_copy *copy, const float *x, size_t row, size_t height,
                            size_t col, unsigned char *codes)
{
    const size_t length = smaller(copy->blocks.height, PLUMB_PATCH);

    for (size_t r = 0; r < height; r += length) {
        const tile t = {.format = PLUMB_FP32,
                        .x = x + r,
                        .rows = 1,
                        .cols = smaller(length, height - r),
                        .width = PLUMB_PATCH,
                        .number = col * copy->source->rows + row + r};

        quantize_tile(copy, &t, codes + r,
                      copy->d + (row + r) / copy->blocks.height * copy->blocks.across +
                          col);
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
        for (size_t c = 0; c < width; c++)
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
    if (copy->turned && copy->how.rounding == PLUMB_ROUND_STOCHASTIC)
        quantize_columns(copy, patch);
    else if (has_tiles(copy))
        quantize_tiles(copy, patch);
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
