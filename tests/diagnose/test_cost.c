/* Horizons, by hand. */
#include "diagnose/cost.h"

#include "check.h"

static void horizon(void)
{
    CHECK(plumb_cost_horizon(22, 22, 0, 0) == 72, "at least 50 steps behind the failure");
    CHECK(plumb_cost_horizon(22, 22, 30, 0) == 52, "margin as asked");
    CHECK(plumb_cost_horizon(22, 31, 5, 0) == 31, "never before the failure was decided");
    CHECK(plumb_cost_horizon(180, 189, 0, 200) == 200, "not beyond the schedule");
    check_done("horizon");
}

static void steps(void)
{
    CHECK(plumb_cost_steps(0, 72) == 72 && plumb_cost_steps(17, 72) == 55,
          "steps of a run");
    CHECK(plumb_cost_steps(17, 0) == 0, "a run without a step costs none");
    check_done("steps");
}

static void start(void)
{
    CHECK(plumb_cost_start_pays(95, 100, 150, 12), "12 arms save 95 steps each");
    CHECK(!plumb_cost_start_pays(3, 8, 58, 12), "36 steps saved for 60 of check");
    CHECK(!plumb_cost_start_pays(0, 100, 150, 12), "step 0 saves nothing");
    CHECK(!plumb_cost_start_pays(100, 100, 150, 12), "not at the failure");
    /* saved 5 * 20 = 100, check (40 - 20) + (100 - 20) = 100: no gain, so no */
    CHECK(!plumb_cost_start_pays(20, 40, 100, 5) && plumb_cost_start_pays(20, 40, 100, 6),
          "the line between");
    check_done("when a checkpoint pays");
}

static void search(void)
{
    const size_t groups[] = {5, 1, 2};

    /* 3 classes; 5 -> 3 -> 2 -> 1 is three halvings; 1 none; 2 one: two arms each */
    CHECK(plumb_cost_search_arms(3, groups, 3) == 11, "%zu arms",
          plumb_cost_search_arms(3, groups, 3));
    check_done("arms of a search");
}

int main(void)
{
    horizon();
    steps();
    start();
    search();
    return check_exit();
}
