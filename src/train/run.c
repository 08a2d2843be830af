/* One run under the contract: declare, resume, step by step, end.
 *
 * Everything that can be refused is refused before step 1 (status 3).  From then on the run ends
 * with end.json, whatever happens.
 */
#include "train/train.h"
#include "train/sensors.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* --- declaring ------------------------------------------------------------------------ */

plumb_status run_declare(trainer *t, plumb_error *why)
{
    static const char *const features[] = {
        "checkpoint",  "exact_resume", "state_hash", "batch_hash",
        "micro_order", "data_seed",    "lr_scale",   "warmup_scale",
        "clip_scale",  "skip",         "observe",
    };
    enum { FEATURES = sizeof features / sizeof features[0] };
    plumb_declaration d = {
        .contract = PLUMB_CONTRACT_VERSION,
        .world_size = t->settings.ranks,
        .schedule_steps = t->settings.steps,
        .unigram_entropy = t->corpus.entropy,
        .warmup_steps = t->settings.warmup,
    };
    plumb_status status = sites_declare(&t->sites, &d, why);

    d.trainer = strdup("plumb train");
    d.version = strdup(plumb_build_id());
    d.config_hash = strdup(t->config_hash);
    d.features = calloc(FEATURES, sizeof *d.features);
    for (size_t i = 0; i < FEATURES && d.features != NULL; i++) {
        d.features[i] = strdup(features[i]);
        d.feature_count = i + 1;
    }
    if (status == PLUMB_OK) {
        json_t *extra =
            json_pack("{s:s, s:s, s:I, s:I}", "name", t->settings.name, "recipe",
                      t->settings.recipe, "parameters", (json_int_t)t->weight_count,
                      "tokens_per_step", (json_int_t)(t->sequences * t->shape.context));

        status = plumb_run_declare(t->run, &d, extra, why);
        json_decref(extra);
    }
    plumb_declaration_free(&d);
    return status;
}

static plumb_status say_policy(trainer *t, plumb_error *why)
{
    if (t->request.policy == NULL)
        return PLUMB_OK;
    return plumb_run_event(t->run, "policy",
                           json_pack("{s:s, s:o, s:o}", "path", t->request.policy, "rules",
                                     plumb_rules_to_json(&t->policy), "unmatched",
                                     sites_unmatched(&t->sites, &t->policy)),
                           why);
}

static plumb_status resume(trainer *t, plumb_error *why)
{
    json_t *converted = NULL;
    plumb_status status;

    if (t->request.start == NULL)
        return PLUMB_OK;
    status = checkpoint_load(t, t->request.start, &converted, why);
    if (status == PLUMB_OK && json_array_size(converted) > 0)
        status = plumb_run_event(
            t->run, "converted",
            json_pack("{s:I, s:O}", "step", (json_int_t)t->step, "sites", converted), why);
    json_decref(converted);
    return status;
}

/* --- stepping --------------------------------------------------------------------------- */

static int64_t last_step(const trainer *t)
{
    return t->request.stop_at >= 0 ? t->request.stop_at : t->settings.steps;
}

static plumb_status log_step(trainer *t, const step_result *r, double seconds,
                             plumb_error *why)
{
    plumb_metrics line = {
        .step = t->step,
        .loss = r->loss,
        .grad_norm = r->grad_norm,
        .has_grad_norm = true,
        .grad_norm_max = r->grad_norm_max,
        .loss_max = (double)r->loss_worst,
        .update_max = (double)r->update_max,
        .lr = r->lr,
        .has_details = true,
        .batch_hash = r->batch_hash,
        .state_hash = r->state_hash,
        .has_batch_hash = true,
        .has_state_hash = true,
        .tokens = (int64_t)(t->sequences * t->shape.context),
        .seconds = seconds,
    };

    plumb_print(line.grad_norm_max_tensor, sizeof line.grad_norm_max_tensor, "%s",
                t->parameters[r->grad_norm_max_parameter].name);
    const plumb_status status = plumb_run_step(t->run, &line, why);

    if (status == PLUMB_OK && t->watch != NULL)
        t->watch(t->watch_context, &line, last_step(t), t->run_dir);
    return status;
}

static bool checkpoint_is_due(const trainer *t)
{
    const int64_t every = t->settings.checkpoint_every;

    if (every > 0 && t->step % every == 0)
        return true;
    for (size_t i = 0; i < t->request.checkpoint_count; i++) {
        if (t->request.checkpoint_at[i] == t->step)
            return true;
    }
    return false;
}

plumb_status run_step(trainer *t, step_result *r, plumb_error *why)
{
    const double begin = seconds_now();
    plumb_status status = trainer_step(t, r, why);

    if (status == PLUMB_OK)
        status = log_step(t, r, seconds_now() - begin, why);
    if (status == PLUMB_OK)
        status = sensors_end(t, t->step, why);
    return status;
}

/* Steps until there is a reason to end. */
static plumb_status steps(trainer *t, const char **reason, plumb_error *why)
{
    const int64_t last = last_step(t);
    bool first = true;

    *reason = "reached";
    while (t->step < last) {
        step_result r;
        plumb_status status;

        if (plumb_run_should_stop(t->run)) {
            *reason = "stopped";
            return PLUMB_OK;
        }
        status = run_step(t, &r, why);
        if (status == PLUMB_OK && first)
            status =
                plumb_run_event(t->run, "effective",
                                json_pack("{s:I, s:o, s:o}", "step", (json_int_t)t->step,
                                          "sites", sites_effective(&t->sites),
                                          "accumulators", products_effective(&t->sites)),
                                why);
        first = false;
        if (status != PLUMB_OK)
            return status;
        if (!isfinite(r.loss)) {
            *reason = "nonfinite";
            return PLUMB_OK;
        }
        if (checkpoint_is_due(t))
            status = checkpoint_save(t, why);
        if (status != PLUMB_OK)
            return status;
    }
    return validate(t, why);
}

static plumb_status check_start(const trainer *t, plumb_error *why)
{
    const int64_t stop = t->request.stop_at;

    if (stop >= 0 && t->step > stop)
        return plumb_fail(why, PLUMB_UNSUPPORTED,
                          "the checkpoint is of step %lld, behind the stop at %lld",
                          (long long)t->step, (long long)stop);
    return PLUMB_OK;
}

static plumb_status run(trainer *t, plumb_error *why)
{
    const char *reason = "error";
    plumb_error ending = {0};
    plumb_status status = run_declare(t, why), ended;

    if (status == PLUMB_OK)
        status = say_policy(t, why);
    if (status == PLUMB_OK && t->request.stop_at == 0) {
        reason = "reached";
    } else {
        if (status == PLUMB_OK)
            status = resume(t, why);
        if (status == PLUMB_OK)
            status = check_start(t, why);
        if (status == PLUMB_OK) {
            faults_start(t);
            status = steps(t, &reason, why);
        }
        ended = sensors_flush(t, &ending);
        if (status == PLUMB_OK && ended != PLUMB_OK)
            status = plumb_fail(why, ended, "%s", ending.message);
    }
    if (status != PLUMB_OK)
        reason = "error";
    ended = plumb_run_end(&t->run, reason, t->step, &ending);
    if (status == PLUMB_OK && ended != PLUMB_OK)
        status = plumb_fail(why, ended, "%s", ending.message);
    return status;
}

/* --- entry -------------------------------------------------------------------------------- */

static void on_signal(int number)
{
    (void)number;
    plumb_run_interrupt();
}

static int exit_status(plumb_status status)
{
    switch (status) {
    case PLUMB_OK:
        return 0;
    case PLUMB_IO:
    case PLUMB_NO_MEMORY:
    case PLUMB_INTERRUPTED:
        return 1;
    default:
        return 3;
    }
}

plumb_status run_open(trainer *t, plumb_error *why)
{
    plumb_error trouble = {0};

    if (t->request.run_dir == NULL && plumb_dir_make(t->settings.out, &trouble) != PLUMB_OK)
        return plumb_fail(why, PLUMB_BAD_INPUT, "out: %s", trouble.message);
    t->run_dir = t->request.run_dir == NULL ? t->settings.out : t->request.run_dir;
    return plumb_run_create(t->run_dir, &t->run, why);
}

static plumb_status train(trainer *t, const char *path, const char *const *overrides,
                          size_t count, plumb_error *why)
{
    plumb_status status = plumb_request_read(&t->request, why);

    if (status == PLUMB_OK)
        status = settings_load(path, overrides, count, &t->settings, why);
    if (status == PLUMB_OK)
        status = trainer_create(t, why);
    if (status == PLUMB_OK)
        status = run_open(t, why);
    return status == PLUMB_OK ? run(t, why) : status;
}

int plumb_train_main(const char *path, const char *const *overrides, size_t override_count,
                     plumb_train_watch *watch, void *context, plumb_error *why)
{
    const struct sigaction action = {.sa_handler = on_signal};
    struct sigaction old_term, old_int;
    trainer *t = calloc(1, sizeof *t);
    plumb_status status;

    if (t == NULL) {
        plumb_fail(why, PLUMB_NO_MEMORY, "no memory");
        return 1;
    }
    sigaction(SIGTERM, &action, &old_term);
    sigaction(SIGINT, &action, &old_int);
    plumb_request_init(&t->request);
    t->path = path;
    t->watch = watch;
    t->watch_context = context;
    status = train(t, path, overrides, override_count, why);
    sigaction(SIGTERM, &old_term, NULL);
    sigaction(SIGINT, &old_int, NULL);
    trainer_free(t);
    free(t);
    return exit_status(status);
}
