/* Which rule wins, what it makes of the site's own spec, and what the presets say of every
 * kind of site.
 */
#include "plumb/policy.h"

#include "check.h"

static plumb_spec parse(const char *text)
{
    plumb_spec spec = {0};
    plumb_error why = {0};

    CHECK_OK(plumb_spec_parse(text, NULL, &spec, &why), why);
    return spec;
}

static plumb_rule rule(const char *const *glob, const char *use, bool raise)
{
    return (plumb_rule){glob, 1, use, raise};
}

static void expect(const plumb_rule *rules, size_t count, const char *site, const char *own,
                   const char *want, size_t want_winner)
{
    const plumb_spec before = parse(own), due = parse(want);
    plumb_spec got = {0};
    plumb_error why = {0};
    size_t winner = 99;
    char text[PLUMB_SPEC_TEXT];

    CHECK_OK(plumb_policy_resolve(rules, count, site, &before, &got, &winner, &why), why);
    plumb_spec_print(&got, text);
    CHECK(plumb_spec_equal(&got, &due), "%s, own %s: %s, want %s", site, own, text, want);
    CHECK(winner == want_winner, "%s: rule %zu decided, want %zu", site, winner,
          want_winner);
}

static void classes(void)
{
    for (int i = 0; i < PLUMB_CLASS_COUNT; i++) {
        plumb_class back = PLUMB_CLASS_COUNT;

        CHECK(plumb_class_parse(plumb_class_name((plumb_class)i), &back) && (int)back == i,
              "class %d came back as %d", i, (int)back);
    }
    plumb_class class_ = PLUMB_NORM;
    CHECK(!plumb_class_parse("forwards", &class_) && class_ == PLUMB_NORM, "forwards");
    CHECK(strcmp(plumb_class_name(PLUMB_BACKWARD), "backward") == 0, "backward");
    CHECK(plumb_class_name((plumb_class)77) != NULL, "class 77 has no name");
    check_done("classes");
}

static void globs(void)
{
    static const struct {
        const char *glob, *site;
        bool matches;
    } cases[] = {
        {"*", "layer.0/mlp.up/fprop/x", true},
        {"layer.*/fprop/*", "layer.0/mlp.up/fprop/x", true}, /* '*' crosses '/' */
        {"layer.0/*", "layer.01/fprop/x", false},
        {"layer.?/*", "layer.7/fprop/x", true},
        {"layer.?/*", "layer.17/fprop/x", false},
        {"layer.[0-3]/*", "layer.2/a", true},
        {"layer.[!0-3]/*", "layer.2/a", false},
        {"layer.0/mlp.up/fprop/x", "layer.0/mlp.up/fprop/x", true},
        {"layer.0/mlp.up/fprop/", "layer.0/mlp.up/fprop/x", false},
        {"fprop", "layer.0/mlp.up/fprop/x", false},
        {"*.hidden", ".hidden", true}, /* a leading period is nothing special */
        {"", "x", false},
        {"\\*", "*", true},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const plumb_rule r = rule(&cases[i].glob, "bf16", false);

        CHECK(plumb_rule_matches(&r, cases[i].site) == cases[i].matches, "\"%s\" on \"%s\"",
              cases[i].glob, cases[i].site);
    }
    static const char *const two[] = {"a", "b"};
    CHECK(plumb_rule_matches(&(plumb_rule){two, 2, "bf16", false}, "b"),
          "the second of a list");
    CHECK(!plumb_rule_matches(&(plumb_rule){NULL, 0, "bf16", false}, "b"), "an empty list");
    check_done("globs");
}

static void winners(void)
{
    static const char *const all = "*", *const up = "*/mlp.up/*", *const x = "*/x";
    const plumb_rule rules[] = {rule(&all, "e4m3:current", false), rule(&up, "bf16", false),
                                rule(&x, "own", false)};
    const char *own = "e5m2:delayed:history=4:margin=1";

    expect(rules, 3, "layer.0/mlp.down/w", own, "e4m3:current:margin=1", 0);
    expect(rules, 3, "layer.0/mlp.up/w", own, "bf16", 1);
    expect(rules, 3, "layer.0/mlp.up/x", own, own, 2);
    expect(rules, 0, "layer.0/mlp.up/x", own, own, SIZE_MAX);
    expect(rules + 1, 1, "layer.0/mlp.down/x", own, own, SIZE_MAX);
    check_done("the last rule that matches wins");
}

static void bare_formats(void)
{
    static const char *const all = "*";
    const plumb_rule to_e5m2 = rule(&all, "e5m2", false);

    expect(&to_e5m2, 1, "s", "e4m3:delayed:history=4:margin=1:overflow",
           "e5m2:delayed:history=4:margin=1:overflow", 0);
    expect(&to_e5m2, 1, "s", "bf16", "e5m2:tensor:current:saturate", 0);
    expect(&to_e5m2, 1, "s", "fp32", "e5m2:tensor:current:saturate", 0);
    check_done("bare formats");
}

static void raising(void)
{
    static const char *const all = "*";
    const plumb_rule rules[] = {rule(&all, "e4m3", false), rule(&all, "bf16", true),
                                rule(&all, "own", true)};

    expect(rules + 1, 1, "s", "e5m2", "bf16", 0);
    expect(rules + 1, 1, "s", "bf16", "bf16", SIZE_MAX);
    expect(rules + 1, 1, "s", "fp32", "fp32", SIZE_MAX); /* moments are not lowered */
    expect(rules, 2, "s", "e5m2", "bf16", 1);
    expect(rules, 2, "s", "fp32", "e4m3", 0); /* passed over: the rule before decides */
    expect(rules + 2, 1, "s", "e5m2", "e5m2", SIZE_MAX);
    expect(rules, 3, "s", "e5m2", "bf16", 1);
    const plumb_rule sideways = rule(&all, "e5m2", true);
    expect(&sideways, 1, "s", "e4m3", "e4m3", SIZE_MAX); /* as many bits */
    check_done("raise");
}

static void bad_rules(void)
{
    static const char *const all = "*", *const none = "nothing";
    plumb_rule rules[] = {rule(&all, "bf16", false), rule(&none, "rubbish", false),
                          rule(&all, "e4m3:rubbish", false)};
    const plumb_spec own = parse("e4m3");
    plumb_spec got = {.format = PLUMB_FP32, .margin = 5};
    plumb_error why = {0};

    CHECK(plumb_policy_resolve(rules, 3, "s", &own, &got, NULL, &why) == PLUMB_BAD_INPUT,
          "rubbish was accepted");
    CHECK(strstr(why.message, "rule 3") != NULL && strstr(why.message, "rubbish") != NULL,
          "neither number nor word in \"%s\"", why.message);
    CHECK(got.format == PLUMB_FP32 && got.margin == 5, "written on failure");
    CHECK(plumb_policy_resolve(rules, 2, "s", &own, &got, NULL, &why) == PLUMB_OK &&
              got.format == PLUMB_BF16,
          "a bad rule that does not match was held against the site");
    check_done("bad rules");
}

/* What each preset makes of every kind of site, where the trainer's own is bf16 for operands
 * and fp32 for the rest.
 */
static void presets(void)
{
    static const char *const delayed_f = "e4m3:tensor:delayed:history=1024";
    static const char *const delayed_b = "e5m2:tensor:delayed:history=1024";
    static const char *const ds = "e4m3:1x128:current:divide:floor=1e-4";
    static const char *const ds_w = "e4m3:128x128:current:divide:floor=1e-4";
    static const char *const ds_dy = "e4m3:1x128:current:divide:floor=1e-12";
    static const char *const mx = "e4m3:mx32", *const floor = "e4m3:mx32:mx-floor";
    static const char *const row = "e4m3:row:pow2:floor=1e-12";
    const struct {
        const char *site, *own, *te_delayed, *te_current, *deepseek, *mxfp8, *ocp, *rowwise;
    } rows[] = {
        {"layer.0/attn.qkv/fprop/x", "bf16", delayed_f, "e4m3", ds, mx, floor, row},
        {"layer.0/attn.qkv/fprop/w", "bf16", delayed_f, "e4m3", ds_w, mx, floor, row},
        {"layer.12/mlp.down/dgrad/dy", "bf16", delayed_b, "e5m2", ds_dy, mx, floor, row},
        {"layer.12/mlp.down/dgrad/w", "bf16", delayed_f, "e4m3", ds_w, mx, floor, row},
        {"layer.3/mlp.up/wgrad/dy", "bf16", delayed_b, "e5m2", ds_dy, mx, floor, row},
        {"layer.3/mlp.up/wgrad/x", "bf16", delayed_f, "e4m3", ds, mx, floor, row},
        {"head/fprop/x", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16"},
        {"head/wgrad/dy", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16"},
        {"layer.0/mlp.up/optimizer/m", "fp32", "fp32", "fp32", "bf16", "fp32", "fp32",
         "fp32"},
        {"head/optimizer/v", "fp32", "fp32", "fp32", "bf16", "fp32", "fp32", "fp32"},
        {"head/collective/grad", "fp32", "fp32", "fp32", "fp32", "fp32", "fp32", "fp32"},
        {"layer.0/mlp.up/collective/grad", "fp32", "fp32", "fp32", "fp32", "fp32", "fp32",
         "fp32"},
    };
    const char *const names[] = {"bf16",     "te-delayed", "te-current",     "deepseek-v3",
                                 "te-mxfp8", "ocp-mx",     "torchao-rowwise"};

    for (size_t p = 0; p < 7; p++) {
        const plumb_preset *preset = plumb_preset_find(names[p]);

        if (!CHECK(preset != NULL && preset->summary != NULL, "no preset %s", names[p]))
            continue;
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            const char *want[] = {rows[i].own,      rows[i].te_delayed, rows[i].te_current,
                                  rows[i].deepseek, rows[i].mxfp8,      rows[i].ocp,
                                  rows[i].rowwise};
            const plumb_spec own = parse(rows[i].own), due = parse(want[p]);
            plumb_spec got = {0};
            plumb_error why = {0};
            char text[PLUMB_SPEC_TEXT];

            CHECK_OK(plumb_policy_resolve(preset->rules, preset->rule_count, rows[i].site,
                                          &own, &got, NULL, &why),
                     why);
            plumb_spec_print(&got, text);
            CHECK(plumb_spec_equal(&got, &due), "%s, %s: %s, want %s", names[p],
                  rows[i].site, text, want[p]);
        }
    }
    CHECK(plumb_preset_find("bf17") == NULL, "a preset bf17");
    CHECK(plumb_preset_count == 7, "%zu presets", plumb_preset_count);
    check_done("presets");
}

int main(void)
{
    classes();
    globs();
    winners();
    bare_formats();
    raising();
    bad_rules();
    presets();
    return check_exit();
}
