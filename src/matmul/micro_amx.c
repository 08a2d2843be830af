/* The canonical product in tiles of 32 x 32 by AMX, whose TDPBF16PS the order of the sum was made
 * after.
 *
 * One TDPBF16PS is a pair of chains for 16 x 16 results: the even and the odd of 32 products added
 * from +0 by FMA, then the two sums, then that to the result; to nearest even, with operands and
 * results below 2^-126 flushed, whatever MXCSR says.  Two tiles of A by two of B take one load for
 * each multiplication, a sliver of 512 x 32 lies in the first cache and A in the second.
 *
 * No machine with AMX was at hand: these instructions have been run only by the emulator of the
 * tests.  So one product is compared with the reference in every process, before this kernel is
 * first chosen; where a bit differs it is not used (trial.c).
 */
#include "matmul/micro.h"

#if defined(__x86_64__)
#define PAIR_STEP 1 /* one of each chain */
#include "matmul/pairs_avx512bf16.h"

enum {
    ROWS = 32,
    TILE = 16, /* rows of a tile; it has as many floats, or pairs, in each */
    A_BYTES = PLUMB_MICRO_LD * sizeof(float),
    B_BYTES = NR * sizeof(float)
};

/* Every tile is whole.  Never on the stack: gcc 12 believes that LDTILECFG reads 8 bytes, and may
 * drop stores to the others.
 */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;
_Static_assert(sizeof(tile_config) == 64, "LDTILECFG reads 64 bytes");

static const _Alignas(64) tile_config config = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {TILE, TILE, TILE, TILE, TILE, TILE, TILE, TILE}};

void plumb_micro_enter_amx(void)
{
    _tile_loadconfig(&config);
}

void plumb_micro_leave_amx(void)
{
    _tile_release();
}

/* Results in tiles 0 to 3, two of A in 4 and 5, two of B in 6 and 7. */
void plumb_micro_run_amx(size_t chains, const float *a, const float *b, float *tile,
                         bool first)
{
    /* gcc does not know that the loads below read memory. */
    __asm__ volatile("" ::: "memory");
    if (first) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    } else {
        _tile_loadd(0, tile, B_BYTES);
        _tile_loadd(1, tile + TILE, B_BYTES);
        _tile_loadd(2, tile + TILE * NR, B_BYTES);
        _tile_loadd(3, tile + TILE * NR + TILE, B_BYTES);
    }
    for (size_t n = 0; n < chains; n++) {
        _tile_loadd(6, b, B_BYTES);
        _tile_stream_loadd(4, a, A_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + TILE, B_BYTES);
        _tile_dpbf16ps(1, 4, 7);
        _tile_stream_loadd(5, a + TILE * PLUMB_MICRO_LD, A_BYTES);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        a += TILE;
        b += TILE * NR;
    }
    _tile_stored(0, tile, B_BYTES);
    _tile_stored(1, tile + TILE, B_BYTES);
    _tile_stored(2, tile + TILE * NR, B_BYTES);
    _tile_stored(3, tile + TILE * NR + TILE, B_BYTES);
}

void plumb_micro_join_amx(const float *tile, const float *da, const float *db, float *sum,
                          bool first)
{
    join_rows(ROWS, tile, da, db, sum, first);
}

void plumb_micro_rows_amx(const plumb_micro *micro, const plumb_operand *operand,
                          const plumb_panel *panel, float *rows)
{
    (void)micro;
    pack_rows(operand, panel, rows);
}

void plumb_micro_slivers_amx(const plumb_micro *micro, const plumb_operand *operand,
                             const plumb_panel *panel, float *slivers)
{
    (void)micro;
    pack_slivers(operand, panel, slivers);
}

void plumb_micro_fold_rows_amx(const plumb_micro *micro, const plumb_scales *scales,
                               size_t chains, float *x)
{
    (void)micro;
    fold_rows(scales, chains, x);
}

void plumb_micro_fold_slivers_amx(const plumb_micro *micro, const plumb_scales *scales,
                                  size_t chains, float *x)
{
    fold_slivers(micro, scales, chains, x);
}
#endif
