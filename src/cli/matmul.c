/* plumb matmul: two matrices multiplied as a matrix unit does it, held against a reference.
 *
 * Operands come from npy files or from an example that is named; each is quantised by a spec,
 * so what is compared differs in the accumulator alone.
 */
#include "cli/matmul.h"

#include <stdlib.h>
#include <string.h>

#include "plumb/file.h"
#include "plumb/random.h"

#define AT(field) offsetof(matmul_values, field)

static const cli_option options[] = {
    {"accumulator", 'a', "UNIT", CLI_LIST, AT(accumulators), 0, 0, NULL,
     "what adds up the products; repeatable [fp32]"},
    {"list", 'l', NULL, CLI_FLAG, AT(list), 0, 0, NULL, "say which accumulators there are"},
    {"compare", 'c', "UNIT|C.npy", CLI_TEXT, AT(compare), 0, 0, NULL,
     "the reference [exact; none with --out]"},
    {"layout", 0, "nt|nn|tn", CLI_CHOICE, AT(layout), 0, 0, "nt",
     "nt: B is [N,K]; nn: [K,N]; tn: and A is [K,M]"},
    {"spec", 's', "SPEC", CLI_TEXT, AT(spec), 0, 0, NULL,
     "how both are quantised [e4m3, or bf16, fp16]"},
    {"spec-a", 0, "SPEC", CLI_TEXT, AT(spec_a), 0, 0, NULL, "how A is"},
    {"spec-b", 0, "SPEC", CLI_TEXT, AT(spec_b), 0, 0, NULL, "how B is"},
    {"codes", 0, "FORMAT", CLI_TEXT, AT(codes), 0, 0, NULL,
     "the files hold codes of this format (|u1)"},
    {"codes-a", 0, "FORMAT", CLI_TEXT, AT(codes_a), 0, 0, NULL, "the file A does"},
    {"codes-b", 0, "FORMAT", CLI_TEXT, AT(codes_b), 0, 0, NULL, "the file B does"},
    {"out", 'o', "FILE", CLI_TEXT, AT(out), 0, 0, NULL, "write C there, as '<f4'"},
    {"example", 0, "signed|same-sign", CLI_CHOICE, AT(example), 0, 0, NULL,
     "no files: 16 x K numbers"},
    {"k", 'k', "K", CLI_INT, AT(k), 0, 1 << 20, "4096", "K of the example"},
    {"seed", 0, "N", CLI_SEED, AT(seed), 0, 0, NULL,
     "of the example and of stochastic rounding [0]"},
    {"json", 0, NULL, CLI_FLAG, AT(json), 0, 0, NULL, "print it as JSON"},
};

static const matmul_layout layouts[] = {
    {"nt", false, false}, {"nn", false, true}, {"tn", true, true}};

enum { EXAMPLE_ROWS = 16, MOST_RESULTS = 1 << 28 };

/* --- operands ------------------------------------------------------------------------ */

static plumb_status out_of_memory(plumb_error *why)
{
    return plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
}

/* 16 x K standard normal numbers, or their sizes. */
static plumb_status make_example(const matmul_values *asked, bool transposed,
                                 matmul_side *side, plumb_error *why)
{
    const size_t k = (size_t)asked->k, count = EXAMPLE_ROWS * k;
    const bool same_sign = strcmp(asked->example, "same-sign") == 0;

    side->x = malloc(count * sizeof(float) + 1);
    if (side->x == NULL)
        return out_of_memory(why);
    plumb_random_normal(asked->seed.number, plumb_random_stream(side->numbers), 1, count,
                        side->x);
    for (size_t j = 0; same_sign && j < count; j++)
        side->x[j] = side->x[j] < 0 ? -side->x[j] : side->x[j];
    side->name = "example";
    plumb_print(side->type, sizeof side->type, "%s", asked->example);
    side->rows = transposed ? k : EXAMPLE_ROWS;
    side->cols = transposed ? EXAMPLE_ROWS : k;
    return PLUMB_OK;
}

static plumb_status unknown_codes(const char *option, const char *codes, plumb_error *why)
{
    const char *names[PLUMB_FORMAT_COUNT];
    char hint[PLUMB_HINT];

    for (int i = 0; i < PLUMB_FORMAT_COUNT; i++)
        names[i] = plumb_format_get((plumb_format)i)->name;
    plumb_hint(codes, names, PLUMB_FORMAT_COUNT, hint);
    return plumb_fail(why, PLUMB_BAD_ARGUMENT, "%s is '%.60s', which is no format%s",
                      option, codes, *hint != 0 ? hint : "; 'plumb format' lists them");
}

static plumb_status load_file(const char *path, const char *option, const char *codes,
                              matmul_side *side, plumb_error *why)
{
    plumb_format format = PLUMB_FP32;
    plumb_npy array;

    if (codes != NULL && !plumb_format_parse(codes, &format))
        return unknown_codes(option, codes, why);
    const plumb_status status =
        plumb_npy_load(path, codes != NULL ? &format : NULL, &array, why);

    if (status == PLUMB_UNSUPPORTED) {
        plumb_error inner = *why;

        return plumb_fail(why, status, "%.400s, with %s FORMAT", inner.message, option);
    }
    if (status != PLUMB_OK)
        return status;
    side->name = path;
    side->rows = array.rows;
    side->cols = array.cols;
    side->inexact = array.inexact;
    side->x = array.x;
    side->are_codes = codes != NULL;
    memcpy(side->type, array.type, sizeof side->type);
    return PLUMB_OK;
}

/* Formats that the spec of an operand falls back to: the first that all units multiply. */
static const char *usual_format(const matmul_problem *problem)
{
    static const plumb_format usual[] = {PLUMB_E4M3, PLUMB_BF16, PLUMB_FP16};

    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        bool all = true;

        for (size_t j = 0; all && j < problem->count; j++) {
            const plumb_unit *unit = plumb_unit_get(problem->results[j].how.kind);

            all = unit == NULL || (unit->formats >> usual[i] & 1) != 0;
        }
        if (all)
            return plumb_format_get(usual[i])->name;
    }
    return "e4m3";
}

/* Codes stay what they are unless a spec is given. */
static plumb_status quantise(const matmul_values *asked, const char *spec,
                             const char *codes, const char *usual, bool transposed,
                             matmul_side *side, plumb_error *why)
{
    const plumb_draw draw = {asked->seed.number, plumb_random_stream(side->chances)};
    const plumb_source source = {PLUMB_FP32, side->x, side->rows, side->cols, side->cols};
    char kept[PLUMB_SPEC_TEXT];
    plumb_copies copies = {.spectrum = &side->spectrum};
    size_t code_bytes, scales;
    plumb_format format;

    if (spec == NULL && codes != NULL && plumb_format_parse(codes, &format)) {
        plumb_print(kept, sizeof kept, "%s%s", codes,
                    plumb_format_get(format)->bits <= 8 ? ":none:overflow" : "");
        spec = kept;
    }
    plumb_status status =
        plumb_spec_parse(spec != NULL ? spec : usual, NULL, &side->spec, why);

    if (status == PLUMB_OK)
        status = plumb_quantized_need(&side->spec, side->rows, side->cols, transposed,
                                      &code_bytes, &scales, why);
    if (status != PLUMB_OK)
        return status;
    side->quantized.codes = malloc(code_bytes + 1);
    side->quantized.d = malloc(scales * sizeof(float) + 1);
    if (side->quantized.codes == NULL || side->quantized.d == NULL)
        return out_of_memory(why);
    float *const d = side->quantized.d;

    *(transposed ? &copies.along_rows : &copies.along_columns) = &side->quantized;
    *(transposed ? &copies.row_counts : &copies.column_counts) = &side->counts;
    status = plumb_quantize_copies(&side->spec, &source, &draw, NULL, false, &copies, why);
    if (side->quantized.d == NULL)
        free(d);
    return status;
}

static plumb_status load_operands(const matmul_values *asked, const cli_line *line,
                                  matmul_problem *problem, plumb_error *why)
{
    const char *codes_a = asked->codes_a != NULL ? asked->codes_a : asked->codes;
    const char *codes_b = asked->codes_b != NULL ? asked->codes_b : asked->codes;
    const char *usual = usual_format(problem);
    plumb_status status;

    problem->a.numbers = "matmul/a";
    problem->a.chances = "matmul/a/chances";
    problem->b.numbers = "matmul/b";
    problem->b.chances = "matmul/b/chances";
    if (asked->example != NULL) {
        status = make_example(asked, problem->layout->a_transposed, &problem->a, why);
        if (status == PLUMB_OK)
            status = make_example(asked, problem->layout->b_transposed, &problem->b, why);
    } else {
        status =
            load_file(line->words.at[0], asked->codes_a != NULL ? "--codes-a" : "--codes",
                      codes_a, &problem->a, why);
        if (status == PLUMB_OK)
            status = load_file(line->words.at[1],
                               asked->codes_b != NULL ? "--codes-b" : "--codes", codes_b,
                               &problem->b, why);
    }
    if (status == PLUMB_OK)
        status = quantise(asked, asked->spec_a != NULL ? asked->spec_a : asked->spec,
                          codes_a, usual, problem->layout->a_transposed, &problem->a, why);
    if (status == PLUMB_OK)
        status = quantise(asked, asked->spec_b != NULL ? asked->spec_b : asked->spec,
                          codes_b, usual, problem->layout->b_transposed, &problem->b, why);
    return status;
}

/* --- products ------------------------------------------------------------------------ */

static plumb_status find_shape(matmul_problem *problem, plumb_error *why)
{
    const matmul_side *a = &problem->a, *b = &problem->b;
    const matmul_layout *layout = problem->layout;
    const size_t k_a = layout->a_transposed ? a->rows : a->cols;
    const size_t k_b = layout->b_transposed ? b->rows : b->cols;
    size_t count;

    problem->m = layout->a_transposed ? a->cols : a->rows;
    problem->n = layout->b_transposed ? b->cols : b->rows;
    problem->k = k_a;
    if (k_a != k_b)
        return plumb_fail(
            why, PLUMB_BAD_SHAPE,
            "%.150s is %zu x %zu and %.150s %zu x %zu: with layout %s K would be "
            "%zu and %zu",
            a->name, a->rows, a->cols, b->name, b->rows, b->cols, layout->name, k_a, k_b);
    if (!plumb_mul_size(problem->m, problem->n, &count) || count > MOST_RESULTS)
        return plumb_fail(why, PLUMB_BAD_SHAPE,
                          "a result of %zu x %zu is too large; allowed: %d elements",
                          problem->m, problem->n, MOST_RESULTS);
    return PLUMB_OK;
}

static plumb_status multiply(const matmul_problem *problem, const plumb_accumulator *how,
                             float **c, plumb_error *why)
{
    const plumb_operand a = {&problem->a.quantized, problem->layout->a_transposed};
    const plumb_operand b = {&problem->b.quantized, problem->layout->b_transposed};
    const size_t need =
        plumb_matmul_workspace_bytes(how, problem->m, problem->n, problem->k);
    void *workspace = aligned_alloc(64, (need + 64) / 64 * 64);
    plumb_status status;

    *c = calloc(problem->m * problem->n + 1, sizeof **c);
    if (workspace == NULL || *c == NULL)
        status = out_of_memory(why);
    else
        status = plumb_matmul(how, &a, &b, *c, problem->n, false, (plumb_tile){0},
                              workspace, why);
    free(workspace);
    return status;
}

/* What the operands are not, which --spec can make of them: the first format that all take. */
static plumb_status advise(const matmul_problem *problem, plumb_error *why)
{
    const plumb_error inner = *why;
    uint32_t common = UINT32_MAX;

    for (size_t i = 0; i < problem->count; i++) {
        const plumb_unit *unit = plumb_unit_get(problem->results[i].how.kind);

        common &= unit != NULL ? unit->formats : UINT32_MAX;
    }
    for (int i = 0; i < PLUMB_FORMAT_COUNT; i++)
        if ((common >> i & 1) != 0)
            return plumb_fail(why, inner.status, "%.400s; try --spec %s", inner.message,
                              plumb_format_get((plumb_format)i)->name);
    return plumb_fail(why, inner.status, "%.400s; no format goes with all of these units",
                      inner.message);
}

static plumb_status multiply_all(matmul_problem *problem, plumb_error *why)
{
    plumb_status status = PLUMB_OK;

    for (size_t i = 0; i < problem->count && status == PLUMB_OK; i++)
        status = multiply(problem, &problem->results[i].how, &problem->results[i].c, why);
    return status == PLUMB_UNSUPPORTED ? advise(problem, why) : status;
}

/* The reference is an accumulator, or else a file that holds a result. */
static plumb_status find_reference(const matmul_values *asked, matmul_problem *problem,
                                   plumb_error *why)
{
    const char *name = asked->compare;
    const char *ending = name != NULL ? strrchr(name, '.') : NULL;
    plumb_accumulator how;
    plumb_npy array;

    if (name == NULL && asked->out != NULL)
        return PLUMB_OK;
    name = name != NULL ? name : "exact";
    problem->reference_name = name;
    if (ending == NULL || strcmp(ending, ".npy") != 0) {
        const plumb_status status = plumb_accumulator_parse(name, &how, why);

        return status == PLUMB_OK ? multiply(problem, &how, &problem->reference, why)
                                  : status;
    }
    const plumb_status status = plumb_npy_load(name, NULL, &array, why);

    if (status == PLUMB_UNSUPPORTED)
        return plumb_fail(
            why, status, "%.200s holds codes; a reference is read as numbers, fp32 or fp16",
            name);
    if (status != PLUMB_OK)
        return status;
    problem->reference = array.x;
    if (array.rows != problem->m || array.cols != problem->n)
        return plumb_fail(why, PLUMB_BAD_SHAPE, "%.200s is %zu x %zu, the result %zu x %zu",
                          name, array.rows, array.cols, problem->m, problem->n);
    return PLUMB_OK;
}

static plumb_status compute(const matmul_values *asked, const cli_line *line,
                            matmul_problem *problem, plumb_error *why)
{
    plumb_status status = load_operands(asked, line, problem, why);

    if (status == PLUMB_OK)
        status = find_shape(problem, why);
    if (status == PLUMB_OK)
        status = multiply_all(problem, why);
    if (status == PLUMB_OK)
        status = find_reference(asked, problem, why);
    for (size_t i = 0;
         status == PLUMB_OK && problem->reference != NULL && i < problem->count; i++)
        problem->results[i].difference = plumb_observe_difference(
            problem->results[i].c, problem->reference, problem->m, problem->n);
    return status;
}

/* --- the verb ------------------------------------------------------------------------ */

static plumb_status parse_accumulators(const cli_words *words, matmul_problem *problem,
                                       plumb_error *why)
{
    const size_t count = words->count > 0 ? words->count : 1;

    if (count > MATMUL_MOST)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "%zu accumulators; allowed: at most %d",
                          count, MATMUL_MOST);
    for (size_t i = 0; i < count; i++) {
        matmul_result *result = &problem->results[i];
        const plumb_status status = plumb_accumulator_parse(
            words->count > 0 ? words->at[i] : "fp32", &result->how, why);

        if (status != PLUMB_OK)
            return status;
        plumb_accumulator_print(&result->how, result->text);
    }
    problem->count = count;
    return PLUMB_OK;
}

static plumb_status check_usage(const matmul_values *asked, const cli_line *line,
                                matmul_problem *problem, plumb_error *why)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (strcmp(asked->layout, layouts[i].name) == 0)
            problem->layout = &layouts[i];
    if ((asked->example != NULL) == (line->words.count > 0))
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "'plumb matmul' needs two files, A.npy and B.npy, or --example");
    if (asked->example == NULL && line->words.count != 2)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "'plumb matmul' needs two files, got only '%.200s'",
                          line->words.at[0]);
    if (asked->example != NULL &&
        (asked->codes != NULL || asked->codes_a != NULL || asked->codes_b != NULL))
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "--codes is for files; an example holds numbers");
    if (asked->out != NULL && asked->accumulators.count > 1)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "--out writes one result; %zu accumulators were given",
                          asked->accumulators.count);
    return PLUMB_OK;
}

static void free_side(matmul_side *side)
{
    free(side->x);
    free(side->quantized.codes);
    free(side->quantized.d);
}

static void free_problem(matmul_problem *problem)
{
    free_side(&problem->a);
    free_side(&problem->b);
    for (size_t i = 0; i < problem->count; i++)
        free(problem->results[i].c);
    free(problem->reference);
}

static int run(const void *given, const cli_line *line)
{
    const matmul_values *asked = given;
    matmul_problem problem = {0};
    plumb_error why = {0};

    int code = CLI_HEALTHY;

    if (asked->list)
        return matmul_print_units(asked->json);
    plumb_status status = check_usage(asked, line, &problem, &why);

    if (status == PLUMB_OK)
        status = parse_accumulators(&asked->accumulators, &problem, &why);
    if (status == PLUMB_OK)
        status = compute(asked, line, &problem, &why);
    if (status == PLUMB_OK && asked->out != NULL)
        status =
            plumb_npy_save(asked->out, problem.results[0].c, problem.m, problem.n, &why);
    if (status != PLUMB_OK)
        code = cli_complain("%s", why.message);
    else
        code = asked->json ? matmul_print_json(&problem) : matmul_print(&problem);
    free_problem(&problem);
    return code;
}

const cli_verb cli_matmul = {
    .name = "matmul",
    .usage = "matmul A.npy B.npy [options]\nmatmul --example signed|same-sign [options]",
    .words = "A.npy B.npy",
    .summary = "Multiply as GPU matrix units do; how far is it from exact?",
    .notes = "docs/accumulators.md says what each accumulator does and what that rests on.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .size = sizeof(matmul_values),
    .most_words = 2,
    .run = run,
};
