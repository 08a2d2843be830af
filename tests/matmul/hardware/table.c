/* Reads the CSV files of hashes: see table.h. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

FILE *table_open(const char *name)
{
    char path[1024];

    snprintf(path, sizeof path, "%s/tests/matmul/hardware/%s", getenv("PLUMB_SOURCE_DIR"),
             name);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        printf("Bail out! cannot read %s\n", path);
        exit(1);
    }
    return file;
}

int table_row(FILE *file, char line[TABLE_LINE], char *field[TABLE_FIELDS])
{
    int n = 0;

    do {
        if (fgets(line, TABLE_LINE, file) == NULL)
            return 0;
    } while (line[0] == '#' || strstr(line, ",hash") != NULL);
    line[strcspn(line, "\n")] = 0;
    for (char *at = strtok(line, ","); at != NULL && n < TABLE_FIELDS;
         at = strtok(NULL, ","))
        field[n++] = at;
    return n;
}
