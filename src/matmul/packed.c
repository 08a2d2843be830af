/* Packing: a panel of either side for a product, or all of B for many (plumb/matmul.h).
 *
 * A packed B has its MX scales multiplied in if they allow it by themselves, in all of its panels;
 * whether those of A allow it too is for the product to say.
 */
#include "matmul/packed.h"
#include "base/size.h"
#include "matmul/mode.h"

enum { PART = 64 }; /* outer indices packed at once: a multiple of every nr */
enum { COLUMNS = 64, BLOCKS = PLUMB_MICRO_PANEL / PLUMB_MICRO_CHAIN };

void plumb_pack_panel(const plumb_micro *micro, const plumb_operand *operand, bool of_b,
                      const plumb_panel *panel, const plumb_scales *fold, float *to)
{
    const size_t chains = plumb_chains_in(panel->k_count);
    const size_t line = of_b ? chains * micro->chain : PLUMB_MICRO_LD;

    for (size_t i = 0; i < panel->outer_count; i += PART, to += PART * line) {
        const size_t count = smaller(PART, panel->outer_count - i);
        const plumb_panel part = {panel->outer + i, count, panel->k, panel->k_count};

        (of_b ? micro->slivers : micro->rows)(micro, operand, &part, to);
        if (fold == NULL)
            continue;
        const plumb_scales scales = {fold->d + i, fold->stride, fold->blocks, count};

        (of_b ? micro->fold_slivers : micro->fold_rows)(micro, &scales, chains, to);
    }
}

/* The next piece of B: through all columns of a panel, then to the next one. */
static bool next(const plumb_micro *micro, const plumb_operand *b, plumb_panel *at)
{
    const size_t n = plumb_operand_outer(b), depth = plumb_operand_depth(b);

    at->outer += at->outer_count;
    if (at->outer == n) {
        at->outer = 0;
        at->k += at->k_count;
    }
    at->outer_count = smaller(COLUMNS, n - at->outer);
    at->k_count = smaller(micro->panel, depth - at->k);
    return n > 0 && at->k < depth;
}

static bool can_fold(const plumb_micro *micro, const plumb_operand *b)
{
    float d[BLOCKS * COLUMNS];
    plumb_scales scales = {d, COLUMNS, 0, 0};
    plumb_panel at = {0};
    bool can = micro->fold_slivers != NULL && plumb_operand_block(b) == PLUMB_MICRO_CHAIN;

    while (can && next(micro, b, &at)) {
        plumb_pack_block_scales(b, &at, PLUMB_MICRO_CHAIN, &scales);
        can = plumb_can_fold_one(b->matrix->format, &scales);
    }
    return can;
}

void plumb_pack_with(const plumb_micro *micro, const plumb_operand *b, float *memory,
                     plumb_packed *packed)
{
    micro = plumb_micro_for(micro, b);
    const size_t n = plumb_operand_outer(b);
    const bool folded = can_fold(micro, b);
    float d[BLOCKS * COLUMNS];
    plumb_scales scales = {d, COLUMNS, 0, 0};
    plumb_panel at = {0};
    const unsigned before = plumb_mode_enter(micro->ftz);

    while (next(micro, b, &at)) {
        if (folded)
            plumb_pack_block_scales(b, &at, PLUMB_MICRO_CHAIN, &scales);
        plumb_pack_panel(micro, b, true, &at, folded ? &scales : NULL,
                         memory + plumb_packed_at(micro, n, at.outer, at.k,
                                                  plumb_chains_in(at.k_count)));
    }
    plumb_mode_leave(before);
    *packed = (plumb_packed){micro, memory, n, plumb_operand_depth(b), folded};
}
