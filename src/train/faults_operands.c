/* Faults on an operand after its cast: its decode scales, its codes, or both as another amax would have
 * made them.
 *
 * Codes of a site that shares them are parted first (fault_part), so that the fault stays at its site;
 * the owner of shared codes hands its fault on, as one buffer with two readers does.
 */
#include "train/faults.h"

#include <math.h>
#include <string.h>

#include "plumb/random.h"
#include "quant/grain.h"

/* --- decode scales --------------------------------------------------------------------- */

static void factor(fault *f, trainer *t, size_t index, plumb_quantized *q,
                   plumb_scale_state *state)
{
    const float by = (float)f->value[0];

    (void)t;
    (void)index;
    (void)state;
    for (size_t i = 0; i < plumb_quantized_scale_count(q); i++)
        q->d[i] *= by;
}

/* Row-major scales read as if they were column-major. */
static void transposed(fault *f, trainer *t, size_t index, plumb_quantized *q,
                       plumb_scale_state *state)
{
    const plumb_blocks b = plumb_blocks_in(q);

    (void)t;
    (void)index;
    (void)state;
    if (q->d == NULL)
        return;
    memcpy(f->scratch, q->d, b.down * b.across * sizeof *q->d);
    for (size_t i = 0; i < b.down; i++) {
        for (size_t j = 0; j < b.across; j++)
            q->d[i * b.across + j] = f->scratch[j * b.down + i];
    }
}

/* Each block is decoded with the scale of a neighbour along the contraction axis, or along the other
 * one where it has but one block; the last with that of the first.
 */
static void shifted(fault *f, trainer *t, size_t index, plumb_quantized *q,
                    plumb_scale_state *state)
{
    const plumb_blocks b = plumb_blocks_in(q);
    const size_t by = (size_t)f->value[0];

    (void)t;
    (void)index;
    (void)state;
    if (q->d == NULL)
        return;
    const bool down = b.across == 1 || (q->along_rows && b.down > 1);

    memcpy(f->scratch, q->d, b.down * b.across * sizeof *q->d);
    for (size_t i = 0; i < b.down; i++) {
        for (size_t j = 0; j < b.across; j++) {
            const size_t from_i = down ? (i + by) % b.down : i;
            const size_t from_j = down ? j : (j + by) % b.across;

            q->d[i * b.across + j] = f->scratch[from_i * b.across + from_j];
        }
    }
}

/* --- codes ---------------------------------------------------------------------------------- */

static void zeroed_columns(fault *f, trainer *t, size_t index, plumb_quantized *q,
                           plumb_scale_state *state)
{
    const size_t first = (size_t)f->value[0] < q->cols ? (size_t)f->value[0] : q->cols;
    const size_t left = q->cols - first;
    const size_t count = f->value[1] < (double)left ? (size_t)f->value[1] : left;

    (void)t;
    (void)state;
    fault_part(f, q, index);
    for (size_t i = 0; i < q->rows; i++)
        memset((unsigned char *)q->codes + i * q->ld + first, 0, count);
}

/* The element is the same in every cast: word 0 of the site's own stream says which. */
static void bit_flip(fault *f, trainer *t, size_t index, plumb_quantized *q,
                     plumb_scale_state *state)
{
    const bool once = f->value[1] != 0;
    const int bits = plumb_format_get(q->format)->bits;
    const uint64_t stream = plumb_random_stream(t->sites.at[index].name);
    const size_t at = (size_t)plumb_random_below(0, stream, 0, q->rows * q->cols);

    (void)state;
    if (once && (t->faults.step != f->from || fault_call(t, index) != 0))
        return;
    fault_part(f, q, index);
    ((unsigned char *)q->codes)[at / q->cols * q->ld + at % q->cols] ^=
        (unsigned char)(1u << (int)fmin(f->value[0], bits - 1));
}

/* Subnormal codes become zeros of the same sign. */
static void flushed(fault *f, trainer *t, size_t index, plumb_quantized *q,
                    plumb_scale_state *state)
{
    const plumb_format_info *info = plumb_format_get(q->format);
    const unsigned char sign = (unsigned char)(1u << (info->bits - 1));
    const unsigned char magnitude = (unsigned char)(sign - 1);

    (void)t;
    (void)state;
    fault_part(f, q, index);
    for (size_t i = 0; i < q->rows; i++) {
        unsigned char *row = (unsigned char *)q->codes + i * q->ld;

        for (size_t j = 0; j < q->cols; j++) {
            if ((row[j] & magnitude) >> info->fraction_bits == 0 &&
                (row[j] & magnitude) != 0)
                row[j] = info->special == PLUMB_SPECIAL_FNUZ ? 0 : row[j] & sign;
        }
    }
}

/* --- as another amax would have made them ------------------------------------------------------- */

/* Codes of x / by; what is past the largest value is held. */
static void divide_codes(plumb_quantized *q, float by)
{
    enum { PIECE = 256 };
    const plumb_cast cast = {.format = q->format, .saturate = true, .scale = 1};
    float x[PIECE];

    for (size_t i = 0; i < q->rows; i++) {
        unsigned char *row = (unsigned char *)q->codes + i * q->ld;

        for (size_t j = 0; j < q->cols; j += PIECE) {
            const size_t n = q->cols - j < PIECE ? q->cols - j : PIECE;

            plumb_cast_decode(q->format, 1 / by, row + j, n, x);
            plumb_cast_encode(&cast, x, n, row + j, NULL);
        }
    }
}

static void multiply_scales(plumb_quantized *q, float by)
{
    for (size_t i = 0; q->grain != PLUMB_GRAIN_NVFP4 && i < plumb_quantized_scale_count(q);
         i++)
        q->d[i] *= by;
    if (q->grain == PLUMB_GRAIN_NVFP4)
        q->d_tensor *= by;
}

/* Delayed scaling records the wrong amax and uses it later; current scaling uses it at once, for all that
 * share the codes.
 */
static void wrong_amax(fault *f, const trainer *t, size_t index, plumb_quantized *q,
                       plumb_scale_state *state, float by)
{
    const size_t owner = plumb_site_owner(&t->shape, t->sites.specs, index);

    if (state != NULL) {
        float *before = &f->before[owner];

        if (state->pending > *before)
            state->pending = fmaxf(*before, state->pending * by);
        *before = state->pending;
    } else if (t->sites.specs[owner].rule == PLUMB_SCALE_CURRENT && q->d != NULL) {
        if (owner == index || !f->hits[owner]) {
            fault_part(f, q, index);
            divide_codes(q, by);
        }
        multiply_scales(q, by);
    }
}

static void inflated(fault *f, trainer *t, size_t index, plumb_quantized *q,
                     plumb_scale_state *state)
{
    wrong_amax(f, t, index, q, state, ldexpf(1, (int)f->value[0]));
}

static void clipped(fault *f, trainer *t, size_t index, plumb_quantized *q,
                    plumb_scale_state *state)
{
    wrong_amax(f, t, index, q, state, ldexpf(1, -(int)f->value[0]));
}

/* --- the table ----------------------------------------------------------------------------- */

static const fault_kind kinds[] = {
    {.name = "scale-factor",
     .acts = "the decode scales are multiplied by `factor`",
     .models = "the output scale is ignored, or the scale rule of another format's "
               "largest value is used",
     .source = "https://github.com/ROCm/aiter/pull/3212",
     .reach = FAULT_OPERANDS,
     .parameters = {{"factor", 0x1p-64, 0x1p64, NAN, false, FAULT_FREE, "what by"}},
     .operand = factor},
    {.name = "transposed-scales",
     .acts = "the scales of blocks are read with rows and columns of blocks "
             "exchanged; nothing where there is one row or column of blocks",
     .models = "the transpose keeps the old scale axis; column-major scales are read as "
               "row-major",
     .source = "https://github.com/pytorch/ao/pull/4038",
     .reach = FAULT_OPERANDS,
     .operand = transposed},
    {.name = "shifted-scales",
     .acts = "each block is decoded with the scale of the block `by` further on along "
             "the contraction axis; nothing where there is one block",
     .models = "the wrong slice of scales for a block of K",
     .source = "https://github.com/mlc-ai/TIRx-kernels/pull/5",
     .reach = FAULT_OPERANDS,
     .parameters = {{"by", 1, 1e6, 1, true, FAULT_FREE, "blocks"}},
     .operand = shifted},
    {.name = "zeroed-columns",
     .acts = "`count` columns of codes, from `first` on, are zero",
     .models = "a copy that is only partly written after a load",
     .source = "https://github.com/modelscope/mcore-bridge/issues/125",
     .reach = FAULT_LINEARS,
     .parameters = {{"first", 0, 1e6, 0, true, FAULT_FREE, "column"},
                    {"count", 1, 1e6, NAN, true, FAULT_FREE, "columns"}},
     .operand = zeroed_columns},
    {.name = "bit-flip",
     .acts = "one bit of one code is inverted, of the same element in every cast, or "
             "`once`: in the first cast of step `from` alone",
     .models = "elements that a kernel corrupts while it transposes a tile",
     .source = "https://github.com/mlc-ai/pith-train/pull/74",
     .reach = FAULT_LINEARS,
     .parameters = {{"bit", 0, 7, 6, true, FAULT_FREE,
                     "from the least; one that the code lacks is its highest"},
                    {"once", 0, 1, 0, true, FAULT_FREE, "1: step `from` alone"}},
     .operand = bit_flip},
    {.name = "flushed-subnormals",
     .acts = "subnormal codes become zero",
     .models = "encoder or decoder without subnormals",
     .source = "https://github.com/tenstorrent/tt-metal/issues/51971",
     .reach = FAULT_LINEARS,
     .operand = flushed},
    {.name = "inflated-amax",
     .acts = "the scale is that of an amax 2^`octaves` as large: with delayed scaling "
             "the recorded amax is multiplied, with current scaling codes and scales "
             "are as if",
     .models = "an outlier under a scale for the whole tensor, or an amax that is "
               "summed over its uses",
     .source = "https://github.com/NVIDIA/TransformerEngine/pull/774",
     .reach = FAULT_LINEARS,
     .parameters = {{"octaves", 1, 32, NAN, true, FAULT_FREE, "powers of two"}},
     .joint = true,
     .operand = inflated},
    {.name = "clipped-amax",
     .acts = "as inflated-amax, divided by 2^`octaves`: what lies above saturates",
     .models = "clipping of gradients clips the scale state too",
     .source = "https://github.com/AI-Hypercomputer/maxtext/pull/672",
     .reach = FAULT_LINEARS,
     .parameters = {{"octaves", 1, 32, NAN, true, FAULT_FREE, "powers of two"}},
     .joint = true,
     .operand = clipped},
};

const fault_family faults_of_operands = {kinds, sizeof kinds / sizeof *kinds};
