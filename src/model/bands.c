/* plumb_quantize by several threads: bands of rows, each quantised on its own, give the bits of the
 * whole, because no block lies in two bands.
 *
 * One scale for the tensor needs its amax first.  What cannot be cut is done by one thread; so is what
 * is rounded stochastically, as the bits of an element go by its place in the whole.
 */
#include "model/model.h"

#include "quant/grain.h"
#include "quant/spec.h"

enum { HEIGHT = PLUMB_BLOCK }; /* bands begin at multiples of it */

typedef struct bands {
    const plumb_spec *spec;
    const float *x;
    size_t rows, cols;
    bool along_rows;
    size_t parts;
    plumb_blocks blocks;
    size_t code_bytes;
} bands;

static size_t first_row(const bands *b, size_t part)
{
    const size_t count = (b->rows + HEIGHT - 1) / HEIGHT;
    const size_t row = HEIGHT * (count * part / b->parts);

    return row < b->rows ? row : b->rows;
}

static float amax_of(const bands *b)
{
    float most[PLUMB_MAX_THREADS], amax = 0;

#pragma omp parallel for schedule(static) num_threads((int)b->parts)
    for (size_t t = 0; t < b->parts; t++) {
        const size_t first = first_row(b, t), end = first_row(b, t + 1);

        most[t] = plumb_cast_amax(b->x + first * b->cols, (end - first) * b->cols);
    }
    for (size_t t = 0; t < b->parts; t++)
        amax = most[t] > amax ? most[t] : amax;
    return amax;
}

/* One scale for all: every band has the same, in a place of its own. */
static bool is_whole(const bands *b)
{
    return b->blocks.down * b->blocks.across == 1;
}

static bool can_cut(const bands *b)
{
    if (b->parts == 1 || b->rows <= HEIGHT || b->spec->grain == PLUMB_GRAIN_NVFP4 ||
        b->spec->rounding == PLUMB_ROUND_STOCHASTIC)
        return false;
    return is_whole(b) ? !b->spec->divide : HEIGHT % b->blocks.height == 0;
}

static plumb_status quantise_bands(const bands *b, plumb_scale_state *state,
                                   plumb_quantized *q, plumb_counts *counts,
                                   plumb_error *why)
{
    plumb_status status[PLUMB_MAX_THREADS];
    plumb_error said[PLUMB_MAX_THREADS];
    plumb_quantized made[PLUMB_MAX_THREADS];
    plumb_counts seen[PLUMB_MAX_THREADS];
    float d[PLUMB_MAX_THREADS];

#pragma omp parallel for schedule(static) num_threads((int)b->parts)
    for (size_t t = 0; t < b->parts; t++) {
        const size_t first = first_row(b, t), end = first_row(b, t + 1);

        made[t] = *q;
        made[t].codes = (unsigned char *)q->codes + first * b->cols * b->code_bytes;
        if (q->d != NULL)
            made[t].d =
                is_whole(b) ? &d[t] : q->d + first / b->blocks.height * b->blocks.across;
        seen[t] = (plumb_counts){0};
        status[t] =
            plumb_quantize(b->spec, b->x + first * b->cols, end - first, b->cols,
                           b->along_rows, state, false, &made[t], &seen[t], &said[t]);
    }
    for (size_t t = 0; t < b->parts; t++) {
        if (status[t] != PLUMB_OK)
            return plumb_fail(why, status[t], "%s", said[t].message);
        plumb_counts_add(counts, &seen[t]);
    }
    made[0].codes = q->codes;
    made[0].rows = b->rows;
    if (made[0].d != NULL) {
        if (is_whole(b))
            q->d[0] = d[0];
        made[0].d = q->d;
    }
    *q = made[0];
    return PLUMB_OK;
}

/* All at once. */
static plumb_status quantise_whole(const plumb_spec *spec, const bands *b,
                                   const plumb_draw *draw, plumb_scale_state *state,
                                   plumb_quantized *q, plumb_counts *counts,
                                   plumb_error *why)
{
    const plumb_source source = {
        .format = PLUMB_FP32, .x = b->x, .rows = b->rows, .cols = b->cols, .ld = b->cols};
    const plumb_copies copies = {.along_columns = b->along_rows ? NULL : q,
                                 .along_rows = b->along_rows ? q : NULL,
                                 .column_counts = counts,
                                 .row_counts = counts};

    return plumb_quantize_copies(spec, &source, draw, state, true, &copies, why);
}

plumb_status bands_quantise(const plumb_model *m, const plumb_spec *spec, const float *x,
                            size_t rows, size_t cols, bool along_rows,
                            const plumb_draw *draw, plumb_scale_state *state,
                            plumb_quantized *q, plumb_counts *counts, plumb_error *why)
{
    plumb_spec usual = plumb_spec_normal(spec);
    plumb_counts seen = {0};
    const bands b = {.spec = &usual,
                     .x = x,
                     .rows = rows,
                     .cols = cols,
                     .along_rows = along_rows,
                     .parts = (size_t)m->threads,
                     .blocks = plumb_blocks_of(usual.grain, along_rows, rows, cols),
                     .code_bytes = (size_t)plumb_format_get(spec->format)->bytes};

    if (!can_cut(&b))
        return quantise_whole(spec, &b, draw, state, q, counts, why);
    if (is_whole(&b) && usual.rule == PLUMB_SCALE_CURRENT) {
        const float s = plumb_scale_from_amax(&usual, amax_of(&b), 1);

        usual.rule = PLUMB_SCALE_STATIC;
        usual.static_scale = s;
    }
    const plumb_status status = quantise_bands(&b, state, q, &seen, why);

    if (status != PLUMB_OK)
        return status;
    if (usual.rule == PLUMB_SCALE_DELAYED && !(state->pending >= seen.amax))
        state->pending = seen.amax;
    if (counts != NULL)
        plumb_counts_add(counts, &seen);
    return PLUMB_OK;
}
