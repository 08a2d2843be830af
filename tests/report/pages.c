/* pages.c - writes the pages that browser.sh opens: NAME.page in the directory given, of a study
 * whose search succeeded, of one run, and of a study whose every text is an attack.
 */
#include "plumb/report.h"

#include "fixture.h"
#include "plumb/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Moves DIRECTORY/report.html to OUT/NAME.page. */
static bool keep(const char *path, const char *out, const char *name)
{
    char to[4300];

    snprintf(to, sizeof to, "%s/%s.page", out, name);
    return rename(path, to) == 0;
}

static void attack(json_t *json)
{
    static const char words[] = "</script><img src=x onerror=\"hostile='an image'\">"
                                "<script>hostile='a script'</script>";
    json_t *value;
    const char *key;
    size_t i;

    json_object_foreach(json, key, value)
    {
        if (json_is_string(value) && strcmp(key, "id") != 0 && strcmp(key, "phase") != 0 &&
            strcmp(key, "site") != 0 && strcmp(key, "value") != 0)
            json_object_set_new(json, key, json_string(words));
        else if (strcmp(key, "sites") != 0)
            attack(value);
    }
    json_array_foreach(json, i, value) attack(value);
}

static bool study_page(const char *study, const json_t *verdict, const char *out,
                       const char *name)
{
    char path[4096];
    plumb_error why = {0};

    if (plumb_report_html(study, verdict, path, &why) == PLUMB_OK)
        return keep(path, out, name);
    fprintf(stderr, "%s: %s\n", name, why.message);
    return false;
}

static bool run_page(const char *run_dir, const char *out)
{
    json_t *verdict = NULL;
    char path[4096];
    plumb_error why = {0};
    const bool good = plumb_report_run(run_dir, &verdict, &why) == PLUMB_OK &&
                      plumb_report_run_html(run_dir, verdict, path, &why) == PLUMB_OK;

    if (!good)
        fprintf(stderr, "run: %s\n", why.message);
    json_decref(verdict);
    return good && keep(path, out, "run");
}

int main(int count, char **arguments)
{
    char study[256], run_dir[300];
    json_t *verdict = fixture_verdict("numerics.json");

    if (count != 2 || verdict == NULL || !fixture_directory(study) ||
        !fixture_study(study, verdict, 1))
        return 1;
    snprintf(run_dir, sizeof run_dir, "%s/runs/%s/run", study,
             json_string_value(json_object_get(
                 json_array_get(json_object_get(verdict, "runs"), 0), "id")));
    bool good = study_page(study, verdict, arguments[1], "study");
    good = run_page(run_dir, arguments[1]) && good;
    attack(verdict);
    good = study_page(study, verdict, arguments[1], "attack") && good;
    fixture_remove(study);
    json_decref(verdict);
    return good ? 0 : 1;
}
