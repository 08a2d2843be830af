/* Faults on scale states, gradients, ranks and moments change the numbers that they say and no others;
 * what should be there is worked out again here.
 */
#include <fnmatch.h>

#include "plant.h"

/* --- scale states --------------------------------------------------------------------------- */

enum { STEPS = 7, CALLS = 4 };

/* Of one site: decode scale, and pending amax before and after the fault, in each cast of a step. */
typedef struct record {
    size_t site;
    int64_t step;
    int calls;
    struct {
        float d, amax, kept;
    } at[STEPS + 1][CALLS];
    float newest[STEPS + 1]; /* amax of the history after the step */
} record;

static void note(plant_look *look, size_t index, const plant_cast *before,
                 const plumb_quantized *q, const plumb_scale_state *state)
{
    record *r = look->more;

    CHECK(
        plant_same_codes(before, &(plant_cast){.codes = q->codes, .bytes = before->bytes}),
        "codes of site %zu differ", index);
    if (index != r->site || !CHECK(r->calls < CALLS && state != NULL, "no state"))
        return;
    r->at[r->step][r->calls].d = q->d[0];
    r->at[r->step][r->calls].amax = look->pending;
    r->at[r->step][r->calls++].kept = state->pending;
}

static void record_run(const char *kind, bool faulty, const char *name, record *r)
{
    trainer *t = plant_example_make(kind, faulty);
    plant_look look = {.see = note, .more = r};

    *r = (record){0};
    while (strcmp(t->sites.at[r->site].name, name) != 0)
        r->site++;
    plant_look_at(&look, t);
    for (r->step = 1; r->step <= STEPS; r->step++) {
        r->calls = 0;
        plant_step(t);
        r->newest[r->step] = t->states[r->site].history[0];
    }
    plant_drop(t);
}

static bool about(float a, float b)
{
    return fabsf(a - b) <= 1e-6f * fabsf(b);
}

/* With the newest amax alone, a step decodes with the amax of the step before; a stale one with that of
 * two steps before.
 */
static void stale(void)
{
    record r;

    record_run("stale-scale", true, "layer.1/mlp.up/fprop/x", &r);
    for (int step = 2; step <= STEPS; step++) {
        const float amax = step == 2 ? r.newest[1] : r.newest[step - 2];

        CHECK(about(448 * r.at[step][0].d, amax), "step %d: amax %g, not %g", step,
              (double)(448 * r.at[step][0].d), (double)amax);
        CHECK(r.newest[step] != r.newest[step - 1], "amax does not move");
    }
    check_done("stale-scale");
}

/* Casts are those of ranks 0 0 1 1 and micro-batches 0 1 0 1. */
static void amax_of(const char *kind, const bool counts[CALLS])
{
    record r;

    record_run(kind, true, "layer.1/mlp.down/fprop/x", &r);
    for (int step = 1; step <= STEPS; step++) {
        float kept = -1;

        for (int call = 0; call < CALLS; call++) {
            if (counts[call] || step < PLANT_FROM)
                kept = fmaxf(kept, r.at[step][call].amax);
            CHECK(r.at[step][call].kept == kept, "%s: step %d, cast %d: %g, not %g", kind,
                  step, call, (double)r.at[step][call].kept, (double)kept);
        }
        CHECK(r.newest[step] == kept, "%s: step %d", kind, step);
    }
    check_done(kind);
}

static void clipped(void)
{
    record r;

    record_run("clipped-amax", true, "layer.1/mlp.up/dgrad/dy", &r);
    for (int step = 1; step <= STEPS; step++) {
        const float part = step < PLANT_FROM ? 1 : 0.125f;

        CHECK(r.at[step][0].kept == r.at[step][0].amax * part, "step %d", step);
        CHECK(r.newest[step] == r.at[step][0].kept, "step %d: history", step);
    }
    check_done("clipped-amax, delayed");
}

/* Until the first step after `from` both runs cast the same values. */
static void per_rank(void)
{
    record clean, faulty;
    int apart = 0;

    record_run("per-rank-scale", false, "layer.1/mlp.down/fprop/x", &clean);
    record_run("per-rank-scale", true, "layer.1/mlp.down/fprop/x", &faulty);
    CHECK(faulty.at[PLANT_FROM][1].kept == clean.at[PLANT_FROM][1].kept &&
              fmaxf(faulty.at[PLANT_FROM][1].kept, faulty.at[PLANT_FROM][3].kept) ==
                  clean.at[PLANT_FROM][3].kept,
          "the first step's amax");
    for (int step = PLANT_FROM + 1; step <= STEPS; step++) {
        for (int call = 0; call < CALLS; call++)
            CHECK(about(448 * faulty.at[step][call].d, faulty.at[step - 1][call | 1].kept),
                  "step %d, cast %d", step, call);
        apart += faulty.at[step][0].d != faulty.at[step][2].d;
        CHECK(clean.at[step][0].d == clean.at[step][2].d, "clean ranks differ");
    }
    CHECK(apart == STEPS - PLANT_FROM, "ranks differ in %d steps", apart);
    check_done("per-rank-scale");
}

/* --- gradients ------------------------------------------------------------------------------ */

/* Numbers in no order, none of them 0. */
static void fill(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = ((float)(seed >> 8) - 8388607.5f) * 0x1p-23f;
    }
}

static float *filled(const trainer *t, uint32_t seed)
{
    float *x = malloc(t->weight_count * sizeof *x);

    fill(x, t->weight_count, seed);
    return x;
}

/* x = was, but `factor` times as much in parameters whose name matches. */
static void scaled(const char *kind, const trainer *t, const float *x, const float *was,
                   const char *glob, float factor)
{
    for (size_t i = 0; i < t->parameter_count; i++) {
        const plumb_parameter *p = &t->parameters[i];
        const float by = fnmatch(glob, p->name, 0) == 0 ? factor : 1;
        size_t wrong = 0;

        for (size_t j = p->offset; j < p->offset + p->rows * p->cols; j++)
            wrong += x[j] != was[j] * by;
        CHECK(wrong == 0, "%s: %zu elements of %s", kind, wrong, p->name);
    }
}

static void gradient(const char *kind, size_t micro, const char *glob, float factor)
{
    trainer *t = plant_example_make(kind, true);
    float *was = filled(t, 1), *x = filled(t, 1);

    t->faults.step = PLANT_FROM - 1;
    t->faults.micro = micro;
    faults_gradient(t, x);
    scaled(kind, t, x, was, glob, 1);
    t->faults.step = PLANT_FROM;
    faults_gradient(t, x);
    scaled(kind, t, x, was, glob, factor);
    t->faults.micro = t->micro_batches == 1 ? 0 : 1 - micro;
    fill(x, t->weight_count, 1);
    faults_gradient(t, x);
    scaled(kind, t, x, was, glob, t->micro_batches == 1 ? factor : 1);
    free(was);
    free(x);
    plant_drop(t);
    check_done(kind);
}

/* --- ranks ------------------------------------------------------------------------------------ */

static void fill_shares(trainer *t, uint32_t seed)
{
    for (size_t rank = 0; rank < t->ranks; rank++) {
        fill(t->share[rank], t->weight_count, seed + (uint32_t)rank);
        for (size_t i = 0; i < t->weight_count; i++) /* another largest value each */
            t->share[rank][i] *= (float)(1 + rank);
    }
}

static void shares_at(trainer *t, int64_t step)
{
    t->faults.step = step;
    for (size_t i = 0; i < t->parameter_count; i++)
        faults_shares(t, i);
}

/* Rank 1's share of before, rank 0's as it is. */
static void stale_share(void)
{
    trainer *t = plant_example_make("stale-share", true);
    float *was[4] = {0};

    for (int step = PLANT_FROM - 2; step <= PLANT_FROM + 1; step++) {
        float **at = &was[step - PLANT_FROM + 2];

        fill_shares(t, 10 * (uint32_t)step);
        *at = malloc(t->weight_count * sizeof **at);
        memcpy(*at, t->share[1], t->weight_count * sizeof **at);
        shares_at(t, step);
        for (size_t i = 0; i < t->parameter_count; i++) {
            const plumb_parameter *p = &t->parameters[i];
            const bool hit = strncmp(p->name, "layer.1/", 8) == 0 && step >= PLANT_FROM;
            const float *want = was[step - PLANT_FROM + (hit ? 1 : 2)] + p->offset;

            CHECK(memcmp(t->share[1] + p->offset, want, p->rows * p->cols * sizeof *want) ==
                      0,
                  "step %d: %s", step, p->name);
        }
        float *zero = filled(t, 10 * (uint32_t)step);

        scaled("stale-share", t, t->share[0], zero, "*", 1);
        free(zero);
    }
    for (int i = 0; i < 4; i++)
        free(was[i]);
    plant_drop(t);
    check_done("stale-share");
}

static void dropped_rank(void)
{
    trainer *t = plant_example_make("dropped-rank", true);

    fill_shares(t, 1);
    float *zero = filled(t, 1), *one = malloc(t->weight_count * sizeof *one);

    memcpy(one, t->share[1], t->weight_count * sizeof *one);
    shares_at(t, PLANT_FROM - 1);
    scaled("dropped-rank", t, t->share[1], one, "*", 1);
    shares_at(t, PLANT_FROM);
    scaled("dropped-rank", t, t->share[1], one, "layer.1/*", 0);
    scaled("dropped-rank", t, t->share[0], zero, "*", 1);
    free(zero);
    free(one);
    plant_drop(t);
    check_done("dropped-rank");
}

static float largest(const float *x, size_t n)
{
    float most = 0;

    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(x[i]));
    return most;
}

static void unsynchronised(void)
{
    trainer *t = plant_example_make("unsynchronised-scale", true);

    fill_shares(t, 1);
    float *one = malloc(t->weight_count * sizeof *one);

    memcpy(one, t->share[1], t->weight_count * sizeof *one);
    shares_at(t, PLANT_FROM - 1);
    scaled("unsynchronised-scale", t, t->share[1], one, "*", 1);
    shares_at(t, PLANT_FROM);
    for (size_t i = 0; i < t->parameter_count; i++) {
        const plumb_parameter *p = &t->parameters[i];
        const size_t n = p->rows * p->cols;
        const float by = largest(t->share[0] + p->offset, n) / largest(one + p->offset, n);
        size_t wrong = 0;

        for (size_t j = p->offset; j < p->offset + n; j++)
            wrong += t->share[1][j] != one[j] * by;
        CHECK(wrong == 0 && by < 0.9f, "%s: %zu wrong, by %g", p->name, wrong, (double)by);
    }
    free(one);
    plant_drop(t);
    check_done("unsynchronised-scale");
}

/* Every rank's share of a tensor is that of another rank, or its own; the order changes with time. */
static void shuffled(void)
{
    trainer *t = plant_example_make("nondeterministic-reduction", true);
    bool moved = false;

    for (int trial = 0; trial < 20; trial++) {
        float first[MAX_RANKS];
        size_t of[MAX_RANKS] = {0};

        fill_shares(t, 1);
        for (size_t rank = 0; rank < t->ranks; rank++)
            first[rank] = t->share[rank][0];
        float *whole = malloc(t->ranks * t->weight_count * sizeof *whole);

        for (size_t rank = 0; rank < t->ranks; rank++)
            memcpy(whole + rank * t->weight_count, t->share[rank],
                   t->weight_count * sizeof *whole);
        shares_at(t, trial == 0 ? PLANT_FROM - 1 : PLANT_FROM);
        for (size_t rank = 0; rank < t->ranks; rank++) {
            const size_t n = t->parameters[0].rows * t->parameters[0].cols;

            for (size_t other = 0; other < t->ranks; other++) {
                if (t->share[rank][0] != first[other])
                    continue;
                of[other]++;
                moved |= other != rank;
                CHECK(trial > 0 || other == rank, "moved too early");
                CHECK(memcmp(t->share[rank], whole + other * t->weight_count,
                             n * sizeof *whole) == 0,
                      "a share is torn");
            }
        }
        for (size_t rank = 0; rank < t->ranks; rank++)
            CHECK(of[rank] == 1, "share %zu is there %zu times", rank, of[rank]);
        free(whole);
    }
    CHECK(moved, "nothing moved");
    plant_drop(t);
    check_done("nondeterministic-reduction");
}

static void average(void)
{
    trainer *t = plant_example_make("wrong-average", true);
    float *was = filled(t, 1);

    for (int64_t step = PLANT_FROM - 1; step <= PLANT_FROM; step++) {
        fill(t->share[0], t->weight_count, 1);
        t->faults.step = step;
        for (size_t i = 0; i < t->parameter_count; i++)
            faults_sum(t, i);
        scaled("wrong-average", t, t->share[0], was, "*",
               step < PLANT_FROM ? 1 : 2.0f / 3.0f);
    }
    free(was);
    plant_drop(t);
    check_done("wrong-average");
}

/* --- moments ------------------------------------------------------------------------------------ */

static float clip(float x, float most)
{
    const float limit = 0.01f * most;

    return x > limit ? limit : x < -limit ? -limit : x;
}

static float flush(float x, float most)
{
    return x > -0.05f * most && x < 0.05f * most ? 0 : x;
}

/* One bit behind the leading one: a whole number of halves of its power of two, to even. */
static float halves(float x, float most)
{
    float power = 1;

    (void)most;
    while (power > fabsf(x))
        power /= 2;
    const float in_halves = x / power * 2, down = floorf(in_halves),
                rest = in_halves - down;
    const bool up = rest > 0.5f || (rest == 0.5f && fmodf(down, 2) != 0);

    return (down + (up ? 1 : 0)) * power / 2;
}

static void moment(const char *kind, bool second, float want(float, float))
{
    trainer *t = plant_example_make(kind, true);
    float *was = filled(t, 1);

    for (t->step = PLANT_FROM - 1; t->step <= PLANT_FROM; t->step++) {
        fill(t->m, t->weight_count, 1);
        fill(t->v, t->weight_count, 1);
        faults_between(t);
        scaled(kind, t, second ? t->m : t->v, was, "*", 1); /* the other moment */
        for (size_t i = 0; i < t->parameter_count; i++) {
            const plumb_parameter *p = &t->parameters[i];
            const bool hit = strncmp(p->name, "layer.1/", 8) == 0 && t->step >= PLANT_FROM;
            const float *x = (second ? t->v : t->m) + p->offset, *from = was + p->offset;
            const float most = largest(from, p->rows * p->cols);
            size_t wrong = 0;

            for (size_t j = 0; j < p->rows * p->cols; j++)
                wrong += x[j] != (hit ? want(from[j], most) : from[j]);
            CHECK(wrong == 0, "%s: step %lld, %s: %zu wrong", kind, (long long)t->step,
                  p->name, wrong);
        }
    }
    free(was);
    plant_drop(t);
    check_done(kind);
}

/* --- memory ------------------------------------------------------------------------------------ */

static size_t records(bool faulty)
{
    trainer *t = plant_example_make("frozen-weight", faulty);
    plumb_memory memory;
    plumb_error why = {0};

    CHECK_OK(trainer_need(t, &memory, &why), why);
    plant_drop(t);
    return memory.bytes[PLUMB_MEMORY_RECORDS];
}

/* The example keeps the codes of one weight [64, 80], as both products read them. */
static void footprint(void)
{
    const size_t clean = records(false), faulty = records(true);

    CHECK(faulty >= clean + 2 * 64 * 80, "%zu bytes, %zu without faults", faulty, clean);
    check_done("memory of faults");
}

int main(void)
{
    static const bool last_micro_batch[CALLS] = {false, true, false, true};
    static const bool second_rank[CALLS] = {false, false, true, true};

    plant_begin();
    stale();
    amax_of("last-micro-batch-amax", last_micro_batch);
    amax_of("unreduced-amax", second_rank);
    clipped();
    per_rank();
    gradient("dropped-micro-batch", 1, "layer.1/mlp.up", 0);
    gradient("doubled-micro-batch", 0, "layer.1/mlp.up", 2);
    gradient("gradient-factor", 0, "layer.1/*[a-z].[!n]*", 16);
    stale_share();
    dropped_rank();
    unsynchronised();
    shuffled();
    average();
    moment("clipped-moment", true, clip);
    moment("flushed-moment", true, flush);
    moment("rounded-moment", false, halves);
    footprint();
    plant_end();
    return check_exit();
}
