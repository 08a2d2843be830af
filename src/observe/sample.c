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

/* Magnitude of the largest finite code among n codes of at most 8 bits, as a code.  Bytes alone,
 * so that a vector holds many.
 */
static unsigned char largest_code(const plumb_format_info *format,
                                  const unsigned char *codes, size_t n)
{
    const unsigned char below_sign = (unsigned char)((1u << (format->bits - 1)) - 1);
    const unsigned char most = (unsigned char)format->largest_code;
    unsigned char largest = 0;

    for (size_t i = 0; i < n; i++) {
        const unsigned char magnitude = codes[i] & below_sign;
        const unsigned char finite = magnitude <= most ? magnitude : 0;

        largest = finite > largest ? finite : largest;
    }
    return largest;
}

/* Largest finite code * d of one block; 0 where that is not finite. */
static float block_amax(const plumb_quantized *q, const plumb_blocks *b, size_t block,
                        float second)
{
    const plumb_format_info *format = plumb_format_get(q->format);
    const size_t row = block / b->across * b->height, col = block % b->across * b->width;
    const size_t row_end = smaller(row + b->height, q->rows);
    const size_t n = smaller(b->width, q->cols - col);
    unsigned char largest = 0;

    for (size_t i = row; i < row_end; i++) {
        const unsigned char *codes = (const unsigned char *)q->codes + i * q->ld + col;
        const unsigned char of_row = largest_code(format, codes, n);

        largest = of_row > largest ? of_row : largest;
    }
    const float x = plumb_format_decode_table(q->format)[largest] * q->d[block] * second;

    return x > 0 && isfinite(x) ? x : 0;
}

static size_t largest_scale(const float *d, size_t count)
{
    size_t at = 0;

    for (size_t i = 1; i < count; i++)
        at = d[i] > d[at] ? i : at;
    return at;
}

/* The block of the largest d first: few others can hold more than it does, and the codes of those
 * that cannot are not read.  (Reading them all took a quarter of a step with blocks of 1x128.)
 */
static float blocks_amax(const plumb_quantized *q)
{
    const plumb_blocks b = plumb_blocks_in(q);
    const float most = plumb_format_get(q->format)->largest;
    const float second = q->grain == PLUMB_GRAIN_NVFP4 ? q->d_tensor : 1;
    const size_t count = b.down * b.across;
    float amax = 0;

    if (count > 0)
        amax = block_amax(q, &b, largest_scale(q->d, count), second);
    for (size_t i = 0; i < count; i++) {
        if (!(most * q->d[i] * second > amax))
            continue;
        const float of_block = block_amax(q, &b, i, second);

        amax = of_block > amax ? of_block : amax;
    }
    return amax;
}

static float decoded_amax(const plumb_quantized *q, const plumb_counts *counts)
{
    if (q->d == NULL)
        return counts->code_amax;
    if (q->grain == PLUMB_GRAIN_TENSOR)
        return counts->code_amax == 0 ? 0 : counts->code_amax * q->d[0];
    return blocks_amax(q);
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
    plumb_quantized_scale_range(q, &sample->least_scale, &sample->scale);
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
    if (sample->least_scale < into->least_scale)
        into->least_scale = sample->least_scale;
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
