/* plumb contract check, the runs: a table of what is asked of the trainer and when it makes sense.
 * Whatever the trainer does is kept as it is; what it means is for contract_judge.c.
 */
#include "diagnose/contract.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FLOOD = 1000 /* lines that are no news, in a run of three steps */ };

typedef struct checking {
    const plumb_runner *runner;
    const plumb_contract_settings *settings;
    plumb_progress_fn *progress;
    void *context;
    contract_seen seen;
    contract_run now;
    bool flooded;
} checking;

/* What a run asks for besides the seeds, three steps and no policy.  False: it makes no sense here. */
typedef bool ask_fn(const contract_seen *seen, plumb_request *request, json_t **rules);

/* --- what is asked ------------------------------------------------------------------- */

static bool ask_nothing(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)seen, (void)request, (void)rules;
    return true;
}

static bool ask_look(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)seen, (void)rules;
    request->stop_at = 0;
    return true;
}

static bool ask_base(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)seen, (void)rules;
    request->checkpoint_at = malloc(sizeof *request->checkpoint_at);
    if (request->checkpoint_at == NULL)
        return false;
    request->checkpoint_at[0] = CONTRACT_CHECKPOINT;
    request->checkpoint_count = 1;
    return true;
}

static bool ask_seed(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)seen, (void)rules;
    request->seed++;
    return true;
}

static bool ask_data_seed(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)seen, (void)rules;
    request->data_seed++;
    return true;
}

static bool ask_order(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)seen, (void)rules;
    request->has_micro_order = true;
    request->micro_order = 1;
    return true;
}

static bool ask_twin(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)seen, (void)request;
    *rules = plumb_rules_everywhere("bf16");
    return *rules != NULL;
}

/* The sites of the class in bf16; of them only one where `alone`. */
static bool ask_part(const contract_seen *seen, bool alone, json_t **rules)
{
    const plumb_experiment x = {.declaration = seen->declaration};
    const plumb_declaration *d = &seen->declaration;
    plumb_set set = {malloc((d->site_count + 1) * sizeof *set.at), 0};

    for (size_t i = 0; set.at != NULL && i < d->site_count; i++)
        if (alone ? i == seen->part_site
                  : d->sites[i].class_ == seen->part_class &&
                        plumb_format_is_low(d->sites[i].own))
            set.at[set.count++] = i;
    if (set.count > 0)
        *rules = plumb_rules_over(&x, &set, "bf16", true);
    plumb_set_free(&set);
    return *rules != NULL;
}

static bool ask_class(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)request;
    return seen->low_classes > 1 && ask_part(seen, false, rules);
}

static bool ask_site(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)request;
    return seen->low_sites > 1 && ask_part(seen, true, rules);
}

static bool ask_refuse(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)seen, (void)request;
    *rules = json_pack("[{s:s,s:s}]", "sites", "*", "use", "no-such-format");
    return *rules != NULL;
}

/* The run itself past a checkpoint that came late. */
static bool ask_further(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)rules;
    request->stop_at = seen->resumed_to;
    return seen->ref != NULL && seen->resumed_to > CONTRACT_STEPS;
}

static bool ask_resume(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)rules;
    request->stop_at = seen->resumed_to;
    request->start = seen->ref != NULL ? plumb_text("%s", seen->ref) : NULL;
    return request->start != NULL;
}

static bool ask_resume_twin(const contract_seen *seen, plumb_request *request,
                            json_t **rules)
{
    return ask_resume(seen, request, rules) && ask_twin(seen, request, rules);
}

static bool ask_no_start(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)rules;
    request->start = plumb_text("/no/such/checkpoint");
    return seen->ref != NULL && request->start != NULL;
}

static bool ask_lr(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)seen, (void)rules;
    request->lr_scale = 0.5;
    return true;
}

static bool ask_warmup(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)seen, (void)rules;
    request->warmup_scale = 4;
    return true;
}

static bool ask_clip(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)seen, (void)rules;
    request->clip_scale = 0.0625;
    return true;
}

static bool ask_skip(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)seen, (void)rules;
    request->skip = (plumb_span){2, 2};
    return true;
}

static bool ask_sensors(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)seen, (void)rules;
    request->observe_every = 1;
    return true;
}

static bool ask_stop(const contract_seen *seen, plumb_request *request, json_t **rules)
{
    (void)seen, (void)rules;
    request->stop_at = -1;
    return true;
}

static const struct {
    const char *label;
    const char *feature; /* asked only where the trainer offers it; NULL: of everybody */
    ask_fn *ask;
} runs[CONTRACT_RUNS] = {
    [CONTRACT_LOOK] = {"declares itself", NULL, ask_look},
    [CONTRACT_BASE] = {"three steps", NULL, ask_base},
    [CONTRACT_AGAIN] = {"the same again", NULL, ask_nothing},
    [CONTRACT_SEED] = {"another seed", NULL, ask_seed},
    [CONTRACT_DATA_SEED] = {"another data seed", "data_seed", ask_data_seed},
    [CONTRACT_ORDER] = {"another order of sums", "micro_order", ask_order},
    [CONTRACT_TWIN] = {"bf16 everywhere", NULL, ask_twin},
    [CONTRACT_CLASS] = {"a class in bf16", NULL, ask_class},
    [CONTRACT_SITE] = {"a site in bf16", NULL, ask_site},
    [CONTRACT_REFUSE] = {"a format that does not exist", NULL, ask_refuse},
    [CONTRACT_FURTHER] = {"the run, past its checkpoint", NULL, ask_further},
    [CONTRACT_RESUME] = {"resumed", NULL, ask_resume},
    [CONTRACT_RESUME_TWIN] = {"resumed in bf16", NULL, ask_resume_twin},
    [CONTRACT_NO_START] = {"a checkpoint that does not exist", NULL, ask_no_start},
    [CONTRACT_LR] = {"half the learning rate", "lr_scale", ask_lr},
    [CONTRACT_WARMUP] = {"a longer warm-up", "warmup_scale", ask_warmup},
    [CONTRACT_CLIP] = {"a lower clipping threshold", "clip_scale", ask_clip},
    [CONTRACT_SKIP] = {"the batch of step 2 skipped", "skip", ask_skip},
    [CONTRACT_SENSORS] = {"sensors on", "observe", ask_sensors},
    [CONTRACT_STOP] = {"stopped after its first line", NULL, ask_stop},
};

const char *plumb_contract_label(contract_run run)
{
    return runs[run].label;
}

/* --- one run ------------------------------------------------------------------------- */

static bool tell(const checking *c, plumb_progress_kind kind, const char *text,
                 int64_t step, double seconds)
{
    const plumb_progress progress = {.kind = kind,
                                     .text = text,
                                     .label = runs[c->now].label,
                                     .step = step,
                                     .steps = CONTRACT_STEPS,
                                     .seconds = seconds,
                                     .seconds_left = -1};

    return c->progress == NULL || c->progress(c->context, &progress);
}

static bool watch(void *context, const plumb_arm *arm, const plumb_history *history,
                  double seconds)
{
    checking *c = context;
    const int64_t step = history->count > 0 ? history->at[history->count - 1].step : 0;

    (void)arm;
    if (!tell(c, PLUMB_PROGRESS_RUNNING, NULL, step, seconds))
        return false;
    c->flooded = history->bad_lines + history->backward_steps > FLOOD;
    return !c->flooded;
}

/* Judged by these, a run fails at its first line, and is stopped as one that fails is. */
static plumb_predicates at_first_line(const contract_seen *seen)
{
    return (plumb_predicates){.persistence = 1,
                              .rise = INFINITY,
                              .twin = &seen->outcome[CONTRACT_BASE].history,
                              .band = -INFINITY};
}

static void note_restarts(contract_seen *seen, const plumb_outcome *outcome)
{
    json_t *events = NULL, *event;
    size_t bad_lines, i;

    seen->went_back += outcome->history.backward_steps > 0;
    if (outcome->run_dir == NULL ||
        plumb_events_read(outcome->run_dir, &events, &bad_lines, NULL) != PLUMB_OK)
        return;
    json_array_foreach(events, i, event)
    {
        const char *name = json_string_value(json_object_get(event, "event"));

        if (name == NULL || strcmp(name, "restart") != 0 || seen->restart_said)
            continue;
        seen->restart_said = true;
        seen->restart_step = json_integer_value(json_object_get(event, "step"));
    }
    json_decref(events);
}

static plumb_status ask_study(checking *c, const plumb_request *request,
                              const plumb_rules *rules, plumb_error *why)
{
    contract_seen *seen = &c->seen;
    plumb_outcome *outcome = &seen->outcome[c->now];
    const plumb_predicates first = at_first_line(seen);
    const plumb_arm arm = {.label = runs[c->now].label,
                           .request = request,
                           .rules = rules,
                           .repeat = c->now == CONTRACT_AGAIN,
                           .anew = true,
                           .predicates = c->now == CONTRACT_STOP ? &first : NULL};
    char text[400];

    c->flooded = false;
    plumb_status status = c->runner->run(c->runner->self, &arm, watch, c, outcome, why);

    if (status == PLUMB_INTERRUPTED && c->flooded) {
        *outcome = (plumb_outcome){.end = PLUMB_END_DIED, .exit_status = -1};
        snprintf(outcome->message, sizeof outcome->message,
                 "its log was flooded (more than %d lines that are no steps, or steps of "
                 "before), so it was stopped",
                 FLOOD);
        status = PLUMB_OK;
    }
    if (status != PLUMB_OK)
        return status;
    seen->asked[c->now] = true;
    seen->runs++;
    note_restarts(seen, outcome);
    if (outcome->run_dir != NULL) {
        int64_t step;

        plumb_run_end_read(outcome->run_dir, seen->reason[c->now], &step, NULL);
    }
    plumb_describe_end(outcome, text, sizeof text);
    return tell(c, PLUMB_PROGRESS_DONE, c->now == CONTRACT_STOP ? "stopped" : text,
                outcome->last_step, outcome->seconds)
               ? PLUMB_OK
               : plumb_fail(why, PLUMB_INTERRUPTED, "interrupted");
}

/* Asks for run c->now where it makes sense. */
static plumb_status ask(checking *c, plumb_error *why)
{
    const uint64_t seed = c->settings->seed;
    plumb_rules rules = {0};
    plumb_request request;
    json_t *json = NULL;
    plumb_status status = PLUMB_OK;

    plumb_request_init(&request);
    request.has_seed = request.has_data_seed = true;
    request.seed = request.data_seed = seed;
    request.stop_at = CONTRACT_STEPS;
    const bool sense = runs[c->now].ask(&c->seen, &request, &json);

    if (sense && json != NULL)
        status = plumb_rules_from_json(json, "the policy of a check", &rules, why);
    if (sense && status == PLUMB_OK)
        status = ask_study(c, &request, json != NULL ? &rules : NULL, why);
    plumb_rules_free(&rules);
    json_decref(json);
    plumb_request_free(&request);
    return status;
}

/* --- what later runs need to know ------------------------------------------------------ */

/* Which class and which site are asked for alone: of the forward pass where it is in few bits, since
 * the first loss shows it, and one whose codes nothing else reads.
 */
static void choose_parts(contract_seen *seen)
{
    const plumb_declaration *d = &seen->declaration;
    size_t in_class[PLUMB_CLASS_COUNT] = {0};

    for (size_t i = 0; i < d->site_count; i++) {
        const bool low = plumb_format_is_low(d->sites[i].own);

        seen->low_sites += low;
        in_class[d->sites[i].class_] += low;
    }
    for (int k = PLUMB_CLASS_COUNT; k-- > 0;) {
        seen->low_classes += in_class[k] > 0;
        if (in_class[k] > 0 && in_class[PLUMB_FORWARD] == 0)
            seen->part_class = (plumb_class)k;
    }
    if (in_class[PLUMB_FORWARD] > 0)
        seen->part_class = PLUMB_FORWARD;
    seen->part_sites = in_class[seen->part_class];
    seen->part_site = SIZE_MAX;
    for (size_t i = 0; i < d->site_count && seen->part_site == SIZE_MAX; i++)
        if (d->sites[i].class_ == seen->part_class &&
            plumb_format_is_low(d->sites[i].own) && plumb_storage_root(d, i) == i)
            seen->part_site = i;
}

static void read_declaration(contract_seen *seen, contract_run run)
{
    plumb_error trouble = {0};
    const char *run_dir = seen->outcome[run].run_dir;

    if (seen->declared || run_dir == NULL)
        return;
    const plumb_status status =
        plumb_declaration_read(run_dir, &seen->declaration, &trouble);

    seen->declared = status == PLUMB_OK;
    seen->late = seen->declared && run != CONTRACT_LOOK;
    if (seen->declared)
        choose_parts(seen);
    else
        seen->declaration = (plumb_declaration){.unigram_entropy = NAN};
    seen->trouble[0] = 0;
    if (status != PLUMB_OK && status != PLUMB_NOT_FOUND)
        plumb_printable(trouble.message, seen->trouble, sizeof seen->trouble);
}

/* The last checkpoint that leaves a step of the run to compare with, else the first later one. */
static plumb_status choose_checkpoint(contract_seen *seen, plumb_error *why)
{
    const char *run_dir = seen->outcome[CONTRACT_BASE].run_dir;
    int64_t before = CONTRACT_STEPS, step;

    (void)why;
    seen->ref = plumb_checkpoint_before(run_dir, before, &step);
    if (seen->ref == NULL)
        seen->ref = plumb_checkpoint_before(run_dir, before + 1, &step);
    seen->checkpoint_step = step;
    seen->resumed_to = step + 1 > CONTRACT_STEPS ? step + 1 : CONTRACT_STEPS;
    return PLUMB_OK;
}

static bool is_declared(const plumb_declaration *d, const char *name)
{
    for (size_t i = 0; i < d->site_count; i++)
        if (strcmp(d->sites[i].name, name) == 0)
            return true;
    return false;
}

static void read_samples(contract_seen *seen)
{
    const char *run_dir = seen->outcome[CONTRACT_SENSORS].run_dir;
    plumb_samples samples = {0};
    plumb_error trouble = {0};

    if (run_dir == NULL)
        return;
    if (plumb_samples_read(run_dir, &samples, &trouble) != PLUMB_OK)
        plumb_printable(trouble.message, seen->samples_trouble,
                        sizeof seen->samples_trouble);
    seen->samples = samples.count;
    for (size_t i = 0; i < samples.site_count; i++)
        seen->foreign_samples += seen->declaration.site_count > 0 &&
                                 !is_declared(&seen->declaration, samples.site_names[i]);
    plumb_samples_free(&samples);
}

/* A hash that is the same at every step is none of the state, and would make every run look the same:
 * it is not compared.
 */
static void forget_state_hashes(plumb_outcome *outcome)
{
    for (size_t i = 0; i < outcome->history.count; i++)
        outcome->history.at[i].has_state_hash = false;
}

/* --- the whole ------------------------------------------------------------------------- */

/* Nothing more can be learnt from a command that does not run or logs no step. */
static bool is_hopeless(const contract_seen *seen, contract_run run)
{
    const plumb_outcome *outcome = &seen->outcome[run];

    if (run == CONTRACT_LOOK)
        return outcome->end == PLUMB_END_NO_START || outcome->end == PLUMB_END_REFUSED;
    return run == CONTRACT_BASE && outcome->history.count == 0;
}

static plumb_status learn(checking *c, plumb_error *why)
{
    contract_seen *seen = &c->seen;

    switch (c->now) {
    case CONTRACT_LOOK:
        read_declaration(seen, CONTRACT_LOOK);
        return PLUMB_OK;
    case CONTRACT_BASE:
        read_declaration(seen, CONTRACT_BASE);
        seen->constant_hash = plumb_hash_is_constant(&seen->outcome[CONTRACT_BASE].history);
        return choose_checkpoint(seen, why);
    case CONTRACT_SENSORS:
        read_samples(seen);
        return PLUMB_OK;
    default:
        return PLUMB_OK;
    }
}

static plumb_status ask_all(checking *c, plumb_error *why)
{
    plumb_status status = PLUMB_OK;

    for (int run = 0; run < CONTRACT_RUNS && status == PLUMB_OK; run++) {
        const char *feature = runs[run].feature;

        c->now = (contract_run)run;
        if (feature != NULL && !plumb_declaration_has(&c->seen.declaration, feature))
            continue;
        status = ask(c, why);
        if (status != PLUMB_OK || !c->seen.asked[run])
            continue;
        status = learn(c, why);
        if (c->seen.constant_hash)
            forget_state_hashes(&c->seen.outcome[run]);
        if (is_hopeless(&c->seen, c->now))
            break;
    }
    return status;
}

plumb_status plumb_contract_check_with(const plumb_runner *runner,
                                       const plumb_contract_settings *settings,
                                       plumb_progress_fn *progress, void *context,
                                       json_t **report, plumb_error *why)
{
    plumb_contract_settings s = *settings;
    contract_finding found[PLUMB_LACK_COUNT];
    checking c = {
        .runner = runner, .settings = &s, .progress = progress, .context = context};

    *report = NULL;
    if (s.command == NULL || s.command[0] == NULL)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "no command to check");
    s.seed = s.seed > 0 ? s.seed : 1;
    c.seen.grace = s.grace > 0 ? s.grace : 10;
    c.seen.declaration.unigram_entropy = NAN;
    c.seen.part_site = SIZE_MAX;
    plumb_status status = ask_all(&c, why);

    if (status == PLUMB_OK) {
        plumb_contract_judge(&c.seen, found);
        *report = plumb_contract_report(&c.seen, found, &s);
        if (*report == NULL)
            status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the report");
    }
    plumb_declaration_free(&c.seen.declaration);
    for (int run = 0; run < CONTRACT_RUNS; run++)
        plumb_outcome_free(&c.seen.outcome[run]);
    free(c.seen.ref);
    return status;
}

static plumb_status run_in_study(void *self, const plumb_arm *arm, plumb_watch *watched,
                                 void *context, plumb_outcome *outcome, plumb_error *why)
{
    return plumb_study_run(self, arm, watched, context, outcome, why);
}

plumb_status plumb_contract_check(plumb_study *study,
                                  const plumb_contract_settings *settings,
                                  plumb_progress_fn *progress, void *context,
                                  json_t **report, plumb_error *why)
{
    const plumb_runner runner = {run_in_study, study, plumb_study_directory(study)};

    return plumb_contract_check_with(&runner, settings, progress, context, report, why);
}
