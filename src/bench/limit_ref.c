/* The limits of vectors of 16 bytes.  Where the baseline has no fma, a product and a sum. */
#define ISA   ref
#define BYTES 16
typedef float reals __attribute__((vector_size(16), may_alias));
static inline reals splat(float x)
{
    return (reals){x, x, x, x};
}
#define fma_of(a, b, c) ((a) * (b) + (c))
#include "bench/limit_body.h"
