/* The YAML blocks of docs/run-files.md run as they stand (three steps, on the test's own text), and
 * its table names every setting of the program.
 */
#include "run.h"

static void run_block(const char *text, size_t size, int number)
{
    test_run r = test_request();
    char path[128], data[128];
    const char *settings[1] = {data};
    plumb_error why = {0};

    snprintf(path, sizeof path, "%s/block-%d.yaml", test_root, number);
    snprintf(data, sizeof data, "data=%s", test_text);
    CHECK(plumb_file_write(path, text, size, NULL) == PLUMB_OK, "cannot write %s", path);
    r.request.stop_at = 3;
    plumb_dir_make(r.dir, NULL);
    r.request.run_dir = r.dir;
    CHECK(plumb_request_write(&r.request, NULL) == PLUMB_OK, "no request");
    r.request.run_dir = NULL;
    setenv("PLUMB_RUN_DIR", r.dir, 1);
    const int status = plumb_train_main(path, settings, 1, NULL, NULL, &why);

    plumb_history_refresh(r.dir, &r.history, true, NULL);
    CHECK(status == 0 && r.history.count == 3, "block %d gives %d after %zu steps: %s",
          number, status, r.history.count, why.message);
    test_free(&r);
}

static int blocks(const char *text)
{
    int count = 0;

    for (const char *at = strstr(text, "```yaml\n"); at != NULL;
         at = strstr(at, "```yaml\n")) {
        const char *end = strstr(at += 8, "```");

        if (end == NULL)
            break;
        run_block(at, (size_t)(end - at), ++count);
        at = end;
    }
    return count;
}

/* Each line of the program's own description begins with a key; the docs name it too, possibly as the
 * second of a pair.
 */
static void keys(const char *text)
{
    char *described = plumb_train_describe();
    int count = 0;

    if (!CHECK(described != NULL, "no description"))
        return;
    for (char *line = strtok(described, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char key[64] = "", *last;

        if (strspn(line, " ") != 2 || sscanf(line, "%60s", key) != 1)
            continue;
        last = strrchr(key, '.');
        char quoted[72];

        snprintf(quoted, sizeof quoted, "`%s`", key);
        const bool whole = strstr(text, quoted) != NULL;

        snprintf(quoted, sizeof quoted, "`%s`", last == NULL ? key : last + 1);
        CHECK(whole || strstr(text, quoted) != NULL, "the docs lack '%s'", key);
        count++;
    }
    CHECK(count > 20, "only %d settings described", count);
    free(described);
    check_done("settings in the docs");
}

int main(void)
{
    char path[512];
    char *text = NULL;
    size_t size = 0;

    test_begin();
    snprintf(path, sizeof path, "%s/docs/run-files.md", getenv("PLUMB_SOURCE_DIR"));
    if (CHECK(plumb_file_read(path, 1 << 20, &text, &size, NULL) == PLUMB_OK, "no %s",
              path)) {
        CHECK(blocks(text) == 4, "not four examples");
        check_done("examples of the docs");
        keys(text);
    }
    free(text);
    test_end();
    return check_exit();
}
