/* Arithmetic of horizons. */
#include "diagnose/cost.h"

int64_t plumb_cost_horizon(int64_t failure, int64_t decided, int64_t margin,
                           int64_t schedule)
{
    int64_t horizon = failure + (margin > 0 ? margin : 50);

    if (schedule > 0 && horizon > schedule)
        horizon = schedule;
    return horizon > decided ? horizon : decided;
}

int64_t plumb_cost_steps(int64_t start, int64_t last)
{
    return last > start ? last - start : 0;
}

size_t plumb_cost_search_arms(size_t classes, const size_t *groups, size_t levels)
{
    size_t arms = classes;

    for (size_t i = 0; i < levels; i++)
        for (size_t parts = groups[i]; parts > 1; parts = (parts + 1) / 2)
            arms += 2;
    return arms;
}

bool plumb_cost_start_pays(int64_t step, int64_t failure, int64_t horizon, size_t arms)
{
    if (step <= 0 || step >= failure || step >= horizon)
        return false;
    const int64_t check = (failure - step) + (horizon - step);

    return (int64_t)arms * step > check;
}
