/* base/size.h - sizes that are compared. */
#ifndef PLUMB_BASE_SIZE_H
#define PLUMB_BASE_SIZE_H

#include <stddef.h>

static inline size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

#endif
