/* fuzz.h - what a fuzz target and its driver agree on.
 *
 * A target is one file, fuzz_NAME.c, with libFuzzer's entry point.  driver.c makes a quick test
 * of it: it replays the seeds in corpus/NAME and then a fixed number of mutations of them, the
 * same ones every time.  With -DPLUMB_FUZZ=ON and clang the same files become real fuzzers.
 */
#ifndef PLUMB_FUZZ_H
#define PLUMB_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold for every input; a failure is a crash, which both drivers report. */
#define FUZZ_CHECK(condition)                                                              \
    do {                                                                                   \
        if (!(condition))                                                                  \
            abort();                                                                       \
    } while (0)

#endif
