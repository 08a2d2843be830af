/* npy: what an accepted file promises must be there, as numbers and as codes. */
#include "plumb/file.h"

#include "folder.h"
#include "fuzz.h"

static void read_as(const plumb_format *codes, size_t size)
{
    plumb_npy array;
    plumb_error why = {0};
    size_t count;

    if (plumb_npy_load(scratch_at("a.npy"), codes, &array, &why) != PLUMB_OK) {
        FUZZ_CHECK(array.x == NULL && why.message[0] != 0);
        return;
    }
    FUZZ_CHECK(plumb_mul_size(array.rows, array.cols, &count) && count < size);
    for (size_t i = 0; i < count; i++) {
        const float x = array.x[i];

        FUZZ_CHECK(x == x || x != x); /* reads it, for AddressSanitizer */
    }
    FUZZ_CHECK(array.inexact <= count && array.type[0] != 0);
    plumb_npy_free(&array);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const plumb_format formats[] = {PLUMB_E4M3, PLUMB_BF16};

    fuzz_file("a.npy", data, size);
    read_as(NULL, size);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        read_as(&formats[i], size);
    return 0;
}
