/* The row loops compiled for AVX2. */
#define ISA avx2
#define CPU PLUMB_CPU_AVX2
#include "model/rows_body.h"
