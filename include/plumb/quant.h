/* plumb/quant.h - from a recipe to codes and scales.
 *
 * A spec says how one operand is quantised.  plumb_quantize turns a matrix into a
 * plumb_quantized: codes, scales, and the spec that made them.  Functions are pure
 * except that a plumb_scale_state belongs to one site and one thread at a time.
 *
 * s is always the encode multiplier (code = cast(x * s)) and d the decode multiplier
 * (x^ = code * d).
 */
#ifndef PLUMB_QUANT_H
#define PLUMB_QUANT_H

#include "plumb/cast.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The part of a matrix that shares a scale.  Blocks start at multiples of their length; the
 * last of a row or column may be shorter.  Append only.
 */
typedef enum plumb_grain {
    PLUMB_GRAIN_TENSOR = 0, /* one scale */
    PLUMB_GRAIN_1X128,      /* one per 128 elements along the contraction axis */
    PLUMB_GRAIN_128X128,    /* one per square block */
    PLUMB_GRAIN_ROW,        /* one per outer index: all of the contraction axis */
    PLUMB_GRAIN_MX32,       /* one E8M0 scale per 32 elements along the contraction axis (OCP MX) */
    PLUMB_GRAIN_NVFP4, /* one UE4M3 scale per 16 elements along the contraction axis, and one
                          fp32 scale for the tensor (recipes R5) */
} plumb_grain;

/* Elements along the contraction axis that share a scale: 128, 32, 16; 0 for TENSOR and ROW. */
size_t plumb_grain_length(plumb_grain grain);

/* How the E8M0 scale of an MX block comes from its amax A (recipes 1.5); emax is the
 * exponent of the element format's largest value.
 */
typedef enum plumb_mx_rounding {
    PLUMB_MX_FLOOR = 0, /* floor(log2 A) - emax (OCP MX 1.0); elements may saturate */
    PLUMB_MX_CEIL,      /* one more where A is no power of two */
    PLUMB_MX_EVEN,      /* floor of A rounded to the element's fraction bits, half up */
    PLUMB_MX_RCEIL,     /* ceil(log2(A * fp32(1 / largest))) (TransformerEngine) */
} plumb_mx_rounding;

/* The E8M0 code of a block of amax A >= 0, 0 to 254, or 255 for NaN, and also for infinity with
 * RCEIL as torchao has it... see the implementation notes in docs/formats.md.
 */
uint8_t plumb_mx_scale(plumb_mx_rounding rounding, plumb_format element, float amax);

typedef enum plumb_scale_rule {
    PLUMB_SCALE_NONE = 0, /* s = 1 */
    PLUMB_SCALE_STATIC,   /* s given in the recipe */
    PLUMB_SCALE_CURRENT,  /* from the amax of this very tensor or block */
    PLUMB_SCALE_DELAYED,  /* from the amax history of earlier steps; per tensor only */
} plumb_scale_rule;

enum { PLUMB_MAX_HISTORY = 1024, PLUMB_BLOCK = 128, PLUMB_SPEC_TEXT = 96 };

/* How one operand is quantised.  fp32 and bf16 have neither grain nor scale rule, and what
 * is past their largest finite value becomes infinity; all other fields are then ignored.
 *
 * divide: d = max(amax, amax_floor) / largest * 2^margin and codes of x / d.  amax 0 without a
 * floor gives d = 1, an infinite amax d = infinity, so that all of the block decodes to NaN
 * (recipes R6).  power_of_two then rounds d up, within 2^-126 and 2^127.
 */
typedef struct plumb_spec {
    plumb_format format;
    plumb_grain grain;
    plumb_scale_rule rule;
    float static_scale; /* STATIC: s */
    int history;        /* DELAYED: window length, 1 to PLUMB_MAX_HISTORY */
    int margin;         /* CURRENT, DELAYED: s is divided by 2^margin, 0 to 32 */
    bool most_recent;   /* DELAYED: the newest amax instead of the window's maximum */
    bool saturate;      /* what the cast does past the largest finite value */
    bool power_of_two;  /* s rounded down to a power of two (mantissa masked) */
    bool divide;        /* CURRENT: DeepSeek's kernel, see below */
    float amax_floor;   /* CURRENT, DELAYED: amax below this counts as this; 0: no floor */
    plumb_mx_rounding mx; /* MX32: how the scale is rounded */
    plumb_rounding rounding; /* what the cast does between two codes */
    plumb_dither dither;     /* STOCHASTIC: with how many bits */
} plumb_spec;

/* The textual form, used in recipes, policies, logs and run.json alike:
 *
 *   FORMAT[:ATTRIBUTE]...
 *   FORMAT     fp32 bf16 e4m3 e5m2
 *   ATTRIBUTE  tensor 1x128 128x128            grain          (default tensor)
 *              none static=S current delayed    scale rule     (default current)
 *              history=N margin=N max recent    of the rule    (16, 0, max)
 *              saturate overflow                the cast       (default saturate)
 *              pow2 nopow2 divide multiply floor=A
 *
 * Attributes not given are taken from *base when base is not NULL and base is an
 * 8-bit format (so "e5m2" keeps the site's own scale rule, and "e4m3:current" changes
 * only the rule), else from the defaults.  "fp32" and "bf16" take no attributes.
 *
 * Numbers are decimal ("0.5", "1e-4"), whatever the locale.  What goes by itself with one
 * rule only (history with delayed, ...) is refused where it was written under another and
 * forgotten where it was inherited; delayed with a block grain and divide without current are
 * refused.  No attribute may be given twice.
 *
 * PLUMB_BAD_INPUT with a sentence that names the word and what is allowed; text longer
 * than PLUMB_SPEC_TEXT - 1 is refused.  *spec is untouched on failure.
 */
plumb_status plumb_spec_parse(const char *text, const plumb_spec *base, plumb_spec *spec,
                              plumb_error *why);

/* Canonical text of spec; what parse (with base NULL) reads back as the same spec: format,
 * grain, rule, and then only what differs from the defaults.
 */
void plumb_spec_print(const plumb_spec *spec, char text[PLUMB_SPEC_TEXT]);

/* The same arithmetic: fields that the format or the rule do not use are not compared. */
bool plumb_spec_equal(const plumb_spec *a, const plumb_spec *b);

/* s for an amax, as TransformerEngine computes it (recipes R1, R2): largest * 2^-margin
 * / amax; amax below amax_floor counts as the floor; amax 0 or not finite gives
 * `otherwise` (1 for current scaling, the previous scale for delayed); an infinite
 * quotient becomes FLT_MAX, one below 2^-126 (a large margin) 2^-126; power_of_two then masks
 * the mantissa.  spec->divide plays no part here.
 */
float plumb_scale_from_amax(const plumb_spec *spec, float amax, float otherwise);

/* --- delayed scaling ------------------------------------------------------ */

/* State of one site (TransformerEngine DelayedScaling, recipes R1).  Plain data: it is
 * written to checkpoints, hashed, and may be changed between steps by whoever wants to
 * plant a fault.  Initialise with plumb_scale_state_init.
 */
typedef struct plumb_scale_state {
    float scale;   /* s in use until the next update; 1 at first */
    float pending; /* largest amax seen since the last update; -1 when none was seen */
    int count;     /* valid entries of history */
    float history[PLUMB_MAX_HISTORY]; /* newest first */
} plumb_scale_state;

void plumb_scale_state_init(plumb_scale_state *state);

/* Once a step, after backward.  Pushes pending into the history and derives the next
 * scale from the window (maximum, or newest).  TransformerEngine's rules (fused path):
 * pending absent or 0 neither rolls the history nor moves the scale; a result of amax 0
 * or not finite keeps the scale, though an infinite amax does enter the history.
 */
void plumb_scale_state_update(plumb_scale_state *state, const plumb_spec *spec);

/* --- a quantised matrix --------------------------------------------------- */

/* A matrix [rows, cols] as codes and scales.  Codes are row-major with leading dimension
 * ld (elements); both matmul orientations read the same bytes.  d, the decode scales:
 *   TENSOR   d[0]
 *   1X128    along columns: d[row * ceil(cols/128) + col/128]
 *            along rows:    d[(row/128) * cols + col]
 *   128X128  d[(row/128) * ceil(cols/128) + col/128]
 * Scales are data of their own so that a stale or wrong one can be represented.
 */
typedef struct plumb_quantized {
    plumb_format format;
    plumb_grain grain;
    bool along_rows; /* 1X128: the contraction axis is the row index (blocks of 128 rows) */
    size_t rows, cols, ld;
    void *codes; /* uint8_t, uint16_t or float by format */
    float *d;    /* NULL: every scale is 1 (fp32, bf16, rule none) */
} plumb_quantized;

/* Bytes needed for the codes, and number of decode scales, of a [rows, cols] matrix. */
plumb_status plumb_quantized_need(const plumb_spec *spec, size_t rows, size_t cols,
                                  bool along_rows, size_t *code_bytes, size_t *scale_count,
                                  plumb_error *why);

/* Number of decode scales of q; 0 when d is NULL. */
size_t plumb_quantized_scale_count(const plumb_quantized *q);

/* Quantises x[rows, cols] (row-major, contiguous) into out, whose codes and d point to
 * memory of the size that plumb_quantized_need gives; all other fields are set here.
 * along_rows says which axis the product will contract (false: columns).
 *
 * state: required for DELAYED with update; its scale is used, whatever it is, and its
 * pending amax raised.  With update false the state is read but not changed (validation,
 * shadow passes), and NULL stands for a state that has seen nothing (s = 1).  Other rules
 * ignore it.  counts may be NULL.  Partial blocks at the edges have their own scale.
 * out->d is set to NULL when there are no scales.
 */
plumb_status plumb_quantize(const plumb_spec *spec, const float *x, size_t rows,
                            size_t cols, bool along_rows, plumb_scale_state *state,
                            bool update, plumb_quantized *out, plumb_counts *counts,
                            plumb_error *why);

/* x[rows, cols] (contiguous) = codes * d, each with one fp32 rounding. */
plumb_status plumb_dequantize(const plumb_quantized *q, float *x, plumb_error *why);

/* Smallest and largest s = 1/d over the blocks of q (1, 1 when d is NULL). */
void plumb_quantized_scale_range(const plumb_quantized *q, float *least, float *largest);

#ifdef __cplusplus
}
#endif
#endif
