/* plumb eval: the weights of a checkpoint in several arithmetics.  The verdict first, then losses, layers
 * and tokens, what to do next last.
 */
#include "cli/cli.h"

#include "plumb/train.h"

#include <math.h>
#include <string.h>

typedef struct values {
    cli_words in;
    int64_t batches, tokens;
    bool next_step, json;
    const char *data;
} values;

static const cli_option options[] = {
    {"in", 'i', "own|fp8|RECIPE|SPEC", CLI_LIST, offsetof(values, in), 0, 0, NULL,
     "an arithmetic; at least two [own, bf16]"},
    {"batches", 'n', "N", CLI_INT, offsetof(values, batches), 1, PLUMB_EVAL_BATCHES, "32",
     "batches of text that was never trained on"},
    {"tokens", 't', "N", CLI_INT, offsetof(values, tokens), 0, PLUMB_EVAL_TOKENS, "3",
     "show so many of the worst tokens"},
    {"batch-of-step", 0, NULL, CLI_FLAG, offsetof(values, next_step), 0, 0, NULL,
     "also on the batch of the next step of the run"},
    {"data", 0, "FILE|DIR", CLI_TEXT, offsetof(values, data), 0, 0, NULL,
     "where the run's text is, if it has moved"},
    {"json", 0, NULL, CLI_FLAG, offsetof(values, json), 0, 0, NULL, "print it as JSON"},
};

enum { SENTENCE = 400, COLUMNS = 6, WIDTH = 80 };

static const char *const verdicts[] = {
    [PLUMB_EVAL_SAME] = "same", [PLUMB_EVAL_GAP] = "gap", [PLUMB_EVAL_UNCLEAR] = "unclear"};
static const int exits[] = {[PLUMB_EVAL_SAME] = CLI_HEALTHY,
                            [PLUMB_EVAL_GAP] = CLI_PROBLEM,
                            [PLUMB_EVAL_UNCLEAR] = CLI_CANNOT_TELL};

/* --- the sentence ----------------------------------------------------------------------- */

static bool is_own(const plumb_eval_arm *arm)
{
    return strcmp(arm->name, "own") == 0 || strcmp(arm->name, "fp8") == 0;
}

static const char *spoken(const plumb_eval_arm *arm)
{
    return is_own(arm) ? "their own arithmetic" : arm->name;
}

/* What a gap of own against another arithmetic means. */
static const char *meaning(const plumb_eval *e)
{
    const plumb_eval_arm *first = &e->arm[0], *other = &e->arm[e->deciding];

    if (!is_own(first) && !is_own(other))
        return "";
    return (other->gap > 0) == is_own(first) ? ": they have adapted to a fault of it"
                                             : ", which does them harm";
}

static void say_unclear(const plumb_eval *e, const plumb_eval_arm *first,
                        const plumb_eval_arm *other, char text[SENTENCE])
{
    plumb_print(text, SENTENCE,
                "Cannot tell whether the weights are as good in %.40s as in %.40s: ",
                other->name, spoken(first));
    if (!isfinite(first->loss) || !isfinite(other->loss))
        plumb_append(text, SENTENCE, "the loss in %.40s is not finite",
                     isfinite(first->loss) ? other->name : spoken(first));
    else if (e->batches < PLUMB_EVAL_FEWEST)
        plumb_append(text, SENTENCE,
                     "%+.4f nats, but %lld batch%s give no interval; at least %d do",
                     other->gap, (long long)e->batches, e->batches == 1 ? "" : "es",
                     PLUMB_EVAL_FEWEST);
    else
        plumb_append(text, SENTENCE,
                     "%+.4f nats, and the threshold of %.2f is within the interval, %+.4f "
                     "to %+.4f",
                     other->gap, PLUMB_EVAL_THRESHOLD, other->low, other->high);
}

static void say(const plumb_eval *e, char text[SENTENCE])
{
    const plumb_eval_arm *first = &e->arm[0], *other = &e->arm[e->deciding];

    if (e->verdict == PLUMB_EVAL_UNCLEAR)
        say_unclear(e, first, other, text);
    else if (e->verdict == PLUMB_EVAL_GAP)
        plumb_print(text, SENTENCE, "The weights are %.4f nats %s in %.40s than in %.40s%s",
                    fabs(other->gap), other->gap > 0 ? "worse" : "better", spoken(other),
                    spoken(first), meaning(e));
    else
        plumb_print(text, SENTENCE,
                    "The weights are as good in %.40s as in %.40s: %+.4f nats (%+.4f to "
                    "%+.4f)",
                    spoken(other), spoken(first), other->gap, other->low, other->high);
    plumb_append(text, SENTENCE, ".");
}

/* The arm of own's format with the scales of the tensors at hand; NULL if it was not asked for. */
static const plumb_eval_arm *current_arm(const plumb_eval *e, char spec[32])
{
    plumb_print(spec, 32, "%s:current", e->format);
    for (size_t a = 1; a < e->arms; a++)
        if (strcmp(e->arm[a].name, spec) == 0)
            return &e->arm[a];
    return NULL;
}

static void say_next(const plumb_eval *e, char text[SENTENCE], char path[4096 + 64])
{
    const char *bare =
        strpbrk(e->checkpoint, " '\"\\$`!*?()[]{}<>|&;#~\n") == NULL ? "" : "'";
    char current[32];

    plumb_print(path, 4096 + 64, "plumb eval %s%s%s", bare, e->checkpoint, bare);
    if (e->verdict == PLUMB_EVAL_SAME) {
        plumb_print(path, 4096 + 64, "plumb explain arithmetic");
        text[0] = 0;
    } else if (e->verdict == PLUMB_EVAL_UNCLEAR && isfinite(e->arm[e->deciding].gap)) {
        plumb_print(text, SENTENCE, " --batches %lld", 4LL * (e->batches + 7));
    } else if (is_own(&e->arm[0]) && current_arm(e, current) == NULL) {
        plumb_print(text, SENTENCE, " --in own --in bf16 --in %s", current);
    } else {
        plumb_print(path, 4096 + 64, "plumb diagnose RUN.yaml");
        plumb_print(text, SENTENCE, "    (the run file of %.100s: where it comes from)",
                    e->name);
    }
}

/* --- for people ------------------------------------------------------------------------- */

/* Broken between words. */
static void print_wrapped(const char *text)
{
    while (strlen(text) > WIDTH) {
        size_t cut = WIDTH;

        while (cut > 0 && text[cut] != ' ')
            cut--;
        cut = cut > 0 ? cut : WIDTH;
        printf("%.*s\n", (int)cut, text);
        text += cut + (text[cut] == ' ');
    }
    puts(text);
}

/* The end of a path tells. */
static void print_field(const char *name, const char *text, bool keep_end)
{
    enum { ROOM = WIDTH - 13 };
    const size_t length = strlen(text);
    char shown[ROOM + 1];

    if (length <= ROOM)
        plumb_print(shown, sizeof shown, "%s", text);
    else if (keep_end)
        plumb_print(shown, sizeof shown, "...%s", text + length - (ROOM - 3));
    else
        plumb_print(shown, sizeof shown, "%.*s...", ROOM - 3, text);
    printf("%-12s ", name);
    cli_print_clean(stdout, shown);
    fputc('\n', stdout);
}

static void print_run(const plumb_eval *e)
{
    char text[200];

    print_field("checkpoint", e->checkpoint, true);
    plumb_print(text, sizeof text, "%.60s, step %lld of %lld, %s, %.3g million parameters",
                e->name, (long long)e->step, (long long)e->steps, e->recipe,
                1e-6 * (double)e->parameters);
    if (e->policy_rules > 0)
        plumb_append(text, sizeof text, ", a policy of %zu rule%s", e->policy_rules,
                     e->policy_rules == 1 ? "" : "s");
    print_field("run", text, false);
    if (e->faults[0] != 0)
        print_field("in own", e->faults, false);
    plumb_print(text, sizeof text,
                "%lld batches of %zu tokens, never trained on, the same for all",
                (long long)e->batches, e->batch_tokens);
    print_field("text", text, false);
}

static void print_losses(const plumb_eval *e)
{
    char text[SENTENCE], spec[32];

    printf("\n%-24s %9s %10s   %s\n", "arithmetic", "loss", "gap", "95 % interval");
    for (size_t a = 0; a < e->arms; a++) {
        const plumb_eval_arm *arm = &e->arm[a];

        printf("%-24.24s %9.4f", arm->name, arm->loss);
        if (a > 0)
            printf(" %+10.4f", arm->gap);
        if (a > 0 && isfinite(arm->high - arm->low))
            printf("   %+.4f to %+.4f", arm->low, arm->high);
        fputc('\n', stdout);
    }
    if (e->next_step) {
        plumb_print(text, sizeof text, "the batch of step %lld:", (long long)e->step + 1);
        for (size_t a = 0; a < e->arms; a++)
            plumb_append(text, sizeof text, "%s %.24s %.4f", a > 0 ? "," : "",
                         e->arm[a].name, e->arm[a].next_loss);
        print_wrapped(text);
    }
    const plumb_eval_arm *current = current_arm(e, spec);

    if (current != NULL && is_own(&e->arm[0]) &&
        (current->low > PLUMB_EVAL_THRESHOLD || current->high < -PLUMB_EVAL_THRESHOLD))
        printf("%s is far off, too: not the format is to blame; look at its scales\n",
               spec);
    printf("threshold %.2f nats; healthy 8-bit recipes are at most 0.004 apart\n",
           PLUMB_EVAL_THRESHOLD);
}

/* The layers whose outputs part most from what came before, in order, at most COLUMNS of them. */
static size_t choose_layers(const plumb_eval *e, size_t chosen[COLUMNS])
{
    const plumb_eval_distance *at = e->arm[e->deciding].at;
    bool taken[PLUMB_MAX_LAYERS] = {false};
    size_t count = 0;

    for (size_t n = 0; n < COLUMNS && n < e->layers; n++) {
        size_t best = PLUMB_MAX_LAYERS;
        double most = -INFINITY;

        for (size_t i = 0; i < e->layers; i++) {
            const double step = at[i].relative - (i > 0 ? at[i - 1].relative : 0);

            if (!taken[i] && (best == PLUMB_MAX_LAYERS || step > most)) {
                best = i;
                most = step;
            }
        }
        taken[best] = true;
    }
    for (size_t i = 0; i < e->layers; i++)
        if (taken[i])
            chosen[count++] = i;
    return count;
}

static void print_distances(const plumb_eval *e)
{
    const plumb_eval_distance *at = e->arm[e->deciding].at;
    size_t chosen[COLUMNS + 1];
    const size_t count = choose_layers(e, chosen);

    chosen[count] = e->layers;
    printf("\n%-16s", "output differs");
    for (size_t i = 0; i < count; i++) {
        char name[16];

        plumb_print(name, sizeof name, "layer.%zu", chosen[i]);
        printf(" %9s", name);
    }
    printf(" %9s\n%-16s", "logits", "  relative rms");
    for (size_t i = 0; i <= count; i++)
        printf(" %9.3g", at[chosen[i]].relative);
    printf("\n%-16s", "  largest / rms");
    for (size_t i = 0; i <= count; i++)
        printf(" %9.3g", at[chosen[i]].most);
    fputc('\n', stdout);
}

static void print_tokens(const plumb_eval *e)
{
    if (e->tokens == 0)
        return;
    printf("\n%-52s %8.8s %8.8s\n", "worst tokens: what comes before, and [the token]",
           e->arm[0].name, e->arm[e->deciding].name);
    for (size_t i = 0; i < e->tokens; i++) {
        const plumb_eval_token *t = &e->token[i];

        printf("byte %-10zu %31s[%c]  %8.3f %8.3f\n", t->position, t->context, t->next,
               (double)t->loss[0], (double)t->loss[e->deciding]);
    }
}

static void print_eval(const plumb_eval *e)
{
    char text[SENTENCE], path[4096 + 64];

    say(e, text);
    print_wrapped(text);
    fputc('\n', stdout);
    print_run(e);
    print_losses(e);
    print_distances(e);
    print_tokens(e);
    say_next(e, text, path);
    fputs("next: ", stdout);
    cli_print_clean(stdout, path);
    cli_print_clean(stdout, text);
    fputc('\n', stdout);
}

/* --- for programs ------------------------------------------------------------------------ */

static json_t *arm_json(const plumb_eval *e, const plumb_eval_arm *arm)
{
    json_t *outputs = json_array();
    json_t *json =
        json_pack("{s:s, s:o, s:o, s:o, s:o}", "in", arm->name, "loss",
                  plumb_json_real(arm->loss), "gap", plumb_json_real(arm->gap), "low",
                  plumb_json_real(arm->low), "high", plumb_json_real(arm->high));

    if (e->next_step)
        json_object_set_new(json, "next_loss", plumb_json_real(arm->next_loss));
    for (size_t i = 0; i <= e->layers; i++) {
        char name[32] = "logits";

        if (i < e->layers)
            plumb_print(name, sizeof name, "layer.%zu", i);
        json_array_append_new(outputs,
                              json_pack("{s:s, s:o, s:o}", "name", name, "relative",
                                        plumb_json_real(arm->at[i].relative),
                                        "max_over_rms", plumb_json_real(arm->at[i].most)));
    }
    json_object_set_new(json, "outputs", outputs);
    return json;
}

static json_t *token_json(const plumb_eval *e, const plumb_eval_token *t)
{
    json_t *losses = json_array();

    for (size_t a = 0; a < e->arms; a++)
        json_array_append_new(losses, plumb_json_real((double)t->loss[a]));
    return json_pack("{s:I, s:s, s:s#, s:o}", "position", (json_int_t)t->position,
                     "context", t->context, "next", &t->next, 1, "losses", losses);
}

static json_t *eval_json(const plumb_eval *e)
{
    char text[SENTENCE];
    json_t *arms = json_array(), *tokens = json_array();

    say(e, text);
    for (size_t a = 0; a < e->arms; a++)
        json_array_append_new(arms, arm_json(e, &e->arm[a]));
    for (size_t i = 0; i < e->tokens; i++)
        json_array_append_new(tokens, token_json(e, &e->token[i]));
    return json_pack(
        "{s:s, s:i, s:s, s:s, s:f, s:s, s:s, s:s, s:I, s:I, s:s, s:I, s:I, s:I, s:I, "
        "s:o, s:o}",
        "verdict", verdicts[e->verdict], "exit", exits[e->verdict], "sentence", text,
        "deciding", e->arm[e->deciding].name, "threshold", PLUMB_EVAL_THRESHOLD,
        "checkpoint", e->checkpoint, "name", e->name, "recipe", e->recipe, "step",
        (json_int_t)e->step, "steps", (json_int_t)e->steps, "faults", e->faults,
        "policy_rules", (json_int_t)e->policy_rules, "parameters",
        (json_int_t)e->parameters, "batches", (json_int_t)e->batches, "tokens_per_batch",
        (json_int_t)e->batch_tokens, "arithmetics", arms, "tokens", tokens);
}

static int run(const void *given, const cli_line *line)
{
    static const char *const usual[] = {"own", "bf16"};
    const values *asked = given;
    const plumb_eval_request request = {
        .path = line->words.at[0],
        .in = asked->in.count > 0 ? asked->in.at : usual,
        .in_count = asked->in.count > 0 ? asked->in.count : 2,
        .batches = asked->batches,
        .tokens = (size_t)asked->tokens,
        .next_step = asked->next_step,
        .data = asked->data,
    };
    static plumb_eval e;
    plumb_error why = {0};

    if (plumb_train_eval(&request, &e, &why) != PLUMB_OK)
        return cli_complain("%s", why.message);
    if (!asked->json)
        print_eval(&e);
    else if (cli_print_json(eval_json(&e)) != CLI_HEALTHY)
        return CLI_USAGE;
    return exits[e.verdict];
}

const cli_verb cli_eval = {
    .name = "eval",
    .usage = "eval CHECKPOINT [--in ARITHMETIC]... [options]",
    .summary = "Is a checkpoint as good in bf16 as in its own arithmetic?",
    .notes =
        "CHECKPOINT is one that 'plumb train' wrote, or the directory of a run: the last.\n"
        "own is the run's arithmetic with its kept scales and planted faults; fp8 is the\n"
        "same, of an FP8 run; a spec (e4m3:current) is that of all forward operands.  In\n"
        "all but own a delayed scale is that of the tensor at hand.  Nothing is written.",
    .exits = "0 as good, 1 a gap, 2 cannot tell, 3 bad input",
    .words = "DIR",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .size = sizeof(values),
    .least_words = 1,
    .most_words = 1,
    .run = run,
};
