/* The table of docs/run-contract.md, section 11, is that of the program: row for row, word for word. */
#include "plumb/log.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "plumb/file.h"

/* The page as one string; exits when it cannot be read. */
static char *read_page(void)
{
    const char *root = getenv("PLUMB_SOURCE_DIR");
    plumb_error why;
    char path[4096], *text = NULL;
    size_t size;

    snprintf(path, sizeof path, "%s/docs/run-contract.md", root != NULL ? root : ".");
    if (plumb_file_read(path, 1 << 20, &text, &size, &why) != PLUMB_OK) {
        fprintf(stderr, "%s\n", why.message);
        exit(1);
    }
    return text;
}

static void rows(const char *page)
{
    static const char head[] = "| what is missing | what it costs | how to close it |\n"
                               "| --- | --- | --- |\n";
    const char *at = strstr(page, head);
    char row[1000];

    CHECK(at != NULL, "the page has no such table");
    at = at != NULL ? at + strlen(head) : "";
    for (size_t i = 0; i < PLUMB_LACK_COUNT; i++) {
        const plumb_lack_row *lack = &plumb_lacks[i];
        const size_t length = strcspn(at, "\n");

        snprintf(row, sizeof row, "| %s | %s | %s |", lack->what, lack->cost, lack->close);
        CHECK(strlen(row) == length && memcmp(row, at, length) == 0,
              "row %zu is '%.*s', the program has '%s'", i + 1, (int)length, at, row);
        at += length + (at[length] == '\n');
    }
    CHECK(*at == '\n', "the page has a row more: %.60s", at);
    check_done("the table of the page");
}

static void names(void)
{
    for (size_t i = 0; i < PLUMB_LACK_COUNT; i++) {
        const plumb_lack_row *lack = &plumb_lacks[i];

        CHECK(lack->name != NULL && strcspn(lack->name, " ") == strlen(lack->name),
              "row %zu has no name of one word", i);
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(plumb_lacks[k].name, lack->name) != 0, "%s twice", lack->name);
    }
    check_done("names");
}

int main(void)
{
    char *page = read_page();

    rows(page);
    names();
    free(page);
    return check_exit();
}
