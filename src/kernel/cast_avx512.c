/* The casts compiled for AVX-512. */
#define ISA avx512
#include "kernel/cast_body.h"
