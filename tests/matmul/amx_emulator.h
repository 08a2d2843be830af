/* AMX on a CPU without: a program that is linked with amx_emulator finds the level amx in
 * plumb_cpu_flags, and a handler of SIGILL executes what the CPU refuses.
 *
 * Nothing in the library knows of it: the linker puts a plumb_cpu_flags of the emulator before
 * that of the library.  On a CPU with AMX, and where the level below is missing, nothing is done.
 * A use that the manual answers with an exception, and what the emulator does not know, ends the
 * program with a sentence.
 */
#ifndef AMX_EMULATOR_H
#define AMX_EMULATOR_H

#include <stdbool.h>
#include <stddef.h>

/* Whether this program runs AMX by emulation. */
bool amx_emulated(void);

/* Of this thread: whether tiles are configured, and how many TDPBF16PS it has executed. */
bool amx_configured(void);
size_t amx_multiplications(void);

/* Other arithmetic than the manual's, in all threads from now on. */
typedef enum amx_fault {
    AMX_RIGHT = 0,
    AMX_ONE_CHAIN,   /* all k in one chain, in order */
    AMX_FROM_RESULT, /* the even chain starts from the result */
    AMX_SUMS_APART,  /* even added to the result, then odd */
    AMX_KEEPS_TINY,  /* subnormals everywhere */
    AMX_READS_TINY,  /* operands that are subnormal count, results are flushed */
    AMX_TRUNCATES,   /* rounds toward zero */
    AMX_FAULTS
} amx_fault;

void amx_break(amx_fault fault);

#endif
