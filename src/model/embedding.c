/* Embedding: a row of the table for each byte; backward adds the rows up, in token order. */
#include "model/model.h"

#include <string.h>

void embedding_forward(const plumb_model *m, const float *table, const uint8_t *tokens,
                       float *x)
{
    const size_t width = m->shape.width, context = m->shape.context;

    for (size_t i = 0; i < m->tokens; i++) {
        const uint8_t token = sequence(m, tokens, i / context)[i % context];

        memcpy(x + i * width, table + token * width, width * sizeof *x);
    }
}

void embedding_backward(const plumb_model *m, const uint8_t *tokens, const float *dx,
                        float *d_table)
{
    const size_t width = m->shape.width, context = m->shape.context;

    /* A tied head has left its own gradient. */
    if (!m->shape.tied_head)
        memset(d_table, 0, PLUMB_VOCABULARY * width * sizeof *d_table);
    for (size_t i = 0; i < m->tokens; i++) {
        float *row = d_table + sequence(m, tokens, i / context)[i % context] * width;

        for (size_t j = 0; j < width; j++)
            row[j] += dx[i * width + j];
    }
}
