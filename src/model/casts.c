/* What is rounded as it is computed: sums whose terms and partial sums are values of a format, and
 * elements that are rounded one by one.  In fp32 they are what the layers do anyway.
 */
#include "model/attention.h"

#include "plumb/random.h"
#include "plumb/reduce.h"

plumb_draw model_draw(const plumb_model *m, size_t site)
{
    return (plumb_draw){m->seed, plumb_random_stream_at(m->streams[site], m->draw)};
}

/* Row `row` of a site draws from a stream of its own. */
static plumb_cast cast_of(const plumb_model *m, size_t site, size_t row)
{
    const plumb_spec *spec = &m->specs[site];
    const plumb_draw draw = model_draw(m, site);

    return (plumb_cast){.format = spec->format,
                        .saturate = spec->saturate,
                        .scale = spec->rule == PLUMB_SCALE_STATIC ? spec->static_scale : 1,
                        .rounding = spec->rounding,
                        .dither = spec->dither,
                        .seed = draw.seed,
                        .stream = plumb_random_stream_at(draw.stream, row)};
}

void cast_elements(const plumb_model *m, size_t site, size_t row, float *x, size_t n,
                   plumb_counts *counts)
{
    enum { PIECE = 256 };
    plumb_cast cast = cast_of(m, site, row);
    float codes[PIECE];

    if (cast.format == PLUMB_FP32)
        return;
    for (size_t i = 0; i < n; i += PIECE) {
        const size_t piece = n - i < PIECE ? n - i : PIECE;

        cast.first = i;
        plumb_cast_encode(&cast, x + i, piece, codes, counts);
        plumb_cast_decode(cast.format, 1.0f / cast.scale, codes, piece, x + i);
    }
}

/* The order is that of the lanes in fp32, by index otherwise. */
float cast_sum(const plumb_model *m, size_t site, size_t row, const float *x, size_t n,
               plumb_counts *counts)
{
    const plumb_summation how = {.cast = cast_of(m, site, row)};
    double sum = 0;

    if (how.cast.format == PLUMB_FP32)
        return plumb_sum(x, n);
    plumb_sum_ordered(&how, x, n, &sum, counts, NULL, NULL);
    return (float)sum;
}

void sample_cast(plumb_model *m, size_t site, const plumb_counts *counts)
{
    const plumb_spec *spec = &m->specs[site];
    float d = spec->rule == PLUMB_SCALE_STATIC ? 1.0f / spec->static_scale : 1.0f;
    const plumb_quantized q = {
        .format = spec->format, .rows = 1, .cols = 1, .ld = 1, .d = d == 1.0f ? NULL : &d};

    if (m->samples != NULL && counts->total > 0)
        sample_matrix(m, site, &q, counts, true);
}

void sample_matrix(plumb_model *m, size_t site, const plumb_quantized *q,
                   const plumb_counts *counts, bool first)
{
    plumb_sample *at = &m->samples[site], one = {0};

    plumb_sample_fill(first ? at : &one, q, counts);
    if (first) {
        m->seen[site] = true;
        return;
    }
    one.total = one.saturated = one.flushed = one.zero = one.nonfinite = 0;
    plumb_sample_join(at, &one);
}

void note_exponents(const plumb_model *m, size_t site, const float *x, size_t rows,
                    size_t cols)
{
    const size_t parts = (size_t)m->threads;

    if (m->exponents == NULL)
        return;
#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t t = 0; t < parts; t++) {
        const size_t first = rows * t / parts, end = rows * (t + 1) / parts;

        m->parts[t] = (plumb_exponents){{0}};
        plumb_exponents_add(&m->parts[t], x + first * cols, 1, (end - first) * cols, 0);
    }
    for (size_t t = 0; t < parts; t++)
        plumb_exponents_join(&m->exponents[site], &m->parts[t]);
}
