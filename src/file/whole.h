/* file/whole.h - the steps of reading and writing whole files, for rooms that append. */
#ifndef PLUMB_FILE_WHOLE_H
#define PLUMB_FILE_WHOLE_H

#include "plumb/base.h"

typedef struct plumb_part {
    const void *data;
    size_t size;
} plumb_part;

/* Opens a regular file for reading and says how long it is.  Never blocks. */
plumb_status plumb_file_open(const char *path, int *fd, size_t *size, plumb_error *why);

/* Reads size bytes at offset; fewer (*got) only at the end of the file. */
plumb_status plumb_file_pread(int fd, const char *path, void *data, size_t size,
                              size_t offset, size_t *got, plumb_error *why);

/* write() until all of it is written.  False with errno otherwise. */
bool plumb_file_put(int fd, const void *data, size_t size);

/* plumb_file_write of several pieces, one after the other. */
plumb_status plumb_file_write_parts(const char *path, const plumb_part *parts, size_t count,
                                    plumb_error *why);

#endif
