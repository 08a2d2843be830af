/* How often class and site of drawn faults were named rightly, with Wilson intervals.
 *
 * A draw whose run does not fail, or whose twin fails too, says nothing on classes and sites: it is
 * counted apart.
 */
#include "cli/demo.h"

#include <string.h>

typedef struct tally {
    size_t failing, silent, twin_fails, class_right, site_right, cannot_tell;
} tally;

static void count_row(tally *t, const demo_score *s)
{
    if (strcmp(s->said, "healthy") == 0) {
        t->silent++;
    } else if (strcmp(s->said, "not numerics") == 0) {
        t->twin_fails++;
    } else {
        t->failing++;
        t->class_right += s->right;
        t->site_right += s->site_right;
        t->cannot_tell +=
            strcmp(s->said, "cannot tell") == 0 || strcmp(s->said, "not reproducible") == 0;
    }
}

static void print_part(const char *what, size_t k, size_t n)
{
    double least, most;

    demo_wilson(k, n, &least, &most);
    printf("%-12s %zu of %zu", what, k, n);
    if (n > 0)
        printf(" = %.0f %%, 95 %% interval %.0f to %.0f %%", 100 * (double)k / (double)n,
               100 * least, 100 * most);
    printf("\n");
}

static json_t *part_json(size_t k, size_t n)
{
    double least, most;

    demo_wilson(k, n, &least, &most);
    return json_pack("{s:I,s:I,s:f,s:f}", "right", (json_int_t)k, "of", (json_int_t)n,
                     "least", least, "most", most);
}

static void print_draw(const demo_row *row)
{
    const demo_score *s = &row->score;
    const json_t *fault =
        json_array_get(json_object_get(row->scenario->planted, "faults"), 0);
    const json_t *sites = json_object_get(row->scenario->planted, "sites");
    const bool counts =
        strcmp(s->said, "healthy") != 0 && strcmp(s->said, "not numerics") != 0;
    char from[32] = "1";

    if (fault != NULL)
        plumb_print(from, sizeof from, "%lld",
                    (long long)json_integer_value(json_object_get(fault, "from")));
    printf("%-36s %-36s %4s  %-11s %-16s %-6s %8.1f %7.1f\n", row->scenario->name,
           json_string_value(json_array_get(sites, 0)), from, s->planted, s->said,
           !counts         ? "-"
           : s->site_right ? "right"
           : s->right      ? "wrong"
                           : "-",
           s->horizons, s->seconds);
}

static json_t *draws_json(const demo_row *rows, size_t count, uint64_t seed, const tally *t)
{
    json_t *all = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(
            all,
            json_pack("{s:s,s:O,s:s,s:s,s:b,s:b,s:f,s:f}", "name", rows[i].scenario->name,
                      "entry", rows[i].scenario->planted, "planted", rows[i].score.planted,
                      "said", rows[i].score.said, "class_right", rows[i].score.right,
                      "site_right", rows[i].score.site_right, "horizons",
                      rows[i].score.horizons, "seconds", rows[i].score.seconds));
    return json_pack(
        "{s:I,s:o,s:o,s:o,s:I,s:I,s:o}", "faults_seed", (json_int_t)seed, "class",
        part_json(t->class_right, t->failing), "site", part_json(t->site_right, t->failing),
        "cannot_tell", part_json(t->cannot_tell, t->failing), "not_failing",
        (json_int_t)t->silent, "twin_fails", (json_int_t)t->twin_fails, "draws", all);
}

int demo_show_draws(const demo_row *rows, size_t count, uint64_t seed, bool json)
{
    tally t = {0};

    for (size_t i = 0; i < count; i++)
        count_row(&t, &rows[i].score);
    const int code = t.class_right == t.failing ? CLI_HEALTHY : CLI_PROBLEM;

    if (json) {
        const int printed = cli_print_json(draws_json(rows, count, seed, &t));

        return printed == CLI_HEALTHY ? code : printed;
    }
    printf("draws of seed %llu: %zu, of which %zu do not fail and %zu fail in bf16 too; "
           "neither counts below\n",
           (unsigned long long)seed, count, t.silent, t.twin_fails);
    print_part("class right", t.class_right, t.failing);
    print_part("site right", t.site_right, t.failing);
    print_part("cannot tell", t.cannot_tell, t.failing);
    printf("\n%-36s %-36s %4s  %-11s %-16s %-6s %8s %7s\n", "draw", "site", "from",
           "planted", "said", "site", "horizons", "seconds");
    for (size_t i = 0; i < count; i++)
        print_draw(&rows[i]);
    return code;
}
