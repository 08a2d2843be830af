/* Exponent histograms as text in hidden lists, which page.js draws with the format's window.  A list for
 * each run; its items are sites, each with a few of its steps: the first, the last, and some between.
 */
#include "report/page.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    OWN_BYTES = 150000, /* of the page, for the histograms of the failing run, */
    WELL_BYTES = 60000, /* and of the one beside it */
    SITE_BYTES = 140,   /* name and markup */
    ROW_BYTES = 130,    /* a histogram: 25 bins are usual, 48 the most */
    FEWEST_STEPS = 3,
    MOST_STEPS = 8,
};

/* Least value, least normal and largest value as exponents of 2. */
static void add_window(report_text *html, plumb_format format)
{
    const plumb_format_info *info = plumb_format_get(format);

    if (info == NULL)
        return;
    report_print(html, " data-format=\"%s\" data-window=\"", info->name);
    report_real(html, log2((double)info->least), 8);
    report_add(html, " ");
    report_real(html, log2((double)info->least_normal), 8);
    report_add(html, " ");
    report_real(html, log2((double)info->largest), 8);
    report_add(html, "\"");
}

/* The bins that are used, as parts of all. */
static size_t parts_of(const plumb_histogram *h, float parts[PLUMB_BINS], int *first)
{
    int from = 0, to = PLUMB_BINS;
    double sum = 0;

    for (int k = 0; k < PLUMB_BINS; k++)
        sum += isfinite(h->bin[k]) && h->bin[k] > 0 ? (double)h->bin[k] : 0;
    if (!(sum > 0))
        return 0;
    while (!(h->bin[from] > 0))
        from++;
    while (!(h->bin[to - 1] > 0))
        to--;
    for (int k = from; k < to; k++)
        parts[k - from] =
            isfinite(h->bin[k]) && h->bin[k] > 0 ? (float)((double)h->bin[k] / sum) : 0;
    *first = h->first + from;
    return (size_t)(to - from);
}

static double scale_of(float scale)
{
    return scale > 0 && isfinite(scale) ? (double)scale : 1;
}

/* step, first exponent, bins, scale, least scale, part of zeros, cells: without spaces. */
static void add_row(report_text *html, const plumb_histogram *h, bool first_row)
{
    const plumb_sample *s = &h->sample;
    float parts[PLUMB_BINS];
    int first = 0;
    const size_t bins = parts_of(h, parts, &first);

    if (bins == 0)
        return;
    report_print(html, "%s%" PRIu64 " %d %zu ", first_row ? "" : " ", s->step, first, bins);
    report_real(html, log2(scale_of(s->scale)), 5);
    report_add(html, " ");
    report_real(html, log2(scale_of(s->least_scale > 0 ? s->least_scale : s->scale)), 5);
    report_add(html, " ");
    report_real(html, s->total > 0 ? (double)s->zero / (double)s->total : 0, 4);
    report_add(html, " ");
    report_heat_row(html, parts, bins);
}

static bool is_culprit(const report_charts *c, const char *name)
{
    if (strcmp(name, c->site) == 0)
        return true;
    for (size_t i = 0; i < json_array_size(c->verdict->sites); i++)
        if (strcmp(report_string_at(c->verdict->sites, i), name) == 0)
            return true;
    return false;
}

/* list: the site's rows in the order of steps. */
static void add_site(report_text *html, const report_charts *c, const report_spectra *s,
                     const plumb_histogram *const *list, size_t count, size_t steps)
{
    const size_t site = list[0]->sample.site;
    const char *name = s->read.site_names[site];
    const bool ill = is_culprit(c, name);
    const size_t wanted = ill ? MOST_STEPS : steps;
    const size_t shown = count < wanted ? count : wanted;

    report_print(html, "<li%s", ill ? " class=\"culprit\"" : "");
    if (strcmp(name, c->site) == 0)
        report_add(html, " data-first");
    add_window(html, s->format[site]);
    report_add(html, " data-rows=\"");
    for (size_t i = 0; i < shown; i++)
        add_row(html, list[shown > 1 ? i * (count - 1) / (shown - 1) : 0], i == 0);
    report_add(html, "\">");
    report_html(html, name, PLUMB_SITE_NAME);
    report_add(html, "</li>\n");
}

/* Rows by site; within a site they are in the order of steps already. */
static int by_site(const void *a, const void *b)
{
    const plumb_histogram *const *x = a, *const *y = b;

    if ((*x)->sample.site != (*y)->sample.site)
        return (*x)->sample.site < (*y)->sample.site ? -1 : 1;
    return *x < *y ? -1 : *x > *y;
}

static size_t steps_for(size_t bytes, size_t sites)
{
    const size_t each = sites > 0 ? bytes / sites : 0;
    const size_t steps = each > SITE_BYTES ? (each - SITE_BYTES) / ROW_BYTES : 0;

    return steps < FEWEST_STEPS ? FEWEST_STEPS : steps > MOST_STEPS ? MOST_STEPS : steps;
}

static void add_sites(report_text *html, const report_charts *c, const report_spectra *s,
                      const size_t *row, size_t steps)
{
    const size_t count = s->read.count;
    const plumb_histogram **list = malloc((count + 1) * sizeof *list);

    html->failed |= list == NULL;
    for (size_t i = 0; list != NULL && i < count; i++)
        list[i] = &s->read.at[i];
    if (list != NULL && count > 0)
        qsort(list, count, sizeof *list, by_site);
    for (size_t i = 0, end; list != NULL && i < count; i = end) {
        for (end = i + 1; end < count && list[end]->sample.site == list[i]->sample.site;)
            end++;
        if (row[list[i]->sample.site] != SIZE_MAX)
            add_site(html, c, s, list + i, end - i, steps);
    }
    free(list);
}

/* Returns how many sites there was no room for. */
static size_t add_run(report_text *html, const report_charts *c, const report_spectra *s,
                      const char *run, size_t bytes)
{
    size_t *row = calloc(s->read.site_count + 1, sizeof *row), shown = 0, all = 0;
    const size_t most = bytes / (SITE_BYTES + FEWEST_STEPS * ROW_BYTES);
    plumb_error why;

    if (row != NULL &&
        report_spectra_choose(s, c->site, SIZE_MAX, row, &all, &why) == PLUMB_OK &&
        report_spectra_choose(s, c->site, most, row, &shown, &why) == PLUMB_OK &&
        shown > 0) {
        report_print(html, "<ol hidden data-run=\"%s\">\n", run);
        add_sites(html, c, s, row, steps_for(bytes, shown));
        report_add(html, "</ol>\n");
    }
    html->failed |= row == NULL;
    free(row);
    return all - shown;
}

void report_page_spectra(report_text *html, const report_charts *c)
{
    size_t left_out = 0;

    if (c->ill_spectra.read.count + c->well_spectra.read.count == 0)
        return;
    report_add(
        html,
        "<section class=\"drawn\">\n<h2>Values and the window of the format</h2>\n"
        "<p class=\"lead\">How many values have which exponent, before the scale, at a "
        "few steps; behind them what the format holds under the scale of that step. "
        "Point at a bar to read it.</p>\n<figure class=\"spectra\">\n");
    left_out += add_run(html, c, &c->ill_spectra, report_role_name[REPORT_OWN], OWN_BYTES);
    left_out +=
        add_run(html, c, &c->well_spectra, report_role_name[c->well_role], WELL_BYTES);
    report_add(html, "<noscript><p>The page's script draws this picture.</p></noscript>\n");
    report_add(html, "<figcaption>The height of a bar is its part of the values that are "
                     "not zero, on a logarithmic axis from one in a million to all. Of "
                     "blocks with scales of their own, the paler band is what some block "
                     "holds.");
    if (left_out > 0)
        report_print(html, " %zu milder sites are left out.", left_out);
    report_add(html, "</figcaption>\n</figure>\n</section>\n");
}
