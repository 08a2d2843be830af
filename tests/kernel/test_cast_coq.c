/* Casts against tables that Coq computed from a rounding proved equal to Flocq's (coq/boundaries.v):
 * the codes at a boundary and at the floats beside it, both signs, every variant.
 */
#include "check.h"
#include "kernel/axis.h"
#include "kernel/cast.h"

#include <stdlib.h>

static void check_one(const axis *a, uint32_t bits, uint32_t code, uint32_t sign)
{
    const plumb_cast how = {.format = a->format, .saturate = true, .scale = 1.0f};
    const float x = float_from(bits | sign << 31);
    const bool keep = sign != 0 && (code != 0 || a->negative_zero);
    const uint32_t want = code << a->shift | (keep ? a->sign : 0);

    for (size_t i = 0; i < plumb_encode_kernel_count; i++) {
        const plumb_encode_kernel *k = &plumb_encode_kernels[i];
        uint32_t got[1] = {0};
        plumb_counts counts = {0};
        const plumb_encode_job job = {.how = &how,
                                      .source = PLUMB_FP32,
                                      .x = &x,
                                      .n = 1,
                                      .codes = got,
                                      .counts = &counts};

        if (k->format != a->format || (k->cpu & ~plumb_cpu_flags()) != 0)
            continue;
        k->run(&job);
        CHECK(axis_code_at(a, got, 0) == want, "%s(%a) = %x, Coq says %x", k->name,
              (double)x, axis_code_at(a, got, 0), want);
    }
}

/* Returns the format of the row, or PLUMB_FORMAT_COUNT for the heading and what is no row. */
static plumb_format check_row(const char *line)
{
    unsigned midpoint, below, at, above;
    plumb_format format;
    char name[16];
    axis a;

    if (sscanf(line, "%15[a-z0-9],%u,%u,%u,%u", name, &midpoint, &below, &at, &above) !=
            5 ||
        !plumb_format_parse(name, &format))
        return PLUMB_FORMAT_COUNT;
    axis_of(format, &a);
    for (uint32_t sign = 0; sign < 2; sign++) {
        check_one(&a, midpoint - 1, below, sign);
        check_one(&a, midpoint, at, sign);
        check_one(&a, midpoint + 1, above, sign);
    }
    return format;
}

int main(void)
{
    const char *source = getenv("PLUMB_SOURCE_DIR");
    unsigned rows[PLUMB_FORMAT_COUNT + 1] = {0};
    char path[4096], line[128];

    snprintf(path, sizeof path, "%s/tests/kernel/coq/boundaries.csv",
             source != NULL ? source : ".");
    FILE *file = fopen(path, "r");

    CHECK(file != NULL, "cannot read %s", path);
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        rows[check_row(line)]++;
    if (file != NULL)
        fclose(file);
    CHECK(rows[PLUMB_E4M3] == 127 && rows[PLUMB_E5M2] == 124 && rows[PLUMB_BF16] == 1275,
          "%u rows of e4m3, %u of e5m2, %u of bf16", rows[PLUMB_E4M3], rows[PLUMB_E5M2],
          rows[PLUMB_BF16]);
    CHECK(rows[PLUMB_FORMAT_COUNT] == 1, "%u lines that are no rows",
          rows[PLUMB_FORMAT_COUNT]);
    check_done("tables from Coq");
    return check_exit();
}
