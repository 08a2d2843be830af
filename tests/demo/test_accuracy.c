/* What counts as right and what is counted apart, on draws made up by hand; and the summary of a table of
 * scenarios.
 */
#include "check.h"
#include "cli/demo.h"

static json_t *printed;

/* Instead of standard output. */
int cli_print_json(json_t *json)
{
    json_decref(printed);
    printed = json;
    return CLI_HEALTHY;
}

static const struct row {
    int from;
    const char *said;
    int64_t failed_at;
    bool right, site_right;
} rows[] = {
    {10, "forward", 20, true, true},        /* counts */
    {10, "forward", 10, true, false},       /* the first step that can fail */
    {10, "backward", 20, false, false},     /* counts, wrong */
    {10, "cannot tell", 20, false, false},  /* counts, wrong */
    {10, "healthy", 0, false, false},       /* does not fail */
    {10, "forward", 9, true, true},         /* fails before the fault */
    {10, "not numerics", 5, false, false},  /* the same */
    {10, "not numerics", 15, false, false}, /* its twin fails */
    {0, "forward", 1, true, true},          /* a rule: from the first step on */
};
enum { ROWS = sizeof rows / sizeof *rows };

static int64_t number(const char *part, const char *key)
{
    const json_t *at = part != NULL ? json_object_get(printed, part) : printed;

    return json_integer_value(json_object_get(at, key));
}

static void fill(demo_scenario *scenarios, demo_row *table)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        demo_score *s = &table[i].score;

        plumb_print(scenarios[i].name, DEMO_NAME, "draw-%zu", i);
        scenarios[i].planted = r->from > 0 ? json_pack("{s:[{s:i}],s:[s]}", "faults",
                                                       "from", r->from, "sites", "a")
                                           : json_pack("{s:[s]}", "sites", "a");
        table[i].scenario = &scenarios[i];
        plumb_print(s->said, sizeof s->said, "%s", r->said);
        plumb_print(s->planted, sizeof s->planted, "forward");
        s->failed_at = r->failed_at;
        s->right = r->right;
        s->site_right = r->site_right;
        s->fault = true;
        s->horizons = (double)(i + 1);
    }
}

static void of_draws(const demo_row *table)
{
    const int code = demo_show_draws(table, ROWS, 3, true);

    CHECK(code == CLI_PROBLEM, "exit %d", code);
    if (!CHECK(printed != NULL, "no JSON"))
        return;
    CHECK(number(NULL, "faults_seed") == 3, "seed %lld",
          (long long)number(NULL, "faults_seed"));
    CHECK(number("class", "right") == 3 && number("class", "of") == 5, "class %lld of %lld",
          (long long)number("class", "right"), (long long)number("class", "of"));
    CHECK(number("site", "right") == 2 && number("site", "of") == 5, "site %lld of %lld",
          (long long)number("site", "right"), (long long)number("site", "of"));
    CHECK(number("cannot_tell", "right") == 1, "cannot tell %lld",
          (long long)number("cannot_tell", "right"));
    CHECK(number(NULL, "not_failing") == 1, "%lld do not fail",
          (long long)number(NULL, "not_failing"));
    CHECK(number(NULL, "failing_early") == 2, "%lld fail early",
          (long long)number(NULL, "failing_early"));
    CHECK(number(NULL, "twin_fails") == 1, "%lld twins fail",
          (long long)number(NULL, "twin_fails"));
    CHECK(json_array_size(json_object_get(printed, "draws")) == ROWS, "%zu draws",
          json_array_size(json_object_get(printed, "draws")));
    check_done("what counts, and what is counted apart");
}

static void of_scenarios(demo_row *table)
{
    CHECK(demo_show_table(table, ROWS, true) == CLI_PROBLEM, "a wrong class passes");
    if (!CHECK(printed != NULL, "no JSON"))
        return;
    CHECK(number("summary", "right") == 4 && number("summary", "of") == ROWS,
          "%lld of %lld", (long long)number("summary", "right"),
          (long long)number("summary", "of"));
    const double median = json_real_value(
        json_object_get(json_object_get(printed, "summary"), "median_horizons"));

    CHECK(median == 5, "median %g, want 5", median);
    for (size_t i = 0; i < ROWS; i++)
        table[i].score.right = true;
    CHECK(demo_show_table(table, ROWS, true) == CLI_HEALTHY, "all right, and refused");
    table[4].score.alarm = true;
    CHECK(demo_show_table(table, ROWS, true) == CLI_PROBLEM, "a false alarm passes");
    CHECK(number("summary", "called_numerics_falsely") == 1, "%lld false alarms",
          (long long)number("summary", "called_numerics_falsely"));
    check_done("the table of scenarios");
}

int main(void)
{
    static demo_scenario scenarios[ROWS];
    static demo_row table[ROWS];

    fill(scenarios, table);
    of_draws(table);
    of_scenarios(table);
    for (size_t i = 0; i < ROWS; i++)
        json_decref(scenarios[i].planted);
    json_decref(printed);
    return check_exit();
}
