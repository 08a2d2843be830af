/* From codes and scales back to fp32, and what can be said of the scales alone. */
#include "plumb/quant.h"
#include "base/size.h"
#include "quant/grain.h"

#include <math.h>

static const unsigned char *code_at(const plumb_quantized *q, size_t row, size_t col)
{
    return (const unsigned char *)q->codes +
           (row * q->ld + col) * (size_t)plumb_format_get(q->format)->bytes;
}

/* x *= d; a NaN is the one pattern, also that of infinity times 0. */
static void scale_each(float *x, const float *d, size_t step, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float scaled = x[i] * d[i * step];

        x[i] = isnan(scaled) ? (float)NAN : scaled;
    }
}

/* One row: segments that share a scale, or a scale for each element. */
static void dequantize_row(const plumb_quantized *q, const plumb_blocks *b, size_t row,
                           float *x)
{
    if (q->d == NULL) {
        plumb_cast_decode(q->format, 1, code_at(q, row, 0), q->cols, x);
        return;
    }
    const float *d = q->d + row / b->height * b->across;

    if (b->width == 1) {
        plumb_cast_decode(q->format, 1, code_at(q, row, 0), q->cols, x);
        scale_each(x, d, 1, q->cols);
    } else {
        for (size_t col = 0; col < q->cols; col += b->width) {
            plumb_cast_decode(q->format, d[col / b->width], code_at(q, row, col),
                              smaller(b->width, q->cols - col), x + col);
        }
    }
    if (q->grain == PLUMB_GRAIN_NVFP4)
        scale_each(x, &q->d_tensor, 0, q->cols);
}

plumb_status plumb_dequantize(const plumb_quantized *q, float *x, plumb_error *why)
{
    const plumb_blocks blocks = plumb_blocks_in(q);
    size_t bytes;

    if (plumb_format_get(q->format) == NULL)
        return plumb_fail(why, PLUMB_BAD_FORMAT, "format %d does not exist",
                          (int)q->format);
    if (!plumb_grain_exists(q->grain))
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "grain %d does not exist",
                          (int)q->grain);
    if (q->ld < q->cols)
        return plumb_fail(why, PLUMB_BAD_SHAPE, "ld=%zu is below cols=%zu", q->ld, q->cols);
    if (!plumb_mul_size(q->rows, q->ld, &bytes) ||
        !plumb_mul_size(bytes, sizeof *x, &bytes))
        return plumb_fail(why, PLUMB_BAD_SHAPE, "%zu rows of ld=%zu overflow", q->rows,
                          q->ld);
    for (size_t row = 0; q->cols > 0 && row < q->rows; row++)
        dequantize_row(q, &blocks, row, x + row * q->cols);
    return PLUMB_OK;
}

void plumb_quantized_scale_range(const plumb_quantized *q, float *least, float *largest)
{
    const size_t n = plumb_quantized_scale_count(q);
    const float second = q->grain == PLUMB_GRAIN_NVFP4 ? q->d_tensor : 1;

    *least = *largest = n == 0 ? 1 : 1 / (q->d[0] * second);
    for (size_t i = 1; i < n; i++) {
        const float s = 1 / (q->d[i] * second);

        *least = s < *least ? s : *least;
        *largest = s > *largest ? s : *largest;
    }
}
