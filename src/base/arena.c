/* One block, dealt out in aligned pieces.
 *
 *   |piece 0 ... pad|gap|piece 1 ... pad|gap| ...
 *
 * Each piece starts at a multiple of 64 bytes and is followed by a gap of 64, which
 * AddressSanitizer sees as poison, so that one block does not hide overruns.
 */
#include "plumb/base.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define POISON(p, n)   ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

enum { ALIGN = 64, GAP = 64 };

void *plumb_arena_take(plumb_arena *arena, size_t count, size_t bytes_each)
{
    const size_t start = arena->used;
    size_t bytes, end;

    if (!plumb_mul_size(count, bytes_each, &bytes) ||
        !plumb_add_size(bytes, ALIGN - 1 + GAP, &end) ||
        !plumb_add_size(start, end & ~(size_t)(ALIGN - 1), &end)) {
        arena->overflow = true;
        return NULL;
    }
    if (arena->block != NULL && end > arena->size)
        return NULL;
    arena->used = end;
    if (arena->block == NULL) {
        arena->asked[arena->label % PLUMB_ARENA_LABELS] += end - start;
        return NULL;
    }
    UNPOISON(arena->block + start, bytes);
    return arena->block + start;
}

plumb_status plumb_arena_commit(plumb_arena *arena, plumb_error *why)
{
    if (arena->overflow)
        return plumb_fail(why, PLUMB_BAD_SHAPE, "the sizes asked for do not fit in memory");
    const size_t size = arena->used > 0 ? arena->used : ALIGN;

    arena->block = aligned_alloc(ALIGN, size);
    if (arena->block == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu bytes", size);
    memset(arena->block, 0, size);
    POISON(arena->block, size);
    arena->size = size;
    arena->used = 0;
    return PLUMB_OK;
}

void plumb_arena_free(plumb_arena *arena)
{
    if (arena == NULL)
        return;
    if (arena->block != NULL)
        UNPOISON(arena->block, arena->size);
    free(arena->block);
    *arena = (plumb_arena){0};
}
