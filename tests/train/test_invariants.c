/* Invariants that the trainer looks at: each kind of planted fault breaks those, and only those, that the
 * table says, at its sites and not before its step; runs without a fault break none, whatever they
 * run in; and the run's bits are those of one that is not looked at.
 */
#include "plant.h"

static const char mean[] = "the gradient is the mean of its parts";
static const char held[] = "what is stored is what was computed";
static const char positive[] = "second moments are not negative";
static const char bounded[] = "Adam's step is bounded";
static const char scale[] = "the scale is that of its rule";
static const char decoded[] = "the largest value is decoded as such";
static const char weight[] = "the codes of a weight are that weight's";

enum { MOST = 3, BROKEN_STEPS = 20 };

/* What the example of docs/faults.md breaks within some steps; all that is not here breaks nothing. */
static const struct {
    const char *kind;
    const char *breaks[MOST];
    bool by_chance; /* only where an element that is hit is looked at */
} table[] = {
    {"frozen-scale", {scale}, false},
    {"stale-scale", {scale}, false},
    {"per-rank-scale", {scale}, false},
    {"unreduced-amax", {scale}, false},
    {"last-micro-batch-amax", {scale}, false},
    {"scale-factor", {scale, decoded}, false},
    {"transposed-scales", {decoded, weight}, false},
    {"shifted-scales", {decoded}, false},
    {"zeroed-columns", {weight}, false},
    {"bit-flip", {weight}, true},
    {"flushed-subnormals", {weight}, true},
    {"inflated-amax", {scale, decoded}, false},
    {"clipped-amax", {scale}, false},
    {"stale-copy", {scale, decoded}, false},
    {"stale-decode-scale", {scale, decoded}, false},
    {"cached-weight", {weight}, false},
    {"frozen-weight", {scale, decoded, weight}, false},
    {"scale-floor", {scale}, false},
    {"floor-rounded-scale", {scale}, false},
    {"unsaturated-cast", {NULL}, false},
    {"truncating-cast", {decoded, weight}, false},
    {"stale-delta", {NULL}, false},
    {"dropped-micro-batch", {mean}, false},
    {"doubled-micro-batch", {mean}, false},
    {"gradient-factor", {mean}, false},
    {"dropped-rank", {mean}, false},
    {"stale-share", {mean}, false},
    {"unsynchronised-scale", {mean}, false},
    {"nondeterministic-reduction", {NULL}, false},
    {"wrong-average", {mean}, false},
    {"clipped-moment", {held}, false},
    {"flushed-moment", {held}, false},
    {"rounded-moment", {held}, false},
};
enum { KINDS = sizeof table / sizeof *table };

static const char *word(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));

    return text == NULL ? "" : text;
}

/* The events of a run file with these settings; NULL: none said.  Sensors are on, every second step. */
static json_t *broken_by(const char *yaml, const char *more)
{
    test_run r = test_request();
    json_t *events = NULL;
    char path[128];

    snprintf(path, sizeof path, "%s/invariants.yaml", test_root);
    test_write(path, yaml);
    r.request.stop_at = BROKEN_STEPS;
    r.request.observe_every = 2;
    test_go(&r, path, more);
    CHECK(r.status == 0, "%s %s: status %d: %s", yaml, more, r.status, r.said);
    CHECK(plumb_events_read_ranks(r.dir, "invariant", &events, NULL) == PLUMB_OK, "%s",
          yaml);
    test_free(&r);
    return events;
}

/* --- with a fault --------------------------------------------------------------------------- */

static bool is_in(const char *name, const char *const *names)
{
    for (int i = 0; i < MOST && names[i] != NULL; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static int count_of(const json_t *events, const char *name)
{
    int count = 0;

    for (size_t i = 0; i < json_array_size(events); i++)
        count += strcmp(word(json_array_get(events, i), "name"), name) == 0;
    return count;
}

/* No event twice; the most of one name in a step. */
static int most_in_a_step(const json_t *events, const char *what)
{
    int most = 0;

    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *a = json_array_get(events, i);
        int same = 1;

        /* The events of a step stand together. */
        for (size_t j = i + 1; j < json_array_size(events); j++) {
            const json_t *b = json_array_get(events, j);

            if (!json_equal(json_object_get(a, "step"), json_object_get(b, "step")))
                break;
            if (strcmp(word(a, "name"), word(b, "name")) != 0)
                continue;
            same++;
            CHECK(strcmp(word(a, "site"), word(b, "site")) != 0, "%s: twice: %s", what,
                  word(a, "site"));
        }
        most = same > most ? same : most;
    }
    return most;
}

static void kind(size_t number)
{
    char yaml[2000];

    CHECK(plant_example(table[number].kind, yaml, sizeof yaml), "no example of %s",
          table[number].kind);
    json_t *events = broken_by(yaml, "model.width=64 model.ff=80 batch.sequences=8");

    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        const json_int_t step = json_integer_value(json_object_get(event, "step"));

        CHECK(is_in(word(event, "name"), table[number].breaks), "%s breaks '%s' at %s",
              table[number].kind, word(event, "name"), word(event, "site"));
        CHECK(step >= PLANT_FROM, "%s: step %lld", table[number].kind, (long long)step);
        CHECK(!json_equal(json_object_get(event, "value"), json_object_get(event, "bound")),
              "%s: the value is the bound", table[number].kind);
    }
    for (int i = 0; i < MOST && table[number].breaks[i] != NULL; i++)
        CHECK(table[number].by_chance || count_of(events, table[number].breaks[i]) > 0,
              "%s does not break '%s'", table[number].kind, table[number].breaks[i]);
    most_in_a_step(events, table[number].kind);
    json_decref(events);

    char *planted = strstr(yaml, "faults:");

    if (planted != NULL)
        *planted = 0;
    events = broken_by(yaml, "model.width=64 model.ff=80 batch.sequences=8");
    CHECK(json_array_size(events) == 0, "without %s: '%s' at %s", table[number].kind,
          word(json_array_get(events, 0), "name"), word(json_array_get(events, 0), "site"));
    json_decref(events);
}

static void kinds(void)
{
    size_t all = 0;

    while (fault_kind_at(all) != NULL)
        all++;
    CHECK(all == KINDS, "%zu kinds of faults, %d in the table", all, (int)KINDS);
    for (size_t i = 0; i < KINDS; i++)
        kind(i);
    check_done("what each kind of fault breaks, and nothing without it");
}

/* A fault of everything is not a flood of events. */
static void many_sites(void)
{
    char yaml[2000];

    CHECK(plant_example("wrong-average", yaml, sizeof yaml), "no example");
    json_t *events = broken_by(yaml, "model.layers=3 batch.sequences=8");
    const int most = most_in_a_step(events, "wrong-average");

    CHECK(most == 16, "%d events of a name in a step", most);
    json_decref(events);
    check_done("a bounded number of events");
}

/* --- without one ------------------------------------------------------------------------------ */

static void healthy(const char *yaml, const char *more)
{
    json_t *events = broken_by(yaml, more);
    const json_t *first = json_array_get(events, 0);

    CHECK(json_array_size(events) == 0, "%s %s: %zu, first '%s' at %s: %s", yaml, more,
          json_array_size(events), word(first, "name"), word(first, "site"),
          word(first, "value"));
    json_decref(events);
}

static void presets(void)
{
    for (size_t i = 0; i < plumb_preset_count; i++) {
        char yaml[100];

        snprintf(yaml, sizeof yaml, "recipe: %s\n", plumb_presets[i].name);
        healthy(yaml, "batch.micro_batches=2 batch.ranks=2");
    }
    check_done("no preset breaks an invariant");
}

/* The three bases of `plumb demo --all`, and what its decoys do to the data. */
static void bases(void)
{
    static const char *const operands[] = {
        "recipe: te-current\nrules:\n"
        "  - {sites: [\"*/fprop/*\", \"*/dgrad/w\", \"*/wgrad/x\"], use: \"e4m3\"}\n"
        "  - {sites: \"*/dy\", use: \"e5m2\"}\n",
        "recipe: te-delayed\nrules:\n"
        "  - {sites: [\"*/fprop/*\", \"*/dgrad/w\", \"*/wgrad/x\"], use: "
        "\"e4m3:delayed:history=16:margin=3:overflow\"}\n"
        "  - {sites: \"*/dy\", use: \"e5m2:delayed:history=16:margin=3\"}\n",
        "recipe: te-current\nrules:\n"
        "  - {sites: [\"*/fprop/*\", \"*/dgrad/*\", \"*/wgrad/*\"], use: \"e4m3:mx32\"}\n"};
    static const char *const data[] = {
        "batch.ranks=1", "batch.poison_at=6 batch.poison_steps=4", "batch.restart_at=7"};

    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++) {
        char yaml[800], more[200];

        snprintf(yaml, sizeof yaml,
                 "%s  - {sites: \"*/optimizer/m\", use: \"e4m3:1x128\"}\n"
                 "  - {sites: [\"*/optimizer/v\", \"*/collective/grad\"], use: \"e5m2\"}\n",
                 operands[i]);
        snprintf(more, sizeof more, "batch.micro_batches=2 batch.ranks=2 %s", data[i]);
        healthy(yaml, "batch.micro_batches=2 batch.ranks=2");
        healthy(yaml, more);
    }
    check_done("no base and no decoy of the demo breaks an invariant");
}

/* Every way to round a state, and to add up ranks. */
static void states(void)
{
    static const char *const stored[] = {"e4m3:none", "e4m3:mx32:mx-floor",
                                         "bf16:stochastic", "e2m1:nvfp4",
                                         "e5m2:128x128:toward-zero"};
    static const char *const orders[] = {"sequential", "ring", "tree", "pairwise"};
    static const char *const wires[] = {"fp32", "e5m2", "e4m3:stochastic", "e4m3:none"};

    for (size_t i = 0; i < sizeof stored / sizeof *stored; i++) {
        char yaml[200];

        snprintf(yaml, sizeof yaml, "rules: [{sites: \"*/optimizer/*\", use: \"%s\"}]\n",
                 stored[i]);
        healthy(yaml, i % 2 == 0 ? "" : "optimizer.update_from=unrounded");
    }
    for (size_t i = 0; i < 4; i++) {
        char yaml[200], more[200];

        snprintf(yaml, sizeof yaml,
                 "rules: [{sites: \"*/collective/grad\", use: \"%s\"}]\n", wires[i]);
        snprintf(more, sizeof more, "batch.ranks=4 reduce.order=%s reduce.headroom=%s",
                 orders[(i + 1) % 4], i % 2 == 0 ? "none" : "ranks");
        healthy(yaml, more);
        snprintf(more, sizeof more, "batch.ranks=4 reduce.order=%s reduce.scale=own",
                 orders[i]);
        healthy("rules: [{sites: \"*/collective/grad\", use: \"e4m3:1x128\"}]\n", more);
    }
    check_done("no way to store or to add up breaks an invariant");
}

/* A resumed run knows nothing of what was before, and moments that were in few bits may be anything. */
static void resumed(void)
{
    test_run first = test_request(), second = test_request();
    json_t *events = NULL;
    int64_t at[] = {5};

    first.request.checkpoint_at = at;
    first.request.checkpoint_count = 1;
    test_go(
        &first, NULL,
        "recipe=te-delayed rules=[{\"sites\":\"*/optimizer/v\",\"use\":\"e5m2:none\"}]");
    first.request.checkpoint_at = NULL;
    first.request.checkpoint_count = 0;
    plumb_events_read(first.dir, &events, NULL, NULL);
    const char *ref = word(test_event(events, "checkpoint"), "ref");
    char path[4200];

    if (getcwd(path, sizeof path - 100) == NULL)
        return;
    snprintf(path + strlen(path), 100, "/%s/policy.json", test_root);
    test_write(path, "[{\"sites\": \"*/optimizer/*\", \"use\": \"fp32\"}]");
    second.request.start = strdup(ref);
    second.request.policy = strdup(path);
    second.request.observe_every = 1;
    test_go(
        &second, NULL,
        "recipe=te-delayed rules=[{\"sites\":\"*/optimizer/v\",\"use\":\"e5m2:none\"}]");
    CHECK(second.status == 0 && second.history.count == 3, "status %d: %s, %zu steps",
          second.status, second.said, second.history.count);
    json_decref(events);
    plumb_events_read_ranks(second.dir, "invariant", &events, NULL);
    CHECK(json_array_size(events) == 0, "%s", word(json_array_get(events, 0), "name"));
    json_decref(events);
    test_free(&first);
    test_free(&second);
    check_done("a resumed run in wider moments");
}

/* --- what no kind of fault breaks ------------------------------------------------------------- */

/* A run in this process, whose second moments are changed before step 4. */
static json_t *tampered(float to, const char *directory)
{
    trainer *t = calloc(1, sizeof *t);
    const char *at[PLANT_MODEL];
    char data[128];
    json_t *events = NULL;
    plumb_error why = {0};
    step_result r;

    plumb_request_init(&t->request);
    plant_model(at, data);
    CHECK_OK(settings_load(NULL, at, PLANT_MODEL, &t->settings, &why), why);
    t->settings.sensors_every = 5;
    free(t->settings.out);
    t->settings.out = strdup(directory);
    CHECK_OK(trainer_create(t, &why), why);
    CHECK_OK(run_open(t, &why), why);
    faults_start(t);
    for (int step = 1; step <= 5; step++) {
        for (size_t i = 0; step == 4 && i < 10; i++)
            t->v[t->parameters[2].offset + i] = to;
        CHECK_OK(run_step(t, &r, &why), why);
    }
    plumb_run_end(&t->run, "reached", 5, NULL);
    plumb_events_read_ranks(directory, "invariant", &events, NULL);
    trainer_free(t);
    free(t);
    return events;
}

static void moments(void)
{
    static const float to[] = {-1e-2F, 1e-18F};
    const char *const breaks[] = {positive, bounded};

    for (int i = 0; i < 2; i++) {
        char directory[128];

        snprintf(directory, sizeof directory, "%s/tampered-%d", test_root, i);
        json_t *events = tampered(to[i], directory);
        const json_t *first = json_array_get(events, 0);

        CHECK(count_of(events, breaks[i]) > 0, "%g breaks nothing", (double)to[i]);
        CHECK(json_integer_value(json_object_get(first, "step")) == 4 &&
                  strstr(word(first, "site"), "/optimizer/v") != NULL,
              "%s at step %lld", word(first, "site"),
              (long long)json_integer_value(json_object_get(first, "step")));
        json_decref(events);
    }
    check_done("second moments that cannot be");
}

int main(void)
{
    plant_begin();
    kinds();
    many_sites();
    presets();
    bases();
    states();
    resumed();
    moments();
    plant_end();
    return check_exit();
}
