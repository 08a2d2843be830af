/* Failures that the run alone does not show: a gap to the twin, and late ones; weights that are good
 * in their own arithmetic only; an invariant that does not hold.
 */
#include "verdict.h"

#include <math.h>

static size_t runs_of(const json_t *v, const char *phase)
{
    size_t i, count = 0;
    json_t *one;

    json_array_foreach(json_object_get(v, "runs"), i, one) count +=
        strcmp(text(one, "phase"), phase) == 0;
    return count;
}

static void gap_only(void)
{
    fake f = {.culprits = 1u << 3, .fails_at = 20, .gap = 0.3};
    json_t *v = diagnose(&f, (plumb_diagnose_settings){0});
    const json_t *failure = json_object_get(v, "failure");

    expect(v, "numerics", 1, "backward", "site");
    expect_sites(v, f.culprits);
    CHECK(strcmp(text(failure, "predicate"), "gap") == 0, "%s", text(failure, "predicate"));
    CHECK(fix_number(v, "held") == 2, "held %lld", fix_number(v, "held"));
    const json_t *own = json_array_get(json_object_get(v, "runs"), 1);

    CHECK(strcmp(text(own, "predicate"), "gap") == 0, "the table shows no gap");
    CHECK(json_is_null(json_object_get(v, "mask")),
          "a mask, though without a twin at that rate nothing would show the gap");
    CHECK(mentions(v, "limits", "masking"), "not said that masking was not tested");
    finish(&f, v, "a gap that the run alone does not show");

    fake inside = {.culprits = 1u << 3, .fails_at = 20, .gap = 0.05};

    v = diagnose(&inside, (plumb_diagnose_settings){0});
    expect(v, "healthy", 0, "", "");
    CHECK(json_is_null(json_object_get(v, "failure")), "a failure inside the band");
    finish(&inside, v, "a gap inside the band");

    v = diagnose(&inside, (plumb_diagnose_settings){.band = 0.02});
    expect(v, "numerics", 1, "backward", "site");
    finish(&inside, v, "the same gap under a band as asked");
}

/* The gap opens at step 61, before it counts; the checkpoint lies five steps before that, or, where
 * the run was off its twin all the time, ten before it counts.
 */
static void where_it_opens(double gap, double drift, int64_t wish)
{
    fake f = {
        .culprits = 1u << 3, .fails_at = 60, .gap = gap, .drift = drift, .checkpoint = 5};
    json_t *v = diagnose(&f, (plumb_diagnose_settings){0});

    expect(v, "numerics", 1, "backward", "site");
    CHECK(f.wished == wish, "a checkpoint at %lld, want %lld", (long long)f.wished,
          (long long)wish);
    finish(&f, v, "the repeat leaves a checkpoint before the gap opens");
}

/* An innocent class takes most of the gap away.  Near the band that is a doubt, and the others are
 * asked; well inside it is not, and it is the cheapest.
 */
static void by_chance(double left, const char *class_, size_t classes)
{
    fake f = {.culprits = 1u << 3, .fails_at = 60, .gap = 0.3, .chance = left};
    json_t *v = diagnose(&f, (plumb_diagnose_settings){0});

    CHECK(strcmp(text(v, "class"), class_) == 0, "%g: class %s", left, text(v, "class"));
    CHECK(runs_of(v, "class") == classes, "%g: %zu classes", left, runs_of(v, "class"));
    CHECK(mentions(v, "statements", "dearer ones were not tried") == (classes < 5),
          "what was tried is not said");
    finish(&f, v, "a class that heals by chance");
}

/* A second order of sums is run where the first leaves a doubt. */
static void orders_of_sums(double drift, size_t orders, double band)
{
    fake f = {.culprits = 1u << 3, .fails_at = 20, .order_drift = drift};
    json_t *v = diagnose(&f, (plumb_diagnose_settings){0});

    CHECK(runs_of(v, "band") == orders, "%zu orders for a drift of %g", runs_of(v, "band"),
          drift);
    CHECK(fabs(json_real_value(json_object_get(json_object_get(v, "band"), "nats")) -
               band) < 1e-3,
          "band %g", json_real_value(json_object_get(json_object_get(v, "band"), "nats")));
    finish(&f, v, "orders of sums");
}

/* One of two culprits alone puts the failure off to the last steps of the horizon (74), where no
 * predicate but (a) can be decided yet.
 */
static void late_gaps(void)
{
    for (int64_t delay = 40; delay <= 52; delay++) {
        fake f = {
            .culprits = 1u << 3 | 1u << 5, .fails_at = 20, .gap = 0.3, .delay = delay};
        json_t *v = diagnose(&f, (plumb_diagnose_settings){0});
        const bool within = 24 + delay <= 74; /* the smoothed gap takes three steps */

        expect(v, "numerics", 1, "backward", within ? "class" : "site");
        expect_sites(v, within ? f.culprits : 1u << 3);
        finish(&f, v, "a part that only puts the failure off");
    }

    fake end = {.culprits = 1u << 3, .fails_at = 193, .gap = 0.3};
    json_t *v = diagnose(&end, (plumb_diagnose_settings){0});

    expect(v, "healthy", 0, "", "");
    CHECK(mentions(v, "limits", "begins at step 197, too late before the end"),
          "not said that the end is not judged");
    finish(&end, v, "a gap that begins just before the end of the schedule");

    v = diagnose(&end, (plumb_diagnose_settings){.steps = 199});
    expect(v, "healthy", 0, "", "");
    finish(&end, v, "the same, asked to look a step less");

    fake look = {.culprits = 1u << 3, .fails_at = 93, .gap = 0.3};

    v = diagnose(&look, (plumb_diagnose_settings){.steps = 98});
    expect(v, "numerics", 1, "backward", "site");
    finish(&look, v, "a gap that begins in the last steps of the look");
}

/* The loss is healthy throughout; the weights are not, in any arithmetic but their own. */
static void adapted_weights(void)
{
    fake f = {.culprits = 1u << 9, .checkpoint = 10, .adapts = 0.3, .current_heals = true};
    json_t *v = diagnose(&f, (plumb_diagnose_settings){0});
    const json_t *failure = json_object_get(v, "failure");

    expect(v, "numerics", 1, "forward", "site");
    expect_sites(v, f.culprits);
    CHECK(strcmp(text(failure, "predicate"), "arithmetic") == 0, "%s",
          text(failure, "predicate"));
    CHECK(json_integer_value(json_object_get(failure, "step")) == FAKE_STEPS, "step");
    CHECK(fabs(json_real_value(json_object_get(failure, "value")) - 0.3) < 1e-3, "value");
    CHECK(strcmp(text(json_object_get(v, "mechanism"), "name"), "stale scale") == 0, "%s",
          text(json_object_get(v, "mechanism"), "name"));
    CHECK(fix_number(v, "held") == 2 && fix_number(v, "returned_at") == FAKE_STEPS,
          "held %lld, returned at %lld", fix_number(v, "held"),
          fix_number(v, "returned_at"));
    CHECK(json_is_false(json_object_get(json_object_get(v, "mask"), "survived")), "mask");
    finish(&f, v, "weights that are good in their own arithmetic only");

    fake pair = {.culprits = 1u << 4 | 1u << 9, .checkpoint = 10, .adapts = 0.3};

    v = diagnose(&pair, (plumb_diagnose_settings){.steps = 120});
    expect(v, "numerics", 1, "", "pair");
    expect_sites(v, pair.culprits);
    finish(&pair, v, "the same in two classes");

    fake both = {.culprits = 1u << 7 | 1u << 9,
                 .gap_culprits = 1u << 7,
                 .checkpoint = 10,
                 .fails_at = 60,
                 .gap = 0.3,
                 .adapts = 0.6};

    v = diagnose(&both, (plumb_diagnose_settings){0});
    expect(v, "numerics", 1, "forward", "class");
    expect_sites(v, both.culprits);
    CHECK(strcmp(text(json_object_get(v, "failure"), "predicate"), "gap") == 0, "%s",
          text(json_object_get(v, "failure"), "predicate"));
    const json_t *runs = json_object_get(v, "runs"), *last = NULL;

    for (size_t i = 0; i < json_array_size(runs); i++)
        if (strcmp(text(json_array_get(runs, i), "phase"), "class") == 0)
            last = json_array_get(runs, i);
    CHECK(json_integer_value(json_object_get(last, "start_step")) == 0,
          "arms begin at a checkpoint with the fault in it");
    finish(&both, v, "an arm without the gap whose weights are still wrong");
}

/* Nothing follows from weights that cannot be judged. */
static void unjudged_weights(void)
{
    fake blind = {
        .culprits = 1u << 9, .checkpoint = 10, .adapts = 0.3, .arms_forget = true};

    json_t *v = diagnose(&blind, (plumb_diagnose_settings){0});
    expect(v, "numerics", 1, "", "all classes");
    CHECK(mentions(v, "limits", "could not be judged in bf16: it counts for nothing"),
          "an arm that cannot be judged counts");
    finish(&blind, v, "arms whose weights cannot be judged");

    fake little = {.culprits = 1u << 9, .checkpoint = 10, .adapts = 0.09};

    v = diagnose(&little, (plumb_diagnose_settings){0});
    expect(v, "healthy", 0, "", "");
    CHECK(mentions(v, "statements", "+0.0900 nats, on the same batch"), "not said");
    finish(&little, v, "a difference inside the band");

    fake apart = {
        .culprits = 1u << 9, .checkpoint = 10, .adapts = 0.3, .resumes_apart = true};

    v = diagnose(&apart, (plumb_diagnose_settings){0});
    expect(v, "healthy", 0, "", "");
    CHECK(mentions(v, "limits", "Resume is not exact"), "an inexact resume is believed");
    finish(&apart, v, "weights that cannot be judged");
}

/* No loss shows anything, and no weights: the trainer says itself what does not hold. */
static void violations(void)
{
    fake f = {.culprits = 1u << 0, .violates = 40, .current_heals = true};
    json_t *v = diagnose(&f, (plumb_diagnose_settings){0});
    const json_t *failure = json_object_get(v, "failure");

    expect(v, "numerics", 1, "collective", "site");
    expect_sites(v, f.culprits);
    CHECK(strcmp(text(failure, "predicate"), "invariant") == 0, "%s",
          text(failure, "predicate"));
    CHECK(json_integer_value(json_object_get(failure, "step")) == 40 &&
              json_integer_value(json_object_get(failure, "decided")) == 49,
          "step");
    CHECK(mentions(v, "statements", "No loss shows it"), "not said what");
    CHECK(fix_number(v, "held") == 2 && fix_number(v, "returned_at") == 40,
          "held %lld, returned at %lld", fix_number(v, "held"),
          fix_number(v, "returned_at"));
    finish(&f, v, "an invariant that the trainer reports");

    fake third = {.culprits = 1u << 0, .violates = 40, .rank = 3};

    v = diagnose(&third, (plumb_diagnose_settings){0});
    expect(v, "numerics", 1, "collective", "site");
    CHECK(mentions(v, "statements", "sum, on rank 3 (3, where the limit is 2)"),
          "not said on which rank");
    finish(&third, v, "one that another rank reports");

    fake late = {.culprits = 1u << 0, .violates = 192};

    v = diagnose(&late, (plumb_diagnose_settings){0});
    expect(v, "healthy", 0, "", "");
    finish(&late, v, "nine steps are not ten");
}

/* A site that looks worst is tried first; whether it is to blame, its arm says. */
static void guesses(void)
{
    fake right = {.culprits = 1u << 9, .fails_at = 20, .suspect = 10};
    json_t *v = diagnose(&right, (plumb_diagnose_settings){0});

    expect(v, "numerics", 1, "forward", "site");
    expect_sites(v, right.culprits);
    CHECK(runs_of(v, "class") == 0 && runs_of(v, "operand") == 1, "more arms than one");
    CHECK(mentions(v, "statements", "nothing else was tried"), "not said");
    finish(&right, v, "a guess that is right");

    fake wrong = {.culprits = 1u << 3, .fails_at = 20, .suspect = 10};

    v = diagnose(&wrong, (plumb_diagnose_settings){0});
    expect(v, "numerics", 1, "backward", "site");
    expect_sites(v, wrong.culprits);
    CHECK(runs_of(v, "class") == 3, "%zu classes", runs_of(v, "class"));
    finish(&wrong, v, "a guess that is wrong");

    fake half = {.culprits = 1u << 9 | 1u << 7, .fails_at = 20, .suspect = 10};

    v = diagnose(&half, (plumb_diagnose_settings){0});
    expect(v, "numerics", 1, "forward", "class");
    expect_sites(v, half.culprits);
    finish(&half, v, "a guess that is half of it");

    fake reader = {.culprits = 1u << 3, .fails_at = 20, .suspect = 6, .shared = true};

    v = diagnose(&reader, (plumb_diagnose_settings){0});
    expect(v, "numerics", 1, "backward", "site");
    expect_sites(v, reader.culprits);
    CHECK(runs_of(v, "class") == 0, "classes were tried");
    finish(&reader, v, "one of two readers of the codes that look worst");

    fake wide = {.culprits = 1u << 3, .fails_at = 20, .suspect = 13};

    v = diagnose(&wide, (plumb_diagnose_settings){0});
    CHECK(runs_of(v, "operand") > 0 && !mentions(v, "runs", "\"wide back"),
          "a site of 32 bits is suspected");
    finish(&wide, v, "a site with many bits is not suspected");
}

int main(void)
{
    guesses();
    gap_only();
    where_it_opens(0.3, 0, 56);
    where_it_opens(0.12, 0, 57);
    where_it_opens(0.3, 0.05, 52);
    by_chance(0.08, "backward", 3);
    by_chance(0.04, "collective", 1);
    orders_of_sums(0.005, 1, 0.05);
    orders_of_sums(0.01, 2, 0.06);
    late_gaps();
    adapted_weights();
    unjudged_weights();
    violations();
    return check_exit();
}
