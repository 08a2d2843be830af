/* A run is loss(step) = 3 - step/200, a little different for each policy, until the planted
 * fault strikes.
 */
#include "fake.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define OWN "e4m3:delayed:history=16:overflow"

/* collective 0; optimizer 1, 2; backward 3..6; forward 7..10; loss 11; and one wide site. */
const char *const fake_names[FAKE_SITES] = {
    "reduce",      "m.first",    "m.second",  "b.first.dy", "b.first.w",
    "b.second.dy", "b.second.w", "f.first.x", "f.first.w",  "f.second.x",
    "f[second].w", "sum",        "wide"};

static const char *class_of(int site)
{
    return site == 0    ? "collective"
           : site <= 2  ? "optimizer"
           : site <= 6  ? "backward"
           : site <= 10 ? "forward"
           : site == 11 ? "loss"
                        : "norm";
}

static json_t *site_json(const fake *f, int i)
{
    const bool operand = i >= 3 && i <= 10;
    json_t *json = json_pack("{s:s,s:s,s:s,s:[s,s,s,s]}", "name", fake_names[i], "class",
                             class_of(i), "own", i == 12 ? "fp32" : OWN, "uses", "bf16",
                             "fp32", "e4m3:current", "e4m3:saturate");

    if (operand) {
        json_object_set_new(json, "layer", json_integer(i >= 9 || i == 5 || i == 6));
        json_object_set_new(json, "gemm", json_string(i <= 6 ? "dgrad" : "fprop"));
        json_object_set_new(json, "operand", json_string(strrchr(fake_names[i], '.') + 1));
    }
    if (f->shared && i == 5)
        json_object_set_new(json, "shares_storage_with", json_string(fake_names[3]));
    return json;
}

static void write_checkpoint(FILE *events, int64_t step)
{
    fprintf(events, "{\"event\":\"checkpoint\",\"step\":%lld,\"ref\":\"at %lld\"}\n",
            (long long)step, (long long)step);
}

static void offer_checkpoint(const fake *f, json_t *run)
{
    char path[128];

    json_array_append_new(json_object_get(run, "features"), json_string("checkpoint"));
    snprintf(path, sizeof path, "%s/events.jsonl", f->directory);
    FILE *events = fopen(path, "w");

    if (events == NULL)
        return;
    write_checkpoint(events, f->checkpoint);
    fclose(events);
}

static void declare(const fake *f)
{
    char path[128];
    plumb_error why;
    json_t *sites = json_array();

    for (int i = 0; i < FAKE_SITES && !f->no_sites; i++)
        json_array_append_new(sites, site_json(f, i));
    json_t *run =
        json_pack("{s:i,s:s,s:i,s:[s,s,s],s:o}", "contract", 1, "trainer", "fake",
                  "schedule_steps", FAKE_STEPS, "features", "batch_hash", "state_hash",
                  f->without_lr_scale ? "data_seed" : "lr_scale", "sites", sites);

    if (f->orders_die > 0 || f->order_drift > 0)
        json_array_append_new(json_object_get(run, "features"), json_string("micro_order"));
    if (f->suspect > 0)
        json_array_append_new(json_object_get(run, "features"), json_string("observe"));
    if (f->checkpoint > 0)
        offer_checkpoint(f, run);
    snprintf(path, sizeof path, "%s/run.json", f->directory);
    if (plumb_json_save(path, run, &why) != PLUMB_OK)
        fprintf(stderr, "# %s\n", why.message);
    json_decref(run);
}

void fake_begin(fake *f)
{
    strcpy(f->directory, "plumb fake-XXXXXX");
    if (mkdtemp(f->directory) == NULL)
        f->directory[0] = 0;
    declare(f);
}

void fake_end(fake *f)
{
    plumb_error why;

    plumb_dir_remove(f->directory, &why);
}

/* The use of a site under the rules; NULL: its own. */
static const char *use_of(const plumb_rules *rules, int site)
{
    const char *use = NULL;

    for (size_t r = 0; rules != NULL && r < rules->count; r++)
        for (size_t g = 0; g < rules->at[r].glob_count; g++)
            if (fnmatch(rules->at[r].globs[g], fake_names[site], 0) == 0)
                use = rules->at[r].use;
    return use;
}

static bool healed(const fake *f, unsigned culprits, const plumb_rules *rules)
{
    for (int i = 0; i < FAKE_SITES; i++) {
        const char *use = use_of(rules, i);

        if ((culprits >> i & 1) == 0)
            continue;
        if (use == NULL || !(strcmp(use, "bf16") == 0 ||
                             (f->current_heals && strcmp(use, "e4m3:current") == 0) ||
                             (f->saturate_heals && strcmp(use, "e4m3:saturate") == 0)))
            return false;
    }
    return true;
}

/* Each culprit in bf16 puts the failure off: later is not healed. */
static int64_t shift(const fake *f, const plumb_rules *rules)
{
    int64_t steps = 0;

    for (int i = 0; i < FAKE_SITES; i++)
        if ((f->culprits >> i & 1) != 0 && use_of(rules, i) != NULL)
            steps += f->delay > 0 ? f->delay : 2;
    return steps;
}

static int cast_back(const plumb_rules *rules)
{
    int count = 0;

    for (int i = 0; i < FAKE_SITES; i++)
        count += use_of(rules, i) != NULL;
    return count;
}

static uint64_t seed_of(const fake *f, const plumb_arm *arm)
{
    const uint64_t own = f->own_seed != 0 ? f->own_seed : 1;

    return arm->request->has_seed && !f->seedless ? arm->request->seed : own;
}

static uint64_t fingerprint(const fake *f, const plumb_arm *arm)
{
    uint64_t hash = seed_of(f, arm);

    for (int i = 0; i < FAKE_SITES; i++) {
        const char *use = use_of(arm->rules, i);

        for (; use != NULL && *use != 0; use++)
            hash = hash * 31 + (unsigned char)*use + (uint64_t)i;
    }
    if (f->repeat_late > 0)
        hash += (uint64_t)arm->repeat;
    hash += arm->request->micro_order;
    return hash * 31 + (uint64_t)(arm->request->lr_scale * 1000);
}

/* The step after which an arm starts; 0: from the beginning. */
static int64_t start_of(const plumb_arm *arm)
{
    long long step = 0;

    if (arm->request->start != NULL)
        sscanf(arm->request->start, "at %lld", &step);
    return step;
}

static int64_t failing_step(const fake *f, const plumb_arm *arm)
{
    const uint64_t seed = seed_of(f, arm);

    if (f->fails_at == 0 || arm->request->lr_scale < f->rate_hides_below ||
        (f->flaky && arm->repeat > 0) ||
        (f->lucky_repeat > 0 && arm->repeat == f->lucky_repeat) ||
        (f->never_returns && arm->repeat == 3) ||
        (f->fix_cures && start_of(arm) > f->checkpoint) ||
        (f->fails_when_repeated && arm->repeat == 0) || (f->one_seed && seed != 1))
        return 0;
    const unsigned early = arm->request->start == NULL ? f->early_culprits : 0;
    const unsigned culprits = seed != 1 && f->other_culprits != 0 ? f->other_culprits
                              : f->gap_culprits != 0              ? f->gap_culprits
                                                                  : f->culprits | early;

    if (!f->twin_fails && healed(f, culprits, f->deaf ? NULL : arm->rules))
        return 0;
    return f->fails_at + (int64_t)seed + (f->deaf ? 0 : shift(f, arm->rules)) +
           (arm->repeat == 1 ? f->repeat_late : 0);
}

/* Made by a run that has learned around the culprits. */
static bool starts_adapted(const plumb_arm *arm)
{
    return arm->request->start != NULL && strstr(arm->request->start, "adapted") != NULL;
}

/* An arm of the search, which casts some sites back and not all. */
static bool is_searched(const plumb_arm *arm)
{
    return arm->rules != NULL && strcmp(arm->rules->at[0].globs[0], "*") != 0;
}

static void write_history(const fake *f, const plumb_arm *arm, plumb_history *history)
{
    const int64_t stop = arm->request->stop_at, fails = failing_step(f, arm);
    const uint64_t print = f->deaf ? 7 : fingerprint(f, arm);
    const bool searched = is_searched(arm);
    const bool few = cast_back(arm->rules) < 3;
    const bool by_chance =
        f->chance > 0 && few && searched && use_of(arm->rules, 0) != NULL;

    history->at = calloc((size_t)stop + 1, sizeof *history->at);
    const int64_t first = start_of(arm) + 1;

    for (int64_t step = first; step <= stop && step <= FAKE_STEPS && !f->silent; step++) {
        plumb_metrics *row = &history->at[history->count++];

        *row =
            (plumb_metrics){.step = step, .has_batch_hash = true, .has_state_hash = true};
        row->loss = 3 - (double)step / 200 + 1e-6 * (double)(print % 100);
        row->state_hash = print + (uint64_t)step;
        row->batch_hash = (uint64_t)step;
        if (f->confounded || (f->arms_confounded && searched))
            row->batch_hash += print;
        if (starts_adapted(arm) && healed(f, f->culprits, arm->rules))
            row->loss += f->adapts;
        if (fails == 0 && searched && few && step >= f->fails_at)
            row->loss += f->residue;
        row->loss += f->order_drift * (double)arm->request->micro_order;
        if (fails > 0 && step >= f->drifts_from)
            row->loss += f->drift;
        if (f->resumes_apart && arm->request->start != NULL) {
            row->loss += 1e-3;
            row->state_hash++;
        }
        if (fails > 0 && step >= fails && f->gap > 0)
            row->loss += by_chance ? f->chance : f->gap;
        else if (fails > 0 && step >= fails)
            row->loss = NAN;
    }
}

/* Most runs share one directory; what is special to a run needs one of its own. */
static void own_directory(const fake *f, char **run_dir)
{
    char directory[96];

    snprintf(directory, sizeof directory, "%s/%d", f->directory, f->runs);
    mkdir(directory, 0777);
    free(*run_dir);
    *run_dir = strdup(directory);
}

/* The checkpoints of a run, and its complaints. */
static void keep_weights(const fake *f, const plumb_arm *arm, int64_t last,
                         const char *run_dir)
{
    char path[128];

    snprintf(path, sizeof path, "%s/events.jsonl", run_dir);
    FILE *events = fopen(path, "w");

    if (events == NULL)
        return;
    for (size_t i = 0; i < arm->request->checkpoint_count; i++) {
        const long long step = (long long)arm->request->checkpoint_at[i];
        const bool adapted = step >= f->adapted_from && !healed(f, f->culprits, arm->rules);

        if (step <= last && f->adapts > 0 && !(f->arms_forget && is_searched(arm)))
            fprintf(events,
                    "{\"event\":\"checkpoint\",\"step\":%lld,\"ref\":\"at %lld%s\"}\n",
                    step, step, adapted ? " adapted" : "");
    }
    fclose(events);
    const bool violated = f->violates > 0 && !healed(f, f->culprits, arm->rules);

    if (f->rank > 0)
        snprintf(path, sizeof path, "%s/events-rank%05d.jsonl", run_dir, f->rank);
    events = fopen(path, "a");
    if (events == NULL)
        return;
    for (int64_t step = f->violates; violated && step <= last; step++)
        fprintf(events,
                "{\"event\":\"invariant\",\"name\":\"sum\",\"step\":%lld,\"value\":3,"
                "\"bound\":2}\n",
                (long long)step);
    fclose(events);
}

/* The checkpoints that a run under a policy was asked for and lived to write. */
static void keep_checkpoints(const fake *f, const plumb_arm *arm, int64_t last)
{
    char path[128];

    if (f->checkpoint == 0 || arm->rules == NULL || arm->request->checkpoint_count == 0)
        return;
    snprintf(path, sizeof path, "%s/events.jsonl", f->directory);
    FILE *events = fopen(path, "a");

    if (events == NULL)
        return;
    for (size_t i = 0; i < arm->request->checkpoint_count; i++)
        if (arm->request->checkpoint_at[i] <= last)
            write_checkpoint(events, arm->request->checkpoint_at[i]);
    fclose(events);
}

/* Statistics of every site at every step. */
static void write_samples(const fake *f, const char *run_dir, int64_t last)
{
    plumb_run *run = NULL;
    plumb_error why = {0};

    if (plumb_run_create(run_dir, &run, &why) != PLUMB_OK) {
        fprintf(stderr, "# %s\n", why.message);
        return;
    }
    for (int64_t step = 1; step <= last; step++) {
        plumb_sample rows[FAKE_SITES];

        for (int i = 0; i < FAKE_SITES; i++)
            rows[i] = (plumb_sample){.step = (uint64_t)step,
                                     .site = (uint32_t)i,
                                     .scale = 1,
                                     .amax = 10,
                                     .decoded_amax = i == f->suspect - 1 ? 20 : 10,
                                     .headroom = 2,
                                     .saturated = 1,
                                     .total = 100};
        if (plumb_run_samples(run, fake_names, FAKE_SITES, rows, FAKE_SITES, &why) !=
            PLUMB_OK)
            fprintf(stderr, "# %s\n", why.message);
    }
    plumb_run_end(&run, "stopped", last, &why);
}

static plumb_status run(void *self, const plumb_arm *arm, plumb_watch *watch, void *context,
                        plumb_outcome *outcome, plumb_error *why)
{
    fake *f = self;

    (void)watch;
    (void)context;
    *outcome = (plumb_outcome){.exit_status = 0, .seconds = 1};
    if (++f->runs == f->interrupt_after)
        return plumb_fail(why, PLUMB_INTERRUPTED, "interrupted");
    f->data_seeds += arm->request->has_data_seed;
    snprintf(outcome->id, sizeof outcome->id, "%032d", f->one_id ? 1 : f->runs);
    outcome->run_dir = strdup(f->directory);
    if (arm->repeat == 1 && arm->request->checkpoint_count > 0)
        f->wished = arm->request->checkpoint_at[arm->request->checkpoint_count - 1];
    if (f->refuses || (f->refuses_current && arm->rules != NULL &&
                       strcmp(arm->rules->at[0].use, "e4m3:current") == 0)) {
        outcome->end = PLUMB_END_REFUSED;
        snprintf(outcome->message, sizeof outcome->message, "no \x1b[31m data");
        return PLUMB_OK;
    }
    if ((f->dies_when_repeated && arm->repeat == 1) ||
        (arm->request->has_micro_order &&
         arm->request->micro_order <= (uint64_t)f->orders_die)) {
        outcome->end = PLUMB_END_DIED;
        outcome->exit_status = 1;
        snprintf(outcome->message, sizeof outcome->message, "the disk is full");
        return PLUMB_OK;
    }
    write_history(f, arm, &outcome->history);
    if (arm->predicates != NULL)
        outcome->failure = plumb_history_judge(&outcome->history, arm->predicates);
    if (outcome->failure.predicate != PLUMB_FAILS_NOT) {
        outcome->end = PLUMB_END_FAILED;
        while (outcome->history.at[outcome->history.count - 1].step >
               outcome->failure.decided)
            outcome->history.count--;
    }
    if (f->silent && arm->request->stop_at > 0)
        outcome->end = PLUMB_END_SILENT;
    if (outcome->history.count > 0) {
        outcome->first_step = outcome->history.at[0].step;
        outcome->last_step = outcome->history.at[outcome->history.count - 1].step;
    }
    const bool apart = f->adapts > 0 || f->violates > 0;
    const bool statistics = f->suspect > 0 && f->runs == 2;

    if ((apart || statistics) && arm->request->stop_at > 0)
        own_directory(f, &outcome->run_dir);
    if (statistics)
        write_samples(f, outcome->run_dir, outcome->last_step);
    if (apart && arm->request->stop_at > 0)
        keep_weights(f, arm, outcome->last_step, outcome->run_dir);
    else
        keep_checkpoints(f, arm, outcome->last_step);
    return PLUMB_OK;
}

plumb_runner fake_runner(fake *f)
{
    return (plumb_runner){run, f, f->directory};
}
