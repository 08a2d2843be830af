/* folder.h - a folder in which a target keeps its input as a file, made at the first call and
 * removed at exit.
 */
#ifndef PLUMB_FUZZ_FOLDER_H
#define PLUMB_FUZZ_FOLDER_H

#include "file/scratch.h"

static inline void fuzz_file(const char *name, const void *data, size_t size)
{
    if (scratch_directory[0] == 0) {
        scratch_make();
        atexit(scratch_remove);
    }
    scratch_put(name, data, size);
}

#endif
