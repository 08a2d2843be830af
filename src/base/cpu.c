/* Which instruction sets may be used: what the CPU and the system offer, less what the
 * caller forbids.  A level is a named set of features, not a single bit.
 */
#include "plumb/base.h"

#include <stdatomic.h>
#include <string.h>

static atomic_uint allowed =
    ATOMIC_VAR_INIT(PLUMB_CPU_AVX2 | PLUMB_CPU_AVX512 | PLUMB_CPU_AVX512BF16);

/* __builtin_cpu_supports asks CPUID and XGETBV, so it is false where the system does not
 * save the registers.
 */
static unsigned detect(void)
{
    unsigned flags = PLUMB_CPU_BASELINE;

#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
        flags |= PLUMB_CPU_AVX2;
    if (flags != 0 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        flags |= PLUMB_CPU_AVX512;
    if ((flags & PLUMB_CPU_AVX512) != 0 && __builtin_cpu_supports("avx512bf16") &&
        __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni") &&
        __builtin_cpu_supports("avx512vpopcntdq"))
        flags |= PLUMB_CPU_AVX512BF16;
#endif
    return flags;
}

unsigned plumb_cpu_flags(void)
{
    return detect() & atomic_load_explicit(&allowed, memory_order_relaxed);
}

void plumb_cpu_limit(unsigned mask)
{
    atomic_store_explicit(&allowed, mask, memory_order_relaxed);
}

bool plumb_cpu_parse(const char *name, unsigned *mask)
{
    if (strcmp(name, "baseline") == 0)
        *mask = PLUMB_CPU_BASELINE;
    else if (strcmp(name, "avx2") == 0)
        *mask = PLUMB_CPU_AVX2;
    else if (strcmp(name, "avx512") == 0)
        *mask = PLUMB_CPU_AVX2 | PLUMB_CPU_AVX512;
    else if (strcmp(name, "avx512bf16") == 0)
        *mask = PLUMB_CPU_AVX2 | PLUMB_CPU_AVX512 | PLUMB_CPU_AVX512BF16;
    else
        return false;
    return true;
}

bool plumb_cpu_is_amd(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_is("amd");
#else
    return false;
#endif
}
