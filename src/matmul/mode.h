/* matmul/mode.h - the floating-point mode of a product, and the caller's afterwards. */
#ifndef PLUMB_MATMUL_MODE_H
#define PLUMB_MATMUL_MODE_H

#include "plumb/base.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* Round to nearest with exceptions masked, and with `flush` flush-to-zero and
 * denormals-are-zero (0x8040).  Returns what was there before.
 */
static inline unsigned plumb_mode_enter(bool flush)
{
#if defined(__x86_64__)
    const unsigned before = _mm_getcsr();

    _mm_setcsr(flush ? 0x1f80 | 0x8040 : 0x1f80);
    return before;
#else
    (void)flush;
    return 0;
#endif
}

static inline void plumb_mode_leave(unsigned before)
{
#if defined(__x86_64__)
    _mm_setcsr(before);
#else
    (void)before;
#endif
}

#endif
