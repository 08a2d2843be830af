/* plumb/quant.h - from a recipe to codes and scales.
 *
 * A spec says how one operand is quantised.  plumb_quantize turns a matrix into a
 * plumb_quantized: codes, scales, and how they lie.  Functions are pure
 * except that a plumb_scale_state belongs to one site and one thread at a time.
 *
 * s is always the encode multiplier (code = cast(x * s)) and d the decode multiplier
 * (x^ = code * d).
 *
 * Where the rules come from; the comments below say which is meant:
 *
 *   TransformerEngine  github.com/NVIDIA/TransformerEngine at d0067d0, transformer_engine/common:
 *                      DelayedScaling recipe/delayed_scaling.cu, the fused update;
 *                      Float8CurrentScaling recipe/recipe_common.cuh;
 *                      MXFP8BlockScaling util/ptx.cuh, float_to_e8m0;
 *                      NVFP4BlockScaling cast/nvfp4/core_nvfp4.cuh (and arXiv 2509.25149)
 *   DeepSeek-V3        arXiv 2412.19437, section 3.3, and its inference/kernel.py; DeepGEMM,
 *                      github.com/deepseek-ai/DeepGEMM at 54e2261, deep_gemm/utils/math.py
 *   OCP MX             OCP Microscaling Formats (MX) Specification 1.0, section 6.3
 *   torchao            github.com/pytorch/ao at 36027d8, prototype/mx_formats/mx_tensor.py
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
    PLUMB_GRAIN_MX32, /* one E8M0 scale per 32 elements along the contraction axis (OCP MX) */

    /* One UE4M3 scale per 16 elements along the contraction axis, and one fp32 scale for the
     * tensor (TransformerEngine's NVFP4BlockScaling).
     */
    PLUMB_GRAIN_NVFP4,
} plumb_grain;

/* Elements along the contraction axis that share a scale: 128, 32, 16; 0 for TENSOR and ROW. */
size_t plumb_grain_length(plumb_grain grain);

/* How the E8M0 scale of an MX block comes from its amax A; emax is the exponent of the element
 * format's largest value.  The first three are torchao's ScaleCalculationMode of that name.
 */
typedef enum plumb_mx_rounding {
    PLUMB_MX_FLOOR = 0, /* floor(log2 A) - emax (OCP MX 1.0); elements may saturate */
    PLUMB_MX_CEIL,      /* one more where A is no power of two */
    PLUMB_MX_EVEN,      /* floor of A rounded to the element's fraction bits, half up */
    PLUMB_MX_RCEIL,     /* ceil(log2(fp32(A * fp32(1 / largest)))) (TransformerEngine) */
} plumb_mx_rounding;

/* The E8M0 code of a block of amax A >= 0: the exponent above plus 127, by integer arithmetic
 * on the bits of A (an fp32 logarithm is wrong just below 2^k), held within 0 and 254.  So A = 0 and every A
 * too small give 0.  An infinite A gives 254 and NaN 255 with each rounding: TransformerEngine's
 * rule for RCEIL (cvt.rp.satfinite), taken for all four.  torchao has 255 for infinity too, so
 * that the whole block is NaN there; here the finite values of such a block are flushed and
 * the infinity comes back.  255 if element has no row in the table of formats.
 */
uint8_t plumb_mx_scale(plumb_mx_rounding rounding, plumb_format element, float amax);

typedef enum plumb_scale_rule {
    PLUMB_SCALE_NONE = 0, /* s = 1 */
    PLUMB_SCALE_STATIC,   /* s given in the recipe */
    PLUMB_SCALE_CURRENT,  /* from the amax of this very tensor or block */
    PLUMB_SCALE_DELAYED,  /* from the amax history of earlier steps; per tensor only */
} plumb_scale_rule;

enum { PLUMB_MAX_HISTORY = 1024, PLUMB_BLOCK = 128, PLUMB_SPEC_TEXT = 128 };

/* How one operand is quantised.  fp32, tf32, bf16 and fp16 have neither grain nor scale rule, and
 * what is past their largest finite value becomes infinity; all fields but `rounding` and `dither`
 * are then ignored, and of fp32 these two.  e8m0 and ue4m3 are formats of scales and refused.
 *
 * divide: d = max(amax, amax_floor) / largest * 2^margin and codes of x / d.  amax 0 without a
 * floor gives d = 1, an infinite amax d = infinity, so that all of the block decodes to NaN
 * (DeepSeek-V3, DeepGEMM).  power_of_two then rounds d up, within 2^-126 and 2^127.
 *
 * MX32 and NVFP4 go with rule CURRENT, have scale rules of their own and use neither margin,
 * power_of_two, divide nor amax_floor.  NVFP4 goes with e2m1 and is TransformerEngine's, every
 * operation one fp32 rounding:
 *
 *   S = min(6 * 448 / amax of the tensor, FLT_MAX); 1 if that amax is 0 or infinite
 *   b = UE4M3 of min(amax of the block * (S * fp32(1/6)), FLT_MAX), nearest even, saturating
 *   d = b,  d_tensor = 1 / S,  code = cast(x * min(1 / (b * d_tensor), FLT_MAX))
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
    bool divide;        /* CURRENT: d from amax, as DeepSeek's kernel does; see above */
    float amax_floor;   /* CURRENT, DELAYED: amax below this counts as this; 0: no floor */
    plumb_mx_rounding mx;    /* MX32: how the scale is rounded */
    plumb_rounding rounding; /* what the cast does between two codes */
    plumb_dither dither;     /* STOCHASTIC: with how many bits */
} plumb_spec;

/* The textual form, used in recipes, policies, logs and run.json alike:
 *
 *   FORMAT[:ATTRIBUTE]...
 *   FORMAT     fp32 tf32 bf16 fp16 e4m3 e5m2 e4m3fnuz e5m2fnuz e3m2 e2m3 e2m1
 *   ATTRIBUTE  tensor row 1x128 128x128 mx32 nvfp4         grain       (default tensor)
 *              none static=S current delayed               scale rule  (default current)
 *              history=N margin=N max recent               of the rule (16, 0, max)
 *              saturate overflow                           the cast    (default saturate)
 *              pow2 nopow2 divide multiply floor=A
 *              mx-floor mx-ceil mx-even mx-rceil           scales of mx32 (default mx-rceil)
 *              rne toward-zero stochastic                  rounding    (default rne)
 *              stochastic8 stochastic8-centred             with 8 bits (plumb_dither)
 *
 * Attributes not given are taken from *base when base is not NULL and its format is one that
 * takes attributes (so "e5m2" keeps the site's own scale rule, and "e4m3:current" changes
 * only the rule), else from the defaults.  fp32 takes no
 * attributes; tf32, bf16 and fp16 take a rounding and nothing else, and inherit none.
 *
 * Numbers are decimal ("0.5", "1e-4"), whatever the locale.  What goes by itself with one
 * rule, grain or format only (history with delayed, mx-floor with mx32, nvfp4 with e2m1, ...)
 * is refused where it was written under another and forgotten where it was inherited; delayed
 * with any grain but tensor, mx32 and nvfp4 with any rule but current, and divide without
 * current are refused.  No attribute may be given twice.
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

/* s for an amax, as TransformerEngine's DelayedScaling and Float8CurrentScaling compute it:
 * largest * 2^-margin / amax; amax below amax_floor counts as the floor; amax 0 or not finite gives
 * `otherwise` (1 for current scaling, the previous scale for delayed); an infinite
 * quotient becomes FLT_MAX, one below 2^-126 (a large margin) 2^-126; power_of_two then masks
 * the mantissa.  spec->divide plays no part here.
 */
float plumb_scale_from_amax(const plumb_spec *spec, float amax, float otherwise);

/* --- delayed scaling ------------------------------------------------------ */

/* State of one site (TransformerEngine's DelayedScaling).  Plain data: it is
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
 * ld (elements), one code to a byte for formats of 8 bits and fewer; both matmul orientations
 * read the same bytes.  d, the decode scales, in the order of the blocks, rows of blocks first:
 *   TENSOR   d[0]
 *   128X128  d[(row/128) * ceil(cols/128) + col/128]
 *   ROW      along columns: d[row]                            along rows: d[col]
 *   1X128    along columns: d[row * ceil(cols/L) + col/L]     along rows: d[(row/L) * cols + col]
 *   MX32, NVFP4: as 1X128 with L = 32, 16 for 128
 * Scales are data of their own so that a stale or wrong one can be represented.  E8M0 and
 * UE4M3 scales are stored as their values: 2^-127 is the subnormal 0x00400000, NaN is NaN.
 */
typedef struct plumb_quantized {
    plumb_format format;
    plumb_grain grain;
    bool along_rows; /* the contraction axis is the row index: blocks run down the rows */
    size_t rows, cols, ld;
    void *codes;    /* format_info.bytes each */
    float *d;       /* NULL: every scale is 1 (unscaled formats, rule none) */
    float d_tensor; /* NVFP4: second factor of every scale, x^ = code * d * d_tensor */
} plumb_quantized;

/* Bytes needed for the codes, and number of decode scales, of a [rows, cols] matrix.
 * PLUMB_BAD_SHAPE when either product does not fit in memory.
 */
plumb_status plumb_quantized_need(const plumb_spec *spec, size_t rows, size_t cols,
                                  bool along_rows, size_t *code_bytes, size_t *scale_count,
                                  plumb_error *why);

/* Number of decode scales of q; 0 when d is NULL. */
size_t plumb_quantized_scale_count(const plumb_quantized *q);

/* A matrix that is only read: element (row, col) is x[row * ld + col]. */
typedef struct plumb_source {
    plumb_format format; /* PLUMB_FP32 (float) or PLUMB_BF16 (uint16_t) */
    const void *x;       /* NULL only if there are no elements */
    size_t rows, cols, ld;
} plumb_source;

/* Which random bits a stochastic rounding uses: see plumb/random.h. */
typedef struct plumb_draw {
    uint64_t seed, stream;
} plumb_draw;

/* The copies that one reading of a source makes.  Each is optional; codes and d point to
 * memory of the size that plumb_quantized_need gives, all other fields are set.
 */
typedef struct plumb_copies {
    plumb_quantized *along_columns;           /* contracted over the columns */
    plumb_quantized *along_rows;              /* contracted over the rows */
    plumb_counts *column_counts, *row_counts; /* of each copy; NULL: not wanted */

    /* Of the source, once; its error energy is that of the copy along columns, of the other
     * where there is none.  NULL: not wanted.
     */
    plumb_spectrum *spectrum;
} plumb_copies;

/* Quantises a source into up to two copies, tile by tile: a tile is read into the cache once and
 * both copies are written from it.  (Only a scale that needs the amax of more than some rows
 * makes a pass of its own: current with TENSOR, with ROW along rows, and NVFP4.)
 *
 * Where the codes do not depend on the axis (TENSOR, 128X128, no scales) the two copies are the
 * same codes and scales, row-major both, drawn once if the rounding is stochastic.  Otherwise
 * each copy has codes and scales of its own.  Partial blocks at the edges have their own scale.
 * d is set to NULL when there are no scales.
 *
 * state: required for DELAYED with update; its scale is used, whatever it is, and its
 * pending amax raised.  With update false the state is read but not changed (validation,
 * shadow passes), and NULL stands for a state that has seen nothing (s = 1).  Other rules
 * ignore it.
 *
 * draw: required for stochastic rounding, else ignored.  Element (row, col) uses word
 * i mod 4 of block i / 4 of the draw with i = row * cols + col.  A copy along rows that has codes
 * of its own has i = col * rows + row and the stream PLUMB_STREAM_ALONG_ROWS ^ stream instead, so
 * that the two copies never share bits (TransformerEngine once did: its pull request 2487).
 *
 * PLUMB_BAD_FORMAT for other sources, PLUMB_BAD_SHAPE when ld < cols or sizes overflow,
 * PLUMB_BAD_ARGUMENT when state or draw is missing; nothing is written then.
 */
#define PLUMB_STREAM_ALONG_ROWS UINT64_C(0x9e3779b97f4a7c15)
plumb_status plumb_quantize_copies(const plumb_spec *spec, const plumb_source *source,
                                   const plumb_draw *draw, plumb_scale_state *state,
                                   bool update, const plumb_copies *copies,
                                   plumb_error *why);

/* The same for one copy of a contiguous fp32 matrix.  along_rows says which axis the product
 * will contract (false: columns); counts may be NULL.  A stochastic spec is refused with
 * PLUMB_BAD_ARGUMENT: it has no draw.
 */
plumb_status plumb_quantize(const plumb_spec *spec, const float *x, size_t rows,
                            size_t cols, bool along_rows, plumb_scale_state *state,
                            bool update, plumb_quantized *out, plumb_counts *counts,
                            plumb_error *why);

/* x[rows, cols] (contiguous) = codes * d (NVFP4: times d_tensor), each product one fp32
 * rounding; every NaN is 0x7FC00000.  PLUMB_BAD_SHAPE when ld < cols or sizes overflow.
 */
plumb_status plumb_dequantize(const plumb_quantized *q, float *x, plumb_error *why);

/* Smallest and largest s = 1/d over the blocks of q (NVFP4: 1/(d * d_tensor); infinite for a
 * block scale of 0); 1, 1 when d is NULL.
 */
void plumb_quantized_scale_range(const plumb_quantized *q, float *least, float *largest);

#ifdef __cplusplus
}
#endif
#endif
