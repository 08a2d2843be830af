/* The lane sums compiled for AVX2. */
#define ISA avx2
#include "kernel/lanes_body.h"
