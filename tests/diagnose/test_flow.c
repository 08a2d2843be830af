/* The whole experiment over a trainer that is a formula, so that the right verdict is known: one
 * site, several, a pair of classes, all classes, and everything that must not end in "numerics".
 */
#include "verdict.h"

#include <math.h>
#include <stdlib.h>

/* --- numerics ---------------------------------------------------------------------------- */

static void one_site(void)
{
    for (int site = 0; site < 12; site++) {
        fake f = {.culprits = 1u << site, .fails_at = 20};
        json_t *v = diagnose(&f, (plumb_diagnose_settings){0});
        static const char *const classes[] = {
            "collective", "optimizer", "optimizer", "backward", "backward", "backward",
            "backward",   "forward",   "forward",   "forward",  "forward",  "loss"};

        expect(v, "numerics", 1, classes[site], "site");
        expect_sites(v, f.culprits);
        CHECK(fix_number(v, "held") == 2 && fix_number(v, "of") == 2, "held %lld of %lld",
              fix_number(v, "held"), fix_number(v, "of"));
        CHECK(fix_number(v, "returned_at") == 21, "returned at %lld",
              fix_number(v, "returned_at"));
        CHECK(fix_number(v, "past_step") == 71, "past step %lld",
              fix_number(v, "past_step"));
        CHECK(strcmp(text(json_object_get(v, "fix"), "level"), "caused") == 0, "fix level");
        CHECK(strcmp(text(json_object_get(v, "mechanism"), "name"), "not isolated") == 0,
              "mechanism %s", text(json_object_get(v, "mechanism"), "name"));
        finish(&f, v, fake_names[site]);
    }
}

static void several(void)
{
    fake one_operand = {.culprits = 1u << 7 | 1u << 9, .fails_at = 20};
    json_t *v = diagnose(&one_operand, (plumb_diagnose_settings){0});

    expect(v, "numerics", 1, "forward", "class");
    expect_sites(v, one_operand.culprits);
    finish(&one_operand, v, "one operand in every layer");

    fake one_layer = {.culprits = 1u << 5 | 1u << 6, .fails_at = 20};

    v = diagnose(&one_layer, (plumb_diagnose_settings){0});
    expect(v, "numerics", 1, "backward", "layer");
    expect_sites(v, one_layer.culprits);
    CHECK(mentions(v, "statements", "No smaller part heals"),
          "marginal effects are missing");
    finish(&one_layer, v, "both operands of one layer");

    fake whole = {.culprits = 0xfu << 7, .fails_at = 20};

    v = diagnose(&whole, (plumb_diagnose_settings){0});
    expect(v, "numerics", 1, "forward", "class");
    expect_sites(v, whole.culprits);
    CHECK(mentions(v, "statements", "Distributed"), "not called distributed");
    finish(&whole, v, "a whole class");
}

static void pairs(void)
{
    fake two = {.culprits = 1u << 1 | 1u << 8, .fails_at = 20};
    json_t *v = diagnose(&two, (plumb_diagnose_settings){0});

    expect(v, "numerics", 1, "", "pair");
    expect_sites(v, two.culprits);
    CHECK(mentions(v, "classes", "optimizer") && mentions(v, "classes", "forward"),
          "classes");
    finish(&two, v, "two classes that must go together");

    fake three = {.culprits = 1u << 0 | 1u << 1 | 1u << 8, .fails_at = 20};

    v = diagnose(&three, (plumb_diagnose_settings){0});
    expect(v, "numerics", 1, "", "all classes");
    CHECK(fix_number(v, "held") == 2, "held %lld", fix_number(v, "held"));
    finish(&three, v, "three classes that must go together");
}

static void mechanisms(void)
{
    fake stale = {
        .culprits = 1u << 9, .fails_at = 20, .current_heals = true, .saturate_heals = true};
    json_t *v = diagnose(&stale, (plumb_diagnose_settings){0});
    const json_t *mechanism = json_object_get(v, "mechanism");

    expect(v, "numerics", 1, "forward", "site");
    CHECK(strcmp(text(mechanism, "name"), "stale scale") == 0, "%s",
          text(mechanism, "name"));
    CHECK(strcmp(text(mechanism, "level"), "caused") == 0, "%s", text(mechanism, "level"));
    CHECK(mentions(v, "fix", "e4m3:current"), "the fix is not the current scale");
    finish(&stale, v, "a scale that is stale");

    fake overflow = {.culprits = 1u << 9, .fails_at = 20, .saturate_heals = true};

    v = diagnose(&overflow, (plumb_diagnose_settings){0});
    mechanism = json_object_get(v, "mechanism");
    CHECK(strcmp(text(mechanism, "name"), "overflow") == 0, "%s", text(mechanism, "name"));
    CHECK(mentions(v, "fix", "e4m3:saturate"), "the fix is not the saturating cast");
    finish(&overflow, v, "a cast that overflows");

    fake refused = {.culprits = 1u << 9, .fails_at = 20, .refuses_current = true};

    v = diagnose(&refused, (plumb_diagnose_settings){0});
    CHECK(mentions(v, "limits", "so it was not tried"), "not said that it was refused");
    CHECK(!mentions(v, "statements", "e4m3:current"), "a refused change is said to fail");
    CHECK(mentions(v, "mechanism", "1 change(s)"), "%s",
          text(json_object_get(v, "mechanism"), "text"));
    finish(&refused, v, "a change that the trainer refuses");
}

static void masks(void)
{
    fake hides = {.culprits = 1u << 3, .fails_at = 20, .rate_hides_below = 0.5};
    json_t *v = diagnose(&hides, (plumb_diagnose_settings){0});
    const json_t *mask = json_object_get(v, "mask");

    expect(v, "numerics", 1, "backward", "site");
    CHECK(json_is_true(json_object_get(mask, "survived")), "the mask was not seen");
    CHECK(strstr(text(mask, "text"), "masked, not a fix") != NULL, "%s",
          text(mask, "text"));
    finish(&hides, v, "a lower rate hides it");

    fake stays = {.culprits = 1u << 3, .fails_at = 20};

    v = diagnose(&stays, (plumb_diagnose_settings){0});
    CHECK(json_is_false(json_object_get(json_object_get(v, "mask"), "survived")),
          "survived");
    finish(&stays, v, "a lower rate does not help");

    fake cannot = {.culprits = 1u << 3, .fails_at = 20, .without_lr_scale = true};

    v = diagnose(&cannot, (plumb_diagnose_settings){0});
    CHECK(json_is_null(json_object_get(v, "mask")), "a mask without lr_scale");
    CHECK(mentions(v, "limits", "masking"), "not said that masking was not tested");
    finish(&cannot, v, "masking not offered");
}

static void one_seed(void)
{
    fake f = {.culprits = 1u << 3, .fails_at = 20, .one_seed = true};
    json_t *v = diagnose(&f, (plumb_diagnose_settings){.seeds = 2});

    expect(v, "numerics", 1, "backward", "site");
    CHECK(fix_number(v, "held") == 1 && fix_number(v, "of") == 1, "held %lld of %lld",
          fix_number(v, "held"), fix_number(v, "of"));
    CHECK(mentions(v, "limits", "proves nothing"), "not said that the seed proves nothing");
    finish(&f, v, "seeds on which nothing fails");
}

/* On seed 2 another site of the class is to blame: the site's fix is rejected, the class's holds. */
static void other_seed(void)
{
    fake f = {.culprits = 1u << 3,
              .other_culprits = 1u << 5,
              .fails_at = 20,
              .current_heals = true};
    json_t *v = diagnose(&f, (plumb_diagnose_settings){0});
    const json_t *fix = json_object_get(v, "fix"),
                 *mechanism = json_object_get(v, "mechanism");

    expect(v, "numerics", 1, "backward", "site");
    CHECK(strcmp(text(fix, "text"), "class backward in bf16") == 0, "%s",
          text(fix, "text"));
    CHECK(fix_number(v, "held") == 2, "held %lld", fix_number(v, "held"));
    CHECK(strcmp(text(mechanism, "name"), "stale scale") == 0, "%s",
          text(mechanism, "name"));
    CHECK(strcmp(text(mechanism, "level"), "compared") == 0,
          "the mechanism is %s, and its change was rejected", text(mechanism, "level"));
    finish(&f, v, "a fix that holds on one seed only");

    fake none = {.culprits = 1u << 3, .other_culprits = 1u << 12, .fails_at = 20};

    v = diagnose(&none, (plumb_diagnose_settings){.seeds = 1});
    CHECK(strcmp(text(json_object_get(v, "fix"), "text"), "everything in bf16") == 0, "%s",
          text(json_object_get(v, "fix"), "text"));
    CHECK(fix_number(v, "held") == 2 && fix_number(v, "of") == 2, "held %lld of %lld",
          fix_number(v, "held"), fix_number(v, "of"));
    finish(&none, v, "seeds that need something else");
}

static void no_return(void)
{
    fake f = {
        .culprits = 1u << 3, .fails_at = 20, .current_heals = true, .never_returns = true};
    json_t *v = diagnose(&f, (plumb_diagnose_settings){0});
    const json_t *fix = json_object_get(v, "fix"),
                 *mechanism = json_object_get(v, "mechanism");

    expect(v, "numerics", 1, "backward", "site");
    CHECK(json_is_null(json_object_get(fix, "returned_at")), "it returned");
    CHECK(strcmp(text(fix, "level"), "compared") == 0, "fix %s", text(fix, "level"));
    CHECK(strcmp(text(mechanism, "level"), "compared") == 0, "mechanism %s",
          text(mechanism, "level"));
    CHECK(mentions(v, "limits", "not proved"), "not said that the cause is not proved");
    CHECK(!mentions(v, "statements", "caused"), "something is called caused");
    finish(&f, v, "a failure that does not come back");
}

static void confounded_arms(void)
{
    fake f = {.culprits = 1u << 3, .fails_at = 20, .arms_confounded = true};
    json_t *v = diagnose(&f, (plumb_diagnose_settings){0});

    expect(v, "numerics", 1, "", "all classes");
    CHECK(mentions(v, "limits", "other batches"), "not said that the batches differ");
    CHECK(mentions(v, "statements", "forward gave no answer"), "an arm without an answer");
    finish(&f, v, "arms on other batches count for nothing");
}

static void no_sites(void)
{
    fake f = {.culprits = 1u << 3, .fails_at = 20, .no_sites = true};
    json_t *v = diagnose(&f, (plumb_diagnose_settings){0});

    expect(v, "numerics", 1, "", "");
    CHECK(fix_number(v, "held") == 2, "held %lld", fix_number(v, "held"));
    finish(&f, v, "one global switch");
}

/* --- what must not be called numerics -------------------------------------------------------- */

static void not_numerics(void)
{
    fake f = {.fails_at = 20, .twin_fails = true, .rate_hides_below = 0.5};
    json_t *v = diagnose(&f, (plumb_diagnose_settings){0});

    expect(v, "not numerics", 1, "", "");
    CHECK(strstr(text(v, "headline"), "both survive") != NULL, "%s", text(v, "headline"));
    CHECK(f.runs == 5, "%d runs: look, run, twin, two rates", f.runs);
    finish(&f, v, "bf16 fails too");
}

/* A run that is asked for twice was run once, so it is counted once. */
static void counted_once(void)
{
    for (int one = 0; one <= 1; one++) {
        fake f = {.culprits = 8, .fails_at = 20, .one_id = one};
        json_t *v = diagnose(&f, (plumb_diagnose_settings){0});
        const json_t *cost = json_object_get(v, "cost"), *runs = json_object_get(v, "runs");
        double all = 0;

        for (size_t i = 0; i < json_array_size(runs); i++)
            all += json_real_value(json_object_get(json_array_get(runs, i), "horizons"));
        const double said = json_real_value(json_object_get(cost, "search")) +
                            json_real_value(json_object_get(cost, "proof"));

        CHECK(fabs(said - (one ? 0 : all)) < 1e-9 && all > 5, "%g of %g", said, all);
        finish(&f, v, one ? "one run, asked for often" : "each run counts");
    }
}

static void cannot_tell(void)
{
    static const struct {
        const char *name, *words;
        fake f;
        const char *verdict;
        int exit;
    } cases[] = {
        {"the policy is ignored",
         "ignored the policy",
         {.culprits = 8, .fails_at = 20, .deaf = true},
         "cannot tell",
         2},
        {"other batches",
         "confounded",
         {.culprits = 8, .fails_at = 20, .confounded = true},
         "cannot tell",
         2},
        {"fails once",
         "two results",
         {.culprits = 8, .fails_at = 20, .flaky = true},
         "not reproducible",
         2},
        {"refuses",
         "cannot do as asked: no ?[31m data",
         {.refuses = true},
         "cannot tell",
         3},
        {"fails when repeated",
         "two results",
         {.culprits = 8, .fails_at = 20, .fails_when_repeated = true},
         "not reproducible",
         2},
        {"fails much later when repeated",
         "the other fails at step 51",
         {.culprits = 8, .fails_at = 20, .repeat_late = 30},
         "not reproducible",
         2},
        {"healthy, and dies when repeated",
         "logged no step: the disk is full",
         {.dies_when_repeated = true},
         "cannot tell",
         2},
        {"logs nothing", "logged no step", {.silent = true}, "cannot tell", 2},
        {"interrupted in the look",
         "Interrupted",
         {.interrupt_after = 1},
         "cannot tell",
         2},
        {"interrupted in the search",
         "Interrupted",
         {.culprits = 8, .fails_at = 20, .interrupt_after = 7},
         "cannot tell",
         2},
        {"healthy", "Healthy up to step 200", {.culprits = 8}, "healthy", 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake f = cases[i].f;
        json_t *v = diagnose(&f, (plumb_diagnose_settings){0});

        expect(v, cases[i].verdict, cases[i].exit, "", "");
        CHECK(strstr(text(v, "headline"), cases[i].words) != NULL, "no '%s' in: %s",
              cases[i].words, text(v, "headline"));
        CHECK(json_is_null(json_object_get(v, "fix")), "a fix");
        CHECK(strstr(text(v, "next"), "--study 'plumb fake-") != NULL, "next: %s",
              text(v, "next"));
        finish(&f, v, cases[i].name);
    }
}

static void plan(void)
{
    fake f = {.culprits = 8, .fails_at = 20};
    json_t *v = diagnose(&f, (plumb_diagnose_settings){.plan_only = true});

    expect(v, "cannot tell", 0, "", "");
    CHECK(f.runs == 2, "%d runs for a plan", f.runs);
    CHECK(strstr(text(v, "headline"), "Plan only") != NULL, "%s", text(v, "headline"));
    CHECK(strcmp(strstr(text(v, "next"), " -- "), " -- fake 'a b'") == 0, "next: %s",
          text(v, "next"));
    finish(&f, v, "plan");
}

/* A band says what it was measured from, and nothing of orders that did not run. */
static void bands(void)
{
    fake one = {.culprits = 8, .fails_at = 20, .orders_die = 1};
    json_t *v = diagnose(&one, (plumb_diagnose_settings){0});

    CHECK(mentions(v, "band", "between 2 orders"), "not measured from two orders");
    finish(&one, v, "one order of sums died");

    fake both = {.culprits = 8, .fails_at = 20, .orders_die = 2};

    v = diagnose(&both, (plumb_diagnose_settings){0});
    CHECK(mentions(v, "band", "0.100 nats, an assumption"), "not assumed");
    CHECK(mentions(v, "limits", "no run with another order of sums got to its end"),
          "not said why the band is assumed");
    CHECK(!mentions(v, "limits", "changed nothing"), "orders that died changed nothing");
    finish(&both, v, "both orders of sums died");
}

/* As bracket expressions, since Python's fnmatch knows no backslash. */
static void special_names(void)
{
    fake f = {.culprits = 1u << 10, .fails_at = 20};
    json_t *v = diagnose(&f, (plumb_diagnose_settings){0});

    CHECK(mentions(v, "fix", "\"f[[]second].w\""), "a bracket is not a class of itself");
    finish(&f, v, "a site's name with a bracket");
}

/* Past int64 a seed is text, as in request.json. */
static void large_seed(void)
{
    fake f = {.culprits = 8};
    json_t *v = diagnose(
        &f, (plumb_diagnose_settings){.has_seed = true, .seed = 9223372036854775809u});

    CHECK(mentions(v, "runs", "\"seed\":\"9223372036854775809\""), "not the seed's digits");
    finish(&f, v, "a seed past 2^63");
}

/* A trainer that does not say that it obeys a data seed would have to refuse one. */
static void data_seed(void)
{
    for (int promised = 0; promised <= 1; promised++) {
        fake f = {.culprits = 8, .fails_at = 20, .without_lr_scale = promised};
        json_t *v = diagnose(&f, (plumb_diagnose_settings){.has_seed = true, .seed = 1});

        CHECK(f.data_seeds == (promised ? f.runs - 1 : 0), "%d of %d runs", f.data_seeds,
              f.runs);
        finish(&f, v, "a data seed is asked of those who take one");
    }
}

int main(void)
{
    one_site();
    data_seed();
    several();
    pairs();
    mechanisms();
    masks();
    one_seed();
    other_seed();
    no_return();
    confounded_arms();
    no_sites();
    not_numerics();
    counted_once();
    cannot_tell();
    plan();
    bands();
    special_names();
    large_seed();
    return check_exit();
}
