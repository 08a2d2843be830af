/* How `plumb matmul` shows results and their differences. */
#include "cli/matmul.h"

#include <math.h>
#include <string.h>

#include "file/text.h"
#include "plumb/file.h"

/* --- text ---------------------------------------------------------------------------- */

static void print_clean(const char *text)
{
    cli_print_clean(stdout, text);
}

static void print_headline(const matmul_problem *problem)
{
    const matmul_result *first = &problem->results[0];
    const plumb_difference *found = &first->difference;

    printf("%s", first->text);
    if (problem->reference == NULL) {
        printf(": a result of %zu x %zu\n\n", problem->m, problem->n);
        return;
    }
    if (problem->k == 0 || problem->m * problem->n == 0) {
        printf(": %s, so there is nothing to compare\n\n",
               problem->k == 0 ? "no products to add (K = 0)" : "no results");
        return;
    }
    if (!found->any)
        printf(" gives the bits of ");
    else if (found->nonfinite != found->nonfinite_reference)
        printf(": %zu of %zu results are not finite, but %zu of ", found->nonfinite,
               problem->m * problem->n, found->nonfinite_reference);
    else if (fabs(found->bias) >= found->frobenius / 2)
        printf(": sums too %s by %.2g %% on the whole, against ",
               found->bias < 0 ? "small" : "large", 100 * fabs(found->bias));
    else
        printf(": relative error %.2g %% with no shift to one side, against ",
               100 * found->frobenius);
    print_clean(problem->reference_name);
    printf("%s\n\n", found->nonfinite_reference == problem->m * problem->n
                         ? ", none of which is finite"
                         : "");
}

static double quantisation_error(const matmul_side *side)
{
    return side->spectrum.signal > 0 ? sqrt(side->spectrum.error / side->spectrum.signal)
                                     : 0;
}

static void print_side(const char *letter, const matmul_side *side)
{
    char spec[PLUMB_SPEC_TEXT];

    plumb_spec_print(&side->spec, spec);
    printf("%-12s ", letter);
    print_clean(side->name);
    printf(" (%s), %zu x %zu, as %s: error %.2g %%", side->type, side->rows, side->cols,
           spec, 100 * quantisation_error(side));
    const struct {
        uint64_t count;
        const char *word;
    } words[] = {{side->counts.saturated, "saturated"},
                 {side->counts.flushed, "flushed"},
                 {side->counts.nonfinite, "non-finite"},
                 {side->inexact, "rounded from fp64"}};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].count > 0)
            printf(", %llu %s", (unsigned long long)words[i].count, words[i].word);
    putchar('\n');
}

static void print_result(const matmul_problem *problem, const matmul_result *result)
{
    const plumb_difference *found = &result->difference;
    const double count = (double)problem->m * (double)problem->n;
    char worst[PLUMB_REAL_TEXT], reference[PLUMB_REAL_TEXT];

    printf("%-30s %8.2e  %+9.2e  %6.2f %%  ", result->text, found->frobenius, found->bias,
           count > 0 ? 100 * (double)found->equal / count : 100);
    if (!found->any) {
        printf("none\n");
        return;
    }
    plumb_text_from_float(found->worst, worst);
    plumb_text_from_float(found->worst_reference, reference);
    printf("[%zu,%zu] %s, not %s\n", found->row, found->col, worst, reference);
}

static void print_nonfinite(const matmul_problem *problem)
{
    for (size_t i = 0; i < problem->count; i++) {
        const plumb_difference *found = &problem->results[i].difference;

        if (found->nonfinite + found->nonfinite_reference > 0)
            printf("non-finite   %zu in %s, %zu in the reference; left out of errors\n",
                   found->nonfinite, problem->results[i].text, found->nonfinite_reference);
    }
}

static const char *evidence_of(plumb_sum_kind kind)
{
    const plumb_unit *unit = plumb_unit_get(kind);

    return unit == NULL ? "defined in plumb/matmul.h" : plumb_evidence_name(unit->evidence);
}

static bool seen_before(const matmul_problem *problem, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (problem->results[j].how.kind == problem->results[i].how.kind)
            return true;
    return false;
}

/* "evidence     " and words, broken at spaces; the last line is left open. */
static void print_words(const char *words, size_t *column)
{
    while (*words != 0) {
        const size_t length = strcspn(words, " ");

        if (*column + 1 + length > 99)
            *column = (size_t)printf("\n%12s", "") - 1;
        *column += (size_t)printf(" %.*s", (int)length, words);
        words += length + (words[length] == ' ');
    }
}

/* The grade of each unit; of a single one also what exactly it was checked against. */
static void print_evidence(const matmul_problem *problem)
{
    size_t column = (size_t)printf("%-12s", "evidence");
    size_t kinds = 0;

    for (size_t i = 0; i < problem->count; i++) {
        const plumb_sum_kind kind = problem->results[i].how.kind;
        char words[120];

        if (seen_before(problem, i))
            continue;
        plumb_print(words, sizeof words, "%s%s: %s", kinds++ > 0 ? "| " : "",
                    plumb_sum_kind_name(kind), evidence_of(kind));
        print_words(words, &column);
    }
    const plumb_unit *only = plumb_unit_get(problem->results[0].how.kind);

    if (kinds == 1 && only != NULL) {
        print_words("|", &column);
        print_words(only->source, &column);
    }
    putchar('\n');
}

/* A unit that cuts its sums short is worth a second look with promotion. */
static void print_next(const matmul_problem *problem)
{
    const matmul_result *only = &problem->results[0];
    plumb_accumulator promoted = only->how;
    char text[PLUMB_ACCUMULATOR_TEXT];

    if (problem->count != 1 || only->how.promote128 ||
        plumb_unit_get(only->how.kind) == NULL || only->difference.frobenius < 1e-5)
        return;
    promoted.promote128 = true;
    plumb_accumulator_print(&promoted, text);
    printf("\nnext: the same with --accumulator %s --accumulator %s\n", only->text, text);
}

int matmul_print(const matmul_problem *problem)
{
    print_headline(problem);
    print_side("A", &problem->a);
    print_side("B", &problem->b);
    printf("%-12s %zu x %zu, K = %zu, layout %s\n", "product", problem->m, problem->n,
           problem->k, problem->layout->name);
    if (problem->reference != NULL) {
        printf("\n%-30s %8s  %9s  %8s  worst element\n", "accumulator", "error", "bias",
               "equal");
        for (size_t i = 0; i < problem->count; i++)
            print_result(problem, &problem->results[i]);
        putchar('\n');
        print_nonfinite(problem);
    }
    print_evidence(problem);
    if (problem->reference != NULL)
        print_next(problem);
    return CLI_HEALTHY;
}

/* --- JSON ---------------------------------------------------------------------------- */

static json_t *side_json(const matmul_side *side)
{
    char spec[PLUMB_SPEC_TEXT];

    plumb_spec_print(&side->spec, spec);
    return json_pack(
        "{s:s, s:s, s:I, s:I, s:s, s:o, s:I, s:I, s:I, s:I}", "name", side->name, "type",
        side->type, "rows", (json_int_t)side->rows, "cols", (json_int_t)side->cols, "spec",
        spec, "relative_error", plumb_json_real(quantisation_error(side)), "saturated",
        (json_int_t)side->counts.saturated, "flushed", (json_int_t)side->counts.flushed,
        "nonfinite", (json_int_t)side->counts.nonfinite, "rounded_from_fp64",
        (json_int_t)side->inexact);
}

static json_t *worst_json(const plumb_difference *found)
{
    if (!found->any)
        return json_null();
    return json_pack("{s:I, s:I, s:o, s:o}", "row", (json_int_t)found->row, "col",
                     (json_int_t)found->col, "value", plumb_json_real((double)found->worst),
                     "reference", plumb_json_real((double)found->worst_reference));
}

static json_t *result_json(const matmul_problem *problem, const matmul_result *result)
{
    const plumb_difference *found = &result->difference;
    json_t *json = json_pack("{s:s, s:s}", "accumulator", result->text, "evidence",
                             evidence_of(result->how.kind));

    if (problem->reference == NULL)
        return json;
    json_object_set_new(json, "relative_error", plumb_json_real(found->frobenius));
    json_object_set_new(json, "bias", plumb_json_real(found->bias));
    json_object_set_new(json, "equal", json_integer((json_int_t)found->equal));
    json_object_set_new(json, "nonfinite", json_integer((json_int_t)found->nonfinite));
    json_object_set_new(json, "nonfinite_reference",
                        json_integer((json_int_t)found->nonfinite_reference));
    json_object_set_new(json, "worst", worst_json(found));
    return json;
}

int matmul_print_json(const matmul_problem *problem)
{
    json_t *results = json_array();

    for (size_t i = 0; i < problem->count; i++)
        json_array_append_new(results, result_json(problem, &problem->results[i]));
    return cli_print_json(json_pack(
        "{s:o, s:o, s:s, s:I, s:I, s:I, s:s?, s:o}", "a", side_json(&problem->a), "b",
        side_json(&problem->b), "layout", problem->layout->name, "m",
        (json_int_t)problem->m, "n", (json_int_t)problem->n, "k", (json_int_t)problem->k,
        "reference", problem->reference_name, "results", results));
}
