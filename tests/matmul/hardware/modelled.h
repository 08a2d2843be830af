/* modelled.h - what the library makes of a tile. */
#ifndef TESTS_MATMUL_HARDWARE_MODELLED_H
#define TESTS_MATMUL_HARDWARE_MODELLED_H

#include "tiles.h"

#include "plumb/matmul.h"

plumb_sum_kind operation_kind(const operation *op);

/* Result i of the tile, through plumb_unit_dot: bits of fp32, of fp16 results widened. */
uint32_t modelled(const plumb_unit *unit, const operation *op, const tile *t, int i);

#endif
