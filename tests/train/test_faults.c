/* Planted faults act exactly where and when they should, and nowhere else: seen on the bytes and
 * scales of every operand site, step by step, beside a trainer without faults.
 */
#include "run.h"
#include "train/faults.h"

static trainer *make(const char *recipe, const char *planted)
{
    trainer *t = calloc(1, sizeof *t);
    const char *at[TEST_SETTINGS];
    char memory[512], path[128], text[1024];
    plumb_error why = {0};

    snprintf(path, sizeof path, "%s/faults.yaml", test_root);
    snprintf(text, sizeof text, "recipe: %s\n%s", recipe, planted);
    test_write(path, text);
    plumb_request_init(&t->request);
    const size_t count = test_settings("sensors.every=0", memory, at);

    CHECK_OK(settings_load(path, at, count, &t->settings, &why), why);
    CHECK_OK(trainer_create(t, &why), why);
    faults_start(t);
    return t;
}

static void drop(trainer *t)
{
    trainer_free(t);
    free(t);
}

static void step(trainer *t)
{
    step_result r;
    plumb_error why = {0};

    CHECK_OK(trainer_step(t, &r, &why), why);
}

static bool same_codes(const plumb_quantized *a, const plumb_quantized *b)
{
    const size_t bytes = a->format == PLUMB_FP32 ? 4 : a->format == PLUMB_BF16 ? 2 : 1;

    return memcmp(a->codes, b->codes, a->rows * a->cols * bytes) == 0;
}

/* Nothing in the small model is larger than a block. */
static size_t scales(const plumb_quantized *q)
{
    if (q->grain != PLUMB_GRAIN_1X128)
        return 1;
    return q->along_rows ? q->cols : q->rows;
}

/* In the step in which the fault begins, everything up to the faulty operand is still equal.  The last
 * layer's gradient is the first that the backward pass quantises, so only what comes after differs:
 * its scale is 16 times the other's, and the other operands of that linear are untouched.  (Codes
 * of activation gradients are gone by the end of a step: linears share their memory.)
 */
static void factor(const char *recipe)
{
    trainer *clean = make(recipe, "");
    trainer *faulty = make(recipe, "faults: [{kind: scale-factor, sites: "
                                   "layer.1/mlp.down/dgrad/dy, from: 3, factor: 16}]\n");
    const size_t target = PLUMB_ROLES * 7 + PLUMB_DGRAD_DY;

    CHECK(strcmp(clean->sites.at[target].name, "layer.1/mlp.down/dgrad/dy") == 0,
          "site is %s", clean->sites.at[target].name);
    step(clean);
    step(faulty);
    step(clean);
    step(faulty);
    CHECK(state_hash(clean) == state_hash(faulty), "the fault acts before its step");
    step(clean);
    step(faulty);
    CHECK(state_hash(clean) != state_hash(faulty), "the fault does not act");
    for (size_t i = 0; i < plumb_linear_site_count(&clean->shape); i++) {
        const plumb_quantized *a = plumb_model_quantized(clean->model, i);
        const plumb_quantized *b = plumb_model_quantized(faulty->model, i);
        const size_t role = i % PLUMB_ROLES;
        const bool before = role == PLUMB_FPROP_X || role == PLUMB_FPROP_W ||
                            role == PLUMB_DGRAD_W || role == PLUMB_WGRAD_X ||
                            i / PLUMB_ROLES >= 7;

        if (!before)
            continue;
        CHECK(role == PLUMB_DGRAD_DY || role == PLUMB_WGRAD_DY || same_codes(a, b),
              "codes of %s differ", clean->sites.at[i].name);
        for (size_t j = 0; a->d != NULL && j < scales(a); j++)
            CHECK(b->d[j] == a->d[j] * (i == target ? 16 : 1),
                  "scale %zu of %s: %g, clean %g", j, clean->sites.at[i].name,
                  (double)b->d[j], (double)a->d[j]);
    }
    drop(clean);
    drop(faulty);
    check_done(recipe);
}

/* A site without scales has nothing to multiply. */
static void factor_on_bf16(void)
{
    trainer *clean = make("bf16", "");
    trainer *faulty =
        make("bf16", "faults: [{kind: scale-factor, sites: \"*\", from: 1, factor: 16}]\n");

    step(clean);
    step(faulty);
    CHECK(state_hash(clean) == state_hash(faulty), "a bf16 operand was scaled");
    drop(clean);
    drop(faulty);
    check_done("scale-factor leaves bf16 alone");
}

static void frozen(void)
{
    trainer *t =
        make("te-delayed", "faults: [{kind: frozen-scale, sites: [\"layer.0/*/fprop/x\", "
                           "\"layer.1/mlp.up/wgrad/dy\"], from: 4}]\n");
    trainer *clean = make("te-delayed", "");
    plumb_scale_state *at = calloc(t->sites.operands, sizeof *at);
    size_t moved = 0;

    for (int i = 0; i < 3; i++) {
        step(t);
        step(clean);
    }
    CHECK(state_hash(t) == state_hash(clean), "the fault acts before its step");
    memcpy(at, t->states, t->sites.operands * sizeof *at);
    for (int i = 0; i < 6; i++) {
        step(t);
        for (size_t j = 0; j < t->sites.operands; j++) {
            const char *name = t->sites.at[j].name;
            const size_t owner = plumb_site_owner(&t->shape, t->sites.specs, j);
            /* wgrad/x shares its state with fprop/x, dgrad/dy with wgrad/dy. */
            const bool hit =
                (strncmp(name, "layer.0/", 8) == 0 && strstr(name, "/x") != NULL) ||
                (strstr(name, "layer.1/mlp.up/") != NULL && strstr(name, "/dy") != NULL);

            if (owner != j)
                continue;
            if (hit)
                CHECK(memcmp(&t->states[j], &at[j], sizeof at[j]) == 0, "%s moved", name);
            else if (t->states[j].scale != at[j].scale)
                moved++;
        }
    }
    CHECK(moved > 20, "only %zu other scales moved", moved);
    free(at);
    drop(t);
    drop(clean);
    check_done("frozen-scale");
}

/* The fault is part of the configuration, so a policy that casts back takes its effect away. */
static void healed(void)
{
    test_run clean = test_plain("recipe=te-current"), cast = test_request();
    test_run broken = test_request();
    char path[128], policy[4200], directory[4000];

    snprintf(path, sizeof path, "%s/heal.yaml", test_root);
    test_write(path, "recipe: te-current\nfaults: [{kind: scale-factor, sites: "
                     "layer.1/*/dgrad/dy, from: 3, factor: 16}]\n");
    if (getcwd(directory, sizeof directory) == NULL)
        return;
    snprintf(policy, sizeof policy, "%s/%s/heal.json", directory, test_root);
    test_write(policy,
               "[{\"sites\": \"layer.1/*/dgrad/dy\", \"use\": \"bf16\", \"raise\": true}]");
    test_go(&broken, path, "");
    cast.request.policy = strdup(policy);
    test_go(&cast, path, "");
    CHECK(test_differ(&clean, &broken) == 3, "the fault begins at step %lld",
          (long long)test_differ(&clean, &broken));
    CHECK(cast.status == 0 && test_differ(&clean, &cast) == 1, "%s", cast.said);
    CHECK(fabs(cast.history.at[7].loss - clean.history.at[7].loss) < 0.01,
          "cast back %g, clean %g", cast.history.at[7].loss, clean.history.at[7].loss);
    test_free(&clean);
    test_free(&cast);
    test_free(&broken);
    check_done("a cast back heals");
}

/* The sentence has the file, the key, and what is allowed. */
static void refused(const char *entry, const char *key, const char *allowed, int ranks)
{
    test_run r = test_request();
    char path[128], yaml[500];

    snprintf(path, sizeof path, "%s/bad.yaml", test_root);
    snprintf(yaml, sizeof yaml, "batch: {ranks: %d}\nfaults: [{%s}]\n", ranks, entry);
    test_write(path, yaml);
    test_go(&r, path, "");
    CHECK(r.status == 3 && strstr(r.said, "bad.yaml: faults[0]") != NULL &&
              strstr(r.said, key) != NULL && strstr(r.said, allowed) != NULL,
          "%s gives %d: %s", entry, r.status, r.said);
    test_free(&r);
}

static void refusals(void)
{
    static const char *const bad[][3] = {
        {"kind: melted, sites: \"*\", from: 1", ".kind is 'melted'", "allowed: the"},
        {"kind: frozen-sclae, sites: \"*\", from: 1", ".kind is 'frozen-sclae'",
         "'frozen-scale'"},
        {"sites: \"*\", from: 1", ".kind is missing", "docs/faults.md"},
        {"kind: frozen-scale, sites: \"*\", from: 0", ".from is 0", "from 1 to"},
        {"kind: frozen-scale, sites: \"*\", from: 1.5", ".from is 1.5", "a whole number"},
        {"kind: frozen-scale, sites: \"*\"", ".from is missing", "from 1 to"},
        {"kind: frozen-scale, sites: \"*\", from: 1, factor: 2", "no key 'factor'",
         "allowed: kind, sites, from"},
        {"kind: frozen-scale, from: 1", ".sites is missing", "a glob or a list"},
        {"kind: frozen-scale, sites: \"layer.9/*\", from: 1", ".sites matches no",
         "operand of a product"},
        {"kind: dropped-rank, sites: \"*/fprop/x\", from: 1, rank: 1", ".sites matches no",
         "collective/grad"},
        {"kind: dropped-rank, sites: \"*\", from: 1, rank: 2", ".rank is 2", "from 0 to 1"},
        {"kind: dropped-micro-batch, sites: \"*\", from: 1, micro_batch: 1",
         ".micro_batch is 1", "from 0 to 0"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(bad[i][0], bad[i][1], bad[i][2], 2);
    refused("kind: dropped-rank, sites: \"*\", from: 1, rank: 0",
            "kind dropped-rank needs batch.ranks", "at least 2, which is 1", 1);
    check_done("faults that cannot be planted");
}

/* One parameter of a kind out of its range, or missing; the others at their least. */
static void spoil(const fault_kind *kind, size_t which, const char *value,
                  const char *allowed)
{
    char entry[300], key[40];

    snprintf(entry, sizeof entry, "kind: %s, sites: \"*\", from: 1", kind->name);
    for (size_t i = 0; i < FAULT_PARAMETERS && kind->parameters[i].name != NULL; i++) {
        const size_t used = strlen(entry);

        if (i == which && value != NULL)
            snprintf(entry + used, sizeof entry - used, ", %s: %s",
                     kind->parameters[i].name, value);
        else if (i != which)
            snprintf(entry + used, sizeof entry - used, ", %s: %.9g",
                     kind->parameters[i].name, kind->parameters[i].least);
    }
    snprintf(key, sizeof key, ".%s is ", kind->parameters[which].name);
    refused(entry, key, allowed, 2);
}

static void ranges(void)
{
    for (size_t k = 0; fault_kind_at(k) != NULL; k++) {
        const fault_kind *kind = fault_kind_at(k);

        for (size_t i = 0; i < FAULT_PARAMETERS && kind->parameters[i].name != NULL; i++) {
            const fault_parameter *p = &kind->parameters[i];
            char low[40], high[40];

            snprintf(low, sizeof low, "%.17g", p->least < 0 ? p->least * 2 : p->least - 1);
            snprintf(high, sizeof high, "%.17g", p->most * 2);
            spoil(kind, i, low, "allowed: a ");
            spoil(kind, i, high, "allowed: a ");
            spoil(kind, i, "many", "is no number; allowed: a ");
            if (isnan(p->fallback))
                spoil(kind, i, NULL, "is missing; allowed: a ");
            if (p->whole)
                spoil(kind, i, "0.5", "a whole number");
        }
    }
    check_done("parameters of each kind");
}

int main(void)
{
    test_begin();
    /* Processes first: a run in this one starts threads, and fork does not take them along. */
    healed();
    refusals();
    ranges();
    factor("te-current");
    factor("deepseek-v3");
    factor_on_bf16();
    frozen();
    test_end();
    return check_exit();
}
