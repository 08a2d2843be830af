/* cli/matmul.h - what the files of `plumb matmul` share: operands, results, differences. */
#ifndef PLUMB_CLI_MATMUL_H
#define PLUMB_CLI_MATMUL_H

#include "cli/cli.h"

#include "plumb/matmul.h"
#include "plumb/observe.h"

typedef struct matmul_values {
    cli_words accumulators;
    const char *compare, *layout, *spec, *spec_a, *spec_b, *codes, *codes_a, *codes_b;
    const char *out, *example;
    int64_t k;
    cli_seed seed;
    bool list, json;
} matmul_values;

/* Which index of the stored matrices is contracted. */
typedef struct matmul_layout {
    const char *name;
    bool a_transposed, b_transposed; /* stored as [K, M], [K, N] */
} matmul_layout;

/* One operand, as it was read and as it is multiplied. */
typedef struct matmul_side {
    const char *name;              /* the file, or "example" */
    const char *numbers, *chances; /* streams of random bits: never one for both, or the
                                      rounding would depend on the number */
    char type[16];                 /* of its elements */
    size_t rows, cols, inexact;
    float *x;
    bool are_codes;
    plumb_spec spec;
    plumb_quantized quantized;
    plumb_counts counts;
    plumb_spectrum spectrum;
} matmul_side;

typedef struct matmul_result {
    plumb_accumulator how;
    char text[PLUMB_ACCUMULATOR_TEXT];
    float *c;
    plumb_difference difference;
} matmul_result;

enum { MATMUL_MOST = 16 };

typedef struct matmul_problem {
    const matmul_layout *layout;
    matmul_side a, b;
    size_t m, n, k;
    size_t count;
    matmul_result results[MATMUL_MOST];
    const char *reference_name; /* an accumulator or a file; NULL: nothing is compared */
    float *reference;
} matmul_problem;

/* One screen, or JSON.  An exit code. */
int matmul_print(const matmul_problem *problem);
int matmul_print_json(const matmul_problem *problem);

/* Every accumulator with its parameters and what it rests on. */
int matmul_print_units(bool json);

#endif
