/* The face of the casts: checks, then the fastest variant that this CPU may run. */
#include "kernel/cast.h"
#include "base/cpu.h"

#if defined(__x86_64__)
#define PLAIN(row, F, f, kernel)                                                           \
    row(F, f, kernel, ref, BASELINE), row(F, f, kernel, avx2, AVX2),                       \
        row(F, f, kernel, avx512, AVX512)
#define FUSED(row, F, f, kernel)                                                           \
    PLAIN(row, F, f, kernel),                                                              \
    {                                                                                      \
        PLUMB_##F, PLUMB_CPU_AVX512, #f "/avx512-fused", plumb_encode_fused_avx512         \
    }
enum { PLAIN_ROWS = 3, FUSED_ROWS = 4 };
#else
#define PLAIN(row, F, f, kernel) row(F, f, kernel, ref, BASELINE)
#define FUSED(row, F, f, kernel) PLAIN(row, F, f, kernel)
enum { PLAIN_ROWS = 1, FUSED_ROWS = 1 };
#endif

#define ENCODE(F, f, kernel, isa, ISA)                                                     \
    {                                                                                      \
        PLUMB_##F, PLUMB_CPU_##ISA, #f "/" #isa, plumb_encode_##kernel##_##isa             \
    }
#define DECODE(F, f, kernel, isa, ISA)                                                     \
    {                                                                                      \
        PLUMB_##F, PLUMB_CPU_##ISA, #f "/" #isa, plumb_decode_##kernel##_##isa             \
    }
#define AMAX(F, f, kernel, isa, ISA)                                                       \
    {                                                                                      \
        PLUMB_CPU_##ISA, "amax/" #isa, plumb_amax_##isa, plumb_amax_bf16_##isa,            \
            plumb_amax_blocks_##isa                                                        \
    }

/* In the order of plumb_format: ROW(FORMAT, name, kernel that encodes, kernel that decodes, FUSED
 * if there is a fused encoding too).
 */
#define FORMATS(ROW)                                                                       \
    ROW(FP32, fp32, fp32, fp32, PLAIN)                                                     \
    ROW(BF16, bf16, bf16, bf16, PLAIN)                                                     \
    ROW(E4M3, e4m3, e4m3, e4m3, FUSED)                                                     \
    ROW(E5M2, e5m2, e5m2, e5m2, FUSED)                                                     \
    ROW(FP16, fp16, fp16, fp16, PLAIN)                                                     \
    ROW(TF32, tf32, tf32, tf32, PLAIN)                                                     \
    ROW(E4M3FNUZ, e4m3fnuz, signed8, table, PLAIN)                                         \
    ROW(E5M2FNUZ, e5m2fnuz, signed8, table, PLAIN)                                         \
    ROW(E3M2, e3m2, signed8, table, FUSED)                                                 \
    ROW(E2M3, e2m3, signed8, table, FUSED)                                                 \
    ROW(E2M1, e2m1, signed8, table, FUSED)                                                 \
    ROW(E8M0, e8m0, e8m0, table, PLAIN)                                                    \
    ROW(UE4M3, ue4m3, ue4m3, table, PLAIN)

#define ENCODES(F, f, encode, decode, kind) kind(ENCODE, F, f, encode),
#define DECODES(F, f, encode, decode, kind) PLAIN(DECODE, F, f, decode),

const plumb_encode_kernel plumb_encode_kernels[] = {FORMATS(ENCODES)};
const size_t plumb_encode_kernel_count =
    sizeof plumb_encode_kernels / sizeof plumb_encode_kernels[0];

/* Number of the last row of each format: each begins after that of the format before. */
#define ROWS(F, f, encode, decode, kind) F##_FIRST, F##_LAST = F##_FIRST + kind##_ROWS - 1,
#define LAST(F, f, encode, decode, kind) [PLUMB_##F] = F##_LAST,

enum { FORMATS(ROWS) };
static const unsigned char last_encode[PLUMB_FORMAT_COUNT] = {FORMATS(LAST)};

const plumb_decode_kernel plumb_decode_kernels[] = {FORMATS(DECODES)};
const size_t plumb_decode_kernel_count =
    sizeof plumb_decode_kernels / sizeof plumb_decode_kernels[0];

const plumb_amax_kernel plumb_amax_kernels[] = {
    PLAIN(AMAX, , , ),
#if defined(__x86_64__)
    {PLUMB_CPU_AVX512, "amax/avx512-direct", plumb_amax_direct_avx512,
     plumb_amax_bf16_direct_avx512, plumb_amax_blocks_direct_avx512},
#endif
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

void plumb_spectrum_add(plumb_spectrum *into, const plumb_spectrum *spectrum)
{
    for (int e = 0; e < 256; e++)
        into->exponent[e] += spectrum->exponent[e];
    into->signal += spectrum->signal;
    into->error += spectrum->error;
}

static plumb_status check(const plumb_cast *how, plumb_format source)
{
    const plumb_format_info *info = plumb_format_get(how->format);

    if (info == NULL || (source != PLUMB_FP32 && source != PLUMB_BF16))
        return PLUMB_BAD_FORMAT;
    if (info->bytes > 1 && how->scale != 1.0f)
        return PLUMB_BAD_ARGUMENT;
    if ((unsigned)how->rounding > PLUMB_ROUND_STOCHASTIC ||
        (unsigned)how->dither > PLUMB_DITHER_8_CENTRED)
        return PLUMB_BAD_ARGUMENT;
    return PLUMB_OK;
}

void plumb_cast_run(const plumb_encode_job *job)
{
    PLUMB_CPU_BEST(&plumb_encode_kernels[last_encode[job->how->format]])->run(job);
}

plumb_status plumb_cast_encode_measured(const plumb_cast *how, plumb_format source,
                                        const void *x, size_t n, void *codes,
                                        plumb_counts *counts, plumb_spectrum *spectrum)
{
    const plumb_status status = check(how, source);
    plumb_counts unused = {0};

    if (status != PLUMB_OK)
        return status;
    const plumb_encode_job job = {.how = how,
                                  .source = source,
                                  .x = x,
                                  .n = n,
                                  .codes = codes,
                                  .counts = counts != NULL ? counts : &unused,
                                  .spectrum = spectrum};

    plumb_cast_run(&job);
    return PLUMB_OK;
}

plumb_status plumb_cast_encode(const plumb_cast *how, const float *x, size_t n, void *codes,
                               plumb_counts *counts)
{
    return plumb_cast_encode_measured(how, PLUMB_FP32, x, n, codes, counts, NULL);
}

plumb_status plumb_cast_decode(plumb_format format, float scale, const void *codes,
                               size_t n, float *x)
{
    if ((unsigned)format >= PLUMB_FORMAT_COUNT)
        return PLUMB_BAD_FORMAT;
    const plumb_decode_kernel *last =
        &plumb_decode_kernels[(size_t)format * PLAIN_ROWS + PLAIN_ROWS - 1];

    PLUMB_CPU_BEST(last)->run(format, scale, codes, n, x);
    return PLUMB_OK;
}

static const plumb_amax_kernel *best_amax(void)
{
    return PLUMB_CPU_BEST(&plumb_amax_kernels[plumb_amax_kernel_count - 1]);
}

float plumb_cast_amax(const float *x, size_t n)
{
    return best_amax()->run(x, n);
}

float plumb_cast_amax_bf16(const uint16_t *x, size_t n)
{
    return best_amax()->run_bf16(x, n);
}

bool plumb_cast_amax_blocks(plumb_format source, const void *x, size_t rows, size_t ld,
                            size_t n, size_t block, float *amax)
{
    return best_amax()->run_blocks(source, x, rows, ld, n, block, amax);
}
