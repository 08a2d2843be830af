/* Run files: any bytes as YAML, and as the value of an override.  What is accepted must read
 * back from its own manifest as the same.
 */
#include "plumb/file.h"

#include "folder.h"
#include "fuzz.h"

typedef struct run_settings {
    int64_t width, heads;
    double rate;
    bool decay;
    char *kind, *out;
    plumb_strings data;
    json_t *rules;
} run_settings;

static const plumb_setting table[] = {
    {"model.width", PLUMB_SETTING_INT, offsetof(run_settings, width), 8, 1024, "64", NULL,
     ""},
    {"model.heads", PLUMB_SETTING_INT, offsetof(run_settings, heads), 1, 64, "4", NULL, ""},
    {"rate", PLUMB_SETTING_REAL, offsetof(run_settings, rate), 0, 0.5, "0.001", NULL, ""},
    {"decay", PLUMB_SETTING_BOOL, offsetof(run_settings, decay), 0, 0, "true", NULL, ""},
    {"kind", PLUMB_SETTING_STRING, offsetof(run_settings, kind), 0, 0, "a", "a b", ""},
    {"out", PLUMB_SETTING_STRING, offsetof(run_settings, out), 0, 0, NULL, NULL, ""},
    {"data", PLUMB_SETTING_LIST, offsetof(run_settings, data), 0, 0, "[a, b]", NULL, ""},
    {"rules", PLUMB_SETTING_TABLE, offsetof(run_settings, rules), 0, 0, NULL, NULL, ""},
};
enum { COUNT = sizeof table / sizeof table[0] };

static json_t *load(const char *override)
{
    run_settings run = {0};
    plumb_error why = {0};
    const char *path = override == NULL ? scratch_at("run.yaml") : NULL;

    if (plumb_settings_load(table, COUNT, path, &override, override != NULL, &run, &why) !=
        PLUMB_OK) {
        FUZZ_CHECK(why.message[0] != 0);
        return NULL;
    }
    FUZZ_CHECK(run.width >= 8 && run.width <= 1024 && run.rate >= 0 && run.rate <= 0.5);
    json_t *json = plumb_settings_to_json(table, COUNT, &run);
    plumb_settings_free(table, COUNT, &run);
    return json;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char override[4096 + 16];
    static const char *const keys[] = {"data=[", "rules=", "rate=", "model.width=", "out="};
    const char *key = keys[size % 5];
    const size_t length = strlen(key);

    fuzz_file("run.yaml", data, size);
    json_t *json = load(NULL);
    if (json != NULL) {
        char *text = json_dumps(json, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
        fuzz_file("run.yaml", text, strlen(text));
        free(text);
        json_t *again = load(NULL);
        FUZZ_CHECK(again != NULL && json_equal(json, again));
        json_decref(again);
    }
    json_decref(json);
    if (size < 4096) {
        memcpy(override, key, length);
        if (size > 0)
            memcpy(override + length, data, size);
        override[length + size] = 0;
        json_decref(load(override));
    }
    return 0;
}
