/* plumb train: one run of the built-in trainer, by the run contract. */
#include "cli/cli.h"

#include "plumb/train.h"

#include <stdlib.h>
#include <string.h>

typedef struct values {
    cli_words set;
    const char *out;
    bool settings;
} values;

static const cli_option options[] = {
    {"set", 's', "KEY=VALUE", CLI_LIST, offsetof(values, set), 0, 0, NULL,
     "override a setting; may be given several times"},
    {"out", 'o', "DIR", CLI_TEXT, offsetof(values, out), 0, 0, NULL,
     "the run directory; as --set out=DIR"},
    {"settings", 0, NULL, CLI_FLAG, offsetof(values, settings), 0, 0, NULL,
     "list every setting with its default and range"},
};

static int print_settings(void)
{
    char *text = plumb_train_describe();

    if (text == NULL)
        return cli_complain("out of memory");
    fputs(text, stdout);
    free(text);
    return CLI_HEALTHY;
}

/* --- what a person sees ---------------------------------------------------------------- */

/* A run so far: enough for a line while it goes on and a summary at its end. */
typedef struct spectator {
    cli_progress progress;
    char run_dir[4096];
    double first_loss, last_loss, seconds, shown_at;
    int64_t first_step, last_step, tokens;
} spectator;

static void rewrite_line(spectator *s, const plumb_metrics *m, int64_t last)
{
    char line[160];
    const double each = s->seconds / (double)(m->step - s->first_step + 1);

    if (!s->progress.terminal || s->seconds < s->shown_at + 0.25)
        return;
    s->shown_at = s->seconds;
    plumb_print(line, sizeof line, "  step %lld of %lld  loss %.3f  about %.0f s left",
                (long long)m->step, (long long)last, m->loss,
                each * (double)(last - m->step));
    cli_progress_clear(&s->progress);
    cli_print_clean(s->progress.out, line);
    s->progress.open = true;
    fflush(s->progress.out);
}

static void look_on(void *context, const plumb_metrics *m, int64_t last,
                    const char *run_dir)
{
    spectator *s = context;

    if (s->first_step == 0) {
        s->first_step = m->step;
        s->first_loss = m->loss;
        plumb_print(s->run_dir, sizeof s->run_dir, "%s", run_dir);
    }
    s->last_step = m->step;
    s->last_loss = m->loss;
    s->tokens += m->tokens;
    s->seconds += m->seconds;
    rewrite_line(s, m, last);
}

static double real_of(const json_t *event, const char *key)
{
    double value = 0;

    plumb_json_to_real(json_object_get(event, key), &value);
    return value;
}

static void show_validation(const char *run_dir)
{
    json_t *events = NULL, *event;
    size_t i, bad;

    if (plumb_events_read(run_dir, &events, &bad, NULL) != PLUMB_OK)
        return;
    json_array_foreach(events, i, event)
    {
        const char *name = json_string_value(json_object_get(event, "event"));

        if (name != NULL && strcmp(name, "validation") == 0)
            printf("validation loss %.4f; the same weights in bf16 %.4f\n",
                   real_of(event, "loss"), real_of(event, "loss_bf16"));
    }
    json_decref(events);
}

static void summarise(spectator *s)
{
    cli_progress_clear(&s->progress);
    if (s->first_step == 0)
        return;
    printf("steps %lld to %lld: loss %.4f to %.4f; %lld tokens in %.1f s, %.0f a second\n",
           (long long)s->first_step, (long long)s->last_step, s->first_loss, s->last_loss,
           (long long)s->tokens, s->seconds,
           s->seconds > 0 ? (double)s->tokens / s->seconds : 0);
    show_validation(s->run_dir);
    fputs("run: ", stdout);
    cli_print_clean(stdout, s->run_dir);
    fputc('\n', stdout);
}

static int train(const values *given, const char *path)
{
    spectator s = {.progress = cli_progress_for(false), .shown_at = -1};
    const size_t count = given->set.count + (given->out != NULL);
    const char **overrides = calloc(count + 1, sizeof *overrides);
    char out[4096 + 8];
    plumb_error why = {0};

    if (overrides == NULL)
        return cli_complain("out of memory");
    if (given->set.count > 0)
        memcpy(overrides, given->set.at, given->set.count * sizeof *overrides);
    if (given->out != NULL) {
        plumb_print(out, sizeof out, "out=%s", given->out);
        overrides[given->set.count] = out;
    }
    const int code = plumb_train_main(path, overrides, count, look_on, &s, &why);

    summarise(&s);
    if (code != 0 && why.message[0] != 0)
        cli_complain("%s", why.message);
    free(overrides);
    return code;
}

static int run(const void *given, const cli_line *line)
{
    const values *asked = given;

    if (asked->settings)
        return print_settings();
    if (line->command != NULL)
        return cli_complain("'plumb train' runs the built-in trainer; it takes no command "
                            "after '--'");
    if (asked->out != NULL && (asked->out[0] == 0 || strlen(asked->out) > 4096))
        return cli_complain("--out must name a directory in at most 4096 bytes");
    return train(asked, line->words.count > 0 ? line->words.at[0] : NULL);
}

const cli_verb cli_train = {
    .name = "train",
    .usage = "train [RUN.yaml] [--set KEY=VALUE]... [--out DIR]",
    .summary = "Run the built-in trainer once: a small, exact laboratory.",
    .notes =
        "Without RUN.yaml every setting has its default.  Under 'plumb diagnose' the run\n"
        "contract's environment says where the run goes and what is asked of it.",
    .exits = "0 ended as asked, 1 error of its own, 3 cannot be done as asked",
    .words = "RUN.yaml",
    .settings = plumb_train_settings,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .size = sizeof(values),
    .most_words = 1,
    .takes_command = true,
    .run = run,
};
