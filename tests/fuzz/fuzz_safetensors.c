/* safetensors: every byte that an accepted file promises must be there. */
#include "plumb/file.h"

#include "folder.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    plumb_safetensors *file;
    plumb_error why = {0};
    size_t total = 0, sum = 0;

    fuzz_file("a.safetensors", data, size);
    if (plumb_safetensors_open(scratch_at("a.safetensors"), &file, &why) != PLUMB_OK) {
        FUZZ_CHECK(file == NULL && why.message[0] != 0);
        return 0;
    }
    for (size_t i = 0; i < plumb_safetensors_count(file); i++) {
        const plumb_named_view *tensor = plumb_safetensors_at(file, i);
        const unsigned char *bytes = tensor->view.data;
        size_t elements, span;

        FUZZ_CHECK(plumb_view_size(&tensor->view, &elements, &span));
        FUZZ_CHECK(plumb_safetensors_find(file, tensor->name) == tensor);
        for (size_t j = 0; j < span; j++)
            sum += bytes[j];
        total += span;
    }
    FUZZ_CHECK(total < size && sum <= 255 * total);
    plumb_safetensors_close(&file);
    return 0;
}
