/* The end of a product that is measured or cast as it is stored: pieces of rows, while they are in
 * the cache, through the cast that the caller would have used on the whole.
 */
#include "matmul/epilogue.h"
#include "base/size.h"
#include "matmul/mode.h"

enum { PIECE = 256 };

void plumb_epilogue_row(const plumb_product *of, size_t row, size_t col, size_t cols,
                        const float *x)
{
    const plumb_epilogue *e = of->extras.epilogue;

    if (e->amax != NULL) {
        const float amax = plumb_cast_amax(x, cols);

        *e->amax = amax > *e->amax ? amax : *e->amax;
    }
    if (e->cast == NULL)
        return;
    const size_t bytes = (size_t)plumb_format_get(e->cast->format)->bytes;
    plumb_cast cast = *e->cast;

    cast.first += row * plumb_operand_outer(of->b) + col;
    plumb_cast_encode(&cast, x, cols,
                      (unsigned char *)e->codes + (row * e->ld + col) * bytes, e->counts);
}

void plumb_epilogue_tile(const plumb_product *of)
{
    static const float zeros[PIECE];
    const plumb_tile *t = &of->tile;
    const unsigned before = plumb_mode_enter(false);

    for (size_t row = t->row; row < t->row_end; row++) {
        for (size_t col = t->col; col < t->col_end; col += PIECE)
            plumb_epilogue_row(of, row, col, smaller(PIECE, t->col_end - col),
                               of->c != NULL ? of->c + row * of->ldc + col : zeros);
    }
    plumb_mode_leave(before);
}

plumb_status plumb_epilogue_check(const plumb_product *of, plumb_error *why)
{
    const plumb_epilogue *e = of->extras.epilogue;
    const bool casts = e != NULL && e->cast != NULL;
    const size_t n = plumb_operand_outer(of->b);
    size_t count;

    if (of->c == NULL && n > 0 && plumb_operand_outer(of->a) > 0 &&
        (!casts || of->accumulate || of->how->kind != PLUMB_SUM_FP32))
        return plumb_fail(
            why, PLUMB_BAD_ARGUMENT,
            "c may be missing only where results are cast, by the accumulator "
            "fp32, and not added to it");
    if (!casts)
        return PLUMB_OK;
    const plumb_status status = plumb_cast_encode(e->cast, NULL, 0, NULL, NULL);

    if (status != PLUMB_OK)
        return plumb_fail(why, status,
                          "the cast of the results to format %d by %.9g is none that "
                          "plumb_cast_encode makes",
                          (int)e->cast->format, (double)e->cast->scale);
    if (e->ld < n || !plumb_mul_size(plumb_operand_outer(of->a), e->ld, &count) ||
        !plumb_mul_size(count, (size_t)plumb_format_get(e->cast->format)->bytes, &count))
        return plumb_fail(why, PLUMB_BAD_SHAPE,
                          "codes of the results: ld=%zu is below n=%zu, or overflows",
                          e->ld, n);
    return PLUMB_OK;
}
