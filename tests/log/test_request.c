/* The request from both sources, its limits, and the three ways in which it goes out. */
#include "plumb/log.h"

#include "check.h"
#include "file/scratch.h"

static const char *const names[] = {
    "PLUMB_RUN_DIR",       "PLUMB_SEED",         "PLUMB_DATA_SEED",  "PLUMB_MICRO_ORDER",
    "PLUMB_STOP_AT",       "PLUMB_POLICY",       "PLUMB_START",      "PLUMB_CHECKPOINT_AT",
    "PLUMB_LR_SCALE",      "PLUMB_WARMUP_SCALE", "PLUMB_CLIP_SCALE", "PLUMB_SKIP",
    "PLUMB_OBSERVE_EVERY",
};

static void clear(void)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
}

static void unset(void)
{
    plumb_request request;
    plumb_error why = {0};

    clear();
    setenv("PLUMB_SEED", "", 1); /* empty is unset */
    CHECK_OK(plumb_request_read(&request, &why), why);
    CHECK(request.run_dir == NULL && !request.has_seed && !request.has_data_seed &&
              !request.has_micro_order && request.stop_at == -1 && request.policy == NULL &&
              request.start == NULL && request.checkpoint_count == 0 &&
              request.lr_scale == 1 && request.warmup_scale == 1 &&
              request.clip_scale == 1 && request.skip.first == 0 &&
              request.observe_every == 0,
          "something is set");
    plumb_request_free(&request);
    check_done("nothing set");
}

static void environment(void)
{
    plumb_request request;
    plumb_error why = {0};

    clear();
    setenv("PLUMB_SEED", "18446744073709551615", 1);
    setenv("PLUMB_DATA_SEED", "0", 1);
    setenv("PLUMB_MICRO_ORDER", "7", 1);
    setenv("PLUMB_STOP_AT", "0", 1);
    setenv("PLUMB_POLICY", "/p q", 1);
    setenv("PLUMB_START", "ck:1", 1);
    setenv("PLUMB_CHECKPOINT_AT", "100,5,7", 1);
    setenv("PLUMB_LR_SCALE", "0.5", 1);
    setenv("PLUMB_WARMUP_SCALE", "2", 1);
    setenv("PLUMB_CLIP_SCALE", "1e-1", 1);
    setenv("PLUMB_SKIP", "70-72", 1);
    setenv("PLUMB_OBSERVE_EVERY", "10", 1);
    CHECK_OK(plumb_request_read(&request, &why), why);
    CHECK(request.has_seed && request.seed == UINT64_MAX, "seed");
    CHECK(request.has_data_seed && request.data_seed == 0, "data seed");
    CHECK(request.has_micro_order && request.micro_order == 7, "micro order");
    CHECK(request.stop_at == 0, "stop at");
    CHECK(strcmp(request.policy, "/p q") == 0 && strcmp(request.start, "ck:1") == 0,
          "paths");
    CHECK(request.checkpoint_count == 3 && request.checkpoint_at[0] == 100 &&
              request.checkpoint_at[1] == 5 && request.checkpoint_at[2] == 7,
          "checkpoints");
    CHECK(request.lr_scale == 0.5 && request.warmup_scale == 2 && request.clip_scale == 0.1,
          "scales");
    CHECK(request.skip.first == 70 && request.skip.last == 72, "skip");
    CHECK(request.observe_every == 10, "observe");
    plumb_request_free(&request);
    check_done("environment");
}

static const struct {
    const char *name, *value;
} bad[] = {
    {"PLUMB_SEED", "-1"},
    {"PLUMB_SEED", "1.5"},
    {"PLUMB_SEED", "18446744073709551616"},
    {"PLUMB_SEED", "0x10"},
    {"PLUMB_DATA_SEED", "a"},
    {"PLUMB_MICRO_ORDER", " 1"},
    {"PLUMB_STOP_AT", "-1"},
    {"PLUMB_STOP_AT", "10 "},
    {"PLUMB_STOP_AT", "99999999999999999999"},
    {"PLUMB_POLICY", "relative/path"},
    {"PLUMB_CHECKPOINT_AT", "1,,2"},
    {"PLUMB_CHECKPOINT_AT", "1,"},
    {"PLUMB_CHECKPOINT_AT", "0"},
    {"PLUMB_LR_SCALE", "0"},
    {"PLUMB_LR_SCALE", "-1"},
    {"PLUMB_LR_SCALE", "nan"},
    {"PLUMB_WARMUP_SCALE", "inf"},
    {"PLUMB_CLIP_SCALE", "1e7"},
    {"PLUMB_SKIP", "0"},
    {"PLUMB_SKIP", "-5"},
    {"PLUMB_SKIP", "7-6"},
    {"PLUMB_SKIP", "7-"},
    {"PLUMB_OBSERVE_EVERY", "-1"},
};

static void refused(void)
{
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        plumb_request request;
        plumb_error why = {0};
        char quoted[64];

        clear();
        setenv(bad[i].name, bad[i].value, 1);
        snprintf(quoted, sizeof quoted, "%s is '%s'; allowed: ", bad[i].name, bad[i].value);
        CHECK(plumb_request_read(&request, &why) == PLUMB_BAD_INPUT &&
                  strncmp(why.message, quoted, strlen(quoted)) == 0,
              "%s=%s: '%s'", bad[i].name, bad[i].value, why.message);
    }
    check_done("values refused");
}

static void file_wins(void)
{
    plumb_request request;
    plumb_error why = {0};

    clear();
    scratch_folder("run");
    scratch_text("run/request.json",
                 "{\"contract\":1,\"run_dir\":\"/elsewhere\",\"seed\":3,"
                 "\"data_seed\":\"18446744073709551615\",\"checkpoint_at\":[4,2],"
                 "\"lr_scale\":0.25,\"skip\":70,\"start\":null,\"unknown\":[1]}");
    setenv("PLUMB_RUN_DIR", scratch_at("run"), 1);
    setenv("PLUMB_SEED", "9", 1);
    setenv("PLUMB_OBSERVE_EVERY", "rubbish of an outer run", 1);
    CHECK_OK(plumb_request_read(&request, &why), why);
    CHECK(strcmp(request.run_dir, scratch_at("run")) == 0, "run_dir %s", request.run_dir);
    CHECK(request.seed == 3 && request.data_seed == UINT64_MAX, "seeds");
    CHECK(request.checkpoint_count == 2 && request.checkpoint_at[1] == 2, "checkpoints");
    CHECK(request.lr_scale == 0.25 && request.skip.first == 70 && request.skip.last == 70,
          "scale, skip");
    CHECK(request.start == NULL && request.observe_every == 0, "start, observe");
    plumb_request_free(&request);

    scratch_folder("none");
    setenv("PLUMB_RUN_DIR", scratch_at("none"), 1);
    setenv("PLUMB_OBSERVE_EVERY", "5", 1);
    CHECK_OK(plumb_request_read(&request, &why), why);
    CHECK(request.seed == 9 && request.observe_every == 5 && request.run_dir != NULL,
          "no file: the environment counts");
    plumb_request_free(&request);
    check_done("request.json wins");
}

static void bad_files(void)
{
    static const struct {
        const char *text, *part;
    } table[] = {
        {"{\"seed\":-1}", "key 'seed' or PLUMB_SEED is '-1'; allowed: 0 to"},
        {"{\"seed\":1.5}", "PLUMB_SEED is '1.5'"},
        {"{\"seed\":true}", "PLUMB_SEED is 'not a number or string'"},
        {"{\"checkpoint_at\":[]}", "PLUMB_CHECKPOINT_AT is '[...]'"},
        {"{\"checkpoint_at\":[1,\"a\"]}", "PLUMB_CHECKPOINT_AT is '[...]'"},
        {"{\"policy\":3}", "PLUMB_POLICY is '3'; allowed: an absolute path"},
        {"[]", "not a JSON object"},
        {"{\"seed\":", "line 1"},
    };
    plumb_request request;

    clear();
    setenv("PLUMB_RUN_DIR", scratch_at("run"), 1);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        plumb_error why = {0};
        scratch_text("run/request.json", table[i].text);
        CHECK(plumb_request_read(&request, &why) == PLUMB_BAD_INPUT &&
                  strstr(why.message, table[i].part) != NULL &&
                  strstr(why.message, "request.json") != NULL,
              "%s: '%s'", table[i].text, why.message);
    }
    scratch_text("run/request.json", "{\"contract\":2}");
    CHECK(plumb_request_read(&request, NULL) == PLUMB_UNSUPPORTED, "contract 2");
    check_done("bad request.json");
}

/* What is written, what the child sees, and what comes back. */
static void out(void)
{
    plumb_request request, back;
    plumb_error why = {0};
    int64_t steps[] = {7, 9};
    char policy[] = "/p.json", directory[512];
    size_t size;

    clear();
    scratch_folder("out");
    snprintf(directory, sizeof directory, "%s", scratch_at("out"));
    plumb_request_init(&request);
    request.run_dir = directory;
    request.has_seed = true;
    request.seed = UINT64_MAX;
    request.stop_at = 0;
    request.policy = policy;
    request.checkpoint_at = steps;
    request.checkpoint_count = 2;
    request.lr_scale = 0.1;
    request.skip = (plumb_span){3, 5};
    CHECK_OK(plumb_request_write(&request, &why), why);
    char *text = scratch_get("out/request.json", &size);
    CHECK(strstr(text, "\"seed\": \"18446744073709551615\"") != NULL &&
              strstr(text, "\"stop_at\": 0") != NULL &&
              strstr(text, "\"skip\": \"3-5\"") != NULL &&
              strstr(text, "clip_scale") == NULL,
          "%s", text);
    free(text);

    char **lines = plumb_request_environment(&request);
    char all[1000] = "";
    for (char **line = lines; *line != NULL; line++) {
        strcat(all, strncmp(*line, "PLUMB_RUN_DIR=", 14) == 0 ? "PLUMB_RUN_DIR" : *line);
        strcat(all, "\n");
    }
    CHECK(strcmp(all, "PLUMB_RUN_DIR\nPLUMB_SEED=18446744073709551615\nPLUMB_STOP_AT=0\n"
                      "PLUMB_POLICY=/p.json\nPLUMB_CHECKPOINT_AT=7,9\nPLUMB_LR_SCALE=0.1\n"
                      "PLUMB_SKIP=3-5\n") == 0,
          "%s", all);
    plumb_environment_free(lines);

    setenv("PLUMB_RUN_DIR", directory, 1);
    CHECK_OK(plumb_request_read(&back, &why), why);
    CHECK(back.seed == UINT64_MAX && back.stop_at == 0 && back.lr_scale == 0.1 &&
              back.checkpoint_at[1] == 9 && back.skip.last == 5 && !back.has_data_seed,
          "came back different");
    plumb_request_free(&back);

    static const struct {
        const char *in, *out;
    } words[] = {{"--stop={stop_at}", "--stop=0"},
                 {"{seed}{seed}", "1844674407370955161518446744073709551615"},
                 {"{data_seed}", ""},
                 {"{start}x", "x"},
                 {"a{policy", "a{policy"},
                 {"{Seed} {{seed}} {}", "{Seed} {18446744073709551615} {}"},
                 {"{policy}", "/p.json"},
                 {"", ""}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char *got = plumb_request_substitute(&request, words[i].in);
        CHECK(strcmp(got, words[i].out) == 0, "%s gave %s", words[i].in, got);
        free(got);
    }
    check_done("written, exported, substituted");
}

int main(void)
{
    scratch_make();
    unset();
    environment();
    refused();
    file_wins();
    bad_files();
    out();
    scratch_remove();
    return check_exit();
}
