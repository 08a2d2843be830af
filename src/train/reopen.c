/* The trainer of a checkpoint, made again from nothing but the checkpoint and the text: settings, policy
 * and seeds are in state.json.  It is in the state that a run resumes from; no run is opened, and
 * nothing is written.
 *
 * A checkpoint may come from anywhere: its settings pass the checks of a run file, its text and
 * settings must have the hash that it was written with, and no memory is taken for arrays that its
 * file cannot have, or that this machine cannot give.
 */
#include "train/train.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 4096 };

/* --- where it lies -------------------------------------------------------------------- */

static bool holds(const char *directory, const char *name)
{
    char *path = plumb_path_join(directory, name);
    struct stat info;
    const bool there = path != NULL && stat(path, &info) == 0;

    free(path);
    return there;
}

/* N of "step-N"; -1 for any other name. */
static int64_t step_of(const char *name)
{
    char *end;

    if (strncmp(name, "step-", 5) != 0 || strspn(name + 5, "0123456789") == 0 ||
        strlen(name) > 5 + 10)
        return -1;
    const int64_t step = strtoll(name + 5, &end, 10);

    return *end == 0 ? step : -1;
}

/* The last checkpoint in a directory of them; false if there is none. */
static bool find_last(const char *parent, char ref[PATH])
{
    DIR *directory = opendir(parent);
    int64_t last = -1;

    for (const struct dirent *entry;
         directory != NULL && (entry = readdir(directory)) != NULL;) {
        const int64_t step = step_of(entry->d_name);

        last = step > last ? step : last;
    }
    if (directory != NULL)
        closedir(directory);
    if (last >= 0)
        plumb_print(ref, PATH, "%s/step-%lld", parent, (long long)last);
    return last >= 0;
}

static plumb_status find(const char *path, char ref[PATH], plumb_error *why)
{
    struct stat info;
    char parent[PATH];
    size_t length = strlen(path);

    while (length > 1 && path[length - 1] == '/')
        length--;
    if (length >= PATH - 40)
        return plumb_fail(why, PLUMB_BAD_INPUT, "a path of over %d bytes", PATH - 40);
    plumb_print(ref, PATH, "%.*s", (int)length, path);
    if (stat(ref, &info) != 0)
        return plumb_fail(why, PLUMB_NOT_FOUND, "'%s' does not exist", path);
    if (!S_ISDIR(info.st_mode)) {
        char *slash = strrchr(ref, '/');

        plumb_print(slash == NULL ? ref : slash, 2, slash == NULL ? "." : "");
        if (slash == ref)
            plumb_print(ref, PATH, "/");
        return holds(ref, "state.json")
                   ? PLUMB_OK
                   : plumb_fail(why, PLUMB_BAD_INPUT,
                                "'%s' is no file of a checkpoint: no state.json beside it",
                                path);
    }
    if (holds(ref, "state.json"))
        return PLUMB_OK;
    plumb_print(parent, sizeof parent, "%.*s/checkpoints", PATH - 40, ref);
    if (find_last(parent, ref) || find_last(path, ref))
        return PLUMB_OK;
    return plumb_fail(why, PLUMB_BAD_INPUT,
                      "'%s' is no checkpoint and holds none; plumb train writes some with "
                      "--set checkpoint.every=N",
                      path);
}

/* --- what it is of -------------------------------------------------------------------- */

static bool read_number(const json_t *run, const char *key, uint64_t *value)
{
    const json_t *number = json_object_get(run, key);

    if (!json_is_integer(number))
        return false;
    *value = (uint64_t)json_integer_value(number);
    return true;
}

static plumb_status read_request(const json_t *run, trainer *t, plumb_error *why)
{
    plumb_request *r = &t->request;
    const json_t *skip = json_object_get(run, "skip");

    r->has_seed = read_number(run, "seed", &r->seed);
    r->has_data_seed = read_number(run, "data_seed", &r->data_seed);
    r->has_micro_order = read_number(run, "micro_order", &r->micro_order);
    if (json_array_size(skip) == 2)
        r->skip = (plumb_span){json_integer_value(json_array_get(skip, 0)),
                               json_integer_value(json_array_get(skip, 1))};
    return plumb_rules_from_json(json_object_get(run, "policy"), "policy", &t->policy, why);
}

static plumb_status read_run(const char *ref, const json_t *note, trainer *t,
                             plumb_error *why)
{
    const json_t *run = json_object_get(note, "run");
    plumb_error cause = {0};
    plumb_status status;

    if (!json_is_object(json_object_get(run, "settings")))
        return plumb_fail(why, PLUMB_UNSUPPORTED,
                          "checkpoint '%s' does not say what run it is of: an older plumb "
                          "wrote it",
                          ref);
    status = settings_from_json(json_object_get(run, "settings"), &t->settings, &cause);
    if (status == PLUMB_OK)
        status = read_request(run, t, &cause);
    if (status != PLUMB_OK)
        return plumb_fail(why, status, "checkpoint '%s': %.300s", ref, cause.message);
    t->settings.sensors_every = 0;
    t->settings.shadow_every = 0;
    return PLUMB_OK;
}

/* --- what it takes -------------------------------------------------------------------- */

static plumb_status check_sizes(trainer *t, const char *ref, plumb_error *why)
{
    char *path = plumb_path_join(ref, "state.safetensors");
    struct stat info;
    plumb_memory memory;
    double need = 0;
    const double has = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const bool there = path != NULL && stat(path, &info) == 0;
    plumb_status status;

    free(path);
    if (!there || (size_t)info.st_size / (3 * sizeof(float)) < t->weight_count)
        return plumb_fail(
            why, PLUMB_BAD_INPUT, "checkpoint '%s': state.safetensors %s", ref,
            there ? "is too short for its weights and moments" : "is missing");
    status = trainer_need(t, &memory, why);
    for (size_t use = 0; use < PLUMB_MEMORY_USES; use++)
        need += (double)memory.bytes[use];
    if (status == PLUMB_OK && need > has)
        status = plumb_fail(why, PLUMB_NO_MEMORY,
                            "checkpoint '%s': its run takes %.3g GB; this machine has %.3g",
                            ref, 1e-9 * need, 1e-9 * has);
    return status;
}

plumb_status trainer_reopen(trainer *t, const char *path, char ref[PATH], plumb_error *why)
{
    json_t *note = NULL, *converted = NULL;
    plumb_status status = find(path, ref, why);

    if (status == PLUMB_OK)
        status = checkpoint_note(ref, &note, why);
    if (status == PLUMB_OK)
        status = read_run(ref, note, t, why);
    if (status == PLUMB_OK)
        status = trainer_prepare(t, why);
    if (status == PLUMB_OK)
        status = check_sizes(t, ref, why);
    if (status == PLUMB_OK)
        status = trainer_take(t, why);
    if (status == PLUMB_OK)
        status = checkpoint_load(t, ref, &converted, why);
    json_decref(note);
    json_decref(converted);
    return status;
}
