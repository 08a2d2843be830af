/* How often class and site of drawn faults were named rightly, with Wilson intervals.
 *
 * A draw whose run does not fail, fails before the fault begins, or whose twin fails too, says nothing
 * on classes and sites: it is counted apart.
 */
#include "cli/demo.h"

#include <string.h>

typedef struct tally {
    size_t failing, silent, early, twin_fails, class_right, site_right, cannot_tell;
} tally;

typedef enum draw_sort { COUNTS, SILENT, EARLY, TWIN_FAILS } draw_sort;

static int64_t begins(const demo_row *row)
{
    const json_t *faults = json_object_get(row->scenario->planted, "faults");
    const json_t *from = json_object_get(json_array_get(faults, 0), "from");

    return from != NULL ? json_integer_value(from) : 1;
}

static draw_sort sort_of(const demo_row *row)
{
    if (strcmp(row->score.said, "healthy") == 0)
        return SILENT;
    if (row->score.failed_at > 0 && row->score.failed_at < begins(row))
        return EARLY;
    return strcmp(row->score.said, "not numerics") == 0 ? TWIN_FAILS : COUNTS;
}

static void count_row(tally *t, const demo_row *row)
{
    const demo_score *s = &row->score;
    const draw_sort sort = sort_of(row);

    t->silent += sort == SILENT;
    t->early += sort == EARLY;
    t->twin_fails += sort == TWIN_FAILS;
    if (sort != COUNTS)
        return;
    t->failing++;
    t->class_right += s->right;
    t->site_right += s->site_right;
    t->cannot_tell +=
        strcmp(s->said, "cannot tell") == 0 || strcmp(s->said, "not reproducible") == 0;
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

static const char *site_word(const demo_row *row)
{
    if (sort_of(row) != COUNTS)
        return "apart";
    if (!row->score.right)
        return "-";
    return row->score.site_right ? "right" : "wrong";
}

static void print_draw(const demo_row *row)
{
    const demo_score *s = &row->score;
    const json_t *sites = json_object_get(row->scenario->planted, "sites");

    printf("%-32s %-32s %4lld  %-11s %-16s %-6s %8.1f %7.1f\n", row->scenario->name,
           json_string_value(json_array_get(sites, 0)), (long long)begins(row), s->planted,
           s->said, site_word(row), s->horizons, s->seconds);
}

static json_t *draws_json(const demo_row *rows, size_t count, uint64_t seed, const tally *t)
{
    json_t *all = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(
            all, json_pack("{s:s,s:O,s:s,s:s,s:b,s:b,s:b,s:I,s:f,s:f}", "name",
                           rows[i].scenario->name, "entry", rows[i].scenario->planted,
                           "planted", rows[i].score.planted, "said", rows[i].score.said,
                           "counts", sort_of(&rows[i]) == COUNTS, "class_right",
                           rows[i].score.right, "site_right", rows[i].score.site_right,
                           "failed_at", (json_int_t)rows[i].score.failed_at, "horizons",
                           rows[i].score.horizons, "seconds", rows[i].score.seconds));
    return json_pack("{s:I,s:o,s:o,s:o,s:I,s:I,s:I,s:o}", "faults_seed", (json_int_t)seed,
                     "class", part_json(t->class_right, t->failing), "site",
                     part_json(t->site_right, t->failing), "cannot_tell",
                     part_json(t->cannot_tell, t->failing), "not_failing",
                     (json_int_t)t->silent, "failing_early", (json_int_t)t->early,
                     "twin_fails", (json_int_t)t->twin_fails, "draws", all);
}

int demo_show_draws(const demo_row *rows, size_t count, uint64_t seed, bool json)
{
    tally t = {0};

    for (size_t i = 0; i < count; i++)
        count_row(&t, &rows[i]);
    const int code = t.class_right == t.failing ? CLI_HEALTHY : CLI_PROBLEM;

    if (json) {
        const int printed = cli_print_json(draws_json(rows, count, seed, &t));

        return printed == CLI_HEALTHY ? code : printed;
    }
    printf("draws of seed %llu: %zu, of which %zu do not fail, %zu fail before the fault "
           "begins and %zu fail in bf16 too; none of these counts below\n",
           (unsigned long long)seed, count, t.silent, t.early, t.twin_fails);
    print_part("class right", t.class_right, t.failing);
    print_part("site right", t.site_right, t.failing);
    print_part("cannot tell", t.cannot_tell, t.failing);
    printf("\n%-32s %-32s %4s  %-11s %-16s %-6s %8s %7s\n", "draw", "site", "from",
           "planted", "said", "site", "horizons", "seconds");
    for (size_t i = 0; i < count; i++)
        print_draw(&rows[i]);
    return code;
}
