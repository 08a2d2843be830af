/* The table of grains.  A length of 0 stands for the whole axis, however long. */
#include "quant/grain.h"

static const struct {
    size_t along, beside; /* elements along the contraction axis, and beside it */
} lengths[] = {
    [PLUMB_GRAIN_TENSOR] = {0, 0},
    [PLUMB_GRAIN_1X128] = {PLUMB_BLOCK, 1},
    [PLUMB_GRAIN_128X128] = {PLUMB_BLOCK, PLUMB_BLOCK},
    [PLUMB_GRAIN_ROW] = {0, 1},
    [PLUMB_GRAIN_MX32] = {32, 1},
    [PLUMB_GRAIN_NVFP4] = {16, 1},
};

bool plumb_grain_exists(plumb_grain grain)
{
    return (unsigned)grain < sizeof lengths / sizeof *lengths;
}

size_t plumb_grain_length(plumb_grain grain)
{
    return plumb_grain_exists(grain) ? lengths[grain].along : 0;
}

bool plumb_grain_turns(plumb_grain grain)
{
    return plumb_grain_exists(grain) && lengths[grain].along != lengths[grain].beside;
}

/* How many blocks of `length` n elements make, and how long they are. */
static size_t divide(size_t n, size_t length, size_t *block)
{
    if (length == 0) {
        *block = n == 0 ? 1 : n;
        return 1;
    }
    *block = length;
    return n / length + (n % length != 0);
}

plumb_blocks plumb_blocks_of(plumb_grain grain, bool along_rows, size_t rows, size_t cols)
{
    const size_t row = plumb_grain_exists(grain) ? (size_t)grain : PLUMB_GRAIN_TENSOR;
    const size_t along = lengths[row].along, beside = lengths[row].beside;
    plumb_blocks b;

    b.down = divide(rows, along_rows ? along : beside, &b.height);
    b.across = divide(cols, along_rows ? beside : along, &b.width);
    return b;
}

plumb_blocks plumb_blocks_in(const plumb_quantized *q)
{
    return plumb_blocks_of(q->grain, q->along_rows, q->rows, q->cols);
}
