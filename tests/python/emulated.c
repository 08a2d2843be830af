/* What libplumb makes of numbers, for emulated.py: requests on standard input, answers on standard output.
 *
 * A request is a line of words, with data behind it where it says so; the answer is a line, too, and data.
 *
 *   cast SPEC ROWS COLS AXIS SCALE   and the fp32 values; AXIS 1: along rows; SCALE: of rule delayed, as "%a"
 *       CODE-BYTES SCALES AMAX SATURATED FLUSHED ZERO NONFINITE SCALE TENSOR-SCALE PENDING; then the codes, the decode
 *       scales, the decoded values
 *   parse TEXT BASE                  BASE "-": none.  The canonical text, or "refused"
 *   update SPEC N                    and N fp32 values: the amax of N steps.  The N scales after them, as data
 *   recipe NAME SITE OWN             what a preset runs the site in
 */
#include "plumb/observe.h"
#include "plumb/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *take(size_t bytes)
{
    void *memory = malloc(bytes > 0 ? bytes : 1);

    if (memory == NULL)
        exit(2);
    return memory;
}

static float *read_values(size_t n)
{
    float *x = take(n * sizeof *x);

    if (fread(x, sizeof *x, n, stdin) != n)
        exit(2);
    return x;
}

static plumb_spec spec_of(const char *text)
{
    plumb_spec spec = {.format = PLUMB_FP32};
    plumb_error why;

    if (plumb_spec_parse(text, NULL, &spec, &why) != PLUMB_OK) {
        fprintf(stderr, "%s: %s\n", text, why.message);
        exit(2);
    }
    return spec;
}

static void answer(const plumb_quantized *q, const plumb_counts *counts, float pending,
                   size_t code_bytes)
{
    const size_t n = q->rows * q->cols, scales = plumb_quantized_scale_count(q);
    float *decoded = take(n * sizeof *decoded);
    plumb_sample sample = {0};

    if (plumb_dequantize(q, decoded, NULL) != PLUMB_OK)
        exit(2);
    plumb_sample_fill(&sample, q, counts);
    printf("%zu %zu %a %llu %llu %llu %llu %a %a %a\n", code_bytes, scales,
           (double)counts->amax, (unsigned long long)counts->saturated,
           (unsigned long long)counts->flushed, (unsigned long long)counts->zero,
           (unsigned long long)counts->nonfinite, (double)sample.scale, (double)q->d_tensor,
           (double)pending);
    fwrite(q->codes, 1, code_bytes, stdout);
    if (scales > 0)
        fwrite(q->d, sizeof *q->d, scales, stdout);
    fwrite(decoded, sizeof *decoded, n, stdout);
    free(decoded);
}

static void cast(const char *text, size_t rows, size_t cols, bool along_rows, float scale)
{
    const plumb_spec spec = spec_of(text);
    float *x = read_values(rows * cols);
    size_t code_bytes, scales;
    plumb_scale_state state;
    plumb_counts counts = {0};
    plumb_quantized q = {0};

    plumb_scale_state_init(&state);
    state.scale = scale;
    if (plumb_quantized_need(&spec, rows, cols, along_rows, &code_bytes, &scales, NULL) !=
        PLUMB_OK)
        exit(2);
    q.codes = take(code_bytes);
    q.d = take(scales * sizeof *q.d);
    float *d = q.d;
    if (plumb_quantize(&spec, x, rows, cols, along_rows, &state, true, &q, &counts, NULL) !=
        PLUMB_OK)
        exit(2);
    answer(&q, &counts, state.pending, code_bytes);
    free(d);
    free(q.codes);
    free(x);
}

static void parse(const char *text, const char *base_text)
{
    const bool has_base = strcmp(base_text, "-") != 0;
    const plumb_spec base = has_base ? spec_of(base_text) : spec_of("fp32");
    char canonical[PLUMB_SPEC_TEXT] = "refused";
    plumb_spec spec;

    if (plumb_spec_parse(text, has_base ? &base : NULL, &spec, NULL) == PLUMB_OK)
        plumb_spec_print(&spec, canonical);
    puts(canonical);
}

static void update(const char *text, size_t n)
{
    const plumb_spec spec = spec_of(text);
    float *x = read_values(n);
    plumb_scale_state state;

    plumb_scale_state_init(&state);
    for (size_t i = 0; i < n; i++) {
        state.pending = x[i];
        plumb_scale_state_update(&state, &spec);
        x[i] = state.scale;
    }
    puts("scales");
    fwrite(x, sizeof *x, n, stdout);
    free(x);
}

static void recipe(const char *name, const char *site, const char *own_text)
{
    const plumb_preset *preset = plumb_preset_find(name);
    const plumb_spec own = spec_of(own_text);
    char text[PLUMB_SPEC_TEXT];
    plumb_spec spec;

    if (preset == NULL || plumb_policy_resolve(preset->rules, preset->rule_count, site,
                                               &own, &spec, NULL, NULL) != PLUMB_OK)
        exit(2);
    plumb_spec_print(&spec, text);
    puts(text);
}

int main(void)
{
    char line[1024], a[256], b[256], c[256];
    size_t rows, cols;
    float scale;
    int axis;

    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "cast %255s %zu %zu %d %a", a, &rows, &cols, &axis, &scale) == 5)
            cast(a, rows, cols, axis == 1, scale);
        else if (sscanf(line, "parse %255s %255s", a, b) == 2)
            parse(a, b);
        else if (sscanf(line, "update %255s %zu", a, &rows) == 2)
            update(a, rows);
        else if (sscanf(line, "recipe %255s %255s %255s", a, b, c) == 3)
            recipe(a, b, c);
        else
            return 2;
        fflush(stdout);
    }
    return 0;
}
