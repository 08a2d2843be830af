/* Checkpoints from anywhere: notes whose own hash is right and whose content is not, as only somebody
 * who means harm writes them, are refused in a sentence before memory is taken for them.
 */
#include "run.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static char ref[300];
static plumb_eval seen; /* too large for a stack */

static plumb_status look(plumb_error *why)
{
    static const char *const in[] = {"own", "bf16"};
    const plumb_eval_request request = {.path = ref, .in = in, .in_count = 2, .batches = 4};

    *why = (plumb_error){0};
    return plumb_train_eval(&request, &seen, why);
}

/* The note with one field replaced and its hash made anew; path apart by '/'. */
static void forge(const json_t *note, const char *path, json_t *value)
{
    json_t *copy = json_deep_copy(note), *at = copy;
    char words[128], hash[17], file[400];
    char *word, *next;

    snprintf(words, sizeof words, "%s", path);
    for (word = strtok(words, "/"); (next = strtok(NULL, "/")) != NULL; word = next)
        at = json_object_get(at, word);
    if (value == NULL)
        json_object_del(at, word);
    else
        json_object_set_new(at, word, value);
    json_object_del(copy, "self");
    char *dump = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS);

    snprintf(hash, sizeof hash, "%016llx",
             (unsigned long long)XXH3_64bits(dump, strlen(dump)));
    free(dump);
    json_object_set_new(copy, "self", json_string(hash));
    snprintf(file, sizeof file, "%s/state.json", ref);
    CHECK(plumb_json_save(file, copy, NULL) == PLUMB_OK, "cannot write %s", file);
    json_decref(copy);
}

static json_t *checkpoint(void)
{
    test_run r = test_request();
    char file[400];
    json_t *note = NULL;
    plumb_error why;

    r.request.checkpoint_at = malloc(sizeof(int64_t));
    r.request.checkpoint_at[0] = r.request.stop_at;
    r.request.checkpoint_count = 1;
    r.request.has_seed = true;
    r.request.seed = UINT64_MAX; /* does it come back? */
    test_go(&r, NULL, "recipe=te-delayed");
    snprintf(ref, sizeof ref, "%s/checkpoints/step-8", r.dir);
    snprintf(file, sizeof file, "%s/state.json", ref);
    CHECK(plumb_json_load(file, 1 << 22, &note, NULL) == PLUMB_OK, "no note");
    CHECK(look(&why) == PLUMB_OK && seen.step == 8 && seen.verdict == PLUMB_EVAL_SAME &&
              isfinite(seen.arm[0].loss),
          "the checkpoint itself: %s", why.message);
    test_free(&r);
    return note;
}

static void forged(const json_t *note)
{
    const struct {
        const char *path, *said;
        json_t *value;
    } cases[] = {
        {"run", "does not say what run it is of", NULL},
        {"run/settings", "does not say what run it is of", json_integer(3)},
        {"run/settings/model.width", "too short for its weights", json_integer(4096)},
        {"run/settings/model.layers", "model.layers is 65", json_integer(65)},
        {"run/settings/model.heads", "model.heads is '[2]'", json_pack("[i]", 2)},
        {"run/settings/model.context", "this machine has", json_integer(4096)},
        {"run/settings/optimizer.lr", "another configuration", json_real(0.5)},
        {"run/settings/recipe", "recipe is 'x'", json_string("x")},
        {"run/settings/rules", "must be a list", json_string("x")},
        {"run/settings/faults", "faults[0].kind", json_pack("[{s:s}]", "kind", "x")},
        {"run/settings/data", "does not exist", json_pack("[s]", "/nowhere/text")},
        {"run/policy", "policy", json_integer(3)},
        {"step", "state.json lacks step", json_integer(-1)},
        {"moments", "state.json lacks", json_null()},
        {"config_hash", "another configuration", json_string("0123456789abcdef")},
        {"xxh3", "torn or altered", json_string("0123456789abcdef")},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plumb_error why;

        forge(note, cases[i].path, cases[i].value);
        if (strcmp(cases[i].path, "run/settings/model.context") == 0) {
            /* Much memory for few weights: sequences as well. */
            json_t *wide = json_deep_copy(note);
            json_t *settings = json_object_get(json_object_get(wide, "run"), "settings");

            json_object_set_new(settings, "batch.sequences", json_integer(4096));
            forge(wide, cases[i].path, json_integer(1024));
            json_decref(wide);
        }
        const plumb_status status = look(&why);

        CHECK(status != PLUMB_OK && strstr(why.message, cases[i].said) != NULL,
              "%s: status %d: %s", cases[i].path, (int)status, why.message);
    }
    check_done("forged notes");
}

int main(void)
{
    test_begin();
    json_t *note = checkpoint();

    check_done("a checkpoint by itself");
    if (note != NULL)
        forged(note);
    json_decref(note);
    test_end();
    return check_exit();
}
