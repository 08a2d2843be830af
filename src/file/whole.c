/* Files that are read whole, and written so that they are whole or absent. */
#include "plumb/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/whole.h"

enum { NAMES_TRIED = 100 };

/* O_NONBLOCK, since a pipe in a run directory must not hang its reader. */
plumb_status plumb_file_open(const char *path, int *fd, size_t *size, plumb_error *why)
{
    struct stat info;

    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0)
        return plumb_fail(why, errno == ENOENT ? PLUMB_NOT_FOUND : PLUMB_IO, "%s: %s", path,
                          strerror(errno));
    if (fstat(*fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < 0) {
        close(*fd);
        *fd = -1;
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: not a regular file", path);
    }
    *size = (size_t)info.st_size;
    return PLUMB_OK;
}

plumb_status plumb_file_pread(int fd, const char *path, void *data, size_t size,
                              size_t offset, size_t *got, plumb_error *why)
{
    *got = 0;
    while (*got < size) {
        const ssize_t n =
            pread(fd, (char *)data + *got, size - *got, (off_t)(offset + *got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return plumb_fail(why, PLUMB_IO, "%s: %s", path, strerror(errno));
        if (n == 0)
            break;
        *got += (size_t)n;
    }
    return PLUMB_OK;
}

plumb_status plumb_file_read(const char *path, size_t limit, char **data, size_t *size,
                             plumb_error *why)
{
    size_t length;
    plumb_status status;
    int fd;

    *data = NULL;
    *size = 0;
    status = plumb_file_open(path, &fd, &length, why);
    if (status != PLUMB_OK)
        return status;
    if (length > limit || length == SIZE_MAX) {
        status = plumb_fail(why, PLUMB_BAD_INPUT, "%s: %zu bytes; allowed: at most %zu",
                            path, length, limit);
        goto out;
    }
    *data = malloc(length + 1);
    if (*data == NULL) {
        status =
            plumb_fail(why, PLUMB_NO_MEMORY, "%s: no memory for %zu bytes", path, length);
        goto out;
    }
    status = plumb_file_pread(fd, path, *data, length, 0, size, why);
    (*data)[*size] = 0;
    if (status != PLUMB_OK) {
        free(*data);
        *data = NULL;
        *size = 0;
    }
out:
    close(fd);
    return status;
}

bool plumb_file_put(int fd, const void *data, size_t size)
{
    const char *at = data;

    while (size > 0) {
        const ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* Makes a file beside path that did not exist before: PATH.PID.N.tmp. */
static int create_beside(const char *path, char *name, size_t size)
{
    for (int i = 0; i < NAMES_TRIED; i++) {
        snprintf(name, size, "%s.%ld.%d.tmp", path, (long)getpid(), i);
        const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* A rename is durable only once its directory is.  Some file systems cannot sync a
 * directory (EINVAL); there nothing more can be done.
 */
static bool sync_directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *directory =
        slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    bool done = false;

    if (directory == NULL)
        return false;
    const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        done = fsync(fd) == 0 || errno == EINVAL;
        close(fd);
    }
    free(directory);
    return done;
}

/* A device or a pipe would be replaced by the rename, not written to. */
static bool is_special(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

plumb_status plumb_file_write_parts(const char *path, const plumb_part *parts, size_t count,
                                    plumb_error *why)
{
    const size_t size = strlen(path) + 48;
    int fd, error;

    if (is_special(path))
        return plumb_fail(why, PLUMB_IO, "cannot write %s: not a regular file", path);
    char *name = malloc(size);

    if (name == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory to write %s", path);
    fd = create_beside(path, name, size);
    if (fd < 0) {
        error = errno;
        free(name);
        return plumb_fail(why, PLUMB_IO, "cannot write %s: %s", path, strerror(error));
    }
    bool good = true;
    for (size_t i = 0; good && i < count; i++)
        good = plumb_file_put(fd, parts[i].data, parts[i].size);
    good = good && fsync(fd) == 0;
    error = errno;
    if (close(fd) != 0 && good) {
        good = false;
        error = errno;
    }
    if (good && rename(name, path) != 0) {
        good = false;
        error = errno;
    }
    if (!good) {
        unlink(name);
        plumb_fail(why, PLUMB_IO, "cannot write %s: %s", path, strerror(error));
    } else if (!sync_directory_of(path)) {
        good = false;
        plumb_fail(why, PLUMB_IO,
                   "%s is written, but its directory could not be synced: %s", path,
                   strerror(errno));
    }
    free(name);
    return good ? PLUMB_OK : PLUMB_IO;
}

plumb_status plumb_file_write(const char *path, const void *data, size_t size,
                              plumb_error *why)
{
    return plumb_file_write_parts(path, &(plumb_part){data, size}, 1, why);
}
