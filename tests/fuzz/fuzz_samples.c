/* .pls files.  A random change nearly always breaks a CRC, so each input is tried a second
 * time with its checks made good: only then do the lengths behind them come to be tested.
 */
#include "plumb/log.h"

#include "folder.h"
#include "fuzz.h"
#include "log/crc32c.h"
#include "log/pls.h"

static void try_file(const uint8_t *data, size_t size)
{
    plumb_samples samples;
    plumb_error why = {0};

    fuzz_file("sites-rank00000.pls", data, size);
    if (plumb_samples_read(scratch_directory, &samples, &why) != PLUMB_OK) {
        FUZZ_CHECK(why.message[0] != 0 && samples.at == NULL);
        return;
    }
    for (size_t i = 0; i < samples.count; i++) {
        FUZZ_CHECK(samples.at[i].site < samples.site_count);
        FUZZ_CHECK(i == 0 || samples.at[i].step >= samples.at[i - 1].step);
    }
    plumb_samples_free(&samples);
}

static void try_histograms(const uint8_t *data, size_t size)
{
    plumb_histograms histograms;
    plumb_error why = {0};

    fuzz_file("spectra-rank00000.pls", data, size);
    if (plumb_histograms_read(scratch_directory, &histograms, &why) != PLUMB_OK) {
        FUZZ_CHECK(why.message[0] != 0 && histograms.at == NULL);
        return;
    }
    for (size_t i = 0; i < histograms.count; i++)
        FUZZ_CHECK(histograms.at[i].sample.site < histograms.site_count);
    plumb_histograms_free(&histograms);
}

static void mend(uint8_t *bytes, size_t size)
{
    size_t at = PLS_HEADER;

    if (size < PLS_HEADER || plumb_get_u32(bytes + 12) > size - PLS_HEADER)
        return;
    const size_t text = plumb_get_u32(bytes + 12);
    plumb_put_u32(bytes + 16, plumb_crc32c(0, bytes + PLS_HEADER, text));
    for (at += text; size - at >= PLS_CHUNK;) {
        const size_t length = plumb_get_u32(bytes + at);
        if (length > size - at - PLS_CHUNK)
            return;
        plumb_put_u32(bytes + at + 4,
                      plumb_crc32c(0, bytes + at + 8, PLS_CHUNK - 8 + length));
        at += PLS_CHUNK + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);

    try_file(data, size);
    if (copy == NULL || size == 0) {
        free(copy);
        return 0;
    }
    memcpy(copy, data, size);
    mend(copy, size);
    try_file(copy, size);
    try_histograms(copy, size);
    free(copy);
    return 0;
}
