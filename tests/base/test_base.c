/* Sizes that would wrap, pieces of an arena, levels of the CPU mask, messages. */
#include "base/cpu.h"

#include "check.h"

static void sizes(void)
{
    size_t out = 7;

    CHECK(plumb_mul_size(3, 5, &out) && out == 15, "3 * 5 = %zu", out);
    CHECK(plumb_mul_size(0, SIZE_MAX, &out) && out == 0, "0 * max = %zu", out);
    CHECK(plumb_mul_size(SIZE_MAX, 1, &out) && out == SIZE_MAX, "max * 1 = %zu", out);
    out = 7;
    CHECK(!plumb_mul_size(SIZE_MAX / 2 + 1, 2, &out) && out == 7, "wrapped to %zu", out);
    CHECK(plumb_add_size(SIZE_MAX - 1, 1, &out) && out == SIZE_MAX, "sum %zu", out);
    out = 7;
    CHECK(!plumb_add_size(SIZE_MAX, 1, &out) && out == 7, "wrapped to %zu", out);
    check_done("checked sizes");
}

static void deal(plumb_arena *arena, unsigned char **a, double **b)
{
    *a = plumb_arena_take(arena, 3, 1);
    *b = plumb_arena_take(arena, 100, sizeof **b);
}

static void arena(void)
{
    plumb_arena arena = {0};
    plumb_error why = {0};
    unsigned char *a;
    double *b;

    deal(&arena, &a, &b);
    CHECK(a == NULL && b == NULL, "pieces before commit");
    CHECK_OK(plumb_arena_commit(&arena, &why), why);
    deal(&arena, &a, &b);
    if (CHECK(a != NULL && b != NULL, "no piece after commit")) {
        CHECK((uintptr_t)a % 64 == 0 && (uintptr_t)b % 64 == 0, "pieces not aligned");
        CHECK((unsigned char *)b - a >= 64, "no gap between pieces");
        for (int i = 0; i < 100; i++)
            CHECK(b[i] == 0, "b[%d] = %g at first", i, b[i]);
        memset(a, 1, 3);
        CHECK(b[0] == 0, "pieces overlap");
    }
    CHECK(plumb_arena_take(&arena, 1, 1) == NULL, "a piece that was not asked for");
    plumb_arena_free(&arena);

    plumb_arena_take(&arena, SIZE_MAX / 2, 4);
    CHECK(plumb_arena_commit(&arena, &why) == PLUMB_BAD_SHAPE, "overflow not refused");
    plumb_arena_free(&arena);
    plumb_arena_free(NULL);
    check_done("arena");
}

static void cpu(void)
{
    unsigned mask = 99;

    CHECK(plumb_cpu_parse("baseline", &mask) && mask == 0, "baseline: %u", mask);
    CHECK(!plumb_cpu_parse("pentium", &mask) && mask == 0, "an unknown level was accepted");
    plumb_cpu_limit(mask);
    CHECK(plumb_cpu_flags() == 0, "flags %u under mask 0", plumb_cpu_flags());
    CHECK(plumb_cpu_parse("avx2", &mask), "avx2 unknown");
    plumb_cpu_limit(mask);
    CHECK((plumb_cpu_flags() & PLUMB_CPU_AVX512) == 0, "AVX-512 under the AVX2 mask");
    CHECK(plumb_cpu_parse("avx512", &mask), "avx512 unknown");
    plumb_cpu_limit(mask);
    CHECK((plumb_cpu_flags() & PLUMB_CPU_AVX512BF16) == 0, "BF16 under the AVX-512 mask");
    CHECK(plumb_cpu_parse("avx512bf16", &mask), "avx512bf16 unknown");
    CHECK(mask == (PLUMB_CPU_AVX2 | PLUMB_CPU_AVX512 | PLUMB_CPU_AVX512BF16),
          "avx512bf16 is mask %u", mask);
    plumb_cpu_limit(mask);
    CHECK((plumb_cpu_flags() & PLUMB_CPU_AMX) == 0, "AMX under the AVX512BF16 mask");
    CHECK(plumb_cpu_parse("amx", &mask) && (mask & PLUMB_CPU_AMX) != 0, "amx is mask %u",
          mask);
    for (size_t i = 0; plumb_cpu_level_name(i) != NULL; i++)
        CHECK(plumb_cpu_parse(plumb_cpu_level_name(i), &mask), "%s is unknown",
              plumb_cpu_level_name(i));
    plumb_cpu_limit(mask);
    check_done("cpu mask");
}

static bool broken(const void *count)
{
    ++*(int *)(uintptr_t)count;
    return false;
}

static void trust(void)
{
    int asked = 0;

    plumb_cpu_limit(~0u);
    for (int i = 0; i < 2; i++)
        CHECK(!plumb_cpu_trust(PLUMB_CPU_AVX512, broken, &asked), "trusted");
    CHECK(asked == 1, "asked %d times", asked);
    CHECK((plumb_cpu_flags() & PLUMB_CPU_AVX512) == 0, "a broken level is offered");
    check_done("levels that fail their trial");
}

static void messages(void)
{
    plumb_error why = {0};
    char longer[2 * sizeof why.message];

    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    CHECK(plumb_fail(&why, PLUMB_IO, "%s", longer) == PLUMB_IO, "status not returned");
    CHECK(strlen(why.message) == sizeof why.message - 1, "not cut: %zu",
          strlen(why.message));
    CHECK(plumb_fail(NULL, PLUMB_IO, "x") == PLUMB_IO, "NULL why");
    CHECK(strcmp(plumb_status_name(PLUMB_BUSY), "busy") == 0, "name of busy");
    CHECK(plumb_status_name((plumb_status)12345) != NULL, "no name for an unknown status");
    check_done("messages");
}

static void texts(void)
{
    char text[6] = "ab";

    plumb_append(text, sizeof text, "%d", 12);
    CHECK(strcmp(text, "ab12") == 0, "appended: %s", text);
    plumb_append(text, sizeof text, "%s", "cut");
    CHECK(strcmp(text, "ab12c") == 0, "cut: %s", text);
    plumb_append(text, sizeof text, "%s", "full");
    CHECK(strcmp(text, "ab12c") == 0, "full: %s", text);
    check_done("texts");
}

int main(void)
{
    sizes();
    arena();
    cpu();
    trust();
    messages();
    texts();
    return check_exit();
}
