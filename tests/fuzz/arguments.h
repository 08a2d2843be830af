/* arguments.h - a fuzzer's bytes as arguments: whatever is asked for beyond their end is 0. */
#ifndef PLUMB_FUZZ_ARGUMENTS_H
#define PLUMB_FUZZ_ARGUMENTS_H

#include "fuzz.h"

#include <string.h>

enum { GUARD = 64, GUARD_BYTE = 0xa5 };

typedef struct arguments {
    const uint8_t *at;
    size_t left;
} arguments;

static inline uint8_t take_byte(arguments *a)
{
    if (a->left == 0)
        return 0;
    a->left--;
    return *a->at++;
}

static inline uint32_t take_word(arguments *a)
{
    uint32_t word = 0;

    for (int i = 0; i < 4; i++)
        word |= (uint32_t)take_byte(a) << (8 * i);
    return word;
}

static inline float take_float(arguments *a)
{
    const uint32_t bits = take_word(a);
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* size bytes between two guards, all GUARD_BYTE; the caller frees what guarded() returns. */
static inline uint8_t *guarded(size_t size)
{
    uint8_t *block = malloc(size + 2 * GUARD);

    if (block == NULL)
        exit(0); /* no memory is no finding */
    memset(block, GUARD_BYTE, size + 2 * GUARD);
    return block;
}

static inline void check_guards(const uint8_t *block, size_t size)
{
    for (size_t i = 0; i < GUARD; i++)
        FUZZ_CHECK(block[i] == GUARD_BYTE && block[GUARD + size + i] == GUARD_BYTE);
}

#endif
