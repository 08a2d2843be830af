/* Sizes whose product overflows are refused wherever sizes are multiplied, before anything is read or
 * written: the pointers here lead to one element.
 */
#include "check.h"
#include "plumb/matmul.h"

#include <stdint.h>

static const struct {
    size_t rows, cols;
} huge[] = {
    {SIZE_MAX, SIZE_MAX},
    {SIZE_MAX, 2},
    {2, SIZE_MAX},
    {SIZE_MAX / 2 + 2, 2},
    {(size_t)1 << 32, (size_t)1 << 32},
    {(size_t)1 << 40, (size_t)1 << 30},
    {SIZE_MAX / 3, 5},
    {SIZE_MAX, 1},
    {1, SIZE_MAX},
    {SIZE_MAX / 4 + 1, 1},
};
enum { HUGE_COUNT = sizeof huge / sizeof huge[0] };

static const struct {
    plumb_format format;
    plumb_grain grain;
    plumb_scale_rule rule;
} operands[] = {
    {PLUMB_FP32, PLUMB_GRAIN_TENSOR, PLUMB_SCALE_NONE},
    {PLUMB_BF16, PLUMB_GRAIN_TENSOR, PLUMB_SCALE_NONE},
    {PLUMB_E4M3, PLUMB_GRAIN_TENSOR, PLUMB_SCALE_CURRENT},
    {PLUMB_E4M3, PLUMB_GRAIN_ROW, PLUMB_SCALE_CURRENT},
    {PLUMB_E4M3, PLUMB_GRAIN_1X128, PLUMB_SCALE_CURRENT},
    {PLUMB_E5M2, PLUMB_GRAIN_128X128, PLUMB_SCALE_CURRENT},
    {PLUMB_E4M3, PLUMB_GRAIN_MX32, PLUMB_SCALE_CURRENT},
    {PLUMB_E2M1, PLUMB_GRAIN_NVFP4, PLUMB_SCALE_CURRENT},
};
enum { OPERANDS = sizeof operands / sizeof operands[0] };

static plumb_spec spec_of(size_t i)
{
    return (plumb_spec){.format = operands[i].format,
                        .grain = operands[i].grain,
                        .rule = operands[i].rule,
                        .saturate = true};
}

/* Whether rows * cols elements of that size are more bytes than a size_t counts. */
static bool too_many(size_t rows, size_t cols, size_t bytes)
{
    size_t elements, all;

    return __builtin_mul_overflow(rows, cols, &elements) ||
           __builtin_mul_overflow(elements, bytes, &all);
}

static void needs(void)
{
    for (size_t i = 0; i < OPERANDS; i++)
        for (size_t h = 0; h < HUGE_COUNT; h++)
            for (int along = 0; along < 2; along++) {
                const plumb_spec spec = spec_of(i);
                const size_t bytes = (size_t)plumb_format_get(spec.format)->bytes;
                size_t code_bytes = 7, scales = 7;
                plumb_error why = {0};
                const plumb_status status =
                    plumb_quantized_need(&spec, huge[h].rows, huge[h].cols, along != 0,
                                         &code_bytes, &scales, &why);

                CHECK(status == PLUMB_OK || status == PLUMB_BAD_SHAPE, "status %d", status);
                CHECK(status != PLUMB_BAD_SHAPE || why.message[0] != 0, "no message");
                if (too_many(huge[h].rows, huge[h].cols, bytes))
                    CHECK(status == PLUMB_BAD_SHAPE,
                          "%s grain %d: %zu x %zu accepted, %zu bytes",
                          plumb_format_get(spec.format)->name, (int)spec.grain,
                          huge[h].rows, huge[h].cols, code_bytes);
            }
    check_done("what a quantised matrix needs");
}

static void quantising(void)
{
    for (size_t i = 0; i < OPERANDS; i++)
        for (size_t h = 0; h < HUGE_COUNT; h++) {
            const plumb_spec spec = spec_of(i);
            float x = 1, d = 5;
            uint32_t codes = 5;
            plumb_quantized q = {.codes = &codes, .d = &d};
            plumb_error why = {0};

            if (!too_many(huge[h].rows, huge[h].cols, sizeof x))
                continue;
            CHECK(plumb_quantize(&spec, &x, huge[h].rows, huge[h].cols, false, NULL, false,
                                 &q, NULL, &why) == PLUMB_BAD_SHAPE,
                  "%s grain %d: %zu x %zu", plumb_format_get(spec.format)->name,
                  (int)spec.grain, huge[h].rows, huge[h].cols);
            CHECK(codes == 5 && d == 5, "something was written");
        }
    check_done("quantising");
}

static void strided(void)
{
    const plumb_spec spec = spec_of(2);
    float x = 1, d = 5;
    uint8_t codes = 5;
    plumb_quantized q = {.codes = &codes, .d = &d};
    plumb_copies copies = {.along_columns = &q};
    plumb_source source = {PLUMB_FP32, &x, 1, 1, 0};
    plumb_error why = {0};

    CHECK(plumb_quantize_copies(&spec, &source, NULL, NULL, false, &copies, &why) ==
              PLUMB_BAD_SHAPE,
          "rows closer than they are long");
    source = (plumb_source){PLUMB_FP32, &x, 4, 1, SIZE_MAX / 2};
    CHECK(plumb_quantize_copies(&spec, &source, NULL, NULL, false, &copies, &why) ==
              PLUMB_BAD_SHAPE,
          "the fourth row lies past the end of memory");
    CHECK(codes == 5 && d == 5, "something was written");
    check_done("leading dimensions of a source");
}

static void products(void)
{
    for (size_t h = 0; h < HUGE_COUNT; h++) {
        uint8_t codes = 0x38;
        float c = 5;
        _Alignas(64) static unsigned char work[1 << 20];
        const plumb_quantized big = {PLUMB_E4M3,
                                     PLUMB_GRAIN_TENSOR,
                                     false,
                                     huge[h].rows,
                                     huge[h].cols,
                                     huge[h].cols,
                                     &codes,
                                     NULL,
                                     0};
        const plumb_operand o = {&big, false};
        const plumb_tile tile = {huge[h].rows - 1, huge[h].rows, 0, 1};
        plumb_error why = {0};

        if (!too_many(huge[h].rows, huge[h].cols, 1))
            continue;
        CHECK(plumb_matmul(NULL, &o, &o, &c, huge[h].rows, false, tile, work, &why) ==
                  PLUMB_BAD_SHAPE,
              "an operand of %zu x %zu", huge[h].rows, huge[h].cols);
        CHECK(c == 5 && why.message[0] != 0, "C is %g", (double)c);
    }
    check_done("operands of a product");
}

/* C[4, 1] whose rows are so far apart that the last has no address. */
static void results(void)
{
    uint8_t codes[4] = {0x38, 0x38, 0x38, 0x38};
    float c = 5;
    _Alignas(64) static unsigned char work[1 << 20];
    const plumb_quantized q = {PLUMB_E4M3, PLUMB_GRAIN_TENSOR, false, 4, 1, 1, codes, NULL,
                               0};
    const plumb_operand o = {&q, false};
    plumb_error why = {0};

    CHECK(plumb_matmul(NULL, &o, &o, &c, SIZE_MAX / 8, false, (plumb_tile){0, 0, 0, 0},
                       work, &why) == PLUMB_BAD_SHAPE,
          "a leading dimension of SIZE_MAX / 8");
    CHECK(plumb_matmul(NULL, &o, &o, &c, 3, false, (plumb_tile){0, 0, 0, 0}, work, &why) ==
              PLUMB_BAD_SHAPE,
          "a leading dimension below N");
    CHECK(plumb_matmul(NULL, &o, &o, &c, 4, false, (plumb_tile){3, SIZE_MAX, 0, 1}, work,
                       &why) == PLUMB_BAD_SHAPE,
          "a tile without end");
    CHECK(c == 5, "C was written");
    check_done("results of a product");
}

static void workspaces(void)
{
    for (size_t h = 0; h < HUGE_COUNT; h++)
        for (int kind = 0; kind < PLUMB_SUM_COUNT; kind++) {
            const plumb_accumulator how = {.kind = (plumb_sum_kind)kind};
            const size_t bytes = plumb_matmul_workspace_bytes(&how, huge[h].rows,
                                                              huge[h].cols, huge[h].rows);

            CHECK(bytes < 1 << 20, "%s, K = %zu: %zu bytes", plumb_sum_kind_name(how.kind),
                  huge[h].rows, bytes);
        }
    check_done("workspaces stay below 1 MiB");
}

static void decoding(void)
{
    for (size_t h = 0; h < HUGE_COUNT; h++) {
        uint8_t codes = 0x38;
        float x = 5;
        const plumb_quantized q = {PLUMB_E4M3,
                                   PLUMB_GRAIN_TENSOR,
                                   false,
                                   huge[h].rows,
                                   huge[h].cols,
                                   huge[h].cols,
                                   &codes,
                                   NULL,
                                   0};
        plumb_error why = {0};

        if (!too_many(huge[h].rows, huge[h].cols, sizeof x))
            continue;
        CHECK(plumb_dequantize(&q, &x, &why) == PLUMB_BAD_SHAPE, "%zu x %zu", huge[h].rows,
              huge[h].cols);
        CHECK(x == 5, "something was written");
    }
    check_done("decoding a matrix");
}

int main(void)
{
    needs();
    quantising();
    strided();
    products();
    results();
    workspaces();
    decoding();
    return check_exit();
}
