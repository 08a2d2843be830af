/* Tables for peers.py: what plumb makes of codes and of numbers, as plain arrays in a folder.
 *
 *   dump FOLDER     for each format of at most 16 bits:
 *     NAME.values            fp32 value of each code
 *     NAME.inputs            fp32: all bf16 numbers, and every midpoint and value +-3 ulp, both signs
 *     NAME.MODE              uint32 codes of the inputs: nearest, zero; -saturating behind or not
 */
#include "kernel/axis.h"

#include <stdio.h>
#include <stdlib.h>

enum { NEAR = 3 };

static int failures;

static void write_array(const char *folder, const char *name, const char *what,
                        const void *x, size_t bytes)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%s.%s", folder, name, what);
    FILE *file = fopen(path, "wb");

    if (file == NULL || fwrite(x, 1, bytes, file) != bytes)
        failures++;
    if (file != NULL && fclose(file) != 0)
        failures++;
}

static size_t make_inputs(const axis *a, float *x)
{
    size_t n = 0;

    for (uint32_t high = 0; high < 0x10000; high++)
        x[n++] = float_from(high << 16);
    for (uint32_t code = 0; code <= a->largest; code++)
        for (int r = 0; r < 2; r++) {
            const uint32_t middle = axis_step(a, (plumb_rounding)r, code);

            for (uint32_t bits = middle - NEAR; bits <= middle + NEAR; bits++) {
                if (bits >= AXIS_INFINITY)
                    continue;
                x[n++] = float_from(bits);
                x[n++] = float_from(bits | 0x80000000u);
            }
        }
    return n;
}

static void write_codes(const char *folder, const axis *a, const float *x, size_t n)
{
    static const char *const modes[] = {"nearest", "nearest-saturating", "zero",
                                        "zero-saturating"};
    const char *name = plumb_format_get(a->format)->name;
    uint32_t *codes = malloc(n * sizeof *codes), *wide = malloc(n * sizeof *wide);

    for (int m = 0; codes != NULL && wide != NULL && m < 4; m++) {
        const plumb_cast how = {.format = a->format,
                                .saturate = m % 2 != 0,
                                .scale = 1,
                                .rounding = (plumb_rounding)(m / 2)};

        failures += plumb_cast_encode(&how, x, n, codes, NULL) != PLUMB_OK;
        for (size_t i = 0; i < n; i++)
            wide[i] = axis_code_at(a, codes, i);
        write_array(folder, name, modes[m], wide, n * sizeof *wide);
    }
    free(codes);
    free(wide);
}

static void dump(const char *folder, plumb_format format)
{
    const plumb_format_info *info = plumb_format_get(format);
    const uint32_t codes = 1u << info->bits;
    axis a;

    axis_of(format, &a);
    float *values = malloc(codes * sizeof *values);
    float *x = malloc((0x10000 + (size_t)(a.largest + 1) * 4 * (2 * NEAR + 1)) * sizeof *x);

    if (values == NULL || x == NULL) {
        failures++;
    } else {
        const size_t n = make_inputs(&a, x);

        for (uint32_t c = 0; c < codes; c++)
            values[c] = plumb_format_value(format, c);
        write_array(folder, info->name, "values", values, codes * sizeof *values);
        write_array(folder, info->name, "inputs", x, n * sizeof *x);
        write_codes(folder, &a, x, n);
    }
    free(values);
    free(x);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: dump FOLDER\n");
        return 2;
    }
    for (int f = 0; f < PLUMB_FORMAT_COUNT; f++)
        if (plumb_format_get((plumb_format)f)->bits <= 16)
            dump(argv[1], (plumb_format)f);
    return failures > 0;
}
