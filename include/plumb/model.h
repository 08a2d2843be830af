/* plumb/model.h - a decoder-only transformer over bytes, forward and backward by hand.
 *
 *   x = embedding[token]
 *   for each layer
 *       x = x + attn.out(attention(rope(attn.qkv(rmsnorm(x)))))
 *       x = x + mlp.down(swiglu(mlp.up(rmsnorm(x))))
 *   logits = head(rmsnorm(x));  loss = mean cross-entropy of the next byte
 *
 * Every linear runs its three products on operands that are quantised as the caller says,
 * site by site; everything else is fp32.  The bits depend on the weights, the tokens and
 * the specs, never on the number of threads or the instruction set.
 *
 * A plumb_model is a workspace: it owns activations and quantised operands, all in one block
 * taken at creation, and neither weights nor gradients.  One thread at a time per model (which
 * itself uses as many threads as it was told).
 */
#ifndef PLUMB_MODEL_H
#define PLUMB_MODEL_H

#include "plumb/observe.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PLUMB_VOCABULARY = 256, /* bytes */
    PLUMB_MAX_LAYERS = 64,
    PLUMB_MAX_THREADS = 64,
};

/* --- shape and parameters ---------------------------------------------------- */

typedef struct plumb_shape {
    size_t layers; /* 1 to PLUMB_MAX_LAYERS */
    size_t width;  /* a multiple of 2 * heads */
    size_t heads;
    size_t ff;      /* inner width of SwiGLU */
    size_t context; /* tokens of a sequence */
} plumb_shape;

/* PLUMB_BAD_SHAPE with a sentence when the numbers do not fit together. */
plumb_status plumb_shape_check(const plumb_shape *shape, plumb_error *why);

/* Parameters in order: embedding; per layer attn.norm, attn.qkv, attn.out, mlp.norm, mlp.up,
 * mlp.down; final.norm; head.  They lie one behind the other in one array of floats.
 */
enum {
    PLUMB_LAYER_PARAMETERS = 6,
    PLUMB_ATTN_NORM = 0,
    PLUMB_ATTN_QKV,
    PLUMB_ATTN_OUT,
    PLUMB_MLP_NORM,
    PLUMB_MLP_UP,
    PLUMB_MLP_DOWN,
};

typedef struct plumb_parameter {
    char name[64];     /* "embedding", "layer.3/mlp.down", "final.norm", "head" */
    int layer;         /* -1: none */
    size_t offset;     /* of the first element in the array */
    size_t rows, cols; /* [outputs, inputs] of a linear; norms have one row */
    bool matrix;       /* weight decay applies */
} plumb_parameter;

size_t plumb_parameter_count(const plumb_shape *shape);
size_t plumb_weight_count(const plumb_shape *shape); /* floats in all parameters */
void plumb_parameter_get(const plumb_shape *shape, size_t index,
                         plumb_parameter *parameter);

/* N(0, 0.02) from stream "init/NAME"; attn.out and mlp.down divided by sqrt(2 layers); norms 1. */
void plumb_weights_init(const plumb_shape *shape, uint64_t seed, float *weights);

/* --- operand sites -------------------------------------------------------------- */

/* The operands of a linear's three products.  Site number = linear * PLUMB_ROLES + role, with
 * linears in order of the layers (attn.qkv, attn.out, mlp.up, mlp.down) and the head last.
 */
enum {
    PLUMB_FPROP_X = 0,
    PLUMB_FPROP_W,
    PLUMB_DGRAD_DY,
    PLUMB_DGRAD_W,
    PLUMB_WGRAD_DY,
    PLUMB_WGRAD_X,
    PLUMB_ROLES
};

size_t plumb_site_count(const plumb_shape *shape); /* PLUMB_ROLES for each linear */

typedef struct plumb_site {
    char name[PLUMB_SITE_NAME]; /* "layer.3/mlp.down/dgrad/dy" */
    int layer;                  /* -1: the head */
    size_t linear, role, parameter;
    const char *gemm, *operand; /* "dgrad", "dy" */
} plumb_site;

void plumb_site_get(const plumb_shape *shape, size_t index, plumb_site *site);

/* The site whose codes this one reads: dgrad/w shares with fprop/w, wgrad/x with fprop/x, wgrad/dy
 * with dgrad/dy, when both have the same spec and no block of it is tied to one contraction axis.
 * Otherwise the site itself.
 */
size_t plumb_site_owner(const plumb_spec *specs, size_t site);

/* --- what it costs ---------------------------------------------------------------- */

/* What memory is for.  Numbers are those of plumb_arena.label. */
typedef enum plumb_memory_use {
    PLUMB_MEMORY_WEIGHTS = 0, /* weights as the products read them: codes and scales */
    PLUMB_MEMORY_MASTER,      /* fp32 weights */
    PLUMB_MEMORY_GRADIENTS,
    PLUMB_MEMORY_OPTIMIZER,   /* moments */
    PLUMB_MEMORY_ACTIVATIONS, /* kept from forward to backward, with their codes */
    PLUMB_MEMORY_TEMPORARIES, /* activation gradients and their codes, scratch */
    PLUMB_MEMORY_RECORDS,     /* text, statistics, scale histories */
    PLUMB_MEMORY_USES
} plumb_memory_use;

typedef struct plumb_memory {
    size_t bytes[PLUMB_MEMORY_USES];
} plumb_memory;

/* Processor time of the calling thread, which does one part in `threads` of the work. */
typedef struct plumb_seconds {
    double gemm; /* products, packing included */
    double cast; /* quantisation of operands, with what it counts */
    double rest;
} plumb_seconds;

typedef struct plumb_times {
    plumb_seconds layers, ends, weights; /* ends: embedding, last norm, head, loss; weights:
                                            plumb_model_weights */
} plumb_times;

/* --- the model -------------------------------------------------------------------- */

typedef struct plumb_model plumb_model;

/* Called after each quantisation, from the calling thread, before anybody reads the result.  A
 * site that shares its codes gets a call of its own, with its own copy of the scales.  state is the
 * owner's, or NULL.
 */
typedef void plumb_site_hook(void *context, size_t site, plumb_quantized *q,
                             plumb_scale_state *state);

typedef struct plumb_model_setup {
    plumb_shape shape;
    size_t sequences;        /* of one call */
    int threads;             /* 1 to PLUMB_MAX_THREADS */
    const plumb_spec *specs; /* one per operand site */

    /* One per operand site, used where the rule is DELAYED (at the owner); NULL when no site is
     * delayed.  Kept by the caller.
     */
    plumb_scale_state *states;

    plumb_site_hook *hook; /* may be NULL */
    void *hook_context;
    bool count; /* keep counts for plumb_model_sample */
    bool
        forward_only; /* plumb_model_backward and _layer_output will not be called: much less
                           memory */
    plumb_times *times; /* where to add up what each part costs; NULL: no clock is read */
} plumb_model_setup;

/* Bytes that plumb_model_create would take for this setup, added to *memory.  Allocates next
 * to nothing: it is the first of the two passes that creation makes.
 */
plumb_status plumb_model_need(const plumb_model_setup *setup, plumb_memory *memory,
                              plumb_error *why);

plumb_status plumb_model_create(const plumb_model_setup *setup, plumb_model **model,
                                plumb_error *why);
void plumb_model_free(plumb_model **model);

typedef struct plumb_loss {
    double mean; /* over the tokens of the call, nats */
    float worst; /* token; NaN if one is NaN */
} plumb_loss;

/* Quantises the weights.  Once after each change of them: micro-batches reuse the codes. */
plumb_status plumb_model_weights(plumb_model *model, const float *weights,
                                 plumb_error *why);

/* tokens[sequences][context + 1]: the last context of each are the targets. */
plumb_status plumb_model_forward(plumb_model *model, const float *weights,
                                 const uint8_t *tokens, plumb_loss *loss, plumb_error *why);

/* Gradient of the mean loss of the last forward call, with the same arguments.  gradient is
 * overwritten.
 */
plumb_status plumb_model_backward(plumb_model *model, const float *weights,
                                  const uint8_t *tokens, float *gradient, plumb_error *why);

/* What the last forward left behind. */
const float *plumb_model_logits(const plumb_model *model, size_t *n);
const float *plumb_model_layer_output(const plumb_model *model, size_t layer, size_t *n);
/* ... but the codes of an activation gradient: their memory is used again by the next linear. */
const plumb_quantized *plumb_model_quantized(const plumb_model *model, size_t site);

/* Statistics of a site since it was last quantised; total is 0 when it has not been since the
 * last call of this function for it.  Needs setup.count.
 */
void plumb_model_sample(plumb_model *model, size_t site, plumb_sample *sample);

#ifdef __cplusplus
}
#endif
#endif
