/* Vectors of matrix units from CSV files, and how many of them a unit does not give.
 *
 * Columns id,unit,format,output,a,b,c,d, or a,b,c,d with the rest given; # starts a comment.
 * format is that of both operands, or e4m3:e5m2 for A and B.
 * Codes in hexadecimal in order of k; c and d as bits of fp32.
 */
#ifndef TESTS_MATMUL_VECTORS_H
#define TESTS_MATMUL_VECTORS_H

#include "plumb/matmul.h"

enum { VECTOR_K = 64 };

typedef struct vector {
    char id[32];
    plumb_sum_kind kind;
    plumb_format format, format_b, output;
    size_t k;
    uint32_t a[VECTOR_K], b[VECTOR_K]; /* codes, packed as in memory */
    float c;
    uint32_t d;
} vector;

typedef struct vectors {
    vector *rows;
    size_t count;
} vectors;

/* All rows of a file.  Short rows (a,b,c,d) take id, kind, format and output from *of.  False
 * when the file is absent; anything malformed ends the test program with a message.
 */
bool vectors_read(const char *path, const vector *of, vectors *v);
void vectors_free(vectors *v);

/* One row through plumb_unit_dot with `unit`, and through plumb_matmul with its kind by every row of
 * lanes that this CPU has: the first result that is not d.
 */
uint32_t vector_dot(const vector *v, const plumb_unit *unit);
uint32_t vector_matmul(const vector *v, void *workspace);

/* Rows of `kind` that `unit` does not give. */
size_t vectors_missed(const vectors *v, plumb_sum_kind kind, const plumb_unit *unit);

#endif
