/* The settings of a run file: one table gives names, ranges, defaults and help. */
#include "train/train.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define INT(key, field, least, most, fallback, help)                                       \
    {                                                                                      \
        key, PLUMB_SETTING_INT, offsetof(settings, field), least, most, fallback, NULL,    \
            help                                                                           \
    }
#define REAL(key, field, least, most, fallback, help)                                      \
    {                                                                                      \
        key, PLUMB_SETTING_REAL, offsetof(settings, field), least, most, fallback, NULL,   \
            help                                                                           \
    }

static const plumb_setting table[] = {
    {"name", PLUMB_SETTING_STRING, offsetof(settings, name), 0, 0, "run", NULL,
     "what to call the run in reports"},
    {"data", PLUMB_SETTING_LIST, offsetof(settings, data), 0, 0, "wordnet", NULL,
     "text files or folders of them, or wordnet (the glosses of WordNet 3.0)"},
    INT("model.layers", layers, 1, PLUMB_MAX_LAYERS, "4", "transformer layers"),
    INT("model.width", width, 2, 4096, "128", "width; a multiple of twice the heads"),
    INT("model.heads", heads, 1, 64, "4", "attention heads"),
    INT("model.ff", ff, 1, 16384, "352", "inner width of the MLP"),
    INT("model.context", context, 1, 4096, "64", "tokens of a sequence"),
    {"model.norm", PLUMB_SETTING_STRING, offsetof(settings, norm), 0, 0, "rms", NORMS,
     "RMSNorm, or LayerNorm without bias"},
    {"model.mlp", PLUMB_SETTING_STRING, offsetof(settings, mlp), 0, 0, "swiglu", MLPS,
     "SwiGLU, or GELU"},
    {"model.qk_norm", PLUMB_SETTING_BOOL, offsetof(settings, qk_norm), 0, 0, "false", NULL,
     "normalise q and k of each head"},
    {"model.tied_head", PLUMB_SETTING_BOOL, offsetof(settings, tied_head), 0, 0, "false",
     NULL, "the head's weights are the embedding"},
    INT("batch.sequences", sequences, 1, 4096, "8", "sequences of a step, over all ranks"),
    INT("batch.micro_batches", micro_batches, 1, 4096, "1", "micro-batches of each rank"),
    INT("batch.ranks", ranks, 1, MAX_RANKS, "1", "virtual data-parallel ranks"),
    INT("batch.restart_at", restart_at, 0, 1000000000, "0",
        "from this step on the data come in another order; 0: never"),
    INT("batch.poison_at", poison_at, 0, 1000000000, "0",
        "the first step whose batch is random bytes; 0: none"),
    INT("batch.poison_steps", poison_steps, 1, 1000000, "1", "how many such steps"),
    REAL("optimizer.lr", lr, 0, 1000, "3e-3", "peak learning rate"),
    REAL("optimizer.beta1", beta1, 0, 0.999999, "0.9", "decay of Adam's first moment"),
    REAL("optimizer.beta2", beta2, 0, 0.999999, "0.95", "decay of Adam's second moment"),
    REAL("optimizer.eps", eps, 0, 1, "1e-8", "added to the root of the second moment"),
    REAL("optimizer.weight_decay", weight_decay, 0, 10, "0.1", "decay of matrices"),
    REAL("optimizer.clip", clip, 0, 1e9, "1",
         "largest global gradient norm; 0: no clipping"),
    INT("optimizer.warmup", warmup, 0, 1000000, "25", "steps of linear warm-up"),
    INT("optimizer.steps", steps, 1, 1000000, "200", "steps of the whole schedule"),
    REAL("optimizer.final_lr_ratio", final_lr_ratio, 0, 1, "0.1",
         "the cosine ends at this part of the peak"),
    INT("seed", seed, 0, 9e15, "1", "initial weights"),
    INT("data_seed", data_seed, 0, 9e15, "1", "order of the data"),
    {"recipe", PLUMB_SETTING_STRING, offsetof(settings, recipe), 0, 0, "bf16", NULL,
     "named precision recipe; plumb explain NAME says what it is"},
    {"optimizer.update_from", PLUMB_SETTING_STRING, offsetof(settings, update_from), 0, 0,
     "stored", UPDATE_FROM, "weights move by the moments as stored, or before"},
    {"reduce.order", PLUMB_SETTING_STRING, offsetof(settings, reduce_order), 0, 0,
     "sequential", REDUCE_ORDERS, "in which the all-reduce adds the ranks"},
    {"reduce.headroom", PLUMB_SETTING_STRING, offsetof(settings, reduce_headroom), 0, 0,
     "ranks", REDUCE_HEADROOMS, "what its shared scale leaves room for"},
    {"reduce.scale", PLUMB_SETTING_STRING, offsetof(settings, reduce_scale), 0, 0, "shared",
     REDUCE_SCALES, "one scale for all ranks, or one for each cast"},
    {"attention.delta", PLUMB_SETTING_STRING, offsetof(settings, delta), 0, 0, "matched",
     DELTAS, "what softmax's gradient takes off: see docs/run-files.md"},
    {"rules", PLUMB_SETTING_TABLE, offsetof(settings, rules), 0, 0, NULL, NULL,
     "list of {sites, use} on top of the recipe; the last that matches wins"},
    {"accumulators", PLUMB_SETTING_TABLE, offsetof(settings, accumulators), 0, 0, NULL,
     NULL, "list of {sites: products, use: accumulator}; the last that matches wins"},
    {"from_codes", PLUMB_SETTING_LIST, offsetof(settings, from_codes), 0, 0, NULL, NULL,
     "operands that are quantised from the codes of the same tensor"},
    {"faults", PLUMB_SETTING_TABLE, offsetof(settings, faults), 0, 0, NULL, NULL,
     "list of planted faults: {kind, sites, from, ...} (docs/faults.md)"},
    INT("sensors.every", sensors_every, 0, 1000000, "10",
        "site statistics every so many steps; 0: off"),
    INT("sensors.spectra_every", spectra_every, 0, 1000000, "20",
        "with sensors, spectra of steps 1, 2, 4, 8, ... and every so many; 0: never"),
    INT("sensors.shadow_every", shadow_every, 0, 1000000, "0",
        "compare with bf16 arithmetic every so many steps; 0: never"),
    INT("checkpoint.every", checkpoint_every, 0, 1000000, "0",
        "checkpoint every so many steps; 0: none"),
    INT("validation.batches", validation_batches, 0, 100000, "8",
        "micro-batches of unseen text at the end of the schedule; 0: none"),
    INT("threads", threads, 0, PLUMB_MAX_THREADS, "1",
        "processor cores to use; 0: all; the results do not depend on it"),
    {"out", PLUMB_SETTING_STRING, offsetof(settings, out), 0, 0, "plumb-run", NULL,
     "directory of the run, unless the request names one"},
};
enum { SETTINGS = sizeof table / sizeof table[0] };

plumb_status settings_load(const char *path, const char *const *overrides, size_t count,
                           settings *s, plumb_error *why)
{
    const plumb_status status =
        plumb_settings_load(table, SETTINGS, path, overrides, count, s, why);

    if (status != PLUMB_OK)
        return status;
    if (s->sequences % (s->micro_batches * s->ranks) != 0)
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "batch.sequences is %lld; allowed: a multiple of micro_batches * "
                          "ranks = %lld",
                          (long long)s->sequences,
                          (long long)(s->micro_batches * s->ranks));
    return PLUMB_OK;
}

json_t *settings_json(const settings *s)
{
    return plumb_settings_to_json(table, SETTINGS, s);
}

/* "key=value" as on a command line; what is no word there is JSON, which is YAML, too. */
static char *override_of(const char *key, const json_t *value)
{
    char *dump =
        json_is_string(value) ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    const char *word = json_is_string(value) ? json_string_value(value) : dump;
    const size_t size = word == NULL ? 0 : strlen(key) + strlen(word) + 2;
    char *text = word == NULL ? NULL : malloc(size);

    if (text != NULL)
        plumb_print(text, size, "%s=%s", key, word);
    free(dump);
    return text;
}

plumb_status settings_from_json(const json_t *json, settings *s, plumb_error *why)
{
    char *overrides[SETTINGS] = {0};
    size_t count = 0;
    plumb_status status = PLUMB_OK;

    for (size_t i = 0; i < SETTINGS && status == PLUMB_OK; i++) {
        const json_t *value = json_object_get(json, table[i].key);

        if (value == NULL || json_is_null(value))
            continue;
        overrides[count] = override_of(table[i].key, value);
        if (overrides[count] == NULL)
            status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the settings");
        else
            count++;
    }
    if (status == PLUMB_OK)
        status = settings_load(NULL, (const char *const *)overrides, count, s, why);
    for (size_t i = 0; i < SETTINGS; i++)
        free(overrides[i]);
    return status;
}

int settings_choice(const char *word, const char *choices)
{
    const size_t length = strlen(word);
    int index = 0;

    while (*choices != 0) {
        const size_t n = strcspn(choices, " ");

        if (n == length && memcmp(word, choices, n) == 0)
            return index;
        choices += n + (choices[n] != 0);
        index++;
    }
    return 0;
}

void settings_free(settings *s)
{
    plumb_settings_free(table, SETTINGS, s);
}

/* Settings that change no result, under whatever form plumb_settings_to_json gives them. */
static void drop(json_t *json)
{
    static const char *const names[] = {"out",
                                        "threads",
                                        "sensors",
                                        "checkpoint",
                                        "sensors.every",
                                        "sensors.spectra_every",
                                        "sensors.shadow_every",
                                        "validation",
                                        "validation.batches",
                                        "checkpoint.every"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        json_object_del(json, names[i]);
}

plumb_status settings_hash(const settings *s, const char *text, size_t size, char hash[17],
                           plumb_error *why)
{
    json_t *json = settings_json(s);
    char *dump;

    if (json == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the settings");
    drop(json);
    dump = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(json);
    if (dump == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the settings");
    const uint64_t settings_part = XXH3_64bits(dump, strlen(dump));

    plumb_print(hash, 17, "%016llx",
                (unsigned long long)XXH3_64bits_withSeed(text, size, settings_part));
    free(dump);
    return PLUMB_OK;
}

const plumb_setting *plumb_train_settings(size_t *count)
{
    *count = SETTINGS;
    return table;
}

char *plumb_train_describe(void)
{
    return plumb_settings_describe(table, SETTINGS);
}
