/* The inside of a plumb_model: what each layer keeps between forward and backward, and the
 * layer functions in the order in which they run.
 *
 * Sizes in comments: N tokens of a call (sequences * context), D width, F ff, H heads,
 * T context, B sequences, V vocabulary.  All matrices are row-major.
 */
#ifndef PLUMB_MODEL_INSIDE_H
#define PLUMB_MODEL_INSIDE_H

#include "plumb/matmul.h"
#include "plumb/model.h"

#include "model/rows.h"

/* y[N, outputs] = x[N, inputs] w[outputs, inputs]^T, each operand in its site's spec. */
typedef struct linear {
    size_t inputs, outputs;
    size_t site;   /* of its first role */
    size_t offset; /* of its weights and its gradient */
    plumb_quantized q[PLUMB_ROLES];
    float *d[PLUMB_ROLES]; /* memory of q[].d, which is NULL where there are no scales */
} linear;

/* An operand of attention in few bits: one matrix for all heads, or one for each. */
typedef struct stack {
    plumb_quantized *q;
    size_t count; /* of them */
    bool whole;
    size_t rows, cols;         /* of each */
    size_t code_bytes, scales; /* of each */
    void *codes;               /* of all */
    float *d;
} stack;

/* What a layer keeps, or only passes on (plan_activations). */
typedef struct layer {
    size_t norm1, norm2; /* offsets of the norms' weights */
    linear qkv, out, up, down;
    size_t attention_site, softmax_site, norm_site; /* the first of each */
    bool cast_attention;                            /* its operands are objects: */
    plumb_delta delta;
    stack attention[PLUMB_ATTENTION_ROLES];
    float *x;       /* [N, D] input; the output is the next layer's x */
    float *r1, *n1; /* [N], [N, D] 1/rms and normalised input of attention */
    float *q_k_v;   /* [N, 3D] after rotation */
    float *rqk;     /* [N, 2H] 1/rms of q and k, where they are normalised */
    float *p;       /* [B, H, T, T] attention probabilities */
    float *o;       /* [N, D] heads side by side */
    float *x2;      /* [N, D] after attention */
    float *r2, *n2; /* [N], [N, D] */
    float *gate_up; /* [N, 2F] gate, then up; [N, F] of GELU */
    float *h;       /* [N, F] silu(gate) * up */
} layer;

enum { LAYER_ARRAYS = 12 };

struct plumb_model {
    plumb_shape shape;
    size_t sequences, tokens; /* B, N */
    int threads;
    size_t site_count;
    plumb_spec *specs;
    size_t *owner; /* plumb_site_owner of each site */
    plumb_scale_state *states;
    plumb_site_hook *hook;
    void *hook_context;
    plumb_sample *samples;      /* of each site as it was quantised; NULL: not kept */
    bool *seen;                 /* quantised since the last plumb_model_sample */
    plumb_exponents *exponents; /* plumb_model_exponents; NULL: not wanted now */
    plumb_exponents *parts;     /* of each thread, on their way there */
    bool count;
    bool forward_only;
    size_t roles; /* PLUMB_ROLES, or those of fprop alone */
    plumb_delta delta;
    plumb_accumulator *how; /* of each product, as it runs */
    bool *from_codes;       /* of each site that shares no codes */
    float *decoded;         /* an operand on its way from codes to codes */
    size_t decoded_floats;
    bool show_attention;
    uint64_t seed, draw; /* plumb_model_draw */
    uint64_t *streams;   /* of each site */

    layer *layers;
    float *passing[LAYER_ARRAYS]; /* arrays that no layer keeps, used in turn */
    bool is_passing[LAYER_ARRAYS];
    void *codes[2]; /* of activation gradients, as dgrad and as wgrad read them */
    size_t code_bytes[2];
    void *head_codes[PLUMB_ATTENTION_ROLES]; /* of operands that no layer keeps */
    size_t head_bytes[PLUMB_ATTENTION_ROLES];
    float *ds; /* [B, H, T, T], where attention is in few bits */
    bool has_ds;
    linear head;
    size_t final_norm;
    float *x;        /* [N, D] output of the last layer */
    float *rf, *nf;  /* [N], [N, D] */
    float *logits;   /* [N, V] */
    float *d_logits; /* [N, V] */
    float *losses;   /* [N] */
    float *cosine;   /* [T, D/H/2] rotation tables */
    float *sine;

    float *dx, *dn, *d_o;          /* [N, D] */
    float *d_qkv, *d_gate_up, *dh; /* [N, 3D], [N, 2F], [N, F] */
    float *row[PLUMB_MAX_THREADS]; /* scratch: row_floats of each thread */
    size_t row_floats;
    unsigned char *workspace[PLUMB_MAX_THREADS]; /* of plumb_matmul */

    plumb_arena arena;
    bool timed;          /* else no clock is read */
    plumb_times *times;  /* never NULL */
    plumb_times unasked; /* where nobody asked */
    plumb_seconds *part; /* of times: what runs now */
};

/* plan.c: one pass over every array: adds up sizes before the arena is committed, deals out after */
plumb_status model_plan(plumb_model *m, plumb_error *why);

/* clock.c: processor time of this thread; 0 where nobody asks */
double clock_now(const plumb_model *m);
/* What runs from now on, until clock_end: *part gets its seconds. */
double clock_begin(plumb_model *m, plumb_seconds *part);
void clock_end(plumb_model *m, double begin);

/* casts.c: the bits that a site draws now */
plumb_draw model_draw(const plumb_model *m, size_t site);
/* x as its codes have it, and a sum by a site's spec; the bits are those of row `row`. */
void cast_elements(const plumb_model *m, size_t site, size_t row, float *x, size_t n,
                   plumb_counts *counts);
float cast_sum(const plumb_model *m, size_t site, size_t row, const float *x, size_t n,
               plumb_counts *counts);
/* What is left of a site: a matrix (the first, or one more of the same operand), or what was
 * rounded without one.  counts are those of the site.
 */
void sample_matrix(plumb_model *m, size_t site, const plumb_quantized *q,
                   const plumb_counts *counts, bool first);
void sample_cast(plumb_model *m, size_t site, const plumb_counts *counts);

/* The exponents of a matrix that is quantised at a site, if they are wanted now. */
void note_exponents(const plumb_model *m, size_t site, const float *x, size_t rows,
                    size_t cols);

/* bands.c: plumb_quantize with update, by all threads of the model */
plumb_status bands_quantise(const plumb_model *m, const plumb_spec *spec, const float *x,
                            size_t rows, size_t cols, bool along_rows,
                            const plumb_draw *draw, plumb_scale_state *state,
                            plumb_quantized *q, plumb_counts *counts, plumb_error *why);

/* linear.c: the axis that each role's product contracts, and the products */
extern const bool linear_along_rows[PLUMB_ROLES];
plumb_status linear_weights(plumb_model *m, linear *l, const float *weights,
                            plumb_error *why);
/* y = product, or y += product. */
plumb_status linear_forward(plumb_model *m, linear *l, const float *x, float *y,
                            bool accumulate, plumb_error *why);
/* dx = dgrad; gradient at the linear's offset = wgrad. */
plumb_status linear_backward(plumb_model *m, linear *l, const float *x, const float *dy,
                             float *dx, float *gradient, plumb_error *why);
size_t linear_workspace(const plumb_model *m, const linear *l);

/* rmsnorm.c: the sum of squares as a site has it, squares in memory of its own */
float cast_squares(const plumb_model *m, size_t site, size_t row, const float *x,
                   float *squares, plumb_counts *counts);
/* rmsnorm.c: y = x * r * g with r = 1/sqrt(mean(x^2) + 1e-5), rows of D; the sum of squares as its
 * site has it.  copy, unless NULL, becomes x: the residual stream, while it is at hand.
 */
void rmsnorm_forward(plumb_model *m, size_t site, const float *x, const float *g, float *r,
                     float *y, float *copy);
/* dx += (or =, with add false) and dg = */
void rmsnorm_backward(const plumb_model *m, const float *x, const float *g, const float *r,
                      const float *dy, bool add, float *dx, float *dg);

/* rope.c: rotates q and k of qkv[N, 3D] in place; inverse undoes it (its gradient) */
void rope_tables(plumb_model *m);
void rope_rotate(const plumb_model *m, float *qkv, bool inverse);

/* attention.c: o = softmax(q k^T / sqrt(D/H), causal) v */
plumb_status attention_forward(const plumb_model *m, layer *l, plumb_error *why);
plumb_status attention_backward(const plumb_model *m, const layer *l, const float *d_o,
                                float *d_qkv, plumb_error *why);
size_t attention_workspace(const plumb_model *m);

/* swiglu.c: h = silu(gate) * up */
void swiglu_forward(const plumb_model *m, const float *gate_up, float *h);
void swiglu_backward(const plumb_model *m, const float *gate_up, const float *dh,
                     float *d_gate_up);

/* embedding.c */
void embedding_forward(const plumb_model *m, const float *table, const uint8_t *tokens,
                       float *x);
void embedding_backward(const plumb_model *m, const uint8_t *tokens, const float *dx,
                        float *d_table);

/* loss.c: losses and d_logits of the mean */
void cross_entropy(plumb_model *m, const uint8_t *tokens, plumb_loss *loss);

/* The token at position t of sequence b, and the one it must predict. */
static inline const uint8_t *sequence(const plumb_model *m, const uint8_t *tokens, size_t b)
{
    return tokens + b * (m->shape.context + 1);
}

#endif
