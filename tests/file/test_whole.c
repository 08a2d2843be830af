/* Files are whole or absent: under kill -9, a full disk, a directory in the way, no rights.
 *
 * A full disk is played by RLIMIT_FSIZE, which makes write() fail in the middle.
 */
#include "plumb/file.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "file/scratch.h"

/* Number of entries of the scratch folder `name`. */
static int entries(const char *name)
{
    DIR *directory = opendir(scratch_at(name));
    int count = 0;

    while (directory != NULL && readdir(directory) != NULL)
        count++;
    if (directory != NULL)
        closedir(directory);
    return count - 2;
}

static bool has_bytes(const char *name, const char *want)
{
    size_t size;
    char *got = scratch_get(name, &size);
    const bool same = got != NULL && size == strlen(want) && memcmp(got, want, size) == 0;

    free(got);
    return same;
}

static void write_and_read(void)
{
    plumb_error why = {0};
    char *data;
    size_t size;

    scratch_folder("w");
    CHECK_OK(plumb_file_write(scratch_at("w/a"), "one", 3, &why), why);
    CHECK(has_bytes("w/a", "one"), "not what was written");
    CHECK_OK(plumb_file_write(scratch_at("w/a"), "second", 6, &why), why);
    CHECK(has_bytes("w/a", "second"), "not replaced");
    CHECK(entries("w") == 1, "%d entries, want 1", entries("w"));
    CHECK_OK(plumb_file_read(scratch_at("w/a"), 6, &data, &size, &why), why);
    CHECK(size == 6 && memcmp(data, "second", 7) == 0, "read '%s'", data);
    free(data);
    CHECK(plumb_file_read(scratch_at("w/a"), 5, &data, &size, &why) == PLUMB_BAD_INPUT &&
              data == NULL && strstr(why.message, "6 bytes") != NULL,
          "limit: %s", why.message);
    CHECK(plumb_file_read(scratch_at("w/b"), 5, &data, &size, &why) == PLUMB_NOT_FOUND,
          "absent: %s", why.message);
    CHECK(plumb_file_read(scratch_at("w"), 5, &data, &size, &why) == PLUMB_BAD_INPUT,
          "directory: %s", why.message);
    CHECK_OK(plumb_file_write(scratch_at("w/empty"), NULL, 0, &why), why);
    CHECK_OK(plumb_file_read(scratch_at("w/empty"), 0, &data, &size, &why), why);
    CHECK(size == 0 && data[0] == 0, "empty file of %zu bytes", size);
    free(data);
    mkfifo(scratch_at("w/pipe"), 0666);
    CHECK(plumb_file_read(scratch_at("w/pipe"), 5, &data, &size, &why) == PLUMB_BAD_INPUT,
          "a pipe: %s", why.message);
    check_done("write and read");
}

/* In the current folder, without a slash in the path. */
static void bare_name(void)
{
    plumb_error why = {0};
    char old[512];

    if (getcwd(old, sizeof old) != NULL && chdir(scratch_directory) == 0) {
        CHECK_OK(plumb_file_write("bare", "x", 1, &why), why);
        CHECK(chdir(old) == 0, "no way back");
        CHECK(has_bytes("bare", "x"), "not written");
    }
    check_done("a name without a folder");
}

/* A rename onto a device or a pipe would take its place. */
static void special(void)
{
    plumb_error why = {0};
    struct stat info;

    scratch_folder("pipe");
    if (!CHECK(mkfifo(scratch_at("pipe/p"), 0600) == 0, "no pipe for the test"))
        return;
    CHECK(plumb_file_write(scratch_at("pipe/p"), "x", 1, &why) == PLUMB_IO &&
              strstr(why.message, "not a regular file") != NULL,
          "written over a pipe: %s", why.message);
    CHECK(stat(scratch_at("pipe/p"), &info) == 0 && S_ISFIFO(info.st_mode),
          "the pipe is gone");
    CHECK(entries("pipe") == 1, "%d entries, want 1", entries("pipe"));
    check_done("devices and pipes are not replaced");
}

static void full_disk(void)
{
    const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    const struct rlimit small = {1000, RLIM_INFINITY};
    static char big[100000];
    plumb_error why = {0};

    scratch_folder("full");
    scratch_text("full/a", "old");
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    const plumb_status status =
        plumb_file_write(scratch_at("full/a"), big, sizeof big, &why);
    setrlimit(RLIMIT_FSIZE, &none);
    CHECK(status == PLUMB_IO && strstr(why.message, "full/a") != NULL, "%d: %s",
          (int)status, why.message);
    CHECK(has_bytes("full/a", "old"), "the old file is gone");
    CHECK(entries("full") == 1, "a temporary file was left: %d entries", entries("full"));
    check_done("full disk");
}

static void rename_fails(void)
{
    plumb_error why = {0};

    scratch_folder("taken");
    scratch_folder("taken/a");
    CHECK(plumb_file_write(scratch_at("taken/a"), "x", 1, &why) == PLUMB_IO,
          "over a folder");
    CHECK(entries("taken") == 1, "a temporary file was left: %d entries", entries("taken"));
    CHECK(plumb_file_write(scratch_at("nowhere/a"), "x", 1, &why) == PLUMB_IO, "no folder");
    check_done("rename refused");
}

/* As root, rights do not bind; the child becomes nobody first. */
static void read_only(void)
{
    int status = 0;

    scratch_folder("locked");
    scratch_text("locked/a", "old");
    chmod(scratch_at("locked"), 0555);
    chmod(scratch_directory, 0755);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && setuid(65534) != 0)
            _exit(77);
        _exit(plumb_file_write(scratch_at("locked/a"), "new", 3, NULL) == PLUMB_IO ? 0 : 1);
    }
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77),
          "child's status %d", status);
    CHECK(has_bytes("locked/a", "old"), "changed in a folder without write permission");
    CHECK(entries("locked") == 1, "%d entries", entries("locked"));
    chmod(scratch_at("locked"), 0755);
    check_done("read-only folder");
}

/* Writes two texts in turn for ever. */
static void write_in_turn(const char *path, size_t size)
{
    char *text = malloc(size);

    for (char c = 'a'; text != NULL; c = c == 'a' ? 'b' : 'a') {
        memset(text, c, size);
        plumb_file_write(path, text, size, NULL);
    }
    _exit(1);
}

static void killed(void)
{
    enum { SIZE = 200000 };
    int whole = 0;

    scratch_folder("kill");
    fflush(stdout);
    for (int round = 0; round < 20; round++) {
        const struct timespec wait = {0, 2000000 + 700000 * round};
        const pid_t child = fork();

        if (child == 0)
            write_in_turn(scratch_at("kill/a"), SIZE);
        nanosleep(&wait, NULL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        size_t size = 0;
        char *got = scratch_get("kill/a", &size);
        if (got == NULL) /* killed before the first rename */
            continue;
        bool same = size == SIZE;
        for (size_t i = 1; same && i < size; i++)
            same = got[i] == got[0];
        CHECK(same, "round %d: a part of %zu bytes", round, size);
        whole += same;
        free(got);
    }
    CHECK(whole > 0, "no round came as far as a file");
    check_done("kill -9");
}

static void directories(void)
{
    plumb_error why = {0};
    struct stat info;

    CHECK_OK(plumb_dir_make(scratch_at("d/e//f/"), &why), why);
    CHECK(stat(scratch_at("d/e/f"), &info) == 0 && S_ISDIR(info.st_mode), "not made");
    CHECK_OK(plumb_dir_make(scratch_at("d/e/f"), &why), why);
    scratch_text("d/e/file", "x");
    CHECK(plumb_dir_make(scratch_at("d/e/file/g"), &why) == PLUMB_IO, "under a file");
    CHECK(plumb_dir_make(scratch_at("d/e/file"), &why) == PLUMB_IO, "on a file");
    scratch_folder("outside");
    scratch_text("outside/keep", "x");
    CHECK(symlink(scratch_at("outside"), scratch_at("d/link")) == 0, "no link");
    CHECK(symlink(scratch_at("outside/keep"), scratch_at("d/e/link")) == 0, "no link");
    CHECK_OK(plumb_dir_remove(scratch_at("d"), &why), why);
    CHECK(lstat(scratch_at("d"), &info) != 0, "still there");
    CHECK(has_bytes("outside/keep", "x"), "a link was followed");
    CHECK_OK(plumb_dir_remove(scratch_at("d"), &why), why);
    CHECK(symlink(scratch_at("outside"), scratch_at("link")) == 0, "no link");
    CHECK_OK(plumb_dir_remove(scratch_at("link"), &why), why);
    CHECK(has_bytes("outside/keep", "x") && lstat(scratch_at("link"), &info) != 0,
          "a link at the top was followed or kept");
    check_done("directories");
}

static void joins(void)
{
    static const char *const table[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"/", "b", "/b"}};

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char *path = plumb_path_join(table[i][0], table[i][1]);
        CHECK(strcmp(path, table[i][2]) == 0, "'%s' + '%s' = '%s'", table[i][0],
              table[i][1], path);
        free(path);
    }
    check_done("path join");
}

int main(void)
{
    scratch_make();
    write_and_read();
    bare_name();
    special();
    full_disk();
    rename_fails();
    read_only();
    killed();
    directories();
    joins();
    scratch_remove();
    return check_exit();
}
