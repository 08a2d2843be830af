/* Which trial a use amounts to, and which name follows from what healed. */
#include "diagnose/mechanism.h"

#include <math.h>

#include "check.h"

static void trial(const char *own_text, const char *use, int want)
{
    plumb_spec own;
    plumb_trial got = PLUMB_TRIAL_COUNT;
    plumb_error why = {0};

    CHECK_OK(plumb_spec_parse(own_text, NULL, &own, &why), why);
    const bool is = plumb_trial_of(&own, use, &got);

    CHECK(is == (want >= 0) && (!is || (int)got == want), "%s under %s: %d, want %d", use,
          own_text, is ? (int)got : -1, want);
}

static void trials(void)
{
    static const char delayed[] = "e4m3:delayed:history=16:overflow";

    trial(delayed, "e4m3:current", PLUMB_TRIAL_CURRENT);
    trial(delayed, "e4m3:current:saturate", PLUMB_TRIAL_CURRENT);
    trial(delayed, "e4m3:saturate", PLUMB_TRIAL_SATURATE);
    trial(delayed, "e5m2", PLUMB_TRIAL_RANGE);
    trial(delayed, "e4m3:1x128:current", PLUMB_TRIAL_GRAIN);
    trial("e4m3:current", "e4m3:128x128", PLUMB_TRIAL_GRAIN);
    trial("e4m3:static=4", "e4m3:current", PLUMB_TRIAL_CURRENT);
    trial("e4m3:none", "e4m3:current", PLUMB_TRIAL_CURRENT);
    trial("e4m3:current", "e4m3:mx32", PLUMB_TRIAL_GRAIN);
    trial("e4m3:current", "e4m3:row", PLUMB_TRIAL_GRAIN);
    trial("e4m3fnuz:mx32:mx-floor", "e5m2fnuz", PLUMB_TRIAL_RANGE);
    trial("e4m3:mx32:mx-floor:overflow", "e4m3:saturate", PLUMB_TRIAL_SATURATE);
    trial("e4m3:mx32:mx-floor:overflow", "e4m3:saturate:mx-rceil", -1);
    trial("e4m3:mx32:mx-floor", "e5m2:mx-rceil", -1);
    trial("e4m3:overflow:toward-zero", "e4m3:saturate:rne", -1);
    trial("e4m3:current", "e4m3:mx32:stochastic", -1);
    trial("e2m1:nvfp4", "e4m3", -1);
    trial(delayed, "e4m3", -1);
    trial(delayed, "bf16", -1);
    trial(delayed, "fp32", -1);
    trial(delayed, "e5m2:current", -1);
    trial(delayed, "e5m2:saturate", -1);
    trial(delayed, "e4m3:delayed:history=1:saturate", -1);
    trial("e5m2:current", "e4m3", -1);
    trial("e4m3:current", "e4m3:overflow", -1);
    trial(delayed, "no such thing", -1);
    check_done("uses and trials");
}

static const plumb_spec delayed = {.format = PLUMB_E4M3, .rule = PLUMB_SCALE_DELAYED};

static plumb_mechanism choose(plumb_trial_result current, plumb_trial_result range,
                              plumb_trial_result grain, plumb_trial_result saturate,
                              plumb_story story)
{
    const plumb_trials t = {{current, range, grain, saturate}};
    plumb_mechanism m;

    plumb_mechanism_choose(&t, &story, &delayed, &m);
    return m;
}

/* The same of a site whose cast has no scale, or one that is set once. */
static plumb_mechanism choose_of(plumb_scale_rule rule, plumb_trial_result current,
                                 plumb_story story)
{
    const plumb_spec own = {.format = PLUMB_E4M3, .rule = rule};
    const plumb_trials t = {{[PLUMB_TRIAL_CURRENT] = current}};
    plumb_mechanism m;

    plumb_mechanism_choose(&t, &story, &own, &m);
    return m;
}

static void expect(plumb_mechanism m, const char *name, int by, bool counterfactual,
                   const char *words)
{
    CHECK(strcmp(m.name, name) == 0, "'%s', want '%s'", m.name, name);
    CHECK(m.trial == by, "%s by trial %d, want %d", name, m.trial, by);
    CHECK(m.by_counterfactual == counterfactual, "%s: counterfactual %d", name,
          m.by_counterfactual);
    CHECK(strstr(m.text, words) != NULL, "no '%s' in: %s", words, m.text);
}

static void names(void)
{
    const plumb_trial_result no = PLUMB_TRIAL_NOT_OFFERED, bad = PLUMB_TRIAL_FAILED,
                             ok = PLUMB_TRIAL_HEALED;
    const plumb_story plain = {.known = true, .factor = 1};
    const plumb_story frozen = {
        .known = true, .factor = 1, .frozen_since = 5, .frozen_growth = 7};
    const plumb_story off = {.known = true, .factor = 16};
    const plumb_story small = {.known = true, .factor = 1.0 / 16};
    const plumb_story nothing = {.factor = NAN};

    expect(choose(ok, bad, no, ok, frozen), "stale scale", PLUMB_TRIAL_CURRENT, true,
           "frozen since step 5");
    expect(choose(ok, bad, no, ok, frozen), "stale scale", PLUMB_TRIAL_CURRENT, true,
           "overflow a cast that does not saturate");
    expect(choose(ok, no, no, no, plain), "stale scale", PLUMB_TRIAL_CURRENT, true,
           "does not follow");
    expect(choose(bad, no, no, ok, plain), "overflow", PLUMB_TRIAL_SATURATE, true,
           "does not saturate");
    expect(choose(no, ok, no, bad, plain), "range", PLUMB_TRIAL_RANGE, true, "more range");
    expect(choose(bad, bad, ok, no, plain), "granularity", PLUMB_TRIAL_GRAIN, true,
           "each block");
    expect(choose(bad, bad, no, bad, off), "inconsistent scale", -1, false, "16 times");
    expect(choose(bad, bad, no, bad, small), "inconsistent scale", -1, false, "0.0625");
    expect(choose(bad, bad, no, bad, plain), "not isolated", -1, false, "3 change(s)");
    expect(choose(no, no, no, no, nothing), "not isolated", -1, false, "offers no change");
    expect(choose(no, no, no, no, frozen), "not isolated", -1, false,
           "no change of the scale");
    const plumb_story shrunk = {.known = true,
                                .factor = 1,
                                .frozen_since = 1,
                                .frozen_growth = 0.01,
                                .flushed = 0.98};

    expect(choose(ok, no, no, no, shrunk), "stale scale", PLUMB_TRIAL_CURRENT, true,
           "shrank to 0.01");
    expect(choose_of(PLUMB_SCALE_NONE, ok, shrunk), "missing scale", PLUMB_TRIAL_CURRENT,
           true, "98 % of them become zero");
    CHECK(strstr(choose_of(PLUMB_SCALE_NONE, bad, shrunk).text, "frozen") == NULL,
          "no scale, and it is frozen?");
    expect(choose_of(PLUMB_SCALE_STATIC, ok, shrunk), "stale scale", PLUMB_TRIAL_CURRENT,
           true, "fixed scale does not follow");
    check_done("names");
}

int main(void)
{
    trials();
    names();
    return check_exit();
}
