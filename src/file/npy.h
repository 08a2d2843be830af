/* file/npy.h - the header of an npy file: a Python dictionary, read without Python.
 *
 * The text is foreign.  It is read by a grammar of its own, never evaluated; what the grammar
 * does not know is refused with the place.
 */
#ifndef PLUMB_FILE_NPY_H
#define PLUMB_FILE_NPY_H

#include "plumb/base.h"

typedef struct npy_header {
    char kind;    /* 'f' 'u' 'V' ...: as NumPy's type letters */
    bool swapped; /* most significant byte first */
    size_t item;  /* bytes of one element */
    bool fortran;
    int ndim;
    size_t shape[2];
    char descr[16]; /* for messages: printable */
} npy_header;

/* Reads the dictionary between the 10 or 12 bytes of the file's start and its data. */
plumb_status npy_header_read(const char *path, const char *text, size_t size,
                             npy_header *header, plumb_error *why);

#endif
