/* The page: tags in balance, nothing foreign as markup, nothing loaded from elsewhere, spikes
 * drawn, bounded, and written for studies that are damaged or empty.
 */
#include "plumb/report.h"

#include "check.h"
#include "fixture.h"

#include <stdlib.h>

static char *render(const char *study, const json_t *verdict, plumb_error *why)
{
    char path[4096];

    if (plumb_report_html(study, verdict, path, why) != PLUMB_OK)
        return NULL;
    return fixture_read(path);
}

/* --- a small checker of markup: names nest, attributes are quoted --------------------- */

enum { DEPTH = 64, NAME = 32 };

static bool is_void(const char *name)
{
    return strcmp(name, "meta") == 0 || strcmp(name, "wbr") == 0 || name[0] == '!';
}

/* Behind the tag that starts at html; its name, whether it closes.  NULL when it is malformed. */
static const char *read_tag(const char *html, char name[NAME], bool *closes)
{
    size_t size;

    html++;
    *closes = *html == '/';
    html += *closes;
    size = strcspn(html, " >\n");
    if (size == 0 || size >= NAME)
        return NULL;
    memcpy(name, html, size);
    name[size] = 0;
    for (html += size; *html != '>';) {
        if (*html == '"' && (html = strchr(html + 1, '"')) == NULL)
            return NULL;
        if (*html == 0 || *html == '<')
            return NULL;
        html++;
    }
    return html + 1;
}

/* Style and script hold no markup: goes to their end. */
static const char *skip_raw(const char *html, const char *name)
{
    char end[NAME + 4];

    if (strcmp(name, "style") != 0 && strcmp(name, "script") != 0)
        return html;
    snprintf(end, sizeof end, "</%s", name);
    return strstr(html, end);
}

static void balanced(const char *html, const char *what)
{
    char open[DEPTH][NAME];
    size_t depth = 0, tags = 0;

    while ((html = strchr(html, '<')) != NULL) {
        char name[NAME];
        bool closes;
        const char *start = html;

        html = read_tag(html, name, &closes);
        if (!CHECK(html != NULL, "%s: malformed tag at %.60s", what, start))
            return;
        tags++;
        if (is_void(name))
            continue;
        if (closes) {
            if (!CHECK(depth > 0 && strcmp(open[depth - 1], name) == 0,
                       "%s: </%s> closes <%s>", what, name,
                       depth > 0 ? open[depth - 1] : ""))
                return;
            depth--;
        } else if (CHECK(depth < DEPTH, "%s: nested too deep", what)) {
            memcpy(open[depth++], name, NAME);
            html = skip_raw(html, name);
            if (!CHECK(html != NULL, "%s: <%s> does not end", what, name))
                return;
        } else {
            return;
        }
    }
    CHECK(depth == 0, "%s: <%s> is not closed", what, depth > 0 ? open[depth - 1] : "");
    CHECK(tags > 40, "%s: only %zu tags", what, tags);
}

/* --- tests --------------------------------------------------------------------------- */

static void whole_page(const char *study)
{
    static const char *const needed[] = {"<!DOCTYPE html>",
                                         "prefers-color-scheme",
                                         "@media print",
                                         "data-name=\"own run\"",
                                         "data-name=\"bf16 twin\"",
                                         "data-name=\"with the fix\"",
                                         "data-name=\"cast back\"",
                                         "class=\"cross own\"",
                                         "class=\"limit\"",
                                         "saturated, own run",
                                         "fails at 22",
                                         "moved at 9",
                                         "<b>with the fix</b> the fix, from the start",
                                         "Content-Security-Policy",
                                         "plumb train demo.yaml",
                                         "What this does not claim"};
    /* What a browser would fetch; the one address is the name space of SVG in the script. */
    static const char *const forbidden[] = {
        "<link", "<img", "<iframe", "src=", "@import", "url(", "https:", "href"};
    json_t *verdict = fixture_verdict("numerics.json");
    plumb_error why = {0};

    CHECK(fixture_study(study, verdict, 1), "the fixture could not be written");
    char *html = render(study, verdict, &why);
    if (CHECK(html != NULL, "%s", why.message)) {
        balanced(html, "numerics");
        for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
            CHECK(strstr(html, needed[i]) != NULL, "no %s", needed[i]);
        for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++)
            CHECK(strstr(html, forbidden[i]) == NULL, "%s is there", forbidden[i]);
        const char *address = strstr(html, "http:");
        CHECK(address != NULL && strncmp(address, "http://www.w3.org/2000/svg'", 27) == 0 &&
                  strstr(address + 1, "http:") == NULL,
              "an address of something to load");
        char *again = render(study, verdict, &why);
        CHECK(again != NULL && strcmp(html, again) == 0, "a second page differs");
        free(again);
    }
    free(html);
    json_decref(verdict);
    check_done("a whole page");
}

static void replace_all(json_t *json, const char *with)
{
    json_t *value;
    const char *key;
    size_t i;

    json_object_foreach(json, key, value)
    {
        if (json_is_string(value) && strcmp(key, "id") != 0 && strcmp(key, "phase") != 0 &&
            strcmp(key, "value") != 0)
            json_object_set_new(json, key, json_string(with));
        else
            replace_all(value, with);
    }
    json_array_foreach(json, i, value)
    {
        if (json_is_string(value))
            json_array_set_new(json, i, json_string(with));
        else
            replace_all(value, with);
    }
}

static void hostile_page(const char *study)
{
    static const char *const texts[] = {
        "</title></style></script><img src=x onerror=alert(1)>", "\" onload=\"alert(1)",
        "\x1b[2J & &amp; ' <!-- ]]>", "</pre></details><b"};
    plumb_error why = {0};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        json_t *verdict = fixture_verdict("numerics.json");

        replace_all(verdict, texts[i]);
        char *html = render(study, verdict, &why);
        if (CHECK(html != NULL, "%s", why.message)) {
            balanced(html, texts[i]);
            CHECK(strstr(html, "<img") == NULL &&
                      strstr(html, "<b") == strstr(html, "<body"),
                  "foreign markup");
            CHECK(strstr(html, "\" onload") == NULL, "a foreign attribute");
            CHECK(strchr(html, '\x1b') == NULL, "an escape character");
        }
        free(html);
        json_decref(verdict);
    }
    check_done("hostile names");
}

/* One spike of 1 step in 40,000 must be in the picture, and the page must stay small. */
static void spike(const char *study)
{
    json_t *verdict = fixture_verdict("numerics.json");
    plumb_error why = {0};
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/runs/a2/run/metrics.jsonl", study);
    file = fopen(path, "w");
    if (!CHECK(file != NULL, "%s", path))
        return;
    for (int step = 1; step <= 40000; step++)
        fprintf(file, "{\"step\":%d,\"loss\":%s}\n", step,
                step == 23457 ? "9.875"
                : step % 2    ? "3.1"
                              : "3.2");
    fclose(file);
    char *html = render(study, verdict, &why);
    if (CHECK(html != NULL, "%s", why.message)) {
        CHECK(strstr(html, "23457:9.875") != NULL, "the spike is not in the picture");
        CHECK(strlen(html) < 400000, "%zu bytes", strlen(html));
    }
    free(html);
    json_decref(verdict);
    check_done("a spike is drawn");
}

/* Losses whose ratio no double can hold: the axis still has an end, and so has the drawing. */
static void far_apart(const char *study)
{
    json_t *verdict = fixture_verdict("numerics.json");
    plumb_error why = {0};
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/runs/a2/run/metrics.jsonl", study);
    file = fopen(path, "w");
    if (!CHECK(file != NULL, "%s", path))
        return;
    for (int step = 1; step <= 60; step++)
        fprintf(file, "{\"step\":%d,\"loss\":%s}\n", step, step > 30 ? "1e300" : "2.5");
    fclose(file);
    char *html = render(study, verdict, &why);
    if (CHECK(html != NULL, "%s", why.message))
        balanced(html, "losses far apart");
    free(html);
    json_decref(verdict);
    check_done("losses of 2.5 and 1e300");
}

static void bounded(const char *study)
{
    json_t *verdict = fixture_verdict("numerics.json");
    json_t *list = json_object_get(verdict, "runs");
    plumb_error why = {0};
    char *word = calloc(10001, 1);

    memset(word, '<', 10000);
    for (size_t i = json_array_size(list); i < 1000; i++) {
        json_t *run = json_deep_copy(json_array_get(list, i % 19));

        json_object_set_new(run, "label", json_string(word));
        json_object_set_new(run, "command", json_string(word));
        json_array_append_new(list, run);
    }
    for (int i = 0; i < 2000; i++) {
        json_array_append_new(json_object_get(verdict, "sites"), json_string(word));
        json_array_append_new(json_object_get(verdict, "limits"), json_string(word));
        json_array_append_new(json_object_get(verdict, "statements"),
                              json_pack("{s:s,s:s}", "level", "seen", "text", word));
    }
    char *html = render(study, verdict, &why);
    if (CHECK(html != NULL, "%s", why.message)) {
        CHECK(strlen(html) < 2000000, "%zu bytes", strlen(html));
        balanced(html, "1000 runs");
        CHECK(strstr(html, "more runs are in verdict.json") != NULL,
              "runs were not counted");
    }
    free(html);
    free(word);
    json_decref(verdict);
    check_done("1000 runs in 2 MB");
}

static void damaged(const char *study)
{
    static const char *const odd[] = {
        "{}", "{\"runs\":[{}]}", "{\"runs\":[{\"id\":\"../../etc\",\"phase\":\"repeat\"}]}",
        "{\"runs\":[{\"id\":\"zz\",\"phase\":\"repeat\","
        "\"last_step\":9223372036854775807}]}"};
    plumb_error why = {0};
    char path[4096];

    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        json_t *verdict = json_loads(odd[i], 0, NULL);
        char *html = render(study, verdict, &why);

        if (CHECK(html != NULL, "%s: %s", odd[i], why.message))
            balanced(html, odd[i]);
        free(html);
        json_decref(verdict);
    }
    json_t *verdict = json_loads("{\"exit\":\"one\"}", 0, NULL);
    CHECK(plumb_report_html(study, verdict, path, &why) == PLUMB_BAD_INPUT &&
              strstr(why.message, "exit") != NULL,
          "%s", why.message);
    json_decref(verdict);
    verdict = fixture_verdict("not_numerics.json");
    CHECK(plumb_report_html("/nonexistent/study", verdict, path, &why) != PLUMB_OK,
          "a page in no directory");
    char *html = render(study, verdict, &why);
    CHECK(html != NULL && strstr(html, "No picture") != NULL, "no note of absent runs");
    free(html);
    json_decref(verdict);
    check_done("damaged and empty studies");
}

/* A run id that leaves the study must not be read: a run lies where it points to. */
static void outside(const char *study)
{
    json_t *verdict =
        json_loads("{\"runs\":[{\"id\":\"../runs/a0\",\"phase\":\"repeat\"}]}", 0, NULL);
    plumb_error why = {0};
    char *html = render(study, verdict, &why);

    CHECK(html != NULL && strstr(html, "data-p=\"1:") == NULL, "read outside of runs/");
    free(html);
    json_decref(verdict);
    check_done("ids that are paths");
}

int main(void)
{
    char study[256];

    if (!CHECK(fixture_directory(study), "no directory for the test")) {
        check_done("set-up");
        return check_exit();
    }
    whole_page(study);
    hostile_page(study);
    outside(study);
    damaged(study);
    spike(study);
    far_apart(study);
    bounded(study);
    fixture_remove(study);
    return check_exit();
}
