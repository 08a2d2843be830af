/* Long lists of runs: what the verdict rests on is shown, the rest is counted in words. */
#include "report/fold.h"

#include <string.h>

enum { WEIGHTS = 4 };

static bool is_first_of_phase(const report_run *runs, size_t i)
{
    return i == 0 || runs[i].phase == NULL || !report_is_phase(&runs[i - 1], runs[i].phase);
}

/* The narrowest set that healed: the search ends with it. */
static bool is_last_healed(const report_run *runs, size_t count, size_t i)
{
    if (!report_is_search(&runs[i]) || runs[i].outcome != REPORT_HELD)
        return false;
    for (size_t k = i + 1; k < count; k++)
        if (report_is_search(&runs[k]) && !report_is_phase(&runs[k], "mechanism") &&
            runs[k].outcome == REPORT_HELD)
            return false;
    return true;
}

/* 3: the verdict rests on it; 0: one of many. */
static int weight(const report_run *runs, size_t count, size_t i)
{
    const report_run *run = &runs[i];
    const bool held = run->outcome == REPORT_HELD;
    const bool class_ = report_is_phase(run, "class");

    if (report_is_phase(run, "proof") || report_is_phase(run, "mask") ||
        report_is_phase(run, "twin") || is_last_healed(runs, count, i) ||
        (held && (class_ || report_is_phase(run, "mechanism"))))
        return 3;
    if (class_ || report_is_phase(run, "repeat"))
        return 2;
    return run->outcome == REPORT_BROKEN || is_first_of_phase(runs, i) ||
           (held && report_is_search(run));
}

static size_t gap_at(const bool *shown, size_t count, size_t first)
{
    size_t last = first;

    while (last < count && !shown[last])
        last++;
    return last - first;
}

/* A line that says "1 more" costs as much as the run itself. */
static void show_single_ones(bool *shown, size_t count, size_t most_gaps)
{
    size_t gaps = 0;

    for (size_t i = 0; i < count; i += gap_at(shown, count, i) + 1)
        gaps += gap_at(shown, count, i) > 0;
    for (size_t i = 0; i < count && gaps <= most_gaps; i += gap_at(shown, count, i) + 1)
        if (gap_at(shown, count, i) == 1)
            shown[i] = true;
}

void report_fold(const report_run *runs, size_t count, size_t most, size_t most_gaps,
                 bool *shown)
{
    size_t left = most;

    memset(shown, 0, count * sizeof *shown);
    for (int wanted = WEIGHTS - 1; wanted >= 0; wanted--)
        for (size_t i = 0; i < count && left > 0; i++)
            if (weight(runs, count, i) == wanted) {
                shown[i] = true;
                left--;
            }
    show_single_ones(shown, count, most_gaps);
}

static void add_counts(report_text *text, const char *good, size_t held, size_t failed,
                       size_t others)
{
    const struct {
        size_t count;
        const char *words;
    } parts[] = {{held, good}, {failed, "fail"}, {others, "without a result"}};
    const char *before = ": ";

    for (size_t i = 0; i < 3; i++) {
        if (parts[i].count == 0)
            continue;
        report_print(text, "%s%zu %s", before, parts[i].count, parts[i].words);
        before = ", ";
    }
}

void report_folded_words(report_text *text, const report_run *runs, const bool *shown,
                         size_t first, size_t last)
{
    size_t all = 0, held = 0, failed = 0;
    bool search = true;

    for (size_t i = first; i < last; i++) {
        if (shown[i])
            continue;
        all++;
        held += runs[i].outcome == REPORT_HELD;
        failed += runs[i].outcome == REPORT_FAILED;
        search = search && report_is_search(&runs[i]);
    }
    report_print(text, "%zu more %s%s", all, search ? "arm" : "run", all == 1 ? "" : "s");
    if (search && failed == all)
        report_add(text, all == 1 ? ", does not heal" : ", none heals");
    else if (failed == all)
        report_add(text, all == 1 ? ", fails" : ", all fail");
    else if (held == all)
        report_add(text, search ? (all == 1 ? ", heals" : ", all heal")
                                : (all == 1 ? ", holds" : ", all hold"));
    else
        add_counts(text, search ? "heal" : "hold", held, failed, all - held - failed);
}
