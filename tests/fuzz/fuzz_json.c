/* JSON with bare NaN: what is accepted must survive being written and read again. */
#include "plumb/file.h"

#include <string.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *json, *again;
    plumb_error why = {0};

    if (plumb_json_parse((const char *)data, size, "input", &json, &why) != PLUMB_OK) {
        FUZZ_CHECK(json == NULL && strncmp(why.message, "input: line ", 12) == 0);
        return 0;
    }
    char *text = json_dumps(json, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    FUZZ_CHECK(text != NULL);
    FUZZ_CHECK(plumb_json_parse(text, strlen(text), "again", &again, NULL) == PLUMB_OK);
    FUZZ_CHECK(json_equal(json, again));
    json_decref(again);
    json_decref(json);
    free(text);
    return 0;
}
