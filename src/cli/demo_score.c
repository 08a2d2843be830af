/* A verdict held against what was planted. */
#include "cli/demo.h"

#include <fnmatch.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void or_dash(const char *text, char *words, size_t size)
{
    plumb_print(words, size, "%s", text != NULL ? text : "-");
}

void demo_class_words(const json_t *document, char words[DEMO_WORDS])
{
    const json_t *classes = json_object_get(document, "classes");
    const char *verdict = text_of(document, "verdict"), *one = text_of(document, "class");
    const char *scope = text_of(document, "scope");
    size_t i;
    const json_t *name;

    words[0] = 0;
    json_array_foreach(classes, i, name)
        plumb_append(words, DEMO_WORDS, "%s%s", i > 0 ? "+" : "", json_string_value(name));
    if (words[0] != 0)
        return;
    if (verdict == NULL || strcmp(verdict, "numerics") != 0)
        or_dash(verdict, words, DEMO_WORDS);
    else
        or_dash(one != NULL ? one : scope, words, DEMO_WORDS);
}

static bool matches_one(const json_t *globs, const json_t *site)
{
    size_t i;
    const json_t *glob;

    json_array_foreach(globs, i, glob)
    {
        if (json_is_string(glob) && json_is_string(site) &&
            fnmatch(json_string_value(glob), json_string_value(site), 0) == 0)
            return true;
    }
    return false;
}

/* Every site of the verdict lies where something was planted, and there is one. */
static bool sites_match(const json_t *globs, const json_t *sites)
{
    size_t i;
    const json_t *site;

    json_array_foreach(sites, i, site)
    {
        if (!matches_one(globs, site))
            return false;
    }
    return (json_array_size(sites) > 0) == (json_array_size(globs) > 0);
}

static bool is_numerics(const json_t *document)
{
    const char *word = text_of(document, "verdict");

    return word != NULL && strcmp(word, "numerics") == 0;
}

/* A planted document without a verdict takes any. */
static bool same_verdict(const json_t *planted, const json_t *verdict)
{
    const char *wanted = text_of(planted, "verdict"), *said = text_of(verdict, "verdict");

    return wanted == NULL || (said != NULL && strcmp(wanted, said) == 0);
}

demo_score demo_score_verdict(const json_t *planted, const json_t *verdict)
{
    const json_t *fix = json_object_get(verdict, "fix");
    const json_t *cost = json_object_get(verdict, "cost");
    const json_t *globs = json_object_get(planted, "sites");
    demo_score s = {0};

    demo_class_words(planted, s.planted);
    demo_class_words(verdict, s.said);
    or_dash(text_of(verdict, "scope"), s.scope, sizeof s.scope);
    or_dash(text_of(fix, "level"), s.evidence, sizeof s.evidence);
    s.fault = is_numerics(planted);
    s.alarm = !s.fault && is_numerics(verdict);
    s.right = same_verdict(planted, verdict) && strcmp(s.planted, s.said) == 0;
    s.site_asked = s.fault && json_array_size(globs) > 0;
    s.site_right =
        s.site_asked && s.right && sites_match(globs, json_object_get(verdict, "sites"));
    s.failed_at =
        json_integer_value(json_object_get(json_object_get(verdict, "failure"), "step"));
    s.held = (int)number_of(fix, "held");
    s.of = (int)number_of(fix, "of");
    s.search = number_of(cost, "search");
    s.horizons = s.search + number_of(cost, "proof");
    s.every_site = number_of(cost, "every_site");
    s.seconds = number_of(cost, "seconds");
    return s;
}
