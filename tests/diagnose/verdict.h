/* verdict.h - a diagnosis of the fake trainer, and what is expected of its verdict. */
#ifndef TESTS_DIAGNOSE_VERDICT_H
#define TESTS_DIAGNOSE_VERDICT_H

#include "fake.h"

#include "check.h"

static inline const char *text(const json_t *v, const char *key)
{
    const char *found = json_string_value(json_object_get(v, key));

    return found != NULL ? found : "";
}

static inline json_t *diagnose(fake *f, plumb_diagnose_settings settings)
{
    static const char *const command[] = {"fake", "a b", NULL};
    json_t *verdict = NULL;
    plumb_error why = {0};

    fake_begin(f);
    const plumb_runner runner = fake_runner(f);

    settings.command = command;
    CHECK_OK(plumb_diagnose_with(&runner, &settings, NULL, NULL, &verdict, &why), why);
    return verdict;
}

static inline void finish(fake *f, json_t *verdict, const char *name)
{
    json_t *saved = NULL;
    char path[128];
    plumb_error why = {0};

    snprintf(path, sizeof path, "%s/verdict.json", f->directory);
    CHECK_OK(plumb_json_load(path, 1 << 24, &saved, &why), why);
    CHECK(json_equal(saved, verdict), "verdict.json is not what was returned");
    json_decref(saved);
    json_decref(verdict);
    fake_end(f);
    check_done(name);
}

static inline void expect(const json_t *v, const char *verdict, int exit,
                          const char *class_, const char *scope)
{
    CHECK(strcmp(text(v, "verdict"), verdict) == 0, "'%s', want '%s': %s",
          text(v, "verdict"), verdict, text(v, "headline"));
    CHECK(json_integer_value(json_object_get(v, "exit")) == exit, "exit %lld, want %d",
          json_integer_value(json_object_get(v, "exit")), exit);
    CHECK(strcmp(text(v, "class"), class_) == 0, "class '%s', want '%s'", text(v, "class"),
          class_);
    CHECK(strcmp(text(v, "scope"), scope) == 0, "scope '%s', want '%s'", text(v, "scope"),
          scope);
}

/* Exactly the planted sites, by name. */
static inline void expect_sites(const json_t *v, unsigned culprits)
{
    const json_t *sites = json_object_get(v, "sites");
    size_t want = 0;

    for (int i = 0; i < FAKE_SITES; i++) {
        bool found = false;

        for (size_t k = 0; k < json_array_size(sites); k++)
            found |=
                strcmp(json_string_value(json_array_get(sites, k)), fake_names[i]) == 0;
        want += culprits >> i & 1;
        CHECK(found == (culprits >> i & 1), "%s is %s", fake_names[i],
              found ? "named" : "missing");
    }
    CHECK(json_array_size(sites) == want, "%zu sites", json_array_size(sites));
}

static inline long long fix_number(const json_t *v, const char *key)
{
    return json_integer_value(json_object_get(json_object_get(v, "fix"), key));
}

static inline bool mentions(const json_t *v, const char *list, const char *words)
{
    char *all = json_dumps(json_object_get(v, list), JSON_COMPACT);
    const bool found = all != NULL && strstr(all, words) != NULL;

    free(all);
    return found;
}

#endif
