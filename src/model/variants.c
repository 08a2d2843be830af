/* Other shapes of the same model: LayerNorm for RMSNorm, GELU for SwiGLU, normalised q and k.  In fp32,
 * with sums over a row in lane order and sums over rows in row order, whatever the threads.
 */
#include "model/variants.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "plumb/math.h"
#include "plumb/reduce.h"

static const float epsilon = 1e-5f;

/* --- LayerNorm (Ba, Kiros and Hinton, 2016), without a bias ------------------------------------
 *
 *   c = x - mean(x)    r = 1 / sqrt(mean(c^2) + eps)    y = c r g
 *   dx = r (w - mean(w) - c r^2 mean(w c)) with w = g dy    dg = sum over rows of dy c r
 *
 * r holds 1/deviation of each row, then the mean of each.
 */

void layernorm_forward(plumb_model *m, size_t site, const float *x, const float *g,
                       float *r, float *y, float *copy)
{
    const size_t width = m->shape.width;
    const bool cast = m->specs[site].format != PLUMB_FP32;
    plumb_counts seen[PLUMB_MAX_THREADS] = {0};

#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < m->tokens; i++) {
        const float *row = x + i * width;
        const float mean = plumb_sum(row, width) / (float)width;
        float *c = m->row[omp_get_thread_num()], *out = y + i * width;

        for (size_t j = 0; j < width; j++)
            c[j] = row[j] - mean;
        const float squares =
            cast ? cast_squares(m, site, i, c, out, &seen[omp_get_thread_num()])
                 : plumb_dot(c, c, width);

        r[i] = 1.0f / sqrtf(squares / (float)width + epsilon);
        r[m->tokens + i] = mean;
        for (size_t j = 0; j < width; j++)
            out[j] = c[j] * r[i] * g[j];
        if (copy != NULL)
            memcpy(copy + i * width, row, width * sizeof *row);
    }
    for (int t = 1; t < m->threads; t++)
        plumb_counts_add(&seen[0], &seen[t]);
    sample_cast(m, site, &seen[0]);
}

/* scratch: two rows. */
static void layernorm_row(const float *x, const float *g, float r, float mean,
                          const float *dy, size_t n, bool add, float *scratch, float *dx)
{
    float *w = scratch, *c = scratch + n;

    for (size_t j = 0; j < n; j++) {
        w[j] = g[j] * dy[j];
        c[j] = x[j] - mean;
    }
    const float shift = plumb_sum(w, n) / (float)n;
    const float along = plumb_dot(w, c, n) / (float)n * r * r;

    for (size_t j = 0; j < n; j++) {
        const float d = r * (w[j] - shift - c[j] * along);

        dx[j] = add ? dx[j] + d : d;
    }
}

void layernorm_backward(const plumb_model *m, const float *x, const float *g,
                        const float *r, const float *dy, bool add, float *dx, float *dg)
{
    const size_t width = m->shape.width, parts = (size_t)m->threads;
    const float *mean = r + m->tokens;

#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < m->tokens; i++)
        layernorm_row(x + i * width, g, r[i], mean[i], dy + i * width, width, add,
                      m->row[omp_get_thread_num()], dx + i * width);

        /* Each thread has columns of its own and goes down all rows. */
#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t t = 0; t < parts; t++) {
        for (size_t j = width * t / parts; j < width * (t + 1) / parts; j++) {
            float sum = 0;

            for (size_t i = 0; i < m->tokens; i++)
                sum += dy[i * width + j] * (x[i * width + j] - mean[i]) * r[i];
            dg[j] = sum;
        }
    }
}

/* --- GELU (Hendrycks and Gimpel, 2016) in its tanh form ----------------------------------------
 *
 *   h = a s with s = 1 / (1 + e^-u), u = 2 sqrt(2/pi) (a + 0.044715 a^3)
 *   d_a = dh (s + a s (1 - s) u')
 */

static const float linear_part = 1.5957691216057308f;
static const float cubic_part = 0.07135481627159999f;

/* s of a row, from its u. */
static void sigmoids(const float *a, size_t n, float *s)
{
    for (size_t j = 0; j < n; j++)
        s[j] = -(a[j] * (linear_part + cubic_part * a[j] * a[j]));
    plumb_exp(s, n, s);
    for (size_t j = 0; j < n; j++)
        s[j] = 1.0f / (1.0f + s[j]);
}

void gelu_forward(const plumb_model *m, const float *a, float *h)
{
    const size_t ff = m->shape.ff;

#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < m->tokens; i++) {
        float *s = m->row[omp_get_thread_num()];

        sigmoids(a + i * ff, ff, s);
        for (size_t j = 0; j < ff; j++)
            h[i * ff + j] = a[i * ff + j] * s[j];
    }
}

void gelu_backward(const plumb_model *m, const float *a, const float *dh, float *d_a)
{
    const size_t ff = m->shape.ff;

#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < m->tokens; i++) {
        const float *row = a + i * ff;
        float *s = m->row[omp_get_thread_num()];

        sigmoids(row, ff, s);
        for (size_t j = 0; j < ff; j++) {
            const float slope = linear_part + 3 * cubic_part * row[j] * row[j];

            d_a[i * ff + j] =
                dh[i * ff + j] * (s[j] + row[j] * s[j] * (1.0f - s[j]) * slope);
        }
    }
}

/* --- normalised q and k (Henry et al., 2020; here RMSNorm of each head without weights) ---------
 *
 *   q^ = q r with r = 1 / sqrt(mean(q^2) + eps)    dq = r (dq^ - q^ mean(q^ dq^))
 *
 * before rotation.  The gradient is that of rotated vectors as well, since a rotation keeps products: so
 * it is taken before the inverse rotation, from the rotated q and k that are kept.
 */

void qk_norm_forward(const plumb_model *m, float *qkv, float *r)
{
    const size_t width = m->shape.width, vectors = 2 * m->shape.heads;
    const size_t d = width / m->shape.heads;

#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < m->tokens; i++) {
        for (size_t v = 0; v < vectors; v++) {
            float *x = qkv + i * 3 * width + v * d;
            const float inverse = 1.0f / sqrtf(plumb_dot(x, x, d) / (float)d + epsilon);

            r[i * vectors + v] = inverse;
            for (size_t j = 0; j < d; j++)
                x[j] *= inverse;
        }
    }
}

void qk_norm_backward(const plumb_model *m, const float *qkv, const float *r, float *d_qkv)
{
    const size_t width = m->shape.width, vectors = 2 * m->shape.heads;
    const size_t d = width / m->shape.heads;

#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < m->tokens; i++) {
        for (size_t v = 0; v < vectors; v++) {
            const float *x = qkv + i * 3 * width + v * d;
            float *dx = d_qkv + i * 3 * width + v * d;
            const float along = plumb_dot(x, dx, d) / (float)d;

            for (size_t j = 0; j < d; j++)
                dx[j] = r[i * vectors + v] * (dx[j] - x[j] * along);
        }
    }
}
