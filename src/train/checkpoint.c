/* Checkpoints: DIR/step-N/ with
 *
 *   state.safetensors  weights/NAME, m/NAME, v/NAME, scale/SITE (scale, pending, history), and what
 *                      planted faults carry over
 *   state.json         step, config_hash, bytes and xxh3 of state.safetensors, what the moments
 *                      were stored in, the run (settings, policy, seeds), and a hash of all that
 *
 * The directory is written under another name, synced and renamed, so it is whole or absent;
 * a reader checks size and hash, so one that was cut or altered later is refused.
 */
/* realpath */
#define _XOPEN_SOURCE 700

#include "train/train.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "file/whole.h"

static const char state_file[] = "state.safetensors", note_file[] = "state.json";
enum { NAME = FAULT_NAME, SCALE_HEAD = 2 };

/* What planted faults carry over; a run without them has none. */
static size_t kept_count(const trainer *t)
{
    char name[FAULT_NAME];
    unsigned char *data;
    size_t count = 0, bytes;

    while (faults_kept(t, count, name, &data, &bytes))
        count++;
    return count;
}

static size_t tensor_count(const trainer *t)
{
    return 3 * t->parameter_count + t->sites.operands + kept_count(t);
}

/* --- writing ---------------------------------------------------------------------------- */

/* Names and packed scale states that the views point to. */
typedef struct packed {
    plumb_named_view *views;
    char (*names)[NAME];
    float *scales;
} packed;

static void packed_free(packed *p)
{
    free(p->views);
    free(p->names);
    free(p->scales);
}

static void parameter_name(char name[NAME], size_t which, const plumb_parameter *p)
{
    static const char *const kinds[] = {"weights", "m", "v"};

    plumb_print(name, NAME, "%s/%s", kinds[which], p->name);
}

static float *parameter_data(const trainer *t, size_t which)
{
    float *const data[] = {t->weights, t->m, t->v};

    return data[which];
}

static void pack_parameters(const trainer *t, packed *p, size_t *count)
{
    for (size_t which = 0; which < 3; which++) {
        for (size_t i = 0; i < t->parameter_count; i++, ++*count) {
            const plumb_parameter *q = &t->parameters[i];

            parameter_name(p->names[*count], which, q);
            p->views[*count] =
                (plumb_named_view){.name = p->names[*count],
                                   .view = {.data = parameter_data(t, which) + q->offset,
                                            .type = PLUMB_TYPE_F32,
                                            .ndim = 2,
                                            .shape = {q->rows, q->cols}}};
        }
    }
}

static void pack_scales(const trainer *t, packed *p, size_t *count)
{
    float *at = p->scales;

    for (size_t i = 0; i < t->sites.operands; i++, ++*count) {
        const plumb_scale_state *s = &t->states[i];
        const size_t n = SCALE_HEAD + (size_t)s->count;

        at[0] = s->scale;
        at[1] = s->pending;
        memcpy(at + SCALE_HEAD, s->history, (size_t)s->count * sizeof *at);
        plumb_print(p->names[*count], NAME, "scale/%s", t->sites.at[i].name);
        p->views[*count] = (plumb_named_view){
            .name = p->names[*count],
            .view = {.data = at, .type = PLUMB_TYPE_F32, .ndim = 1, .shape = {n}}};
        at += n;
    }
}

static void pack_kept(const trainer *t, packed *p, size_t *count)
{
    unsigned char *data;
    size_t bytes;

    for (size_t i = 0; faults_kept(t, i, p->names[*count], &data, &bytes); i++, ++*count)
        p->views[*count] = (plumb_named_view){
            .name = p->names[*count],
            .view = {.data = data, .type = PLUMB_TYPE_U8, .ndim = 1, .shape = {bytes}}};
}

static plumb_status pack(const trainer *t, packed *p, plumb_error *why)
{
    size_t count = 0;

    p->views = calloc(tensor_count(t), sizeof *p->views);
    p->names = calloc(tensor_count(t) + 1, sizeof *p->names);
    p->scales =
        calloc(t->sites.operands * (SCALE_HEAD + PLUMB_MAX_HISTORY), sizeof *p->scales);
    if (p->views == NULL || p->names == NULL || p->scales == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a checkpoint");
    pack_parameters(t, p, &count);
    pack_scales(t, p, &count);
    pack_kept(t, p, &count);
    return PLUMB_OK;
}

static void hash_text(const char *data, size_t size, char hash[17])
{
    plumb_print(hash, 17, "%016llx", (unsigned long long)XXH3_64bits(data, size));
}

/* What a run carries over in a format of its own. */
enum { STORED = 3 };
static const size_t stored[STORED] = {STATE_M, STATE_V, STATE_MASTER};

static json_t *moment_specs(const trainer *t)
{
    json_t *specs = json_object();

    for (size_t i = 0; i < t->parameter_count; i++) {
        for (size_t j = 0; j < STORED; j++) {
            const site *s = &t->sites.at[parameter_site(&t->sites, i, stored[j])];
            char text[PLUMB_SPEC_TEXT];

            plumb_spec_print(&s->effective, text);
            json_object_set_new(specs, s->name, json_string(text));
        }
    }
    return specs;
}

/* Hash of the note's fields, less the hash itself, in an order of its own. */
static bool hash_note(const json_t *note, char hash[17])
{
    json_t *rest = json_copy((json_t *)(uintptr_t)note);
    char *dump;

    json_object_del(rest, "self");
    dump = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(rest);
    if (dump == NULL)
        return false;
    hash_text(dump, strlen(dump), hash);
    free(dump);
    return true;
}

/* Hash and size of a file, read a piece at a time: it may be as large as the trainer. */
static plumb_status hash_file(const char *path, char hash[17], size_t *bytes,
                              plumb_error *why)
{
    char piece[1 << 16];
    XXH3_state_t state;
    size_t size, got = sizeof piece;
    int fd;
    plumb_status status = plumb_file_open(path, &fd, &size, why);

    if (status != PLUMB_OK)
        return status;
    XXH3_64bits_reset(&state);
    for (*bytes = 0; status == PLUMB_OK && got == sizeof piece; *bytes += got) {
        status = plumb_file_pread(fd, path, piece, sizeof piece, *bytes, &got, why);
        XXH3_64bits_update(&state, piece, got);
    }
    close(fd);
    plumb_print(hash, 17, "%016llx", (unsigned long long)XXH3_64bits_digest(&state));
    return status;
}

/* What run this is of, for who has nothing but the checkpoint (reopen.c). */
static json_t *run_note(const trainer *t)
{
    const plumb_request *r = &t->request;
    json_t *run = json_pack("{s:o, s:o}", "settings", settings_json(&t->settings), "policy",
                            plumb_rules_to_json(&t->policy));

    if (r->has_seed)
        json_object_set_new(run, "seed", json_integer((json_int_t)r->seed));
    if (r->has_data_seed)
        json_object_set_new(run, "data_seed", json_integer((json_int_t)r->data_seed));
    if (r->has_micro_order)
        json_object_set_new(run, "micro_order", json_integer((json_int_t)r->micro_order));
    if (r->skip.first > 0)
        json_object_set_new(
            run, "skip",
            json_pack("[I, I]", (json_int_t)r->skip.first, (json_int_t)r->skip.last));
    return run;
}

static json_t *make_note(const trainer *t, const char *hash, size_t bytes)
{
    char self[17];
    json_t *note;

    note = json_pack("{s:s, s:I, s:s, s:I, s:s, s:o, s:o}", "plumb", plumb_build_id(),
                     "step", (json_int_t)t->step, "config_hash", t->config_hash, "bytes",
                     (json_int_t)bytes, "xxh3", hash, "moments", moment_specs(t), "run",
                     run_note(t));
    if (note != NULL && hash_note(note, self))
        json_object_set_new(note, "self", json_string(self));
    return note;
}

/* Written last: its hash is of the bytes that the file system gives back. */
static plumb_status write_note(const trainer *t, const char *directory, size_t *bytes,
                               plumb_error *why)
{
    char *path = plumb_path_join(directory, state_file);
    char *note_path = plumb_path_join(directory, note_file);
    char hash[17];
    json_t *note = NULL;
    plumb_status status = PLUMB_NO_MEMORY;

    if (path == NULL || note_path == NULL) {
        plumb_fail(why, status, "no memory for a path");
        goto done;
    }
    status = hash_file(path, hash, bytes, why);
    if (status != PLUMB_OK)
        goto done;
    note = make_note(t, hash, *bytes);
    status = note == NULL ? plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %s", note_file)
                          : plumb_json_save(note_path, note, why);
done:
    json_decref(note);
    free(path);
    free(note_path);
    return status;
}

static plumb_status write_state(const trainer *t, const char *directory, plumb_error *why)
{
    char *path = plumb_path_join(directory, state_file);
    packed p = {0};
    plumb_status status =
        path == NULL ? plumb_fail(why, PLUMB_NO_MEMORY, "no memory") : pack(t, &p, why);

    if (status == PLUMB_OK)
        status = plumb_safetensors_save(path, p.views, tensor_count(t), NULL, why);
    packed_free(&p);
    free(path);
    return status;
}

static plumb_status sync_directory(const char *path, plumb_error *why)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool synced = fd >= 0 && fsync(fd) == 0;

    if (fd >= 0)
        close(fd);
    return synced
               ? PLUMB_OK
               : plumb_fail(why, PLUMB_IO, "cannot sync '%s': %s", path, strerror(errno));
}

static plumb_status write_directory(trainer *t, const char *parent, const char *hidden,
                                    const char *final, size_t *bytes, plumb_error *why)
{
    plumb_status status = plumb_dir_remove(hidden, why);

    if (status == PLUMB_OK)
        status = plumb_dir_remove(final, why);
    if (status == PLUMB_OK)
        status = plumb_dir_make(hidden, why);
    if (status == PLUMB_OK)
        status = write_state(t, hidden, why);
    if (status == PLUMB_OK)
        status = write_note(t, hidden, bytes, why);
    if (status == PLUMB_OK)
        status = sync_directory(hidden, why);
    if (status == PLUMB_OK && rename(hidden, final) != 0)
        status = plumb_fail(why, PLUMB_IO, "cannot rename '%s' to '%s': %s", hidden, final,
                            strerror(errno));
    return status == PLUMB_OK ? sync_directory(parent, why) : status;
}

plumb_status checkpoint_save(trainer *t, plumb_error *why)
{
    char *root = realpath(t->run_dir, NULL);
    char *parent = root == NULL ? NULL : plumb_path_join(root, "checkpoints");
    char hidden_name[40], final_name[40], *hidden = NULL, *final = NULL;
    size_t bytes = 0;
    plumb_status status = PLUMB_IO;

    plumb_print(hidden_name, sizeof hidden_name, ".step-%lld", (long long)t->step);
    plumb_print(final_name, sizeof final_name, "step-%lld", (long long)t->step);
    if (parent != NULL) {
        hidden = plumb_path_join(parent, hidden_name);
        final = plumb_path_join(parent, final_name);
    }
    if (hidden == NULL || final == NULL)
        plumb_fail(why, status, "no path for a checkpoint in '%s'", t->run_dir);
    else
        status = write_directory(t, parent, hidden, final, &bytes, why);
    if (status == PLUMB_OK)
        status = plumb_run_event(t->run, "checkpoint",
                                 json_pack("{s:I, s:s, s:I}", "step", (json_int_t)t->step,
                                           "ref", final, "bytes", (json_int_t)bytes),
                                 why);
    free(root);
    free(parent);
    free(hidden);
    free(final);
    return status;
}

/* --- reading ------------------------------------------------------------------------------ */

static plumb_status refuse(plumb_error *why, const char *ref, const char *what)
{
    return plumb_fail(why, PLUMB_BAD_INPUT, "checkpoint '%s': %s", ref, what);
}

static plumb_status check_note(const char *ref, const json_t *note, plumb_error *why)
{
    const char *config = json_string_value(json_object_get(note, "config_hash"));
    const char *self = json_string_value(json_object_get(note, "self"));
    const json_t *step = json_object_get(note, "step");
    char hash[17];

    if (self == NULL || !hash_note(note, hash) || strcmp(self, hash) != 0)
        return refuse(why, ref, "state.json is torn or altered (its hash differs)");
    if (config == NULL || !json_is_integer(step) || json_integer_value(step) < 0 ||
        json_integer_value(step) > 1000000000 ||
        !json_is_string(json_object_get(note, "xxh3")) ||
        !json_is_object(json_object_get(note, "moments")))
        return refuse(why, ref, "state.json lacks step, config_hash, xxh3 or moments");
    return PLUMB_OK;
}

plumb_status checkpoint_note(const char *ref, json_t **note, plumb_error *why)
{
    enum { NOTE_LIMIT = 1 << 22 };
    char *path = plumb_path_join(ref, note_file);
    plumb_status status =
        path == NULL ? plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a checkpoint")
                     : plumb_json_load(path, NOTE_LIMIT, note, why);

    free(path);
    return status == PLUMB_OK ? check_note(ref, *note, why) : status;
}

static plumb_status check_configuration(const trainer *t, const char *ref,
                                        const json_t *note, plumb_error *why)
{
    const char *config = json_string_value(json_object_get(note, "config_hash"));

    if (strcmp(config, t->config_hash) != 0)
        return plumb_fail(
            why, PLUMB_BAD_INPUT,
            "checkpoint '%s' belongs to another configuration or text (%s, not "
            "%s)",
            ref, config, t->config_hash);
    return PLUMB_OK;
}

/* The bytes of the state must be those that were written. */
static plumb_status check_hash(const char *ref, const char *path, const json_t *note,
                               plumb_error *why)
{
    char hash[17];
    size_t size = 0;
    const plumb_status status = hash_file(path, hash, &size, why);

    if (status != PLUMB_OK)
        return status;
    if ((json_int_t)size != json_integer_value(json_object_get(note, "bytes")) ||
        strcmp(hash, json_string_value(json_object_get(note, "xxh3"))) != 0)
        return refuse(why, ref, "state.safetensors is torn or altered (its hash differs)");
    return PLUMB_OK;
}

static plumb_status read_parameters(trainer *t, const plumb_safetensors *file,
                                    const char *ref, plumb_error *why)
{
    for (size_t which = 0; which < 3; which++) {
        for (size_t i = 0; i < t->parameter_count; i++) {
            const plumb_parameter *p = &t->parameters[i];
            const plumb_named_view *found;
            char name[NAME];

            parameter_name(name, which, p);
            found = plumb_safetensors_find(file, name);
            if (found == NULL || found->view.type != PLUMB_TYPE_F32 ||
                found->view.ndim != 2 || found->view.shape[0] != p->rows ||
                found->view.shape[1] != p->cols)
                return refuse(why, ref, "a tensor is missing or has another shape");
            memcpy(parameter_data(t, which) + p->offset, found->view.data,
                   p->rows * p->cols * sizeof(float));
            plumb_safetensors_forget(file, found); /* or all would be in memory twice */
        }
    }
    return PLUMB_OK;
}

static plumb_status read_scales(trainer *t, const plumb_safetensors *file, const char *ref,
                                plumb_error *why)
{
    for (size_t i = 0; i < t->sites.operands; i++) {
        const plumb_named_view *found;
        char name[NAME];
        float head[SCALE_HEAD];

        plumb_print(name, NAME, "scale/%s", t->sites.at[i].name);
        found = plumb_safetensors_find(file, name);
        if (found == NULL || found->view.type != PLUMB_TYPE_F32 || found->view.ndim != 1 ||
            found->view.shape[0] < SCALE_HEAD ||
            found->view.shape[0] > SCALE_HEAD + PLUMB_MAX_HISTORY)
            return refuse(why, ref, "a scale state is missing or has another shape");
        const size_t count = found->view.shape[0] - SCALE_HEAD;
        const unsigned char *data = found->view.data;

        memcpy(head, data, sizeof head);
        plumb_scale_state_init(&t->states[i]);
        t->states[i].scale = head[0];
        t->states[i].pending = head[1];
        t->states[i].count = (int)count;
        memcpy(t->states[i].history, data + sizeof head, count * sizeof(float));
    }
    return PLUMB_OK;
}

/* Moments and weights that were stored in another format are stored anew; returns their sites. */
static plumb_status convert(trainer *t, const json_t *moments, json_t *converted,
                            plumb_error *why)
{
    for (size_t i = 0; i < t->parameter_count; i++) {
        for (size_t j = 0; j < STORED; j++) {
            const site *s = &t->sites.at[parameter_site(&t->sites, i, stored[j])];
            const char *from = json_string_value(json_object_get(moments, s->name));
            char to[PLUMB_SPEC_TEXT];
            plumb_quantized q;
            plumb_status status = PLUMB_OK;

            plumb_spec_print(&s->effective, to);
            if (from != NULL && strcmp(from, to) == 0)
                continue;
            if (s->effective.format != PLUMB_FP32)
                status = adamw_store(t, i, stored[j], t->step, NULL, &q, why);
            if (status != PLUMB_OK)
                return status;
            json_array_append_new(converted, json_pack("{s:s, s:s?, s:s}", "site", s->name,
                                                       "from", from, "to", to));
        }
    }
    return PLUMB_OK;
}

/* Where the policy has changed, a fault may keep other bytes, or what it kept may be missing: then it
 * begins anew.
 */
static void read_kept(trainer *t, const plumb_safetensors *file)
{
    char name[FAULT_NAME];
    unsigned char *data;
    size_t bytes;

    for (size_t i = 0; faults_kept(t, i, name, &data, &bytes); i++) {
        const plumb_named_view *found = plumb_safetensors_find(file, name);

        if (found != NULL && found->view.type == PLUMB_TYPE_U8 && found->view.ndim == 1 &&
            found->view.shape[0] == bytes)
            memcpy(data, found->view.data, bytes);
    }
}

static plumb_status read_state(trainer *t, const char *ref, const char *path,
                               const json_t *note, plumb_error *why)
{
    plumb_safetensors *file = NULL;
    plumb_status status = check_hash(ref, path, note, why);

    if (status == PLUMB_OK)
        status = plumb_safetensors_open(path, &file, why);
    if (status != PLUMB_OK)
        return status;
    if (plumb_safetensors_count(file) != tensor_count(t) && t->faults.count == 0)
        status = refuse(why, ref, "the number of tensors differs");
    if (status == PLUMB_OK)
        status = read_parameters(t, file, ref, why);
    if (status == PLUMB_OK)
        status = read_scales(t, file, ref, why);
    if (status == PLUMB_OK)
        read_kept(t, file);
    plumb_safetensors_close(&file);
    return status;
}

/* The powers are what the running products would be. */
static void restore_powers(trainer *t)
{
    t->beta1_power = t->beta2_power = 1;
    for (int64_t i = 0; i < t->step; i++) {
        t->beta1_power *= t->settings.beta1;
        t->beta2_power *= t->settings.beta2;
    }
}

plumb_status checkpoint_load(trainer *t, const char *ref, json_t **converted,
                             plumb_error *why)
{
    char *state_path = plumb_path_join(ref, state_file);
    json_t *note = NULL;
    plumb_status status = PLUMB_NO_MEMORY;

    *converted = json_array();
    if (state_path == NULL || *converted == NULL) {
        plumb_fail(why, status, "no memory for a checkpoint");
        goto done;
    }
    status = checkpoint_note(ref, &note, why);
    if (status == PLUMB_OK)
        status = check_configuration(t, ref, note, why);
    if (status == PLUMB_OK)
        status = read_state(t, ref, state_path, note, why);
    if (status != PLUMB_OK)
        goto done;
    t->step = json_integer_value(json_object_get(note, "step"));
    restore_powers(t);
    status = convert(t, json_object_get(note, "moments"), *converted, why);
done:
    json_decref(note);
    free(state_path);
    return status;
}
