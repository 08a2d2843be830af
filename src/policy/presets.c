/* The recipes that people know by name, as rules over the sites of plumb/train.h.
 *
 * Operands: fprop contracts the features (x, w), dgrad the outputs (dy, w), wgrad the tokens
 * (dy, x), so a 1x128 operand of wgrad has its blocks along the tokens: quantised again
 * from the high-precision tensor, not turned.  What no rule names stays as the trainer has
 * it: bf16 for the operands of products, fp32 for the optimizer and the all-reduce.
 */
#include "plumb/policy.h"

#include <string.h>

#define RULE(globs, use)                                                                   \
    {                                                                                      \
        globs, sizeof(globs) / sizeof((globs)[0]), use, false                              \
    }

/* Operands of all products; of those in layers, gradients apart from the rest; the head. */
static const char *const products[] = {"*/fprop/x", "*/fprop/w",  "*/dgrad/dy",
                                       "*/dgrad/w", "*/wgrad/dy", "*/wgrad/x"};
static const char *const layer_x_w[] = {"layer.*/fprop/x", "layer.*/fprop/w",
                                        "layer.*/dgrad/w", "layer.*/wgrad/x"};
static const char *const layer_x[] = {"layer.*/fprop/x", "layer.*/wgrad/x"};
static const char *const layer_w[] = {"layer.*/fprop/w", "layer.*/dgrad/w"};
static const char *const layer_dy[] = {"layer.*/dgrad/dy", "layer.*/wgrad/dy"};
static const char *const head_products[] = {"head/fprop/*", "head/dgrad/*", "head/wgrad/*"};
static const char *const moments[] = {"*/optimizer/m", "*/optimizer/v"};

static const plumb_rule bf16_rules[] = {
    RULE(products, "bf16"),
};

/* TransformerEngine DelayedScaling with its defaults: hybrid format (E4M3 forward, E5M2
 * gradients), history 1024, maximum of the window, margin 0, plain fp32 scales
 * (transformer_engine/common/recipe/__init__.py, common/recipe/delayed_scaling.cu).
 * Megatron-LM keeps the output layer in bf16 (no fp8_output_proj) and uses history 1 with
 * the most recent amax instead: "e4m3:delayed:history=1:recent".
 */
static const plumb_rule te_delayed_rules[] = {
    RULE(layer_x_w, "e4m3:tensor:delayed:history=1024:max"),
    RULE(layer_dy, "e5m2:tensor:delayed:history=1024:max"),
    RULE(head_products, "bf16"),
};

/* TransformerEngine Float8CurrentScaling with its defaults: hybrid format, amax of this very
 * tensor, epsilon 0, plain fp32 scales (common/recipe/current_scaling.cu,
 * common/recipe/recipe_common.cuh); the head as above.
 */
static const plumb_rule te_current_rules[] = {
    RULE(layer_x_w, "e4m3:tensor:current"),
    RULE(layer_dy, "e5m2:tensor:current"),
    RULE(head_products, "bf16"),
};

/* DeepSeek-V3 (technical report, arXiv:2412.19437, section 3.3): E4M3 for every operand,
 * 1x128 along the contraction for activations and their gradients, 128x128 for weights,
 * online scales; output head, embedding, norms and attention in higher precision; AdamW m
 * and v in bf16, master weights and gradients fp32.  d = max(amax, 1e-4) / 448 and x / d as
 * in the act_quant kernel of DeepSeek-V3/inference/kernel.py and DeepGEMM's casts, whose
 * fp32 scales these are (powers of two are an option there: add pow2).  The floor of 1e-4
 * is published for activations and weights only.  Gradients lie far below it, so that they
 * get the 1e-12 of torchao's version of the recipe (prototype/blockwise_fp8_training).
 *
 * Two things of the report are not in it: the inputs of attn.out are E5M6 there, and what
 * wgrad reads of x is the cached FP8 activation, decoded and quantised again.
 */
static const plumb_rule deepseek_rules[] = {
    RULE(layer_x, "e4m3:1x128:current:divide:floor=1e-4"),
    RULE(layer_w, "e4m3:128x128:current:divide:floor=1e-4"),
    RULE(layer_dy, "e4m3:1x128:current:divide:floor=1e-12"),
    RULE(head_products, "bf16"),
    RULE(moments, "bf16"),
};

/* TransformerEngine MXFP8BlockScaling with its defaults: E4M3 for every operand, one E8M0 scale for
 * 32 elements along the contraction, rounded up (RCEIL), each orientation from the high-precision
 * tensor (transformer_engine/common/util/ptx.cuh, common/cast/mxfp8); the head as above.
 */
static const plumb_rule te_mxfp8_rules[] = {
    RULE(products, "e4m3:mx32:mx-rceil"),
    RULE(head_products, "bf16"),
};

/* The same with the scale of the OCP MX specification 1.0, section 6.3: rounded down, so that elements
 * may saturate.  torchao has it as ScaleCalculationMode.FLOOR (prototype/mx_formats/mx_tensor.py).
 */
static const plumb_rule ocp_mx_rules[] = {
    RULE(products, "e4m3:mx32:mx-floor"),
    RULE(head_products, "bf16"),
};

/* torchao float8 rowwise (torchao/float8/config.py, ROWWISE): E4M3 for every operand, a power-of-two
 * scale for all of the contracted axis, each orientation from the high-precision tensor.  Its amax
 * is never below 1e-12 (float8_utils.py, EPS).
 */
static const plumb_rule torchao_rowwise_rules[] = {
    RULE(products, "e4m3:row:pow2:floor=1e-12"),
    RULE(head_products, "bf16"),
};

#define PRESET(name, rules, summary)                                                       \
    {                                                                                      \
        name, summary, rules, sizeof(rules) / sizeof((rules)[0])                           \
    }

const plumb_preset plumb_presets[] = {
    PRESET("bf16", bf16_rules, "bf16 operands everywhere: the twin"),
    PRESET("te-delayed", te_delayed_rules,
           "TransformerEngine DelayedScaling: E4M3 and E5M2, per tensor, amax of the last "
           "1024 steps"),
    PRESET(
        "te-current", te_current_rules,
        "TransformerEngine Float8CurrentScaling: E4M3 and E5M2, per tensor, amax of this "
        "step"),
    PRESET("deepseek-v3", deepseek_rules,
           "DeepSeek-V3: E4M3, 1x128 for activations and gradients, 128x128 for weights, "
           "bf16 moments"),
    PRESET("te-mxfp8", te_mxfp8_rules,
           "TransformerEngine MXFP8BlockScaling: E4M3, a power of two for 32 elements, "
           "rounded up"),
    PRESET("ocp-mx", ocp_mx_rules,
           "OCP MX 1.0: E4M3, a power of two for 32 elements, rounded down"),
    PRESET("torchao-rowwise", torchao_rowwise_rules,
           "torchao rowwise: E4M3, a power of two for each row that a product contracts"),
};
const size_t plumb_preset_count = sizeof plumb_presets / sizeof plumb_presets[0];

const plumb_preset *plumb_preset_find(const char *name)
{
    for (size_t i = 0; i < plumb_preset_count; i++) {
        if (strcmp(name, plumb_presets[i].name) == 0)
            return &plumb_presets[i];
    }
    return NULL;
}
