/* Policy files: what rules become, and what is refused in which words. */
#include "plumb/log.h"

#include "check.h"
#include "file/scratch.h"

static void good(void)
{
    plumb_rules rules;
    plumb_error why = {0};

    scratch_text("p.json",
                 "[{\"sites\":\"*/dgrad/*\",\"use\":\"bf16\",\"raise\":true},"
                 "{\"use\":\"e4m3:delayed:history=16\",\"sites\":[\"a\",\"b*\"]}]");
    CHECK_OK(plumb_rules_load(scratch_at("p.json"), &rules, &why), why);
    if (CHECK(rules.count == 2, "%zu rules", rules.count)) {
        CHECK(rules.at[0].glob_count == 1 &&
                  strcmp(rules.at[0].globs[0], "*/dgrad/*") == 0 &&
                  strcmp(rules.at[0].use, "bf16") == 0 && rules.at[0].raise,
              "first rule");
        CHECK(rules.at[1].glob_count == 2 && strcmp(rules.at[1].globs[1], "b*") == 0 &&
                  strcmp(rules.at[1].use, "e4m3:delayed:history=16") == 0 &&
                  !rules.at[1].raise,
              "second rule");
    }
    json_t *json = plumb_rules_to_json(&rules);
    char *text = json_dumps(json, JSON_COMPACT);
    CHECK(strcmp(text,
                 "[{\"sites\":[\"*/dgrad/*\"],\"use\":\"bf16\",\"raise\":true},"
                 "{\"sites\":[\"a\",\"b*\"],\"use\":\"e4m3:delayed:history=16\"}]") == 0,
          "%s", text);
    free(text);
    json_decref(json);
    plumb_rules_free(&rules);
    scratch_text("p.json", "[]");
    CHECK_OK(plumb_rules_load(scratch_at("p.json"), &rules, &why), why);
    CHECK(rules.count == 0, "%zu rules", rules.count);
    plumb_rules_free(&rules);
    check_done("rules");
}

static const struct {
    const char *text, *want;
} refused[] = {
    {"{}", "not a list of at most 10000 rules"},
    {"3", "not a list of at most 10000 rules"},
    {"[3]", "rule 1: not an object with 'sites' and 'use'"},
    {"[{\"use\":\"bf16\"}]", "rule 1: 'sites' is missing"},
    {"[{\"sites\":\"*\"}]",
     "rule 1: 'use' must be a name of 1 to 127 printable characters"},
    {"[{\"sites\":\"*\",\"use\":\"bf16\"},{\"sites\":\"*\",\"use\":\"\"}]",
     "rule 2: 'use' must be a name of 1 to 127 printable characters"},
    {"[{\"sites\":\"*\",\"use\":\"b f\"}]",
     "rule 1: 'use' must be a name of 1 to 127 printable characters"},
    {"[{\"sites\":\"*\",\"use\":3}]",
     "rule 1: 'use' must be a name of 1 to 127 printable characters"},
    {"[{\"sites\":[],\"use\":\"bf16\"}]",
     "rule 1: 'sites' must be a glob or a list of 1 to 10000"},
    {"[{\"sites\":\"\",\"use\":\"bf16\"}]",
     "rule 1: 'sites' must be globs of 1 to 256 bytes"},
    {"[{\"sites\":3,\"use\":\"bf16\"}]", "rule 1: 'sites' must be globs of 1 to 256 bytes"},
    {"[{\"sites\":[\"a\",3],\"use\":\"bf16\"}]",
     "rule 1: 'sites' must be globs of 1 to 256 bytes"},
    {"[{\"sites\":\"*\",\"use\":\"bf16\",\"raise\":1}]",
     "rule 1: 'raise' must be true or false"},
    {"[{\"site\":\"*\",\"use\":\"bf16\"}]",
     "rule 1: unknown key 'site'; did you mean 'sites'?"},
    {"[{\"sites\":\"*\",\"use\":\"bf16\",\"zzzzz\":1}]",
     "rule 1: unknown key 'zzzzz'; allowed: sites, use, raise"},
};

static void bad(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        json_t *json = json_loads(refused[i].text, JSON_DECODE_ANY, NULL);
        plumb_rules rules;
        plumb_error why = {0};
        char want[200];

        snprintf(want, sizeof want, "here: %s", refused[i].want);
        CHECK(plumb_rules_from_json(json, "here", &rules, &why) == PLUMB_BAD_INPUT &&
                  strcmp(why.message, want) == 0 && rules.at == NULL,
              "%s: '%s'", refused[i].text, why.message);
        json_decref(json);
    }
    check_done("refused");
}

static void limits(void)
{
    json_t *array = json_array(), *globs = json_array();
    plumb_rules rules;
    char glob[258];

    for (int i = 0; i < 10001; i++)
        json_array_append_new(array, json_pack("{s:s,s:s}", "sites", "*", "use", "own"));
    CHECK(plumb_rules_from_json(array, "x", &rules, NULL) == PLUMB_BAD_INPUT,
          "10001 rules");
    json_array_remove(array, 0);
    CHECK(plumb_rules_from_json(array, "x", &rules, NULL) == PLUMB_OK &&
              rules.count == 10000,
          "10000 rules");
    plumb_rules_free(&rules);
    json_array_clear(array);
    memset(glob, 'a', 257);
    glob[257] = 0;
    json_array_append_new(globs, json_string(glob + 1));
    json_array_append_new(array, json_pack("{s:O,s:s}", "sites", globs, "use", "own"));
    CHECK(plumb_rules_from_json(array, "x", &rules, NULL) == PLUMB_OK, "256 bytes");
    plumb_rules_free(&rules);
    json_array_append_new(globs, json_string(glob));
    CHECK(plumb_rules_from_json(array, "x", &rules, NULL) == PLUMB_BAD_INPUT, "257 bytes");
    json_decref(globs);
    json_decref(array);
    check_done("limits");
}

int main(void)
{
    scratch_make();
    good();
    bad();
    limits();
    scratch_remove();
    return check_exit();
}
