/* The sites of a model: their names and classes, which of them share codes, and what each can run in.
 * Everything here is a pure function of the shape.
 */
#include "model/sites.h"

#include "quant/grain.h"
#include "quant/spec.h"

#include <string.h>

/* The linears of a layer in order. */
static const size_t linear_parts[] = {PLUMB_ATTN_QKV, PLUMB_ATTN_OUT, PLUMB_MLP_UP,
                                      PLUMB_MLP_DOWN};
enum { LAYER_LINEARS = 4 };

/* An operand: which it is, of which product, and the role that reads the same tensor first. */
typedef struct operand {
    const char *gemm, *name;
    plumb_class class_;
    size_t first;
} operand;

static const operand linear_operands[PLUMB_ROLES] = {
    [PLUMB_FPROP_X] = {"fprop", "x", PLUMB_FORWARD, PLUMB_FPROP_X},
    [PLUMB_FPROP_W] = {"fprop", "w", PLUMB_FORWARD, PLUMB_FPROP_W},
    [PLUMB_DGRAD_DY] = {"dgrad", "dy", PLUMB_BACKWARD, PLUMB_DGRAD_DY},
    [PLUMB_DGRAD_W] = {"dgrad", "w", PLUMB_BACKWARD, PLUMB_FPROP_W},
    [PLUMB_WGRAD_DY] = {"wgrad", "dy", PLUMB_BACKWARD, PLUMB_DGRAD_DY},
    [PLUMB_WGRAD_X] = {"wgrad", "x", PLUMB_BACKWARD, PLUMB_FPROP_X},
};

static const operand attention_operands[PLUMB_ATTENTION_ROLES] = {
    [PLUMB_QK_Q] = {"qk", "q", PLUMB_FORWARD, PLUMB_QK_Q},
    [PLUMB_QK_K] = {"qk", "k", PLUMB_FORWARD, PLUMB_QK_K},
    [PLUMB_PV_P] = {"pv", "p", PLUMB_FORWARD, PLUMB_PV_P},
    [PLUMB_PV_V] = {"pv", "v", PLUMB_FORWARD, PLUMB_PV_V},
    [PLUMB_DP_DO] = {"dp", "do", PLUMB_BACKWARD, PLUMB_DP_DO},
    [PLUMB_DP_V] = {"dp", "v", PLUMB_BACKWARD, PLUMB_PV_V},
    [PLUMB_DV_P] = {"dv", "p", PLUMB_BACKWARD, PLUMB_PV_P},
    [PLUMB_DV_DO] = {"dv", "do", PLUMB_BACKWARD, PLUMB_DP_DO},
    [PLUMB_DQ_DS] = {"dq", "ds", PLUMB_BACKWARD, PLUMB_DQ_DS},
    [PLUMB_DQ_K] = {"dq", "k", PLUMB_BACKWARD, PLUMB_QK_K},
    [PLUMB_DK_DS] = {"dk", "ds", PLUMB_BACKWARD, PLUMB_DQ_DS},
    [PLUMB_DK_Q] = {"dk", "q", PLUMB_BACKWARD, PLUMB_QK_Q},
};

/* --- numbers ------------------------------------------------------------------------ */

size_t plumb_linear_site_count(const plumb_shape *s)
{
    return PLUMB_ROLES * (LAYER_LINEARS * s->layers + 1); /* and the head */
}

size_t site_attention(const plumb_shape *s, size_t layer, size_t role)
{
    return plumb_linear_site_count(s) + PLUMB_ATTENTION_ROLES * layer + role;
}

size_t site_softmax(const plumb_shape *s, size_t layer, size_t which)
{
    return site_attention(s, s->layers, 0) + SOFTMAX_SITES * layer + which;
}

size_t site_norm(const plumb_shape *s, size_t norm)
{
    return site_softmax(s, s->layers, 0) + norm;
}

size_t site_loss(const plumb_shape *s)
{
    return site_norm(s, NORMS_OF_LAYER * s->layers + 1);
}

size_t plumb_site_count(const plumb_shape *s)
{
    return site_loss(s) + 1;
}

/* --- names -------------------------------------------------------------------------- */

static void linear_site(const plumb_shape *s, size_t index, plumb_site *site)
{
    const size_t linear = index / PLUMB_ROLES;
    const operand *o = &linear_operands[index % PLUMB_ROLES];
    plumb_parameter p;

    *site = (plumb_site){.class_ = o->class_,
                         .layer = -1,
                         .linear = linear,
                         .role = index % PLUMB_ROLES,
                         .parameter = s->tied_head ? 0 : plumb_parameter_count(s) - 1,
                         .gemm = o->gemm,
                         .operand = o->name};
    if (linear < LAYER_LINEARS * s->layers) {
        const size_t layer = linear / LAYER_LINEARS;

        site->layer = (int)layer;
        site->parameter =
            1 + PLUMB_LAYER_PARAMETERS * layer + linear_parts[linear % LAYER_LINEARS];
    }
    plumb_parameter_get(s, site->parameter, &p);
    plumb_print(site->name, sizeof site->name, "%s/%s/%s",
                site->layer < 0 ? "head" : p.name, o->gemm, o->name);
}

static void attention_site(size_t index, plumb_site *site)
{
    const size_t layer = index / PLUMB_ATTENTION_ROLES;
    const operand *o = &attention_operands[index % PLUMB_ATTENTION_ROLES];

    *site = (plumb_site){.kind = PLUMB_SITE_ATTENTION,
                         .class_ = o->class_,
                         .layer = (int)layer,
                         .role = index % PLUMB_ATTENTION_ROLES,
                         .parameter = SIZE_MAX,
                         .gemm = o->gemm,
                         .operand = o->name};
    plumb_print(site->name, sizeof site->name, "layer.%zu/attn/%s/%s", layer, o->gemm,
                o->name);
}

static void softmax_site(size_t index, plumb_site *site)
{
    const bool sum = index % SOFTMAX_SITES == SOFTMAX_SUM;

    *site = (plumb_site){.kind = sum ? PLUMB_SITE_SUM : PLUMB_SITE_ELEMENTS,
                         .class_ = PLUMB_SOFTMAX,
                         .layer = (int)(index / SOFTMAX_SITES),
                         .parameter = SIZE_MAX,
                         .operand = sum ? "sum" : "numerator"};
    plumb_print(site->name, sizeof site->name, "layer.%d/softmax/%s", site->layer,
                site->operand);
}

static void norm_site(const plumb_shape *s, size_t norm, plumb_site *site)
{
    const size_t layer = norm / NORMS_OF_LAYER;
    const bool is_final = layer == s->layers;
    plumb_parameter p;

    *site = (plumb_site){.kind = PLUMB_SITE_SUM,
                         .class_ = PLUMB_NORM,
                         .layer = is_final ? -1 : (int)layer,
                         .parameter = 1 + PLUMB_LAYER_PARAMETERS * layer,
                         .operand = "squares"};
    if (norm % NORMS_OF_LAYER == 1)
        site->parameter += PLUMB_MLP_NORM;
    plumb_parameter_get(s, site->parameter, &p);
    plumb_print(site->name, sizeof site->name, "%s/norm/squares", p.name);
}

void plumb_site_get(const plumb_shape *s, size_t index, plumb_site *site)
{
    if (index < plumb_linear_site_count(s)) {
        linear_site(s, index, site);
    } else if (index < site_softmax(s, 0, 0)) {
        attention_site(index - site_attention(s, 0, 0), site);
    } else if (index < site_norm(s, 0)) {
        softmax_site(index - site_softmax(s, 0, 0), site);
    } else if (index < site_loss(s)) {
        norm_site(s, index - site_norm(s, 0), site);
    } else {
        *site = (plumb_site){.name = "head/loss/sum",
                             .kind = PLUMB_SITE_SUM,
                             .class_ = PLUMB_LOSS,
                             .layer = -1,
                             .parameter = SIZE_MAX,
                             .operand = "sum"};
    }
}

size_t site_first(size_t index)
{
    return index - index % PLUMB_ROLES + linear_operands[index % PLUMB_ROLES].first;
}

size_t plumb_product_count(const plumb_shape *s)
{
    return site_softmax(s, 0, 0) / 2;
}

void plumb_product_name(const plumb_shape *s, size_t product, char name[PLUMB_SITE_NAME])
{
    plumb_site site;

    plumb_site_get(s, 2 * product, &site);
    plumb_print(name, PLUMB_SITE_NAME, "%s", site.name);
    *strrchr(name, '/') = 0;
}

plumb_accumulator plumb_product_accumulator(const plumb_accumulator *how, plumb_format a,
                                            plumb_format b)
{
    const plumb_unit *unit = plumb_unit_get(how->kind);

    if (unit != NULL && plumb_unit_takes(unit, a, b, NULL) != PLUMB_OK)
        return (plumb_accumulator){.kind = PLUMB_SUM_FP32};
    return *how;
}

/* --- what they run in ----------------------------------------------------------------- */

/* True when the codes and scales do not depend on the axis that the product contracts. */
static bool orientation_free(const plumb_spec *spec)
{
    return !plumb_spec_is_scaled(spec) || !plumb_grain_turns(spec->grain);
}

size_t plumb_site_owner(const plumb_shape *shape, const plumb_spec *specs, size_t site)
{
    const size_t linears = plumb_linear_site_count(shape);
    size_t owner = site;

    if (site < linears) {
        owner = site_first(site);
    } else if (site < site_softmax(shape, 0, 0)) {
        const size_t role = (site - linears) % PLUMB_ATTENTION_ROLES;

        owner = site - role + attention_operands[role].first;
    }
    if (owner == site || !orientation_free(&specs[site]) ||
        !plumb_spec_equal(&specs[site], &specs[owner]))
        return site;
    return owner;
}

plumb_status plumb_site_takes(const plumb_site *site, const plumb_spec *spec,
                              plumb_error *why)
{
    char text[PLUMB_SPEC_TEXT];

    if (site->kind == PLUMB_SITE_LINEAR || site->kind == PLUMB_SITE_ATTENTION ||
        !plumb_spec_is_scaled(spec))
        return PLUMB_OK;
    if (spec->grain == PLUMB_GRAIN_TENSOR &&
        (spec->rule == PLUMB_SCALE_NONE || spec->rule == PLUMB_SCALE_STATIC))
        return PLUMB_OK;
    plumb_spec_print(spec, text);
    return plumb_fail(
        why, PLUMB_UNSUPPORTED,
        "site %s cannot use %s: what is rounded as it is computed has no amax yet; "
        "allowed: %s:none, or a static scale",
        site->name, text, plumb_format_get(spec->format)->name);
}
