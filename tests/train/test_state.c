/* Moments, weights and all-reduces in few bits: bits worked out in exact rational arithmetic by state.py
 * (tests/train/state.csv), through the trainer's own step; and that all of it survives stop and resume
 * and depends on no thread.
 */
#include "run.h"
#include "train/train.h"

enum { N = 160, RANKS = 5, STEPS = 3, LONGEST = 1 << 14 };

static const char parameter_name[] = "layer.0/mlp.up";
static float weights[N], gradients[STEPS][N], shares[RANKS][N];
static trainer *t;

static void read_values(char *rest, float x[N])
{
    for (size_t i = 0; i < N; i++)
        x[i] = strtof(strtok(i == 0 ? rest : NULL, ",\n"), NULL);
}

static size_t parameter(void)
{
    size_t i = 0;

    while (strcmp(t->parameters[i].name, parameter_name) != 0)
        i++;
    return i;
}

/* A trainer at step 0 with these rules of its file. */
static void make(const char *rules, const char *more)
{
    const char *at[TEST_SETTINGS];
    char memory[1024], path[128], all[512];
    plumb_error why = {0};

    snprintf(path, sizeof path, "%s/state.yaml", test_root);
    test_write(path, rules);
    snprintf(all, sizeof all,
             "model.layers=1 model.width=4 model.ff=20 batch.sequences=5 batch.ranks=5 "
             "optimizer.lr=0.25 optimizer.warmup=1000 optimizer.clip=0 sensors.every=0 %s",
             more);
    t = calloc(1, sizeof *t);
    plumb_request_init(&t->request);
    const size_t count = test_settings(all, memory, at);

    CHECK_OK(settings_load(path, at, count, &t->settings, &why), why);
    CHECK_OK(trainer_create(t, &why), why);
}

static void drop(void)
{
    trainer_free(t);
    free(t);
    t = NULL;
}

/* --- golden ------------------------------------------------------------------------------------ */

static void adam(char *rest, char *what)
{
    char rules[512], more[64];
    const char *m = strtok(rest, ","), *v = strtok(NULL, ","), *w = strtok(NULL, ",");
    plumb_error why = {0};

    snprintf(more, sizeof more, "optimizer.update_from=%s", strtok(NULL, ",\n"));
    snprintf(rules, sizeof rules,
             "rules:\n  - {sites: '*/optimizer/m', use: '%s'}\n"
             "  - {sites: '*/optimizer/v', use: '%s'}\n"
             "  - {sites: '*/optimizer/master', use: '%s'}\n",
             m, v, w);
    snprintf(what, 256, "m %s, v %s, weights %s, %s", m, v, w, more);
    make(rules, more);
    const size_t offset = t->parameters[parameter()].offset;

    memcpy(t->weights + offset, weights, sizeof weights);
    CHECK_OK(adamw_begin(t, &why), why);
    for (int64_t step = 0; step < STEPS; step++) {
        step_result r = {0};

        memset(t->share[0], 0, t->weight_count * sizeof(float));
        memcpy(t->share[0] + offset, gradients[step], sizeof gradients[step]);
        CHECK_OK(adamw_step(t, step + 1, &r, &why), why);
        t->step++;
    }
}

static void reduce(char *rest, char *what)
{
    char rules[256], more[128];
    plumb_error why = {0};
    const char *wire = strtok(rest, ","), *order = strtok(NULL, ",");
    const char *headroom = strtok(NULL, ","), *scale = strtok(NULL, ",\n");

    snprintf(rules, sizeof rules, "rules:\n  - {sites: '*/collective/grad', use: '%s'}\n",
             wire);
    snprintf(more, sizeof more, "reduce.order=%s reduce.headroom=%s reduce.scale=%s", order,
             headroom, scale);
    snprintf(what, 256, "%s, %s", wire, more);
    make(rules, more);
    const size_t offset = t->parameters[parameter()].offset;

    for (size_t i = 0; i < RANKS; i++)
        memcpy(t->share[i] + offset, shares[i], sizeof shares[i]);
    CHECK_OK(wire_reduce(t, 1, parameter(), &why), why);
}

static void compare(const char *word, char *rest, const char *what)
{
    const float *const got = strcmp(word, "m") == 0     ? t->m
                             : strcmp(word, "v") == 0   ? t->v
                             : strcmp(word, "sum") == 0 ? t->share[0]
                                                        : t->weights;
    const float *x = got + t->parameters[parameter()].offset;
    float want[N];
    size_t wrong = 0;

    read_values(rest, want);
    for (size_t i = N; i-- > 0;)
        wrong = x[i] == want[i] ? wrong : i + 1;
    const size_t at = wrong > 0 ? wrong - 1 : 0;

    CHECK(wrong == 0, "%s: %s[%zu] is %a, want %a", what, word, at, (double)x[at],
          (double)want[at]);
}

static void golden(void)
{
    static char line[LONGEST];
    char path[512], what[256] = "";
    size_t gradient = 0, share = 0, cases = 0;

    snprintf(path, sizeof path, "%s/tests/train/state.csv", getenv("PLUMB_SOURCE_DIR"));
    FILE *file = fopen(path, "r");

    if (!CHECK(file != NULL, "no %s", path))
        return;
    while (fgets(line, sizeof line, file) != NULL) {
        char *rest = strchr(line, ',');

        if (line[0] == '#')
            continue;
        *rest++ = 0;
        if (strcmp(line, "weights") == 0) {
            read_values(rest, weights);
        } else if (strcmp(line, "gradient") == 0) {
            read_values(rest, gradients[gradient++]);
        } else if (strcmp(line, "share") == 0) {
            read_values(rest, shares[share++]);
        } else if (strcmp(line, "adam") == 0 || strcmp(line, "reduce") == 0) {
            cases++;
            if (t != NULL)
                drop();
            (line[0] == 'a' ? adam : reduce)(rest, what);
        } else {
            compare(line, rest, what);
        }
    }
    drop();
    fclose(file);
    CHECK(cases == 8 + 32, "%zu cases", cases);
    check_done("bits of the golden file");
}

/* --- runs ---------------------------------------------------------------------------------------- */

static const char few_bits[] =
    "rules:\n"
    "  - {sites: '*/optimizer/m', use: 'e4m3:1x128:stochastic'}\n"
    "  - {sites: '*/optimizer/v', use: bf16}\n"
    "  - {sites: '*/optimizer/master', use: 'bf16:stochastic'}\n"
    "  - {sites: '*/collective/grad', use: 'e5m2:1x128:stochastic8'}\n"
    "  - {sites: '*/attn/*', use: 'e4m3:tensor:delayed:stochastic'}\n"
    "  - {sites: '*/fprop/x', use: 'e4m3:1x128:stochastic'}\n"
    "  - {sites: '*/dgrad/dy', use: 'e5m2:stochastic'}\n"
    "  - {sites: '*/wgrad/dy', use: 'e2m1:nvfp4:stochastic8'}\n"
    "  - {sites: ['*/norm/squares', 'head/loss/sum'], use: 'bf16:stochastic'}\n"
    "  - {sites: '*/softmax/*', use: 'e5m2:none:stochastic'}\n";

static const char few_settings[] = "batch.ranks=2 batch.micro_batches=2 reduce.scale=own "
                                   "reduce.order=tree model.norm=layer "
                                   "model.mlp=gelu model.qk_norm=true model.tied_head=true";

static test_run go(const char *path, const char *more, const char *start, int64_t save,
                   int64_t steps)
{
    test_run r = test_request();

    r.request.stop_at = steps;
    if (start != NULL)
        r.request.start = strdup(start);
    if (save > 0) {
        r.request.checkpoint_count = 1;
        r.request.checkpoint_at = calloc(1, sizeof(int64_t));
        r.request.checkpoint_at[0] = save;
    }
    test_go(&r, path, more);
    CHECK(r.status == 0 && r.history.count > 0, "%s: status %d: %s", more, r.status,
          r.said);
    return r;
}

static void same(const test_run *a, const test_run *b, const char *what)
{
    CHECK(test_differ(a, b) == 0, "%s: step %lld differs", what,
          (long long)test_differ(a, b));
}

/* Everything at once, stochastic where it can be: the bits are a function of seed, step and site. */
static void everything(void)
{
    char path[128], more[256];
    json_t *events = NULL;
    size_t bad;
    unsigned mask;

    snprintf(path, sizeof path, "%s/few.yaml", test_root);
    test_write(path, few_bits);
    test_run whole = go(path, few_settings, NULL, 3, 5),
             again = go(path, few_settings, NULL, 0, 5);

    same(&whole, &again, "the same run twice");
    snprintf(more, sizeof more, "%s threads=2", few_settings);
    test_run threads = go(path, more, NULL, 0, 5);

    same(&whole, &threads, "two threads");
    CHECK(plumb_cpu_parse("baseline", &mask), "no baseline");
    plumb_cpu_limit(mask);
    test_run slow = go(path, few_settings, NULL, 0, 5);

    plumb_cpu_limit(~0u);
    same(&whole, &slow, "the baseline");
    snprintf(more, sizeof more, "%s seed=2", few_settings);
    test_run other = go(path, more, NULL, 0, 5);

    CHECK(test_differ(&whole, &other) == 1, "another seed gives the same bits");
    CHECK(plumb_events_read(whole.dir, &events, &bad, NULL) == PLUMB_OK, "no events");
    const char *ref =
        json_string_value(json_object_get(test_event(events, "checkpoint"), "ref"));

    if (CHECK(ref != NULL, "no checkpoint")) {
        test_run rest = go(path, few_settings, ref, 0, 5);

        CHECK(rest.history.at[0].step == 4, "resumed at %lld",
              (long long)rest.history.at[0].step);
        same(&whole, &rest, "stop and resume");
        test_free(&rest);
    }
    CHECK(whole.history.at[4].loss < whole.history.at[0].loss, "the loss did not fall: %g",
          whole.history.at[4].loss);
    json_decref(events);
    test_free(&whole);
    test_free(&again);
    test_free(&threads);
    test_free(&slow);
    test_free(&other);
    check_done("a run with everything in few bits repeats");
}

/* Every site is one where the policy acts: cast back it changes the run, and all cast back together it
 * is the bf16 run of these classes.
 */
static void cast_back(void)
{
    static const char *const groups[] = {
        "*/attn/qk/*",      "*/attn/pv/*",   "*/attn/dp/*",         "*/attn/dv/*",
        "*/attn/dq/*",      "*/attn/dk/*",   "*/softmax/numerator", "*/softmax/sum",
        "*/norm/squares",   "*/optimizer/m", "*/optimizer/v",       "*/optimizer/master",
        "*/collective/grad"};
    static const char rules[] = "rules:\n"
                                "  - {sites: '*/attn/*', use: 'e4m3:1x128'}\n"
                                "  - {sites: '*/softmax/*', use: 'e4m3:none'}\n"
                                "  - {sites: '*/norm/squares', use: 'e4m3:none'}\n"
                                "  - {sites: '*/optimizer/*', use: 'e5m2:1x128'}\n"
                                "  - {sites: '*/collective/grad', use: 'e5m2'}\n";
    char path[128], policy[600], text[128], here[400];

    snprintf(path, sizeof path, "%s/low.yaml", test_root);
    test_write(path, rules);
    test_run low = go(path, "batch.ranks=2", NULL, 0, 2);

    if (!CHECK(getcwd(here, sizeof here) != NULL, "no directory"))
        return;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        test_run r = test_request();

        snprintf(policy, sizeof policy, "%s/%s/policy-%zu.json", here, test_root, i);
        snprintf(text, sizeof text, "[{\"sites\":\"%s\",\"use\":\"bf16\",\"raise\":true}]",
                 groups[i]);
        test_write(policy, text);
        r.request.policy = strdup(policy);
        r.request.stop_at = 2;
        test_go(&r, path, "batch.ranks=2");
        CHECK(r.status == 0 && r.history.count == 2, "%s: %d: %s", groups[i], r.status,
              r.said);
        CHECK(test_differ(&low, &r) == 1, "%s cast back: first difference at step %lld",
              groups[i], (long long)test_differ(&low, &r));
        test_free(&r);
    }
    test_free(&low);
    check_done("every new site can be cast back");
}

/* Accumulators and operands from codes act, are told, and are refused where they could not. */
static void products(void)
{
    static const char *const bad[][2] = {
        {"[{sites: 'layer.*/fprop', use: hopper}]", "hopper"},
        {"[{sites: 'layer.9/fprop', use: exact}]", "no product of this model"},
        {"[{sites: 'head/fprop', use: hopper-wgmma}]", "operands it takes"},
        {"[{sites: '*', use: exact, raise: true}]", "raise"}};
    char path[128], text[256];
    json_t *events = NULL;
    size_t ignored;

    snprintf(path, sizeof path, "%s/products.yaml", test_root);
    test_write(path, "accumulators: [{sites: '*/mlp.up/fprop', use: hopper-wgmma}]\n");
    test_run plain = go(NULL, "recipe=te-mxfp8", NULL, 0, 2);
    test_run unit = go(path, "recipe=te-mxfp8", NULL, 0, 2);
    test_run codes = go(NULL, "recipe=te-mxfp8 from_codes=*/wgrad/x", NULL, 0, 2);

    CHECK(test_differ(&plain, &unit) == 1, "the accumulator moves nothing");
    CHECK(test_differ(&plain, &codes) == 1, "operands from codes move nothing");
    CHECK(plumb_events_read(unit.dir, &events, &ignored, NULL) == PLUMB_OK, "no events");
    const json_t *told = json_object_get(test_event(events, "effective"), "accumulators");
    const char *up = json_string_value(json_object_get(told, "layer.1/mlp.up/fprop"));

    CHECK(json_object_size(told) == 2 && up != NULL && strcmp(up, "hopper-wgmma") == 0,
          "%zu accumulators in the event", json_object_size(told));
    json_decref(events);
    test_free(&plain);
    test_free(&unit);
    test_free(&codes);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        test_run r = test_request();

        snprintf(text, sizeof text, "accumulators: %s\n", bad[i][0]);
        test_write(path, text);
        test_go(&r, path, "recipe=te-current");
        CHECK(r.status == 3 && strstr(r.said, bad[i][1]) != NULL, "%s gives %d: %s",
              bad[i][0], r.status, r.said);
        test_free(&r);
    }
    check_done("products");
}

int main(void)
{
    test_begin();
    golden();
    products();
    everything();
    cast_back();
    test_end();
    return check_exit();
}
