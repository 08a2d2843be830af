/* The heat map: cells as text in hidden lists, which page.js draws, lets people switch, point at
 * and zoom.  A list for each run; its items are the rows.
 */
#include "report/page.h"

#include <inttypes.h>
#include <string.h>

static void attribute_name(report_text *html, report_statistic statistic)
{
    for (const char *c = report_statistic_name[statistic]; *c != 0; c++)
        report_bytes(html, *c == ' ' ? "-" : c, 1);
}

static void add_row(report_text *html, const report_heat *heat, size_t row, bool culprit)
{
    report_add(html, culprit ? "<li class=\"culprit\"" : "<li");
    for (int s = 0; s < REPORT_STATISTICS; s++) {
        if (heat->cell[s] == NULL)
            continue;
        report_add(html, " data-");
        attribute_name(html, (report_statistic)s);
        report_add(html, "=\"");
        report_heat_row(html, heat->cell[s] + row * heat->columns, heat->columns);
        report_add(html, "\"");
    }
    report_add(html, ">");
    report_html(html, heat->names[row], PLUMB_SITE_NAME);
    report_add(html, "</li>\n");
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

static void add_map(report_text *html, const report_charts *c, const report_heat *heat,
                    const char *run)
{
    bool first = true;

    if (heat->rows == 0 || heat->columns == 0)
        return;
    report_print(html, "<ol hidden data-run=\"%s\" data-statistics=\"", run);
    for (int s = 0; s < REPORT_STATISTICS; s++) {
        if (heat->cell[s] == NULL)
            continue;
        report_add(html, first ? "" : " ");
        attribute_name(html, (report_statistic)s);
        first = false;
    }
    report_add(html, heat->single ? "\" data-single data-steps=\"" : "\" data-steps=\"");
    for (size_t i = 0; i <= heat->columns; i++)
        report_print(html, "%s%" PRIu64, i > 0 ? " " : "", heat->steps[i]);
    report_add(html, "\">\n");
    for (size_t row = 0; row < heat->rows; row++)
        add_row(html, heat, row, is_culprit(c, heat->names[row]));
    report_add(html, "</ol>\n");
}

void report_page_heat(report_text *html, const report_charts *c)
{
    const size_t left_out = c->ill_heat.left_out + c->well_heat.left_out;

    if (c->ill_heat.rows + c->well_heat.rows + c->shadow.rows == 0)
        return;
    report_add(html, "<section class=\"drawn\">\n<h2>Sites over steps</h2>\n<p "
                     "class=\"lead\">Each cell has "
                     "the worst of its steps. Point at one to read it; drag over a part to "
                     "look closer.</p>\n<figure class=\"heat\">\n");
    add_map(html, c, &c->ill_heat, report_role_name[REPORT_OWN]);
    add_map(html, c, &c->well_heat, report_role_name[c->well_role]);
    add_map(html, c, &c->shadow, report_role_name[REPORT_OWN]);
    report_add(html, "<noscript><p>The page's script draws this picture.</p></noscript>\n");
    if (left_out > 0)
        report_print(html,
                     "<figcaption>%zu rows of milder sites are left out.</figcaption>\n",
                     left_out);
    report_add(html, "</figure>\n</section>\n");
}
