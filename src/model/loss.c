/* Cross-entropy of the next byte, and its gradient in the same pass.
 *
 *   loss = log(sum e^(l - max)) - (l[target] - max)    d_logits = (softmax - onehot) / N
 *
 * The mean is an fp64 sum in token order (plumb_sum_ordered), unless its site says otherwise: then it
 * is what few bits make of it, though no gradient depends on it.
 */
#include "model/attention.h"

#include <math.h>
#include <omp.h>

#include "plumb/math.h"
#include "plumb/reduce.h"

static float row_loss(const float *logits, uint8_t target, float tokens, float *d)
{
    float most = logits[0], log_sum;

    for (size_t j = 1; j < PLUMB_VOCABULARY; j++)
        most = logits[j] > most ? logits[j] : most;
    for (size_t j = 0; j < PLUMB_VOCABULARY; j++)
        d[j] = logits[j] - most;
    const float at_target = d[target];

    plumb_exp(d, PLUMB_VOCABULARY, d);
    const float sum = plumb_sum(d, PLUMB_VOCABULARY);

    plumb_log(&sum, 1, &log_sum);
    for (size_t j = 0; j < PLUMB_VOCABULARY; j++)
        d[j] = d[j] / sum / tokens;
    d[target] -= 1.0f / tokens;
    return log_sum - at_target;
}

static double total(plumb_model *m)
{
    const plumb_summation in_token_order = {.wide = true};
    const size_t site = site_loss(&m->shape);
    plumb_counts counts = {0};
    double sum = 0;

    if (m->specs[site].format == PLUMB_FP32) {
        plumb_sum_ordered(&in_token_order, m->losses, m->tokens, &sum, NULL, NULL, NULL);
        return sum;
    }
    sum = (double)cast_sum(m, site, 0, m->losses, m->tokens, &counts);
    sample_cast(m, site, &counts);
    return sum;
}

void cross_entropy(plumb_model *m, const uint8_t *tokens, plumb_loss *loss)
{
    const size_t context = m->shape.context, n = m->tokens;
    float worst = m->losses[0];

#pragma omp parallel for schedule(static) num_threads(m->threads)
    for (size_t i = 0; i < n; i++)
        m->losses[i] = row_loss(m->logits + i * PLUMB_VOCABULARY,
                                sequence(m, tokens, i / context)[i % context + 1], (float)n,
                                m->d_logits + i * PLUMB_VOCABULARY);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || m->losses[i] > worst || isnan(m->losses[i]))
            worst = m->losses[i];
        if (isnan(worst))
            worst = NAN;
    }
    loss->mean = total(m) / (double)n;
    loss->worst = worst;
}
