/* run.json: what is accepted is within its bounds. */
#include "plumb/log.h"

#include "folder.h"
#include "fuzz.h"

static void check_site(const plumb_declared_site *site)
{
    FUZZ_CHECK(site->name != NULL && strlen(site->name) < PLUMB_SITE_NAME);
    FUZZ_CHECK((int)site->class_ >= 0 && (int)site->class_ < PLUMB_CLASS_COUNT);
    FUZZ_CHECK(site->layer >= -1 && site->own != NULL);
    for (size_t i = 0; i < site->use_count; i++)
        FUZZ_CHECK(site->uses[i][0] != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    plumb_declaration declaration;
    plumb_error why = {0};

    fuzz_file("run.json", data, size);
    if (plumb_declaration_read(scratch_directory, &declaration, &why) != PLUMB_OK) {
        FUZZ_CHECK(why.message[0] != 0 && declaration.sites == NULL);
        return 0;
    }
    FUZZ_CHECK(declaration.trainer != NULL && declaration.world_size >= 1);
    for (size_t i = 0; i < declaration.site_count; i++)
        check_site(&declaration.sites[i]);
    plumb_declaration_free(&declaration);
    return 0;
}
