/* Site statistics from what a quantisation left behind. */
#include "plumb/observe.h"

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

/* Magnitude of the largest finite code among n 8-bit codes, as a code. */
static unsigned largest_code(const unsigned char *codes, size_t n, unsigned limit)
{
    unsigned largest = 0;

    for (size_t i = 0; i < n; i++) {
        const unsigned magnitude = codes[i] & 0x7fu;

        if (magnitude <= limit && magnitude > largest)
            largest = magnitude;
    }
    return largest;
}

/* Largest finite code * d of one row. */
static float row_decoded_amax(const plumb_quantized *q, size_t row, unsigned limit)
{
    const float *values = plumb_format_decode_table(q->format);
    const unsigned char *codes = (const unsigned char *)q->codes + row * q->ld;
    const size_t across = (q->cols + PLUMB_BLOCK - 1) / PLUMB_BLOCK,
                 band = row / PLUMB_BLOCK;
    const bool by_column = q->grain == PLUMB_GRAIN_1X128 && q->along_rows;
    const size_t step = by_column ? 1 : PLUMB_BLOCK;
    const float *d = by_column                       ? q->d + band * q->cols
                     : q->grain == PLUMB_GRAIN_1X128 ? q->d + row * across
                                                     : q->d + band * across;
    float amax = 0;

    for (size_t col = 0; col < q->cols; col += step) {
        const size_t n = q->cols - col < step ? q->cols - col : step;
        const float x = values[largest_code(codes + col, n, limit)] * d[col / step];

        if (x > amax && isfinite(x))
            amax = x;
    }
    return amax;
}

static float decoded_amax(const plumb_quantized *q, const plumb_counts *counts)
{
    const unsigned limit = q->format == PLUMB_E4M3 ? 0x7e : 0x7b;
    float amax = 0;

    if (q->d == NULL)
        return counts->code_amax;
    if (q->grain == PLUMB_GRAIN_TENSOR)
        return counts->code_amax == 0 ? 0 : counts->code_amax * q->d[0];
    for (size_t row = 0; row < q->rows; row++) {
        const float of_row = row_decoded_amax(q, row, limit);

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
