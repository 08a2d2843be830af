/* Every variant of every cast, one row each.
 *
 * Dispatch, tests and benchmarks walk the same tables, so a kernel that is registered is
 * also checked and timed.  Rows of encode and decode lie in the order of plumb_format; of each
 * format the reference comes first and the fastest last.
 */
#ifndef PLUMB_KERNEL_CAST_H
#define PLUMB_KERNEL_CAST_H

#include "plumb/cast.h"

/* What plumb_cast_encode_measured has: source is fp32 or bf16, counts is never NULL, spectrum
 * may be, how->format is the row's.
 *
 * Or, if block is not 0, but 1 or a multiple of 16: scales[i / block] and decodes[i / block]
 * instead of those of *how for element i.  decodes is read only for a spectrum, and then as it
 * is: 0 is 0.  There may be more such rows of n elements, all under the same scales: element i of
 * row r is x[r * ld + i], has code r * code_ld + i and, of random words, number first + that.
 */
typedef struct plumb_encode_job {
    const plumb_cast *how;
    plumb_format source;
    const void *x;
    size_t n;
    void *codes;
    plumb_counts *counts;
    plumb_spectrum *spectrum;
    size_t block;
    const float *scales, *decodes;
    const float *amax; /* of the blocks, if it is known and none holds a NaN; else NULL */
    size_t rows, ld, code_ld; /* rows: 0 for one */
} plumb_encode_job;

typedef void plumb_encode_fn(const plumb_encode_job *job);
typedef void plumb_decode_fn(plumb_format format, float scale, const void *codes, size_t n,
                             float *x);
typedef float plumb_amax_fn(const float *x, size_t n);
typedef float plumb_amax_bf16_fn(const uint16_t *x, size_t n);

typedef struct plumb_encode_kernel {
    plumb_format format;
    unsigned cpu; /* PLUMB_CPU_* bits that it needs */
    const char *name;
    plumb_encode_fn *run;
} plumb_encode_kernel;

typedef struct plumb_decode_kernel {
    plumb_format format;
    unsigned cpu;
    const char *name;
    plumb_decode_fn *run;
} plumb_decode_kernel;

/* The same of each of the blocks that `rows` rows of n elements make, each all rows high and
 * `block` wide; the last may be narrower.  True if there is no NaN.
 */
typedef bool plumb_amax_blocks_fn(plumb_format source, const void *x, size_t rows,
                                  size_t ld, size_t n, size_t block, float *amax);

typedef struct plumb_amax_kernel {
    unsigned cpu;
    const char *name;
    plumb_amax_fn *run;
    plumb_amax_bf16_fn *run_bf16;
    plumb_amax_blocks_fn *run_blocks;
} plumb_amax_kernel;

/* By the fastest kernel that this CPU may run; the arguments are the caller's business. */
void plumb_cast_run(const plumb_encode_job *job);
bool plumb_cast_amax_blocks(plumb_format source, const void *x, size_t rows, size_t ld,
                            size_t n, size_t block, float *amax);

extern const plumb_encode_kernel plumb_encode_kernels[];
extern const size_t plumb_encode_kernel_count;
extern const plumb_decode_kernel plumb_decode_kernels[];
extern const size_t plumb_decode_kernel_count;
extern const plumb_amax_kernel plumb_amax_kernels[];
extern const size_t plumb_amax_kernel_count;

/* The entry points of one instruction set: cast_ref.c, cast_avx2.c, cast_avx512.c.  Formats
 * without one of their own share `signed8`, whose rule is read at run time.
 */
#define PLUMB_CAST_VARIANT(isa)                                                            \
    plumb_encode_fn plumb_encode_e4m3_##isa, plumb_encode_e5m2_##isa,                      \
        plumb_encode_bf16_##isa, plumb_encode_fp16_##isa, plumb_encode_fp32_##isa,         \
        plumb_encode_tf32_##isa, plumb_encode_e8m0_##isa, plumb_encode_ue4m3_##isa,        \
        plumb_encode_signed8_##isa;                                                        \
    plumb_decode_fn plumb_decode_e4m3_##isa, plumb_decode_e5m2_##isa,                      \
        plumb_decode_bf16_##isa, plumb_decode_fp16_##isa, plumb_decode_fp32_##isa,         \
        plumb_decode_tf32_##isa, plumb_decode_table_##isa;                                 \
    plumb_amax_fn plumb_amax_##isa;                                                        \
    plumb_amax_bf16_fn plumb_amax_bf16_##isa;                                              \
    plumb_amax_blocks_fn plumb_amax_blocks_##isa

PLUMB_CAST_VARIANT(ref);
PLUMB_CAST_VARIANT(avx2);
PLUMB_CAST_VARIANT(avx512);

/* Written for AVX-512: amax_avx512.c. */
plumb_amax_fn plumb_amax_direct_avx512;
plumb_amax_bf16_fn plumb_amax_bf16_direct_avx512;
plumb_amax_blocks_fn plumb_amax_blocks_direct_avx512;

/* Any of e4m3, e5m2, e3m2, e2m3 and e2m1: fused_avx512.c. */
plumb_encode_fn plumb_encode_fused_avx512;

#endif
