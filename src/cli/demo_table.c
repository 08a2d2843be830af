/* `plumb demo --all`: one line that sums up, and a table of what was planted and what was said. */
#include "cli/demo.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Of this program and of the trainers that it waited for. */
static double cpu_seconds(void)
{
    double seconds = 0;

    for (int who = 0; who < 2; who++) {
        struct rusage used;

        if (getrusage(who == 0 ? RUSAGE_SELF : RUSAGE_CHILDREN, &used) == 0)
            seconds += (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec +
                       1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    }
    return seconds;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

typedef struct summary {
    size_t count, right, alarms, faults;
    double median, median_search, median_every_site, cpu;
} summary;

static double whole(const demo_score *score)
{
    return score->horizons;
}

static double search(const demo_score *score)
{
    return score->search;
}

static double every_site(const demo_score *score)
{
    return score->every_site;
}

/* Of the faults alone: a clean run has no horizon to speak of. */
static double median_of(const demo_row *rows, size_t count,
                        double (*value)(const demo_score *score))
{
    double *values = calloc(count + 1, sizeof *values), median = 0;
    size_t n = 0;

    for (size_t i = 0; values != NULL && i < count; i++)
        if (rows[i].score.fault && rows[i].score.horizons > 0)
            values[n++] = value(&rows[i].score);
    if (n > 0) {
        qsort(values, n, sizeof *values, by_value);
        median = (values[(n - 1) / 2] + values[n / 2]) / 2;
    }
    free(values);
    return median;
}

static summary sum_up(const demo_row *rows, size_t count)
{
    summary s = {.count = count,
                 .median = median_of(rows, count, whole),
                 .median_search = median_of(rows, count, search),
                 .median_every_site = median_of(rows, count, every_site),
                 .cpu = cpu_seconds()};

    for (size_t i = 0; i < count; i++) {
        s.right += rows[i].score.right;
        s.alarms += rows[i].score.alarm;
        s.faults += rows[i].score.fault;
    }
    return s;
}

static const char *site_word(const demo_score *s)
{
    if (!s->site_asked)
        return "-";
    return s->site_right ? "right" : "wrong";
}

static void print_row(const demo_row *row, int width)
{
    const demo_score *s = &row->score;
    char held[32] = "-", horizons[32] = "-";

    if (s->of > 0)
        plumb_print(held, sizeof held, "%d of %d", s->held, s->of);
    if (s->horizons > 0)
        plumb_print(horizons, sizeof horizons, "%.1f", s->horizons);
    printf("%-*s  %-20s %-20s %-11s %-8s %-5s %-7s %8s %7.1f%s\n", width,
           row->scenario->name, s->planted, s->said, s->scope, s->evidence, site_word(s),
           held, horizons, s->seconds, s->right && !s->alarm ? "" : "  <- not as planted");
}

static void print_table(const demo_row *rows, size_t count, const summary *s)
{
    int width = 8;

    for (size_t i = 0; i < count; i++) {
        const int length = (int)strlen(rows[i].scenario->name);

        width = length > width ? length : width;
    }
    printf("%zu of %zu right; clean runs or decoys called numerics: %zu; median cost of a "
           "fault: %.1f horizons, %.1f of them search (every site alone: %.1f)\n\n",
           s->right, s->count, s->alarms, s->median, s->median_search,
           s->median_every_site);
    printf("%-*s  %-20s %-20s %-11s %-8s %-5s %-7s %8s %7s\n", width, "scenario", "planted",
           "said", "scope", "evidence", "site", "held", "horizons", "seconds");
    for (size_t i = 0; i < count; i++)
        print_row(&rows[i], width);
    printf(
        "\nCPU time of this command and its runs: %.1f s.  Seconds are those that the runs "
        "took, also where\nthey were found finished.\n",
        s->cpu);
}

static json_t *row_json(const demo_row *row)
{
    const demo_score *s = &row->score;

    return json_pack("{s:s,s:s,s:s,s:b,s:b,s:s,s:s,s:o,s:i,s:i,s:f,s:f,s:f,s:f}",
                     "scenario", row->scenario->name, "planted", s->planted, "said",
                     s->said, "right", s->right, "called_numerics_falsely", s->alarm,
                     "scope", s->scope, "evidence", s->evidence, "site_right",
                     s->site_asked ? json_boolean(s->site_right) : json_null(), "held",
                     s->held, "of", s->of, "search", s->search, "horizons", s->horizons,
                     "every_site", s->every_site, "seconds", s->seconds);
}

static json_t *table_json(const demo_row *rows, size_t count, const summary *s)
{
    json_t *all = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(all, row_json(&rows[i]));
    return json_pack("{s:{s:I,s:I,s:I,s:f,s:f,s:f,s:f},s:o}", "summary", "right",
                     (json_int_t)s->right, "of", (json_int_t)s->count,
                     "called_numerics_falsely", (json_int_t)s->alarms, "median_horizons",
                     s->median, "median_search", s->median_search, "median_every_site",
                     s->median_every_site, "cpu_seconds", s->cpu, "scenarios", all);
}

int demo_show_table(const demo_row *rows, size_t count, bool json)
{
    const summary s = sum_up(rows, count);
    int code = CLI_HEALTHY;

    if (json)
        code = cli_print_json(table_json(rows, count, &s));
    else
        print_table(rows, count, &s);
    if (code != CLI_HEALTHY)
        return code;
    return s.right == count && s.alarms == 0 ? CLI_HEALTHY : CLI_PROBLEM;
}
