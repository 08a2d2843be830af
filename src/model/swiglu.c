/* SwiGLU (Shazeer, 2020): h = silu(gate) * up with silu(a) = a / (1 + e^-a).
 *
 *   d_gate = dh up s (1 + gate (1 - s))    d_up = dh gate s    with s = 1 / (1 + e^-gate)
 */
#include "model/model.h"

#include <omp.h>

#include "plumb/math.h"

/* e^-a for a row. */
static void inverse_exp(const rows_kernel *k, const float *a, size_t n, float *e)
{
    k->negate(a, n, e);
    plumb_exp(e, n, e);
}

void swiglu_forward(const plumb_model *m, const float *gate_up, float *h)
{
    const size_t ff = m->shape.ff;
    const rows_kernel *k = rows_best();

#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < m->tokens; i++) {
        const float *gate = gate_up + i * 2 * ff;
        float *e = m->row[omp_get_thread_num()];

        inverse_exp(k, gate, ff, e);
        k->swiglu(gate, gate + ff, e, ff, h + i * ff);
    }
}

void swiglu_backward(const plumb_model *m, const float *gate_up, const float *dh,
                     float *d_gate_up)
{
    const size_t ff = m->shape.ff;
    const rows_kernel *k = rows_best();

#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < m->tokens; i++) {
        const float *gate = gate_up + i * 2 * ff;
        float *d_gate = d_gate_up + i * 2 * ff, *e = m->row[omp_get_thread_num()];

        inverse_exp(k, gate, ff, e);
        k->swiglu_backward(gate, gate + ff, dh + i * ff, e, ff, d_gate, d_gate + ff);
    }
}
