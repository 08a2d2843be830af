/* The elementary functions compiled for AVX-512. */
#define ISA avx512
#include "kernel/math_body.h"
