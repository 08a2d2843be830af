/* report.html: one file that needs nothing else.  Verdict first, then the pictures, then what was
 * run.  Foreign text enters through report_html alone, and the page's own policy forbids it to load
 * anything.
 */
#include "plumb/report.h"

#include "plumb/file.h"
#include "report/page.h"

#include <stdio.h>

typedef plumb_status load_charts(const char *directory, const report_verdict *verdict,
                                 report_charts *charts, plumb_error *why);

static plumb_status render(report_text *html, const char *directory, load_charts *load,
                           const report_verdict *v, const char *kicker, plumb_error *why)
{
    report_charts charts;
    plumb_status status = load(directory, v, &charts, why);

    if (status != PLUMB_OK)
        return status;
    report_page_head(html, v, kicker);
    report_page_facts(html, v);
    status = report_page_pictures(html, &charts, why);
    report_charts_free(&charts);
    if (status != PLUMB_OK)
        return status;
    report_page_tree(html, v);
    if (v->run_count > 1)
        report_page_timeline(html, v);
    report_page_table(html, v);
    report_page_lists(html, v);
    report_page_foot(html, v);
    if (html->failed)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the page of the verdict");
    return PLUMB_OK;
}

static plumb_status write_page(const char *directory, load_charts *load,
                               const json_t *verdict, const char *kicker, char path[4096],
                               plumb_error *why)
{
    const int size = snprintf(path, 4096, "%s/report.html", directory);
    report_text html = {0};
    report_verdict v;

    if (size < 0 || size >= 4096)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "the path of %.60s... is too long",
                          directory);
    plumb_status status = report_verdict_read(verdict, &v, why);

    if (status != PLUMB_OK)
        return status;
    status = render(&html, directory, load, &v, kicker, why);
    if (status == PLUMB_OK)
        status = plumb_file_write(path, html.at, html.size, why);
    report_text_free(&html);
    report_verdict_free(&v);
    return status;
}

plumb_status plumb_report_html(const char *study, const json_t *verdict, char path[4096],
                               plumb_error *why)
{
    return write_page(study, report_charts_load, verdict, "plumb diagnose", path, why);
}

plumb_status plumb_report_run_html(const char *run_dir, const json_t *verdict,
                                   char path[4096], plumb_error *why)
{
    return write_page(run_dir, report_charts_load_run, verdict, "plumb report", path, why);
}
