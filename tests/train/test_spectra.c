/* What the trainer writes into spectra-rank00000.pls, against the tensors themselves, which are counted
 * here one by one with frexp: weights, activations, gradients and moments of runs in fp32, where the
 * codes of a site are what entered it.  Runs in few bits have the same first step, whole counts, and the
 * same file for any number of threads.
 */
#include "run.h"
#include "train/train.h"

/* --- the oracle --------------------------------------------------------------------------- */

/* bins[e + 200] of values with 2^e <= |x| < 2^(e+1). */
typedef struct lie {
    double bins[400];
} lie;

static void count(lie *l, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int exponent;

        if (x[i] == 0 || !isfinite(x[i]))
            continue;
        frexp((double)x[i], &exponent); /* 0.5 <= fraction < 1 */
        l->bins[exponent - 1 + 200]++;
    }
}

static void check_row(const plumb_histogram *h, const lie *l, const char *what)
{
    double below = 0;

    if (!CHECK(h != NULL, "%s: no row", what))
        return;
    for (int e = -200; e < 200; e++) {
        const int k = e - h->first;

        if (k <= 0)
            below += l->bins[e + 200];
        else if (k < PLUMB_BINS)
            CHECK((double)h->bin[k] == l->bins[e + 200], "%s: %g values from 2^%d, not %g",
                  what, (double)h->bin[k], e, l->bins[e + 200]);
        else
            CHECK(l->bins[e + 200] == 0, "%s: values from 2^%d are in no bin", what, e);
    }
    CHECK((double)h->bin[0] == below, "%s: first bin %g, not %g", what, (double)h->bin[0],
          below);
}

static const plumb_histogram *row_of(const plumb_histograms *all, uint64_t step,
                                     const char *name)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->at[i].sample.step == step &&
            strcmp(all->site_names[all->at[i].sample.site], name) == 0)
            return &all->at[i];
    return NULL;
}

/* A run file with one rule. */
static const char *rule(const char *sites, const char *use)
{
    static char path[128];
    char text[200];

    snprintf(path, sizeof path, "%s/rule.yaml", test_root);
    snprintf(text, sizeof text, "rules:\n  - {sites: \"%s\", use: %s}\n", sites, use);
    test_write(path, text);
    return path;
}

/* --- a run in this process ------------------------------------------------------------------ */

static trainer *begin(const char *more, const char *dir)
{
    const char *words[TEST_SETTINGS];
    char memory[1024];
    const size_t n = test_settings(more, memory, words);
    trainer *t = calloc(1, sizeof *t);
    plumb_error why = {0};

    plumb_request_init(&t->request);
    plumb_dir_make(dir, NULL);
    CHECK_OK(settings_load(rule("*", "fp32"), words, n, &t->settings, &why), why);
    CHECK_OK(trainer_create(t, &why), why);
    CHECK_OK(plumb_run_create(dir, &t->run, &why), why);
    return t;
}

static size_t site_named(const trainer *t, const char *name)
{
    for (size_t i = 0; i < t->sites.count; i++)
        if (strcmp(t->sites.names[i], name) == 0)
            return i;
    CHECK(false, "no site %s", name);
    return 0;
}

/* An operand that is kept in fp32, as the last micro-batch left it. */
static void count_codes(const trainer *t, const char *name, lie *l)
{
    const plumb_quantized *q = plumb_model_quantized(t->model, site_named(t, name));

    CHECK(q->format == PLUMB_FP32, "%s is not in fp32", name);
    count(l, q->codes, q->rows * q->cols);
}

static void count_parameter(const trainer *t, const float *of, const char *name, lie *l)
{
    for (size_t i = 0; i < t->parameter_count; i++) {
        const plumb_parameter *p = &t->parameters[i];

        if (strcmp(p->name, name) == 0)
            count(l, of + p->offset, p->rows * p->cols);
    }
}

static const char *const operands[] = {"layer.0/attn.qkv/fprop/x",
                                       "layer.0/attn.qkv/wgrad/x", "layer.1/mlp.up/fprop/x",
                                       "head/fprop/x", "layer.0/attn.qkv/dgrad/dy"};
enum { OPERANDS = sizeof operands / sizeof operands[0] };

/* Steps 1 to 3 with every=3: 1, 2 and 3 are written. */
static void in_fp32(int threads)
{
    char dir[160], more[200];
    plumb_histograms all;
    plumb_error why = {0};
    step_result r;
    static lie w[3], x[3][OPERANDS], m[3], v[3], g[3];

    memset(w, 0, sizeof w);
    memset(x, 0, sizeof x);
    memset(m, 0, sizeof m);
    memset(v, 0, sizeof v);
    memset(g, 0, sizeof g);
    snprintf(dir, sizeof dir, "%s/fp32-%d", test_root, threads);
    snprintf(more, sizeof more,
             "recipe=bf16 threads=%d sensors.every=3 sensors.spectra_every=3", threads);
    trainer *t = begin(more, dir);

    for (int i = 0; i < 3; i++) {
        count_parameter(t, t->weights, "layer.1/mlp.down", &w[i]);
        CHECK_OK(run_step(t, &r, &why), why);
        for (size_t k = 0; k < OPERANDS; k++)
            count_codes(t, operands[k], &x[i][k]);
        count_parameter(t, t->m, "head", &m[i]);
        count_parameter(t, t->v, "layer.0/attn.out", &v[i]);
        count_parameter(t, t->share[0], "embedding", &g[i]);
    }
    plumb_run_end(&t->run, "reached", 3, NULL);
    CHECK_OK(plumb_histograms_read(dir, &all, &why), why);
    for (uint64_t step = 1; step <= 3; step++) {
        const size_t i = (size_t)step - 1;

        check_row(row_of(&all, step, "layer.1/mlp.down/fprop/w"), &w[i], "weights");
        check_row(row_of(&all, step, "layer.1/mlp.down/dgrad/w"), &w[i], "weights again");
        for (size_t k = 0; k < OPERANDS; k++)
            check_row(row_of(&all, step, operands[k]), &x[i][k], operands[k]);
        check_row(row_of(&all, step, "head/optimizer/m"), &m[i], "moments m");
        check_row(row_of(&all, step, "layer.0/attn.out/optimizer/v"), &v[i], "moments v");
        check_row(row_of(&all, step, "embedding/collective/grad"), &g[i], "gradient");
    }
    plumb_histograms_free(&all);
    trainer_free(t);
    free(t);
    check_done(threads == 1 ? "tensors in fp32" : "tensors in fp32, three threads");
}

/* --- runs in few bits ------------------------------------------------------------------------ */

static test_run spectra_of(const char *path, const char *more, plumb_histograms *all)
{
    test_run r = test_request();
    plumb_error why = {0};

    r.request.observe_every = 4;
    test_go(&r, path, more);
    CHECK(r.status == 0, "%s: %s", more, r.said);
    CHECK_OK(plumb_histograms_read(r.dir, all, &why), why);
    return r;
}

/* Every element is in a bin, a zero, or not finite.  (Nothing here is below 2^-126.) */
static void check_whole(const plumb_histograms *all, bool exact, const char *what)
{
    for (size_t i = 0; i < all->count; i++) {
        const plumb_sample *s = &all->at[i].sample;
        double sum = 0;

        for (int k = 0; k < PLUMB_BINS; k++)
            sum += (double)all->at[i].bin[k];
        CHECK(!exact || sum == (double)(s->total - s->zero - s->nonfinite),
              "%s, %s at step %llu: %g in bins of %llu", what, all->site_names[s->site],
              (unsigned long long)s->step, sum, (unsigned long long)s->total);
        CHECK(s->least_scale > 0 && s->least_scale <= s->scale, "%s: scales %g to %g", what,
              (double)s->least_scale, (double)s->scale);
    }
}

static bool same_bins(const plumb_histogram *a, const plumb_histogram *b)
{
    return a != NULL && b != NULL && a->first == b->first &&
           memcmp(a->bin, b->bin, sizeof a->bin) == 0;
}

/* The input of the first linear does not depend on how it is rounded. */
static void in_few_bits(void)
{
    static const char *const recipes[] = {"recipe=bf16", "recipe=te-delayed",
                                          "recipe=deepseek-v3 batch.micro_batches=2",
                                          "recipe=te-mxfp8"};
    enum { COUNT = sizeof recipes / sizeof recipes[0] };
    plumb_histograms all[COUNT];
    test_run run[COUNT];

    for (int i = 0; i < COUNT; i++) {
        run[i] = spectra_of(i == 3 ? rule("*/attn/*", "e4m3") : NULL, recipes[i], &all[i]);
        check_whole(&all[i], true, recipes[i]);
        CHECK(same_bins(row_of(&all[i], 1, operands[0]), row_of(&all[0], 1, operands[0])),
              "%s: the first input differs", recipes[i]);
        for (uint64_t step = 1; step <= 8; step++)
            CHECK((row_of(&all[i], step, operands[0]) != NULL) ==
                      (step == 1 || step == 2 || step == 4 || step == 8),
                  "%s: step %llu", recipes[i], (unsigned long long)step);
    }
    CHECK(row_of(&all[3], 8, "layer.1/attn/pv/p") != NULL &&
              row_of(&all[0], 8, "layer.1/attn/pv/p") == NULL,
          "attention in few bits");
    for (int i = 0; i < COUNT; i++) {
        plumb_histograms_free(&all[i]);
        test_free(&run[i]);
    }
    check_done("runs in few bits");
}

/* What the ranks send is counted before the first cast, each share once. */
static void on_the_wire(void)
{
    plumb_histograms few, full;
    test_run a =
        spectra_of(rule("*/collective/grad", "e5m2"), "recipe=bf16 batch.ranks=2", &few);
    test_run b = spectra_of(NULL, "recipe=bf16 batch.ranks=2", &full);
    const plumb_histogram *h = row_of(&few, 1, "head/collective/grad");
    double sum = 0;

    check_whole(&full, false, "two ranks");
    check_whole(&few, false, "two ranks in e5m2");
    for (int k = 0; h != NULL && k < PLUMB_BINS; k++)
        sum += (double)h->bin[k];
    CHECK(h != NULL && sum == 2 * 256 * 32, "%g values of two shares", sum);
    plumb_histograms_free(&few);
    plumb_histograms_free(&full);
    test_free(&a);
    test_free(&b);
    check_done("on the wire");
}

static bool same_file(const test_run *a, const test_run *b)
{
    char command[400];

    snprintf(command, sizeof command,
             "cmp -s %s/spectra-rank00000.pls %s/spectra-rank00000.pls", a->dir, b->dir);
    return system(command) == 0;
}

/* No bit of the run moves, and no byte of the file does with threads. */
static void nothing_moves(void)
{
    static const char few[] = "recipe=te-mxfp8 sensors.spectra_every=1";
    const char *path = rule("*/attn/*", "e4m3");
    char more[300], file[200];
    plumb_histograms one, two;
    test_run a = spectra_of(path, few, &one), off = test_request();

    snprintf(more, sizeof more, "%s threads=2", few);
    test_run b = spectra_of(path, more, &two);

    CHECK(same_file(&a, &b), "one thread and two");
    off.request.observe_every = 4;
    test_go(&off, path, "recipe=te-mxfp8 sensors.spectra_every=0");
    CHECK(a.history.count == 8 && test_differ(&a, &off) == 0 && test_differ(&a, &b) == 0,
          "spectra move bits");
    snprintf(file, sizeof file, "%s/spectra-rank00000.pls", off.dir);
    CHECK(access(file, F_OK) != 0, "spectra with spectra_every=0");
    plumb_histograms_free(&one);
    plumb_histograms_free(&two);
    test_free(&a);
    test_free(&b);
    test_free(&off);
    check_done("nothing moves");
}

int main(void)
{
    test_begin();
    in_few_bits();
    on_the_wire();
    nothing_moves();
    in_fp32(1);
    in_fp32(3); /* last: a fork after threads of OpenMP would wait for ever */
    test_end();
    return check_exit();
}
