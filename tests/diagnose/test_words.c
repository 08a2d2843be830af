/* The line to paste, read back by a shell: arguments and variables arrive as the trainer got them. */
#include "diagnose/experiment.h"

#include "check.h"

#include <stdlib.h>

static const char *const command[] = {
    "printf", "%s\\n", "{run_dir}/$(echo x)`echo y`\"z", "it's {run_dir}", "a*b  $HOME",
    "",       NULL};

/* A value with a blank is still an assignment. */
static void values(void)
{
    static const char *const ask[] = {"printenv", "PLUMB_START", "PLUMB_POLICY", NULL};
    char start[] = "step 3's", got[256] = "";
    plumb_request request;

    plumb_request_init(&request);
    request.start = start;
    char *line = plumb_shell_line(&request, "/my study/policy.json", ask);
    char *all = line != NULL ? plumb_text("%s; rmdir \"$PLUMB_RUN_DIR\"", line) : NULL;
    FILE *shell = all != NULL ? popen(all, "r") : NULL;

    if (CHECK(shell != NULL, "no line, or no shell")) {
        got[fread(got, 1, sizeof got - 1, shell)] = 0;
        pclose(shell);
        CHECK(strcmp(got, "step 3's\n/my study/policy.json\n") == 0, "%s gave %s", line,
              got);
    }
    free(all);
    free(line);
    check_done("values with blanks");
}

int main(void)
{
    plumb_request request;
    char got[4096] = "", want[4096], directory[1024] = "";

    plumb_request_init(&request);
    request.stop_at = 7;
    char *line = plumb_shell_line(&request, NULL, command);
    char *all = line != NULL ? plumb_text("%s; echo \"$PLUMB_RUN_DIR\"", line) : NULL;
    FILE *shell = all != NULL ? popen(all, "r") : NULL;

    if (CHECK(shell != NULL, "no line, or no shell")) {
        got[fread(got, 1, sizeof got - 1, shell)] = 0;
        CHECK(pclose(shell) == 0, "the shell refuses %s", line);
        const char *last = strrchr(got, '/');

        while (last != NULL && last > got && last[-1] != '\n')
            last--;
        if (CHECK(last != NULL, "no directory in %s", got))
            snprintf(directory, sizeof directory, "%.*s", (int)strcspn(last, "\n"), last);
        snprintf(want, sizeof want, "%s/$(echo x)`echo y`\"z\nit's %s\na*b  $HOME\n\n%s\n",
                 directory, directory, directory);
        CHECK(strcmp(got, want) == 0, "%s became\n%s", line, got);
        if (strstr(directory, "/tmp") != NULL)
            plumb_dir_remove(directory, NULL);
    }
    free(all);
    free(line);
    check_done("a line to paste");
    values();
    return check_exit();
}
