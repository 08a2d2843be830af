/* Every kind of fault in the table, by its example in docs/faults.md: nothing moves before it begins,
 * something does then, nothing does where the policy has cast its sites back, and a run that is stopped
 * and resumed goes on with the same bits.  The page has the table as the program has it.
 */
#include "plant.h"

enum { STEPS = 8 };

static void hashes(trainer *t, uint64_t hash[STEPS + 1])
{
    for (int i = 1; i <= STEPS; i++)
        hash[i] = plant_step(t);
    plant_drop(t);
}

static int first_difference(const uint64_t a[], const uint64_t b[])
{
    int step = 1;

    while (step <= STEPS && a[step] == b[step])
        step++;
    return step;
}

/* The scale that step `from` uses is part of the state that the step before leaves behind. */
static int first_allowed(const fault_kind *kind)
{
    return strcmp(kind->name, "stale-scale") == 0 ? PLANT_FROM - 1 : PLANT_FROM;
}

static void begins(const fault_kind *kind, const char *yaml)
{
    uint64_t clean[STEPS + 1], faulty[STEPS + 1];

    hashes(plant_make(yaml, false, NULL), clean);
    hashes(plant_make(yaml, true, NULL), faulty);
    const int step = first_difference(clean, faulty);

    CHECK(step >= first_allowed(kind) && step <= STEPS, "%s: first difference at step %d",
          kind->name, step);
    if (kind->word == NULL)
        CHECK(step <= PLANT_FROM + 1, "%s: begins at step %d", kind->name, step);
}

static void healed(const fault_kind *kind, const char *yaml)
{
    char path[128], glob[100], policy[300];
    uint64_t clean[STEPS + 1], faulty[STEPS + 1];
    const char *at = strstr(strstr(yaml, "faults:"), "sites: \"");

    if (!CHECK(at != NULL && sscanf(at, "sites: \"%90[^\"]\"", glob) == 1, "%s: no sites",
               kind->name))
        return;
    snprintf(path, sizeof path, "%s/heal.json", test_root);
    snprintf(policy, sizeof policy,
             "[{\"sites\": \"%s\", \"use\": \"bf16\", \"raise\": true}]", glob);
    test_write(path, policy);
    hashes(plant_make(yaml, false, path), clean);
    hashes(plant_make(yaml, true, path), faulty);
    CHECK(first_difference(clean, faulty) > STEPS, "%s: not healed at step %d", kind->name,
          first_difference(clean, faulty));
}

static test_run go(const char *yaml, int64_t checkpoint, const char *resume)
{
    test_run r = test_request();
    const char *at[PLANT_MODEL];
    char path[128], data[128], more[600] = "batch.sequences=8 ";

    snprintf(path, sizeof path, "%s/run.yaml", test_root);
    test_write(path, yaml);
    plant_model(at, data);
    r.request.stop_at = STEPS;
    if (resume != NULL) {
        r.request.start = strdup(resume);
    } else {
        r.request.checkpoint_at = malloc(sizeof checkpoint);
        *r.request.checkpoint_at = checkpoint;
        r.request.checkpoint_count = 1;
    }
    for (int i = 0; i < PLANT_MODEL; i++)
        snprintf(more + strlen(more), sizeof more - strlen(more), "%s ", at[i]);
    test_go(&r, path, more);
    CHECK(r.status == 0, "status %d: %s", r.status, r.said);
    return r;
}

/* A loss that is no number ends a run, and both alike. */
static void resumes_at(const fault_kind *kind, const char *yaml, int64_t at)
{
    test_run whole = go(yaml, at, NULL);
    char ref[4400], cwd[4000];

    if (getcwd(cwd, sizeof cwd) != NULL && whole.history.count > (size_t)at) {
        snprintf(ref, sizeof ref, "%s/%s/checkpoints/step-%lld", cwd, whole.dir,
                 (long long)at);
        test_run rest = go(yaml, -1, ref);

        CHECK(rest.history.count == whole.history.count - (size_t)at, "%s: %zu steps",
              kind->name, rest.history.count);
        CHECK(test_differ(&rest, &whole) == 0, "%s: resumed at %lld, differs at step %lld",
              kind->name, (long long)at, (long long)test_differ(&rest, &whole));
        test_free(&rest);
    }
    test_free(&whole);
}

static void resumes(const fault_kind *kind, const char *yaml)
{
    resumes_at(kind, yaml, PLANT_FROM - 1);
    resumes_at(kind, yaml, PLANT_FROM + 1);
}

/* --- the page ----------------------------------------------------------------------------- */

static void parameters(const fault_kind *kind, char *text, size_t size)
{
    *text = 0;
    for (int i = 0; i < FAULT_PARAMETERS && kind->parameters[i].name != NULL; i++) {
        const fault_parameter *p = &kind->parameters[i];
        size_t used = strlen(text);

        used += (size_t)snprintf(text + used, size - used, "%s`%s` (%s", i > 0 ? ", " : "",
                                 p->name, p->meaning);
        if (p->bound == FAULT_FREE)
            used +=
                (size_t)snprintf(text + used, size - used, "; %g to %g", p->least, p->most);
        if (!isnan(p->fallback))
            used += (size_t)snprintf(text + used, size - used, "; default %g", p->fallback);
        snprintf(text + used, size - used, ")");
    }
}

static void in_the_docs(const fault_kind *kind)
{
    char said[400], line[1500];

    parameters(kind, said, sizeof said);
    snprintf(line, sizeof line, "| `%s` | %s | %s | %s | [source](%s) |\n", kind->name,
             kind->acts, said, kind->models, kind->source);
    CHECK(strstr(plant_docs, line) != NULL, "docs/faults.md lacks the line\n%s", line);
}

int main(void)
{
    char yaml[2000];
    const fault_kind *kind;
    size_t count = 0;

    plant_begin();
    for (; (kind = fault_kind_at(count)) != NULL; count++) {
        in_the_docs(kind);
        CHECK(plant_example(kind->name, yaml, sizeof yaml), "no example of %s", kind->name);
    }
    CHECK(count >= 20, "only %zu kinds", count);
    check_done("the page");
    /* Processes first: a run in this one starts threads, and fork does not take them along. */
    for (size_t i = 0; (kind = fault_kind_at(i)) != NULL; i++) {
        if (strcmp(kind->name, "nondeterministic-reduction") != 0 &&
            plant_example(kind->name, yaml, sizeof yaml))
            resumes(kind, yaml);
    }
    check_done("stop and resume");
    for (size_t i = 0; (kind = fault_kind_at(i)) != NULL; i++) {
        if (!plant_example(kind->name, yaml, sizeof yaml))
            continue;
        begins(kind, yaml);
        healed(kind, yaml);
    }
    check_done("begin and heal");
    plant_end();
    return check_exit();
}
