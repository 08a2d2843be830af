/* The model once more, in fp64 and as plainly as possible: the oracle of the gradient tests.  It
 * shares no code with src/model.  Central differences of these functions with step 1e-5 are exact to
 * about 1e-9 of the function's size (rounding 1e-16 / 1e-5, truncation 1e-10 of the third derivative),
 * far below the fp32 rounding of what is tested.
 */
#ifndef PLUMB_TEST_ORACLE_H
#define PLUMB_TEST_ORACLE_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plumb/model.h"

static inline void oracle_rmsnorm(const double *x, const double *g, size_t n, size_t d,
                                  double *y)
{
    for (size_t i = 0; i < n; i++) {
        double sum = 0;

        for (size_t j = 0; j < d; j++)
            sum += x[i * d + j] * x[i * d + j];
        for (size_t j = 0; j < d; j++)
            y[i * d + j] = x[i * d + j] * g[j] / sqrt(sum / (double)d + 1e-5);
    }
}

static inline void oracle_layernorm(const double *x, const double *g, size_t n, size_t d,
                                    double *y)
{
    for (size_t i = 0; i < n; i++) {
        double mean = 0, sum = 0;

        for (size_t j = 0; j < d; j++)
            mean += x[i * d + j] / (double)d;
        for (size_t j = 0; j < d; j++)
            sum += (x[i * d + j] - mean) * (x[i * d + j] - mean);
        for (size_t j = 0; j < d; j++)
            y[i * d + j] = (x[i * d + j] - mean) * g[j] / sqrt(sum / (double)d + 1e-5);
    }
}

static inline void oracle_norm(const plumb_shape *s, const double *x, const double *g,
                               size_t n, double *y)
{
    (s->layer_norm ? oracle_layernorm : oracle_rmsnorm)(x, g, n, s->width, y);
}

/* q and k of each head of qkv[n, 3 width] through RMSNorm with weights of 1. */
static inline void oracle_qk_norm(const plumb_shape *s, size_t n, double *qkv)
{
    const size_t dh = s->width / s->heads;

    for (size_t i = 0; i < n; i++) {
        for (size_t head = 0; head < 2 * s->heads; head++) {
            double *x = qkv + i * 3 * s->width + head * dh, sum = 0;

            for (size_t j = 0; j < dh; j++)
                sum += x[j] * x[j];
            for (size_t j = 0; j < dh; j++)
                x[j] /= sqrt(sum / (double)dh + 1e-5);
        }
    }
}

static inline void oracle_gelu(const double *a, size_t n, double *h)
{
    for (size_t i = 0; i < n; i++)
        h[i] = 0.5 * a[i] *
               (1 + tanh(sqrt(2 / 3.14159265358979323846) *
                         (a[i] + 0.044715 * a[i] * a[i] * a[i])));
}

static inline void oracle_linear(const double *x, const double *w, size_t n, size_t in,
                                 size_t out, double *y)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t o = 0; o < out; o++) {
            double sum = 0;

            for (size_t k = 0; k < in; k++)
                sum += x[i * in + k] * w[o * in + k];
            y[i * out + o] = sum;
        }
    }
}

/* Rotates q and k of qkv[n, 3 width]. */
static inline void oracle_rope(const plumb_shape *s, size_t n, double *qkv)
{
    const size_t dh = s->width / s->heads, half = dh / 2;

    for (size_t i = 0; i < n; i++) {
        for (size_t head = 0; head < 2 * s->heads; head++) {
            double *x = qkv + i * 3 * s->width + head * dh;

            for (size_t j = 0; j < half; j++) {
                const double angle =
                    (double)(i % s->context) * pow(10000, -(double)j / (double)half);
                const double a = x[j], b = x[j + half];

                x[j] = a * cos(angle) - b * sin(angle);
                x[j + half] = a * sin(angle) + b * cos(angle);
            }
        }
    }
}

static inline void oracle_attention(const plumb_shape *s, size_t n, const double *qkv,
                                    double *o)
{
    const size_t dh = s->width / s->heads, ld = 3 * s->width;
    double *p = calloc(s->context, sizeof *p);

    for (size_t i = 0; i < n; i++) {
        const size_t begin = i - i % s->context;

        for (size_t head = 0; head < s->heads; head++) {
            const double *q = qkv + i * ld + head * dh;
            double sum = 0;

            for (size_t j = begin; j <= i; j++) {
                const double *k = qkv + j * ld + s->width + head * dh;
                double score = 0;

                for (size_t c = 0; c < dh; c++)
                    score += q[c] * k[c];
                sum += p[j - begin] = exp(score / sqrt((double)dh));
            }
            for (size_t c = 0; c < dh; c++) {
                double value = 0;

                for (size_t j = begin; j <= i; j++)
                    value +=
                        p[j - begin] / sum * qkv[j * ld + 2 * s->width + head * dh + c];
                o[i * s->width + head * dh + c] = value;
            }
        }
    }
    free(p);
}

static inline void oracle_swiglu(const double *gate_up, size_t n, size_t f, double *h)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < f; j++) {
            const double gate = gate_up[i * 2 * f + j];

            h[i * f + j] = gate / (1 + exp(-gate)) * gate_up[i * 2 * f + f + j];
        }
    }
}

static inline double oracle_loss(const double *logits, size_t n, size_t context,
                                 const uint8_t *tokens)
{
    double total = 0;

    for (size_t i = 0; i < n; i++) {
        const double *row = logits + i * PLUMB_VOCABULARY;
        double sum = 0;

        for (size_t j = 0; j < PLUMB_VOCABULARY; j++)
            sum += exp(row[j]);
        total += log(sum) - row[tokens[i / context * (context + 1) + i % context + 1]];
    }
    return total / (double)n;
}

static inline const double *oracle_weight(const plumb_shape *s, const double *w,
                                          size_t index, size_t part)
{
    plumb_parameter p;

    plumb_parameter_get(s, 1 + PLUMB_LAYER_PARAMETERS * index + part, &p);
    return w + p.offset;
}

/* The mean loss of the whole model. */
static inline double oracle_model(const plumb_shape *s, const double *w,
                                  const uint8_t *tokens, size_t sequences)
{
    const size_t n = sequences * s->context, d = s->width;
    double *x = calloc(n * d, sizeof *x), *y = calloc(n * d, sizeof *y);
    double *wide = calloc(n * (3 * d + 2 * s->ff + PLUMB_VOCABULARY), sizeof *wide);
    double *h = calloc(n * (s->ff + d), sizeof *h);

    for (size_t i = 0; i < n; i++)
        memcpy(x + i * d,
               w + tokens[i / s->context * (s->context + 1) + i % s->context] * d,
               d * sizeof *x);
    for (size_t l = 0; l < s->layers; l++) {
        oracle_norm(s, x, oracle_weight(s, w, l, PLUMB_ATTN_NORM), n, y);
        oracle_linear(y, oracle_weight(s, w, l, PLUMB_ATTN_QKV), n, d, 3 * d, wide);
        if (s->qk_norm)
            oracle_qk_norm(s, n, wide);
        oracle_rope(s, n, wide);
        oracle_attention(s, n, wide, h);
        oracle_linear(h, oracle_weight(s, w, l, PLUMB_ATTN_OUT), n, d, d, y);
        for (size_t i = 0; i < n * d; i++)
            x[i] += y[i];
        oracle_norm(s, x, oracle_weight(s, w, l, PLUMB_MLP_NORM), n, y);
        oracle_linear(y, oracle_weight(s, w, l, PLUMB_MLP_UP), n, d,
                      s->gelu ? s->ff : 2 * s->ff, wide);
        if (s->gelu)
            oracle_gelu(wide, n * s->ff, h);
        else
            oracle_swiglu(wide, n, s->ff, h);
        oracle_linear(h, oracle_weight(s, w, l, PLUMB_MLP_DOWN), n, s->ff, d, y);
        for (size_t i = 0; i < n * d; i++)
            x[i] += y[i];
    }
    oracle_norm(s, x, oracle_weight(s, w, s->layers, 0), n, y);
    oracle_linear(y, s->tied_head ? w : oracle_weight(s, w, s->layers, 0) + d, n, d,
                  PLUMB_VOCABULARY, wide);
    const double loss = oracle_loss(wide, n, s->context, tokens);

    free(x);
    free(y);
    free(wide);
    free(h);
    return loss;
}

#endif
