/* plumb/model.h - a decoder-only transformer over bytes, forward and backward by hand.
 *
 *   x = embedding[token]
 *   for each layer
 *       x = x + attn.out(attention(rope(attn.qkv(rmsnorm(x)))))
 *       x = x + mlp.down(swiglu(mlp.up(rmsnorm(x))))
 *   logits = head(rmsnorm(x));  loss = mean cross-entropy of the next byte
 *
 * with the variants of plumb_shape: LayerNorm, GELU, normalised q and k, the embedding as head.
 *
 * Linears and attention run their products on operands that are quantised as the caller says, site
 * by site; sums of norms, softmax and loss are rounded as it says; everything else is fp32.  The
 * bits depend on the weights, the tokens, the specs and the draw, never on the number of threads
 * or the instruction set.
 *
 * A plumb_model is a workspace: it owns activations and quantised operands, all in one block
 * taken at creation, and neither weights nor gradients.  One thread at a time per model (which
 * itself uses as many threads as it was told).
 */
#ifndef PLUMB_MODEL_H
#define PLUMB_MODEL_H

#include "plumb/matmul.h"
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
    size_t ff;      /* inner width of the MLP */
    size_t context; /* tokens of a sequence */

    bool layer_norm; /* LayerNorm without bias, not RMSNorm */
    bool gelu;       /* mlp.up has ff outputs, and GELU (tanh) of them, not SwiGLU */
    bool qk_norm;   /* q and k of each head through RMSNorm without weights, then rotated */
    bool tied_head; /* the head's weights are the embedding: there is no parameter "head" */
} plumb_shape;

/* PLUMB_BAD_SHAPE with a sentence when the numbers do not fit together. */
plumb_status plumb_shape_check(const plumb_shape *shape, plumb_error *why);

/* Parameters in order: embedding; per layer attn.norm, attn.qkv, attn.out, mlp.norm, mlp.up,
 * mlp.down; final.norm; head, unless it is tied.  They lie one behind the other in one array of floats.
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

/* --- sites ------------------------------------------------------------------------ */

/* Where a model rounds.  In order of their numbers:
 *
 *   operands of the linears    number = linear * PLUMB_ROLES + role, linears in order of the layers
 *                              (attn.qkv, attn.out, mlp.up, mlp.down), the head last
 *   operands of attention      PLUMB_ATTENTION_ROLES for each layer
 *   softmax of attention       numerator and sum of each layer
 *   norms                      the sum of squares of attn.norm and mlp.norm of each layer, and of
 *                              final.norm
 *   loss                       the sum over the tokens
 *
 * Operands come in pairs: sites 2 i and 2 i + 1 are those of one product.
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

/* s = q k^T; o = p v; dp = do v^T; dv = p^T do; dq = ds k; dk = ds^T q */
enum {
    PLUMB_QK_Q = 0,
    PLUMB_QK_K,
    PLUMB_PV_P,
    PLUMB_PV_V,
    PLUMB_DP_DO,
    PLUMB_DP_V,
    PLUMB_DV_P,
    PLUMB_DV_DO,
    PLUMB_DQ_DS,
    PLUMB_DQ_K,
    PLUMB_DK_DS,
    PLUMB_DK_Q,
    PLUMB_ATTENTION_ROLES
};

typedef enum plumb_site_kind {
    PLUMB_SITE_LINEAR = 0, /* an operand: any spec */
    PLUMB_SITE_ATTENTION,  /* the same */
    PLUMB_SITE_ELEMENTS, /* values that are rounded one by one: no scale, or a static one */
    PLUMB_SITE_SUM,      /* terms and partial sums, by index: as ELEMENTS */
} plumb_site_kind;

size_t plumb_site_count(const plumb_shape *shape);
size_t plumb_linear_site_count(const plumb_shape *shape); /* PLUMB_ROLES for each linear */

typedef struct plumb_site {
    /* "layer.3/mlp.down/dgrad/dy", "layer.3/attn/qk/q", "layer.3/softmax/numerator",
     * "layer.3/mlp.norm/norm/squares", "head/loss/sum"
     */
    char name[PLUMB_SITE_NAME];
    plumb_site_kind kind;
    plumb_class class_;
    int layer; /* -1: none */
    size_t linear,
        role;         /* of an operand of a linear; role: of an operand of attention, too */
    size_t parameter; /* of a linear or norm; SIZE_MAX where there is none */
    const char *gemm; /* "dgrad", "qk"; NULL where nothing is multiplied */
    const char *operand; /* "dy", "numerator", "squares" */
} plumb_site;

void plumb_site_get(const plumb_shape *shape, size_t index, plumb_site *site);

/* The site whose codes this one reads.  Of linears: dgrad/w shares with fprop/w, wgrad/x with
 * fprop/x, wgrad/dy with dgrad/dy; of attention each operand of the backward pass with the same
 * tensor in an earlier product (dk/q with qk/q, dq/k with qk/k, dp/v with pv/v, dv/p with pv/p,
 * dv/do with dp/do, dk/ds with dq/ds); when both have the same spec and no block of it is tied to
 * one contraction axis.  Otherwise the site itself.
 */
size_t plumb_site_owner(const plumb_shape *shape, const plumb_spec *specs, size_t site);

/* PLUMB_UNSUPPORTED with a sentence when a model cannot run the site in this spec. */
plumb_status plumb_site_takes(const plumb_site *site, const plumb_spec *spec,
                              plumb_error *why);

/* Products: number i has the sites 2 i and 2 i + 1 as its operands. */
size_t plumb_product_count(const plumb_shape *shape);
/* "layer.3/mlp.down/dgrad", "layer.3/attn/qk": its sites' names less the operand. */
void plumb_product_name(const plumb_shape *shape, size_t product,
                        char name[PLUMB_SITE_NAME]);
/* What adds up a product on operands of these formats: `how`, or the canonical accumulator where that
 * does not take them (a GPU unit after an operand was cast back to bf16).
 */
plumb_accumulator plumb_product_accumulator(const plumb_accumulator *how, plumb_format a,
                                            plumb_format b);

/* Where the sum over p dp, which softmax's backward takes off each row of dp, comes from. */
typedef enum plumb_delta {
    PLUMB_DELTA_MATCHED =
        0,              /* p and dp of this very backward pass: rows of ds sum up to 0 */
    PLUMB_DELTA_OUTPUT, /* do . o, the output that was kept (FlashAttention) */
    PLUMB_DELTA_EXACT,  /* fp64, from q, k, v and do before they were quantised */
    PLUMB_DELTA_COUNT
} plumb_delta;

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

/* Called after each quantisation of an operand, from the calling thread, before anybody reads the
 * result.  A site that shares its codes gets a call of its own, with its own copy of the scales.
 * state is the owner's, or NULL.  Operands of attention are one matrix (where one scale is that of
 * the whole tensor), or one for each head of each sequence, with a call for each.
 */
typedef void plumb_site_hook(void *context, size_t site, plumb_quantized *q,
                             plumb_scale_state *state);

typedef struct plumb_model_setup {
    plumb_shape shape;
    size_t sequences;        /* of one call */
    int threads;             /* 1 to PLUMB_MAX_THREADS */
    const plumb_spec *specs; /* one per site */

    /* One per site, used where the rule is DELAYED (at the owner); NULL when no site is delayed.
     * Kept by the caller.
     */
    plumb_scale_state *states;

    plumb_delta delta;
    const plumb_accumulator *accumulators; /* one per product; NULL: canonical everywhere */

    /* One per site, or NULL.  Of dgrad/w, wgrad/dy and wgrad/x of a linear, where they do not share
     * codes: they are quantised from the codes of fprop/w, dgrad/dy and fprop/x, decoded, and not
     * from the high-precision tensor (DeepSeek-V3 caches its activations so).
     */
    const bool *from_codes;

    /* Operands of attention are objects of their own, counted and shown to the hook, even in
     * layers where all of them are fp32, and its output is kept (plumb_model_delta).  Moves no bit.
     */
    bool show_attention;

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

/* The random bits of stochastic roundings from the next call on: what a site rounds is drawn from
 * stream plumb_random_stream_at(plumb_random_stream(name of the site), number), that of a head, row
 * or token from an offspring of it.  0 and 0 until it is called.
 */
void plumb_model_draw(plumb_model *model, uint64_t seed, uint64_t number);

/* From its next cast on a site is quantised by this spec, which has the format, the grain and the rule
 * of the one that it had: memory, and which sites share codes, stay as they are.  Of two sites that
 * share codes the owner's counts.  PLUMB_UNSUPPORTED, and nothing happens, for any other spec.
 */
plumb_status plumb_model_respec(plumb_model *model, size_t site, const plumb_spec *spec);

/* From the next backward pass on one layer takes delta from elsewhere.  PLUMB_UNSUPPORTED, and nothing
 * happens, unless the model was created with show_attention, or with this very delta.
 */
plumb_status plumb_model_delta(plumb_model *model, size_t layer, plumb_delta delta);

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
const float *plumb_model_losses(const plumb_model *model, size_t *n); /* of each token */
const float *plumb_model_layer_output(const plumb_model *model, size_t layer, size_t *n);
/* ... but the codes of an activation gradient: their memory is used again by the next linear. */
/* Operands of linears only. */
const plumb_quantized *plumb_model_quantized(const plumb_model *model, size_t site);

/* Statistics of a site since it was last quantised; total is 0 when it has not been since the
 * last call of this function for it, as where nothing is rounded: sums and numerators in fp32, and
 * operands of attention in a layer where all of them are fp32 (but see show_attention).  p and ds
 * count the zeros above the diagonal.  Needs setup.count.
 */
void plumb_model_sample(plumb_model *model, size_t site, plumb_sample *sample);

/* From the next cast on, adds to exponents[site] those of what is quantised there; NULL: no longer.
 * Operands of linears and of attention only.  One place per site, kept by the caller.  Moves no bit.
 * Needs setup.count.
 */
void plumb_model_exponents(plumb_model *model, plumb_exponents *exponents);

#ifdef __cplusplus
}
#endif
#endif
