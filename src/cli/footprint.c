/* plumb footprint: what a run would take, before it runs. */
#include "cli/cli.h"

#include "plumb/train.h"

#include <stdlib.h>
#include <string.h>

typedef struct values {
    cli_words set;
    int64_t measure;
    bool json;
} values;

static const cli_option options[] = {
    {"set", 's', "KEY=VALUE", CLI_LIST, offsetof(values, set), 0, 0, NULL,
     "override a setting; may be given several times"},
    {"measure", 'm', "STEPS", CLI_INT, offsetof(values, measure), 0, 1000, "0",
     "run so many steps in memory, to check"},
    {"json", 0, NULL, CLI_FLAG, offsetof(values, json), 0, 0, NULL, "print it as JSON"},
};

static const struct {
    const char *name, *what;
} uses[PLUMB_MEMORY_USES] = {
    [PLUMB_MEMORY_WEIGHTS] = {"weights", "as the products read them: codes, scales"},
    [PLUMB_MEMORY_MASTER] = {"master", "fp32 weights"},
    [PLUMB_MEMORY_GRADIENTS] = {"gradients", "of each rank"},
    [PLUMB_MEMORY_OPTIMIZER] = {"optimizer", "both moments"},
    [PLUMB_MEMORY_ACTIVATIONS] = {"activations", "kept for the backward pass"},
    [PLUMB_MEMORY_TEMPORARIES] = {"temporaries", "activation gradients, scratch"},
    [PLUMB_MEMORY_RECORDS] = {"records", "text, statistics, scale histories"},
};

static double sum(const plumb_seconds *s)
{
    return s->gemm + s->cast + s->rest;
}

/* Bytes that the machine could give now; 0 where it does not say. */
static double available(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char text[256];
    double kib = 0;

    while (file != NULL && fgets(text, sizeof text, file) != NULL) {
        if (strncmp(text, "MemAvailable:", 13) == 0)
            kib = strtod(text + 13, NULL);
    }
    if (file != NULL)
        fclose(file);
    return 1024 * kib;
}

/* Three digits and a unit: "612 MB". */
static void print_bytes(double bytes, char text[16])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    size_t unit = 0;

    for (; bytes >= 999.5 && unit < 6; unit++)
        bytes /= 1000;
    plumb_print(text, 16, "%.*f %s", bytes < 10 && unit > 0 ? 1 : 0, bytes, units[unit]);
}

static void print_seconds(double seconds, char text[16])
{
    plumb_print(text, 16, seconds < 0.9995 ? "%.3g ms" : "%.3g s",
                seconds < 0.9995 ? 1000 * seconds : seconds);
}

/* --- for people ------------------------------------------------------------------------- */

static void print_headline(const plumb_footprint *f, double room)
{
    char need[16], have[16], step[16];

    print_bytes((double)f->bytes, need);
    print_bytes(room, have);
    print_seconds(sum(&f->step), step);
    if (f->timed)
        printf("%s, and about %s a step: %.0f tokens a second", need, step,
               (double)f->tokens / sum(&f->step));
    else
        printf("%s; one layer alone is too large to try how long a step takes", need);
    if (room > 0)
        printf("; %s (%s free)", (double)f->bytes <= room ? "it fits" : "IT DOES NOT FIT",
               have);
    fputs("\n\n", stdout);
}

static void print_memory(const plumb_footprint *f)
{
    char text[16];

    for (size_t use = 0; use < PLUMB_MEMORY_USES; use++) {
        print_bytes((double)f->memory.bytes[use], text);
        printf("  %-12s %9s   %s\n", uses[use].name, text, uses[use].what);
    }
    print_bytes((double)f->bytes, text);
    printf("  %-12s %9s", "all arrays", text);
    if (f->measured_steps > 0) {
        print_bytes((double)f->measured_bytes, text);
        printf("   measured %s (%.2f of it)", text,
               (double)f->measured_bytes / (double)f->bytes);
    }
    fputs("\n\n", stdout);
}

static void print_time(const plumb_footprint *f)
{
    static const char *const names[] = {"GEMM", "cast", "rest", "a step"};
    const double all = sum(&f->step), measured_all = sum(&f->measured);
    const double parts[] = {f->step.gemm, f->step.cast, f->step.rest, all};
    const double measured[] = {f->measured.gemm, f->measured.cast, f->measured.rest,
                               measured_all};

    for (size_t i = 0; i < 4; i++) {
        char text[16];

        print_seconds(parts[i], text);
        printf("  %-12s %9s   %3.0f %%", names[i], text, 100 * parts[i] / all);
        if (f->measured_steps > 0) {
            print_seconds(measured[i], text);
            printf("   measured %s (%.2f of it)", text,
                   parts[i] > 0 ? measured[i] / parts[i] : 0);
        }
        fputc('\n', stdout);
    }
    printf("\nTimes are of the processor, from a calibration of %.2f s on this machine:\n"
           "one layer, %zu and %zu tokens a call.  Bytes are those of all arrays of the "
           "run.\n",
           f->calibration, f->tried_tokens[0], f->tried_tokens[1]);
}

static void print_footprint(const plumb_footprint *f, const char *path)
{
    const double room = available();

    print_headline(f, room);
    cli_print_clean(stdout, f->name);
    printf(": %.3g million parameters, %s, %zu tokens a step, %d thread%s\n\n",
           1e-6 * (double)f->parameters, f->recipe, f->tokens, f->threads,
           f->threads == 1 ? "" : "s");
    print_memory(f);
    if (f->timed)
        print_time(f);
    fputs("next: plumb train", stdout);
    if (path != NULL) {
        fputc(' ', stdout);
        cli_print_clean(stdout, path);
    }
    fputc('\n', stdout);
}

/* --- for programs ------------------------------------------------------------------------ */

static json_t *seconds_json(const plumb_seconds *s)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "gemm", s->gemm, "cast", s->cast, "rest",
                     s->rest, "step", sum(s));
}

static json_t *footprint_json(const plumb_footprint *f)
{
    json_t *bytes = json_object();
    json_t *json =
        json_pack("{s:s, s:s, s:I, s:I, s:i}", "name", f->name, "recipe", f->recipe,
                  "parameters", (json_int_t)f->parameters, "tokens_per_step",
                  (json_int_t)f->tokens, "threads", f->threads);

    for (size_t use = 0; use < PLUMB_MEMORY_USES; use++)
        json_object_set_new(bytes, uses[use].name,
                            json_integer((json_int_t)f->memory.bytes[use]));
    json_object_set_new(bytes, "all", json_integer((json_int_t)f->bytes));
    json_object_set_new(json, "bytes", bytes);
    json_object_set_new(json, "seconds", f->timed ? seconds_json(&f->step) : json_null());
    if (f->measured_steps > 0)
        json_object_set_new(json, "measured",
                            json_pack("{s:I, s:I, s:o}", "steps",
                                      (json_int_t)f->measured_steps, "bytes",
                                      (json_int_t)f->measured_bytes, "seconds",
                                      seconds_json(&f->measured)));
    return json;
}

static int print_json(const plumb_footprint *f)
{
    json_t *json = footprint_json(f);
    char *text = json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(6));

    json_decref(json);
    if (text == NULL)
        return cli_complain("out of memory");
    puts(text);
    free(text);
    return CLI_HEALTHY;
}

static int run(const void *given, const cli_line *line)
{
    const values *asked = given;
    const char *path = line->words.count > 0 ? line->words.at[0] : NULL;
    plumb_footprint f;
    plumb_error why = {0};

    if (line->command != NULL)
        return cli_complain("'plumb footprint' looks at the built-in trainer; it takes no "
                            "command after '--'");
    if (plumb_train_footprint(path, asked->set.at, asked->set.count, asked->measure, &f,
                              &why) != PLUMB_OK)
        return cli_complain("%s", why.message);
    const double room = available();

    if (!asked->json)
        print_footprint(&f, path);
    else if (print_json(&f) != CLI_HEALTHY)
        return CLI_USAGE;
    return room > 0 && (double)f.bytes > room ? CLI_PROBLEM : CLI_HEALTHY;
}

const cli_verb cli_footprint = {
    .name = "footprint",
    .usage = "footprint [RUN.yaml] [--set KEY=VALUE]... [options]",
    .summary = "What a run would take, before it runs: bytes, and seconds a step.",
    .notes = "With --measure memory is taken in earnest.",
    .exits = "0 it fits into free memory, 1 it does not, 3 the run file is bad",
    .words = "RUN.yaml",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .size = sizeof(values),
    .most_words = 1,
    .run = run,
};
