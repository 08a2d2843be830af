/* SwiGLU (Shazeer, 2020): h = silu(gate) * up with silu(a) = a / (1 + e^-a).
 *
 *   d_gate = dh up s (1 + gate (1 - s))    d_up = dh gate s    with s = 1 / (1 + e^-gate)
 */
#include "model/model.h"

#include <omp.h>

#include "plumb/math.h"

/* s = 1 / (1 + e^-a) for a row. */
static void sigmoid(const float *a, size_t n, float *s)
{
    for (size_t j = 0; j < n; j++)
        s[j] = -a[j];
    plumb_exp(s, n, s);
    for (size_t j = 0; j < n; j++)
        s[j] = 1.0f / (1.0f + s[j]);
}

void swiglu_forward(const plumb_model *m, const float *gate_up, float *h)
{
    const size_t ff = m->shape.ff;

#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < m->tokens; i++) {
        const float *gate = gate_up + i * 2 * ff, *up = gate + ff;
        float *out = h + i * ff, *s = m->row[omp_get_thread_num()];

        sigmoid(gate, ff, s);
        for (size_t j = 0; j < ff; j++)
            out[j] = gate[j] * s[j] * up[j];
    }
}

void swiglu_backward(const plumb_model *m, const float *gate_up, const float *dh,
                     float *d_gate_up)
{
    const size_t ff = m->shape.ff;

#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < m->tokens; i++) {
        const float *gate = gate_up + i * 2 * ff, *up = gate + ff, *d = dh + i * ff;
        float *d_gate = d_gate_up + i * 2 * ff, *d_up = d_gate + ff;
        float *s = m->row[omp_get_thread_num()];

        sigmoid(gate, ff, s);
        for (size_t j = 0; j < ff; j++) {
            d_gate[j] = d[j] * up[j] * (s[j] * (1.0f + gate[j] * (1.0f - s[j])));
            d_up[j] = d[j] * (gate[j] * s[j]);
        }
    }
}
