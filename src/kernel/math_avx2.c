/* The elementary functions compiled for AVX2. */
#define ISA avx2
#include "kernel/math_body.h"
