/* metrics.jsonl: steps increase, and it does not matter in how many pieces the file grew. */
#include "plumb/log.h"

#include "folder.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    plumb_history whole = {0}, pieces = {0};

    fuzz_file("metrics.jsonl", data, size / 3);
    FUZZ_CHECK(plumb_history_refresh(scratch_directory, &pieces, false, NULL) == PLUMB_OK);
    fuzz_file("metrics.jsonl", data, size / 2);
    FUZZ_CHECK(plumb_history_refresh(scratch_directory, &pieces, false, NULL) == PLUMB_OK);
    fuzz_file("metrics.jsonl", data, size);
    FUZZ_CHECK(plumb_history_refresh(scratch_directory, &pieces, true, NULL) == PLUMB_OK);
    FUZZ_CHECK(plumb_history_refresh(scratch_directory, &whole, true, NULL) == PLUMB_OK);
    FUZZ_CHECK(whole.count == pieces.count && whole.bad_lines == pieces.bad_lines &&
               whole.lines == pieces.lines &&
               whole.backward_steps == pieces.backward_steps);
    FUZZ_CHECK(whole.offset == (int64_t)size);
    for (size_t i = 0; i < whole.count; i++) {
        FUZZ_CHECK(whole.at[i].step >= 1 && whole.at[i].step == pieces.at[i].step);
        FUZZ_CHECK(i == 0 || whole.at[i].step > whole.at[i - 1].step);
    }
    plumb_history_free(&whole);
    plumb_history_free(&pieces);
    return 0;
}
