/* Trainers with planted faults for tests: the run files are the examples of docs/faults.md, with a
 * small model, and every cast of a step can be looked at before and after the fault.
 */
#ifndef PLUMB_TEST_PLANT_H
#define PLUMB_TEST_PLANT_H

#include "run.h"
#include "train/faults.h"

enum { PLANT_FROM = 3, PLANT_MODEL = 9 };

static char *plant_docs; /* the page */

static inline void plant_begin(void)
{
    char path[512];
    size_t size;

    test_begin();
    snprintf(path, sizeof path, "%s/docs/faults.md", getenv("PLUMB_SOURCE_DIR"));
    if (plumb_file_read(path, 1 << 20, &plant_docs, &size, NULL) != PLUMB_OK)
        exit(2);
}

static inline void plant_end(void)
{
    free(plant_docs);
    test_end();
}

/* The example of a kind, as text; false if the page has none. */
static inline bool plant_example(const char *kind, char *text, size_t size)
{
    char wanted[80];

    snprintf(wanted, sizeof wanted, "- kind: %s\n", kind);
    for (const char *at = strstr(plant_docs, "```yaml\n"); at != NULL;
         at = strstr(at, "```yaml\n")) {
        const char *end = strstr(at += 8, "```");
        const char *found = strstr(at, wanted);

        if (end == NULL)
            break;
        if (found != NULL && found < end) {
            snprintf(text, size, "%.*s", (int)(end - at), at);
            return true;
        }
        at = end;
    }
    return false;
}

static inline void plant_model(const char *at[PLANT_MODEL], char data[128])
{
    static const char *const base[] = {
        "model.layers=2",   "model.width=64",     "model.heads=2",      "model.ff=80",
        "model.context=16", "optimizer.steps=40", "optimizer.warmup=4", "sensors.every=0"};

    snprintf(data, 128, "data=%s", test_text);
    for (int i = 0; i < PLANT_MODEL - 1; i++)
        at[i] = base[i];
    at[PLANT_MODEL - 1] = data;
}

/* A trainer of this run file, with its faults or without, under a policy (NULL: none). */
static inline trainer *plant_make(const char *yaml, bool faulty, const char *policy)
{
    trainer *t = calloc(1, sizeof *t);
    const char *at[PLANT_MODEL];
    char data[128], path[128];
    plumb_error why = {0};

    snprintf(path, sizeof path, "%s/plant.yaml", test_root);
    test_write(path, yaml);
    plumb_request_init(&t->request);
    if (policy != NULL)
        t->request.policy = strdup(policy);
    plant_model(at, data);
    CHECK_OK(settings_load(path, at, PLANT_MODEL, &t->settings, &why), why);
    if (!faulty) {
        json_decref(t->settings.faults);
        t->settings.faults = NULL;
    }
    CHECK_OK(trainer_create(t, &why), why);
    faults_start(t);
    return t;
}

static inline trainer *plant_example_make(const char *kind, bool faulty)
{
    char yaml[2000];

    CHECK(plant_example(kind, yaml, sizeof yaml), "the docs have no example of %s", kind);
    return plant_make(yaml, faulty, NULL);
}

static inline void plant_drop(trainer *t)
{
    trainer_free(t);
    free(t);
}

/* The state hash after one step more. */
static inline uint64_t plant_step(trainer *t)
{
    step_result r;
    plumb_error why = {0};

    CHECK_OK(trainer_step(t, &r, &why), why);
    return r.state_hash;
}

/* --- casts, before and after the fault ---------------------------------------------------- */

/* One operand as a hook saw it. */
typedef struct plant_cast {
    plumb_quantized q;
    unsigned char *codes;
    float *d;
    size_t bytes, scales;
} plant_cast;

typedef struct plant_look {
    trainer *t;
    /* Told of every cast. */
    void (*see)(struct plant_look *look, size_t index, const plant_cast *before,
                const plumb_quantized *after, const plumb_scale_state *state);
    float pending; /* of the state before the fault saw it */
    void *more;
    size_t changed, casts;
} plant_look;

static inline plant_cast plant_copy(const plumb_quantized *q)
{
    plant_cast c = {.q = *q,
                    .bytes = q->rows * q->cols * (size_t)plumb_format_get(q->format)->bytes,
                    .scales = plumb_quantized_scale_count(q)};

    c.codes = malloc(c.bytes);
    c.d = malloc((c.scales + 1) * sizeof *c.d);
    for (size_t i = 0, each = c.bytes / q->rows; i < q->rows; i++)
        memcpy(c.codes + i * each, (unsigned char *)q->codes + i * (each / q->cols) * q->ld,
               each);
    if (c.scales > 0)
        memcpy(c.d, q->d, c.scales * sizeof *c.d);
    c.q.codes = c.codes;
    c.q.ld = q->cols;
    c.q.d = c.scales > 0 ? c.d : NULL;
    return c;
}

static inline void plant_copy_free(plant_cast *c)
{
    free(c->codes);
    free(c->d);
}

static inline bool plant_same_codes(const plant_cast *a, const plant_cast *b)
{
    return a->bytes == b->bytes && memcmp(a->codes, b->codes, a->bytes) == 0;
}

static inline bool plant_same_scales(const plant_cast *a, const plant_cast *b)
{
    return a->scales == b->scales &&
           (a->scales == 0 || memcmp(a->d, b->d, a->scales * sizeof *a->d) == 0) &&
           a->q.d_tensor == b->q.d_tensor;
}

static inline void plant_hook(void *context, size_t index, plumb_quantized *q,
                              plumb_scale_state *state)
{
    plant_look *look = context;
    plant_cast before = plant_copy(q);

    look->pending = state == NULL ? 0 : state->pending;
    look->casts++;
    faults_hook(look->t, index, q, state);
    look->see(look, index, &before, q, state);
    plant_copy_free(&before);
}

/* Puts the look before the trainer's own hook. */
static inline void plant_look_at(plant_look *look, trainer *t)
{
    plumb_model_setup setup = trainer_model(t);
    plumb_error why = {0};

    look->t = t;
    setup.hook = plant_hook;
    setup.hook_context = look;
    plumb_model_free(&t->model);
    CHECK_OK(plumb_model_create(&setup, &t->model, &why), why);
}

#endif
