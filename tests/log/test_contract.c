/* docs/run-contract.md is enough: its .pls reader reads what our writer writes, its trainer
 * keeps the contract as our reader sees it, and its examples are accepted.
 *
 * The code is taken out of the page and run by python3; without python3 that is skipped.
 */
#include "plumb/log.h"

#include <math.h>
#include <sys/wait.h>

#include "check.h"
#include "file/scratch.h"
#include "log/declaration.h"

static char *page;

static bool load_page(void)
{
    const char *source = getenv("PLUMB_SOURCE_DIR");
    char path[1024];

    snprintf(path, sizeof path, "%s/docs/run-contract.md", source != NULL ? source : ".");
    FILE *file = fopen(path, "rb");
    page = calloc(1, 1 << 20);
    if (!CHECK(file != NULL && page != NULL, "no %s", path))
        return false;
    CHECK(fread(page, 1, (1 << 20) - 1, file) > 0, "empty");
    fclose(file);
    check_done("the page");
    return true;
}

/* The fenced block of a language whose text starts with this; its length, or 0. */
static size_t block(const char *language, const char *start, const char **text)
{
    char fence[200];

    snprintf(fence, sizeof fence, "```%s\n%s", language, start);
    const char *found = strstr(page, fence);
    if (found == NULL)
        return 0;
    *text = found + 4 + strlen(language);
    const char *end = strstr(*text, "\n```");
    return end != NULL ? (size_t)(end - *text) + 1 : 0;
}

static bool extract(const char *start, const char *name)
{
    const char *text = NULL;
    const size_t size = block("python", start, &text);

    if (!CHECK(size > 0, "no block that starts with '%s'", start))
        return false;
    scratch_put(name, text, size);
    return true;
}

static int shell(const char *command)
{
    const int status = system(command);

    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void run_json(void)
{
    const char *text = NULL;
    const size_t size = block("json", "{\n \"contract\": 1", &text);
    json_t *json = json_loadb(text, size, 0, NULL);
    plumb_declaration declaration;
    plumb_error why = {0};

    CHECK(json != NULL, "the example of run.json is no JSON");
    CHECK_OK(plumb_declaration_from_json(json, "example", &declaration, &why), why);
    CHECK(declaration.site_count == 3 && declaration.feature_count == 3, "sites, features");
    plumb_declaration_free(&declaration);
    json_decref(json);
    for (size_t i = 0; i < plumb_feature_count; i++) {
        char word[64];
        snprintf(word, sizeof word, "`%s`", plumb_features[i]);
        CHECK(strstr(page, word) != NULL, "feature %s is not described", plumb_features[i]);
    }
    check_done("run.json of the page");
}

static void policy_and_metrics(void)
{
    const char *text = NULL;
    size_t size = block("json", "[{\"sites\"", &text);
    json_t *json = json_loadb(text, size, 0, NULL);
    plumb_rules rules;
    plumb_history history = {0};
    plumb_error why = {0};

    CHECK_OK(plumb_rules_from_json(json, "example", &rules, &why), why);
    CHECK(rules.count == 2 && rules.at[0].raise, "%zu rules", rules.count);
    plumb_rules_free(&rules);
    json_decref(json);
    size = block("json", "{\"step\":1", &text);
    scratch_put("metrics.jsonl", text, size);
    CHECK_OK(plumb_history_refresh(scratch_directory, &history, true, &why), why);
    CHECK(history.count == 1 && history.bad_lines == 0 && history.at[0].has_details &&
              history.at[0].has_state_hash && history.at[0].tokens == 4096,
          "the example line");
    plumb_history_free(&history);
    check_done("policy and metrics of the page");
}

static void pls_reader(void)
{
    static const char *const sites[] = {"a/x", "b/y"};
    const plumb_sample first[] = {
        {.step = 10, .site = 0, .amax = 1.5f, .scale = 256, .saturated = 3, .total = 1000},
        {.step = 10, .site = 1, .amax = 0.25f, .scale = 2, .total = (uint64_t)1 << 40}};
    const plumb_sample second[] = {{.step = 20, .site = 1, .amax = INFINITY, .scale = 1}};
    plumb_run *run;
    plumb_error why = {0};
    size_t size = 0;

    scratch_folder("pls");
    CHECK_OK(plumb_run_create(scratch_at("pls"), &run, &why), why);
    CHECK_OK(plumb_run_samples(run, sites, 2, first, 2, &why), why);
    CHECK_OK(plumb_run_samples(run, sites, 2, second, 1, &why), why);
    CHECK_OK(plumb_run_samples(run, sites, 2, second, 1, &why), why);
    plumb_run_end(&run, "reached", 20, NULL);
    char *bytes = scratch_get("pls/sites-rank00000.pls", &size);
    scratch_put("cut.pls", bytes, size - 1); /* the last chunk is torn */
    free(bytes);
    if (extract("# pls.py", "pls.py")) {
        char command[1200];
        snprintf(command, sizeof command, "python3 '%s' '%s' > '%s'", scratch_at("pls.py"),
                 scratch_at("cut.pls"), scratch_at("rows"));
        CHECK(shell(command) == 0, "the reader failed");
        char *rows = scratch_get("rows", &size);
        CHECK(rows != NULL && strcmp(rows, "10 a/x 1.5 256.0 3 1000\n"
                                           "10 b/y 0.25 2.0 0 1099511627776\n"
                                           "20 b/y inf 1.0 0 0\n") == 0,
              "rows: %s", rows);
        free(rows);
    }
    check_done(".pls reader of the page");
}

/* One run of the page's trainer; its exit status. */
static int train(const char *name, int64_t stop_at, const char *policy)
{
    char directory[512];
    plumb_request request;
    plumb_error why = {0};

    scratch_folder(name);
    snprintf(directory, sizeof directory, "%s", scratch_at(name));
    plumb_request_init(&request);
    request.run_dir = directory;
    request.has_seed = true;
    request.seed = UINT64_MAX;
    request.stop_at = stop_at;
    if (policy != NULL) {
        scratch_text("policy.json", policy);
        request.policy = strdup(scratch_at("policy.json"));
    }
    CHECK_OK(plumb_request_write(&request, &why), why);
    free(request.policy);
    char command[1200];
    snprintf(command, sizeof command, "PLUMB_RUN_DIR='%s' python3 '%s' 2>/dev/null",
             directory, scratch_at("trainer.py"));
    return shell(command);
}

static double last_loss(const char *name, size_t want)
{
    plumb_history history = {0};
    plumb_error why = {0};
    double loss = (double)NAN;

    CHECK_OK(plumb_history_refresh(scratch_at(name), &history, true, &why), why);
    CHECK(history.count == want && history.bad_lines == 0, "%s: %zu steps, %zu bad", name,
          history.count, history.bad_lines);
    if (history.count > 0)
        loss = history.at[history.count - 1].loss;
    plumb_history_free(&history);
    return loss;
}

static void check_end(const char *name, int64_t want)
{
    char reason[16];
    int64_t step;
    plumb_error why = {0};

    CHECK_OK(plumb_run_end_read(scratch_at(name), reason, &step, &why), why);
    CHECK(strcmp(reason, "reached") == 0 && step == want, "%s: %s at %d", name, reason,
          (int)step);
}

static void trainer(void)
{
    plumb_declaration declaration;
    plumb_error why = {0};

    if (!extract("# trainer.py", "trainer.py"))
        return;
    CHECK(train("look", 0, NULL) == 0, "PLUMB_STOP_AT=0");
    CHECK_OK(plumb_declaration_read(scratch_at("look"), &declaration, &why), why);
    CHECK(declaration.site_count == 1 && strcmp(declaration.sites[0].own, "e4m3") == 0,
          "site");
    plumb_declaration_free(&declaration);
    last_loss("look", 0);
    check_end("look", 0);

    CHECK(train("own", 60, NULL) == 0 && train("again", 60, NULL) == 0, "own");
    CHECK(train("twin", 60, "[{\"sites\":\"*\",\"use\":\"bf16\",\"raise\":true}]") == 0,
          "twin");
    CHECK(train("back", 60,
                "[{\"sites\":[\"x\",\"g?mm\"],\"use\":\"bf16\"},"
                "{\"sites\":\"*\",\"use\":\"own\"}]") == 0,
          "own again");
    CHECK(train("no", 60, "[{\"sites\":\"gemm\",\"use\":\"fp4\"}]") == 3, "status for fp4");
    const double own = last_loss("own", 60), twin = last_loss("twin", 60);
    CHECK(own == last_loss("again", 60) && own == last_loss("back", 60), "not repeatable");
    CHECK(own != twin, "the policy was ignored");
    check_end("twin", 60);
    CHECK(plumb_declaration_read(scratch_at("no"), &declaration, NULL) == PLUMB_NOT_FOUND,
          "refused after run.json");
    check_done("trainer of the page");
}

int main(void)
{
    scratch_make();
    if (load_page()) {
        run_json();
        policy_and_metrics();
        if (shell("command -v python3 > /dev/null 2>&1") == 0) {
            pls_reader();
            trainer();
        } else {
            check_skip("the page's programs", "no python3");
        }
    }
    free(page);
    scratch_remove();
    return check_exit();
}
