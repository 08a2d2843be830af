/* events.jsonl and end.json: only objects with a name come out, only the four reasons. */
#include "plumb/log.h"

#include "folder.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *events;
    char reason[16];
    int64_t step;
    plumb_error why = {0};

    fuzz_file("events.jsonl", data, size);
    FUZZ_CHECK(plumb_events_read(scratch_directory, &events, NULL, NULL) == PLUMB_OK);
    for (size_t i = 0; i < json_array_size(events); i++)
        FUZZ_CHECK(json_is_string(json_object_get(json_array_get(events, i), "event")));
    json_decref(events);
    fuzz_file("end.json", data, size);
    if (plumb_run_end_read(scratch_directory, reason, &step, &why) == PLUMB_OK)
        FUZZ_CHECK(step >= 0 &&
                   (strcmp(reason, "reached") == 0 || strcmp(reason, "error") == 0 ||
                    strcmp(reason, "stopped") == 0 || strcmp(reason, "nonfinite") == 0));
    else
        FUZZ_CHECK(why.message[0] != 0);
    return 0;
}
