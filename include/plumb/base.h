/* plumb/base.h - status codes, error messages, memory, checked sizes, CPU features.
 *
 * Every other header includes this one.  Nothing here does I/O or starts
 * threads.  All functions are safe to call from several threads, except
 * plumb_cpu_limit, which is meant to be called once at start-up, and the arena,
 * which belongs to one thread at a time.
 */
#ifndef PLUMB_BASE_H
#define PLUMB_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLUMB_VERSION "0.1.0"

#if defined(__GNUC__)
#define PLUMB_PRINTF(format_index, first_argument)                                         \
    __attribute__((format(printf, format_index, first_argument)))
#else
#define PLUMB_PRINTF(format_index, first_argument)
#endif

/* What a fallible function returns.  Numbers are pinned: append only. */
typedef enum plumb_status {
    PLUMB_OK = 0,

    PLUMB_BAD_ARGUMENT = 10, /* the caller broke the rules in the header */
    PLUMB_BAD_FORMAT = 11,   /* a number format this function cannot handle */
    PLUMB_BAD_SHAPE = 12,    /* sizes that do not fit together, or overflow */
    PLUMB_BAD_INPUT = 13,    /* a file or text from outside is malformed */
    PLUMB_NOT_FOUND = 14,    /* a name or file that does not exist */

    PLUMB_NO_MEMORY = 20,
    PLUMB_IO = 21,   /* the operating system refused */
    PLUMB_BUSY = 22, /* somebody else holds the lock */

    PLUMB_INTERRUPTED = 30, /* the user asked to stop */
    PLUMB_UNSUPPORTED = 31, /* cannot be done as asked (exit status 3 of a run) */
} plumb_status;

/* One English sentence that says what was seen and what was allowed.  Kept in the
 * caller's frame: filling it allocates nothing.  Messages longer than the buffer
 * are cut.
 */
typedef struct plumb_error {
    plumb_status status;
    char message[512];
} plumb_error;

/* Stores status and message in *why (which may be NULL) and returns status, so that
 * a failing function reads `return plumb_fail(why, PLUMB_BAD_SHAPE, "K=%zu ...", K);`.
 */
plumb_status plumb_fail(plumb_error *why, plumb_status status, const char *format, ...)
    PLUMB_PRINTF(3, 4);

/* snprintf for libplumb, which does not include stdio.h: the text is cut to size - 1
 * characters and always ends with 0.
 */
void plumb_print(char *text, size_t size, const char *format, ...) PLUMB_PRINTF(3, 4);

/* The same behind what text holds already, which ends with 0 within size; no argument may point
 * into text.
 */
void plumb_append(char *text, size_t size, const char *format, ...) PLUMB_PRINTF(3, 4);

/* "ok", "bad argument", ...: for messages.  Never NULL. */
const char *plumb_status_name(plumb_status status);

/* Version and build (git describe where known), e.g. "0.1.0 (3f2a91c)". */
const char *plumb_build_id(void);

/* --- checked sizes ------------------------------------------------------- */

/* *out = a * b, or *out = a + b.  False, with *out untouched, when it overflows. */
bool plumb_mul_size(size_t a, size_t b, size_t *out);
bool plumb_add_size(size_t a, size_t b, size_t *out);

/* --- arena --------------------------------------------------------------- */

/* A block of memory that is dealt out in pieces and freed as a whole.
 *
 * First pass: call plumb_arena_take on an arena with no block to add up the need
 * (it returns NULL).  Then plumb_arena_commit, then the same calls again.  Pieces
 * are aligned to 64 bytes and start as zero bits.  Under AddressSanitizer the gap
 * between pieces is poisoned.  Zero-initialise before use.
 *
 * The caller may set label to what the next pieces are for; asked then says, from the first
 * pass on, how many bytes each label takes.  Their sum is what commit allocates.
 */
enum { PLUMB_ARENA_LABELS = 8 };

typedef struct plumb_arena {
    unsigned char *block;
    size_t size;   /* bytes in block */
    size_t used;   /* bytes dealt out, or asked for while block is NULL */
    bool overflow; /* a size overflowed; commit will refuse */
    size_t label;  /* below PLUMB_ARENA_LABELS */
    size_t asked[PLUMB_ARENA_LABELS];
} plumb_arena;

/* count * bytes_each bytes, or NULL before commit and when the block is exhausted
 * (which only a second pass that differs from the first can cause).
 */
void *plumb_arena_take(plumb_arena *arena, size_t count, size_t bytes_each);

/* Allocates what the first pass asked for.  PLUMB_NO_MEMORY or PLUMB_BAD_SHAPE. */
plumb_status plumb_arena_commit(plumb_arena *arena, plumb_error *why);

/* Frees the block and zeroes *arena.  Accepts a zeroed arena and NULL. */
void plumb_arena_free(plumb_arena *arena);

/* --- CPU ----------------------------------------------------------------- */

/* Named levels, each a whole set of instructions as CPUID *and* XGETBV report them. */
enum {
    PLUMB_CPU_BASELINE = 0,
    PLUMB_CPU_AVX2 = 1 << 0,       /* AVX2, FMA, F16C, BMI2 */
    PLUMB_CPU_AVX512 = 1 << 1,     /* F, BW, DQ, VL; implies AVX2 */
    PLUMB_CPU_AVX512BF16 = 1 << 2, /* BF16, VBMI, VNNI, VPOPCNTDQ; implies AVX512 */
    PLUMB_CPU_AMX = 1 << 3,        /* AMX-TILE, AMX-BF16; implies AVX512BF16 */
};

/* The levels that this machine has and the limit allows.  Where AMX is allowed and there, the
 * process first asks Linux for its registers, once; all threads have them then.
 */
unsigned plumb_cpu_flags(void);

/* Never use levels outside mask from now on (default: all).  Results do not change:
 * every variant of a kernel has the same bits.  For tests, and for users who want
 * to see that for themselves: the environment of the command line tool sets it
 * from PLUMB_CPU, a name of a level.
 */
void plumb_cpu_limit(unsigned mask);

/* "baseline", "avx2", "avx512", "avx512bf16", "amx" for i = 0, 1, ...; NULL past the last. */
const char *plumb_cpu_level_name(size_t i);

/* Name -> mask of that level and all below.  False, with *mask untouched, if unknown. */
bool plumb_cpu_parse(const char *name, unsigned *mask);

/* Whether the processor is one of AMD.  An instruction that a kernel can use may be fast on some
 * processors only: VDPBF16PS multiplies at twice the rate of FMA on Zen 4, and is not preferred to
 * FMA where that is not known.
 */
bool plumb_cpu_is_amd(void);

/* --- words that somebody mistyped ------------------------------------------- */

/* The candidate nearest to word: edit distance at most a third of its length, where the case
 * of letters costs nothing and a '*' in word stands for anything; else the first that begins
 * with word, if it has three letters.  Or NULL.
 */
const char *plumb_nearest(const char *word, const char *const *candidates, size_t count);

/* The same as the end of a sentence, "; did you mean 'e4m3'?", or "".  Returns text. */
enum { PLUMB_HINT = 160 };
const char *plumb_hint(const char *word, const char *const *candidates, size_t count,
                       char text[PLUMB_HINT]);

#ifdef __cplusplus
}
#endif
#endif
