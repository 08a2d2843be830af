/* plumb bench: the speed of the numeric core beside this machine's limits and other software. */
#include "cli/cli.h"

#include "plumb/bench.h"
#include "plumb/report.h"

#include <stdlib.h>

typedef struct values {
    const char *only;
    bool quick, peers, variants, json;
} values;

static const cli_option options[] = {
    {"only", 'o', "GLOB", CLI_TEXT, offsetof(values, only), 0, 0, NULL,
     "only the rows that fit, for example 'cast/*/L2'"},
    {"quick", 'q', NULL, CLI_FLAG, offsetof(values, quick), 0, 0, NULL,
     "a few seconds: short samples, nothing large"},
    {"peers", 'p', NULL, CLI_FLAG, offsetof(values, peers), 0, 0, NULL,
     "what is installed too: OpenBLAS, oneDNN, ml_dtypes, PyTorch"},
    {"variants", 0, NULL, CLI_FLAG, offsetof(values, variants), 0, 0, NULL,
     "every variant of a kernel, not only the fastest"},
    {"json", 0, NULL, CLI_FLAG, offsetof(values, json), 0, 0, NULL,
     "print the rows as JSON at the end"},
};

typedef struct bench_table {
    plumb_screen screen;
    bool begun;
} bench_table;

static void show(void *context, const json_t *document, const json_t *row)
{
    bench_table *table = context;

    if (!table->begun)
        plumb_bench_print_head(&table->screen, document);
    table->begun = true;
    plumb_bench_print_row(&table->screen, row);
}

static int exit_code(const json_t *document)
{
    const plumb_bench_tally tally = plumb_bench_count(document);

    if (tally.wrong > 0) {
        cli_complain("%zu row%s with a wrong result", tally.wrong,
                     tally.wrong == 1 ? "" : "s");
        return CLI_PROBLEM;
    }
    return tally.failed > 0 ? CLI_CANNOT_TELL : CLI_HEALTHY;
}

static int run(const void *given, const cli_line *line)
{
    const values *asked = given;
    bench_table table = {.screen = plumb_screen_for(stdout)};
    const plumb_bench_options bench = {.only = asked->only,
                                       .quick = asked->quick,
                                       .peers = asked->peers,
                                       .variants = asked->variants,
                                       .show = asked->json ? NULL : show,
                                       .context = &table};
    json_t *document;
    plumb_error why = {0};

    if (line->command != NULL)
        return cli_complain("'plumb bench' takes no command after '--'");
    if (plumb_bench_run(&bench, &document, &why) != PLUMB_OK)
        return cli_complain("%s", why.message);
    if (asked->json) {
        json_dumpf(document, stdout, JSON_INDENT(1) | JSON_ENSURE_ASCII);
        putchar('\n'); /* cli_finish sees a failure */
    }
    const int code = exit_code(document);

    json_decref(document);
    return code;
}

const cli_verb cli_bench = {
    .name = "bench",
    .usage = "bench [--quick] [--peers] [--only GLOB] [--json]",
    .summary = "Measure the numeric core beside the limits of this machine.",
    .notes =
        "Each row: the fastest variant here, checked against the reference and only then\n"
        "timed; what bounds it on this machine; with --peers other software at the same\n"
        "work.  Entries of a row take turns, so ratios hold on a busy machine too.",
    .exits = "0, 1 a result is wrong, 2 a row could not be run",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .size = sizeof(values),
    .run = run,
};
