/* Checkpoints of a run, as its events tell of them. */
#include "diagnose/experiment.h"

#include <string.h>

enum { LONGEST = 4096 /* of a ref; longer ones are passed over */ };

char *plumb_checkpoint_before(const char *run_dir, int64_t before, int64_t *step)
{
    json_t *events = NULL, *event;
    size_t bad_lines, i;
    const char *best = NULL;

    *step = 0;
    if (run_dir == NULL ||
        plumb_events_read(run_dir, &events, &bad_lines, NULL) != PLUMB_OK)
        return NULL;
    json_array_foreach(events, i, event)
    {
        const char *name = json_string_value(json_object_get(event, "event"));
        const char *ref = json_string_value(json_object_get(event, "ref"));
        const json_int_t at = json_integer_value(json_object_get(event, "step"));

        if (name == NULL || ref == NULL || strcmp(name, "checkpoint") != 0 ||
            at >= before || at <= *step || strlen(ref) >= LONGEST)
            continue;
        best = ref;
        *step = at;
    }
    char *copy = best != NULL ? plumb_text("%s", best) : NULL;

    json_decref(events);
    return copy;
}
