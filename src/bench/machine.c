/* What this machine is: the name of its CPU, its caches, memory to work in. */
#define _DEFAULT_SOURCE /* madvise */
#include "bench/bench.h"

#include "plumb/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MIB = 1 << 20, HUGE_PAGE = 2 * MIB, CACHE_LINE = 64 };

/* The first line of /proc/cpuinfo that begins with key: what follows its colon. */
static bool cpuinfo(const char *key, char *value, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[512];
    bool found = false;

    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');

        found = strncmp(line, key, strlen(key)) == 0 && colon != NULL;
        if (found)
            plumb_print(value, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
    }
    if (file != NULL)
        fclose(file);
    return found;
}

/* Virtual machines often hide the name; family and model tell the generation. */
static void name_cpu(char *name, size_t size)
{
    char model_name[64] = "unknown CPU", family[16] = "?", model[16] = "?";

    cpuinfo("model name", model_name, sizeof model_name);
    if (cpuinfo("cpu family", family, sizeof family) &&
        cpuinfo("model\t", model, sizeof model))
        plumb_print(name, size, "%s, family %s model %s", model_name, family, model);
    else
        plumb_print(name, size, "%s", model_name);
}

/* A file of sysfs that holds one number, with K or M behind. */
static bool read_size(const char *directory, const char *name, size_t *value)
{
    char path[128], text[32], *end;
    FILE *file;

    plumb_print(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, "r");
    if (file == NULL)
        return false;
    const bool good = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    if (!good)
        return false;
    *value = strtoul(text, &end, 10);
    *value *= *end == 'K' ? 1024u : *end == 'M' ? MIB : 1u;
    return end != text;
}

bench_machine bench_machine_look(void)
{
    bench_machine machine = {.l2 = MIB, .l3 = 32 * MIB};

    name_cpu(machine.cpu, sizeof machine.cpu);
    for (int i = 0; i < 8; i++) {
        char directory[96];
        size_t level, size;

        plumb_print(directory, sizeof directory,
                    "/sys/devices/system/cpu/cpu0/cache/index%d", i);
        if (!read_size(directory, "level", &level) ||
            !read_size(directory, "size", &size) || size == 0)
            continue;
        if (level == 2)
            machine.l2 = size;
        else if (level == 3)
            machine.l3 = size;
    }
    return machine;
}

const char *bench_place_name(bench_place place)
{
    static const char *const names[] = {"L2", "L3", "memory"};

    return names[place];
}

static size_t between(size_t least, size_t x, size_t most)
{
    return x < least ? least : x > most ? most : x;
}

size_t bench_place_bytes(const bench_machine *machine, bench_place place)
{
    if (place == BENCH_L2)
        return machine->l2 / 2;
    if (place == BENCH_L3)
        return between(2 * machine->l2, machine->l3 / 4, 16 * MIB);
    return between(400 * 1000 * 1000, 4 * machine->l3, 800 * 1000 * 1000);
}

size_t bench_elements(const bench *b, bench_place place, size_t in, size_t out)
{
    const size_t larger = in > out ? in : out;

    return bench_place_bytes(&b->machine, place) /
           (place == BENCH_MEMORY ? larger : in + out) / 4096 * 4096;
}

bool bench_may_run(unsigned cpu)
{
    return (cpu & ~plumb_cpu_flags()) == 0;
}

const char *bench_level(void)
{
    const char *name, *best = "baseline";
    unsigned mask;

    for (size_t i = 0; (name = plumb_cpu_level_name(i)) != NULL; i++)
        if (plumb_cpu_parse(name, &mask) && bench_may_run(mask))
            best = name;
    return best;
}

double bench_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void *bench_take(bench *b, size_t bytes, plumb_error *why)
{
    const size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : CACHE_LINE;
    const size_t size = (bytes / align + 1) * align;
    void *memory =
        b->pooled < BENCH_POOL && size > bytes ? aligned_alloc(align, size) : NULL;

    if (memory == NULL) {
        plumb_fail(why, PLUMB_NO_MEMORY, "no %zu MiB of memory for it", size / MIB + 1);
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    if (align == HUGE_PAGE)
        madvise(memory, size, MADV_HUGEPAGE);
#endif
    memset(memory, 0, size);
    b->pool[b->pooled++] = memory;
    return memory;
}

float *bench_take_normal(bench *b, size_t n, float deviation, plumb_error *why)
{
    enum { PERIOD = 1 << 20 };
    float *x = bench_take(b, n * sizeof *x, why);
    const size_t first = n < PERIOD ? n : PERIOD;

    if (x == NULL)
        return NULL;
    plumb_random_normal(1, plumb_random_stream("bench"), deviation, first, x);
    for (size_t i = first; i < n; i += first)
        memcpy(x + i, x, (n - i < first ? n - i : first) * sizeof *x);
    return x;
}
