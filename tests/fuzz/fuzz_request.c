/* request.json, and the same bytes as the value of a variable: what is accepted is within its
 * bounds and goes out again as the same.
 */
#include "plumb/log.h"

#include "folder.h"
#include "fuzz.h"

static void check(plumb_request *request)
{
    FUZZ_CHECK(request->stop_at >= -1 && request->observe_every >= 0);
    FUZZ_CHECK(request->lr_scale > 0 && request->clip_scale > 0 &&
               request->warmup_scale > 0);
    FUZZ_CHECK(request->skip.first >= 0 && request->skip.last >= request->skip.first);
    char **lines = plumb_request_environment(request);
    char *text = plumb_request_substitute(request, "{seed} {policy} {start} {x}");
    FUZZ_CHECK(lines != NULL && text != NULL);
    free(text);
    plumb_environment_free(lines);
}

static void read_back(const plumb_request *request)
{
    plumb_request again;

    FUZZ_CHECK(plumb_request_write(request, NULL) == PLUMB_OK);
    FUZZ_CHECK(plumb_request_read(&again, NULL) == PLUMB_OK);
    FUZZ_CHECK(again.seed == request->seed && again.stop_at == request->stop_at &&
               again.checkpoint_count == request->checkpoint_count &&
               again.skip.last == request->skip.last);
    plumb_request_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"PLUMB_SEED",    "PLUMB_CHECKPOINT_AT",
                                        "PLUMB_SKIP",    "PLUMB_LR_SCALE",
                                        "PLUMB_STOP_AT", "PLUMB_POLICY"};
    const char *name = names[size % 6];
    plumb_request request;
    plumb_error why = {0};

    fuzz_file("request.json", data, size);
    setenv("PLUMB_RUN_DIR", scratch_directory, 1);
    if (plumb_request_read(&request, &why) == PLUMB_OK) {
        check(&request);
        read_back(&request);
        plumb_request_free(&request);
    } else {
        FUZZ_CHECK(why.message[0] != 0);
    }
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    unsetenv("PLUMB_RUN_DIR");
    setenv(name, text, 1);
    if (plumb_request_read(&request, &why) == PLUMB_OK) {
        check(&request);
        plumb_request_free(&request);
    }
    unsetenv(name);
    free(text);
    return 0;
}
