/* STUDY/lock: one plumb works in a study.
 *
 * The lock is a file that says who holds it, written under another name and linked into
 * place, which is atomic on network file systems too.  A holder of this host that is gone
 * loses it; of a holder elsewhere plumb cannot know, and says so.  Two that take over at the
 * same time are kept apart by flock on the old file.
 */
#include "study/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct holder {
    study_process process;
    char since[32];
} holder;

static void time_now(char text[32])
{
    const time_t now = time(NULL);
    struct tm utc;

    if (gmtime_r(&now, &utc) == NULL || strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        text[0] = 0;
}

static bool read_holder(const char *path, holder *who, plumb_error *why)
{
    json_t *json = NULL;

    *who = (holder){0};
    if (plumb_json_load(path, 1 << 16, &json, why) != PLUMB_OK)
        return false;
    const bool good = study_process_from_json(json, &who->process);
    const char *since = json_string_value(json_object_get(json, "since"));

    if (since != NULL)
        plumb_print(who->since, sizeof who->since, "%s", since);
    json_decref(json);
    return good;
}

/* Writes who we are under a name of our own, in place of what a process with our number may
 * have left.
 */
static plumb_status write_claim(const char *directory, char claim[STUDY_PATH],
                                plumb_error *why)
{
    study_process self;
    char since[32];

    study_process_describe(getpid(), &self);
    time_now(since);
    plumb_print(claim, STUDY_PATH, "%s/lock.%s.%lld", directory, self.host,
                (long long)self.pid);
    json_t *json = study_process_to_json(&self);

    if (json == NULL || json_object_set_new(json, "since", json_string(since)) != 0) {
        json_decref(json);
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the lock of %s", directory);
    }
    const plumb_status status = plumb_json_save(claim, json, why);

    json_decref(json);
    return status;
}

/* link(), or where the file system has no hard links an exclusive copy. */
static int put_in_place(const char *claim, const char *path)
{
    char *data = NULL;
    size_t size = 0;

    if (link(claim, path) == 0)
        return 0;
    if (errno == EEXIST || (errno != EPERM && errno != ENOTSUP && errno != ENOSYS))
        return errno;
    if (plumb_file_read(claim, 1 << 16, &data, &size, NULL) != PLUMB_OK)
        return EIO;
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    int error = fd < 0 ? errno : 0;

    if (fd >= 0 && write(fd, data, size) != (ssize_t)size)
        error = errno != 0 ? errno : EIO;
    if (fd >= 0)
        close(fd);
    free(data);
    return error;
}

static bool is_same_file(int fd, const char *path)
{
    struct stat open_file, named;

    return fstat(fd, &open_file) == 0 && stat(path, &named) == 0 &&
           open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

/* Removes the lock of a process that is gone, if it is still that lock. */
static void remove_stale(const char *path)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    holder who;

    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX) != 0 && errno == EINTR) {
        close(fd); /* the caller comes back */
        return;
    }
    if (is_same_file(fd, path) && read_holder(path, &who, NULL) &&
        study_process_life(&who.process) == STUDY_GONE)
        unlink(path);
    close(fd);
}

static plumb_status refuse(const char *directory, const holder *who, study_life life,
                           plumb_error *why)
{
    if (life == STUDY_ALIVE)
        return plumb_fail(
            why, PLUMB_BUSY,
            "%s is in use by process %lld on %s since %s; wait for it or end it", directory,
            (long long)who->process.pid, who->process.host, who->since);
    return plumb_fail(
        why, PLUMB_BUSY,
        "%s is in use by process %lld on %s since %s, which cannot be seen from "
        "here; if that process is gone, remove %s/lock and try again",
        directory, (long long)who->process.pid, who->process.host, who->since, directory);
}

/* PLUMB_OK: ours; PLUMB_NOT_FOUND: a stale lock was removed or vanished, try again. */
static plumb_status try_lock(const char *directory, const char *claim, const char *path,
                             plumb_error *why)
{
    plumb_error seen = {0};
    holder who;

    const int error = put_in_place(claim, path);
    if (error == 0)
        return PLUMB_OK;
    if (error != EEXIST)
        return plumb_fail(why, PLUMB_IO, "cannot create %s: %s", path, strerror(error));
    if (!read_holder(path, &who, &seen)) {
        if (seen.status == PLUMB_NOT_FOUND)
            return PLUMB_NOT_FOUND;
        return plumb_fail(why, PLUMB_BUSY,
                          "%s does not say who holds it; if no plumb works in this study, "
                          "remove it and try again",
                          path);
    }
    const study_life life = study_process_life(&who.process);

    if (life != STUDY_GONE)
        return refuse(directory, &who, life, why);
    remove_stale(path);
    return PLUMB_NOT_FOUND;
}

plumb_status study_lock(const char *directory, plumb_error *why)
{
    char claim[STUDY_PATH], path[STUDY_PATH];
    plumb_status status;

    plumb_print(path, sizeof path, "%s/lock", directory);
    status = write_claim(directory, claim, why);
    if (status != PLUMB_OK)
        return status;
    status = PLUMB_NOT_FOUND;
    for (int tries = 0; status == PLUMB_NOT_FOUND && tries < 100; tries++)
        status = try_lock(directory, claim, path, why);
    if (status == PLUMB_NOT_FOUND)
        status = plumb_fail(why, PLUMB_BUSY, "%s changes hands all the time", path);
    unlink(claim);
    return status;
}

void study_unlock(const char *directory)
{
    char path[STUDY_PATH];
    study_process self;
    holder who;

    plumb_print(path, sizeof path, "%s/lock", directory);
    study_process_describe(getpid(), &self);
    if (read_holder(path, &who, NULL) && who.process.pid == self.pid &&
        who.process.start == self.start && strcmp(who.process.host, self.host) == 0)
        unlink(path);
}
