/* Site statistics from what a quantisation left behind. */
#include "plumb/observe.h"
#include "base/size.h"
#include "quant/grain.h"

#include <math.h>

float plumb_headroom(plumb_format format, float amax, float scale)
{
    const plumb_format_info *info = plumb_format_get(format);
    const double scaled = (double)amax * (double)scale;

    if (info == NULL || isnan(scaled))
        return 0;
    if (scaled == 0)
        return INFINITY;
    return (float)((double)info->largest / scaled);
}

/* Magnitude of the largest finite code among n codes of at most 8 bits, as a code. */
static unsigned largest_code(const plumb_format_info *format, const unsigned char *codes,
                             size_t n)
{
    const unsigned below_sign = (1u << (format->bits - 1)) - 1;
    unsigned largest = 0;

    for (size_t i = 0; i < n; i++) {
        const unsigned magnitude = codes[i] & below_sign;

        if (magnitude <= format->largest_code && magnitude > largest)
            largest = magnitude;
    }
    return largest;
}

/* Largest finite code * d of one row. */
static float row_decoded_amax(const plumb_quantized *q, const plumb_blocks *b, size_t row)
{
    const plumb_format_info *format = plumb_format_get(q->format);
    const float *values = plumb_format_decode_table(q->format);
    const unsigned char *codes = (const unsigned char *)q->codes + row * q->ld;
    const float *d = q->d + row / b->height * b->across;
    const float second = q->grain == PLUMB_GRAIN_NVFP4 ? q->d_tensor : 1;
    float amax = 0;

    for (size_t col = 0; col < q->cols; col += b->width) {
        const size_t n = smaller(b->width, q->cols - col);
        const float x =
            values[largest_code(format, codes + col, n)] * d[col / b->width] * second;

        if (x > amax && isfinite(x))
            amax = x;
    }
    return amax;
}

static float decoded_amax(const plumb_quantized *q, const plumb_counts *counts)
{
    const plumb_blocks blocks = plumb_blocks_in(q);
    float amax = 0;

    if (q->d == NULL)
        return counts->code_amax;
    if (q->grain == PLUMB_GRAIN_TENSOR)
        return counts->code_amax == 0 ? 0 : counts->code_amax * q->d[0];
    for (size_t row = 0; row < q->rows; row++) {
        const float of_row = row_decoded_amax(q, &blocks, row);

        amax = of_row > amax ? of_row : amax;
    }
    return amax;
}

/* The least favourable block: with one scale it is the tensor.  With block scales it is the
 * block with the largest code, since its code is amax * s as it was stored.
 */
static float least_headroom(const plumb_quantized *q, const plumb_counts *counts,
                            float scale)
{
    if (q->d != NULL && q->grain != PLUMB_GRAIN_TENSOR && isfinite(counts->amax))
        return plumb_headroom(q->format, counts->code_amax, 1);
    return plumb_headroom(q->format, counts->amax, scale);
}

void plumb_sample_fill(plumb_sample *sample, const plumb_quantized *q,
                       const plumb_counts *counts)
{
    float least;

    plumb_quantized_scale_range(q, &least, &sample->scale);
    sample->amax = counts->amax;
    sample->decoded_amax = decoded_amax(q, counts);
    sample->headroom = least_headroom(q, counts, sample->scale);
    sample->total = counts->total;
    sample->saturated = counts->saturated;
    sample->flushed = counts->flushed;
    sample->zero = counts->zero;
    sample->nonfinite = counts->nonfinite;
}

static float larger(float a, float b)
{
    return b > a ? b : a;
}

void plumb_sample_join(plumb_sample *into, const plumb_sample *sample)
{
    into->scale = larger(into->scale, sample->scale);
    into->amax = larger(into->amax, sample->amax);
    into->decoded_amax = larger(into->decoded_amax, sample->decoded_amax);
    if (sample->headroom < into->headroom)
        into->headroom = sample->headroom;
    into->total += sample->total;
    into->saturated += sample->saturated;
    into->flushed += sample->flushed;
    into->zero += sample->zero;
    into->nonfinite += sample->nonfinite;
}
