/* First movement and the story of a scale, on samples made by hand. */
#include "diagnose/moved.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"

enum { SITES = 3, STEPS = 20 };

typedef struct run {
    plumb_sample at[SITES * STEPS];
    char *names[SITES];
    plumb_samples samples;
} run;

static char a_name[] = "a", b_name[] = "b", c_name[] = "c";

/* Healthy everywhere: headroom 4 (site a: 3 to 5 in turn), decoded as large as the source. */
static void fill(run *r)
{
    *r = (run){.names = {a_name, b_name, c_name}};
    for (size_t step = 0; step < STEPS; step++)
        for (size_t site = 0; site < SITES; site++)
            r->at[step * SITES + site] = (plumb_sample){
                .step = step + 1,
                .site = (uint32_t)site,
                .scale = 1,
                .amax = 100,
                .decoded_amax = 100,
                .headroom = site > 0        ? 4
                            : step % 2 == 0 ? 3
                                            : 5,
                .total = 1000,
                .flushed = 10,
            };
    r->samples = (plumb_samples){r->names, SITES, r->at, SITES * STEPS, false};
}

static plumb_sample *at(run *r, size_t site, size_t step)
{
    return &r->at[(step - 1) * SITES + site];
}

static plumb_movement first(run *own, run *clean, const bool *among, const bool *changed,
                            const bool *prefer, int64_t before, bool *found)
{
    static const bool same[SITES];
    plumb_movement m;
    plumb_error why = {0};

    CHECK_OK(plumb_moved_first(&own->samples, &clean->samples, among,
                               changed != NULL ? changed : same, prefer, before, &m, found,
                               &why),
             why);
    return m;
}

static void in_range(void)
{
    run own, clean;
    bool found;

    fill(&own);
    fill(&clean);
    first(&own, &clean, NULL, NULL, NULL, 18, &found);
    CHECK(!found, "a healthy run moved");
    at(&own, 0, 7)->headroom = 2.5F; /* clean 3 to 5, widened to 2.4 */
    at(&own, 0, 8)->headroom = 2.5F;
    at(&own, 0, 9)->headroom = 2.5F;
    first(&own, &clean, NULL, NULL, NULL, 18, &found);
    CHECK(!found, "inside the margin is no movement");
    at(&own, 1, 5)->saturated = 500; /* a lone sample */
    at(&own, 1, 6)->saturated = 500;
    first(&own, &clean, NULL, NULL, NULL, 18, &found);
    CHECK(!found, "two samples in a row are not three");
    check_done("what is no movement");
}

static void moves(void)
{
    run own, clean;
    bool found;

    fill(&own);
    fill(&clean);
    for (size_t step = 9; step <= STEPS; step++)
        at(&own, 1, step)->headroom = 0.5F;
    for (size_t step = 11; step <= 13; step++)
        at(&own, 2, step)->saturated = 20;
    plumb_movement m = first(&own, &clean, NULL, NULL, NULL, 18, &found);

    CHECK(found && m.site == 1 && m.step == 9 && strcmp(m.statistic, "headroom") == 0,
          "found %d site %zu step %lld", found, m.site, (long long)m.step);
    CHECK(m.value == 0.5 && fabs(m.least - 3.2) < 1e-6 && m.against_clean,
          "value %g, least %g", m.value, m.least);
    m = first(&own, &clean, (bool[]){false, false, true}, NULL, NULL, 18, &found);
    CHECK(found && m.site == 2 && m.step == 11 && m.value == 0.02,
          "among: site %zu step %lld", m.site, (long long)m.step);
    first(&own, &clean, (bool[]){false, false, true}, NULL, NULL, 11, &found);
    CHECK(!found, "a movement at the failure itself is none before it");
    for (size_t step = 9; step <= STEPS; step++)
        at(&own, 2, step)->decoded_amax = 1600;
    m = first(&own, &clean, NULL, NULL, (bool[]){false, false, true}, 18, &found);
    CHECK(found && m.site == 2 && m.step == 9 && m.value == 16, "prefer: site %zu", m.site);
    m = first(&own, &clean, NULL, NULL, NULL, 18, &found);
    CHECK(found && m.site == 1, "without preference the first site: %zu", m.site);
    check_done("movements");
}

static void to_the_end(void)
{
    run own, clean;
    bool found;

    fill(&own);
    fill(&clean);
    at(&own, 0, STEPS)->nonfinite = 1; /* the last sample only: it stays outside */
    const plumb_movement m = first(&own, &clean, NULL, NULL, NULL, STEPS + 1, &found);

    CHECK(found && m.step == STEPS && strcmp(m.statistic, "non-finite values") == 0,
          "outside to the end was not seen");
    check_done("outside to the last sample");
}

/* The clean arm ran site b in bf16: its own range says nothing of an 8-bit format. */
static void changed(void)
{
    const bool change[SITES] = {false, true, false};
    run own, clean;
    bool found;

    fill(&own);
    fill(&clean);
    for (size_t step = 1; step <= STEPS; step++) {
        at(&clean, 1, step)->headroom = 1e30F;
        at(&clean, 1, step)->flushed = 0;
        at(&own, 1, step)->flushed = 400;
    }
    first(&own, &clean, NULL, change, NULL, 18, &found);
    CHECK(!found, "a healthy 8-bit site differs from bf16, and that is no movement");
    for (size_t step = 12; step <= STEPS; step++)
        at(&own, 1, step)->headroom = 0.7F;
    const plumb_movement m = first(&own, &clean, NULL, change, NULL, 18, &found);

    CHECK(found && m.site == 1 && m.step == 12 && !m.against_clean, "step %lld",
          (long long)m.step);
    check_done("a site whose format the fix changes");
}

static void stories(void)
{
    static const bool all[SITES] = {true, true, true};
    run own;
    plumb_story s;
    plumb_error why = {0};

    fill(&own);
    CHECK_OK(plumb_story_read(&own.samples, all, 18, &s, &why), why);
    CHECK(s.known && s.frozen_since == 0 && s.factor == 1,
          "a healthy story: since %lld, %g", (long long)s.frozen_since, s.factor);
    for (size_t step = 1; step <= STEPS; step++) {
        at(&own, 1, step)->scale = step < 6 ? (float)step : 6;
        at(&own, 1, step)->amax = (float)(10 * step);
        at(&own, 1, step)->decoded_amax = (float)(10 * step);
        at(&own, 1, step)->headroom = 40 / (float)(10 * step);
    }
    at(&own, 1, 17)->saturated = 100;
    CHECK_OK(plumb_story_read(&own.samples, all, 18, &s, &why), why);
    CHECK(s.site == 1 && s.frozen_since == 6, "site %zu frozen since %lld", s.site,
          (long long)s.frozen_since);
    CHECK(fabs(s.frozen_growth - 17.0 / 6) < 1e-6, "growth %g", s.frozen_growth);
    CHECK(s.saturated == 0.1, "saturated %g", s.saturated);
    for (size_t step = 8; step <= STEPS; step++)
        at(&own, 2, step)->decoded_amax = 1600;
    CHECK_OK(plumb_story_read(&own.samples, all, 18, &s, &why), why);
    CHECK(s.factor == 16, "factor %g", s.factor);
    check_done("stories");
}

/* A site number outside the table (a damaged file) is passed over. */
static void hostile(void)
{
    run own, clean;
    bool found;

    fill(&own);
    fill(&clean);
    at(&own, 0, 3)->site = 77;
    first(&own, &clean, NULL, NULL, NULL, 18, &found);
    CHECK(!found, "moved");
    own.samples.count = 0;
    first(&own, &clean, NULL, NULL, NULL, 18, &found);
    CHECK(!found, "moved without a sample");
    check_done("odd samples");
}

static size_t suspect(const run *r, int64_t before)
{
    static const bool all[SITES] = {true, true, true};
    plumb_error why = {0};
    size_t site;

    CHECK_OK(plumb_suspect(&r->samples, all, before, &site, &why), why);
    return site;
}

/* Steps from `since` on, `times` as large under the scale of before. */
static void grow(run *r, size_t site, size_t since, float times)
{
    for (size_t step = since; step <= STEPS; step++) {
        at(r, site, step)->amax = 100 * times;
        at(r, site, step)->decoded_amax = 100 * times;
    }
}

static void suspects(void)
{
    run r;

    fill(&r);
    CHECK(suspect(&r, 18) == SIZE_MAX, "a healthy run");
    grow(&r, 1, 10, 1.4F);
    CHECK(suspect(&r, 18) == SIZE_MAX, "a little growth");
    grow(&r, 1, 10, 2);
    CHECK(suspect(&r, 18) == 1, "growth under a scale that stands still");
    CHECK(suspect(&r, 10) == SIZE_MAX, "growth after the failure");
    at(&r, 2, 17)->decoded_amax = 300;
    CHECK(suspect(&r, 18) == 2, "a ratio that is further off");
    CHECK(suspect(&r, 19) == 1, "a ratio that was off before");
    at(&r, 2, 17)->decoded_amax = 20;
    CHECK(suspect(&r, 18) == 2, "a ratio below 1");
    at(&r, 0, 17)->nonfinite = 1;
    CHECK(suspect(&r, 18) == 0, "values that are not finite");
    fill(&r);
    grow(&r, 1, 10, 2);
    for (size_t step = 10; step <= STEPS; step++)
        at(&r, 1, step)->scale = 0.5F;
    CHECK(suspect(&r, 18) == SIZE_MAX, "growth that the scale follows");
    check_done("the most suspect site");
}

int main(void)
{
    suspects();
    in_range();
    moves();
    to_the_end();
    changed();
    stories();
    hostile();
    return check_exit();
}
