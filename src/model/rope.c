/* Rotary position embedding (Su et al., 2021): the pair (j, j + half) of each head of q and k
 * is rotated by position * 10000^(-j / half).  The gradient is the inverse rotation.
 */
#include "model/model.h"

#include "plumb/math.h"

/* ln(10000), for 10000^(-j / half) = exp(-ln(10000) j / half). */
static const float log_base = 9.210340371976184f;

void rope_tables(plumb_model *m)
{
    const size_t half = m->shape.width / m->shape.heads / 2;

    for (size_t j = 0; j < half; j++) {
        const float exponent = -log_base * (float)j / (float)half;
        float frequency;

        plumb_exp(&exponent, 1, &frequency);
        for (size_t t = 0; t < m->shape.context; t++)
            m->cosine[t * half + j] = m->sine[t * half + j] = (float)t * frequency;
    }
    plumb_cos(m->cosine, m->shape.context * half, m->cosine);
    plumb_sin(m->sine, m->shape.context * half, m->sine);
}

void rope_rotate(const plumb_model *m, float *qkv, bool inverse)
{
    const size_t width = m->shape.width, heads = m->shape.heads, half = width / heads / 2;
    const rows_kernel *k = rows_best();

#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < m->tokens; i++) {
        const size_t t = i % m->shape.context;

        /* q and k lie side by side: 2 * heads heads. */
        for (size_t head = 0; head < 2 * heads; head++)
            (inverse ? k->rotate_back : k->rotate)(qkv + i * 3 * width + head * 2 * half,
                                                   m->cosine + t * half, m->sine + t * half,
                                                   half);
    }
}
