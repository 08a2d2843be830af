/* The limits do what a limit must: read and write every byte once, and no other. */
#include "check.h"

#include "bench/bench.h"
#include "bench/limit.h"

#include <stdlib.h>

enum { BYTES = 8192, GUARD = 64 };

static unsigned char from[BYTES] __attribute__((aligned(64)));
static unsigned char to[4 * BYTES + GUARD] __attribute__((aligned(64)));

static void copies_write_all(const bench_limit *limit, int in, int out)
{
    const char *name = "";
    bench_copy_fn *copy = bench_limit_copy(limit, in, out, &name);
    const size_t written = BYTES / (size_t)in * (size_t)out;
    size_t missed = 0, beyond = 0;

    if (!CHECK(copy != NULL, "no copy %d:%d", in, out))
        return;
    memset(from, 0x5a, sizeof from);
    memset(to, 0, sizeof to);
    copy(from, BYTES, to);
    for (size_t i = 0; i < sizeof to; i++) {
        missed += i < written && to[i] != 0x5a;
        beyond += i >= written && to[i] != 0;
    }
    CHECK(missed == 0 && beyond == 0, "%s/%s: %zu bytes missed, %zu beyond", limit->name,
          name, missed, beyond);
}

/* One byte at a time must show in the result. */
static void every_byte_is_read(const bench_limit *limit)
{
    const char *name;
    bench_copy_fn *const four = bench_limit_copy(limit, 4, 1, &name);
    size_t unread = 0, lost = 0;

    memset(from, 0, sizeof from);
    for (size_t i = 0; i < BYTES; i++) {
        from[i] = 1;
        unread += limit->read(from, BYTES) == 0;
        four(from, BYTES, to);
        lost += memchr(to, 1, BYTES / 4) == NULL;
        from[i] = 0;
    }
    CHECK(unread == 0, "%s: %zu bytes are not read", limit->name, unread);
    CHECK(lost == 0, "%s: %zu bytes are not copied 4:1", limit->name, lost);
}

int main(void)
{
    static const struct {
        unsigned cpu;
        const char *name;
    } levels[] = {{PLUMB_CPU_BASELINE, "ref"},
                  {PLUMB_CPU_AVX2, "avx2"},
                  {PLUMB_CPU_AVX2 | PLUMB_CPU_AVX512, "avx512"}};
    const unsigned cpu = plumb_cpu_flags();
    const char *name;

    for (size_t i = 0; i < 3; i++) {
        if ((levels[i].cpu & ~cpu) != 0) {
            check_skip(levels[i].name, "this CPU does not have it");
            continue;
        }
        plumb_cpu_limit(levels[i].cpu);

        const bench_limit *limit = bench_limit_best();

        CHECK(strcmp(limit->name, levels[i].name) == 0, "%s was chosen", limit->name);
        copies_write_all(limit, 4, 1);
        copies_write_all(limit, 4, 2);
        copies_write_all(limit, 4, 4);
        copies_write_all(limit, 2, 4);
        copies_write_all(limit, 1, 4);
        every_byte_is_read(limit);
        CHECK(limit->flops > 0 && limit->multiply_add(3) > 0, "multiply-adds");
        check_done(levels[i].name);
    }
    plumb_cpu_limit(cpu);
    CHECK(bench_limit_copy(bench_limit_best(), 3, 1, &name) == NULL, "a copy 3:1");
    check_done("shapes that are not there");
    return check_exit();
}
