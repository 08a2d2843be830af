/* matmul/epilogue.h - results that are measured and cast as they are stored (plumb_epilogue). */
#ifndef PLUMB_MATMUL_EPILOGUE_H
#define PLUMB_MATMUL_EPILOGUE_H

#include "matmul/product.h"

/* Of `cols` results x, which are C[row, col] and what follows. */
void plumb_epilogue_row(const plumb_product *of, size_t row, size_t col, size_t cols,
                        const float *x);

/* Of the whole tile, from C as it is stored, or from zeros where C is NULL. */
void plumb_epilogue_tile(const plumb_product *of);

plumb_status plumb_epilogue_check(const plumb_product *of, plumb_error *why);

#endif
