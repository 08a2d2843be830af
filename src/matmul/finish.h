/* matmul/finish.h - what follows all of K, once for each result; and where old C enters. */
#ifndef PLUMB_MATMUL_FINISH_H
#define PLUMB_MATMUL_FINISH_H

#include "matmul/product.h"
#include "matmul/round.h"

typedef struct plumb_ending {
    bool joined;  /* blocks are joined in fp32 */
    bool entered; /* old C is part of the sum */
    plumb_result result;
    uint32_t nan;
    float a_tensor, b_tensor;
} plumb_ending;

static inline plumb_ending plumb_ending_of(const plumb_product *of)
{
    const plumb_unit *unit = plumb_unit_get(of->how->kind);
    const bool half = of->how->output == PLUMB_FP16;
    const bool joined = of->scaling.block > 0 && (unit != NULL || of->how->promote128);
    const bool scaled = unit != NULL && (of->scaling.at_end || of->scaling.tensor);

    return (plumb_ending){.joined = joined,
                          .entered = of->accumulate && !joined && !scaled,
                          .result = half ? plumb_to_fp16 : plumb_to_fp32,
                          .nan = unit == NULL ? 0x7fc00000u
                                 : half       ? unit->nan_fp16
                                              : unit->nan_fp32,
                          .a_tensor = plumb_operand_tensor_scale(of->a),
                          .b_tensor = plumb_operand_tensor_scale(of->b)};
}

/* C with which the sum of a unit begins. */
static inline float plumb_ending_first(const plumb_ending *ending, float old)
{
    if (!ending->entered)
        return 0;
    return ending->result.format == PLUMB_FP16 ? plumb_round_fp16(old) : old;
}

/* Results are sums as they are, but for the NaN. */
static inline bool plumb_ending_is_plain(const plumb_ending *ending,
                                         const plumb_product *of)
{
    return !of->scaling.at_end && !of->scaling.tensor &&
           (!of->accumulate || ending->entered) && ending->result.format == PLUMB_FP32;
}

/* The result from its sum, the scales of all of K, and old C. */
static inline float plumb_ending_last(const plumb_ending *ending, const plumb_product *of,
                                      float x, float da, float db, float old)
{
    if (of->scaling.at_end)
        x = fmaf(x, da * db, 0);
    if (of->scaling.tensor)
        x = fmaf(x, ending->a_tensor * ending->b_tensor, 0);
    if (of->accumulate && !ending->entered)
        x = old + x;
    if (ending->result.format == PLUMB_FP16)
        x = plumb_round_fp16(x);
    return x != x ? float_of(ending->nan) : x;
}

#endif
