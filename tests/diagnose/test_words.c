/* The line to paste, read back by a shell: arguments and variables arrive as the trainer got them. */
#include "diagnose/experiment.h"

#include "check.h"

#include <stdlib.h>

static const char *const command[] = {
    "printf", "%s\\n", "{run_dir}/$(echo x)`echo y`\"z", "it's {run_dir}", "a*b  $HOME",
    "",       NULL};

/* What mktemp made: the rest of the line that begins here. */
static void remove_directory(char *line)
{
    line[strcspn(line, "\n")] = 0;
    if (line[0] == '/')
        plumb_dir_remove(line, NULL);
}

/* A value with a blank is still an assignment. */
static void values(void)
{
    static const char *const ask[] = {"printenv", "PLUMB_START", "PLUMB_POLICY",
                                      "PLUMB_RUN_DIR", NULL};
    static const char want[] = "step 3's\n/my study/policy.json\n";
    char start[] = "step 3's", got[256] = "";
    plumb_request request;

    plumb_request_init(&request);
    request.start = start;
    char *line = plumb_shell_line(&request, "/my study/policy.json", ask);
    FILE *shell = line != NULL ? popen(line, "r") : NULL;

    if (CHECK(shell != NULL, "no line, or no shell")) {
        got[fread(got, 1, sizeof got - 1, shell)] = 0;
        pclose(shell);
        if (CHECK(strncmp(got, want, sizeof want - 1) == 0, "%s gave %s", line, got))
            remove_directory(got + sizeof want - 1);
    }
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
    char *all = line != NULL ? plumb_text("%s; echo \"[$PLUMB_RUN_DIR]\"", line) : NULL;
    FILE *shell = all != NULL ? popen(all, "r") : NULL;

    if (CHECK(shell != NULL, "no line, or no shell")) {
        got[fread(got, 1, sizeof got - 1, shell)] = 0;
        CHECK(pclose(shell) == 0, "the shell refuses %s", line);
        const char *at = strstr(got, "it's /");

        if (CHECK(at != NULL, "no directory in %s", got))
            snprintf(directory, sizeof directory, "%.*s", (int)strcspn(at + 5, "\n"),
                     at + 5);
        /* and the directory does not stay behind in the shell that it was pasted into */
        snprintf(want, sizeof want, "%s/$(echo x)`echo y`\"z\nit's %s\na*b  $HOME\n\n[]\n",
                 directory, directory);
        CHECK(strcmp(got, want) == 0, "%s became\n%s", line, got);
        remove_directory(directory);
    }
    free(all);
    free(line);
    check_done("a line to paste");
    values();
    return check_exit();
}
