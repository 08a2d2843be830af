/* `plumb demo --all --faults-seed N`: scenarios drawn at random from the table `draws` of
 * scenarios.yaml.
 *
 * Every choice is a pure function of the seed and the number of the draw (plumb/random.h), so a
 * study that was killed goes on with the same scenarios.
 */
#include "cli/demo.h"

#include "plumb/policy.h"
#include "plumb/random.h"

#include <string.h>

/* --- drawing ------------------------------------------------------------------------- */

typedef struct source {
    uint64_t seed, index;
} source;

static size_t below(const source *s, const char *what, size_t n)
{
    char name[80];

    plumb_print(name, sizeof name, "demo/%s", what);
    return n == 0 ? 0
                  : (size_t)plumb_random_below(s->seed, plumb_random_stream(name), s->index,
                                               n);
}

/* One of a list; anything else is taken as it is.  Borrowed. */
static json_t *choose(const source *s, const char *what, json_t *value)
{
    if (!json_is_array(value))
        return value;
    return json_array_get(value, below(s, what, json_array_size(value)));
}

static const char *class_of(const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "class"));

    return name != NULL ? name : "";
}

/* Classes first, so that each comes as often however many rows it has; then a row of it. */
static const json_t *choose_row(const source *s, const json_t *rows)
{
    const char *classes[PLUMB_CLASS_COUNT];
    size_t count = 0, i, left = 0;
    const json_t *row;

    for (int c = 0; c < PLUMB_CLASS_COUNT; c++) {
        bool there = false;

        json_array_foreach(rows, i, row) there =
            there || strcmp(class_of(row), plumb_class_name((plumb_class)c)) == 0;
        if (there)
            classes[count++] = plumb_class_name((plumb_class)c);
    }
    if (count == 0)
        return NULL;
    const char *wanted = classes[below(s, "class", count)];

    json_array_foreach(rows, i, row) left += strcmp(class_of(row), wanted) == 0;
    left = below(s, "row", left);
    json_array_foreach(rows, i, row)
    {
        if (strcmp(class_of(row), wanted) == 0 && left-- == 0)
            return row;
    }
    return NULL;
}

static int64_t layers_of(const json_t *run)
{
    return json_integer_value(json_object_get(json_object_get(run, "model"), "layers"));
}

/* "layer.{layer}/{module}/dgrad/dy" with a layer and a module drawn. */
static void draw_site(const source *s, const char *pattern, int64_t layers, char *site,
                      size_t size)
{
    static const char *const modules[] = {"attn.qkv", "attn.out", "mlp.up", "mlp.down"};

    site[0] = 0;
    for (const char *at = pattern; *at != 0;) {
        if (strncmp(at, "{layer}", 7) == 0) {
            plumb_append(site, size, "%zu", below(s, "layer", (size_t)layers));
            at += 7;
        } else if (strncmp(at, "{module}", 8) == 0) {
            plumb_append(site, size, "%s", modules[below(s, "module", 4)]);
            at += 8;
        } else {
            plumb_append(site, size, "%c", *at++);
        }
    }
}

/* A range [first, last] of whole numbers. */
static int64_t draw_from(const source *s, const json_t *range)
{
    const int64_t first = json_integer_value(json_array_get(range, 0));
    const int64_t last = json_integer_value(json_array_get(range, 1));

    return first + (int64_t)below(s, "from", (size_t)(last - first + 1));
}

static json_t *draw_fault(const source *s, const json_t *row, const char *site)
{
    json_t *fault = json_object();
    const char *key;
    json_t *value;

    json_object_foreach(json_object_get(row, "fault"), key, value)
    {
        if (strcmp(key, "from") == 0)
            json_object_set_new(fault, key, json_integer(draw_from(s, value)));
        else
            json_object_set(fault, key, choose(s, key, value));
    }
    json_object_set_new(fault, "sites", json_string(site));
    return fault;
}

static void name_draw(const source *s, const json_t *row, char name[DEMO_NAME])
{
    const char *kind =
        json_string_value(json_object_get(json_object_get(row, "fault"), "kind"));

    plumb_print(name, DEMO_NAME, "draw-%llu-%llu-%.30s", (unsigned long long)s->seed,
                (unsigned long long)s->index + 1, kind != NULL ? kind : "rule");
}

/* A row without a fault plants a rule: {sites, use}. */
static json_t *entry_of(const source *s, const json_t *row, const char *site,
                        const char *name)
{
    json_t *entry = json_pack("{s:s,s:O,s:s,s:s,s:[s],s:{s:I,s:I}}", "name", name, "base",
                              json_object_get(row, "base"), "verdict", "numerics", "class",
                              class_of(row), "sites", site, "set", "seed",
                              (json_int_t)(1 + below(s, "seed", 1000)), "data_seed",
                              (json_int_t)(1 + below(s, "data-seed", 1000)));

    if (json_object_get(row, "fault") != NULL)
        json_object_set_new(entry, "faults", json_pack("[o]", draw_fault(s, row, site)));
    if (json_object_get(row, "use") != NULL)
        json_object_set_new(entry, "rules",
                            json_pack("[{s:s,s:O}]", "sites", site, "use",
                                      choose(s, "use", json_object_get(row, "use"))));
    return entry;
}

/* "frozen-weight at head/fprop/w from step 12", "e4m3:none at the site from the first step". */
static void describe(json_t *entry, const char *site)
{
    const json_t *fault = json_array_get(json_object_get(entry, "faults"), 0);
    const json_t *rule = json_array_get(json_object_get(entry, "rules"), 0);
    const json_t *what =
        json_object_get(fault != NULL ? fault : rule, fault != NULL ? "kind" : "use");
    const json_int_t from =
        fault != NULL ? json_integer_value(json_object_get(fault, "from")) : 1;
    char text[PLUMB_SITE_NAME + 120];

    plumb_print(text, sizeof text, "%.60s at %s from step %lld",
                json_is_string(what) ? json_string_value(what) : "nothing", site,
                (long long)from);
    json_object_set_new(entry, "summary", json_string(text));
}

plumb_status demo_draw(const json_t *table, uint64_t seed, uint64_t index,
                       demo_scenario *scenario, plumb_error *why)
{
    const source s = {seed, index};
    const json_t *bases = json_object_get(table, "bases");
    const json_t *row = choose_row(&s, json_object_get(table, "draws"));
    const char *pattern =
        json_string_value(choose(&s, "sites", json_object_get(row, "sites")));
    char site[PLUMB_SITE_NAME];

    if (pattern == NULL || json_object_get(row, "base") == NULL)
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "scenarios.yaml: a row of draws needs class, base and sites");
    *scenario = (demo_scenario){.run = demo_run_file(bases, row, why)};
    if (scenario->run == NULL)
        return PLUMB_BAD_INPUT;
    draw_site(&s, pattern, layers_of(scenario->run), site, sizeof site);
    name_draw(&s, row, scenario->name);
    json_decref(scenario->run);
    scenario->planted = entry_of(&s, row, site, scenario->name);
    describe(scenario->planted, site);
    scenario->run = demo_run_file(bases, scenario->planted, why);
    return scenario->run != NULL ? PLUMB_OK : PLUMB_BAD_INPUT;
}
