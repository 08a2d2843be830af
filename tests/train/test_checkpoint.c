/* Checkpoints: whole or refused.  Cuts and altered bytes in both files: every place near their
 * beginning and end, and in strides between.
 */
#include "run.h"
#include "train/train.h"

static char ref[4200];

static void tiny_settings(const char **at, char data[128])
{
    static const char *const base[] = {
        "model.layers=1",  "model.width=2",     "model.heads=1",     "model.ff=2",
        "model.context=4", "batch.sequences=2", "optimizer.steps=9", "recipe=te-delayed"};

    snprintf(data, 128, "data=%s", test_text);
    for (int i = 0; i < 8; i++)
        at[i] = base[i];
    at[8] = data;
    at[9] = "sensors.every=0";
}

static trainer *make(void)
{
    trainer *t = calloc(1, sizeof *t);
    const char *at[10];
    char data[128];
    plumb_error why = {0};

    tiny_settings(at, data);
    plumb_request_init(&t->request);
    CHECK_OK(settings_load(NULL, at, 10, &t->settings, &why), why);
    CHECK_OK(trainer_create(t, &why), why);
    return t;
}

static void drop(trainer *t)
{
    trainer_free(t);
    free(t);
}

static plumb_status load(trainer *t, const char *from, plumb_error *why)
{
    json_t *converted = NULL;
    const plumb_status status = checkpoint_load(t, from, &converted, why);

    json_decref(converted);
    return status;
}

/* One step, then a checkpoint of it. */
static uint64_t save(void)
{
    trainer *t = make();
    plumb_error why = {0};
    char dir[128];
    static char cwd[4000];
    step_result r = {0};

    snprintf(dir, sizeof dir, "%s/saved", test_root);
    CHECK(plumb_dir_make(dir, NULL) == PLUMB_OK && getcwd(cwd, sizeof cwd) != NULL,
          "no folder");
    CHECK_OK(plumb_run_create(dir, &t->run, &why), why);
    t->run_dir = dir;
    for (t->step = 0; t->step < 2;) {
        batch_fill(t, t->step + 1, &r.batch_hash);
        CHECK_OK(gradient_step(t, t->step + 1, &r, &why), why);
        CHECK_OK(adamw_step(t, t->step + 1, &r, &why), why);
        state_update_scales(t);
        t->step++;
    }
    CHECK_OK(checkpoint_save(t, &why), why);
    CHECK_OK(checkpoint_save(t, &why), why); /* again, over the old one */
    snprintf(ref, sizeof ref, "%s/%s/checkpoints/step-2", cwd, dir);
    const uint64_t hash = state_hash(t);

    /* A policy may part what shares storage, so each site carries its state. */
    for (size_t i = 0; i < t->sites.operands; i++) {
        const size_t owner = plumb_site_owner(&t->shape, t->sites.specs, i);

        CHECK(memcmp(&t->states[i], &t->states[owner], sizeof t->states[i]) == 0,
              "site %zu is not like %zu", i, owner);
    }

    CHECK_OK(plumb_run_end(&t->run, "reached", t->step, &why), why);
    drop(t);
    return hash;
}

/* Each thing that is carried from step to step moves the hash. */
static void sensitivity(void)
{
    trainer *t = make();
    const uint64_t hash = state_hash(t);
    float *const parts[] = {t->weights, t->m, t->v};

    for (int i = 0; i < 3; i++) {
        float *last = parts[i] + t->weight_count - 1;
        const float old = *last;

        *last = old + 1;
        CHECK(state_hash(t) != hash, "part %d is not hashed", i);
        *last = old;
    }
    plumb_scale_state *state = &t->states[t->sites.operands - 1];

    state->scale = 2;
    CHECK(state_hash(t) != hash, "the scale is not hashed");
    state->scale = 1;
    state->history[0] = 3;
    state->count = 1;
    CHECK(state_hash(t) != hash, "the history is not hashed");
    state->count = 0;
    CHECK(state_hash(t) == hash, "the hash is of something else, too");
    drop(t);
    check_done("what the state hash covers");
}

static void round_trip(uint64_t saved)
{
    trainer *t = make();
    plumb_error why = {0};

    CHECK(state_hash(t) != saved, "two steps changed nothing");
    CHECK_OK(load(t, ref, &why), why);
    CHECK(t->step == 2, "step %lld", (long long)t->step);
    CHECK(state_hash(t) == saved, "the state changed on its way through the files");
    CHECK(t->beta1_power == 0.9 * 0.9, "power %.17g", t->beta1_power);
    drop(t);
    check_done("round trip");
}

/* Writes a damaged copy of one file, with the other one whole, and expects a refusal. */
static void damaged(trainer *t, const char *name, const char *data, size_t size, size_t cut,
                    size_t flip)
{
    char copy[4300], path[4400];
    char *bytes = malloc(size + 1);
    plumb_error why = {0};
    FILE *file;

    snprintf(copy, sizeof copy, "%s/damaged", test_root);
    snprintf(path, sizeof path, "%s/%s", copy, name);
    memcpy(bytes, data, size);
    if (flip < size)
        bytes[flip] = (char)(bytes[flip] ^ 0x10);
    file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, cut, file) != cut || fclose(file) != 0)
        exit(2);
    free(bytes);
    const plumb_status status = load(t, copy, &why);

    CHECK(status == PLUMB_BAD_INPUT, "%s cut at %zu of %zu, byte %zu altered: %s", name,
          cut, size, flip, status == PLUMB_OK ? "taken for whole" : why.message);
}

static void tear(const char *name, const char *other)
{
    trainer *t = make();
    char path[4300], from[4300];
    char *data = NULL, *rest = NULL;
    size_t size = 0, rest_size = 0;

    snprintf(path, sizeof path, "%s/damaged", test_root);
    plumb_dir_make(path, NULL);
    snprintf(from, sizeof from, "%s/%s", ref, name);
    CHECK(plumb_file_read(from, 1 << 24, &data, &size, NULL) == PLUMB_OK, "no %s", from);
    snprintf(from, sizeof from, "%s/%s", ref, other);
    CHECK(plumb_file_read(from, 1 << 24, &rest, &rest_size, NULL) == PLUMB_OK, "no %s",
          from);
    snprintf(path, sizeof path, "%s/damaged/%s", test_root, other);
    CHECK(plumb_file_write(path, rest, rest_size, NULL) == PLUMB_OK, "cannot write");
    /* JSON without its last newline is still the whole document. */
    const size_t least = size > 0 && data[size - 1] == '\n' ? size - 1 : size;

    for (size_t cut = 0; cut < least; cut += cut < 100 || cut + 100 > least ? 1 : 97)
        damaged(t, name, data, size, cut, SIZE_MAX);
    for (size_t flip = 0; flip < least; flip += flip < 100 || flip + 100 > least ? 3 : 101)
        damaged(t, name, data, size, size, flip);
    free(data);
    free(rest);
    drop(t);
    check_done(name);
}

static void strangers(void)
{
    trainer *t = make();
    plumb_error why = {0};

    CHECK(load(t, "/nowhere/step-1", &why) == PLUMB_NOT_FOUND, "absent: %s", why.message);
    strcpy(t->config_hash, "0123456789abcdef");
    CHECK(load(t, ref, &why) == PLUMB_BAD_INPUT &&
              strstr(why.message, "configuration") != NULL,
          "another configuration: %s", why.message);
    drop(t);
    check_done("checkpoints that are not this run's");
}

int main(void)
{
    test_begin();
    const uint64_t saved = save();

    round_trip(saved);
    sensitivity();
    tear("state.safetensors", "state.json");
    tear("state.json", "state.safetensors");
    strangers();
    test_end();
    return check_exit();
}
