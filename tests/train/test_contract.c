/* The run contract as the trainer keeps it: declaration, policies, end reasons, refusals, samples. */
#include "run.h"

#include <signal.h>
#include <time.h>

static char policy_path[4200];

static void write_policy(test_run *r, const char *json)
{
    char cwd[4000];

    if (getcwd(cwd, sizeof cwd) == NULL)
        exit(2);
    snprintf(policy_path, sizeof policy_path, "%s/%s/policy-%d.json", cwd, test_root,
             test_runs);
    test_write(policy_path, json);
    free(r->request.policy);
    r->request.policy = strdup(policy_path);
}

static test_run under_policy(const char *json, const char *settings)
{
    test_run r = test_request();

    write_policy(&r, json);
    test_go(&r, NULL, settings);
    return r;
}

static json_t *events_of(const test_run *r)
{
    json_t *events = NULL;
    size_t bad = 0;

    CHECK(plumb_events_read(r->dir, &events, &bad, NULL) == PLUMB_OK && bad == 0,
          "events of %s: %zu bad lines", r->dir, bad);
    return events;
}

static void ended(const test_run *r, const char *reason, int64_t step)
{
    char got[16] = "nothing";
    int64_t at = -1;

    plumb_run_end_read(r->dir, got, &at, NULL);
    CHECK(strcmp(got, reason) == 0 && at == step, "ended %s at %lld, want %s at %lld", got,
          (long long)at, reason, (long long)step);
}

/* A sample of the declaration, site by site. */
static void declaration(void)
{
    test_run r = test_request();
    plumb_declaration d = {0};
    plumb_error why = {0};
    size_t shared = 0, forward = 0;

    r.request.stop_at = 0;
    r.request.warmup_scale = 2; /* what is declared knows nothing of it */
    test_go(&r, NULL, "recipe=te-delayed");
    CHECK(r.status == 0 && r.history.count == 0, "status %d, %zu lines: %s", r.status,
          r.history.count, r.said);
    ended(&r, "reached", 0);
    if (!CHECK_OK(plumb_declaration_read(r.dir, &d, &why), why))
        return;
    CHECK(d.site_count == 9 * 6 + 2 * (12 + 2 + 2) + 2 + 15 * 4, "%zu sites", d.site_count);
    CHECK(d.schedule_steps == 40 && d.warmup_steps == 4 && d.world_size == 1,
          "schedule %lld", (long long)d.schedule_steps);
    CHECK(d.unigram_entropy > 1.5 && d.unigram_entropy < 4, "entropy %g",
          d.unigram_entropy);
    CHECK(plumb_declaration_has(&d, "exact_resume") &&
              plumb_declaration_has(&d, "micro_order") &&
              plumb_declaration_has(&d, "warmup_scale") &&
              plumb_declaration_has(&d, "clip_scale"),
          "a feature is missing");
    for (size_t i = 0; i < d.site_count; i++) {
        const plumb_declared_site *s = &d.sites[i];
        bool bf16 = false;

        shared += s->shares_storage_with != NULL;
        forward += s->class_ == PLUMB_FORWARD;
        for (size_t j = 0; j < s->use_count; j++)
            bf16 = bf16 || strcmp(s->uses[j], "bf16") == 0;
        CHECK(bf16, "%s does not offer bf16", s->name);
    }
    CHECK(shared == 27 + 2 * 6 && forward == 18 + 2 * 4, "%zu share, %zu forward", shared,
          forward);
    const plumb_declared_site *first = &d.sites[5];

    CHECK(strcmp(first->name, "layer.0/attn.qkv/wgrad/x") == 0 && first->layer == 0 &&
              strcmp(first->gemm, "wgrad") == 0 && strcmp(first->operand, "x") == 0 &&
              first->class_ == PLUMB_BACKWARD &&
              strcmp(first->shares_storage_with, "layer.0/attn.qkv/fprop/x") == 0,
          "site 5 is %s", first->name);
    CHECK(first->use_count == 5 && strcmp(first->uses[4], "e4m3:current") == 0, "%zu uses",
          first->use_count);
    plumb_declaration_free(&d);
    test_free(&r);
    check_done("declaration");
}

static char *hash_of(const char *path, const char *settings)
{
    test_run r = test_request();
    plumb_declaration d = {0};
    plumb_error why = {0};
    char *hash;

    r.request.stop_at = 0;
    test_go(&r, path, settings);
    CHECK_OK(plumb_declaration_read(r.dir, &d, &why), why);
    hash = strdup(d.config_hash == NULL ? "" : d.config_hash);
    plumb_declaration_free(&d);
    test_free(&r);
    return hash;
}

/* The hash stands for everything that a result depends on, and for nothing else. */
static void config_hash(void)
{
    static const char *const same[] = {"threads=2", "sensors.every=3", "out=elsewhere",
                                       "checkpoint.every=2"};
    static const char *const other[] = {"optimizer.lr=0.002", "recipe=te-delayed", "seed=2",
                                        "model.ff=44"};
    char *plain = hash_of(NULL, ""), path[128], text[160];
    char *hash;

    for (int i = 0; i < 4; i++) {
        hash = hash_of(NULL, same[i]);
        CHECK(strcmp(hash, plain) == 0, "%s changes the hash", same[i]);
        free(hash);
        hash = hash_of(NULL, other[i]);
        CHECK(strcmp(hash, plain) != 0, "%s does not change the hash", other[i]);
        free(hash);
    }
    snprintf(path, sizeof path, "%s/hash.yaml", test_root);
    test_write(path, "faults: [{kind: frozen-scale, sites: \"*\", from: 1}]\n");
    hash = hash_of(path, "");
    CHECK(strcmp(hash, plain) != 0, "a fault does not change the hash");
    free(hash);
    /* Another text under the same name. */
    snprintf(path, sizeof path, "%s/hashed", test_root);
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    test_write(path, text);
    snprintf(path, sizeof path, "data=%s/hashed", test_root);
    free(plain);
    plain = hash_of(NULL, path);
    text[7] = 'b';
    test_write(path + 5, text);
    hash = hash_of(NULL, path);
    CHECK(strcmp(hash, plain) != 0, "another text does not change the hash");
    free(hash);
    free(plain);
    check_done("configuration hash");
}

/* What a line of metrics.jsonl says must fit together. */
static void metrics(void)
{
    test_run r = test_plain("recipe=te-current batch.micro_batches=2");

    for (size_t i = 0; i < r.history.count; i++) {
        const plumb_metrics *m = &r.history.at[i];

        CHECK(m->step == (int64_t)i + 1 && m->tokens == 64, "line %zu", i + 1);
        CHECK(m->loss_max > m->loss, "step %zu: worst %g, mean %g", i + 1, m->loss_max,
              m->loss);
        /* A micro-batch is half of the batch: the largest of its 15 tensors cannot be below
         * the whole's share, nor above what the two halves together can hold.
         */
        CHECK(m->grad_norm_max > m->grad_norm / sqrt(15) &&
                  m->grad_norm_max < 2 * m->grad_norm,
              "step %zu: largest %g, whole %g", i + 1, m->grad_norm_max, m->grad_norm);
        CHECK(m->grad_norm_max_tensor[0] != 0 && m->seconds > 0, "step %zu lacks a name",
              i + 1);
        /* |m| / sqrt(v) <= 1.165 with these decays (Cauchy-Schwarz); step 1 gives 1. */
        CHECK(m->update_max > 0.9 && m->update_max < 1.165, "step %zu: update %g", i + 1,
              m->update_max);
    }
    test_free(&r);
    check_done("metrics");
}

static void policies(void)
{
    test_run own = test_plain("recipe=te-delayed"), bf16 = test_plain("recipe=bf16");
    test_run twin = under_policy("[{\"sites\":\"*\",\"use\":\"bf16\",\"raise\":true}]",
                                 "recipe=te-delayed");
    test_run back = under_policy("[{\"sites\":\"*\",\"use\":\"bf16\",\"raise\":true},"
                                 "{\"sites\":[\"*\"],\"use\":\"own\"}]",
                                 "recipe=te-delayed");
    test_run lower =
        under_policy("[{\"sites\":\"*/optimizer/v\",\"use\":\"e5m2\"}]", "recipe=bf16");
    test_run sum = under_policy("[{\"sites\":\"*/collective/grad\",\"use\":\"e4m3\"}]",
                                "recipe=bf16 batch.ranks=2");
    test_run ranks = test_plain("recipe=bf16 batch.ranks=2");
    test_run micro = test_plain("recipe=bf16 batch.micro_batches=4");
    const json_t *sites;
    json_t *events = events_of(&twin);

    CHECK(test_differ(&own, &bf16) == 1, "te-delayed is bf16");
    CHECK(test_differ(&bf16, &twin) == 0, "the twin is not the bf16 run: step %lld",
          (long long)test_differ(&bf16, &twin));
    CHECK(test_differ(&own, &back) == 0, "own does not restore");
    CHECK(test_differ(&bf16, &lower) == 1, "v in E5M2 changes nothing");
    CHECK(test_differ(&ranks, &sum) == 1, "an E4M3 all-reduce changes nothing");
    CHECK(fabs(ranks.history.at[7].loss - bf16.history.at[7].loss) < 0.01,
          "two ranks: %g, %g", ranks.history.at[7].loss, bf16.history.at[7].loss);
    /* At first the weights are equal, and a bf16 row does not see its neighbours. */
    CHECK(micro.history.at[0].loss_max == bf16.history.at[0].loss_max,
          "worst token %.9g, %.9g", micro.history.at[0].loss_max,
          bf16.history.at[0].loss_max);
    /* The same gradient, whoever sums it: bf16 products of half the tokens round otherwise. */
    CHECK(fabs(ranks.history.at[0].grad_norm / bf16.history.at[0].grad_norm - 1) < 0.01,
          "norm of two ranks %g, of one %g", ranks.history.at[0].grad_norm,
          bf16.history.at[0].grad_norm);
    CHECK(fabs(micro.history.at[0].grad_norm / bf16.history.at[0].grad_norm - 1) < 0.01,
          "norm of four micro-batches %g, of one %g", micro.history.at[0].grad_norm,
          bf16.history.at[0].grad_norm);
    sites = json_object_get(test_event(events, "effective"), "sites");
    CHECK(json_object_size(sites) == 148, "effective names %zu sites",
          json_object_size(sites));
    const char *v = json_string_value(json_object_get(sites, "head/optimizer/v"));
    const char *dy = json_string_value(json_object_get(sites, "layer.1/mlp.up/dgrad/dy"));

    CHECK(v != NULL && strcmp(v, "fp32") == 0, "the twin lowered v to %s", v);
    CHECK(dy != NULL && strcmp(dy, "bf16") == 0, "dy runs in %s", dy);
    json_decref(events);
    test_free(&own);
    test_free(&bf16);
    test_free(&twin);
    test_free(&back);
    test_free(&lower);
    test_free(&sum);
    test_free(&ranks);
    test_free(&micro);
    check_done("policies");
}

static void refused_policies(void)
{
    static const char *const bad[] = {
        "[{\"sites\":\"*\",\"use\":\"fp4\"}]",
        "[{\"sites\":\"*/optimizer/m\",\"use\":\"e4m3:delayed\"}]",
        "[{\"sites\":\"*/collective/grad\",\"use\":\"e4m3:1x128\"}]",
        "[{\"sites\":\"*/collective/grad\",\"use\":\"e4m3:row\"}]",
        "[{\"sites\":\"*/norm/squares\",\"use\":\"e4m3\"}]",
        "[{\"sites\":\"*/softmax/numerator\",\"use\":\"e4m3:1x128\"}]",
        "[{\"sites\":\"*/loss/sum\",\"use\":\"e5m2:delayed\"}]",
        "[{\"sites\":\"*/fprop/x\",\"use\":\"e4m3:nvfp4\"}]",
        "[{\"sites\":\"*/fprop/x\",\"use\":\"e8m0\"}]",
        "[{\"sites\":\"*\"}]",
        "{",
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        test_run r = under_policy(bad[i], "recipe=bf16");

        char declared[200];

        snprintf(declared, sizeof declared, "%s/run.json", r.dir);
        CHECK(access(declared, F_OK) != 0, "%s is refused after the declaration", bad[i]);
        CHECK(r.status == 3 && r.history.count == 0 && r.said[0] != 0, "%s gives %d: %s",
              bad[i], r.status, r.said);
        test_free(&r);
    }
    test_run r =
        under_policy("[{\"sites\":\"layer.9/*\",\"use\":\"bf16\"}]", "recipe=te-current");
    json_t *events = events_of(&r);
    const json_t *none = json_object_get(test_event(events, "policy"), "unmatched");

    CHECK(r.status == 0 && json_array_size(none) == 1, "%zu rules without a site",
          json_array_size(none));
    json_decref(events);
    test_free(&r);
    check_done("policies that cannot be obeyed, or match nothing");
}

static void converted(void)
{
    test_run first = test_request(), next = test_request();
    json_t *events;
    const char *start;

    first.request.checkpoint_count = 1;
    first.request.checkpoint_at = calloc(1, sizeof(int64_t));
    first.request.checkpoint_at[0] = 4;
    test_go(&first, NULL, "recipe=te-delayed");
    events = events_of(&first);
    start = json_string_value(json_object_get(test_event(events, "checkpoint"), "ref"));
    next.request.start = strdup(start == NULL ? "/" : start);
    json_decref(events);
    write_policy(&next, "[{\"sites\":\"*/optimizer/m\",\"use\":\"e5m2\"}]");
    test_go(&next, NULL, "recipe=te-delayed");
    events = events_of(&next);
    const json_t *sites = json_object_get(test_event(events, "converted"), "sites");

    CHECK(next.status == 0 && next.history.count == 4, "%d: %s", next.status, next.said);
    CHECK(json_array_size(sites) == 15, "%zu sites converted", json_array_size(sites));
    json_decref(events);
    next.request.stop_at = 3; /* before the checkpoint */
    snprintf(next.dir, sizeof next.dir, "%s/before", test_root);
    test_go(&next, NULL, "recipe=te-delayed");
    CHECK(next.status == 3, "a stop before the checkpoint gives %d", next.status);
    test_free(&first);
    test_free(&next);
    check_done("another policy after a checkpoint");
}

static void factors(void)
{
    test_run plain = test_plain("recipe=bf16"), slow = test_request(),
             skip = test_request();

    slow.request.lr_scale = 0.5;
    test_go(&slow, NULL, "recipe=bf16");
    CHECK(fabs(slow.history.at[2].lr / plain.history.at[2].lr - 0.5) < 1e-9, "rate %g, %g",
          slow.history.at[2].lr, plain.history.at[2].lr);
    skip.request.skip = (plumb_span){3, 4};
    test_go(&skip, NULL, "recipe=bf16");
    for (size_t i = 0; i < 8; i++)
        CHECK((plain.history.at[i].batch_hash != skip.history.at[i].batch_hash) ==
                  (i == 2 || i == 3),
              "batch of step %zu", i + 1);
    CHECK(test_differ(&plain, &skip) == 3, "skipping acts from step %lld",
          (long long)test_differ(&plain, &skip));
    /* The schedule: warm-up 4, cosine to 10 % at 40, whatever the stop. */
    CHECK(fabs(plain.history.at[1].lr - 1.5e-3) < 1e-9 &&
              fabs(plain.history.at[3].lr - 3e-3) < 1e-9,
          "warm-up %g %g", plain.history.at[1].lr, plain.history.at[3].lr);
    const double want = 3e-3 * (0.1 + 0.9 * 0.5 * (1 + cos(3.141592653589793 * 4 / 36)));

    CHECK(fabs(plain.history.at[7].lr - want) < 1e-9, "rate of step 8: %.9g, want %.9g",
          plain.history.at[7].lr, want);
    test_free(&plain);
    test_free(&slow);
    test_free(&skip);
    check_done("rate, schedule and skipped batches");
}

static void nonfinite(void)
{
    test_run r = test_plain("recipe=bf16 optimizer.lr=900 optimizer.clip=0");
    const plumb_metrics *last = &r.history.at[r.history.count - 1];

    if (!isfinite(last->loss))
        ended(&r, "nonfinite", last->step);
    else
        CHECK(false, "the loss stayed finite: %g", last->loss);
    test_free(&r);
    check_done("a loss that is no number");
}

/* Kills a long run, or asks it to stop, once it has logged something. */
static void stop(bool by_signal)
{
    test_run r = test_request();
    plumb_samples samples = {0};
    char path[200];
    int said;

    r.request.stop_at = 1000000;
    r.request.observe_every = 10;
    const pid_t child =
        test_start(&r, NULL, "recipe=te-current optimizer.steps=1000000", &said);

    for (int i = 0; i < 2000 && r.history.count < 75; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        plumb_history_refresh(r.dir, &r.history, false, NULL);
    }
    snprintf(path, sizeof path, "%s/stop", r.dir);
    if (by_signal)
        kill(child, SIGTERM);
    else
        test_write(path, "");
    test_wait(&r, child, said);
    CHECK(r.status == 0 && r.history.count >= 75, "status %d after %zu steps", r.status,
          r.history.count);
    ended(&r, "stopped", (int64_t)r.history.count);
    CHECK(plumb_samples_read(r.dir, &samples, NULL) == PLUMB_OK && !samples.torn,
          "no samples");
    uint64_t full = 0, last = 0;

    for (size_t i = 0; i < samples.count; i++) {
        if (i > 0)
            CHECK(samples.at[i].step > samples.at[i - 1].step ||
                      samples.at[i].site > samples.at[i - 1].site,
                  "step %llu, site %u twice", (unsigned long long)samples.at[i].step,
                  samples.at[i].site);
        full += samples.at[i].step != last;
        last = samples.at[i].step;
    }
    /* Step 1, every 10th before the recorder, and the last 64. */
    const size_t steps = r.history.count, early = steps - 64;

    CHECK(last == steps && full == 64 + early / 10 + 1,
          "%llu steps sampled of %zu, last %llu", (unsigned long long)full, steps,
          (unsigned long long)last);
    plumb_samples_free(&samples);
    test_free(&r);
    check_done(by_signal ? "SIGTERM" : "the file stop");
}

static void shadow(void)
{
    test_run r = test_request(), same = test_request();
    json_t *events, *event;
    double d = 0;

    r.request.observe_every = same.request.observe_every = 5;
    test_go(&r, NULL, "recipe=te-current sensors.shadow_every=4");
    events = events_of(&r);
    event = test_event(events, "shadow");
    CHECK(json_array_size(json_object_get(event, "layers")) == 2, "no layers");
    CHECK(plumb_json_to_real(
              json_object_get(json_object_get(event, "logits"), "max_over_rms"), &d) &&
              d > 1e-4 && d < 1,
          "logits are %g apart", d);
    CHECK(plumb_json_to_real(json_object_get(json_object_get(event, "gradient"), "cosine"),
                             &d) &&
              d > 0.9 && d < 1,
          "cosine %g", d);
    json_decref(events);
    test_go(&same, NULL, "recipe=bf16 sensors.shadow_every=4");
    events = events_of(&same);
    event = test_event(events, "shadow");
    CHECK(plumb_json_to_real(
              json_object_get(json_object_get(event, "gradient"), "relative"), &d) &&
              d == 0,
          "a bf16 run is %g from its shadow", d);
    json_decref(events);
    test_free(&r);
    test_free(&same);
    check_done("shadow");
}

static void bad_input(void)
{
    static const struct {
        const char *settings, *word;
    } bad[] = {
        {"data=/nowhere/text", "/nowhere/text"},
        {"data=SHORT", "too small"},
        {"data=EMPTY", "empty"},
        {"data=FOLDER", "no text file"},
        {"recipe=fp3", "deepseek-v3"},
        {"model.heads=5", "heads"},
        {"batch.ranks=3", "micro_batches"},
        {"from_codes=*/fprop/x", "wgrad/x"},
        {"reduce.order=rung", "ring"},
        {"attention.delta=stale", "output"},
        {"modle.width=8", "model.width"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        test_run r = test_request();
        char settings[256], path[128];

        snprintf(settings, sizeof settings, "%s", bad[i].settings);
        snprintf(path, sizeof path, "%s/%s", test_root, bad[i].settings + 5);
        if (strstr(settings, "SHORT") != NULL)
            test_write(path, "a few bytes");
        else if (strstr(settings, "EMPTY") != NULL)
            test_write(path, "");
        else if (strstr(settings, "FOLDER") != NULL)
            plumb_dir_make(path, NULL);
        if (strncmp(settings, "data=", 5) == 0 && settings[5] != '/')
            snprintf(settings, sizeof settings, "data=%s", path);
        test_go(&r, NULL, settings);
        CHECK(r.status == 3 && strstr(r.said, bad[i].word) != NULL, "%s gives %d: %s",
              settings, r.status, r.said);
        test_free(&r);
    }
    check_done("input that cannot be used");
}

/* A folder is its files in order of name. */
static void folder(void)
{
    test_run whole = test_plain("recipe=bf16"), parts = test_request();
    char path[200], settings[256];
    char *text = NULL;
    size_t size = 0;

    CHECK(plumb_file_read(test_text, 1 << 24, &text, &size, NULL) == PLUMB_OK, "no text");
    snprintf(path, sizeof path, "%s/parts", test_root);
    plumb_dir_make(path, NULL);
    snprintf(path, sizeof path, "%s/parts/b", test_root);
    plumb_file_write(path, text + size / 3, size - size / 3, NULL);
    snprintf(path, sizeof path, "%s/parts/a", test_root);
    plumb_file_write(path, text, size / 3, NULL);
    snprintf(settings, sizeof settings, "recipe=bf16 data=%s/parts", test_root);
    test_go(&parts, NULL, settings);
    CHECK(parts.status == 0 && test_differ(&whole, &parts) == 0, "%s", parts.said);
    free(text);
    test_free(&whole);
    test_free(&parts);
    check_done("a folder of texts");
}

/* Healthy recipes stay near bf16. */
static void recipes(void)
{
    static const char *const names[] = {"te-delayed", "te-current", "deepseek-v3"};
    test_run bf16 = test_request();

    bf16.request.stop_at = 30;
    test_go(&bf16, NULL, "recipe=bf16");
    for (int i = 0; i < 3; i++) {
        test_run r = test_request();
        char setting[64];

        r.request.stop_at = 30;
        snprintf(setting, sizeof setting, "recipe=%s", names[i]);
        test_go(&r, NULL, setting);
        CHECK(r.status == 0 && r.history.count == 30, "%s: %s", names[i], r.said);
        for (size_t j = 0; j < r.history.count; j++)
            CHECK(fabs(r.history.at[j].loss - bf16.history.at[j].loss) < 0.08,
                  "%s, step %zu: %g, bf16 %g", names[i], j + 1, r.history.at[j].loss,
                  bf16.history.at[j].loss);
        test_free(&r);
    }
    test_free(&bf16);
    check_done("recipes stay near bf16");
}

/* Operands with a scale for a row, for 32 and for 16 elements train like bf16.  The bounds are
 * twice the largest distance that was measured, which is the same on every machine.
 */
static void grains(void)
{
    static const struct {
        const char *use;
        double within;
    } cases[] = {{"e4m3:row", 0.0061},          {"e5m2:row:pow2", 0.026},
                 {"e4m3:mx32", 0.014},          {"fp16", 0.00087},
                 {"e3m2:mx32:mx-floor", 0.040}, {"e2m1:nvfp4", 0.085}};
    test_run bf16 = test_request();

    bf16.request.stop_at = 20;
    test_go(&bf16, NULL, "recipe=bf16");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_run r = test_request();
        char json[200];

        r.request.stop_at = 20;
        snprintf(json, sizeof json,
                 "[{\"sites\":[\"*/fprop/*\",\"*/dgrad/*\",\"*/wgrad/*\"],\"use\":\"%s\"}]",
                 cases[i].use);
        write_policy(&r, json);
        test_go(&r, NULL, "recipe=bf16");
        CHECK(r.status == 0 && r.history.count == 20, "%s: %s", cases[i].use, r.said);
        for (size_t j = 0; j < r.history.count; j++) {
            const double apart = fabs(r.history.at[j].loss - bf16.history.at[j].loss);

            CHECK(apart > 0 && apart < cases[i].within, "%s, step %zu: %g from bf16",
                  cases[i].use, j + 1, apart);
        }
        test_free(&r);
    }
    test_free(&bf16);
    check_done("row, mx32, nvfp4 and fp16 operands");
}

int main(void)
{
    test_begin();
    declaration();
    config_hash();
    metrics();
    policies();
    refused_policies();
    converted();
    factors();
    nonfinite();
    stop(true);
    stop(false);
    shadow();
    bad_input();
    folder();
    recipes();
    grains();
    test_end();
    return check_exit();
}
