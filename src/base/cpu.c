/* Which instruction sets may be used: what the CPU and the system offer, less what the
 * caller forbids.  A level is a named set of features, not a single bit.
 */
#include "base/cpu.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#endif

static atomic_uint allowed = ATOMIC_VAR_INIT(~0u);
static atomic_uint tried, refused; /* levels that plumb_cpu_trust was asked about */

#if defined(__x86_64__) && defined(__linux__)
/* Not every compiler's __builtin_cpu_supports knows AMX: CPUID.7.0:EDX has amx-bf16 and amx-tile,
 * and XCR0 whether the system saves tile configuration and tile data.
 */
static bool cpu_has_tiles(void)
{
    const unsigned bf16_and_tile = 1u << 22 | 1u << 24, saved = 1u << 17 | 1u << 18;
    unsigned a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0)
        return false;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    if ((a & saved) != saved || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return false;
    return (d & bf16_and_tile) == bf16_and_tile;
}

/* arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA): Linux gives tile data to a process that
 * asks, to all of its threads.  By hand, as the C library has no name for it under POSIX.
 */
static bool may_use_tiles(void)
{
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(158L), "D"(0x1023L), "S"(18L)
                     : "rcx", "r11", "memory");
    return result == 0;
}

/* Asked once, when the level is first allowed and looked for; threads that ask at the same time
 * get the same answer.
 */
static bool has_amx(void)
{
    enum { UNKNOWN, NO, YES };
    static atomic_int answer;

    if (atomic_load(&answer) == UNKNOWN)
        atomic_store(&answer, cpu_has_tiles() && may_use_tiles() ? YES : NO);
    return atomic_load(&answer) == YES;
}
#elif defined(__x86_64__)
static bool has_amx(void)
{
    return false;
}
#endif

/* Where the levels before it are.  __builtin_cpu_supports asks CPUID and XGETBV, so it is false
 * where the system does not save the registers.
 */
static bool is_there(unsigned level)
{
    switch (level) {
    case PLUMB_CPU_BASELINE:
        return true;
#if defined(__x86_64__)
    case PLUMB_CPU_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
               __builtin_cpu_supports("bmi2");
    case PLUMB_CPU_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case PLUMB_CPU_AVX512BF16:
        return __builtin_cpu_supports("avx512bf16") &&
               __builtin_cpu_supports("avx512vbmi") &&
               __builtin_cpu_supports("avx512vnni") &&
               __builtin_cpu_supports("avx512vpopcntdq");
    case PLUMB_CPU_AMX:
        return has_amx();
#endif
    default:
        return false;
    }
}

static const struct {
    const char *name;
    unsigned level;
} levels[] = {
    {"baseline", PLUMB_CPU_BASELINE}, {"avx2", PLUMB_CPU_AVX2},
    {"avx512", PLUMB_CPU_AVX512},     {"avx512bf16", PLUMB_CPU_AVX512BF16},
    {"amx", PLUMB_CPU_AMX},
};
enum { LEVELS = sizeof levels / sizeof levels[0] };

unsigned plumb_cpu_flags(void)
{
    const unsigned mask = atomic_load_explicit(&allowed, memory_order_relaxed) &
                          ~atomic_load_explicit(&refused, memory_order_relaxed);
    unsigned flags = PLUMB_CPU_BASELINE;

    for (size_t i = 0; i < LEVELS; i++) {
        if ((levels[i].level & ~mask) != 0)
            continue;
        if (!is_there(levels[i].level))
            break;
        flags |= levels[i].level;
    }
    return flags;
}

void plumb_cpu_limit(unsigned mask)
{
    atomic_store_explicit(&allowed, mask, memory_order_relaxed);
}

const char *plumb_cpu_level_name(size_t i)
{
    return i < LEVELS ? levels[i].name : NULL;
}

bool plumb_cpu_parse(const char *name, unsigned *mask)
{
    unsigned all = PLUMB_CPU_BASELINE;

    for (size_t i = 0; i < LEVELS; i++) {
        all |= levels[i].level;
        if (strcmp(name, levels[i].name) == 0) {
            *mask = all;
            return true;
        }
    }
    return false;
}

bool plumb_cpu_trust(unsigned level, bool (*works)(const void *what), const void *what)
{
    if ((atomic_load(&tried) & level) != level) {
        if (!works(what))
            atomic_fetch_or(&refused, level);
        atomic_fetch_or(&tried, level);
    }
    return (atomic_load(&refused) & level) == 0;
}

bool plumb_cpu_is_amd(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_is("amd");
#else
    return false;
#endif
}
