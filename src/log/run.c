/* Writing a run: one write per line, so that a reader sees whole lines and a crash costs at
 * most the last one.
 */
#include "log/run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file/whole.h"
#include "log/declaration.h"
#include "plumb/file.h"

static volatile sig_atomic_t interrupted;

static void destroy(plumb_run *run)
{
    if (run == NULL)
        return;
    if (run->metrics >= 0)
        close(run->metrics);
    if (run->events >= 0)
        close(run->events);
    if (run->samples.fd >= 0)
        close(run->samples.fd);
    if (run->histograms.fd >= 0)
        close(run->histograms.fd);
    free(run->directory);
    free(run->stop_path);
    free(run);
}

/* A file of the run that must not exist yet; -1 and a message otherwise. */
static int create_file(const char *directory, const char *name, plumb_error *why)
{
    char *path = plumb_path_join(directory, name);
    int fd = -1;

    if (path == NULL) {
        plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
        return -1;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST)
        plumb_fail(why, PLUMB_BUSY, "%s already holds a run (%s)", directory, name);
    else if (fd < 0)
        plumb_fail(why, PLUMB_IO, "cannot create %s: %s", path, strerror(errno));
    free(path);
    return fd;
}

static bool holds(const char *directory, const char *name)
{
    char *path = plumb_path_join(directory, name);
    const bool there = path != NULL && access(path, F_OK) == 0;

    free(path);
    return there;
}

plumb_status plumb_run_create(const char *run_dir, plumb_run **run, plumb_error *why)
{
    plumb_error reason = {.status = PLUMB_NO_MEMORY, .message = "out of memory"};
    plumb_run *made;

    *run = NULL;
    if (holds(run_dir, "run.json"))
        return plumb_fail(why, PLUMB_BUSY, "%s already holds a run (run.json)", run_dir);
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
    made->metrics = made->events = made->samples.fd = made->histograms.fd = -1;
    made->directory = strdup(run_dir);
    made->stop_path = plumb_path_join(run_dir, "stop");
    if (made->directory != NULL && made->stop_path != NULL)
        made->metrics = create_file(run_dir, "metrics.jsonl", &reason);
    if (made->metrics >= 0)
        made->events = create_file(run_dir, "events.jsonl", &reason);
    if (made->events < 0) {
        destroy(made);
        return plumb_fail(why, reason.status, "%s", reason.message);
    }
    *run = made;
    return PLUMB_OK;
}

static plumb_status save(const plumb_run *run, const char *name, const json_t *json,
                         plumb_error *why)
{
    char *path = plumb_path_join(run->directory, name);
    const plumb_status status = path != NULL
                                    ? plumb_json_save(path, json, why)
                                    : plumb_fail(why, PLUMB_NO_MEMORY, "out of memory");
    free(path);
    return status;
}

plumb_status plumb_run_declare(plumb_run *run, const plumb_declaration *declaration,
                               const json_t *extra, plumb_error *why)
{
    json_t *json = plumb_declaration_to_json(declaration);
    plumb_status status;

    if (json == NULL)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "run.json: a string is not UTF-8");
    if (extra != NULL && json_object_update_missing(json, (json_t *)extra) != 0)
        status = plumb_fail(why, PLUMB_BAD_ARGUMENT, "run.json: extra is not an object");
    else
        status = save(run, "run.json", json, why);
    json_decref(json);
    return status;
}

/* Writes json and a newline at once; steals json. */
static plumb_status append_line(int fd, const char *name, json_t *json, plumb_error *why)
{
    char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(17));
    plumb_status status = PLUMB_OK;

    json_decref(json);
    if (text == NULL)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "%s: a value cannot be written as JSON",
                          name);
    const size_t length = strlen(text);
    text[length] = '\n'; /* in place of the 0: one write per line */
    if (!plumb_file_put(fd, text, length + 1))
        status = plumb_fail(why, PLUMB_IO, "cannot write %s: %s", name, strerror(errno));
    free(text);
    return status;
}

static json_t *hash_json(uint64_t hash)
{
    char text[19];

    snprintf(text, sizeof text, "0x%016" PRIx64, hash);
    return json_string(text);
}

static void put_details(json_t *json, const plumb_metrics *metrics)
{
    json_object_set_new(json, "grad_norm_max", plumb_json_real(metrics->grad_norm_max));
    if (metrics->grad_norm_max_tensor[0] != 0)
        json_object_set_new(json, "grad_norm_max_tensor",
                            json_string(metrics->grad_norm_max_tensor));
    json_object_set_new(json, "loss_max", plumb_json_real(metrics->loss_max));
    json_object_set_new(json, "update_max", plumb_json_real(metrics->update_max));
    json_object_set_new(json, "lr", plumb_json_real(metrics->lr));
}

plumb_status plumb_run_step(plumb_run *run, const plumb_metrics *metrics, plumb_error *why)
{
    json_t *json = json_object();

    json_object_set_new(json, "step", json_integer((json_int_t)metrics->step));
    json_object_set_new(json, "loss", plumb_json_real(metrics->loss));
    if (metrics->has_grad_norm)
        json_object_set_new(json, "grad_norm", plumb_json_real(metrics->grad_norm));
    if (metrics->has_details)
        put_details(json, metrics);
    if (metrics->has_batch_hash)
        json_object_set_new(json, "batch_hash", hash_json(metrics->batch_hash));
    if (metrics->has_state_hash)
        json_object_set_new(json, "state_hash", hash_json(metrics->state_hash));
    if (metrics->tokens > 0)
        json_object_set_new(json, "tokens", json_integer((json_int_t)metrics->tokens));
    if (metrics->seconds > 0)
        json_object_set_new(json, "seconds", plumb_json_real(metrics->seconds));
    if (metrics->skipped)
        json_object_set_new(json, "skipped", json_true());
    return append_line(run->metrics, "metrics.jsonl", json, why);
}

plumb_status plumb_run_event(plumb_run *run, const char *name, json_t *fields,
                             plumb_error *why)
{
    json_t *json = json_object();

    json_object_set_new(json, "event", json_string(name));
    if (fields != NULL && json_object_update_missing(json, fields) != 0) {
        json_decref(fields);
        json_decref(json);
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "event %s: fields are not an object",
                          name);
    }
    json_decref(fields);
    return append_line(run->events, "events.jsonl", json, why);
}

bool plumb_run_should_stop(const plumb_run *run)
{
    return interrupted != 0 || access(run->stop_path, F_OK) == 0;
}

void plumb_run_interrupt(void)
{
    interrupted = 1;
}

plumb_status plumb_run_end(plumb_run **run, const char *reason, int64_t step,
                           plumb_error *why)
{
    json_t *json = json_object();
    plumb_status status;

    json_object_set_new(json, "reason", json_string(reason));
    json_object_set_new(json, "step", json_integer((json_int_t)step));
    status = save(*run, "end.json", json, why);
    json_decref(json);
    destroy(*run);
    *run = NULL;
    return status;
}
