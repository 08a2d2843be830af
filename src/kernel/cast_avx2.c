/* The casts compiled for AVX2. */
#define ISA avx2
#include "kernel/cast_body.h"
