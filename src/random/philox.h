/* The block function of Philox4x32-10, apart from its face so that its published test
 * vectors can be checked.
 */
#ifndef PLUMB_RANDOM_PHILOX_H
#define PLUMB_RANDOM_PHILOX_H

#include <stdint.h>

/* out = ten rounds of Philox on counter under key.  out may be counter. */
void plumb_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
