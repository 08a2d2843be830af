/* From a source to one or two copies, in one reading: which bands and patches, and in what order.
 *
 * A band is as many rows as a patch has.  Two copies are made patch by patch, so that the second
 * finds the patch in the cache; a single one takes whole rows.  A contiguous matrix with one scale
 * is a single row.
 */
#include "quant/patch.h"
#include "quant/spec.h"

#include "base/size.h"

#include <string.h>

static bool has_scales(const plumb_spec *spec)
{
    return plumb_spec_is_scaled(spec) && spec->rule != PLUMB_SCALE_NONE;
}

/* True when the codes depend on the axis that the product contracts. */
static bool turns(const plumb_spec *spec)
{
    return has_scales(spec) && plumb_grain_turns(spec->grain);
}

plumb_status plumb_quantized_need(const plumb_spec *spec, size_t rows, size_t cols,
                                  bool along_rows, size_t *code_bytes, size_t *scale_count,
                                  plumb_error *why)
{
    const plumb_status status = plumb_spec_check(spec, why);
    size_t elements, bytes, scales = 0, scale_bytes;

    if (status != PLUMB_OK)
        return status;
    const size_t each = (size_t)plumb_format_get(spec->format)->bytes;
    const plumb_blocks blocks = plumb_blocks_of(spec->grain, along_rows, rows, cols);

    if (!plumb_mul_size(rows, cols, &elements) || !plumb_mul_size(elements, each, &bytes) ||
        !plumb_mul_size(elements, sizeof(float), &scale_bytes) ||
        (has_scales(spec) && (!plumb_mul_size(blocks.down, blocks.across, &scales) ||
                              !plumb_mul_size(scales, sizeof(float), &scale_bytes))))
        return plumb_fail(why, PLUMB_BAD_SHAPE,
                          "a matrix of %zu x %zu does not fit in memory", rows, cols);
    *code_bytes = bytes;
    *scale_count = scales;
    return PLUMB_OK;
}

size_t plumb_quantized_scale_count(const plumb_quantized *q)
{
    const plumb_blocks blocks = plumb_blocks_in(q);

    return q->d == NULL ? 0 : blocks.down * blocks.across;
}

/* --- what is asked for --------------------------------------------------------------------- */

static plumb_status check_source(const plumb_source *source, plumb_error *why)
{
    size_t elements, bytes;

    if (source->format != PLUMB_FP32 && source->format != PLUMB_BF16)
        return plumb_fail(why, PLUMB_BAD_FORMAT,
                          "a source of format %d; allowed: fp32 and bf16",
                          (int)source->format);
    if (source->ld < source->cols)
        return plumb_fail(why, PLUMB_BAD_SHAPE, "a source with ld=%zu below cols=%zu",
                          source->ld, source->cols);
    if (!plumb_mul_size(source->rows, source->ld, &elements) ||
        !plumb_mul_size(elements, sizeof(float), &bytes))
        return plumb_fail(why, PLUMB_BAD_SHAPE,
                          "a source of %zu rows with ld=%zu does not fit in memory",
                          source->rows, source->ld);
    return PLUMB_OK;
}

static plumb_status check_copy(const plumb_spec *spec, const plumb_source *source,
                               const plumb_quantized *copy, bool along_rows,
                               plumb_error *why)
{
    size_t code_bytes, scale_count;
    const plumb_status status = plumb_quantized_need(
        spec, source->rows, source->cols, along_rows, &code_bytes, &scale_count, why);

    if (status != PLUMB_OK || copy == NULL)
        return status;
    if ((code_bytes > 0 && copy->codes == NULL) || (scale_count > 0 && copy->d == NULL))
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "a copy of %zu x %zu without memory for its codes or scales",
                          source->rows, source->cols);
    return PLUMB_OK;
}

static plumb_status check(const plumb_spec *spec, const plumb_source *source,
                          const plumb_draw *draw, const plumb_scale_state *state,
                          bool update, const plumb_copies *copies, plumb_error *why)
{
    plumb_status status = check_source(source, why);

    if (status == PLUMB_OK)
        status = check_copy(spec, source, copies->along_columns, false, why);
    if (status == PLUMB_OK)
        status = check_copy(spec, source, copies->along_rows, true, why);
    if (status != PLUMB_OK)
        return status;
    if (plumb_spec_is_scaled(spec) && spec->rule == PLUMB_SCALE_DELAYED && state == NULL &&
        update)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "delayed scaling needs a state to update");
    if (plumb_spec_normal(spec).rounding == PLUMB_ROUND_STOCHASTIC && draw == NULL)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "stochastic rounding needs a seed and a stream, none was given");
    return PLUMB_OK;
}

/* --- scales that are known before any element is cast ------------------------------------------ */

/* s of the rules that know it beforehand.  A state is taken as it is, wild values too: a
 * planted or restored scale must act as it would on a GPU.
 */
static float fixed_scale(const plumb_spec *spec, const plumb_scale_state *state)
{
    if (spec->rule == PLUMB_SCALE_STATIC)
        return spec->static_scale;
    return spec->rule == PLUMB_SCALE_DELAYED && state != NULL ? state->scale : 1;
}

static float tensor_scale(const plumb_spec *spec, const plumb_source *source)
{
    float amax = 0;

    if (!has_scales(spec) || spec->grain != PLUMB_GRAIN_NVFP4)
        return 1;
    for (size_t row = 0; source->cols > 0 && row < source->rows; row++) {
        const float of_row = plumb_source_amax(source, row, 0, source->cols);

        amax = of_row > amax ? of_row : amax;
    }
    return plumb_nvfp4_scale(amax);
}

/* --- copies ------------------------------------------------------------------------------------ */

/* What the copies of one reading have in common. */
typedef struct reading {
    const plumb_spec *spec;     /* in normal form */
    const plumb_source *source; /* as it was given */
    plumb_source walked;        /* and as it is walked over */
    const plumb_draw *draw;
    plumb_block_scale fixed;
    float tensor_scale;
} reading;

/* One scale and no gaps: a single row, whose amax and casts are two calls. */
static plumb_source as_one_row(const plumb_spec *spec, const plumb_source *source)
{
    plumb_source row = *source;

    if ((has_scales(spec) && spec->grain != PLUMB_GRAIN_TENSOR) ||
        source->ld != source->cols)
        return row;
    row.cols = row.ld = source->rows * source->cols;
    row.rows = 1;
    return row;
}

static plumb_cast cast_of(const plumb_spec *spec, const plumb_draw *draw, bool turned)
{
    plumb_cast how = {.format = spec->format,
                      .saturate = spec->saturate,
                      .rounding = spec->rounding,
                      .dither = spec->dither};

    if (draw != NULL) {
        how.seed = draw->seed;
        how.stream = turned ? PLUMB_STREAM_ALONG_ROWS ^ draw->stream : draw->stream;
    }
    return how;
}

/* Fills the fields of *out, whose codes and d are the caller's, and a copy that writes them. */
static plumb_copy begin_copy(const reading *of, bool along_rows, plumb_quantized *out)
{
    const bool turned = along_rows && turns(of->spec);

    *out = (plumb_quantized){.format = of->spec->format,
                             .grain = of->spec->grain,
                             .along_rows = along_rows,
                             .rows = of->source->rows,
                             .cols = of->source->cols,
                             .ld = of->source->cols,
                             .codes = out->codes,
                             .d = has_scales(of->spec) ? out->d : NULL,
                             .d_tensor = 1 / of->tensor_scale};
    return (plumb_copy){.spec = of->spec,
                        .source = &of->walked,
                        .blocks = plumb_blocks_of(of->spec->grain, along_rows,
                                                  of->walked.rows, of->walked.cols),
                        .turned = turned,
                        .how = cast_of(of->spec, of->draw, turned),
                        .fixed = of->fixed,
                        .tensor_scale = of->tensor_scale,
                        .codes = out->codes,
                        .d = out->d};
}

static void quantize_patches(plumb_copy *copies, size_t count, const plumb_source *source)
{
    const bool parts = count > 1 && source->cols > 2 * PLUMB_PATCH_WIDTH;
    const size_t width = parts ? PLUMB_PATCH_WIDTH : source->cols;
    const size_t rows = source->cols == 0 ? 0 : source->rows; /* nothing to walk over */

    for (size_t i = 0; i < count; i++) {
        plumb_copy_begin(&copies[i], width);
        if (copies[i].blocks.height > 1)
            plumb_copy_measure(&copies[i], 0, rows);
    }
    for (size_t row = 0; row < rows; row += PLUMB_PATCH) {
        const size_t row_end = row + smaller(PLUMB_PATCH, rows - row);

        for (size_t i = 0; i < count; i++) {
            if (copies[i].blocks.height == 1)
                plumb_copy_measure(&copies[i], row, row_end);
        }
        for (size_t col = 0; col < source->cols; col += width) {
            const plumb_patch patch = {row, row_end, col,
                                       col + smaller(width, source->cols - col)};

            for (size_t i = 0; i < count; i++)
                plumb_copy_patch(&copies[i], &patch);
        }
    }
    for (size_t i = 0; i < count; i++)
        plumb_copy_end(&copies[i]);
}

/* The copy that differs from the first in nothing but its axis. */
static void repeat(const plumb_quantized *from, plumb_quantized *to)
{
    const size_t bytes = (size_t)plumb_format_get(from->format)->bytes;
    const plumb_quantized own = *to;

    *to = *from;
    to->along_rows = true;
    to->codes = own.codes;
    to->d = from->d == NULL ? NULL : own.d;
    if (from->rows * from->cols > 0)
        memcpy(to->codes, from->codes, from->rows * from->cols * bytes);
    if (to->d != NULL)
        memcpy(to->d, from->d, plumb_quantized_scale_count(from) * sizeof *to->d);
}

static void raise_pending(plumb_scale_state *state, float amax)
{
    if (!(state->pending >= amax))
        state->pending = amax;
}

/* Writes the copies that are asked for and says what was counted for each.  The amax of the
 * source is returned: that of a cast, or 0 if there is no copy.
 */
static float make_copies(const reading *of, const plumb_copies *asked)
{
    plumb_quantized *const out[2] = {asked->along_columns, asked->along_rows};
    plumb_counts *const counts[2] = {asked->column_counts, asked->row_counts};
    const bool same = !turns(of->spec) && out[0] != NULL && out[1] != NULL;
    plumb_copy made[2];
    size_t count = 0;

    for (int axis = 0; axis < (same ? 1 : 2); axis++) {
        if (out[axis] != NULL)
            made[count++] = begin_copy(of, axis == 1, out[axis]);
    }
    if (count == 0)
        return 0;
    made[0].spectrum = asked->spectrum;
    quantize_patches(made, count, &of->walked);
    if (same)
        repeat(out[0], out[1]);
    for (int axis = 0; axis < 2; axis++) {
        const plumb_copy *copy = &made[axis == 1 && count == 2 ? 1 : 0];

        if (out[axis] != NULL && counts[axis] != NULL)
            plumb_counts_add(counts[axis], &copy->counts);
    }
    return made[0].counts.amax;
}

plumb_status plumb_quantize_copies(const plumb_spec *spec, const plumb_source *source,
                                   const plumb_draw *draw, plumb_scale_state *state,
                                   bool update, const plumb_copies *copies,
                                   plumb_error *why)
{
    const plumb_status status = check(spec, source, draw, state, update, copies, why);

    if (status != PLUMB_OK)
        return status;
    const plumb_spec normal = plumb_spec_normal(spec);
    const reading of = {.spec = &normal,
                        .source = source,
                        .walked = as_one_row(&normal, source),
                        .draw = draw,
                        .fixed = plumb_block_scale_fixed(fixed_scale(&normal, state)),
                        .tensor_scale = tensor_scale(&normal, source)};
    const float amax = make_copies(&of, copies);
    const bool any = copies->along_columns != NULL || copies->along_rows != NULL;

    if (any && normal.rule == PLUMB_SCALE_DELAYED && update)
        raise_pending(state, amax);
    return PLUMB_OK;
}

plumb_status plumb_quantize(const plumb_spec *spec, const float *x, size_t rows,
                            size_t cols, bool along_rows, plumb_scale_state *state,
                            bool update, plumb_quantized *out, plumb_counts *counts,
                            plumb_error *why)
{
    const plumb_source source = {PLUMB_FP32, x, rows, cols, cols};
    const plumb_copies copies = {.along_columns = along_rows ? NULL : out,
                                 .along_rows = along_rows ? out : NULL,
                                 .column_counts = counts,
                                 .row_counts = counts};

    return plumb_quantize_copies(spec, &source, NULL, state, update, &copies, why);
}
