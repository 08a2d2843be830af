/* The same weights in several arithmetics, on the same batches of unseen text: what each makes of the
 * loss, of single tokens, and of every layer's output.
 *
 * Each difference is taken on one batch and then averaged, so what the batches have in common
 * falls out, and few of them are enough.  Nothing is trained and nothing is written.
 */
#include "train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The heaviest tokens so far, in order. */
typedef struct token_list {
    plumb_eval_token at[PLUMB_EVAL_TOKENS];
    float weight[PLUMB_EVAL_TOKENS];
    size_t count, most;
} token_list;

/* One evaluation.  The model of own is the trainer's. */
typedef struct evaluation {
    trainer *t;
    const plumb_eval_request *asked;
    plumb_eval *e;
    plumb_model *model[PLUMB_EVAL_ARMS];
    bool own[PLUMB_EVAL_ARMS];
    uint8_t *tokens;          /* of a batch */
    size_t *offsets;          /* of its sequences */
    double *gaps;             /* [arms][batches] */
    token_list worse, better; /* than in the first arithmetic */

    plumb_scale_state *states; /* as the checkpoint has them; */
    unsigned char *kept;       /* what planted faults carry over, likewise */
} evaluation;

/* --- the state that the next step begins with ------------------------------------------ */

/* Copies what faults carry over, one tensor after the other; with NULL it only counts. */
static size_t copy_kept(const trainer *t, unsigned char *kept, bool back)
{
    char name[FAULT_NAME];
    unsigned char *data;
    size_t bytes, all = 0;

    for (size_t i = 0; faults_kept(t, i, name, &data, &bytes); i++, all += bytes) {
        if (kept != NULL)
            memcpy(back ? data : kept + all, back ? kept + all : data, bytes);
    }
    return all;
}

static plumb_status hold_state(evaluation *v, plumb_error *why)
{
    const size_t bytes = v->t->sites.operands * sizeof *v->states;

    v->states = malloc(bytes);
    v->kept = malloc(copy_kept(v->t, NULL, false) + 1);
    if (v->states == NULL || v->kept == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for an evaluation");
    memcpy(v->states, v->t->states, bytes);
    copy_kept(v->t, v->kept, false);
    return PLUMB_OK;
}

/* As a run that resumes. */
static void begin_step(evaluation *v)
{
    memcpy(v->t->states, v->states, v->t->sites.operands * sizeof *v->states);
    copy_kept(v->t, v->kept, true);
    faults_start(v->t);
}

/* Batches of unseen text are taken for those of one call of the step after the other. */
static void begin_call(evaluation *v, size_t call)
{
    const size_t rank = call / v->t->micro_batches, micro = call % v->t->micro_batches;

    begin_step(v);
    for (size_t i = 0; i <= micro; i++)
        faults_call(v->t, rank, i);
}

/* --- arithmetics ---------------------------------------------------------------------- */

static bool is_forward_operand(const site *s)
{
    return s->class_ == PLUMB_FORWARD &&
           (s->kind == PLUMB_SITE_LINEAR || s->kind == PLUMB_SITE_ATTENTION);
}

static int bits_of(const plumb_spec *spec)
{
    return plumb_format_get(spec->format)->bits;
}

/* The forward operand of own with the fewest bits. */
static const plumb_spec *narrowest(const trainer *t)
{
    const plumb_spec *least = NULL;

    for (size_t i = 0; i < t->sites.operands; i++) {
        const site *s = &t->sites.at[i];

        if (is_forward_operand(s) &&
            (least == NULL || bits_of(&s->effective) < bits_of(least)))
            least = &s->effective;
    }
    return least;
}

/* Attention that own leaves in fp32 stays there. */
static plumb_status spec_everywhere(const trainer *t, const char *text, plumb_spec *specs,
                                    plumb_error *why)
{
    plumb_status status = PLUMB_OK;

    for (size_t i = 0; i < t->sites.operands && status == PLUMB_OK; i++) {
        const site *s = &t->sites.at[i];

        specs[i] = s->effective;
        if (specs[i].rule == PLUMB_SCALE_DELAYED) /* which no other grain takes */
            specs[i].rule = PLUMB_SCALE_CURRENT;
        const plumb_spec base = specs[i];

        if (is_forward_operand(s) &&
            (s->kind == PLUMB_SITE_LINEAR || base.format != PLUMB_FP32))
            status = plumb_spec_parse(text, &base, &specs[i], why);
    }
    return status;
}

static plumb_status recipe_specs(const trainer *t, const char *name, plumb_spec *specs,
                                 plumb_error *why)
{
    settings other = t->settings;
    char recipe[PLUMB_SPEC_TEXT];
    site_table table = {0};

    plumb_print(recipe, sizeof recipe, "%s", name);
    other.recipe = recipe;
    other.rules = other.accumulators = NULL;
    other.from_codes = (plumb_strings){0};
    const plumb_status status = sites_create(&t->shape, &other, &table, why);

    for (size_t i = 0; i < t->sites.operands && status == PLUMB_OK; i++)
        specs[i] = table.at[i].own;
    sites_free(&table);
    return status;
}

static plumb_status other_specs(const trainer *t, const char *name, plumb_spec *specs,
                                plumb_error *why)
{
    plumb_error cause = {0};
    plumb_status status = PLUMB_OK;

    if (strcmp(name, "bf16") == 0)
        trainer_bf16_specs(t, specs);
    else if (plumb_preset_find(name) != NULL)
        status = recipe_specs(t, name, specs, why);
    else if (spec_everywhere(t, name, specs, &cause) != PLUMB_OK)
        status = plumb_fail(why, PLUMB_BAD_INPUT,
                            "'%.60s' is neither own, fp8, a recipe, nor a spec: %.300s",
                            name, cause.message);
    for (size_t i = 0; i < t->sites.operands; i++) {
        if (specs[i].rule == PLUMB_SCALE_DELAYED)
            specs[i].rule = PLUMB_SCALE_CURRENT;
    }
    return status;
}

static plumb_status other_model(evaluation *v, const char *name, plumb_model **model,
                                plumb_error *why)
{
    const trainer *t = v->t;
    plumb_spec *specs = calloc(t->sites.operands, sizeof *specs);
    plumb_status status =
        specs == NULL ? plumb_fail(why, PLUMB_NO_MEMORY, "no memory for an arithmetic")
                      : other_specs(t, name, specs, why);

    if (status == PLUMB_OK)
        status = plumb_model_create(&(plumb_model_setup){.shape = t->shape,
                                                         .sequences = t->micro_sequences,
                                                         .threads = t->threads,
                                                         .specs = specs},
                                    model, why);
    free(specs);
    return status;
}

static plumb_status prepare_arm(evaluation *v, size_t i, plumb_error *why)
{
    const char *name = v->asked->in[i];
    const bool few = strcmp(name, "fp8") == 0;

    for (size_t j = 0; j < i; j++) {
        if (strcmp(name, v->asked->in[j]) == 0)
            return plumb_fail(why, PLUMB_BAD_INPUT, "'%.60s' is asked for twice", name);
    }
    if (few && bits_of(narrowest(v->t)) > 8)
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "no forward operand of this run is in FP8; allowed: own, a "
                          "recipe, a spec");
    plumb_print(v->e->arm[i].name, sizeof v->e->arm[i].name, "%s", name);
    v->own[i] = few || strcmp(name, "own") == 0;
    if (v->own[i])
        v->model[i] = v->t->model;
    return v->own[i] ? PLUMB_OK : other_model(v, name, &v->model[i], why);
}

/* --- tokens --------------------------------------------------------------------------- */

static char printable(uint8_t byte)
{
    return byte >= 32 && byte < 127 ? (char)byte : '.';
}

/* Where a token of this weight belongs; SIZE_MAX where it does not.  A position that is known already,
 * from a batch that overlaps, gives up its place to the heavier one.
 */
static size_t make_room(token_list *list, size_t position, float weight)
{
    size_t at = 0, last = 0;

    while (last < list->count && list->at[last].position != position)
        last++;
    if (last == list->count && list->count < list->most)
        list->weight[list->count++] = 0; /* below any that comes here */
    last = last < list->count ? last : list->count - 1;
    while (at <= last && list->weight[at] >= weight)
        at++;
    if (at > last)
        return SIZE_MAX;
    memmove(&list->at[at + 1], &list->at[at], (last - at) * sizeof *list->at);
    memmove(&list->weight[at + 1], &list->weight[at], (last - at) * sizeof *list->weight);
    list->weight[at] = weight;
    return at;
}

static void keep(evaluation *v, token_list *list, size_t index, float weight,
                 const float *const *losses)
{
    const size_t context = v->t->shape.context, b = index / context, i = index % context;
    const uint8_t *sequence = v->tokens + b * (context + 1);
    const size_t position = v->offsets[b] + i + 1;
    size_t at;

    if (list->most == 0 || !(weight > 0))
        return;
    at = make_room(list, position, weight);
    if (at == SIZE_MAX)
        return;
    plumb_eval_token *token = &list->at[at];
    const size_t most = sizeof token->context - 1, before = i + 1 < most ? i + 1 : most;

    *token = (plumb_eval_token){.position = position, .next = printable(sequence[i + 1])};
    for (size_t j = 0; j < before; j++)
        token->context[j] = printable(sequence[i + 1 - before + j]);
    for (size_t a = 0; a < v->e->arms; a++)
        token->loss[a] = losses[a][index];
}

/* What is no number weighs most. */
static void keep_worst(evaluation *v)
{
    const float *losses[PLUMB_EVAL_ARMS];
    size_t n = 0;

    for (size_t a = 0; a < v->e->arms; a++)
        losses[a] = plumb_model_losses(v->model[a], &n);
    for (size_t i = 0; i < n; i++) {
        float worse = 0, better = 0;

        for (size_t a = 1; a < v->e->arms; a++) {
            const float more = losses[a][i] - losses[0][i];

            worse = isnan(more) ? INFINITY : more > worse ? more : worse;
            better = isnan(more) ? INFINITY : -more > better ? -more : better;
        }
        keep(v, &v->worse, i, worse, losses);
        keep(v, &v->better, i, better, losses);
    }
}

/* Those that suffer most from the arithmetic that is the worse one on the whole. */
static void hand_over_tokens(evaluation *v)
{
    plumb_eval *e = v->e;
    const token_list *list = e->arm[e->deciding].gap < 0 ? &v->better : &v->worse;

    e->tokens = list->count;
    memcpy(e->token, list->at, list->count * sizeof *list->at);
}

/* --- layers --------------------------------------------------------------------------- */

static void add_distance(plumb_eval_distance *sum, const float *a, const float *b, size_t n)
{
    const plumb_deviation d = plumb_observe_deviation(a, b, n);

    sum->relative += d.relative * d.relative;
    sum->most = d.max_over_rms > sum->most ? d.max_over_rms : sum->most;
}

static void add_distances(evaluation *v)
{
    const size_t layers = v->t->shape.layers;

    for (size_t a = 1; a < v->e->arms; a++) {
        plumb_eval_distance *at = v->e->arm[a].at;
        size_t n;
        const float *logits = plumb_model_logits(v->model[0], &n);

        add_distance(&at[layers], plumb_model_logits(v->model[a], &n), logits, n);
        for (size_t i = 0; i < layers; i++) {
            const float *first = plumb_model_layer_output(v->model[0], i, &n);

            add_distance(&at[i], plumb_model_layer_output(v->model[a], i, &n), first, n);
        }
    }
}

/* --- the losses ----------------------------------------------------------------------- */

static plumb_status unseen_batch(evaluation *v, int64_t batch, plumb_error *why)
{
    const size_t calls = v->t->ranks * v->t->micro_batches;
    double first = 0;
    plumb_status status = PLUMB_OK;

    begin_call(v, (size_t)batch % calls);
    unseen_fill(v->t, batch, v->tokens, v->offsets);
    for (size_t a = 0; a < v->e->arms && status == PLUMB_OK; a++) {
        plumb_loss loss;

        status = unseen_forward(v->t, v->model[a], batch, v->tokens, &loss, why);
        first = a == 0 ? loss.mean : first;
        v->e->arm[a].loss += loss.mean / (double)v->asked->batches;
        v->gaps[a * (size_t)v->asked->batches + (size_t)batch] = loss.mean - first;
    }
    if (status == PLUMB_OK)
        keep_worst(v);
    if (status == PLUMB_OK)
        add_distances(v);
    return status;
}

/* As the step itself does it, so that the loss in own is the one that the run will log. */
static plumb_status next_step(evaluation *v, size_t arm, plumb_error *why)
{
    trainer *t = v->t;
    const int64_t step = t->step + 1;
    const size_t calls = t->ranks * t->micro_batches;
    double sum = 0;
    uint64_t unused;
    plumb_status status;

    batch_fill(t, step, &unused);
    begin_step(v);
    plumb_model_draw(v->model[arm], trainer_seed(t), trainer_draw(t, step, 0));
    status = plumb_model_weights(v->model[arm], t->weights, why);
    for (size_t call = 0; call < calls && status == PLUMB_OK; call++) {
        const uint8_t *tokens =
            t->ordered + call * t->micro_sequences * (t->shape.context + 1);
        plumb_loss loss;

        faults_call(t, call / t->micro_batches, call % t->micro_batches);
        plumb_model_draw(v->model[arm], trainer_seed(t), trainer_draw(t, step, 1 + call));
        status = plumb_model_forward(v->model[arm], t->weights, tokens, &loss, why);
        sum += status == PLUMB_OK ? loss.mean : 0;
    }
    v->e->arm[arm].next_loss = sum / (double)calls;
    return status;
}

static plumb_status measure(evaluation *v, plumb_error *why)
{
    const plumb_eval *e = v->e;
    plumb_status status = PLUMB_OK;

    for (size_t a = 0; a < e->arms && status == PLUMB_OK; a++)
        status = prepare_arm(v, a, why);
    if (status == PLUMB_OK)
        begin_step(v);
    for (size_t a = 0; a < e->arms && status == PLUMB_OK; a++)
        status = unseen_weights(v->t, v->model[a], why);
    for (int64_t i = 0; i < v->asked->batches && status == PLUMB_OK; i++)
        status = unseen_batch(v, i, why);
    for (size_t a = 0; a < e->arms && status == PLUMB_OK && v->asked->next_step; a++)
        status = next_step(v, a, why);
    return status;
}

/* --- what follows --------------------------------------------------------------------- */

/* Student's t at 97.5 %, for at least 3 degrees of freedom: Abramowitz and Stegun 26.7.5, within 0.1 %
 * there (3.179 for 3.182) and closer above.
 */
static double student(double freedom)
{
    const double x = 1.959963984540054, x3 = x * x * x, x5 = x3 * x * x, x7 = x5 * x * x;
    const double x9 = x7 * x * x, f = 1 / freedom;
    const double first = (x3 + x) / 4, second = (5 * x5 + 16 * x3 + 3 * x) / 96;
    const double third = (3 * x7 + 19 * x5 + 17 * x3 - 15 * x) / 384;
    const double fourth = (79 * x9 + 776 * x7 + 1482 * x5 - 1920 * x3 - 945 * x) / 92160;

    return x + f * (first + f * (second + f * (third + f * fourth)));
}

static void set_interval(plumb_eval_arm *arm, const double *gaps, int64_t count)
{
    const double n = (double)count;
    double squares = 0;

    for (int64_t i = 0; i < count; i++)
        arm->gap += gaps[i] / n;
    for (int64_t i = 0; i < count; i++)
        squares += (gaps[i] - arm->gap) * (gaps[i] - arm->gap);
    const double wide = count < PLUMB_EVAL_FEWEST
                            ? (double)INFINITY
                            : student(n - 1) * sqrt(squares / (n - 1) / n);

    arm->low = arm->gap - wide;
    arm->high = arm->gap + wide;
}

static plumb_eval_verdict judge(const plumb_eval_arm *arm)
{
    if (arm->low > PLUMB_EVAL_THRESHOLD || arm->high < -PLUMB_EVAL_THRESHOLD)
        return PLUMB_EVAL_GAP;
    return arm->low >= -PLUMB_EVAL_THRESHOLD && arm->high <= PLUMB_EVAL_THRESHOLD
               ? PLUMB_EVAL_SAME
               : PLUMB_EVAL_UNCLEAR;
}

/* A gap decides over a doubt, a doubt over sameness; among equals the larger gap. */
static void conclude(evaluation *v)
{
    static const int rank[] = {
        [PLUMB_EVAL_SAME] = 0, [PLUMB_EVAL_UNCLEAR] = 1, [PLUMB_EVAL_GAP] = 2};
    plumb_eval *e = v->e;

    for (size_t a = 1; a < e->arms; a++) {
        plumb_eval_arm *arm = &e->arm[a];

        set_interval(arm, v->gaps + a * (size_t)v->asked->batches, v->asked->batches);
        for (size_t i = 0; i <= v->t->shape.layers; i++)
            arm->at[i].relative = sqrt(arm->at[i].relative / (double)v->asked->batches);
        const plumb_eval_verdict verdict = judge(arm);
        const bool more =
            rank[verdict] > rank[e->verdict] ||
            (verdict == e->verdict && fabs(arm->gap) > fabs(e->arm[e->deciding].gap));

        if (a == 1 || more) {
            e->verdict = verdict;
            e->deciding = a;
        }
    }
}

static void print_sites(const json_t *sites, char *text, size_t size)
{
    const json_t *one = json_is_array(sites) ? json_array_get(sites, 0) : sites;

    plumb_print(text, size, "%s%s", json_is_string(one) ? json_string_value(one) : "",
                json_array_size(sites) > 1 ? " and more" : "");
}

static void describe(evaluation *v, const char *ref)
{
    const trainer *t = v->t;
    plumb_eval *e = v->e;
    const json_t *planted;
    size_t i;

    plumb_print(e->checkpoint, sizeof e->checkpoint, "%s", ref);
    plumb_print(e->name, sizeof e->name, "%s", t->settings.name);
    plumb_print(e->recipe, sizeof e->recipe, "%s", t->settings.recipe);
    plumb_print(e->format, sizeof e->format, "%s",
                plumb_format_get(narrowest(t)->format)->name);
    e->step = t->step;
    e->steps = t->settings.steps;
    e->layers = t->shape.layers;
    e->parameters = t->weight_count;
    e->policy_rules = t->policy.count;
    e->batch_tokens = t->micro_sequences * t->shape.context;
    e->batches = v->asked->batches;
    e->next_step = v->asked->next_step;
    json_array_foreach(t->settings.faults, i, planted)
    {
        const json_int_t from =
            (json_int_t)json_number_value(json_object_get(planted, "from"));
        char sites[100];

        print_sites(json_object_get(planted, "sites"), sites, sizeof sites);
        plumb_append(e->faults, sizeof e->faults, "%s%s%s%s from step %lld%s",
                     i > 0 ? "; " : "", json_string_value(json_object_get(planted, "kind")),
                     sites[0] != 0 ? " on " : "", sites, (long long)from,
                     from > t->step + 1 ? " (not yet)" : "");
    }
}

/* --- entry ------------------------------------------------------------------------------ */

static plumb_status check_request(const plumb_eval_request *r, plumb_error *why)
{
    if (r->in_count < 2 || r->in_count > PLUMB_EVAL_ARMS)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%zu arithmetic%s; allowed: 2 to %d",
                          r->in_count, r->in_count == 1 ? "" : "s", PLUMB_EVAL_ARMS);
    if (r->batches < 1 || r->batches > PLUMB_EVAL_BATCHES)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%lld batches; allowed: 1 to %d",
                          (long long)r->batches, PLUMB_EVAL_BATCHES);
    if (r->tokens > PLUMB_EVAL_TOKENS)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%zu tokens; allowed: 0 to %d", r->tokens,
                          PLUMB_EVAL_TOKENS);
    return PLUMB_OK;
}

static plumb_status evaluate(evaluation *v, plumb_error *why)
{
    const trainer *t = v->t;

    if (!unseen_exists(t))
        return plumb_fail(why, PLUMB_UNSUPPORTED,
                          "the part of the text that was never trained on has %zu bytes; a "
                          "context of %zu needs more",
                          t->corpus.size - t->corpus.train, t->shape.context);
    v->tokens = calloc(t->micro_sequences, t->shape.context + 1);
    v->offsets = calloc(t->micro_sequences, sizeof *v->offsets);
    v->gaps = calloc(v->e->arms * (size_t)v->asked->batches, sizeof *v->gaps);
    if (v->tokens == NULL || v->offsets == NULL || v->gaps == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for an evaluation");
    v->worse.most = v->better.most = v->asked->tokens;
    const plumb_status status = hold_state(v, why);

    return status == PLUMB_OK ? measure(v, why) : status;
}

static void release(evaluation *v)
{
    for (size_t a = 0; a < v->e->arms; a++) {
        if (!v->own[a])
            plumb_model_free(&v->model[a]);
    }
    free(v->tokens);
    free(v->offsets);
    free(v->gaps);
    free(v->states);
    free(v->kept);
    trainer_free(v->t);
    free(v->t);
}

plumb_status plumb_train_eval(const plumb_eval_request *request, plumb_eval *eval,
                              plumb_error *why)
{
    char ref[4096];
    const char *data[1] = {request->data};
    const plumb_strings text = {(char **)(uintptr_t)data, 1};
    evaluation v = {.asked = request, .e = eval};
    plumb_status status = check_request(request, why);

    if (status != PLUMB_OK)
        return status;
    *eval = (plumb_eval){.arms = request->in_count};
    v.t = calloc(1, sizeof *v.t);
    if (v.t == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for an evaluation");
    plumb_request_init(&v.t->request);
    v.t->text = request->data != NULL ? &text : NULL;
    status = trainer_reopen(v.t, request->path, ref, why);
    if (status == PLUMB_OK)
        status = evaluate(&v, why);
    if (status == PLUMB_OK) {
        describe(&v, ref);
        conclude(&v);
        hand_over_tokens(&v);
    }
    release(&v);
    return status;
}
