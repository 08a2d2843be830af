/* table.h - reads the CSV files of hashes that lie in this folder. */
#ifndef TESTS_MATMUL_HARDWARE_TABLE_H
#define TESTS_MATMUL_HARDWARE_TABLE_H

#include <stdio.h>

enum { TABLE_LINE = 256, TABLE_FIELDS = 10 };

/* A file of this folder; ends the test program when it is absent. */
FILE *table_open(const char *name);

/* The next line that is neither comment nor heading, cut at its commas: how many fields. */
int table_row(FILE *file, char line[TABLE_LINE], char *field[TABLE_FIELDS]);

#endif
