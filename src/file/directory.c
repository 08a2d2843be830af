/* Directories: made as by `mkdir -p`, removed as by `rm -r`, never through a link. */
#include "plumb/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEEPEST = 64 /* each level holds a descriptor open */ };

static bool is_directory(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

plumb_status plumb_dir_make(const char *path, plumb_error *why)
{
    char *part = strdup(path);
    plumb_status status = PLUMB_OK;

    if (part == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory to make %s", path);
    for (char *p = part; status == PLUMB_OK && *p != 0;) {
        p += strspn(p, "/");
        p += strcspn(p, "/");
        const char kept = *p;
        *p = 0;
        if (*part != 0 && mkdir(part, 0777) != 0) {
            const int error = errno;
            if (!is_directory(part))
                status = plumb_fail(why, PLUMB_IO, "cannot make directory %s: %s", part,
                                    strerror(error == EEXIST ? ENOTDIR : error));
        }
        *p = kept;
    }
    free(part);
    return status;
}

static bool empty_directory(int fd, int depth);

static bool remove_at(int parent, const char *name, int depth)
{
    struct stat info;

    if (fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT;
    if (!S_ISDIR(info.st_mode))
        return unlinkat(parent, name, 0) == 0 || errno == ENOENT;
    if (depth >= DEEPEST) {
        errno = ELOOP;
        return false;
    }
    const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && empty_directory(fd, depth + 1) &&
           (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT);
}

/* Removes what is in the directory; closes fd. */
static bool empty_directory(int fd, int depth)
{
    DIR *const directory = fdopendir(fd);
    bool good = true;
    const struct dirent *entry;

    if (directory == NULL) {
        close(fd);
        return false;
    }
    while (good && (errno = 0, entry = readdir(directory)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            good = remove_at(fd, entry->d_name, depth);
    const int error = errno;
    closedir(directory);
    errno = error;
    return good && error == 0;
}

plumb_status plumb_dir_remove(const char *path, plumb_error *why)
{
    if (!remove_at(AT_FDCWD, path, 0))
        return plumb_fail(why, PLUMB_IO, "cannot remove %s: %s", path, strerror(errno));
    return PLUMB_OK;
}

char *plumb_path_join(const char *directory, const char *name)
{
    const size_t length = strlen(directory), more = strlen(name);
    const bool slash = length > 0 && directory[length - 1] != '/';
    char *path = malloc(length + more + 2);

    if (path == NULL)
        return NULL;
    memcpy(path, directory, length);
    if (slash)
        path[length] = '/';
    memcpy(path + length + slash, name, more + 1);
    return path;
}
