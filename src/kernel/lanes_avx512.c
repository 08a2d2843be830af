/* The lane sums compiled for AVX-512. */
#define ISA avx512
#include "kernel/lanes_body.h"
