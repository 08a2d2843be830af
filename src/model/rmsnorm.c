/* RMSNorm (Zhang and Sennrich, 2019), row by row.
 *
 *   r = 1 / sqrt(mean(x^2) + eps)     y = x r g
 *   dx = g dy r - x r^3 / D * sum(g dy x)     dg = sum over rows of dy x r
 *
 * Sums over a row are in lane order, sums over rows in row order, whatever the threads.
 */
#include "model/model.h"

#include <math.h>
#include <omp.h>

#include "plumb/reduce.h"

static const float epsilon = 1e-5f;

void rmsnorm_forward(const plumb_model *m, const float *x, const float *g, float *r,
                     float *y)
{
    const size_t width = m->shape.width;

#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < m->tokens; i++) {
        const float *row = x + i * width;
        float *out = y + i * width;
        const float inverse =
            1.0f / sqrtf(plumb_dot(row, row, width) / (float)width + epsilon);

        r[i] = inverse;
        for (size_t j = 0; j < width; j++)
            out[j] = row[j] * inverse * g[j];
    }
}

static void row_backward(const float *x, const float *g, float r, const float *dy,
                         size_t width, bool add, float *weighted, float *dx)
{
    for (size_t j = 0; j < width; j++)
        weighted[j] = dy[j] * g[j];
    const float along = plumb_dot(weighted, x, width) * r * r * r / (float)width;

    for (size_t j = 0; j < width; j++) {
        const float d = weighted[j] * r - x[j] * along;

        dx[j] = add ? dx[j] + d : d;
    }
}

void rmsnorm_backward(const plumb_model *m, const float *x, const float *g, const float *r,
                      const float *dy, bool add, float *dx, float *dg)
{
    const size_t width = m->shape.width, parts = (size_t)m->threads;

#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < m->tokens; i++)
        row_backward(x + i * width, g, r[i], dy + i * width, width, add,
                     m->row[omp_get_thread_num()], dx + i * width);

        /* Each thread has columns of its own and goes down all rows. */
#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t t = 0; t < parts; t++) {
        const size_t first = width * t / parts, end = width * (t + 1) / parts;

        for (size_t j = first; j < end; j++)
            dg[j] = 0;
        for (size_t i = 0; i < m->tokens; i++) {
            for (size_t j = first; j < end; j++)
                dg[j] += dy[i * width + j] * x[i * width + j] * r[i];
        }
    }
}
