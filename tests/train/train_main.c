/* The trainer alone: train_main RUN.yaml|- [key=value]..., for tests that need a process. */
#include "plumb/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    plumb_error why = {0};
    const char *level = getenv("PLUMB_CPU");
    unsigned mask;

    if (argc < 2)
        return 3;
    if (level != NULL && plumb_cpu_parse(level, &mask))
        plumb_cpu_limit(mask);
    const int status =
        plumb_train_main(strcmp(argv[1], "-") == 0 ? NULL : argv[1],
                         (const char *const *)argv + 2, (size_t)argc - 2, NULL, NULL, &why);

    if (status != 0)
        fprintf(stderr, "%s\n", why.message);
    return status;
}
