/* Failure predicates on hand-made curves, with steps worked out on paper; then random
 * histories against a second judge that is written from the definition, row by row with
 * whole sums, and shares nothing with the first.
 */
#include "plumb/study.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"

enum { MOST = 400 };

static plumb_metrics rows[MOST], twin_rows[MOST];

static plumb_history curve(plumb_metrics *at, const double *loss, size_t n)
{
    for (size_t i = 0; i < n; i++)
        at[i] = (plumb_metrics){.step = (int64_t)i + 1, .loss = loss[i]};
    return (plumb_history){.at = at, .count = n};
}

/* before steps at `low`, then `after` at `high`. */
static plumb_history jump(plumb_metrics *at, size_t before, double low, size_t after,
                          double high)
{
    double loss[MOST];

    for (size_t i = 0; i < before + after; i++)
        loss[i] = i < before ? low : high;
    return curve(at, loss, before + after);
}

static void check_failure(const char *what, plumb_failure got, plumb_predicate predicate,
                          int64_t step, int64_t decided)
{
    CHECK(got.predicate == predicate && got.step == step && got.decided == decided,
          "%s: %s at %lld, decided %lld; want %s at %lld, decided %lld", what,
          plumb_predicate_name(got.predicate), (long long)got.step, (long long)got.decided,
          plumb_predicate_name(predicate), (long long)step, (long long)decided);
}

static void nonfinite(void)
{
    const plumb_predicates p = {0};
    const double cases[] = {NAN, INFINITY, -INFINITY};

    for (size_t k = 0; k < 3; k++) {
        double loss[3] = {3, 3, 3};

        for (size_t i = 0; i < 3; i++) {
            loss[i] = cases[k];
            plumb_history h = curve(rows, loss, 3);
            const plumb_failure f = plumb_history_judge(&h, &p);
            loss[i] = 3;
            check_failure("loss", f, PLUMB_FAILS_NONFINITE, (int64_t)i + 1, (int64_t)i + 1);
            CHECK(isnan(cases[k]) ? isnan(f.value) : f.value == cases[k], "value %g",
                  f.value);
        }
    }
    plumb_history h = jump(rows, 20, 3, 0, 0);
    rows[6].grad_norm = INFINITY; /* not there: has_grad_norm is false */
    check_failure("no norm", plumb_history_judge(&h, &p), PLUMB_FAILS_NOT, 0, 0);
    rows[6].has_grad_norm = true;
    const plumb_failure f = plumb_history_judge(&h, &p);
    check_failure("norm", f, PLUMB_FAILS_NONFINITE, 7, 7);
    CHECK(f.value == (double)INFINITY, "value %g", f.value);
    rows[6].grad_norm = 1e300;
    check_failure("large norm", plumb_history_judge(&h, &p), PLUMB_FAILS_NOT, 0, 0);
    check_done("non-finite at once");
}

/* Loss 2, then 3: the average is 3 - 0.9^k after k steps, so it is above 2.5 from k = 7
 * (0.9^6 = 0.531, 0.9^7 = 0.478) and has been so for ten steps at k = 16.
 */
static void rise(void)
{
    const plumb_predicates p = {0};
    plumb_history h = jump(rows, 30, 2, 15, 3);

    check_failure("9 of 10", plumb_history_judge(&h, &p), PLUMB_FAILS_NOT, 0, 0);
    h = jump(rows, 30, 2, 16, 3);
    const plumb_failure f = plumb_history_judge(&h, &p);
    check_failure("10 of 10", f, PLUMB_FAILS_RISE, 37, 46);
    CHECK(fabs(f.value - (3 - pow(0.9, 16))) < 1e-12, "value %.17g", f.value);
    CHECK(f.threshold == 2.5, "threshold %.17g", f.threshold);
    const plumb_predicates three = {.persistence = 3};
    check_failure("3 steps", plumb_history_judge(&h, &three), PLUMB_FAILS_RISE, 37, 39);
    const plumb_predicates wide = {.rise = 1.1};
    check_failure("wide", plumb_history_judge(&h, &wide), PLUMB_FAILS_NOT, 0, 0);
    const plumb_predicates half = {.smoothing = 0.5}; /* above 2.5 from k = 2 */
    check_failure("less smooth", plumb_history_judge(&h, &half), PLUMB_FAILS_RISE, 32, 41);
    h = jump(rows, 3, 9, 60, 2);
    check_failure("a fall", plumb_history_judge(&h, &p), PLUMB_FAILS_NOT, 0, 0);

    /* A pause of one step below the threshold starts the count again. */
    const plumb_predicates raw = {.smoothing = 1e-9, .rise = 0.5};
    h = jump(rows, 5, 2, 25, 3);
    rows[14].loss = 2; /* nine steps above, one below, fifteen above */
    check_failure("pause", plumb_history_judge(&h, &raw), PLUMB_FAILS_RISE, 16, 25);
    check_done("rise above the minimum");
}

/* Above 2.5 since step 37 as in rise(): pending until the tenth of those steps decides. */
static void pending(void)
{
    const plumb_predicates p = {0};

    for (size_t high = 1; high <= 20; high++) {
        const plumb_history h = jump(rows, 30, 2, high, 3);
        const int64_t since = plumb_history_pending(&h, &p);

        CHECK(since == (high >= 7 && high < 16 ? 37 : 0), "%zu steps: since %lld", high,
              (long long)since);
    }
    plumb_history twin = jump(twin_rows, 60, 2, 0, 0), h = jump(rows, 20, 2, 18, 2.2);
    const plumb_predicates paired = {.twin = &twin, .band = 0.15, .rise = 0.1};

    /* The rise of more than 0.1 began at 27 (0.9^7 < 0.5), and failed at 36; the gap alone is
     * above 0.15 since 34. */
    CHECK(plumb_history_pending(&h, &paired) == 0, "pending, though it has failed");
    h.count = 35;
    CHECK(plumb_history_pending(&h, &paired) == 27, "not the first of two");
    CHECK(plumb_history_pending(&h, NULL) == 0, "no predicates");
    check_done("pending at the end");
}

static void entropy(void)
{
    plumb_history h = jump(rows, 60, 3, 0, 0);
    plumb_predicates p = {.entropy = 2.9, .entropy_after = 30};

    check_failure("stuck", plumb_history_judge(&h, &p), PLUMB_FAILS_ENTROPY, 30, 39);
    p.entropy = 3;
    check_failure("equal", plumb_history_judge(&h, &p), PLUMB_FAILS_NOT, 0, 0);
    p.entropy = 2.9, p.entropy_after = 0;
    check_failure("never", plumb_history_judge(&h, &p), PLUMB_FAILS_NOT, 0, 0);
    p.entropy_after = 52; /* nine steps left */
    check_failure("too late", plumb_history_judge(&h, &p), PLUMB_FAILS_NOT, 0, 0);
    p.entropy_after = 51;
    check_failure("in time", plumb_history_judge(&h, &p), PLUMB_FAILS_ENTROPY, 51, 60);
    check_done("above the unigram entropy");
}

/* Gap 0, then 0.2 from step 21: 0.2 (1 - 0.9^k) is above 0.15 from k = 14 (0.9^14 = 0.229,
 * 0.9^13 = 0.254), so it began at 34 and is decided at 43.
 */
static void gap(void)
{
    plumb_history twin = jump(twin_rows, 60, 2, 0, 0);
    plumb_history h = jump(rows, 20, 2, 40, 2.2);
    plumb_predicates p = {.twin = &twin, .band = 0.15};

    const plumb_failure f = plumb_history_judge(&h, &p);
    check_failure("gap", f, PLUMB_FAILS_GAP, 34, 43);
    CHECK(f.threshold == 0.15, "threshold %g", f.threshold);
    CHECK(fabs(f.value - 0.2 * (1 - pow(0.9, 23))) < 1e-12, "value %g", f.value);
    h.count = 42;
    check_failure("a step less", plumb_history_judge(&h, &p), PLUMB_FAILS_NOT, 0, 0);
    h.count = 60, twin.count = 42;
    check_failure("twin ends", plumb_history_judge(&h, &p), PLUMB_FAILS_NOT, 0, 0);
    twin.count = 60, twin_rows[41].loss = NAN;
    check_failure("twin breaks", plumb_history_judge(&h, &p), PLUMB_FAILS_NOT, 0, 0);
    twin_rows[41].loss = 2;
    p.band = 0.25;
    check_failure("wide band", plumb_history_judge(&h, &p), PLUMB_FAILS_NOT, 0, 0);
    p.band = 0.15;
    h = jump(rows, 20, 2, 40, 1.8); /* better than the twin is no failure */
    check_failure("sign", plumb_history_judge(&h, &p), PLUMB_FAILS_NOT, 0, 0);
    h = jump(rows, 0, 0, 12, 2.2); /* the average starts with its first value */
    check_failure("from the start", plumb_history_judge(&h, &p), PLUMB_FAILS_GAP, 1, 10);
    h = twin, p.band = 0;
    check_failure("the same run", plumb_history_judge(&h, &p), PLUMB_FAILS_NOT, 0, 0);
    check_done("gap to the twin");
}

static void odd(void)
{
    const plumb_predicates p = {0};
    plumb_history h = {0};

    check_failure("empty", plumb_history_judge(&h, &p), PLUMB_FAILS_NOT, 0, 0);
    h = jump(rows, 30, 2, 30, 4);
    check_failure("no predicates", plumb_history_judge(&h, NULL), PLUMB_FAILS_NOT, 0, 0);
    /* Every tenth step logged: steps in the answer are the logged ones, 0.5 above from k = 3. */
    for (int i = 0; i < 60; i++)
        rows[i].step = 10 * (i + 1);
    check_failure("sparse", plumb_history_judge(&h, &p), PLUMB_FAILS_RISE, 330, 420);
    /* A row that goes back is not read, not even when it is not finite. */
    h = jump(rows, 40, 2, 0, 0);
    rows[20].step = 11, rows[20].loss = NAN;
    rows[21].step = 20, rows[21].loss = 1e9;
    check_failure("back", plumb_history_judge(&h, &p), PLUMB_FAILS_NOT, 0, 0);
    h = jump(rows, 10, 2, 10, 1e308); /* no overflow on the way */
    check_failure("huge", plumb_history_judge(&h, &p), PLUMB_FAILS_RISE, 11, 20);
    check_done("empty, sparse, going back");
}

/* --- the second judge --------------------------------------------------------------- */

/* Closed form of the average: s_n = a^n x_0 + (1 - a) sum a^(n-i) x_i. */
static double average(const double *x, size_t n, double a)
{
    double s = pow(a, (double)(n - 1)) * x[0];

    for (size_t i = 1; i < n; i++)
        s += (1 - a) * pow(a, (double)(n - 1 - i)) * x[i];
    return s;
}

/* Whether condition k holds after the first n rows, with its margin. */
static bool holds(const double *loss, const double *twin, size_t n, int k,
                  const plumb_predicates *p, double *margin)
{
    double gaps[MOST], least = INFINITY;

    if (k == 0)
        for (size_t i = 1; i <= n; i++)
            least = fmin(least, average(loss, i, p->smoothing));
    for (size_t i = 0; i < n; i++)
        gaps[i] = loss[i] - twin[i];
    *margin = k == 0   ? average(loss, n, p->smoothing) - least - p->rise
              : k == 1 ? average(loss, n, p->smoothing) - p->entropy
                       : average(gaps, n, p->smoothing) - p->band;
    return *margin > 0 && (k != 1 || (int64_t)n >= p->entropy_after);
}

static uint64_t state = 1;

static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 40) / 16777216.0;
}

static plumb_failure second_judge(const double *loss, const double *twin, size_t n,
                                  const plumb_predicates *p, bool *close)
{
    int held[3] = {0, 0, 0};

    for (size_t i = 1; i <= n; i++) {
        if (!isfinite(loss[i - 1]))
            return (plumb_failure){PLUMB_FAILS_NONFINITE, (int64_t)i, (int64_t)i, 0, 0};
        for (int k = 0; k < 3; k++) {
            double margin;

            held[k] = holds(loss, twin, i, k, p, &margin) ? held[k] + 1 : 0;
            *close = *close || fabs(margin) < 1e-9;
        }
        for (int k = 0; k < 3; k++)
            if (held[k] >= p->persistence)
                return (plumb_failure){(plumb_predicate)(PLUMB_FAILS_RISE + k),
                                       (int64_t)i + 1 - held[k], (int64_t)i, 0, 0};
    }
    return (plumb_failure){0};
}

static void random_curves(void)
{
    double loss[80], twin[80];
    int seen[5] = {0};

    for (int round = 0; round < 300; round++) {
        const plumb_predicates p = {.smoothing = 0.5 + 0.45 * uniform(),
                                    .rise = 0.2 + uniform(),
                                    .persistence = 1 + (int)(10 * uniform()),
                                    .entropy = 2.5 + 2 * uniform(),
                                    .entropy_after = 1 + (int64_t)(60 * uniform()),
                                    .band = 0.1 + uniform()};
        plumb_predicates paired = p;
        const size_t n = 40 + (size_t)(40 * uniform());
        const double slope = 0.2 * uniform() - 0.1;
        bool close = false;

        for (size_t i = 0; i < n; i++) {
            twin[i] = 2 + 2 * uniform();
            loss[i] = uniform() < 0.003 ? (double)NAN
                                        : twin[i] + slope * (double)i + uniform() - 0.6;
        }
        plumb_history t = curve(twin_rows, twin, n);
        plumb_history h = curve(rows, loss, n);
        paired.twin = &t;
        const plumb_failure want = second_judge(loss, twin, n, &p, &close);
        if (close)
            continue;
        const plumb_failure got = plumb_history_judge(&h, &paired);
        check_failure("random", got, want.predicate, want.step, want.decided);
        seen[got.predicate]++;

        /* Prefixes: never ahead of their end, and never taken back. */
        for (h.count = 0; h.count <= n; h.count++) {
            const plumb_failure early = plumb_history_judge(&h, &paired);
            const bool ripe = got.decided != 0 && (int64_t)h.count >= got.decided;

            check_failure("prefix", early, ripe ? got.predicate : PLUMB_FAILS_NOT,
                          ripe ? got.step : 0, ripe ? got.decided : 0);
        }
    }
    for (int k = 0; k < 5; k++)
        CHECK(seen[k] > 5, "predicate %d seen only %d times", k, seen[k]);
    check_done("random curves against a second judge, prefixes");
}

/* --- two runs ------------------------------------------------------------------------- */

static void between(void)
{
    plumb_history a = jump(rows, 20, 2, 20, 2.5), b = jump(twin_rows, 40, 2, 0, 0);
    double last = 7;

    double g = plumb_history_gap(&b, &a, 0.9, 0, &last);
    CHECK(fabs(g - 0.5 * (1 - pow(0.9, 20))) < 1e-12, "largest %g", g);
    CHECK(fabs(last + g) < 1e-15, "last %g: the sign is a - b", last);
    a = jump(rows, 1, 6, 39, 2);
    g = plumb_history_gap(&a, &b, 0.9, 10, NULL); /* 4 * 0.9^k, at step 11 */
    CHECK(fabs(g - 4 * pow(0.9, 10)) < 1e-12, "after skip: %g", g);
    a.count = 0;
    CHECK(isnan(plumb_history_gap(&a, &b, 0.9, 0, &last)) && isnan(last), "nothing shared");
    a = jump(rows, 20, 2, 20, NAN);
    g = plumb_history_gap(&a, &b, 0, 0, &last);
    CHECK(g == 0 && last == 0, "up to the first that is not finite: %g %g", g, last);
    check_done("gap between two runs");
}

static void differ(void)
{
    plumb_history a = jump(rows, 20, 2, 0, 0), b = jump(twin_rows, 20, 2, 0, 0);
    bool by_hash = true;

    CHECK(plumb_history_differ(&a, &b, &by_hash) == 0 && !by_hash, "equal, without hashes");
    rows[4].loss = twin_rows[4].loss = NAN;
    CHECK(plumb_history_differ(&a, &b, &by_hash) == 0, "NaN equals NaN");
    rows[9].loss = 2.0000001;
    CHECK(plumb_history_differ(&a, &b, &by_hash) == 10 && !by_hash, "loss at 10");
    for (int i = 0; i < 20; i++) {
        rows[i].has_state_hash = twin_rows[i].has_state_hash = true;
        rows[i].state_hash = twin_rows[i].state_hash = (uint64_t)i;
    }
    CHECK(plumb_history_differ(&a, &b, &by_hash) == 0 && by_hash, "equal by hash");
    rows[6].state_hash ^= UINT64_C(1) << 63;
    CHECK(plumb_history_differ(&a, &b, &by_hash) == 7 && by_hash, "hash at 7");
    rows[6].has_state_hash = false;
    CHECK(plumb_history_differ(&a, &b, &by_hash) == 0 && !by_hash, "one step by loss only");
    rows[0].step = -5;
    twin_rows[1].step = 1; /* shares step 3 on */
    twin_rows[2].loss = 9, twin_rows[2].has_state_hash = false;
    CHECK(plumb_history_differ(&a, &b, NULL) == 3, "over the common steps");
    b.count = 0;
    CHECK(plumb_history_differ(&a, &b, &by_hash) == 0 && !by_hash, "nothing shared");
    check_done("first difference");
}

static void confounded(void)
{
    plumb_history a = jump(rows, 20, 2, 0, 0), b = jump(twin_rows, 20, 2, 0, 0);

    CHECK(plumb_history_confounded(&a, &b) == -1, "no hashes");
    for (int i = 0; i < 20; i++)
        rows[i].has_batch_hash = true;
    CHECK(plumb_history_confounded(&a, &b) == -1, "hashes in one run only");
    for (int i = 0; i < 20; i++)
        twin_rows[i].has_batch_hash = true;
    CHECK(plumb_history_confounded(&a, &b) == 0, "same batches");
    twin_rows[12].batch_hash = 1;
    CHECK(plumb_history_confounded(&a, &b) == 13, "other batch at 13");
    b.count = 0;
    CHECK(plumb_history_confounded(&a, &b) == -1, "nothing shared");
    check_done("same batches");
}

int main(void)
{
    nonfinite();
    rise();
    pending();
    entropy();
    gap();
    odd();
    random_curves();
    between();
    differ();
    confounded();
    return check_exit();
}
