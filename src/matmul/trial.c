/* One product of a micro-kernel on trial, compared with the reference bit for bit.
 *
 * It is made to tell orders, roundings and moments of flushing apart: sums that cancel, operands
 * below 2^-126, products and sums about 2^-126, a NaN and infinities, and K that ends within a
 * chain.  The reference takes half of the rows, of all tiles of a kernel.
 */
#include "matmul/lanes.h"
#include "matmul/micro.h"

#include <string.h>

enum { SIDE = 32, DEPTH = 52, WORKSPACE = 112 << 10 };
enum { FIRST = SIDE / 4, LAST = FIRST + SIDE / 2 }; /* rows compared */

/* A bf16 with an exponent field of first to first + 15. */
static uint16_t draw(uint32_t *state, unsigned first)
{
    *state = *state * 1664525u + 1013904223u;
    const uint32_t bits = *state >> 8;

    return (uint16_t)((bits & 1) << 15 | (first + (bits >> 1 & 15)) << 7 |
                      (bits >> 5 & 127));
}

/* Exponent fields of the outer indices in turn: about 2^0, 2^-63, and 2^-126 in A. */
static void fill(uint16_t x[SIDE][DEPTH], uint32_t state, const unsigned first[4],
                 uint16_t turned)
{
    for (size_t i = 0; i < SIDE; i++) {
        for (size_t k = 0; k < DEPTH; k++) {
            const bool again = k % 8 >= 4 && i % 8 >= 4;

            x[i][k] = again ? (uint16_t)(x[i][k - 4] ^ turned) : draw(&state, first[i % 4]);
        }
    }
}

static bool product_by(const plumb_micro *micro, const plumb_quantized *a,
                       const plumb_quantized *b, plumb_tile tile, float *c)
{
    _Alignas(64) unsigned char workspace[WORKSPACE];
    const plumb_operand left = {a, false}, right = {b, false};

    return plumb_matmul_workspace_bytes(NULL, SIDE, SIDE, DEPTH) <= sizeof workspace &&
           plumb_matmul_with(micro, &plumb_lanes_rows[0], NULL, &left, &right, c, SIDE,
                             false, tile, workspace, NULL) == PLUMB_OK;
}

bool plumb_micro_agrees(const plumb_micro *micro)
{
    static const unsigned of_a[4] = {120, 57, 0, 120}, of_b[4] = {120, 57, 120, 120};
    uint16_t x[SIDE][DEPTH], y[SIDE][DEPTH];
    float want[SIDE * SIDE] = {0}, got[SIDE * SIDE];
    const plumb_tile all = {0, SIDE, 0, SIDE}, some = {FIRST, LAST, 0, SIDE};
    const plumb_quantized a = {
        .format = PLUMB_BF16, .rows = SIDE, .cols = DEPTH, .ld = DEPTH, .codes = x};
    const plumb_quantized b = {
        .format = PLUMB_BF16, .rows = SIDE, .cols = DEPTH, .ld = DEPTH, .codes = y};

    fill(x, 1, of_a, 0x8000); /* k + 4 takes away what k added, but for what was rounded */
    fill(y, 2, of_b, 0);
    x[10][51] = 0x7f80;
    x[22][3] = 0x7fc1;
    y[9][49] = 0xff80;
    return product_by(&plumb_micros[0], &a, &b, some, want) &&
           product_by(micro, &a, &b, all, got) &&
           memcmp(want + FIRST * SIDE, got + FIRST * SIDE,
                  (LAST - FIRST) * SIDE * sizeof *want) == 0;
}
