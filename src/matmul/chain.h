/* matmul/chain.h - the parametric matrix unit, ready for one pair of formats.
 *
 * Operands come as terms: arrays of whole significands and exponents in the order in which the
 * unit adds them, padded with zeros to whole groups.
 */
#ifndef PLUMB_MATMUL_CHAIN_H
#define PLUMB_MATMUL_CHAIN_H

#include "plumb/matmul.h"

#include "matmul/parts.h"
#include "matmul/round.h"

typedef struct plumb_chain {
    size_t terms; /* of one fused addition */
    size_t group; /* K that belongs together: addend_every, or terms */
    bool fused;   /* C is a term */
    bool interleaved, as_fp16;
    int lift; /* fraction bits kept, less those of a product */
    int fraction_bits, floor;
    int nvfp4_bits;
    plumb_result result;
    uint32_t nan;
} plumb_chain;

/* What the unit makes of operands a and b, which it must take. */
plumb_chain plumb_chain_make(const plumb_unit *unit, plumb_format output, plumb_format a,
                             plumb_format b);

/* Terms of one operand; `special` when one of them is an infinity or NaN. */
typedef struct plumb_terms {
    const int16_t *m, *e;
    bool special;
} plumb_terms;

/* A code as the unit sees it. */
static inline plumb_parts plumb_chain_operand(const plumb_chain *chain,
                                              const plumb_format_info *format,
                                              uint32_t code)
{
    const plumb_parts parts = plumb_code_parts(format, code);

    return chain->as_fp16 ? plumb_parts_as_fp16(parts, format->fraction_bits) : parts;
}

/* Place of element k among the terms. */
size_t plumb_chain_slot(const plumb_chain *chain, size_t k);

/* c and then `count` products, a multiple of group, in round-to-nearest mode. */
float plumb_chain_run(const plumb_chain *chain, plumb_terms a, plumb_terms b, size_t count,
                      float c);

/* One fused addition: c and chain->terms products. */
float plumb_chain_step(const plumb_chain *chain, plumb_terms a, plumb_terms b, float c);

/* c + sum as IEEE does it in the format of the results, which both have. */
float plumb_chain_add(const plumb_chain *chain, float c, float sum);

/* c and up to four exact sums of e2m1 products with their scales: whole multiples of
 * 2^(e - 8), e being the exponent of both scales.
 */
float plumb_chain_chunks(const plumb_chain *chain, const plumb_parts *chunks, size_t n,
                         float c);

#endif
