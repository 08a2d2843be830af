/* Policy rules: what is accepted is written and read back as the same. */
#include "plumb/log.h"

#include "folder.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    plumb_rules rules, again;
    plumb_error why = {0};

    fuzz_file("policy.json", data, size);
    if (plumb_rules_load(scratch_at("policy.json"), &rules, &why) != PLUMB_OK) {
        FUZZ_CHECK(why.message[0] != 0 && rules.at == NULL);
        return 0;
    }
    json_t *json = plumb_rules_to_json(&rules);
    FUZZ_CHECK(plumb_rules_from_json(json, "again", &again, NULL) == PLUMB_OK);
    FUZZ_CHECK(again.count == rules.count);
    for (size_t i = 0; i < rules.count; i++) {
        FUZZ_CHECK(strcmp(rules.at[i].use, again.at[i].use) == 0);
        FUZZ_CHECK(rules.at[i].glob_count > 0 && rules.at[i].raise == again.at[i].raise);
    }
    json_decref(json);
    plumb_rules_free(&again);
    plumb_rules_free(&rules);
    return 0;
}
