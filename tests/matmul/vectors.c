/* Reads and runs vectors of matrix units: see vectors.h. */
#include "vectors.h"
#include "matmul/lanes.h"
#include "matmul/micro.h"

#include "bits.h"
#include "check.h"

#include <stdlib.h>

static void malformed(const char *path, size_t line)
{
    printf("Bail out! %s:%zu is malformed\n", path, line);
    exit(1);
}

static bool read_hex(const char *text, size_t digits, uint32_t *x)
{
    *x = 0;
    for (size_t i = 0; i < digits; i++) {
        const char *all = "0123456789abcdef";
        const char *at = text[i] != 0 ? strchr(all, text[i]) : NULL;

        if (at == NULL)
            return false;
        *x = *x << 4 | (uint32_t)(at - all);
    }
    return true;
}

/* Codes as they lie in memory. */
static bool read_codes(const char *text, plumb_format format, uint32_t *codes, size_t *k)
{
    const size_t bytes = format == PLUMB_TF32                           ? 4
                         : format == PLUMB_BF16 || format == PLUMB_FP16 ? 2
                                                                        : 1;
    const size_t n = strlen(text) / (2 * bytes);

    if (n == 0 || n > VECTOR_K || strlen(text) != 2 * bytes * n)
        return false;
    for (size_t i = 0; i < n; i++) {
        uint32_t code;

        if (!read_hex(text + 2 * bytes * i, 2 * bytes, &code))
            return false;
        if (bytes == 4)
            codes[i] = code;
        else if (bytes == 2)
            ((uint16_t *)codes)[i] = (uint16_t)code;
        else
            ((uint8_t *)codes)[i] = (uint8_t)code;
    }
    *k = n;
    return true;
}

/* "bf16", or "e4m3:e5m2" for A and B. */
static bool read_formats(char *text, vector *v)
{
    char *second = strchr(text, ':');

    if (second != NULL)
        *second++ = 0;
    return plumb_format_parse(text, &v->format) &&
           plumb_format_parse(second != NULL ? second : text, &v->format_b);
}

static bool read_head(char *const field[4], vector *v)
{
    plumb_accumulator how;

    snprintf(v->id, sizeof v->id, "%s", field[0]);
    if (plumb_accumulator_parse(field[1], &how, NULL) != PLUMB_OK ||
        !read_formats(field[2], v) || !plumb_format_parse(field[3], &v->output))
        return false;
    v->kind = how.kind;
    return true;
}

static bool read_row(char *line, const vector *of, vector *v)
{
    char *field[8];
    size_t n = 0;
    uint32_t c, d;

    line[strcspn(line, "\r\n")] = 0;
    for (char *at = strtok(line, ","); at != NULL && n < 8; at = strtok(NULL, ","))
        field[n++] = at;
    if (of != NULL)
        *v = *of;
    if (n != (of != NULL ? 4 : 8) || (of == NULL && !read_head(field, v)))
        return false;
    size_t kb;
    if (!read_codes(field[n - 4], v->format, v->a, &v->k) ||
        !read_codes(field[n - 3], v->format_b, v->b, &kb) || kb != v->k ||
        !read_hex(field[n - 2], 8, &c) || !read_hex(field[n - 1], 8, &d))
        return false;
    memcpy(&v->c, &c, sizeof c);
    v->d = d;
    return true;
}

bool vectors_read(const char *path, const vector *of, vectors *v)
{
    FILE *file = fopen(path, "r");
    char line[1024];
    bool heading = true;

    *v = (vectors){NULL, 0};
    if (file == NULL)
        return false;
    for (size_t n = 1; fgets(line, sizeof line, file) != NULL; n++) {
        if (line[0] == '#')
            continue;
        if (heading) {
            heading = false;
            continue;
        }
        v->rows = realloc(v->rows, (v->count + 1) * sizeof *v->rows);
        v->rows[v->count] = (vector){.k = 0};
        if (!read_row(line, of, &v->rows[v->count++]))
            malformed(path, n);
    }
    fclose(file);
    return true;
}

void vectors_free(vectors *v)
{
    free(v->rows);
    *v = (vectors){NULL, 0};
}

uint32_t vector_dot(const vector *v, const plumb_unit *unit)
{
    plumb_error why;
    float d = 12345;

    if (plumb_unit_dot(unit, v->output, v->format, v->a, v->format_b, v->b, v->k, v->c, &d,
                       &why) != PLUMB_OK)
        printf("# %s\n", why.message);
    return bits_from(d);
}

static uint32_t matmul_by(const plumb_lanes *lanes, const vector *v, void *workspace)
{
    const plumb_accumulator how = {v->kind, false, v->output};
    plumb_quantized a = {.format = v->format, .rows = 1, .cols = v->k, .ld = v->k};
    plumb_quantized b = a;
    plumb_error why;
    float c = v->c;

    a.codes = (void *)v->a;
    b.format = v->format_b;
    b.codes = (void *)v->b;
    const plumb_operand left = {&a, false}, right = {&b, false};

    if (plumb_matmul_with(&plumb_micros[0], lanes, &how, &left, &right, &c, 1, true,
                          (plumb_tile){0}, workspace, &why) != PLUMB_OK)
        printf("# %s\n", why.message);
    return bits_from(c);
}

uint32_t vector_matmul(const vector *v, void *workspace)
{
    uint32_t c = v->d;

    for (size_t i = 0; i < plumb_lanes_count && c == v->d; i++) {
        if ((plumb_lanes_rows[i].cpu & ~plumb_cpu_flags()) == 0)
            c = matmul_by(&plumb_lanes_rows[i], v, workspace);
    }
    return c;
}

size_t vectors_missed(const vectors *v, plumb_sum_kind kind, const plumb_unit *unit)
{
    size_t missed = 0;

    for (size_t i = 0; i < v->count; i++)
        missed += v->rows[i].kind == kind && vector_dot(&v->rows[i], unit) != v->rows[i].d;
    return missed;
}
