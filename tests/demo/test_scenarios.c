/* Every shipped scenario and many draws: the trainer takes the run, operands, moments and all-reduce
 * are in 8 bits, what is said to be planted names sites of the run, and the set is as wide as it claims.
 */
#include "check.h"
#include "cli/demo.h"
#include "file/scratch.h"

#include <fnmatch.h>
#include <stdlib.h>

#include "plumb/log.h"
#include "plumb/train.h"

enum { DRAWS = 40, FOUR = 4, MOST_PARAMETERS = 200000 };

/* The scenarios of the source tree, not those beside this test. */
bool cli_program_path(char *path, size_t size)
{
    (void)path;
    (void)size;
    return false;
}

static plumb_declaration declared;

/* Asks the trainer for its declaration. */
static bool ask(const demo_scenario *s)
{
    const char *run = scratch_at("run");
    char path[4400];
    plumb_error why = {0};
    bool good;

    plumb_dir_remove(run, NULL);
    CHECK_OK(plumb_dir_make(run, &why), why);
    plumb_print(path, sizeof path, "%s/%s.yaml", CLI_SOURCE_DEMO, s->name);
    if (s->run != NULL) {
        plumb_print(path, sizeof path, "%s", scratch_at("run-file.json"));
        CHECK_OK(plumb_json_save(path, s->run, &why), why);
    }
    setenv("PLUMB_RUN_DIR", run, 1);
    setenv("PLUMB_STOP_AT", "0", 1);
    good = plumb_train_main(path, NULL, 0, NULL, NULL, &why) == 0;
    CHECK(good, "%s: %s", s->name, why.message);
    if (good)
        good = CHECK_OK(plumb_declaration_read(run, &declared, &why), why);
    return good;
}

static bool few_bits(const plumb_declared_site *site, int bits)
{
    plumb_spec spec;

    return plumb_spec_parse(site->own, NULL, &spec, NULL) == PLUMB_OK &&
           plumb_format_get(spec.format)->bits <= bits;
}

/* The run that README shows has its first moments in bf16. */
static void all_classes_in_few_bits(const demo_scenario *s)
{
    const int bits = s->run != NULL ? 8 : 16;
    bool seen[PLUMB_CLASS_COUNT] = {false};

    for (size_t i = 0; i < declared.site_count; i++)
        if (few_bits(&declared.sites[i], bits))
            seen[declared.sites[i].class_] = true;
    for (int c = 0; c < FOUR; c++)
        CHECK(seen[c], "%s: class %s has no site in %d bits", s->name,
              plumb_class_name((plumb_class)c), bits);
}

/* Each planted glob names sites, all of the planted classes. */
static void sites_are_of_the_class(const demo_scenario *s)
{
    const json_t *globs = json_object_get(s->planted, "sites");
    char words[DEMO_WORDS];
    size_t g;
    const json_t *glob;

    demo_class_words(s->planted, words);
    json_array_foreach(globs, g, glob)
    {
        size_t hits = 0;

        for (size_t i = 0; i < declared.site_count; i++) {
            if (fnmatch(json_string_value(glob), declared.sites[i].name, 0) != 0)
                continue;
            hits++;
            CHECK(strstr(words, plumb_class_name(declared.sites[i].class_)) != NULL,
                  "%s: %s is not of class %s", s->name, declared.sites[i].name, words);
        }
        CHECK(hits > 0, "%s: %s matches no site", s->name, json_string_value(glob));
    }
}

/* What the entry plants is in the run file: its faults, and its rules behind those of the base. */
static void is_planted(const demo_scenario *s)
{
    const json_t *faults = json_object_get(s->planted, "faults");
    const json_t *rules = json_object_get(s->planted, "rules");
    const json_t *all = json_object_get(s->run, "rules");
    const size_t base = json_array_size(all) - json_array_size(rules);

    CHECK(faults == NULL || json_equal(faults, json_object_get(s->run, "faults")),
          "%s: its faults are not in the run", s->name);
    for (size_t i = 0; i < json_array_size(rules); i++)
        CHECK(json_equal(json_array_get(rules, i), json_array_get(all, base + i)),
              "%s: its rules are not in the run", s->name);
    CHECK(base >= 3 && base < 10, "%s: %zu rules of the base", s->name, base);
}

static void each(const demo_scenario *scenarios, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const demo_scenario *s = &scenarios[i];

        if (s->run != NULL)
            is_planted(s);
        if (!ask(s))
            continue;
        if (json_string_value(json_object_get(s->planted, "class")) != NULL ||
            json_object_get(s->planted, "classes") != NULL) {
            all_classes_in_few_bits(s);
            sites_are_of_the_class(s);
        }
        plumb_declaration_free(&declared);
    }
}

/* --- how wide the set is ------------------------------------------------------------------ */

static size_t count_said(const demo_scenario *all, size_t count, const char *words)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        char own[DEMO_WORDS];

        demo_class_words(all[i].planted, own);
        n += strcmp(own, words) == 0;
    }
    return n;
}

static int64_t begins(const demo_scenario *s)
{
    const json_t *faults = json_object_get(s->planted, "faults");

    return json_integer_value(json_object_get(json_array_get(faults, 0), "from"));
}

static void wide_enough(const demo_scenario *all, size_t count)
{
    size_t faults = 0, late = 0, pairs = 0;

    for (int c = 0; c < FOUR; c++)
        CHECK(count_said(all, count, plumb_class_name((plumb_class)c)) >= 3,
              "fewer than three of class %s", plumb_class_name((plumb_class)c));
    for (size_t i = 0; i < count; i++) {
        char words[DEMO_WORDS];

        demo_class_words(all[i].planted, words);
        pairs += strchr(words, '+') != NULL;
        if (strcmp(words, "healthy") != 0 && strcmp(words, "not numerics") != 0) {
            faults++;
            late += begins(&all[i]) > 30;
        }
    }
    CHECK(2 * late >= faults, "%zu of %zu faults begin after step 30", late, faults);
    CHECK(pairs >= 2, "%zu faults need two classes", pairs);
    CHECK(count_said(all, count, "healthy") >= 3, "fewer than three clean runs");
}

static void small(const demo_scenario *s)
{
    const char *path = scratch_at("run-file.json");
    plumb_footprint footprint;
    plumb_error why = {0};

    CHECK_OK(plumb_json_save(path, s->run, &why), why);
    if (CHECK_OK(plumb_train_footprint(path, NULL, 0, 0, &footprint, &why), why))
        CHECK(footprint.parameters <= MOST_PARAMETERS, "%s: %zu parameters", s->name,
              footprint.parameters);
    CHECK(json_integer_value(
              json_object_get(json_object_get(s->run, "optimizer"), "steps")) == 80,
          "%s does not have 80 steps", s->name);
}

/* --- draws ---------------------------------------------------------------------------------- */

static void draws(void)
{
    static demo_scenario drawn[DRAWS];
    json_t *table = NULL;
    plumb_error why = {0};
    size_t other = 0;

    CHECK_OK(demo_load_table(&table, &why), why);
    for (size_t i = DRAWS; i-- > 0;)
        CHECK_OK(demo_draw(table, 7, i, &drawn[i], &why), why);
    check_done("draws");
    each(drawn, DRAWS);
    check_done("the trainer takes each draw, whose site is of its class");
    for (size_t i = 0; i < DRAWS; i++) {
        demo_scenario again, another;

        CHECK_OK(demo_draw(table, 7, i, &again, &why), why);
        CHECK_OK(demo_draw(table, 8, i, &another, &why), why);
        CHECK(json_equal(again.run, drawn[i].run) && strcmp(again.name, drawn[i].name) == 0,
              "draw %zu differs from itself", i);
        json_object_del(again.run, "name");
        json_object_del(another.run, "name");
        other += !json_equal(again.run, another.run);
        json_decref(again.run);
        json_decref(again.planted);
        json_decref(another.run);
        json_decref(another.planted);
    }
    CHECK(other == DRAWS, "%zu of %d draws differ between two seeds", other, DRAWS);
    check_done("a draw depends on its seed and number alone");
    for (int c = 0; c < FOUR; c++)
        CHECK(count_said(drawn, DRAWS, plumb_class_name((plumb_class)c)) >= 4,
              "class %s is hardly ever drawn", plumb_class_name((plumb_class)c));
    check_done("every class is drawn");
    small(&drawn[0]);
    check_done("the model of a draw is small");
    for (size_t i = 0; i < DRAWS; i++) {
        json_decref(drawn[i].run);
        json_decref(drawn[i].planted);
    }
    json_decref(table);
}

int main(void)
{
    demo_scenario *scenarios = NULL;
    size_t count = 0;
    plumb_error why = {0};

    scratch_make();
    CHECK_OK(demo_load(&scenarios, &count, &why), why);
    check_done("scenarios are read");
    each(scenarios, count);
    check_done(
        "the trainer takes each run, all classes are in few bits, and sites are there");
    wide_enough(scenarios, count);
    check_done("the set is wide enough");
    draws();
    demo_free(scenarios, count);
    scratch_remove();
    return check_exit();
}
