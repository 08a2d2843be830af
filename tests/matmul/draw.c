/* Random operands: see draw.h.  The same ones in every run. */
#include "draw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 1;

uint32_t draw_bits(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32) ^ (uint32_t)(state >> 17);
}

size_t draw_below(size_t n)
{
    return draw_bits() % n;
}

float draw_float(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

uint32_t draw_float_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint32_t with_exponent(uint32_t bits, uint32_t field)
{
    return (bits & 0x807fffffu) | field << 23;
}

/* The bits of an fp32 operand in the given mood. */
static uint32_t draw(enum mood mood)
{
    const uint32_t bits = draw_bits();

    switch (mood) {
    case HOSTILE:
        return bits % 8 == 0
                   ? (draw_bits() & 0x80000000u) | 0x7f800000u | (draw_bits() % 3) << 20
                   : draw_bits();
    case EDGE: /* products of 2^-63 and 2^-63: 2^-126 give or take */
        if (bits % 4 == 0)
            return with_exponent((bits & 0x80000000u) |
                                     (draw_bits() % 3 == 0 ? 0x7fffffu : 0) |
                                     draw_bits() % 2,
                                 63 + draw_bits() % 3);
        return with_exponent(draw_bits(), 62 + draw_bits() % 4);
    case CANCEL:
        return with_exponent(bits & 0x80000000u, 126 + draw_bits() % 3);
    case PLAIN:
    default:
        return with_exponent(bits, 120 + draw_bits() % 12);
    }
}

static const int code_bits[PLUMB_FORMAT_COUNT] = {
    [PLUMB_FP32] = 32, [PLUMB_BF16] = 16, [PLUMB_E4M3] = 8,     [PLUMB_E5M2] = 8,
    [PLUMB_FP16] = 16, [PLUMB_TF32] = 32, [PLUMB_E4M3FNUZ] = 8, [PLUMB_E5M2FNUZ] = 8,
    [PLUMB_E3M2] = 6,  [PLUMB_E2M3] = 6,  [PLUMB_E2M1] = 4};

/* A narrow code that is a number: any of the small formats, below the top for the others. */
static unsigned char number(int bits, enum mood mood)
{
    const uint32_t x = draw_bits();

    if (bits < 8)
        return (unsigned char)(x & ((1u << bits) - 1u));
    if (mood == CANCEL)
        return (unsigned char)((x % 3 == 0 ? 0x38 : 1 + x % 0x5f) | (draw_bits() & 0x80u));
    return (unsigned char)((1 + x % 0x5f) | (draw_bits() & 0x80u));
}

static void fill(plumb_quantized *q, enum mood mood)
{
    const size_t n = q->rows == 0 ? 0 : (q->rows - 1) * q->ld + q->cols;
    const int bits = code_bits[q->format];
    const size_t bytes = bits == 32 ? 4 : bits == 16 ? 2 : 1;
    unsigned char *codes = malloc(n * bytes + (n == 0));

    for (size_t i = 0; i < n; i++) {
        const uint32_t x = draw(mood);

        if (bytes == 4)
            memcpy(codes + 4 * i, &x, 4);
        else if (bytes == 2)
            memcpy(codes + 2 * i, &(uint16_t){(uint16_t)(x >> 16)}, 2);
        else if (mood == HOSTILE && bits == 8)
            codes[i] = (unsigned char)draw_bits();
        else
            codes[i] = draw_below(6) == 0 ? 0 : number(bits, mood);
        if (bytes == 1 && mood == HOSTILE && bits < 8 && draw_below(500) == 0)
            codes[i] |= 0x80; /* no code at all */
    }
    q->codes = codes;
}

static size_t blocks(size_t n, size_t length)
{
    return (n + length - 1) / length;
}

static size_t scale_count(const plumb_quantized *q)
{
    const size_t length = q->grain == PLUMB_GRAIN_MX32    ? 32
                          : q->grain == PLUMB_GRAIN_NVFP4 ? 16
                                                          : 128;

    if (q->grain == PLUMB_GRAIN_TENSOR)
        return 1;
    if (q->grain == PLUMB_GRAIN_ROW)
        return q->along_rows ? q->cols : q->rows;
    if (q->grain == PLUMB_GRAIN_128X128)
        return blocks(q->rows, 128) * blocks(q->cols, 128);
    return q->along_rows ? blocks(q->rows, length) * q->cols
                         : q->rows * blocks(q->cols, length);
}

static float draw_scale(plumb_grain grain, enum mood mood)
{
    const uint32_t bits = draw_bits();

    if (grain == PLUMB_GRAIN_MX32) {
        if (mood == HOSTILE && bits % 8 == 0)
            return bits % 16 == 0 ? NAN : 0x1p-127f;
        return ldexpf(1, mood == HOSTILE
                             ? (int)(draw_bits() % 255) - 127
                             : (int)(draw_bits() % 12) - (mood == EDGE ? 46 : 6));
    }
    if (grain == PLUMB_GRAIN_NVFP4) { /* values of ue4m3, zero and subnormals too */
        if (mood == HOSTILE && bits % 64 == 0)
            return NAN;
        return bits % 4 == 0 ? ldexpf((float)(draw_bits() % 8), -9)
                             : ldexpf((float)(8 + bits % 8), (int)(draw_bits() % 14) - 9);
    }
    if (mood == HOSTILE && draw_below(4) == 0)
        return draw_float(draw_below(3) == 0 ? 0x7f800000u : draw_bits() % 0x01000000u);
    const float d = draw_float(with_exponent(bits & 0x7fffffffu, 122 + draw_bits() % 8));
    return mood == EDGE ? ldexpf(d, -40) : d;
}

plumb_operand draw_operand(plumb_format format, bool scaled, plumb_grain grain,
                           size_t outer, size_t depth, enum mood mood, plumb_quantized *q)
{
    const bool transposed = draw_below(2) == 1;

    *q = (plumb_quantized){.format = format,
                           .grain = grain,
                           .rows = transposed ? depth : outer,
                           .cols = transposed ? outer : depth,
                           .along_rows = transposed};
    q->ld = q->cols + (draw_below(2) == 1 ? draw_below(9) : 0);
    fill(q, mood);
    if (scaled) {
        const size_t n = scale_count(q);

        q->d = malloc((n + (n == 0)) * sizeof *q->d);
        for (size_t i = 0; i < n; i++)
            q->d[i] = draw_scale(grain, mood);
        q->d_tensor = draw_float(with_exponent(draw_bits() & 0x7fffffffu, 120));
    }
    return (plumb_operand){q, transposed};
}

void draw_free(plumb_quantized *q)
{
    free(q->codes);
    free(q->d);
}

plumb_tile draw_tile(size_t m, size_t n)
{
    plumb_tile tile = {0};

    if (draw_below(3) == 0) {
        tile.row = draw_below(m);
        tile.row_end = tile.row + 1 + draw_below(m - tile.row);
        tile.col = draw_below(n);
        tile.col_end = tile.col + 1 + draw_below(n - tile.col);
    }
    return tile;
}

void draw_describe(char text[DRAW_TEXT], const plumb_operand *a, const plumb_operand *b,
                   enum mood mood)
{
    snprintf(text, DRAW_TEXT,
             "mood %d, formats %d %d, transposed %d %d, grains %d %d, scales %d %d", mood,
             a->matrix->format, b->matrix->format, a->transposed, b->transposed,
             a->matrix->grain, b->matrix->grain, a->matrix->d != NULL,
             b->matrix->d != NULL);
}
