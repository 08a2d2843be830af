/* The face of the casts: checks, then the fastest variant that this CPU may run. */
#include "kernel/cast.h"

#if defined(__x86_64__)
#define VARIANTS(row, f, F)                                                                \
    row(f, F, ref, BASELINE), row(f, F, avx2, AVX2), row(f, F, avx512, AVX512)
#else
#define VARIANTS(row, f, F) row(f, F, ref, BASELINE)
#endif

#define ENCODE(f, F, isa, ISA)                                                             \
    {                                                                                      \
        PLUMB_##F, PLUMB_CPU_##ISA, #f "/" #isa, plumb_encode_##f##_##isa                  \
    }
#define DECODE(f, F, isa, ISA)                                                             \
    {                                                                                      \
        PLUMB_##F, PLUMB_CPU_##ISA, #f "/" #isa, plumb_decode_##f##_##isa                  \
    }
#define AMAX(f, F, isa, ISA)                                                               \
    {                                                                                      \
        PLUMB_CPU_##ISA, "amax/" #isa, plumb_amax_##isa                                    \
    }

const plumb_encode_kernel plumb_encode_kernels[] = {
    VARIANTS(ENCODE, fp32, FP32),
    VARIANTS(ENCODE, bf16, BF16),
    VARIANTS(ENCODE, e4m3, E4M3),
    VARIANTS(ENCODE, e5m2, E5M2),
};
const size_t plumb_encode_kernel_count =
    sizeof plumb_encode_kernels / sizeof plumb_encode_kernels[0];

const plumb_decode_kernel plumb_decode_kernels[] = {
    VARIANTS(DECODE, fp32, FP32),
    VARIANTS(DECODE, bf16, BF16),
    VARIANTS(DECODE, e4m3, E4M3),
    VARIANTS(DECODE, e5m2, E5M2),
};
const size_t plumb_decode_kernel_count =
    sizeof plumb_decode_kernels / sizeof plumb_decode_kernels[0];

const plumb_amax_kernel plumb_amax_kernels[] = {
    VARIANTS(AMAX, , ),
};
const size_t plumb_amax_kernel_count =
    sizeof plumb_amax_kernels / sizeof plumb_amax_kernels[0];

void plumb_counts_add(plumb_counts *into, const plumb_counts *counts)
{
    into->total += counts->total;
    into->saturated += counts->saturated;
    into->clipped += counts->clipped;
    into->flushed += counts->flushed;
    into->zero += counts->zero;
    into->nonfinite += counts->nonfinite;
    if (counts->amax > into->amax)
        into->amax = counts->amax;
    if (counts->code_amax > into->code_amax)
        into->code_amax = counts->code_amax;
}

/* The scale must be 1 where the format takes none. */
static plumb_status check_scale(plumb_format format, float scale)
{
    if ((unsigned)format >= PLUMB_FORMAT_COUNT)
        return PLUMB_BAD_FORMAT;
    if ((format == PLUMB_FP32 || format == PLUMB_BF16) && scale != 1.0f)
        return PLUMB_BAD_ARGUMENT;
    return PLUMB_OK;
}

plumb_status plumb_cast_encode(const plumb_cast *how, const float *x, size_t n, void *codes,
                               plumb_counts *counts)
{
    const plumb_status status = check_scale(how->format, how->scale);
    const unsigned cpu = plumb_cpu_flags();
    plumb_encode_fn *run = NULL;
    plumb_counts unused = {0};

    if (status != PLUMB_OK)
        return status;
    for (size_t i = 0; i < plumb_encode_kernel_count; i++) {
        const plumb_encode_kernel *k = &plumb_encode_kernels[i];

        if (k->format == how->format && (k->cpu & ~cpu) == 0)
            run = k->run;
    }
    if (run == NULL)
        return PLUMB_BAD_FORMAT;
    run(how, x, n, codes, counts != NULL ? counts : &unused);
    return PLUMB_OK;
}

plumb_status plumb_cast_decode(plumb_format format, float scale, const void *codes,
                               size_t n, float *x)
{
    const unsigned cpu = plumb_cpu_flags();
    plumb_decode_fn *run = NULL;

    if ((unsigned)format >= PLUMB_FORMAT_COUNT)
        return PLUMB_BAD_FORMAT;
    for (size_t i = 0; i < plumb_decode_kernel_count; i++) {
        const plumb_decode_kernel *k = &plumb_decode_kernels[i];

        if (k->format == format && (k->cpu & ~cpu) == 0)
            run = k->run;
    }
    if (run == NULL)
        return PLUMB_BAD_FORMAT;
    run(scale, codes, n, x);
    return PLUMB_OK;
}

float plumb_cast_amax(const float *x, size_t n)
{
    const unsigned cpu = plumb_cpu_flags();
    plumb_amax_fn *run = NULL;

    for (size_t i = 0; i < plumb_amax_kernel_count; i++)
        if ((plumb_amax_kernels[i].cpu & ~cpu) == 0)
            run = plumb_amax_kernels[i].run;
    return run(x, n);
}
