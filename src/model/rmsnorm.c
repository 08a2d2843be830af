/* RMSNorm (Zhang and Sennrich, 2019), row by row.
 *
 *   r = 1 / sqrt(mean(x^2) + eps)     y = x r g
 *   dx = g dy r - x r^3 / D * sum(g dy x)     dg = sum over rows of dy x r
 *
 * Sums over a row are in lane order, sums over rows in row order, whatever the threads.  The sum of
 * squares may be in few bits (its site); then each square and each partial sum is rounded, by index.
 */
#include "model/model.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "plumb/reduce.h"

static const float epsilon = 1e-5f;

float cast_squares(const plumb_model *m, size_t site, size_t row, const float *x,
                   float *squares, plumb_counts *counts)
{
    const size_t width = m->shape.width;

    for (size_t j = 0; j < width; j++)
        squares[j] = x[j] * x[j];
    return cast_sum(m, site, row, squares, width, counts);
}

void rmsnorm_forward(plumb_model *m, size_t site, const float *x, const float *g, float *r,
                     float *y, float *copy)
{
    const size_t width = m->shape.width;
    const rows_kernel *k = rows_best();
    const bool cast = m->specs[site].format != PLUMB_FP32;
    plumb_counts seen[PLUMB_MAX_THREADS] = {0};

#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < m->tokens; i++) {
        const float *row = x + i * width;
        const float squares =
            cast ? cast_squares(m, site, i, row, y + i * width, &seen[omp_get_thread_num()])
                 : plumb_dot(row, row, width);
        const float inverse = 1.0f / sqrtf(squares / (float)width + epsilon);

        r[i] = inverse;
        k->normalise(row, inverse, g, width, y + i * width);
        if (copy != NULL)
            memcpy(copy + i * width, row, width * sizeof *row);
    }
    for (int t = 1; t < m->threads; t++)
        plumb_counts_add(&seen[0], &seen[t]);
    sample_cast(m, site, &seen[0]);
}

static void row_backward(const rows_kernel *k, const float *x, const float *g, float r,
                         const float *dy, size_t width, bool add, float *weighted,
                         float *dx)
{
    k->multiply(dy, g, width, weighted);
    const float along = plumb_dot(weighted, x, width) * r * r * r / (float)width;

    (add ? k->norm_add : k->norm_set)(weighted, x, r, along, width, dx);
}

void rmsnorm_backward(const plumb_model *m, const float *x, const float *g, const float *r,
                      const float *dy, bool add, float *dx, float *dg)
{
    const size_t width = m->shape.width, parts = (size_t)m->threads;
    const rows_kernel *k = rows_best();

#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < m->tokens; i++)
        row_backward(k, x + i * width, g, r[i], dy + i * width, width, add,
                     m->row[omp_get_thread_num()], dx + i * width);

        /* Each thread has columns of its own and goes down all rows. */
#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t t = 0; t < parts; t++) {
        const size_t first = width * t / parts, end = width * (t + 1) / parts;

        for (size_t j = first; j < end; j++)
            dg[j] = 0;
        for (size_t i = 0; i < m->tokens; i++)
            k->add_products(dy + i * width + first, x + i * width + first, r[i],
                            end - first, dg + first);
    }
}
