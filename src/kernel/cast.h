/* Every variant of every cast, one row each.
 *
 * Dispatch, tests and benchmarks walk the same tables, so a kernel that is registered is
 * also checked and timed.  In each table the reference of a format comes first and the
 * fastest variant last.
 */
#ifndef PLUMB_KERNEL_CAST_H
#define PLUMB_KERNEL_CAST_H

#include "plumb/cast.h"

/* codes as plumb_cast_encode has them; counts is never NULL, how->format is the row's. */
typedef void plumb_encode_fn(const plumb_cast *how, const float *x, size_t n, void *codes,
                             plumb_counts *counts);
typedef void plumb_decode_fn(float scale, const void *codes, size_t n, float *x);
typedef float plumb_amax_fn(const float *x, size_t n);

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

typedef struct plumb_amax_kernel {
    unsigned cpu;
    const char *name;
    plumb_amax_fn *run;
} plumb_amax_kernel;

extern const plumb_encode_kernel plumb_encode_kernels[];
extern const size_t plumb_encode_kernel_count;
extern const plumb_decode_kernel plumb_decode_kernels[];
extern const size_t plumb_decode_kernel_count;
extern const plumb_amax_kernel plumb_amax_kernels[];
extern const size_t plumb_amax_kernel_count;

/* The entry points of one instruction set: cast_ref.c, cast_avx2.c, cast_avx512.c. */
#define PLUMB_CAST_VARIANT(isa)                                                            \
    plumb_encode_fn plumb_encode_e4m3_##isa, plumb_encode_e5m2_##isa,                      \
        plumb_encode_bf16_##isa, plumb_encode_fp32_##isa;                                  \
    plumb_decode_fn plumb_decode_e4m3_##isa, plumb_decode_e5m2_##isa,                      \
        plumb_decode_bf16_##isa, plumb_decode_fp32_##isa;                                  \
    plumb_amax_fn plumb_amax_##isa

PLUMB_CAST_VARIANT(ref);
PLUMB_CAST_VARIANT(avx2);
PLUMB_CAST_VARIANT(avx512);

#endif
